//! Dynamic windows: memory is attached and detached while the window lives.
//!
//! Peers name memory by its address at the target, which the program has to
//! tell them, as with MPI. All operations go as packets and are checked
//! against what is attached at that time: an address that was detached gives an
//! error, and nothing is registered with a provider.

use super::Error;
#[allow(unused_imports, reason = "for the documentation")]
use super::ErrorKind;
use super::access::Access;
use super::am_fallback::{Answer, Request, error_of, opcode};
use super::request::InFlight;
use super::types::Status;
use super::window::Window;
use crate::netmod::{Netmod, Op, Type};
use std::rc::Rc;

impl<N: Netmod> Window<N> {
    /// Attaches memory of this process to a dynamic window. The answer is
    /// the displacement by which peers name its first byte.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a window that has memory of its own, no
    /// bytes, or memory that overlaps with what is attached;
    /// [`ErrorKind::Freed`].
    ///
    /// # Safety
    /// \[MEM\]: `start..start + bytes` stays mapped, and is touched by the process
    /// only as MPI's rules for windows allow, until it is detached or the window
    /// is freed or dropped.
    pub unsafe fn attach(&self, start: *mut u8, bytes: usize) -> Result<usize, Error> {
        self.state()?.exposed_region.attach(start, bytes)
    }

    /// Takes attached memory out of the window: what peers ask for from now on
    /// is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for memory that is not attached,
    /// [`ErrorKind::Freed`].
    pub fn detach(&self, start: *const u8) -> Result<(), Error> {
        self.state()?.exposed_region.detach(start.addr())
    }
}

impl<N: Netmod> Access<N> {
    /// Puts bytes by packets, copied on return.
    ///
    /// # Safety
    /// \[BUF\]: `buf` is readable for `len` bytes.
    pub(super) unsafe fn put_by_packets(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let peer = self.world_rank(rank)?;
        // SAFETY: [BUF].
        let all = unsafe { std::slice::from_raw_parts(buf, len) };
        if peer == self.context().device().boot().rank() {
            // SAFETY: in range; the window's memory is not the caller's slice.
            let put = |at: *mut u8| unsafe { std::ptr::copy(all.as_ptr(), at, len) };
            return local(peer, self.state()?.exposed_region.with_range(disp as u64, len, put));
        }
        let longest = self.request_limit(peer)?;
        let mut at = disp as u64;
        for body in all.chunks(longest) {
            let request = self.bytes_request(opcode::PUT, at, body.len(), body)?;
            // SAFETY: no result, of which alone [INTO] speaks.
            unsafe { self.request(peer, request)? };
            at += body.len() as u64;
        }
        Ok(())
    }

    /// Gets bytes by packets; they are there when what goes into `in_flight` has ended,
    /// without it after a flush.
    ///
    /// # Safety
    /// \[INTO\]: `buf` is writable for `len` bytes until then.
    pub(super) unsafe fn get_by_packets(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let peer = self.world_rank(rank)?;
        if peer == self.context().device().boot().rank() {
            // SAFETY: in range; [INTO].
            let get = |at: *mut u8| unsafe { std::ptr::copy(at, buf, len) };
            return local(peer, self.state()?.exposed_region.with_range(disp as u64, len, get));
        }
        let longest = self.request_limit(peer)?;
        let mut done = 0;
        while done < len {
            let piece = longest.min(len - done);
            let answer = in_flight.is_some().then(|| Rc::new(Answer::default()));
            let request = Request {
                // SAFETY: done < len.
                result: (unsafe { buf.add(done) }, piece),
                answer: answer.clone(),
                ..self.bytes_request(opcode::GET, (disp + done) as u64, piece, &[])?
            };
            // SAFETY: [INTO], until the answer came.
            unsafe { self.request(peer, request)? };
            if let (Some(in_flight), Some(answer)) = (in_flight.as_deref_mut(), answer) {
                in_flight.push(InFlight::Answer(answer, peer));
            }
            done += piece;
        }
        Ok(())
    }

    fn bytes_request<'b>(
        &self,
        opcode: u8,
        place: u64,
        count: usize,
        body: &'b [u8],
    ) -> Result<Request<'b>, Error> {
        Ok(Request {
            opcode,
            window: self.borrowed_state()?.exposed_region.id,
            place,
            count,
            ty: Type::U8,
            op: Op::Replace,
            body,
            result: (std::ptr::null_mut(), 0),
            into: None,
            answer: None,
        })
    }

    /// A get of a dynamic window; with `keep`, the bytes are there after a
    /// flush, else on return.
    ///
    /// # Safety
    /// \[INTO\]: `buf` is writable for `len` bytes until then.
    pub(super) unsafe fn get_dynamic(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
        keep: bool,
    ) -> Result<(), Error> {
        if keep {
            // SAFETY: [INTO], until the flush.
            return unsafe { self.get_by_packets(buf, len, rank, disp, None) };
        }
        let mut in_flight = Vec::new();
        // SAFETY: [INTO]; what fails is given up before the return.
        let started = unsafe { self.get_by_packets(buf, len, rank, disp, Some(&mut in_flight)) };
        let ended = self.await_in_flight(&mut in_flight);
        started.and(ended)
    }
}

fn local(peer: u32, done: Option<()>) -> Result<(), Error> {
    done.ok_or_else(|| error_of(peer, Status::OutOfRange))
}
