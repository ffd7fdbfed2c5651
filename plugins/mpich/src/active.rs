//! Active messages: those of MPICH's own protocols, and of what has no way of its own.

use crate::fault::{Refusal, has_died};
use crate::host;
use crate::log::{abort, fatal, guarded};
use crate::state::State;
use rankway::msg::{Call, HandlerStatus};
use rankway::netmod::Netmod;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;

/// CH4 has fewer.
pub(crate) const HANDLERS: u16 = 64;

/// Has every number call MPICH's handler of that number.
pub(crate) fn register<N: Netmod>(state: &State<N>) {
    for id in 0..HANDLERS {
        let handler = move |call: &mut Call<'_, N>| {
            let (header, payload) = (call.header.as_ptr(), call.payload.as_ptr());
            let len = call.payload.len();
            // SAFETY: MPICH's handlers copy what they keep; it is called within a call of
            // its own, and what it calls here does not wait.
            unsafe { host::rkw_host_am(c_int::from(id), header.cast(), payload.cast(), len) };
            HandlerStatus::Consumed
        };
        state.active.register(id, handler).unwrap_or_else(|e| abort(1, &e.to_string()));
    }
}

/// Sends one, whenever the way there has space. 1: the payload is the caller's again; 0:
/// it is when `rkw_host_posted` was called with the cookie; below 0: it is, and went nowhere,
/// by the negated answer.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe extern "C" fn post<N: Netmod>(
    state: *mut c_void,
    peer: u32,
    handler: c_int,
    header: *const u8,
    header_len: usize,
    payload: *const u8,
    len: usize,
    cookie: *mut c_void,
) -> c_int {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state) };
    guarded(|| {
        let cookie = NonZeroU64::new(cookie as u64).unwrap_or(NonZeroU64::MIN);
        // SAFETY: [BUF].
        let posted = unsafe {
            let header = match header_len {
                0 => &[],
                len => std::slice::from_raw_parts(header, len),
            };
            state.active.post(peer, handler as u16, header, payload, len, cookie)
        };
        posted.map_or_else(|e| -Refusal::from(e).kept(), c_int::from)
    })
}

/// Tells of the payloads that are the caller's again.
#[inline]
pub(crate) fn tell<N: Netmod>(state: &State<N>) {
    while state.active.has_posted()
        && let Some((cookie, result)) = state.active.next_posted()
    {
        // (CH4 has no failure of one: it ends as if the dead had it.)
        if let Err(e) = result
            && !has_died(&e)
        {
            fatal(&e);
        }
        // (One without a cookie was nobody's.)
        if cookie != NonZeroU64::MIN {
            // SAFETY: [REQ].
            unsafe { host::rkw_host_posted(cookie.get() as *mut c_void) };
        }
    }
}
