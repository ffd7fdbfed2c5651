//! The netmods' own loops, which ours are held against.

use crate::fixture::Network;
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::ofi::{self, Ofi};
use rankway::netmod::ucx::{self, Ucx};
use rankway::netmod::{NetError, Netmod};
use rankway::rma::RawTarget;
use std::rc::Rc;
use std::sync::Arc;

/// A netmod with loops of its own.
pub(crate) trait Measured: Netmod {
    /// A target as they know it.
    type Target: Copy;
    /// Whether there is a loop of tracked puts too.
    const TRACKED: bool;

    /// Opens a device on a network. Collective over the job.
    fn open(boot: Arc<dyn Boot>, network: &Network) -> Result<Rc<Context<Self>>, String>;

    /// A place in a target's memory, `offset` bytes from its start.
    fn target(raw: &RawTarget, offset: u64) -> Self::Target;

    /// Issues `count` puts that are copied at the call, in turn.
    ///
    /// # Safety
    /// As [`Netmod::inject`], for every target.
    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
    ) -> Result<(), NetError>;

    /// Issues `count` tracked puts, `window` of them at a time.
    ///
    /// # Safety
    /// As [`Netmod::write`], for every target.
    unsafe fn tracked(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError>;
}

impl Measured for Ofi {
    type Target = ofi::baseline::Target;
    const TRACKED: bool = true;

    fn open(boot: Arc<dyn Boot>, network: &Network) -> Result<Rc<Context<Ofi>>, String> {
        let provider = match network {
            Network::Provider(name) => Some(name.clone()),
            _ => None,
        };
        let options = Options::default().provider(provider);
        device::open_ofi(boot, &options).map_err(|e| crate::fixture::explain(&e))
    }

    fn target(raw: &RawTarget, offset: u64) -> Self::Target {
        ofi::baseline::Target { dest: raw.dest, addr: raw.addr + offset }
    }

    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [LIMIT] for every target, [BUF]: `data` outlives the call.
        unsafe { endpoint.raw_inject(data.as_ptr(), data.len(), targets, key, count) }
    }

    unsafe fn tracked(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [LIMIT] for every target, [BUF]: `data` stays until all is complete.
        unsafe { endpoint.raw_write(data.as_ptr(), data.len(), targets, key, count, window) }
    }
}

impl Measured for Ucx {
    type Target = ucx::baseline::Target;
    const TRACKED: bool = false;

    fn open(boot: Arc<dyn Boot>, _: &Network) -> Result<Rc<Context<Ucx>>, String> {
        device::open_ucx(boot, &Options::default()).map_err(|e| e.to_string())
    }

    fn target(raw: &RawTarget, offset: u64) -> Self::Target {
        ucx::baseline::Target { dest: raw.dest, addr: raw.addr + offset, key: raw.key }
    }

    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        _: u64,
        count: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [KEY] for every target, [BUF]: `data` outlives the call.
        unsafe { endpoint.raw_put(data.as_ptr(), data.len(), targets, count) }
    }

    unsafe fn tracked(
        _: &Self::Endpoint,
        _: &[u8],
        _: &[Self::Target],
        _: u64,
        _: usize,
        _: usize,
    ) -> Result<(), NetError> {
        Ok(())
    }
}
