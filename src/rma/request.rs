//! Operations that are waited for one by one.

use super::Error;
use super::access::Access;
use super::active::{Answer, error_of};
use super::part::Status;
use crate::device::{Progress, Token};
use crate::netmod::Netmod;
use std::rc::Rc;

/// Something that an operation ends with.
#[derive(Debug)]
pub(super) enum Ticket {
    /// A provider's token, expected, and the world rank it is about.
    Token(Token, u32),
    /// A request's answer.
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
    tickets: Vec<Ticket>,
}

impl<'a, N: Netmod> Pending<'a, N> {
    pub(super) fn new(access: &'a Access<N>, tickets: Vec<Ticket>) -> Pending<'a, N> {
        Pending { access, tickets }
    }

    /// Waits until the operation is complete.
    ///
    /// # Errors
    /// A peer that died or an operation that failed, by name.
    pub fn wait(mut self) -> Result<(), Error> {
        self.access.await_tickets(&mut self.tickets)
    }

    /// Makes progress; whether the operation is complete.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        self.access.context().progress()?;
        while let Some(ticket) = self.tickets.pop() {
            match self.access.ended(&ticket) {
                None => {
                    let (Ticket::Token(_, world) | Ticket::Answer(_, world)) = &ticket;
                    let alive = self.access.context().look_after(&[*world]);
                    self.tickets.push(ticket);
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
        // The flush counts what nobody waits for; answers still find their
        // memory, which is the operation's until then.
        for ticket in &self.tickets {
            if let Ticket::Token(token, _) = ticket {
                self.access.context().forget(*token);
            }
        }
    }
}

impl<N: Netmod> Access<N> {
    /// How a ticket's operation ended, if it has.
    fn ended(&self, ticket: &Ticket) -> Option<Result<(), Error>> {
        match ticket {
            Ticket::Token(token, world) => {
                let outcome = self.context().answer(*token)?;
                Some(outcome.map_err(|e| self.context().blame(*world, e).into()))
            }
            Ticket::Answer(answer, world) => Some(match answer.get()? {
                (Status::Done, _) => Ok(()),
                (status, _) => Err(error_of(*world, status)),
            }),
        }
    }

    /// Waits for all of them, even when one fails, and tells the first
    /// failure; those that nothing is heard of any more are given up.
    pub(super) fn await_tickets(&self, tickets: &mut Vec<Ticket>) -> Result<(), Error> {
        let mut first = None;
        for ticket in std::mem::take(tickets) {
            let (Ticket::Token(_, world) | Ticket::Answer(_, world)) = &ticket;
            let mut ended = None;
            let waited = self.context().wait(&[*world], || {
                ended = self.ended(&ticket);
                Ok(if ended.is_some() { Progress::Done } else { Progress::Waiting })
            });
            let result = match (waited, ended) {
                (_, Some(ended)) => ended,
                (waited, None) => {
                    match &ticket {
                        Ticket::Token(token, _) => self.context().forget(*token),
                        Ticket::Answer(answer, _) => self.more.agent.forget(answer),
                    }
                    waited.map_err(Error::from)
                }
            };
            if let Err(e) = result {
                first.get_or_insert(e);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Waits for one answer.
    pub(super) fn await_answer(
        &self,
        world: u32,
        answer: &Rc<Answer>,
    ) -> Result<(Status, u64), Error> {
        let waited = self.context().wait(&[world], || {
            Ok(if answer.get().is_some() { Progress::Done } else { Progress::Waiting })
        });
        if let Some(answer) = answer.get() {
            return Ok(answer);
        }
        self.more.agent.forget(answer);
        waited?;
        Ok((Status::Dead, 0))
    }
}
