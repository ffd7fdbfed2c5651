//! Tagged messages as a C program would send them.

use super::super::bindings as sys;
use super::super::endpoint::Endpoint;
use super::super::ffi;
use super::raw::Raw;
use crate::netmod::NetError;
use std::ptr::null_mut;

const TAG: u64 = 0x5241_4e4b;

impl Raw<'_> {
    /// One tagged message: injected where it is short enough, which completes
    /// at once, else with a completion. Answers how many to wait for.
    ///
    /// # Safety
    /// \[DEST\], \[BUF\] until then, and the `n`th context is free.
    #[inline]
    unsafe fn tsend(
        &self,
        endpoint: &Endpoint,
        buf: *const u8,
        len: usize,
        dest: u64,
        n: usize,
    ) -> Result<usize, NetError> {
        let ep = endpoint.ep();
        if len <= endpoint.owner().inject {
            // SAFETY: [DEST], [BUF]; no longer than an inject.
            let call = || unsafe { ffi::fi_tinject(ep, buf.cast(), len, dest, TAG) };
            return self.issue("fi_tinject", call).map(|()| 0);
        }
        let iov = sys::iovec { iov_base: buf.cast_mut().cast(), iov_len: len };
        let msg = sys::fi_msg_tagged {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: dest,
            tag: TAG,
            ignore: 0,
            context: self.context(n),
            data: 0,
        };
        // SAFETY: [DEST]; [BUF] and the context, which is free, stay until the completion;
        // vectors are copied at the call (fi_tagged(3)).
        let call = || unsafe { ffi::fi_tsendmsg(ep, &msg, sys::FI_COMPLETION) };
        self.issue("fi_tsendmsg", call).map(|()| 1)
    }

    /// # Safety
    /// \[BUF\] to write to, until the completion; the `n`th context is free.
    #[inline]
    unsafe fn trecv(
        &self,
        endpoint: &Endpoint,
        buf: *mut u8,
        len: usize,
        n: usize,
    ) -> Result<(), NetError> {
        let (ep, any, context) = (endpoint.ep(), ffi::FI_ADDR_UNSPEC, self.context(n));
        // SAFETY: [BUF] and the context, which is free, stay until the completion.
        self.issue("fi_trecv", || unsafe {
            ffi::fi_trecv(ep, buf.cast(), len, null_mut(), any, TAG, 0, context)
        })
    }
}

/// The two buffers of a raw loop and the peer.
#[derive(Clone, Copy, Debug)]
pub struct Partner {
    /// `fi_addr_t`.
    pub dest: u64,
    /// What is sent, `len` bytes.
    pub from: *const u8,
    /// Where what comes goes, `len` bytes.
    pub to: *mut u8,
    /// Bytes of a message.
    pub len: usize,
}

impl Endpoint {
    /// Sends and receives `count` messages in turns; `first` sends first. The
    /// receive is posted before the send, as one does.
    ///
    /// # Errors
    /// The provider's refusal, other than "no space now".
    ///
    /// # Safety
    /// \[DEST\]; the buffers are as long as said, stay until the loop is over, after an
    /// error for good, and need no registration (providers without `FI_MR_LOCAL`);
    /// the provider has messages.
    #[inline(never)]
    pub unsafe fn raw_ping_pong(
        &self,
        p: Partner,
        first: bool,
        count: usize,
    ) -> Result<(), NetError> {
        let raw = Raw::new(self, 2);
        let mut due = 0;
        // SAFETY: here and below [DEST], and [BUF] for both buffers; receives have context
        // 0, sends 1, and both are waited for before the next.
        unsafe { raw.trecv(self, p.to, p.len, 0)? };
        for n in 0..count {
            if first {
                // SAFETY: as above.
                due += unsafe { raw.tsend(self, p.from, p.len, p.dest, 1)? };
            }
            due += 1;
            raw.wait(due)?;
            if n + 1 < count {
                // SAFETY: as above.
                unsafe { raw.trecv(self, p.to, p.len, 0)? };
            }
            if !first {
                // SAFETY: as above.
                due += unsafe { raw.tsend(self, p.from, p.len, p.dest, 1)? };
            }
        }
        raw.wait(due)?;
        raw.end();
        Ok(())
    }

    /// Sends `count` messages; after every `window` of them waits for an empty
    /// answer. The peer is in [`Endpoint::raw_sink`] with the same numbers.
    ///
    /// # Errors
    /// As [`Endpoint::raw_ping_pong`].
    ///
    /// # Safety
    /// As [`Endpoint::raw_ping_pong`].
    #[inline(never)]
    pub unsafe fn raw_stream(
        &self,
        p: Partner,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let raw = Raw::new(self, window + 1);
        let (mut left, mut due) = (count, 0);
        while left > 0 {
            let burst = window.min(left);
            // SAFETY: here and below [DEST], and [BUF] for both buffers; all of a window is
            // waited for before the next uses its contexts.
            unsafe { raw.trecv(self, p.to, 0, window)? };
            for n in 0..burst {
                // SAFETY: as above.
                due += unsafe { raw.tsend(self, p.from, p.len, p.dest, n)? };
            }
            due += 1;
            raw.wait(due)?;
            left -= burst;
        }
        raw.end();
        Ok(())
    }

    /// Receives what [`Endpoint::raw_stream`] sends: a window of receives
    /// posted at a time, all into one buffer.
    ///
    /// # Errors
    /// As [`Endpoint::raw_ping_pong`].
    ///
    /// # Safety
    /// As [`Endpoint::raw_ping_pong`].
    #[inline(never)]
    pub unsafe fn raw_sink(&self, p: Partner, count: usize, window: usize) -> Result<(), NetError> {
        let raw = Raw::new(self, window + 1);
        let (mut left, mut due) = (count, 0);
        while left > 0 {
            let burst = window.min(left);
            for n in 0..burst {
                // SAFETY: [BUF]: `to` holds `len` bytes; contexts as in `raw_stream`.
                unsafe { raw.trecv(self, p.to, p.len, n)? };
            }
            due += burst;
            raw.wait(due)?;
            // SAFETY: [DEST]; the message is empty, its context as in `raw_stream`.
            due += unsafe { raw.tsend(self, p.from, 0, p.dest, window)? };
            left -= burst;
        }
        raw.wait(due)?;
        raw.end();
        Ok(())
    }
}
