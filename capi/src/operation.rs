//! Operations under way and messages of matched probes, as handles hold them.

use crate::abi::*;
use crate::error::Fail;
use std::ffi::c_int;
use transport::msg::{Message, MsgError, Request, Status};
use transport::netmod::ofi::Ofi;
use transport::netmod::ucx::Ucx;

/// An operation under way, and the context it is on.
pub(crate) struct Operation {
    pub(crate) context_id: usize,
    pub(crate) what: NetmodRequest,
}

/// The request of an operation, by netmod.
pub(crate) enum NetmodRequest {
    Ofi(Request<Ofi>),
    Ucx(Request<Ucx>),
    Rma(Box<dyn Rma>),
}

/// An operation of a window under way.
pub(crate) trait Rma {
    fn test(&mut self) -> Result<bool, Fail>;
    fn wait(&mut self) -> Result<(), Fail>;
}

/// How an operation ended: its status, and for a truncated message also why.
pub(crate) type Completed = Result<rankway_status_t, (Option<rankway_status_t>, Fail)>;

fn completed(result: Result<Status, MsgError>) -> Completed {
    result.map(|s| status(&s)).map_err(|e| {
        let told = match &e {
            MsgError::Truncated { source_rank, tag, length, .. } => Some(rankway_status_t {
                source: *source_rank as c_int,
                tag: *tag as c_int,
                count: *length,
                bits: u64::from(*source_rank) << 32 | u64::from(*tag),
                ..rankway_status_t::default()
            }),
            _ => None,
        };
        (told, Fail::from(e))
    })
}

pub(crate) fn status(s: &Status) -> rankway_status_t {
    rankway_status_t {
        source: s.source() as c_int,
        tag: s.tag() as c_int,
        count: s.length,
        bits: s.bits,
        peer: s.peer,
        cancelled: c_int::from(s.cancelled),
    }
}

impl Operation {
    /// Makes progress; how it ended, once it has.
    pub(crate) fn test(&mut self) -> Option<Completed> {
        let done = match &mut self.what {
            NetmodRequest::Ofi(r) => r.test(),
            NetmodRequest::Ucx(r) => r.test(),
            NetmodRequest::Rma(r) => {
                return match r.test() {
                    Ok(false) => None,
                    Ok(true) => Some(Ok(rankway_status_t::default())),
                    Err(e) => Some(Err((None, e))),
                };
            }
        };
        done.transpose().map(completed)
    }

    pub(crate) fn wait(self) -> Completed {
        match self.what {
            NetmodRequest::Ofi(r) => completed(r.wait()),
            NetmodRequest::Ucx(r) => completed(r.wait()),
            NetmodRequest::Rma(mut r) => {
                r.wait().map(|()| rankway_status_t::default()).map_err(|e| (None, e))
            }
        }
    }

    pub(crate) fn cancel(&mut self) -> bool {
        match &mut self.what {
            NetmodRequest::Ofi(r) => r.cancel(),
            NetmodRequest::Ucx(r) => r.cancel(),
            NetmodRequest::Rma(_) => false,
        }
    }
}

/// A message of a matched probe, and the context it is on.
pub(crate) struct Matched {
    pub(crate) context_id: usize,
    pub(crate) what: AnyMessage,
}

pub(crate) enum AnyMessage {
    Ofi(Message<Ofi>),
    Ucx(Message<Ucx>),
}

impl Matched {
    pub(crate) fn status(&self) -> rankway_status_t {
        match &self.what {
            AnyMessage::Ofi(m) => status(&m.status()),
            AnyMessage::Ucx(m) => status(&m.status()),
        }
    }

    /// # Safety
    /// As [`Message::irecv`].
    pub(crate) unsafe fn irecv(self, buf: *mut u8, capacity: usize) -> Operation {
        let context_id = self.context_id;
        // SAFETY: the caller's duty.
        let what = unsafe {
            match self.what {
                AnyMessage::Ofi(m) => NetmodRequest::Ofi(m.irecv(buf, capacity)),
                AnyMessage::Ucx(m) => NetmodRequest::Ucx(m.irecv(buf, capacity)),
            }
        };
        Operation { context_id, what }
    }
}
