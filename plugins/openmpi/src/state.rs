//! What both components share: one device, one context, its lock, progress.
//!
//! A context belongs to one thread at a time. Where the program asked for
//! several, each use holds a lock; otherwise Open MPI calls from one only. Open
//! MPI is not called while the lock is held, since its callbacks come back here.

use crate::boot::Modex;
use crate::{ffi, guarded, mtl, params};
use rankway::device::{self, Context, DeviceError, Options};
use rankway::msg::{Completion, MsgError, Status, Tagged};
use rankway::netmod::{self, Netmod};
use rankway::{match_netmod, netmods};
use std::cell::{RefCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is guarded by the lock.
pub(crate) struct Inner<N: Netmod> {
    pub(crate) context: Rc<Context<N>>,
    pub(crate) tagged: Tagged<N>,
    /// Sends that are complete except that their packets wait for space at a
    /// provider: cookie and status.
    deferred: RefCell<Vec<(NonZeroU64, Status)>>,
}

impl<N: Netmod> Inner<N> {
    /// Returns true if the completion of a send was deferred: its packet may
    /// still be queued here, and Open MPI calls the launcher without making
    /// progress meanwhile.
    #[inline]
    pub(crate) fn defer_completion(&self, cookie: NonZeroU64, status: Status) -> bool {
        let defer = self.context.queued_packets() > 0;
        if defer {
            self.deferred.borrow_mut().push((cookie, status));
        }
        defer
    }

    /// Returns true if there may be one.
    #[inline]
    fn has_completion(&self) -> bool {
        self.tagged.has_completion() || !self.deferred.borrow().is_empty()
    }

    /// The next deferred send whose packet has left.
    #[cold]
    fn next_deferred(&self) -> Option<Completion> {
        if self.deferred.borrow().is_empty() || self.context.queued_packets() > 0 {
            return None;
        }
        let (cookie, status) = self.deferred.borrow_mut().pop()?;
        Some(Completion { cookie, result: Ok(status) })
    }
}

/// Opens a network where the device has none, for processes of other jobs.
type Network<N> = Box<dyn Fn(&Modex) -> Result<Arc<N>, DeviceError> + Send + Sync>;

/// The process's one device with all that stands on it.
pub(crate) struct State<N: Netmod> {
    inner: Inner<N>,
    lock: Option<Mutex<()>>,
    /// The lock's guard, while a call that may wait holds it. Accessed only
    /// under the lock.
    waiting_guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    boot: Arc<Modex>,
    network: Network<N>,
    /// This process's rank in its job.
    me: u32,
    /// Progress calls so far.
    progress_calls: AtomicU32,
}

// SAFETY: the context and what shares ownership with it are only reached
// through `enter`, one thread at a time, and leave it in no other way than
// within values that come back through it (`mtl::probe`).
unsafe impl<N: Netmod> Sync for State<N> {}
// SAFETY: as above.
unsafe impl<N: Netmod> Send for State<N> {}

impl<N: Netmod> State<N> {
    /// The launcher's view.
    pub(crate) fn boot(&self) -> &Modex {
        &self.boot
    }

    /// Enables dynamic processes: makes this process and those of other jobs known to
    /// each other.
    ///
    /// # Errors
    /// Why they cannot be reached, for people.
    pub(crate) fn enable_dynamic_processes(&self) -> Result<(), String> {
        let enabled = self
            .enter(|inner| inner.context.enable_dynamic_processes(|| (self.network)(&self.boot)));
        enabled.map_err(|e| format!("processes of other jobs cannot be reached: {e}"))
    }

    #[inline]
    fn guard(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = self.lock.as_ref()?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` with the context, no other thread meanwhile. `f` calls nothing
    /// of Open MPI that may come back.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&Inner<N>) -> R) -> R {
        let _guard = self.guard();
        f(&self.inner)
    }

    /// [`State::enter`] for calls that may wait for peers: while they do, Open
    /// MPI makes progress, and other threads may enter.
    pub(crate) fn enter_waiting<R>(&'static self, f: impl FnOnce(&Inner<N>) -> R) -> R {
        let guard = self.guard();
        if guard.is_some() {
            // SAFETY: the lock is held.
            unsafe { *self.waiting_guard.get() = guard };
        }
        let result = f(&self.inner);
        // SAFETY: the lock is held: by us since the start, or again since the
        // last `progress_hook`.
        drop(unsafe { (*self.waiting_guard.get()).take() });
        result
    }

    /// What is done while a call waits: Open MPI's progress.
    fn progress_hook(&'static self) {
        // SAFETY: no arguments; the lock is not held.
        self.without_lock(|| unsafe { ffi::opal_progress() });
    }

    /// Calls a function of Open MPI that may call back here, within
    /// [`State::enter_waiting`]: without the lock. `None`, and no call, where
    /// the lock is held by a call that cannot release it.
    pub(crate) fn without_lock<R>(&'static self, call: impl FnOnce() -> R) -> Option<R> {
        if self.lock.is_none() {
            return Some(call());
        }
        // SAFETY: who is within holds the lock.
        drop(unsafe { (*self.waiting_guard.get()).take() }?);
        let result = call();
        let guard = self.guard();
        // SAFETY: the lock is held.
        unsafe { *self.waiting_guard.get() = guard };
        Some(result)
    }

    /// One round of progress: how many requests ended.
    fn progress(&self) -> c_int {
        /// Rounds between two checks of peers' liveness.
        const CHECK_EVERY: u32 = 1024;
        let ended = if let Some(lock) = &self.lock {
            // The thread that holds it makes progress or leaves soon.
            let Ok(_guard) = lock.try_lock() else { return 0 };
            self.poll()
        } else {
            self.poll()
        };
        // Concurrent calls may be counted once.
        let progress_calls = self.progress_calls.load(Ordering::Relaxed).wrapping_add(1);
        self.progress_calls.store(progress_calls, Ordering::Relaxed);
        if progress_calls.is_multiple_of(CHECK_EVERY) {
            self.check_liveness();
        }
        if ended { self.complete_requests() } else { 0 }
    }

    /// Checks whether peers have died.
    #[cold]
    #[inline(never)]
    fn check_liveness(&self) {
        let checked = self.enter(|inner| inner.context.check_watched_peers());
        checked.unwrap_or_else(|e| fatal(&MsgError::from(e)));
    }

    /// Returns true if requests ended.
    #[inline]
    fn poll(&self) -> bool {
        if let Err(e) = self.inner.context.progress() {
            fatal(&MsgError::from(e));
        }
        self.inner.has_completion()
    }

    /// Completes the receives that a send to `peer` may have ended: those of
    /// this process, if it is itself. A program may ask for one only once.
    #[inline]
    pub(crate) fn sent(&self, peer: u32) {
        if peer == self.me {
            self.complete_requests();
        }
    }

    /// Completes the requests that ended. Their callbacks may come back.
    pub(crate) fn complete_requests(&self) -> c_int {
        let mut count = 0;
        while let Some(ended) = self.enter(|inner| inner.tagged.next_completion()) {
            // SAFETY: cookies are the requests of the MTL, which stay until
            // they are completed, here.
            unsafe { mtl::request::ended(ended) };
            count += 1;
        }
        while let Some(ended) = self.enter(Inner::next_deferred) {
            // SAFETY: as above.
            unsafe { mtl::request::ended(ended) };
            count += 1;
        }
        count
    }
}

macro_rules! chosen {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// The state of whichever netmod was chosen.
        pub(crate) enum Chosen {
            $($netmod(&'static State<netmod::$module::$netmod>),)*
        }

        /// Opens the device over the netmod of this name.
        fn open(name: &str, boot: Arc<Modex>, options: &Options) -> Result<Chosen, String> {
            $(
                if name == <netmod::$module::$netmod as Netmod>::NAME {
                    return open_over(boot, options).map(Chosen::$netmod);
                }
            )*
            let there = netmod::NAMES.join(" and ");
            Err(format!("mtl_rankway_netmod is '{name}'; netmods are {there}"))
        }
    };
}

netmods!(chosen);

impl Clone for Chosen {
    fn clone(&self) -> Chosen {
        *self
    }
}

impl Copy for Chosen {}

/// The state, and how many components use it.
struct Shared {
    users: u32,
    chosen: Option<Chosen>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { users: 0, chosen: None });
/// The same for the progress function, which has no argument.
static CURRENT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The state, opened by the first component that asks; each gives it back with
/// [`release`].
///
/// # Errors
/// Why it cannot be opened, for people.
pub(crate) fn acquire(threads: bool) -> Result<Chosen, String> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(chosen) = shared.chosen {
        shared.users += 1;
        return Ok(chosen);
    }
    if let Some(why) = crate::version::mismatch() {
        return Err(why);
    }
    params::strategy()?;
    let options = Options::default().provider(params::provider()).threads(threads);
    let boot = Arc::new(Modex::new());
    let name = params::netmod().unwrap_or_else(|| netmod::preferred().to_owned());
    let chosen = open(&name, boot, &options)?;
    shared.users = 1;
    shared.chosen = Some(chosen);
    Ok(chosen)
}

fn open_over<N: Netmod>(boot: Arc<Modex>, options: &Options) -> Result<&'static State<N>, String> {
    let threads = options.threads;
    let context = device::open_over(Arc::clone(&boot) as _, options).map_err(|e| e.to_string())?;
    let network = move |boot: &Modex| {
        let options = Options::default().threads(threads);
        device::open_network(boot, &options)
    };
    start(context, boot, threads, Box::new(network))
}

fn start<N: Netmod>(
    context: Rc<Context<N>>,
    boot: Arc<Modex>,
    threads: bool,
    network: Network<N>,
) -> Result<&'static State<N>, String> {
    let tagged = Tagged::open(&context).map_err(|e| e.to_string())?;
    if let Some(bytes) = params::eager_limit() {
        tagged.limit_eager(bytes);
    }
    log(10, || format!("runs over {:?}", context.device()));
    let me = rankway::boot::Boot::rank(&*boot);
    let state: &'static State<N> = Box::leak(Box::new(State {
        inner: Inner { context, tagged, deferred: RefCell::default() },
        lock: threads.then(Mutex::default),
        waiting_guard: UnsafeCell::new(None),
        boot,
        network,
        me,
        progress_calls: AtomicU32::new(0),
    }));
    // The context is dropped with the state, and calls this no more then.
    state.inner.context.set_progress_hook(move || state.progress_hook());
    CURRENT.store(std::ptr::from_ref(state).cast_mut().cast(), Ordering::Release);
    // SAFETY: a function that stays, as the library is never unloaded.
    unsafe { ffi::opal_progress_register(Some(progress::<N>)) };
    Ok(state)
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
    use rankway::boot::Boot;
    // SAFETY: registered when the state was made.
    unsafe { ffi::opal_progress_unregister(Some(progress::<N>)) };
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    let boot = Arc::clone(&state.boot);
    // SAFETY: made by `Box::leak` in `start`; no component uses it any more, and
    // the progress function no longer finds it.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(state).cast_mut()) });
    // What it leaves elsewhere is swept; there is nobody to report to.
    let _ = boot.finalize();
}

/// Called by `opal_progress`, by any thread where there are several.
unsafe extern "C" fn progress<N: Netmod>() -> c_int {
    let state = CURRENT.load(Ordering::Acquire).cast::<State<N>>();
    // SAFETY: null, or the state that registered this function, which is
    // unregistered before it goes away.
    match unsafe { state.as_ref() } {
        Some(state) => guarded(|| state.progress()),
        None => 0,
    }
}

/// Prints a line at this verbosity.
pub(crate) fn log(level: c_int, line: impl FnOnce() -> String) {
    if params::verbosity() >= level {
        print(&line());
    }
}

/// Prints a line.
pub(crate) fn print(line: &str) {
    let line = ffi::text(&format!("rankway: {line}"));
    // SAFETY: a C string; stream 0 is always open.
    unsafe { ffi::rw_say(0, line.as_ptr()) };
}

/// Ends the job over an error of a message: MPI has no way to go on without a
/// peer. The error names it.
#[cold]
pub(crate) fn fatal(error: &MsgError) -> ! {
    abort_with(1, &error.to_string())
}

/// Ends the job.
#[cold]
pub(crate) fn abort(why: &str) -> ! {
    abort_with(1, why)
}

/// Ends the job with a code.
#[cold]
pub(crate) fn abort_with(code: c_int, why: &str) -> ! {
    let line = ffi::text(&format!("rankway: {why}"));
    // SAFETY: a C string. Ends the process, through the runtime, which ends
    // the others.
    unsafe { ffi::rw_abort(code, line.as_ptr()) };
    std::process::abort()
}
