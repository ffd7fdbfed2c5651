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
use super::active::{Agent, Answer, Request, ask, error_of};
use super::epoch::Way;
use super::part::{Part, Status};
use super::{Error, ErrorKind};
use crate::device::Context;
use crate::netmod::{Netmod, Op, Type};
use std::rc::Rc;

/// What an [`Operator`] is to do.
#[derive(Debug)]
pub struct Custom<'a> {
    /// The operation, by the caller's own numbers.
    pub code: u64,
    /// The target's memory.
    pub at: *mut u8,
    /// Bytes there that the operation may touch.
    pub span: usize,
    /// What the origin sent along.
    pub operand: &'a [u8],
}

/// Carries out an operation: `result` is what the origin gets back, exactly as
/// many bytes as it asked for; `false` refuses.
///
/// # Safety
/// `at` holds `span` bytes, which nobody else changes by this way meanwhile.
pub type Operator = unsafe fn(&Custom<'_>, result: &mut Vec<u8>) -> bool;

/// Bytes of the code in front of an operand.
const CODE: usize = 8;

/// Registers what carries out the custom operations on all windows of this
/// process, before there is one. Only the first call counts.
pub fn carry_out_by<N: Netmod>(context: &Context<N>, operator: Operator) {
    let _ = Agent::of(context).registry().operator.set(operator);
}

/// Runs an operation on a part of this process.
pub(super) fn carry_out(
    operator: Option<Operator>,
    part: &Part,
    place: u64,
    span: usize,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Status {
    let (Some(operator), Some((code, operand))) = (operator, body.split_first_chunk::<CODE>())
    else {
        return Status::Garbled;
    };
    let code = u64::from_le_bytes(*code);
    let done = part.alone(place, span, |at| {
        // SAFETY: in range, and under the part's lock.
        unsafe { operator(&Custom { code, at, span, operand }, out) }
    });
    match done {
        Some(true) => Status::Done,
        Some(false) => Status::NotHere,
        None => Status::Outside,
    }
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
        self.check(rank, disp, span)?;
        if span == 0 {
            return Ok(());
        }
        let core = self.core()?;
        let world = self.world(rank)?;
        self.mark(rank);
        let offset = if core.dynamic { disp as u64 } else { disp as u64 * core.units.get(rank) };
        let body = [&code.to_le_bytes()[..], operand].concat();
        if world == self.context().device().boot().rank() {
            let mut out = Vec::new();
            let operator = self.more.agent.registry().operator.get().copied();
            let status = carry_out(operator, &core.part, offset, span, &body, &mut out);
            if status == Status::Done && out.len() == result.len() {
                result.copy_from_slice(&out);
                return Ok(());
            }
            return Err(error_of(world, status));
        }
        let longest = self.may_send(world)?;
        if body.len().max(result.len()).max(span) > longest {
            let why = format!("a custom operation on {span} bytes; {longest} go at a time");
            return Err(ErrorKind::Arguments(why).into());
        }
        self.turn(world, Way::Packet)?;
        // The answer is written into memory that is given up with it.
        let answer = (!result.is_empty()).then(|| Rc::new(Answer::default()));
        let request = Request {
            ask: ask::CUSTOM,
            window: core.part.id,
            place: offset,
            count: span,
            ty: Type::U8,
            op: Op::Replace,
            body: &body,
            result: (result.as_mut_ptr(), result.len()),
            answer: answer.clone(),
        };
        // SAFETY: the result is the caller's until the answer came or was given
        // up, below.
        unsafe { self.request(world, request)? };
        let Some(answer) = answer else { return Ok(()) };
        match self.await_answer(world, &answer)? {
            (Status::Done, _) => Ok(()),
            (status, _) => Err(error_of(world, status)),
        }
    }

    /// The most bytes of span, operand or result that one custom operation on
    /// `rank` can have.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`]; a provider without messages.
    pub fn custom_limit(&self, rank: u32) -> Result<usize, Error> {
        let world = self.world(rank)?;
        if world == self.context().device().boot().rank() {
            return Ok(super::active::LONGEST);
        }
        Ok(self.may_send(world)? - CODE)
    }
}
