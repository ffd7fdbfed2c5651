//! Operations under way and messages of matched probes, as handles hold them.

use crate::abi::*;
use crate::error::Fail;
use std::ffi::c_int;
use transport::datatype::Layout;
use transport::match_netmod;
use transport::msg::{Message, MsgError, Request, Status};
use transport::netmod::{self, Netmod};

/// An operation under way, and the context it is on.
pub(crate) struct Operation {
    pub(crate) context_id: usize,
    pub(crate) what: NetmodRequest,
}

/// A netmod that devices are opened over.
pub(crate) trait Native: Netmod {
    fn request(request: Request<Self>) -> NetmodRequest;
    fn message(message: Message<Self>) -> AnyMessage;
}

macro_rules! native {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// The request of an operation, by netmod.
        pub(crate) enum NetmodRequest {
            $($netmod(Request<netmod::$module::$netmod>),)*
            Rma(Box<dyn Rma>),
        }

        /// The message of a matched probe, by netmod.
        pub(crate) enum AnyMessage {
            $($netmod(Message<netmod::$module::$netmod>),)*
        }

        $(
            impl Native for netmod::$module::$netmod {
                fn request(request: Request<Self>) -> NetmodRequest {
                    NetmodRequest::$netmod(request)
                }

                fn message(message: Message<Self>) -> AnyMessage {
                    AnyMessage::$netmod(message)
                }
            }
        )*
    };
}

transport::netmods!(native);

/// An operation of a window under way.
pub(crate) trait Rma {
    fn test(&mut self) -> Result<bool, Fail>;
    fn wait(&mut self) -> Result<(), Fail>;
    /// Returns true if it is over; how it ended is for the next of these.
    fn is_complete(&mut self) -> bool;
}

/// How an operation ended: its status, and for a truncated message also why.
pub(crate) type Completed = Result<rankway_status_t, (Option<rankway_status_t>, Fail)>;

pub(crate) fn completed(result: Result<Status, MsgError>) -> Completed {
    result.map(|s| status(&s)).map_err(|e| {
        let told = match &e {
            MsgError::Truncated { source_rank, tag, peer, length, .. }
            | MsgError::Types { source_rank, tag, peer, length } => Some(rankway_status_t {
                source: *source_rank as c_int,
                tag: *tag as c_int,
                count: *length,
                bits: u64::from(*source_rank) << 32 | u64::from(*tag),
                peer: *peer,
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
        match_netmod!(
            &mut self.what,
            NetmodRequest(r) => r.test().transpose().map(completed),
            NetmodRequest::Rma(r) => match r.test() {
                Ok(false) => None,
                Ok(true) => Some(Ok(rankway_status_t::default())),
                Err(e) => Some(Err((None, e))),
            }
        )
    }

    /// Returns true if a wait would not wait; how it ended stays there.
    pub(crate) fn is_complete(&mut self) -> bool {
        match_netmod!(
            &mut self.what,
            NetmodRequest(r) => r.is_complete(),
            NetmodRequest::Rma(r) => r.is_complete()
        )
    }

    pub(crate) fn wait(self) -> Completed {
        match_netmod!(
            self.what,
            NetmodRequest(r) => completed(r.wait()),
            NetmodRequest::Rma(mut r) => {
                r.wait().map(|()| rankway_status_t::default()).map_err(|e| (None, e))
            }
        )
    }

    pub(crate) fn cancel(&mut self) -> bool {
        match_netmod!(
            &mut self.what,
            NetmodRequest(r) => r.cancel(),
            NetmodRequest::Rma(_) => false
        )
    }
}

/// A message of a matched probe, and the context it is on.
pub(crate) struct Matched {
    pub(crate) context_id: usize,
    pub(crate) what: AnyMessage,
}

impl Matched {
    pub(crate) fn status(&self) -> rankway_status_t {
        match_netmod!(&self.what, AnyMessage(m) => status(&m.status()))
    }

    /// # Safety
    /// As [`Message::irecv`].
    pub(crate) unsafe fn irecv(self, buf: *mut u8, capacity: usize) -> Operation {
        let context_id = self.context_id;
        // SAFETY: [BUF].
        let what = unsafe {
            match_netmod!(self.what, AnyMessage(m) => Native::request(m.irecv(buf, capacity)))
        };
        Operation { context_id, what }
    }

    /// # Safety
    /// As [`Message::irecv_layout`].
    pub(crate) unsafe fn irecv_type(self, memory: *mut u8, layout: &Layout) -> Operation {
        let context_id = self.context_id;
        // SAFETY: [BUF].
        let what = unsafe {
            match_netmod!(
                self.what,
                AnyMessage(m) => Native::request(m.irecv_layout(memory, layout))
            )
        };
        Operation { context_id, what }
    }
}
