//! Tagged messages. The channel is the context id, the bits are source and tag.

use crate::datatype;
use crate::fault::Refusal;
use crate::host::rkw_status;
use crate::log::guarded;
use crate::state::{Mpich, State, of_message};
use rankway::device::DeviceError;
use rankway::msg::{
    Completion, Envelope, MatchSpec, Message, MsgError, RequestId, Started, Tagged, Word,
};
use rankway::netmod::Netmod;
use rankway_plugin::Layer;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;

/// Bits of a tag by which a collective that fails tells the others: `MPIR_TAG_ERROR_BIT` and
/// `MPIR_TAG_PROC_FAILURE_BIT`.
const MARKS: u64 = 3 << 29;
/// Any sender.
const ANY: u32 = u32::MAX;
/// What a call that begins something answers, else the number of the request.
const DONE: u64 = 0;
/// The same of one whose end is told otherwise, now or later.
const TOLD: u64 = u64::MAX;
/// The same where no layout says the datatype: nothing began.
const NO_LAYOUT: u64 = u64::MAX - 1;

/// Which message goes where, as C has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct rkw_match {
    channel: u64,
    bits: u64,
    /// Bits that need not agree.
    ignore: u64,
    /// Lpid of the other side; [`ANY`].
    peer: u32,
}

impl rkw_match {
    #[inline(always)]
    fn envelope(&self) -> Envelope {
        Envelope { peer: self.peer, channel: self.channel, bits: self.bits }
    }

    #[inline(always)]
    fn spec(&self) -> MatchSpec {
        let from = (self.peer != ANY).then_some(self.peer);
        MatchSpec { channel: self.channel, bits: self.bits, ignore: self.ignore, from }
    }
}

/// Before the first message.
pub(crate) fn register<N: Netmod>(state: &State<N>) {
    state.shared.enter(|inner| inner.tagged.set_marks(MARKS));
}

#[inline(always)]
fn cookie_of(request: *mut c_void) -> NonZeroU64 {
    // SAFETY: [REQ]: an address is not 0.
    unsafe { NonZeroU64::new_unchecked(request as u64) }
}

/// Sends a short message at once and for good, if that can be done: 8 bytes of the only
/// thread without a frame of its own.
pub(crate) unsafe extern "C" fn send<N: Netmod>(
    state: *mut c_void,
    channel: u64,
    bits: u64,
    peer: u32,
    buf: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: [MPI]; [BUF], 8 bytes where they are read.
    unsafe {
        if len == Word::BYTES {
            let to = Envelope { peer, channel, bits };
            let word = Word::whole(buf.cast::<u64>().read_unaligned());
            let state = State::<N>::of(state).shared;
            let sent = || state.unlocked().and_then(|inner| inner.tagged.send_word(to, word));
            if let Some(sent) = guarded(sent) {
                return sent.into();
            }
        }
        send_any::<N>(state, channel, bits, peer, buf, len)
    }
}

/// The same of any length, from any thread.
///
/// # Safety
/// \[MPI\], \[BUF\].
#[inline(never)]
unsafe extern "C" fn send_any<N: Netmod>(
    state: *mut c_void,
    channel: u64,
    bits: u64,
    peer: u32,
    buf: *const u8,
    len: usize,
) -> c_int {
    let to = Envelope { peer, channel, bits };
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state).shared };
    // SAFETY: [BUF].
    guarded(|| state.enter(|inner| unsafe { inner.tagged.send_now(to, buf, len) })).into()
}

/// Begins a send. [`DONE`], or what names it until it has ended.
pub(crate) unsafe extern "C" fn isend<N: Netmod>(
    state: *mut c_void,
    to: *const rkw_match,
    buf: *const u8,
    len: usize,
    synchronous: c_int,
    request: *mut c_void,
) -> u64 {
    // SAFETY: [MPI]; [BUF], [REQ].
    unsafe {
        begin_send::<N>(state, to, request, |tagged, to, cookie| {
            Some(tagged.start_send(to, buf, len, synchronous != 0, cookie))
        })
    }
}

/// [`isend`] of what so many of a datatype take of a buffer; or [`NO_LAYOUT`].
pub(crate) unsafe extern "C" fn isend_layout<N: Netmod>(
    state: *mut c_void,
    to: *const rkw_match,
    buf: *const u8,
    count: i64,
    ty: c_int,
    synchronous: c_int,
    request: *mut c_void,
) -> u64 {
    // SAFETY: [MPI]; [BUF], [REQ].
    unsafe {
        begin_send::<N>(state, to, request, |tagged, to, cookie| {
            let from = datatype::around(ty, count, buf.cast_mut()).ok()?;
            Some(tagged.start_send_layout(to, from.start, &from.layout, synchronous != 0, cookie))
        })
    }
}

/// Begins a send as `start` does; [`NO_LAYOUT`] where that is `None`.
///
/// # Safety
/// \[MPI\], \[REQ\].
#[inline(always)]
unsafe fn begin_send<N: Netmod>(
    state: *mut c_void,
    to: *const rkw_match,
    request: *mut c_void,
    start: impl FnOnce(&Tagged<N>, Envelope, NonZeroU64) -> Option<Result<Started, MsgError>>,
) -> u64 {
    // SAFETY: [MPI].
    let (state, to) = unsafe { (State::<N>::of(state).shared, (*to).envelope()) };
    let cookie = cookie_of(request);
    guarded(|| {
        let begun = state.enter(|inner| {
            Some(start(&inner.tagged, to, cookie)?.and_then(|started| match started {
                Started::Pending(id) => Ok(id.number().get()),
                Started::Done(Ok(status)) if inner.defer_completion(cookie, status) => Ok(TOLD),
                Started::Done(Ok(_)) => Ok(DONE),
                Started::Done(Err(e)) => Err(e),
            }))
        });
        let Some(begun) = begun else { return NO_LAYOUT };
        state.sent(to.peer);
        begun.unwrap_or_else(|e| failed(e, cookie))
    })
}

/// Begins a receive. [`DONE`] and its status, or what names it until it has ended.
pub(crate) unsafe extern "C" fn irecv<N: Netmod>(
    state: *mut c_void,
    from: *const rkw_match,
    buf: *mut u8,
    capacity: usize,
    request: *mut c_void,
) -> u64 {
    // SAFETY: [MPI].
    let (state, spec) = unsafe { (State::<N>::of(state).shared, (*from).spec()) };
    let cookie = cookie_of(request);
    guarded(|| {
        if let Some(inner) = state.unlocked()
            && spec.ignore == 0
            // SAFETY: [BUF], [REQ].
            && let Some(id) = unsafe { inner.tagged.post_recv(spec, buf, capacity, cookie) }
        {
            return id.number().get();
        }
        // SAFETY: [BUF], [REQ].
        let start = |tagged: &Tagged<N>| unsafe { tagged.start_recv(&spec, buf, capacity, cookie) };
        began(state.enter(|inner| start(&inner.tagged)), cookie)
    })
}

/// [`irecv`] into what so many of a datatype take of a buffer; or [`NO_LAYOUT`].
pub(crate) unsafe extern "C" fn irecv_layout<N: Netmod>(
    state: *mut c_void,
    from: *const rkw_match,
    buf: *mut u8,
    count: i64,
    ty: c_int,
    request: *mut c_void,
) -> u64 {
    // SAFETY: [MPI].
    let (state, spec) = unsafe { (State::<N>::of(state).shared, (*from).spec()) };
    let cookie = cookie_of(request);
    guarded(|| {
        // SAFETY: [MPI].
        let Ok(into) = (unsafe { datatype::around(ty, count, buf) }) else { return NO_LAYOUT };
        // SAFETY: [BUF], [REQ].
        let start = |tagged: &Tagged<N>| unsafe {
            tagged.start_recv_layout(&spec, into.start, &into.layout, cookie)
        };
        began(state.enter(|inner| start(&inner.tagged)), cookie)
    })
}

/// Tells of a message that could not begin.
#[cold]
fn failed(error: MsgError, cookie: NonZeroU64) -> u64 {
    let ended = Completion { cookie, result: Err(Box::new(error)) };
    // SAFETY: [REQ], and told here only.
    unsafe { crate::state::Mpich::ended(ended) };
    TOLD
}

/// Tells of a receive that has ended; [`DONE`] then.
fn began(started: Result<Started, MsgError>, cookie: NonZeroU64) -> u64 {
    match started {
        Err(e) => failed(e, cookie),
        Ok(Started::Pending(id)) => id.number().get(),
        Ok(Started::Done(result)) => {
            let ended = Completion { cookie, result: result.map_err(Box::new) };
            // SAFETY: [REQ], done, and told here only.
            unsafe { crate::state::Mpich::ended(ended) };
            DONE
        }
    }
}

/// Returns true if there is a message, and whose.
pub(crate) unsafe extern "C" fn iprobe<N: Netmod>(
    state: *mut c_void,
    from: *const rkw_match,
    status: *mut rkw_status,
) -> c_int {
    // SAFETY: [MPI].
    let (state, spec) = unsafe { (State::<N>::of(state), (*from).spec()) };
    guarded(|| {
        let found = state.shared.enter(|inner| inner.tagged.iprobe(&spec));
        after(state);
        // SAFETY: [MPI].
        let found = unsafe { or_failed(found, status) };
        if let Some(found) = &found {
            // SAFETY: [MPI].
            unsafe { status.write(of_message(found)) };
        }
        c_int::from(found.is_some())
    })
}

/// What a probe found; tells of one that failed.
///
/// # Safety
/// \[MPI\]: `status` can be written.
#[inline]
unsafe fn or_failed<T>(found: Result<Option<T>, MsgError>, status: *mut rkw_status) -> Option<T> {
    found.unwrap_or_else(|e| {
        let failed = Refusal::from(e).kept();
        // SAFETY: the caller's.
        unsafe { status.write(rkw_status { failed, ..rkw_status::default() }) };
        None
    })
}

/// What the progress of a probe has ended.
fn after<N: Netmod>(state: &State<N>) {
    state.shared.complete_requests();
    crate::active::tell(state);
}

/// Takes a message, if there is one: what [`imrecv`] receives, and whose it is.
pub(crate) unsafe extern "C" fn improbe<N: Netmod>(
    state: *mut c_void,
    from: *const rkw_match,
    status: *mut rkw_status,
) -> *mut c_void {
    // SAFETY: [MPI].
    let (state, spec) = unsafe { (State::<N>::of(state), (*from).spec()) };
    guarded(|| {
        let found = state.shared.enter(|inner| inner.tagged.improbe(&spec));
        after(state);
        // SAFETY: [MPI].
        let found = unsafe { or_failed(found, status) };
        let Some(message) = found else { return std::ptr::null_mut() };
        // SAFETY: [MPI].
        unsafe { status.write(of_message(&message.status())) };
        Box::into_raw(Box::new(message)).cast()
    })
}

/// Begins to receive a message of [`improbe`], once.
pub(crate) unsafe extern "C" fn imrecv<N: Netmod>(
    message: *mut c_void,
    buf: *mut u8,
    capacity: usize,
    request: *mut c_void,
) -> u64 {
    guarded(|| {
        // SAFETY: [MPI]: a box of `improbe`'s for this netmod, given back once.
        let message = unsafe { Box::from_raw(message.cast::<Message<N>>()) };
        // SAFETY: [BUF], [REQ].
        let started = unsafe { message.start_recv(buf, capacity, cookie_of(request)) };
        began(Ok(started), cookie_of(request))
    })
}

/// [`imrecv`] into what so many of a datatype take of a buffer; or [`NO_LAYOUT`], and the
/// message is still to be received.
pub(crate) unsafe extern "C" fn imrecv_layout<N: Netmod>(
    message: *mut c_void,
    buf: *mut u8,
    count: i64,
    ty: c_int,
    request: *mut c_void,
) -> u64 {
    guarded(|| {
        // SAFETY: [MPI].
        let Ok(into) = (unsafe { datatype::around(ty, count, buf) }) else { return NO_LAYOUT };
        let cookie = cookie_of(request);
        // SAFETY: [MPI]: a box of `improbe`'s for this netmod, given back once.
        let message = unsafe { Box::from_raw(message.cast::<Message<N>>()) };
        // SAFETY: [BUF], [REQ].
        began(Ok(unsafe { message.start_recv_layout(into.start, &into.layout, cookie) }), cookie)
    })
}

/// Takes back a receive that has no message yet; the next progress tells.
pub(crate) unsafe extern "C" fn cancel<N: Netmod>(state: *mut c_void, number: u64) {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state).shared };
    let Some(number) = NonZeroU64::new(number) else { return };
    guarded(|| state.enter(|inner| inner.tagged.cancel(RequestId::from_number(number))));
}

/// Whether one of those who send on a channel died some time ago: 0, or what to tell of it. A message
/// of `awaited` is waited for there.
pub(crate) unsafe extern "C" fn dead_sender<N: Netmod>(
    state: *mut c_void,
    channel: u64,
    awaited: u32,
) -> c_int {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state).shared };
    guarded(|| {
        let dead = state.enter(|inner| inner.tagged.dead_sender(channel, awaited));
        dead.map_or(0, |e| Refusal::from(e).kept())
    })
}

/// The same of one that is seen to be dead, however lately it died.
pub(crate) unsafe extern "C" fn dead_member<N: Netmod>(state: *mut c_void, channel: u64) -> c_int {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state).shared };
    guarded(|| {
        let mut dead = None;
        state.enter(|inner| {
            let device = inner.context.device();
            Mpich::senders(channel, &mut |peer| {
                if dead.is_none() && device.is_dead(peer) {
                    dead = Some(MsgError::from(DeviceError::PeerDied { rank: peer }));
                }
            });
        });
        dead.map_or(0, |e| Refusal::from(e).kept())
    })
}
