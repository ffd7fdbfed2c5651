//! A completion queue, for device layers with requests of their own: operations carry a
//! cookie, and what has ended is taken from a queue, many at a time.

use crate::abi::*;
use crate::args::{answer, buffer, bytes_at, list, out, receive_buffer, tell};
use crate::calls::am::with_posted;
use crate::calls::message::match_spec;
use crate::error::{Fail, call, record};
use crate::objects::{Context, CqEntry};
use crate::table::find;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::rc::Rc;
use transport::msg::Envelope;

fn cookie_of(cookie: u64) -> Result<NonZeroU64, Fail> {
    NonZeroU64::new(cookie).ok_or_else(|| {
        Fail::new(rankway_code::RANKWAY_ERR_ARG, "the cookie is 0; any other number is one")
    })
}

/// rankway_tagged_isend without a request: rankway_cq_read hands out `cookie`, which is
/// not 0, when the send has ended. `id` 0: it is done, and does not come there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_cq_isend(
    context: rankway_context_t,
    buf: *const c_void,
    bytes: usize,
    peer: u32,
    channel: u64,
    match_bits: u64,
    synchronous: c_int,
    cookie: u64,
    id: *mut u64,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(id, "id") };
    answer("rankway_cq_isend", to, || {
        let found = find::<Rc<dyn Context>>(context)?;
        let buf = (buffer("buf", buf.cast(), bytes)?, bytes);
        let dest = Envelope { peer, channel, bits: match_bits };
        found.cq_isend(buf, dest, synchronous != 0, cookie_of(cookie)?)
    })
}

/// rankway_tagged_irecv without a request: rankway_cq_read hands out `cookie`, which is
/// not 0, when it has ended, also where that is at once. `id` names it for
/// rankway_cq_cancel; 0: there is nothing to take back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_cq_irecv(
    context: rankway_context_t,
    buf: *mut c_void,
    bytes: usize,
    peer: i64,
    channel: u64,
    match_bits: u64,
    ignore: u64,
    cookie: u64,
    id: *mut u64,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(id, "id") };
    answer("rankway_cq_irecv", to, || {
        let found = find::<Rc<dyn Context>>(context)?;
        let buf = receive_buffer(buf, bytes)?;
        let spec = match_spec(channel, match_bits, ignore, peer)?;
        found.cq_irecv(buf, &spec, cookie_of(cookie)?)
    })
}

/// Asks that a receive be taken back: `flag` 1 if it had no message yet, and it then
/// comes out of the queue as cancelled; 0 if it is too late, for sends, and for an `id`
/// that names nothing any more. `flag` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_cq_cancel(
    context: rankway_context_t,
    id: u64,
    flag: *mut c_int,
) -> c_int {
    call("rankway_cq_cancel", || {
        let found = find::<Rc<dyn Context>>(context)?;
        let done = NonZeroU64::new(id).map_or(Ok(false), |id| found.cq_cancel(id))?;
        // SAFETY: [PTR].
        unsafe { tell(flag, Some(c_int::from(done))) };
        Ok(())
    })
}

/// Calls a handler of a process's, a rank of the job, with header and data of any length,
/// whenever the way there has space: never waits, also within a handler. The header, of at
/// most 4 bytes less than rankway_am_limit says, is the caller's again on return. `done` 1:
/// the data is, too, and no completion comes; 0: it is when rankway_cq_read hands out
/// `cookie`. Those posted to a process arrive in their order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_post(
    context: rankway_context_t,
    peer: u32,
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
    cookie: u64,
    done: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(done, "done") };
    answer("rankway_am_post", to, || {
        let (found, cookie) = (find::<Rc<dyn Context>>(context)?, cookie_of(cookie)?);
        // SAFETY: [BUF].
        let data = unsafe { bytes_at("data", (data, bytes))? };
        let (hdr, data, limit) =
            ((hdr, hdr_bytes), (data.as_ptr(), bytes), || found.am_longest(peer));
        // SAFETY: [BUF].
        unsafe {
            with_posted(handler_id, hdr, (peer, bytes), limit, |id, header| {
                Ok(c_int::from(found.am_post(peer, id, header, data, cookie)?))
            })
        }
    })
}

/// Takes up to `most` operations out of the queue that have ended since, each once; makes
/// no progress. `count` is how many; the code of each is in its completion, and
/// rankway_error_message has the last one that failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_cq_read(
    context: rankway_context_t,
    completions: *mut rankway_completion_t,
    most: c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(count, "count") };
    answer("rankway_cq_read", to, || {
        let found = find::<Rc<dyn Context>>(context)?;
        // SAFETY: [PTR].
        let places = unsafe { list(most, completions.cast_const(), "completions")? }.len();
        let mut at = completions;
        let count = found.cq_read(places, &mut |CqEntry { cookie, result }| {
            let (status, code) = match result {
                Ok(status) => (status, rankway_code::RANKWAY_SUCCESS as c_int),
                Err((status, fail)) => {
                    (status.unwrap_or_default(), record("rankway_cq_read", &fail))
                }
            };
            // SAFETY: one of the places of the list, each once: [PTR].
            unsafe { at.write(rankway_completion_t { cookie, status, code }) };
            at = at.wrapping_add(1);
        })?;
        Ok(count as c_int)
    })
}
