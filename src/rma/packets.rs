//! Puts and gets of bytes by packets, which the target carries out: in dynamic windows,
//! and in those with members in other jobs.

use super::Error;
use super::access::Access;
use super::am_fallback::{Answer, Request, error_of, opcode};
use super::request::{InFlight, Left};
use super::types::Status;
use crate::netmod::{Netmod, Op, Type};
use std::rc::Rc;

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
        let (peer, start) = self.packet_place(rank, disp)?;
        // SAFETY: [BUF].
        let all = unsafe { std::slice::from_raw_parts(buf, len) };
        if peer == self.context().device().boot().rank() {
            // SAFETY: in range; the window's memory is not the caller's slice.
            let put = |at: *mut u8| unsafe { std::ptr::copy(all.as_ptr(), at, len) };
            return local(peer, self.state()?.exposed_region.with_range(start, len, put));
        }
        let longest = self.request_limit(peer)?;
        let mut at = start;
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
        let (peer, start) = self.packet_place(rank, disp)?;
        if peer == self.context().device().boot().rank() {
            // SAFETY: in range; [INTO].
            let get = |at: *mut u8| unsafe { std::ptr::copy(at, buf, len) };
            return local(peer, self.state()?.exposed_region.with_range(start, len, get));
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
                ..self.bytes_request(opcode::GET, start + done as u64, piece, &[])?
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

    /// The process of a rank, and the byte of its memory that `disp` names.
    fn packet_place(&self, rank: u32, disp: usize) -> Result<(u32, u64), Error> {
        let unit = self.borrowed_state()?.units.get(rank);
        Ok((self.world_rank(rank)?, disp as u64 * unit))
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

    /// [`Access::get_by_packets`]: if `NB` the bytes are there after a flush, else on
    /// return.
    ///
    /// # Safety
    /// \[INTO\]: `buf` is writable for `len` bytes until then.
    pub(super) unsafe fn get_in_packets<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if NB {
            // SAFETY: [INTO], until the flush.
            return unsafe { self.get_by_packets(buf, len, rank, disp, None) };
        }
        let mut left = Left::new(self);
        let in_flight = Some(&mut left.in_flight);
        // SAFETY: [INTO]; what fails is given up before the return.
        let started = unsafe { self.get_by_packets(buf, len, rank, disp, in_flight) };
        started.and(left.wait())
    }
}

fn local(peer: u32, done: Option<()>) -> Result<(), Error> {
    done.ok_or_else(|| error_of(peer, Status::OutOfRange))
}
