//! Operations with a request of their own, and requests to a peer.

use super::access::Access;
use super::am_fallback::{Answer, MAX_BODY, MAX_OUTSTANDING, Request, error_of};
use super::places::Parts;
use super::types::Status;
use super::{Error, ErrorKind};
use crate::datatype::Layout;
use crate::device::{DeviceError, Progress, Token};
use crate::netmod::{NetError, Netmod, Op, Type};
use crate::rankmap::Process;
use crate::track::Kind;
use std::rc::Rc;

/// What completes an operation in flight.
#[derive(Debug)]
pub(super) enum InFlight {
    /// A provider's token, expected, and the peer's world rank.
    Token(Token, u32),
    /// The answer to a request, and the peer's world rank.
    Answer(Rc<Answer>, u32),
}

/// An operation under way, of [`Access::rput`] and the like.
///
/// Complete means what MPI means by it: the origin's buffers may be used
/// again, and results are there. That the bytes of a put or an accumulate are
/// in the target's memory is for a flush. A request that is dropped is
/// completed by the next flush. One that fails does not give its buffers back:
/// a peer may use them as long as this process lives.
#[derive(Debug)]
#[must_use = "the buffers belong to the operation until it was waited for, or flushed"]
pub struct Pending<'a, N: Netmod> {
    access: &'a Access<N>,
    in_flight: Vec<InFlight>,
}

impl<'a, N: Netmod> Pending<'a, N> {
    pub(super) fn new(access: &'a Access<N>, in_flight: Vec<InFlight>) -> Pending<'a, N> {
        Pending { access, in_flight }
    }

    /// The request of an operation that `start` starts, which adds what is in flight.
    pub(super) fn start(
        access: &'a Access<N>,
        start: impl FnOnce(&mut Vec<InFlight>) -> Result<(), Error>,
    ) -> Result<Pending<'a, N>, Error> {
        let mut in_flight = Vec::new();
        let started = start(&mut in_flight);
        // What was started before a failure is the flush's when this is dropped.
        let pending = Pending::new(access, in_flight);
        started.map(|()| pending)
    }

    /// Waits until the operation is complete.
    ///
    /// # Errors
    /// A peer that died or an operation that failed, by name.
    pub fn wait(self) -> Result<(), Error> {
        let access = self.access;
        access.recorded_completion(Kind::Wait, |()| true, || self.end())
    }

    /// [`Pending::wait`], of which nothing is recorded.
    pub(super) fn end(mut self) -> Result<(), Error> {
        Left { access: self.access, in_flight: std::mem::take(&mut self.in_flight) }.wait()
    }

    /// Makes progress; whether the operation is complete.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        let access = self.access;
        access.recorded_completion(Kind::Test, |&complete| complete, || self.is_over())
    }

    fn is_over(&mut self) -> Result<bool, Error> {
        self.access.context().progress_and_check()?;
        while let Some(operation) = self.in_flight.pop() {
            match self.access.ended(&operation) {
                None => {
                    let (InFlight::Token(_, peer) | InFlight::Answer(_, peer)) = &operation;
                    let alive = self.access.context().check_liveness(&[*peer]);
                    self.in_flight.push(operation);
                    alive?;
                    return Ok(false);
                }
                Some(ended) => ended?,
            }
        }
        Ok(true)
    }
}

impl<N: Netmod> Drop for Pending<'_, N> {
    fn drop(&mut self) {
        // The flush counts operations without a waiter; answers are still
        // written to their memory, which is the operation's until then.
        for operation in &self.in_flight {
            match operation {
                InFlight::Token(token, _) => self.access.context().forget(*token),
                InFlight::Answer(answer, peer) => {
                    self.access.cold.outstanding.leave(*peer, answer);
                }
            }
        }
    }
}

/// An operation on the places of a layout in a peer's memory.
pub(super) struct Scattered<'l> {
    pub(super) opcode: u8,
    pub(super) ty: Type,
    pub(super) op: Op,
    /// What goes there, in the order of the packed streams.
    pub(super) operands: Option<(*const u8, &'l Layout)>,
    /// Where what was there goes.
    pub(super) results: Option<(*mut u8, &'l Layout)>,
    /// World rank; the layout's origin from the start of its memory.
    pub(super) peer: u32,
    pub(super) start: i64,
    pub(super) there: &'l Layout,
}

/// Operations that are waited for: those left when what issues them, or the wait, ends, for whatever
/// reason, are forgotten.
pub(super) struct Left<'a, N: Netmod> {
    access: &'a Access<N>,
    pub(super) in_flight: Vec<InFlight>,
}

impl<'a, N: Netmod> Left<'a, N> {
    /// None yet.
    pub(super) fn new(access: &'a Access<N>) -> Left<'a, N> {
        Left { access, in_flight: Vec::new() }
    }

    /// Waits for all of them, even when one fails, and returns the first failure.
    pub(super) fn wait(mut self) -> Result<(), Error> {
        self.in_flight.reverse();
        let mut first = None;
        while let Some(operation) = self.in_flight.last() {
            let (InFlight::Token(_, peer) | InFlight::Answer(_, peer)) = operation;
            let mut ended = None;
            let waited = self.access.context().wait(&[*peer], || {
                ended = self.access.ended(operation);
                Ok(if ended.is_some() { Progress::Done } else { Progress::Waiting })
            });
            let operation = self.in_flight.pop();
            let result = ended.unwrap_or_else(|| {
                operation.iter().for_each(|operation| self.access.forget(operation));
                waited.map_err(Error::from)
            });
            if let Err(e) = result {
                first.get_or_insert(e);
            }
        }
        first.map_or(Ok(()), Err)
    }
}

impl<N: Netmod> Drop for Left<'_, N> {
    fn drop(&mut self) {
        self.in_flight.iter().for_each(|operation| self.access.forget(operation));
    }
}

/// An answer that is waited for: forgotten where it has not come when the wait ends.
struct Unanswered<'a, N: Netmod>(&'a Access<N>, &'a Rc<Answer>);

impl<N: Netmod> Drop for Unanswered<'_, N> {
    fn drop(&mut self) {
        if self.1.get().is_none() {
            self.0.forget_answer(self.1);
        }
    }
}

impl<N: Netmod> Access<N> {
    /// How an operation in flight ended, if it has.
    fn ended(&self, operation: &InFlight) -> Option<Result<(), Error>> {
        match operation {
            InFlight::Token(token, peer) => {
                let outcome = self.context().answer(*token)?;
                Some(outcome.map_err(|e| self.failed_towards(*peer, e)))
            }
            InFlight::Answer(answer, peer) => Some(match answer.get()? {
                (Status::Done, _) => Ok(()),
                (status, _) => Err(self.refused(*peer, status)),
            }),
        }
    }

    /// Nobody waits for an operation any more, and nothing of it is written.
    fn forget(&self, operation: &InFlight) {
        match operation {
            InFlight::Token(token, _) => self.context().forget(*token),
            InFlight::Answer(answer, _) => self.forget_answer(answer),
        }
    }

    /// Waits for one answer.
    pub(super) fn await_answer(
        &self,
        peer: u32,
        answer: &Rc<Answer>,
    ) -> Result<(Status, u64), Error> {
        let unanswered = Unanswered(self, answer);
        let waited = self.context().wait(&[peer], || {
            Ok(if answer.get().is_some() { Progress::Done } else { Progress::Waiting })
        });
        drop(unanswered);
        if let Some(answer) = answer.get() {
            return Ok(answer);
        }
        waited?;
        Ok((Status::Dead, 0))
    }

    /// Why a peer refused a request. One that has no such window did not make it, where
    /// another member died meanwhile, which is named then.
    #[cold]
    pub(super) fn refused(&self, peer: u32, status: Status) -> Error {
        // (One that lives may have no space for the address that answers go to.)
        if status == Status::Dead
            && let Err(why @ DeviceError::Peer { error: NetError::Full { .. }, .. }) =
                self.context().check_open(peer)
        {
            return why.into();
        }
        let dead = (status == Status::NoWindow).then(|| self.dead_member()).flatten();
        dead.map_or_else(|| error_of(peer, status), |dead| dead.into())
    }

    /// Why an operation failed. A peer that has no such memory any more freed its window, where
    /// another member died meanwhile, which is named then.
    #[cold]
    pub(super) fn failed(&self, error: DeviceError) -> Error {
        let freed = matches!(&error, DeviceError::Peer { error, .. } if error.tells_no_memory());
        freed.then(|| self.dead_member()).flatten().unwrap_or(error).into()
    }

    /// The same of what a netmod says of one towards a peer.
    #[cold]
    pub(super) fn failed_towards(&self, peer: u32, error: NetError) -> Error {
        self.failed(self.context().attribute_failure(peer, error))
    }

    fn dead_member(&self) -> Option<DeviceError> {
        let dead = self.context().find_dead(|peer| self.is_member(peer))?;
        Some(DeviceError::PeerDied { rank: dead })
    }

    /// Returns true if a process has a rank here.
    #[cold]
    pub(super) fn is_member(&self, peer: u32) -> bool {
        let device = self.context().device();
        let is_it = |process| device.world_rank(process).is_ok_and(|number| number == peer);
        if self.map().pg() == Some(0) {
            return self.map().rank_of(Process { pg: 0, lpid: peer }).is_some();
        }
        self.map().iter().any(is_it)
    }

    fn forget_answer(&self, answer: &Rc<Answer>) {
        self.cold.rma_handler.forget(self.context(), answer);
    }

    /// Sends a request once fewer than [`MAX_OUTSTANDING`] are under way to the
    /// peer.
    ///
    /// # Safety
    /// \[INTO\], as [`RmaHandler::request`](super::am_fallback::RmaHandler::request).
    pub(super) unsafe fn request(&self, peer: u32, request: Request<'_>) -> Result<(), Error> {
        let outstanding = &self.cold.outstanding;
        if outstanding.count(peer) >= MAX_OUTSTANDING {
            self.context().wait(&[peer], || {
                let space = outstanding.count(peer) < MAX_OUTSTANDING;
                Ok(if space { Progress::Done } else { Progress::Waiting })
            })?;
        }
        // SAFETY: [INTO], until the answer came.
        unsafe { self.cold.rma_handler.request(self.context(), peer, outstanding, request) }
    }

    /// The longest body of a request; refuses those that cannot be made, with a
    /// remedy.
    pub(super) fn request_limit(&self, peer: u32) -> Result<usize, Error> {
        match self.context().forward_limit(peer)? {
            0 => {
                let why = format!(
                    "this operation needs the help of rank {peer}, and the provider has no \
                     messages; choose another in RANKWAY_PROVIDER"
                );
                Err(ErrorKind::Arguments(why).into())
            }
            longest => Ok(longest.min(MAX_BODY)),
        }
    }

    /// Asks the peer for an operation, by requests with a part of it each; operands
    /// were copied on return.
    ///
    /// # Safety
    /// \[BUF\] of the operands; \[INTO\] of the results, until what goes into `in_flight`
    /// is complete, without it until a flush.
    pub(super) unsafe fn scatter(
        &self,
        &Scattered { opcode, ty, op, operands, results, peer, start, there }: &Scattered<'_>,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let longest = self.request_limit(peer)?;
        let mut parts = Parts::new(there, longest, usize::from(operands.is_some()), ty.size());
        let mut body = vec![0; longest];
        while let Some((cut, front)) = parts.cut(&mut body)? {
            let (bytes, mut end) = (cut.bytes(), front);
            if let Some((operands, from)) = operands {
                end += bytes;
                let (from, first) = cut.of(from)?;
                // SAFETY: [BUF].
                unsafe { from.pack_raw(operands, first, &mut body[front..end]) };
            }
            let into = results.map(|(_, into)| cut.of(into)).transpose()?;
            let answer = in_flight.is_some().then(|| Rc::new(Answer::default()));
            let request = Request {
                opcode,
                window: self.borrowed_state()?.exposed_region.id,
                place: start as u64,
                count: bytes,
                ty,
                op,
                body: &body[..end],
                result: results.map_or((std::ptr::null_mut(), 0), |(at, _)| (at, bytes)),
                into,
                answer: answer.clone(),
            };
            // SAFETY: [INTO], until the answer came.
            unsafe { self.request(peer, request)? };
            if let (Some(in_flight), Some(answer)) = (in_flight.as_deref_mut(), answer) {
                in_flight.push(InFlight::Answer(answer, peer));
            }
        }
        Ok(())
    }
}
