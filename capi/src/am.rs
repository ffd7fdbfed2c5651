//! Active messages as they travel, and the handlers that C registers.
//!
//! The library carries sixteen bytes of header. Here the first four are the
//! bytes of a longer header, which then goes before the data; a shorter one
//! follows them.

use crate::error::Fail;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use transport::device::DeviceError;
use transport::msg::{HEADER, HandlerStatus, MsgError};

/// Bytes before a short header.
pub(crate) const MARK: usize = 4;

/// A message to send.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingAm<'a> {
    pub(crate) id: u16,
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl OutgoingAm<'_> {
    /// Why it was not sent, in the caller's lengths.
    pub(crate) fn refused(&self, why: MsgError) -> Fail {
        let long = self.header.first_chunk().map_or(0, |mark| u32::from_le_bytes(*mark)) as usize;
        match why {
            MsgError::TooLong { rank, header, limit, .. } if long == 0 => {
                let (header, header_limit) = (header.saturating_sub(MARK), HEADER - MARK);
                let payload = self.payload.len();
                MsgError::TooLong { rank, header, payload, header_limit, limit }.into()
            }
            MsgError::TooLong { rank, payload, limit, .. } => {
                let (payload, rest) = (payload.saturating_sub(long), limit.saturating_sub(long));
                let header_limit = limit;
                MsgError::TooLong { rank, header: long, payload, header_limit, limit: rest }.into()
            }
            why => why.into(),
        }
    }
}

/// How a message is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    Try,
    TryRequest,
    Wait,
    WaitRequest,
}

/// A message that a handler runs for.
pub(crate) trait Call {
    /// Answers a request, once; `None` when there is nothing to answer.
    fn reply(&mut self, message: OutgoingAm<'_>) -> Option<Result<(), Fail>>;
}

/// A function of C with its argument.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    function: Function,
    argument: *mut c_void,
}

/// "C-unwind": what is thrown or panics in one goes through, to be told at the
/// border or to end the process, and is not undefined.
pub(crate) type Function = unsafe extern "C-unwind" fn(
    *mut c_void,
    u32,
    *const c_void,
    usize,
    *const c_void,
    usize,
) -> c_int;

thread_local! {
    /// The messages whose handlers run on this thread, one within another, and the contexts
    /// that they came on.
    static CALLS: RefCell<Vec<(usize, *mut dyn Call)>> = const { RefCell::new(Vec::new()) };
}

/// The message whose handler runs on this thread, the innermost. It is there
/// until that handler returns.
pub(crate) fn running() -> Option<*mut dyn Call> {
    CALLS.with_borrow(|calls| calls.last().map(|&(_, call)| call))
}

/// Refuses, within a handler of a context, what would wait on it: for calls that the library
/// would refuse only once they have taken their object.
pub(crate) fn refuse_within(context_id: usize) -> Result<(), Fail> {
    match CALLS.with_borrow(|calls| calls.iter().any(|&(id, _)| id == context_id)) {
        true => Err(DeviceError::Nested.into()),
        false => Ok(()),
    }
}

impl Handler {
    pub(crate) fn new(function: Function, argument: *mut c_void) -> Handler {
        Handler { function, argument }
    }

    pub(crate) fn run(
        self,
        context_id: usize,
        from: u32,
        (header, payload): (&[u8], &[u8]),
        call: *mut (dyn Call + '_),
    ) -> HandlerStatus {
        let (mark, rest) = header.split_at(header.len().min(MARK));
        let long = mark.try_into().map_or(0, u32::from_le_bytes) as usize;
        // One that another program sent: all of it is data.
        let long = if long > payload.len() { 0 } else { long };
        let (front, data) = payload.split_at(long);
        let header = if long > 0 { front } else { rest };
        /// Takes the message out again, however the function ends.
        struct Running;
        impl Drop for Running {
            fn drop(&mut self) {
                CALLS.with_borrow_mut(Vec::pop);
            }
        }
        // SAFETY: taken out again before this returns, while the message lives.
        let call = unsafe { std::mem::transmute::<*mut (dyn Call + '_), *mut dyn Call>(call) };
        CALLS.with_borrow_mut(|calls| calls.push((context_id, call)));
        let _running = Running;
        // SAFETY: [CALLBACK]; the slices live until it returns.
        let answer = unsafe {
            let (hdr, hdr_bytes) = (header.as_ptr().cast(), header.len());
            (self.function)(self.argument, from, hdr, hdr_bytes, data.as_ptr().cast(), data.len())
        };
        if answer == 0 { HandlerStatus::Consumed } else { HandlerStatus::Held }
    }
}
