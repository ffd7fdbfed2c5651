//! Tagged messages: by communicator, rank and tag, and by match bits.

use crate::abi::*;
use crate::am;
use crate::args::{Out, answer, buffer, list, out, rank, receive_buffer, tell};
use crate::error::{Fail, call};
use crate::objects::{Comm, Context, SourceAndTag};
use crate::operation::{self, Completed, Matched, Operation};
use crate::table::{self, TableGuard, TableObject, find, take};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use transport::datatype::Layout;
use transport::msg::{Envelope, MatchSpec};

fn tag(tag: c_int) -> Result<u32, Fail> {
    u32::try_from(tag).map_err(|_| {
        Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("tag {tag}: tags begin at 0"))
    })
}

fn from(source: c_int, tag_: c_int) -> Result<SourceAndTag, Fail> {
    Ok(SourceAndTag {
        source: if source == RANKWAY_ANY_SOURCE { None } else { Some(rank(source)?) },
        tag: if tag_ == RANKWAY_ANY_TAG { None } else { Some(tag(tag_)?) },
    })
}

/// Begins an operation on an object; its request is the answer.
#[inline]
pub(super) fn begin<T: TableObject + Clone>(
    name: &str,
    to: Result<Out<rankway_request_t>, Fail>,
    on: T::Handle,
    operation: impl FnOnce(&T) -> Result<Operation, Fail>,
) -> c_int {
    answer(name, to, || {
        let found = find::<T>(on)?;
        found.guard.insert(operation(&found)?)
    })
}

/// Begins a send. The buffer is the operation's until the request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_isend(
    buf: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_isend", to, comm, |comm| send(comm, (buf, bytes), dest, tag, false))
}

/// Begins a synchronous send: complete when a receive took the message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_issend(
    buf: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_issend", to, comm, |comm| send(comm, (buf, bytes), dest, tag, true))
}

fn send(
    comm: &Rc<dyn Comm>,
    buf: (*const c_void, usize),
    dest: c_int,
    tag_: c_int,
    synchronous: bool,
) -> Result<Operation, Fail> {
    let buf = (buffer("buf", buf.0.cast(), buf.1)?, buf.1);
    comm.isend(buf, rank(dest)?, tag(tag_)?, synchronous)
}

/// Begins a receive. `source` may be RANKWAY_ANY_SOURCE, `tag` RANKWAY_ANY_TAG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_irecv(
    buf: *mut c_void,
    bytes: usize,
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_irecv", to, comm, |comm: &Rc<dyn Comm>| {
        comm.irecv(receive_buffer(buf, bytes)?, from(source, tag)?)
    })
}

/// `count` elements of a datatype at `memory`, which must be there if they have a
/// byte.
fn elements(
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
) -> Result<(*const u8, Layout), Fail> {
    let layout = table::layout(datatype)?.times(count)?;
    let bytes = usize::try_from(layout.size()).unwrap_or(usize::MAX);
    Ok((buffer("memory", memory.cast(), bytes)?, layout))
}

/// rankway_isend of `count` elements of a datatype at `memory`, which are the
/// operation's until the request is complete; the datatype may be freed before. What
/// is received may have another datatype of the same basic types, or none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_isend_type(
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
    dest: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    let data = (memory, count, datatype);
    begin("rankway_isend_type", to, comm, |comm| send_type(comm, data, dest, tag, false))
}

/// rankway_issend of `count` elements of a datatype, as rankway_isend_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_issend_type(
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
    dest: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    let data = (memory, count, datatype);
    begin("rankway_issend_type", to, comm, |comm| send_type(comm, data, dest, tag, true))
}

fn send_type(
    comm: &Rc<dyn Comm>,
    data: (*const c_void, u64, rankway_type_t),
    dest: c_int,
    tag_: c_int,
    synchronous: bool,
) -> Result<Operation, Fail> {
    let (memory, layout) = elements(data.0, data.1, data.2)?;
    comm.isend_type((memory, &layout), (rank(dest)?, tag(tag_)?), synchronous)
}

/// rankway_irecv into `count` elements of a datatype at `memory`; nothing between
/// them is written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_irecv_type(
    memory: *mut c_void,
    count: u64,
    datatype: rankway_type_t,
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_irecv_type", to, comm, |comm: &Rc<dyn Comm>| {
        let (memory, layout) = elements(memory, count, datatype)?;
        comm.irecv_type((memory.cast_mut(), &layout), from(source, tag)?)
    })
}

/// Sets `flag` to 1 if a message that fits has arrived, else to 0. Makes
/// progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_iprobe(
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    flag: *mut c_int,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_iprobe", || {
        // SAFETY: [PTR].
        let to = unsafe { out(flag, "flag")? };
        let found = find::<Rc<dyn Comm>>(comm)?;
        let message = found.iprobe(from(source, tag)?)?;
        to.set(c_int::from(message.is_some()));
        // SAFETY: [PTR].
        unsafe { tell(status, message.map(|s| operation::status(&s))) };
        Ok(())
    })
}

/// Waits for a message that fits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_probe(
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_probe", || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        let message = found.probe(from(source, tag)?)?;
        // SAFETY: [PTR].
        unsafe { tell(status, Some(operation::status(&message))) };
        Ok(())
    })
}

/// Takes a message that fits, if one came in, so that no other receive finds
/// it: `flag` 1 and a handle for rankway_imrecv, or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_improbe(
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    flag: *mut c_int,
    message: *mut rankway_message_t,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_improbe", || {
        // SAFETY: [PTR].
        let (to, handle) = unsafe { (out(flag, "flag")?, out(message, "message")?) };
        let found = find::<Rc<dyn Comm>>(comm)?;
        let matched = found.improbe(from(source, tag)?)?;
        // SAFETY: [PTR].
        unsafe { give(&found.guard, matched, to, handle, status) }
    })
}

/// Waits for a message that fits and takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_mprobe(
    source: c_int,
    tag: c_int,
    comm: rankway_comm_t,
    message: *mut rankway_message_t,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_mprobe", || {
        // SAFETY: [PTR].
        let handle = unsafe { out(message, "message")? };
        let found = find::<Rc<dyn Comm>>(comm)?;
        let matched = found.mprobe(from(source, tag)?)?;
        let told = matched.status();
        handle.set(found.guard.insert(matched)?);
        // SAFETY: [PTR].
        unsafe { tell(status, Some(told)) };
        Ok(())
    })
}

unsafe fn give(
    guard: &TableGuard,
    matched: Option<Matched>,
    flag: Out<c_int>,
    handle: Out<rankway_message_t>,
    status: *mut rankway_status_t,
) -> Result<(), Fail> {
    flag.set(c_int::from(matched.is_some()));
    let told = matched.as_ref().map(Matched::status);
    handle.set(matched.map_or(Ok(rankway_message_t::default()), |t| guard.insert(t))?);
    // SAFETY: [PTR].
    unsafe { tell(status, told) };
    Ok(())
}

/// Begins to receive a message that a matched probe took. Its handle ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_imrecv(
    buf: *mut c_void,
    bytes: usize,
    message: rankway_message_t,
    request: *mut rankway_request_t,
) -> c_int {
    call("rankway_imrecv", || {
        // SAFETY: [PTR].
        let to = unsafe { out(request, "request")? };
        let (buf, bytes) = receive_buffer(buf, bytes)?;
        let (guard, matched) = take::<Matched>(message)?;
        // SAFETY: [BUF].
        to.set(guard.insert(unsafe { matched.irecv(buf, bytes) })?);
        Ok(())
    })
}

/// rankway_imrecv into `count` elements of a datatype, as rankway_irecv_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_imrecv_type(
    memory: *mut c_void,
    count: u64,
    datatype: rankway_type_t,
    message: rankway_message_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    answer("rankway_imrecv_type", to, || {
        let (memory, layout) = elements(memory, count, datatype)?;
        let (guard, matched) = take::<Matched>(message)?;
        // SAFETY: [BUF].
        guard.insert(unsafe { matched.irecv_type(memory.cast_mut(), &layout) })
    })
}

/// Begins a send by match bits, for device layers that lay them out
/// themselves: to a rank of the job, on a channel, which is any number both
/// sides know. With `synchronous` not 0 it is complete when a receive took the
/// message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_isend(
    context: rankway_context_t,
    buf: *const c_void,
    bytes: usize,
    peer: u32,
    channel: u64,
    match_bits: u64,
    synchronous: c_int,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_tagged_isend", to, context, |context: &Rc<dyn Context>| {
        let buf = (buffer("buf", buf.cast(), bytes)?, bytes);
        let dest = Envelope { peer, channel, bits: match_bits };
        context.isend(buf, dest, synchronous != 0)
    })
}

/// rankway_tagged_isend of `count` elements of a datatype, as rankway_isend_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_isend_type(
    context: rankway_context_t,
    memory: *const c_void,
    count: u64,
    datatype: rankway_type_t,
    peer: u32,
    channel: u64,
    match_bits: u64,
    synchronous: c_int,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_tagged_isend_type", to, context, |context: &Rc<dyn Context>| {
        let (memory, layout) = elements(memory, count, datatype)?;
        let dest = Envelope { peer, channel, bits: match_bits };
        context.isend_type((memory, &layout), dest, synchronous != 0)
    })
}

pub(super) fn match_spec(
    channel: u64,
    bits: u64,
    ignore: u64,
    peer: i64,
) -> Result<MatchSpec, Fail> {
    let from = match peer {
        -1 => None,
        peer => Some(u32::try_from(peer).map_err(|_| {
            let why = format!("the sender is {peer}: a rank of the job, or -1 for any");
            Fail::new(rankway_code::RANKWAY_ERR_RANK, why)
        })?),
    };
    Ok(MatchSpec { channel, bits, ignore, from })
}

/// Begins a receive by match bits; those set in `ignore` need not agree. `peer`
/// is the only possible sender, so that its death ends the receive, or -1; it is a
/// promise, and no part of the match.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_irecv(
    context: rankway_context_t,
    buf: *mut c_void,
    bytes: usize,
    peer: i64,
    channel: u64,
    match_bits: u64,
    ignore: u64,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_tagged_irecv", to, context, |context: &Rc<dyn Context>| {
        let buf = receive_buffer(buf, bytes)?;
        context.irecv(buf, &match_spec(channel, match_bits, ignore, peer)?)
    })
}

/// rankway_tagged_irecv into `count` elements of a datatype, as rankway_irecv_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_irecv_type(
    context: rankway_context_t,
    memory: *mut c_void,
    count: u64,
    datatype: rankway_type_t,
    peer: i64,
    channel: u64,
    match_bits: u64,
    ignore: u64,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_tagged_irecv_type", to, context, |context: &Rc<dyn Context>| {
        let (memory, layout) = elements(memory, count, datatype)?;
        let spec = match_spec(channel, match_bits, ignore, peer)?;
        context.irecv_type((memory.cast_mut(), &layout), &spec)
    })
}

/// rankway_iprobe by match bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_iprobe(
    context: rankway_context_t,
    peer: i64,
    channel: u64,
    match_bits: u64,
    ignore: u64,
    flag: *mut c_int,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_tagged_iprobe", || {
        // SAFETY: [PTR].
        let to = unsafe { out(flag, "flag")? };
        let found = find::<Rc<dyn Context>>(context)?;
        let message = found.probe(&match_spec(channel, match_bits, ignore, peer)?)?;
        to.set(c_int::from(message.is_some()));
        // SAFETY: [PTR].
        unsafe { tell(status, message.map(|s| operation::status(&s))) };
        Ok(())
    })
}

/// rankway_improbe by match bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_tagged_improbe(
    context: rankway_context_t,
    peer: i64,
    channel: u64,
    match_bits: u64,
    ignore: u64,
    flag: *mut c_int,
    message: *mut rankway_message_t,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_tagged_improbe", || {
        // SAFETY: [PTR].
        let (to, handle) = unsafe { (out(flag, "flag")?, out(message, "message")?) };
        let found = find::<Rc<dyn Context>>(context)?;
        let matched = found.improbe(&match_spec(channel, match_bits, ignore, peer)?)?;
        // SAFETY: [PTR].
        unsafe { give(&found.guard, matched, to, handle, status) }
    })
}

/// # Safety
/// `to` is null or can be written to.
unsafe fn set_status(ended: Completed, to: *mut rankway_status_t) -> Result<(), Fail> {
    let (status, result) = match ended {
        Ok(status) => (Some(status), Ok(())),
        Err((status, fail)) => (status, Err(fail)),
    };
    // SAFETY: [PTR].
    unsafe { tell(to, status) };
    result
}

/// # Safety
/// `request` is null or can be read and written.
unsafe fn handle_at(request: *mut rankway_request_t) -> Result<rankway_request_t, Fail> {
    // SAFETY: [PTR].
    unsafe { request.as_ref() }.copied().ok_or_else(|| Fail::null("request"))
}

/// Makes progress; whether an operation is complete: `flag` 1 or 0. Complete,
/// its handle ends and `*request` becomes null, with an error of the
/// operation too. `status` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_test(
    request: *mut rankway_request_t,
    flag: *mut c_int,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_test", || {
        // SAFETY: [PTR].
        let (to, handle) = unsafe { (out(flag, "flag")?, handle_at(request)?) };
        let guard = TableGuard::of(handle)?;
        let operation = Some(guard.take::<Operation>(handle)?);
        let mut tested = Tested { guard: &guard, handle, operation };
        let Some(ended) = tested.operation.as_mut().and_then(Operation::test) else {
            to.set(0);
            return Ok(());
        };
        tested.operation = None;
        guard.remove::<Operation>(handle);
        to.set(1);
        // SAFETY: [PTR].
        unsafe {
            request.write(rankway_request_t::default());
            set_status(ended, status)
        }
    })
}

/// An operation that is taken out for a test, and goes back where it has not ended, also when
/// a handler's panic ends the test.
struct Tested<'g> {
    guard: &'g TableGuard,
    handle: rankway_request_t,
    operation: Option<Operation>,
}

impl Drop for Tested<'_> {
    fn drop(&mut self) {
        if let Some(operation) = self.operation.take() {
            self.guard.restore(self.handle, operation);
        }
    }
}

/// Waits for an operation. Its handle ends and `*request` becomes null, with
/// an error of the operation too; within a handler, where one that is not
/// complete is refused with RANKWAY_ERR_NESTED, both stay. `status` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_wait(
    request: *mut rankway_request_t,
    status: *mut rankway_status_t,
) -> c_int {
    call("rankway_wait", || {
        // SAFETY: [PTR].
        unsafe { wait(request, status) }
    })
}

/// Refuses to wait for an operation within a handler of its context, unless it is complete: one
/// that is taken out has ended.
fn may_wait(handle: rankway_request_t) -> Result<(), Fail> {
    if am::running().is_none() {
        return Ok(());
    }
    let guard = TableGuard::of(handle)?;
    let mut operation = guard.take::<Operation>(handle)?;
    let refused = am::refuse_within(operation.context_id);
    let may = refused.or_else(|e| if operation.is_complete() { Ok(()) } else { Err(e) });
    guard.restore(handle, operation);
    may
}

unsafe fn wait(request: *mut rankway_request_t, status: *mut rankway_status_t) -> Result<(), Fail> {
    // SAFETY: [PTR].
    let handle = unsafe { handle_at(request)? };
    may_wait(handle)?;
    let (_guard, operation) = take::<Operation>(handle)?;
    // SAFETY: [PTR].
    unsafe {
        request.write(rankway_request_t::default());
        set_status(operation.wait(), status)
    }
}

/// Waits for operations, null handles among them left out, whatever becomes
/// of the others; answers the first error. Within a handler, where one that is
/// not complete is refused with RANKWAY_ERR_NESTED, all stay. `statuses` may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_waitall(
    count: c_int,
    requests: *mut rankway_request_t,
    statuses: *mut rankway_status_t,
) -> c_int {
    call("rankway_waitall", || {
        // SAFETY: [PTR].
        let all = unsafe { list(count, requests.cast_const(), "requests")? };
        let nested = |e: &Fail| e.code == rankway_code::RANKWAY_ERR_NESTED;
        if let Some(e) = all.iter().filter_map(|&r| may_wait(r).err()).find(nested) {
            return Err(e);
        }
        let len = all.len();
        let mut result = Ok(());
        for at in 0..len {
            let (request, status) = (requests.wrapping_add(at), statuses.wrapping_add(at));
            let status = if statuses.is_null() { statuses } else { status };
            // SAFETY: both lists have that many places: [PTR].
            let ended = unsafe {
                match (*request).id {
                    0 => {
                        tell(status, Some(rankway_status_t::default()));
                        Ok(())
                    }
                    _ => wait(request, status),
                }
            };
            result = result.and(ended);
        }
        result
    })
}

/// Asks that a receive be taken back: `flag` 1 if it had no message yet, and
/// it then completes as cancelled; 0 if it is too late, and for sends. Either
/// way it must be waited for. `flag` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_cancel(request: rankway_request_t, flag: *mut c_int) -> c_int {
    call("rankway_cancel", || {
        let guard = TableGuard::of(request)?;
        let mut operation = guard.take::<Operation>(request)?;
        let done = operation.cancel();
        guard.restore(request, operation);
        // SAFETY: [PTR].
        unsafe { tell(flag, Some(c_int::from(done))) };
        Ok(())
    })
}

/// Lets go of an operation: it goes on by itself, but for a receive without a
/// message, which is taken back. Its buffer is its own until it would have
/// been complete. `*request` becomes null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_request_free(request: *mut rankway_request_t) -> c_int {
    call("rankway_request_free", || {
        // SAFETY: [PTR].
        let handle = unsafe { handle_at(request)? };
        let (_guard, operation) = take::<Operation>(handle)?;
        drop(operation);
        // SAFETY: as above.
        unsafe { request.write(rankway_request_t::default()) };
        Ok(())
    })
}
