//! One context, and what is made on it, for several threads.

use super::context::Context;
use super::wait::Quiet;
use crate::netmod::Netmod;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A context with its communicators, windows and requests under a lock.
///
/// Nothing on a context is `Send`; here it moves from thread to thread as a
/// whole, one thread at a time. Clones share it. It is dropped where the last
/// of them is.
pub struct Shared<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    /// Threads that want the lock, so that the progress thread gives way.
    waiting: AtomicUsize,
    value: Mutex<Cage<T>>,
}

/// What may go from thread to thread because the lock is held.
struct Cage<T>(T);

// SAFETY: `Shared::open`'s caller answers that nothing outside refers to parts
// of the value that count references without atomics; so threads that take
// turns under the lock are as one thread to it.
unsafe impl<T> Send for Cage<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared { inner: Arc::clone(&self.inner) }
    }
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<T: 'static> Shared<T> {
    /// Makes the value and shares it. The device must have been opened with
    /// [`Options::threads`](super::Options::threads).
    ///
    /// # Safety
    /// `make` and the closures given to [`Shared::with`] leave nothing outside
    /// the value that shares ownership with it: no clone of an `Rc<Context>`
    /// or of anything made on it in a thread-local, a leaked box or the like.
    /// (What a closure returns or captures is checked by the compiler: neither
    /// is `Send` while it holds such a clone.) `T` itself holds nothing that
    /// is bound to its thread for other reasons, such as a lock's guard.
    ///
    /// # Errors
    /// What `make` answers.
    pub unsafe fn open<E>(make: impl FnOnce() -> Result<T, E> + Send) -> Result<Shared<T>, E> {
        let value = Mutex::new(Cage(make()?));
        Ok(Shared { inner: Arc::new(Inner { waiting: AtomicUsize::new(0), value }) })
    }

    /// Runs a closure with the value, no other thread meanwhile. A closure that
    /// waits for a message keeps the others out until it came: let it test and
    /// return instead. One that calls this again waits for itself.
    pub fn with<R: Send>(&self, f: impl FnOnce(&mut T) -> R + Send) -> R {
        self.inner.waiting.fetch_add(1, Ordering::Relaxed);
        let mut value = self.inner.lock();
        self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
        f(&mut value.0)
    }

    /// Starts a thread that makes progress on the context until the answer is
    /// dropped, and sleeps while nothing comes in.
    ///
    /// # Errors
    /// The system's, where it refuses a thread.
    pub fn progress_thread<N: Netmod>(
        &self,
        context: impl Fn(&T) -> &Rc<Context<N>> + Send + 'static,
    ) -> io::Result<ProgressThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (inner, stopped) = (Arc::clone(&self.inner), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("rankway-progress".into());
        let thread = thread.spawn(move || inner.progress(&stopped, context))?;
        Ok(ProgressThread { stop, thread: Some(thread) })
    }
}

impl<T> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, Cage<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress<N: Netmod>(&self, stop: &AtomicBool, context: impl Fn(&T) -> &Rc<Context<N>>) {
        /// Polls each time the lock is held.
        const POLLS: u32 = 16;
        let mut quiet = None;
        while !stop.load(Ordering::Acquire) {
            // (Who holds the lock may be about to stop this thread, and wait for it.)
            let guard = match self.value.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_micros(20));
                    continue;
                }
            };
            let context = context(&guard.0);
            for _ in 0..POLLS {
                // Errors here are those of a broken queue, which whoever waits
                // meets too. A handler's panic has been printed; the thread
                // stays, for what comes behind it.
                let _ = catch_unwind(AssertUnwindSafe(|| context.progress()));
            }
            let quiet = quiet.get_or_insert_with(|| Quiet::new(&**context));
            let sleep = quiet.sleep(context, true);
            drop(guard);
            match sleep {
                Some(sleep) => sleep.sleep(),
                None if self.waiting.load(Ordering::Relaxed) > 0 => {
                    // A lock that is asked for again at once is not fair.
                    std::thread::sleep(Duration::from_micros(20));
                }
                None => std::thread::yield_now(),
            }
        }
    }
}

/// Makes progress until dropped.
#[derive(Debug)]
pub struct ProgressThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}
