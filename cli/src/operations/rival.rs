//! The libraries' own loops of messages and atomics, which ours are held
//! against.

use rankway::netmod::ofi::{self, Ofi};
use rankway::netmod::ucx::{self, Ucx};
use rankway::netmod::{NetError, Netmod};
use rankway::rma::RawTarget;

/// Bytes of a message.
pub(super) const LEN: usize = 8;

/// A netmod with loops of its own.
pub(super) trait Rival: Netmod {
    /// `count` tagged messages there and back; one side is `first`.
    ///
    /// # Safety
    /// \[DEST\], as [`Netmod`] has it: `dest` is the other side's endpoint. The provider
    /// wants no local registration.
    unsafe fn ping_pong(
        endpoint: &Self::Endpoint,
        dest: u64,
        first: bool,
        count: usize,
    ) -> Result<(), NetError>;

    /// `count` tagged messages one way, in windows that are answered.
    ///
    /// # Safety
    /// As [`Rival::ping_pong`].
    unsafe fn stream(
        endpoint: &Self::Endpoint,
        dest: u64,
        sends: bool,
        count: usize,
        window: usize,
    ) -> Result<(), NetError>;

    /// `count` fetching adds, or compare-and-swaps, each waited for.
    ///
    /// # Safety
    /// \[DEST\], \[KEY\], as [`Netmod`] has them: `target` is an aligned 64-bit word of a
    /// window in an open epoch, of the context that `endpoint` is of. The provider
    /// wants no local registration.
    unsafe fn atomics(
        endpoint: &Self::Endpoint,
        target: &RawTarget,
        swap: bool,
        count: usize,
    ) -> Result<(), NetError>;
}

impl Rival for Ofi {
    unsafe fn ping_pong(
        endpoint: &Self::Endpoint,
        dest: u64,
        first: bool,
        count: usize,
    ) -> Result<(), NetError> {
        let (from, mut to) = ([1_u8; LEN], [0_u8; LEN]);
        let partner =
            ofi::baseline::Partner { dest, from: from.as_ptr(), to: to.as_mut_ptr(), len: LEN };
        // SAFETY: [DEST]; the loop ends when all is done, or the error ends the program.
        unsafe { endpoint.library()?.raw_ping_pong(partner, first, count) }
    }

    unsafe fn stream(
        endpoint: &Self::Endpoint,
        dest: u64,
        sends: bool,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let (from, mut to) = ([1_u8; LEN], [0_u8; LEN]);
        let partner =
            ofi::baseline::Partner { dest, from: from.as_ptr(), to: to.as_mut_ptr(), len: LEN };
        let endpoint = endpoint.library()?;
        // SAFETY: [DEST]; the buffers as in `ping_pong`.
        unsafe {
            match sends {
                true => endpoint.raw_stream(partner, count, window),
                false => endpoint.raw_sink(partner, count, window),
            }
        }
    }

    unsafe fn atomics(
        endpoint: &Self::Endpoint,
        target: &RawTarget,
        swap: bool,
        count: usize,
    ) -> Result<(), NetError> {
        let to = ofi::baseline::Target { dest: target.dest, addr: target.addr };
        let endpoint = endpoint.library()?;
        // SAFETY: [DEST]; the target's word is registered, being a window's, and aligned.
        unsafe {
            match swap {
                true => endpoint.raw_compare_swap(to, target.key, count, 1),
                false => endpoint.raw_fetch_add(to, target.key, count, 1),
            }
        }
    }
}

impl Rival for Ucx {
    unsafe fn ping_pong(
        endpoint: &ucx::Worker,
        dest: u64,
        first: bool,
        count: usize,
    ) -> Result<(), NetError> {
        let mut buf = [1_u8; LEN];
        // SAFETY: [DEST]; [BUF]: the loop ends when all is done.
        unsafe { endpoint.raw_ping_pong(dest, buf.as_mut_ptr(), LEN, count, first) }
    }

    unsafe fn stream(
        endpoint: &ucx::Worker,
        dest: u64,
        sends: bool,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let mut buf = [1_u8; LEN];
        // SAFETY: [DEST]; [BUF]: the loop ends when all is done, or the error ends the program.
        unsafe { endpoint.raw_stream(dest, buf.as_mut_ptr(), LEN, count, window, sends) }
    }

    unsafe fn atomics(
        endpoint: &ucx::Worker,
        target: &RawTarget,
        swap: bool,
        count: usize,
    ) -> Result<(), NetError> {
        let to = ucx::baseline::Target { dest: target.dest, addr: target.addr, key: target.key };
        // SAFETY: [DEST], [KEY]; `addr` is aligned.
        unsafe { endpoint.raw_atomic(to, swap, count) }.map(drop)
    }
}
