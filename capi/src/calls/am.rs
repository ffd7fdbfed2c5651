//! Active messages, with headers of any length ([`crate::am`] has how they
//! travel).

use crate::abi::*;
use crate::am::{Function, Handler, MARK, OutgoingAm, SendMode, running};
use crate::args::{answer, bytes_at, out, rank};
use crate::error::{Fail, call};
use crate::objects::{Comm, Context};
use crate::table::find;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use transport::msg::{HEADER, MsgError};

/// The longest header that travels as one.
const SHORT: usize = HEADER - MARK;

/// A short header as it travels, in `space`; `None` of a longer one.
fn short<'a>(hdr: &[u8], space: &'a mut [u8; HEADER]) -> Option<&'a [u8]> {
    let header = space.get_mut(..MARK + hdr.len())?;
    header[MARK..].copy_from_slice(hdr);
    Some(header)
}

/// Lays header and data out as they travel.
///
/// # Safety
/// Both are null or readable for as many bytes.
unsafe fn with_message<R>(
    id: c_int,
    hdr: (*const c_void, usize),
    data: (*const c_void, usize),
    run: impl FnOnce(OutgoingAm<'_>) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let id = number(id)?;
    // SAFETY: the caller's.
    let (hdr, data) = unsafe { (bytes_at("hdr", hdr)?, bytes_at("data", data)?) };
    if let Some(header) = short(hdr, &mut [0; HEADER]) {
        return run(OutgoingAm { id, header, payload: data });
    }
    let long = u32::try_from(hdr.len()).map_err(|_| {
        let why = format!("a header of {} bytes", hdr.len());
        Fail::new(rankway_code::RANKWAY_ERR_RANGE, why)
    })?;
    run(OutgoingAm { id, header: &long.to_le_bytes(), payload: &[hdr, data].concat() })
}

/// The header of a message as it travels that is posted to `rank` of the job, with `payload`
/// bytes of data: never too long for one, as `limit` says what a packet takes.
///
/// # Safety
/// It is null or readable for as many bytes.
pub(super) unsafe fn with_posted<R>(
    id: c_int,
    hdr: (*const c_void, usize),
    (rank, payload): (u32, usize),
    limit: impl FnOnce() -> Result<usize, Fail>,
    run: impl FnOnce(u16, &[u8]) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let id = number(id)?;
    // SAFETY: the caller's.
    let hdr = unsafe { bytes_at("hdr", hdr)? };
    if hdr.len() > SHORT {
        let (header, limit) = (hdr.len(), limit()?);
        let header_limit = limit.saturating_sub(MARK);
        if header > header_limit {
            return Err(MsgError::TooLong { rank, header, payload, header_limit, limit }.into());
        }
    }
    match short(hdr, &mut [0; HEADER]) {
        Some(header) => run(id, header),
        None => run(id, &[&[0; MARK], hdr].concat()),
    }
}

fn number(id: c_int) -> Result<u16, Fail> {
    u16::try_from(id).map_err(|_| {
        let why = format!("handler {id}: numbers are 0 to 65535");
        Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
    })
}

/// Has a number call a handler from now on, on this context. Messages for it
/// that came before are offered to it by the next progress. It stays until the
/// context is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_register(
    context: rankway_context_t,
    handler_id: c_int,
    handler: rankway_am_handler_t,
    argument: *mut c_void,
) -> c_int {
    call("rankway_am_register", || {
        let function = handler.ok_or_else(|| Fail::null("handler"))?;
        // SAFETY: the same function, of which less is assumed.
        let function = unsafe { std::mem::transmute::<usize, Function>(function as usize) };
        let found = find::<Rc<dyn Context>>(context)?;
        found.am_register(number(handler_id)?, Handler::new(function, argument))
    })
}

/// Calls a handler of a rank's, on its context of the same index; makes
/// progress until there is credit. Header and data are the caller's again on
/// return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_send(
    rank: c_int,
    comm: rankway_comm_t,
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    call("rankway_am_send", || {
        let (hdr, data) = ((hdr, hdr_bytes), (data, bytes));
        // SAFETY: [BUF].
        unsafe { send(rank, comm, handler_id, hdr, data, SendMode::Wait).map(drop) }
    })
}

/// rankway_am_send that does not wait: `flag` 1 when it was sent, 0 when there
/// is no credit now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_try_send(
    rank: c_int,
    comm: rankway_comm_t,
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(flag, "flag") };
    answer("rankway_am_try_send", to, || {
        let (hdr, data) = ((hdr, hdr_bytes), (data, bytes));
        // SAFETY: [BUF].
        Ok(c_int::from(unsafe { send(rank, comm, handler_id, hdr, data, SendMode::Try)? }))
    })
}

/// rankway_am_send whose handler may answer with rankway_am_reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_request(
    rank: c_int,
    comm: rankway_comm_t,
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    call("rankway_am_request", || {
        let (hdr, data) = ((hdr, hdr_bytes), (data, bytes));
        // SAFETY: [BUF].
        unsafe { send(rank, comm, handler_id, hdr, data, SendMode::WaitRequest).map(drop) }
    })
}

/// rankway_am_request that does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_try_request(
    rank: c_int,
    comm: rankway_comm_t,
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(flag, "flag") };
    answer("rankway_am_try_request", to, || {
        let (hdr, data) = ((hdr, hdr_bytes), (data, bytes));
        // SAFETY: [BUF].
        Ok(c_int::from(unsafe { send(rank, comm, handler_id, hdr, data, SendMode::TryRequest)? }))
    })
}

unsafe fn send(
    to: c_int,
    comm: rankway_comm_t,
    id: c_int,
    hdr: (*const c_void, usize),
    data: (*const c_void, usize),
    mode: SendMode,
) -> Result<bool, Fail> {
    let found = find::<Rc<dyn Comm>>(comm)?;
    let to = rank(to)?;
    // Both are copied where the header is long: not for nothing.
    if hdr.1 > SHORT {
        let (header, payload, longest) = (hdr.1, data.1, found.am_longest(to)?);
        let (rank, limit) = (found.world_rank(to)?, longest.saturating_sub(header));
        if header > longest || payload > limit {
            let header_limit = longest;
            return Err(MsgError::TooLong { rank, header, payload, header_limit, limit }.into());
        }
    }
    // SAFETY: [BUF].
    unsafe { with_message(id, hdr, data, |message| found.am_send(to, message, mode)) }
}

/// Within a handler: answers the request it runs for, once, by calling a
/// handler of the requester's. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_reply(
    handler_id: c_int,
    hdr: *const c_void,
    hdr_bytes: usize,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    call("rankway_am_reply", || {
        let none = || {
            let why = "no handler of a request runs in this thread, or it has answered already";
            Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
        };
        // SAFETY: [BUF].
        unsafe {
            with_message(handler_id, (hdr, hdr_bytes), (data, bytes), |message| {
                // The innermost handler has not returned, so that the message
                // is there, and nothing else uses it meanwhile.
                running().and_then(|call| (*call).reply(message)).unwrap_or_else(|| Err(none()))
            })
        }
    })
}

/// The most bytes of data that an active message to a rank takes, with a
/// header of at most 12 bytes; a longer header counts as data. Longer data goes
/// as a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_am_limit(
    rank_: c_int,
    comm: rankway_comm_t,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(bytes, "bytes") };
    answer("rankway_am_limit", to, || find::<Rc<dyn Comm>>(comm)?.am_longest(rank(rank_)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{rankway_error_message, rankway_strerror};
    use std::ffi::CStr;

    unsafe extern "C-unwind" fn panics(
        calls: *mut c_void,
        _: u32,
        _: *const c_void,
        _: usize,
        _: *const c_void,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the test's count.
        unsafe { *calls.cast::<usize>() += 1 };
        assert!(bytes > 0, "a message of no bytes");
        0
    }

    fn text(at: *const std::ffi::c_char) -> String {
        // SAFETY: the library's texts end with 0.
        unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_handlers_panic_is_told_and_the_context_goes_on() {
        use crate::calls::message::{
            rankway_tagged_irecv, rankway_tagged_isend, rankway_test, rankway_wait,
        };
        let mut calls = 0_usize;
        let (mut device, mut context, mut world) = Default::default();
        // SAFETY: pointers to this test's own; the handler's type differs by
        // what may come out of it.
        unsafe {
            let handler =
                std::mem::transmute::<usize, rankway_am_handler_t>(panics as *const () as usize);
            let none = std::ptr::null();
            assert_eq!(crate::calls::device::rankway_init(none, &mut device, &mut context), 0);
            assert_eq!(crate::calls::comm::rankway_comm_world(context, &mut world), 0);
            let argument = (&raw mut calls).cast();
            assert_eq!(rankway_am_register(context, 1, handler, argument), 0);
            let send =
                |bytes| rankway_am_send(0, world, 1, none.cast(), 0, [7_u8].as_ptr().cast(), bytes);
            assert_eq!((send(0), send(1)), (0, 0));
            let code = crate::calls::device::rankway_progress(context);
            assert_eq!(code, rankway_code::RANKWAY_ERR_INTERNAL as c_int);
            assert!(text(rankway_strerror(code)).contains("internal"));
            let why = text(rankway_error_message());
            assert!(
                why.starts_with("rankway_progress: ") && why.contains("a message of no bytes"),
                "{why}"
            );
            assert_eq!(calls, 2);
            // The message is not the handler's any more.
            assert_eq!(
                rankway_am_reply(1, none.cast(), 0, none.cast(), 0),
                rankway_code::RANKWAY_ERR_ARG as c_int
            );
            assert_eq!(crate::calls::device::rankway_progress(context), 0);
            assert_eq!(send(1), 0);
            assert_eq!(crate::calls::device::rankway_progress(context), 0);
            assert_eq!(calls, 3);
            // A receive whose test a panic ends goes on, too.
            let (mut receive, mut sent) = Default::default();
            let (mut word, mut flag, value) = (0_u64, 0, 7_u64);
            let (into, from) = ((&raw mut word).cast(), (&raw const value).cast());
            assert_eq!(rankway_tagged_irecv(context, into, 8, 0, 1, 2, 0, &mut receive), 0);
            assert_eq!(send(0), 0);
            let code = rankway_test(&mut receive, &mut flag, std::ptr::null_mut());
            assert_eq!(code, rankway_code::RANKWAY_ERR_INTERNAL as c_int);
            assert_eq!(rankway_tagged_isend(context, from, 8, 0, 1, 2, 0, &mut sent), 0);
            assert_eq!(rankway_wait(&mut receive, std::ptr::null_mut()), 0);
            assert_eq!(rankway_wait(&mut sent, std::ptr::null_mut()), 0);
            assert_eq!(word, 7);
            assert_eq!(crate::calls::comm::rankway_comm_free(world), 0);
            assert_eq!(crate::calls::device::rankway_context_close(context), 0);
            assert_eq!(crate::calls::device::rankway_finalize(device), 0);
        }
    }
}
