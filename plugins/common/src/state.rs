//! One device, one context, its lock, progress.
//!
//! A context belongs to one thread at a time. Where the program asked for
//! several, each use holds a lock; otherwise the device layer calls from one
//! only. The layer is not called while the lock is held, since its callbacks come
//! back here.

use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::msg::{Completion, MsgError, Status, Tagged};
use rankway::netmod::Netmod;
use std::cell::{RefCell, UnsafeCell};
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The device layer of a plug-in: what it is called for. Nothing of it runs under the
/// lock.
pub trait Layer: Sized + 'static {
    /// The launcher, as the layer sees it.
    type Boot: Boot + 'static;

    /// An operation with this cookie ended. May come back here.
    ///
    /// # Safety
    /// Its contract: \[COOKIE\].
    unsafe fn ended(ended: Completion);

    /// The same of a message that went or came, with its status.
    ///
    /// # Safety
    /// As [`Layer::ended`].
    unsafe fn succeeded(cookie: NonZeroU64, status: Status);

    /// The device layer's own progress, while a call waits.
    fn progress();

    /// Who sends on a channel, as [`Context::set_senders`].
    fn senders(channel: u64, see: &mut dyn FnMut(u32)) -> bool;

    /// Ends the job over an error after which nothing can go on.
    fn fatal(error: &MsgError) -> !;
}

/// What is guarded by the lock.
pub struct Inner<N: Netmod> {
    /// The context of the process.
    pub context: Rc<Context<N>>,
    /// Its tagged messages.
    pub tagged: Tagged<N>,
    /// Sends that are complete except that their packets wait for space at a
    /// provider: cookie and status.
    deferred: RefCell<Vec<(NonZeroU64, Status)>>,
}

impl<N: Netmod> Inner<N> {
    /// Returns true if the completion of a send was deferred: its packet may
    /// still be queued here, and a program that is told may make no progress for
    /// long.
    #[inline]
    pub fn defer_completion(&self, cookie: NonZeroU64, status: Status) -> bool {
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

/// The process's one device with all that stands on it.
pub struct State<N: Netmod, L: Layer> {
    inner: Inner<N>,
    lock: Option<Mutex<()>>,
    /// The lock's guard, while a call that may wait holds it. Accessed only
    /// under the lock.
    waiting_guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    boot: Arc<L::Boot>,
    /// This process's rank in its job.
    me: u32,
}

// SAFETY: the context and what shares ownership with it are only reached
// through `enter`, one thread at a time, and leave it in no other way than
// within values that come back through it (as matched messages do).
unsafe impl<N: Netmod, L: Layer> Sync for State<N, L> {}
// SAFETY: as above.
unsafe impl<N: Netmod, L: Layer> Send for State<N, L> {}

impl<N: Netmod, L: Layer> State<N, L> {
    /// The state of a device by its context, for the rest of the program, or
    /// until [`State::close`].
    pub(crate) fn leak(
        context: Rc<Context<N>>,
        boot: Arc<L::Boot>,
        threads: bool,
    ) -> Result<&'static State<N, L>, MsgError> {
        let tagged = Tagged::open(&context)?;
        let me = boot.rank();
        context.device().control().set_patient();
        let state: &'static State<N, L> = Box::leak(Box::new(State {
            inner: Inner { context, tagged, deferred: RefCell::default() },
            lock: threads.then(Mutex::default),
            waiting_guard: UnsafeCell::new(None),
            boot,
            me,
        }));
        // The context is dropped with the state, and calls this no more then.
        state.inner.context.set_progress_hook(move || state.progress_hook());
        state.inner.context.set_senders(L::senders);
        Ok(state)
    }

    /// Closes the device.
    ///
    /// # Safety
    /// Nobody uses the state any more.
    pub unsafe fn close(&'static self) {
        let boot = Arc::clone(&self.boot);
        // SAFETY: made by `Box::leak` in `leak`, and used no more.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self).cast_mut()) });
        // What it leaves elsewhere is swept; there is nobody to report to.
        let _ = boot.finalize();
    }

    /// The launcher's view.
    pub fn boot(&self) -> &L::Boot {
        &self.boot
    }

    /// Enables dynamic processes: makes this process and those of other jobs known to
    /// each other.
    ///
    /// # Errors
    /// Why they cannot be reached, for people.
    pub fn enable_dynamic_processes(&self) -> Result<(), String> {
        let network = || {
            let options = Options::default().threads(self.lock.is_some());
            device::open_network(&*self.boot, &options)
        };
        let enabled = self.enter(|inner| inner.context.enable_dynamic_processes(network));
        enabled.map_err(|e| format!("processes of other jobs cannot be reached: {e}"))
    }

    /// Forgets the processes of another job, by number, as
    /// [`Context::forget_ended`] does, once what they sent last was read: it is not for those
    /// that get their numbers.
    pub fn forget_ended(&self, numbers: Range<u32>) -> bool {
        self.enter(|inner| inner.context.progress().is_ok() && inner.context.forget_ended(numbers))
    }

    #[inline]
    fn guard(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = self.lock.as_ref()?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` with the context, no other thread meanwhile. `f` calls nothing
    /// of the device layer that may come back.
    #[inline]
    pub fn enter<R>(&self, f: impl FnOnce(&Inner<N>) -> R) -> R {
        let _guard = self.guard();
        f(&self.inner)
    }

    /// The context without a lock, where there is one thread only: for what is short
    /// and has another way. Of it is asked what [`State::enter`] asks.
    #[inline(always)]
    pub fn unlocked(&self) -> Option<&Inner<N>> {
        if self.lock.is_none() { Some(&self.inner) } else { None }
    }

    /// [`State::enter`] for calls that may wait for peers: while they do, the
    /// device layer makes progress, and other threads may enter.
    pub fn enter_waiting<R>(&'static self, f: impl FnOnce(&Inner<N>) -> R) -> R {
        let guard = self.guard();
        if guard.is_some() {
            // SAFETY: [LOCK], just taken.
            unsafe { *self.waiting_guard.get() = guard };
        }
        let result = f(&self.inner);
        // SAFETY: [LOCK]: held by us since the start, or again since the last
        // `progress_hook`.
        drop(unsafe { (*self.waiting_guard.get()).take() });
        result
    }

    /// What is done while a call waits: the device layer's progress.
    fn progress_hook(&'static self) {
        self.without_lock(L::progress);
    }

    /// Calls a function of the device layer that may call back here, within
    /// [`State::enter_waiting`]: without the lock. `None`, and no call, where
    /// the lock is held by a call that cannot release it.
    pub fn without_lock<R>(&'static self, call: impl FnOnce() -> R) -> Option<R> {
        if self.lock.is_none() {
            return Some(call());
        }
        // SAFETY: [LOCK]: who is within holds it.
        drop(unsafe { (*self.waiting_guard.get()).take() }?);
        let result = call();
        let guard = self.guard();
        // SAFETY: [LOCK].
        unsafe { *self.waiting_guard.get() = guard };
        Some(result)
    }

    /// One round of progress: how many requests ended.
    pub fn progress(&self) -> u32 {
        let ended = if let Some(lock) = &self.lock {
            // The thread that holds it makes progress or leaves soon.
            let Ok(_guard) = lock.try_lock() else { return 0 };
            self.poll()
        } else {
            self.poll()
        };
        if ended { self.complete_requests() } else { 0 }
    }

    /// Returns true if requests ended.
    #[inline]
    fn poll(&self) -> bool {
        if let Err(e) = self.inner.context.progress_and_check() {
            L::fatal(&MsgError::from(e));
        }
        self.inner.has_completion()
    }

    /// Completes the receives that a send to `peer` may have ended: those of
    /// this process, if it is itself. A program may ask for one only once.
    #[inline]
    pub fn sent(&self, peer: u32) {
        if peer == self.me {
            self.complete_requests();
        }
    }

    /// Completes the requests that ended. Their callbacks may come back.
    pub fn complete_requests(&self) -> u32 {
        let mut count = 0;
        loop {
            // (What was called may have made others.)
            while let Some(inner) = self.unlocked()
                && let Some((cookie, status)) = inner.tagged.next_success()
            {
                // SAFETY: [COOKIE].
                unsafe { L::succeeded(cookie, status) };
                count += 1;
            }
            if self.unlocked().is_some_and(|inner| !inner.has_completion()) {
                return count;
            }
            let Some(ended) = self.enter(|inner| inner.tagged.next_completion()) else { break };
            // SAFETY: [COOKIE].
            unsafe { L::ended(ended) };
            count += 1;
        }
        while let Some(ended) = self.enter(Inner::next_deferred) {
            // SAFETY: [COOKIE].
            unsafe { L::ended(ended) };
            count += 1;
        }
        count
    }
}
