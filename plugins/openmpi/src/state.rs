//! What both components share: one device, one context, until the last of them
//! gives it back.

use crate::boot::Modex;
use crate::log::{fatal, guarded, log, name_others};
use crate::{ffi, params, request, version};
use rankway::device::Options;
use rankway::match_netmod;
use rankway::msg::{Completion, MsgError, Status};
use rankway::netmod::Netmod;
use rankway_plugin::Layer;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Open MPI, as what the device calls.
pub(crate) struct OpenMpi;

impl Layer for OpenMpi {
    type Boot = Modex;

    unsafe fn ended(ended: Completion) {
        // SAFETY: [REQ]: cookies are requests' addresses.
        unsafe { request::ended(ended.cookie, ended.result) };
    }

    #[inline(always)]
    unsafe fn succeeded(cookie: NonZeroU64, status: Status) {
        // SAFETY: [REQ], as above.
        unsafe { request::succeeded(cookie, &status) };
    }

    fn progress() {
        ffi::progress();
    }

    fn senders(channel: u64, see: &mut dyn FnMut(u32)) -> bool {
        crate::senders::of(channel, see)
    }

    fn fatal(error: &MsgError) -> ! {
        fatal(error)
    }
}

/// The process's one device, over a netmod.
pub(crate) type State<N> = rankway_plugin::State<N, OpenMpi>;
/// The state of whichever netmod was chosen.
pub(crate) type Chosen = rankway_plugin::Chosen<OpenMpi>;

/// The state, and how many components use it.
struct Shared {
    users: u32,
    chosen: Option<Chosen>,
    /// Why it could not be opened. Nobody tries again: Open MPI has dropped the MTL's
    /// parameters by then, and another try would go without them.
    refused: Option<String>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { users: 0, chosen: None, refused: None });
/// The same for the progress function, which has no argument.
static CURRENT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The state, opened by the first component that asks; each gives it back with
/// [`release`]. `messages` if it is asked for them, as it is on all ranks or none.
///
/// # Errors
/// Why it cannot be opened, for people.
pub(crate) fn acquire(threads: bool, messages: bool) -> Result<Chosen, String> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(chosen) = shared.chosen {
        shared.users += 1;
        return Ok(chosen);
    }
    if let Some(why) = &shared.refused {
        return Err(why.clone());
    }
    let chosen = open(threads, messages).inspect_err(|why| shared.refused = Some(why.clone()))?;
    shared.users = 1;
    shared.chosen = Some(chosen);
    Ok(chosen)
}

fn open(threads: bool, messages: bool) -> Result<Chosen, String> {
    if let Some(why) = version::mismatch() {
        return Err(why);
    }
    params::strategy()?;
    let options = Options::default().provider(params::provider()).threads(threads);
    let name = params::netmod();
    let modex = Arc::new(Modex::new(messages));
    let names = Arc::clone(&modex);
    name_others(move |number| names.name_elsewhere(number).map(|name| name.to_string()));
    let opened = rankway_plugin::open(name.as_deref(), modex, &options);
    let chosen = opened.map_err(|why| match name {
        Some(name) => format!("mtl_rankway_netmod is '{name}': {why}"),
        None => why,
    })?;
    match_netmod!(chosen, Chosen(state) => start(state));
    Ok(chosen)
}

fn start<N: Netmod>(state: &'static State<N>) {
    let device = state.enter(|inner| {
        if let Some(bytes) = params::eager_limit() {
            inner.tagged.limit_eager(bytes);
        }
        Arc::clone(inner.context.device())
    });
    log(10, || format!("runs over {device:?}"));
    CURRENT.store(std::ptr::from_ref(state).cast_mut().cast(), Ordering::Release);
    // SAFETY: a function that stays, as the library is never unloaded.
    unsafe { ffi::opal_progress_register(Some(progress::<N>)) };
}

/// Gives the state back; with the last user the device is closed.
pub(crate) fn release() {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.users = shared.users.saturating_sub(1);
    if shared.users > 0 {
        return;
    }
    if let Some(chosen) = shared.chosen.take() {
        match_netmod!(chosen, Chosen(state) => close(state));
    }
}

fn close<N: Netmod>(state: &'static State<N>) {
    // SAFETY: registered when the state was made.
    unsafe { ffi::opal_progress_unregister(Some(progress::<N>)) };
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    // SAFETY: no component uses it any more, and the progress function no longer
    // finds it.
    unsafe { state.close() };
}

/// Called by `opal_progress`, by any thread where there are several.
unsafe extern "C" fn progress<N: Netmod>() -> c_int {
    let state = CURRENT.load(Ordering::Acquire).cast::<State<N>>();
    // SAFETY: null, or the state that registered this function, which is
    // unregistered before it goes away.
    match unsafe { state.as_ref() } {
        Some(state) => guarded(|| state.progress() as c_int),
        None => 0,
    }
}
