//! Operations of a device layer's own, carried out by the target's process.
//!
//! For elements and operations that are not among [`Type`](crate::netmod::Type)
//! and [`Op`](crate::netmod::Op): pairs of MPI_MINLOC, types of 32 bytes. They
//! go as packets, and the target runs the function its process has registered,
//! one at a time for each window. So they are atomic with each other, but not
//! with [`Access::accumulate`] on the same elements.
//!
//! Never looks at what a code means.

use super::access::Access;
use super::am_fallback::{Answer, Request, RmaHandler, error_of, opcode};
use super::exposed_region::CODE;
use super::request::{InFlight, Pending};
use super::types::{AccessPath, Operator, Status};
use super::{Error, ErrorKind};
use crate::device::Context;
use crate::netmod::{Netmod, Op, Type};
use std::rc::Rc;

/// The most bytes of the target's memory for one operation.
const SPAN: usize = (1 << 24) - 1;

/// Registers the operator of the custom operations on all windows of this
/// process, before there is one. Only the first call counts.
pub fn register_operator<N: Netmod>(context: &Context<N>, operator: Operator) {
    let _ = RmaHandler::of(context).registry().operator.set(operator);
}

impl<N: Netmod> Access<N> {
    /// Has the process of `rank` carry out an operation on `span` bytes at
    /// `disp` units in its memory. With a result it is done on return; without,
    /// after a flush. Operations on one rank are done in the order of their
    /// calls.
    ///
    /// # Errors
    /// As [`Access::put`]; [`ErrorKind::Refused`] by the target's operator;
    /// [`ErrorKind::Arguments`] for more bytes than [`Access::custom_limit`].
    pub fn custom(
        &self,
        code: u64,
        operand: &[u8],
        result: &mut [u8],
        rank: u32,
        disp: usize,
        span: usize,
    ) -> Result<(), Error> {
        let (start, len) = (result.as_mut_ptr(), result.len());
        // SAFETY: the result is the caller's until the return.
        unsafe { self.rcustom(code, operand, start, len, rank, disp, span)?.end() }
    }

    /// [`Access::custom`] with a request of its own, whose end brings the
    /// result. The operand may be used again on return.
    ///
    /// # Errors
    /// As [`Access::custom`].
    ///
    /// # Safety
    /// \[INTO\]: `result` stays writable for `len` bytes, and untouched, until the
    /// request was waited for or the access flushed for `rank`.
    #[allow(clippy::too_many_arguments, reason = "an operand, a result and a place")]
    pub unsafe fn rcustom(
        &self,
        code: u64,
        operand: &[u8],
        result: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
        span: usize,
    ) -> Result<Pending<'_, N>, Error> {
        self.check(rank, disp, span)?;
        if span == 0 {
            return Ok(Pending::new(self, Vec::new()));
        }
        let state = self.state()?;
        let peer = self.world_rank(rank)?;
        self.mark(rank);
        let offset = disp as u64 * state.units.get(rank);
        let body = [&code.to_le_bytes()[..], operand].concat();
        if peer == self.context().device().boot().rank() {
            let mut out = Vec::new();
            let operator = self.cold.rma_handler.registry().operator.get().copied();
            let status = state.exposed_region.run_operator(operator, offset, span, &body, &mut out);
            if status != Status::Done || out.len() != len {
                return Err(error_of(peer, status));
            }
            // SAFETY: [INTO]; `out` is as long.
            unsafe { std::ptr::copy_nonoverlapping(out.as_ptr(), result, len) };
            return Ok(Pending::new(self, Vec::new()));
        }
        let (operand, limit) = (operand.len(), self.request_limit(peer)? - CODE);
        if operand.max(len) > limit || span > SPAN {
            let why = format!(
                "a custom operation of {operand} bytes of operand and {len} of result on {span}: at \
                 most {limit} of either go at a time, and the target looks at {SPAN}"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        self.switch_path(rank, peer, AccessPath::Packet)?;
        let answer = (len > 0).then(|| Rc::new(Answer::default()));
        let request = Request {
            opcode: opcode::CUSTOM,
            window: state.exposed_region.id,
            place: offset,
            count: span,
            ty: Type::U8,
            op: Op::Replace,
            body: &body,
            result: (result, len),
            into: None,
            answer: answer.clone(),
        };
        // SAFETY: [INTO], until the answer came.
        unsafe { self.request(peer, request)? };
        let in_flight = answer.map(|answer| InFlight::Answer(answer, peer));
        Ok(Pending::new(self, in_flight.into_iter().collect()))
    }

    /// The most bytes of operand or result that one custom operation on `rank`
    /// can have. It may span 16 MiB of the target's memory, less one byte.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`]; a provider without messages.
    pub fn custom_limit(&self, rank: u32) -> Result<usize, Error> {
        let peer = self.world_rank(rank)?;
        if peer == self.context().device().boot().rank() {
            return Ok(super::am_fallback::MAX_BODY);
        }
        Ok(self.request_limit(peer)? - CODE)
    }
}
