//! UCX alone, for comparison: the loops a C program would write around its
//! calls, on the very worker and endpoints our own operations use.

use super::atomic::contiguous;
use super::bindings as sys;
use super::endpoint::Worker;
use super::slots::{self, CallStatus};
use crate::netmod::NetError;
use std::ffi::c_void;

/// A target as a raw loop knows it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `ucp_ep_h`.
    pub dest: u64,
    /// Address at the target.
    pub addr: u64,
    /// `ucp_rkey_h`.
    pub key: u64,
}

/// The tag of the loops' messages; no bulk message has it.
const TAG: u64 = u64::MAX - 1;

impl Worker {
    /// Where `ucp_put_nbx` begins.
    pub fn put_entry(&self) -> usize {
        self.f().ucp_put_nbx as usize
    }

    /// Issues `count` puts of `len` bytes, round and round over the targets,
    /// and flushes.
    ///
    /// # Errors
    /// UCX's refusal.
    ///
    /// # Safety
    /// As [`Netmod::inject`](crate::netmod::Netmod::inject), for every target.
    #[inline(never)]
    pub unsafe fn raw_put(
        &self,
        buf: *const u8,
        len: usize,
        targets: &[Target],
        count: usize,
    ) -> Result<(), NetError> {
        let put = self.f().ucp_put_nbx;
        let param = slots::plain(0);
        let mut left = count;
        while left > 0 {
            let chunk = &targets[..targets.len().min(left)];
            for t in chunk {
                let (ep, rkey) = (t.dest as sys::ucp_ep_h, t.key as sys::ucp_rkey_h);
                // SAFETY: [DEST], [KEY], [BUF]: it is waited for where it is not done.
                let pointer = unsafe { put(ep, buf.cast(), len, t.addr, rkey, &param) };
                if !pointer.is_null() {
                    self.complete("ucp_put_nbx", pointer)?;
                }
            }
            left -= chunk.len();
        }
        let mut flushed = Vec::new();
        for t in targets {
            if flushed.contains(&t.dest) {
                continue;
            }
            flushed.push(t.dest);
            // SAFETY: [DEST]; waited for.
            let pointer = unsafe { (self.f().ucp_ep_flush_nbx)(t.dest as sys::ucp_ep_h, &param) };
            self.complete("ucp_ep_flush_nbx", pointer)?;
        }
        Ok(())
    }

    /// Issues `count` fetching adds, or compare-and-swaps, of 8 bytes, each
    /// waited for.
    ///
    /// # Errors
    /// UCX's refusal.
    ///
    /// # Safety
    /// As [`Netmod::atomic`](crate::netmod::Netmod::atomic).
    #[inline(never)]
    pub unsafe fn raw_atomic(
        &self,
        target: Target,
        swap: bool,
        count: usize,
    ) -> Result<u64, NetError> {
        let issue = self.f().ucp_atomic_op_nbx;
        let opcode = if swap { sys::UCP_ATOMIC_OP_CSWAP } else { sys::UCP_ATOMIC_OP_ADD };
        let (operand, mut reply) = (1_u64, 0_u64);
        let fields = sys::UCP_OP_ATTR_FIELD_DATATYPE | sys::UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        let mut param = slots::plain(fields);
        param.datatype = contiguous(8);
        param.reply_buffer = (&raw mut reply).cast();
        let (ep, rkey) = (target.dest as sys::ucp_ep_h, target.key as sys::ucp_rkey_h);
        for _ in 0..count {
            // SAFETY: [DEST], [KEY]; operand and reply stay, as each is waited for.
            let pointer = unsafe {
                issue(ep, opcode, (&raw const operand).cast(), 1, target.addr, rkey, &param)
            };
            if !pointer.is_null() {
                self.complete("ucp_atomic_op_nbx", pointer)?;
            }
        }
        Ok(reply)
    }

    /// `rounds` messages of `len` bytes there and back; both sides call it, one
    /// of them as the `first` to send.
    ///
    /// # Errors
    /// UCX's refusal.
    ///
    /// # Safety
    /// \[DEST\] on this worker; \[BUF\]: `buf` is readable and writable for `len` bytes
    /// until the loop is over.
    #[inline(never)]
    pub unsafe fn raw_ping_pong(
        &self,
        dest: u64,
        buf: *mut u8,
        len: usize,
        rounds: usize,
        first: bool,
    ) -> Result<(), NetError> {
        for _ in 0..rounds {
            // SAFETY: [DEST], [BUF]: each is waited for.
            unsafe {
                if first {
                    self.complete("ucp_tag_send_nbx", self.send_raw(dest, buf, len))?;
                }
                self.complete("ucp_tag_recv_nbx", self.receive_raw(buf, len))?;
                if !first {
                    self.complete("ucp_tag_send_nbx", self.send_raw(dest, buf, len))?;
                }
            }
        }
        Ok(())
    }

    /// `count` messages of `len` bytes one way, in windows of `window` that the
    /// receiver answers; both sides call it.
    ///
    /// # Errors
    /// UCX's refusal.
    ///
    /// # Safety
    /// As [`Worker::raw_ping_pong`]; after an error `buf` stays for good.
    #[inline(never)]
    pub unsafe fn raw_stream(
        &self,
        dest: u64,
        buf: *mut u8,
        len: usize,
        count: usize,
        window: usize,
        sender: bool,
    ) -> Result<(), NetError> {
        let mut left = count;
        let mut requests: Vec<*mut c_void> = Vec::with_capacity(window);
        while left > 0 {
            let burst = left.min(window);
            left -= burst;
            // SAFETY: [DEST], [BUF]: a window is waited for before the next.
            unsafe {
                for _ in 0..burst {
                    let pointer = match sender {
                        true => self.send_raw(dest, buf, len),
                        false => self.receive_raw(buf, len),
                    };
                    if !pointer.is_null() {
                        requests.push(pointer);
                    }
                }
                for pointer in requests.drain(..) {
                    self.complete("ucp_tag_nbx", pointer)?;
                }
                let pointer = match sender {
                    true => self.receive_raw(buf, len),
                    false => self.send_raw(dest, buf, len),
                };
                self.complete("ucp_tag_nbx", pointer)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// \[DEST\], \[BUF\] until it is complete.
    unsafe fn send_raw(&self, dest: u64, buf: *const u8, len: usize) -> *mut c_void {
        let (ep, param) = (dest as sys::ucp_ep_h, slots::plain(0));
        // SAFETY: [DEST], [BUF].
        unsafe { (self.f().ucp_tag_send_nbx)(ep, buf.cast(), len, TAG, &param) }
    }

    /// # Safety
    /// \[BUF\] to write to, until it is complete.
    unsafe fn receive_raw(&self, buf: *mut u8, len: usize) -> *mut c_void {
        let param = slots::plain(0);
        let receive = self.f().ucp_tag_recv_nbx;
        // SAFETY: [BUF]; the worker is open.
        unsafe { receive(self.handle(), buf.cast(), len, TAG, u64::MAX, &param) }
    }

    /// Makes progress until an operation is done.
    fn complete(&self, call: &'static str, pointer: *mut c_void) -> Result<(), NetError> {
        let status = match slots::decode(pointer) {
            CallStatus::Done => return Ok(()),
            CallStatus::Refused(status) => status,
            // SAFETY: a request of this worker without a callback, given back
            // once.
            CallStatus::InProgress(request) => unsafe {
                let mut status = sys::UCS_INPROGRESS;
                while status == sys::UCS_INPROGRESS {
                    (self.f().ucp_worker_progress)(self.handle());
                    status = (self.f().ucp_request_check_status)(request);
                }
                (self.f().ucp_request_free)(request);
                status
            },
        };
        self.owner().check(call, status)
    }
}
