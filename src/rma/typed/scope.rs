//! Operations on a window that are under way together, and over when a scope
//! ends.
//!
//! A provider may keep a buffer longer than any wait: what was under way with a
//! peer that died never ends. So a scope never hands a provider what it borrows.
//! Long transfers go through bounce memory, as those of `Access::put` do, and
//! bounce memory of an operation that did not end is leaked. That makes a scope
//! sound whatever becomes of it; that it waits is for its results.

use super::pod::{Pod, bytes_of, bytes_of_mut};
use super::window::TypedWindow;
use crate::av::Transport;
use crate::device::Bounce;
use crate::netmod::{Netmod, Op};
use crate::rma::request::Pending;
use crate::rma::types::Target;
use crate::rma::{Element, WindowError};
use crate::track::Kind;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Bounce memory of a scope before it waits for what is under way.
const MAX_STAGED: usize = 16 << 20;

/// Operations of [`TypedWindow::scope`].
pub struct Scope<'scope, 'env: 'scope, N: Netmod, T: Pod> {
    window: &'env TypedWindow<N, T>,
    /// The longest put that is over when its call returns.
    inject_size: usize,
    under_way: RefCell<Vec<Staged<'env, N>>>,
    staged: Cell<usize>,
    failed: RefCell<Option<WindowError>>,
    /// Invariant in both, as in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<N: Netmod, T: Pod> std::fmt::Debug for Scope<'_, '_, N, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("staged", &self.staged.get()).finish_non_exhaustive()
    }
}

/// An operation under way, and its memory.
struct Staged<'env, N: Netmod> {
    pending: Pending<'env, N>,
    bounce: Bounce,
    len: usize,
    /// Where what comes goes at the end: borrowed for as long as the scope.
    into: Option<*mut u8>,
}

impl<N: Netmod, T: Pod> TypedWindow<N, T> {
    /// Runs `f`, which begins operations, and completes them: when this
    /// returns, what was got is there, what was put is in its target's memory,
    /// and the buffers are free, whether `f` went well, failed or panicked.
    /// Within `f` the compiler keeps borrowed buffers from being touched.
    ///
    /// Operations of a scope are under way together, in no order.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// # let world = rankway::rma::Communicator::world(&context);
    /// # let right = 0;
    /// let window = world.window::<u64>().len(8).allocate()?;
    /// let (ours, mut theirs) = ([1, 2, 3], [0; 4]);
    /// window.lock_all()?;
    /// window.scope(|s| {
    ///     s.put(&ours, right, 0)?;
    ///     s.get(&mut theirs, right, 4)
    /// })?;
    /// assert_eq!(theirs, [0; 4]);
    /// window.unlock_all()?;
    /// # assert_eq!(window.local()?.read(2)?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A buffer that is put from cannot be written to within the scope:
    ///
    /// ```compile_fail,E0506
    /// # use rankway::{netmod::Netmod, rma::{TypedWindow, WindowError}};
    /// fn put<N: Netmod>(window: &TypedWindow<N, u64>) -> Result<(), WindowError> {
    ///     let mut ours = [1, 2, 3];
    ///     window.scope(|s| {
    ///         s.put(&ours, 1, 0)?;
    ///         ours[0] = 4;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    ///
    /// one that is got into cannot be read:
    ///
    /// ```compile_fail,E0503
    /// # use rankway::{netmod::Netmod, rma::{TypedWindow, WindowError}};
    /// fn get<N: Netmod>(window: &TypedWindow<N, u64>) -> Result<u64, WindowError> {
    ///     let mut theirs = [0; 4];
    ///     window.scope(|s| {
    ///         s.get(&mut theirs, 1, 4)?;
    ///         Ok(theirs[0])
    ///     })
    /// }
    /// ```
    ///
    /// and neither may end before the scope does:
    ///
    /// ```compile_fail,E0597
    /// # use rankway::{netmod::Netmod, rma::{TypedWindow, WindowError}};
    /// fn short<N: Netmod>(window: &TypedWindow<N, u64>) -> Result<(), WindowError> {
    ///     window.scope(|s| {
    ///         let mut theirs = [0; 4];
    ///         s.get(&mut theirs, 1, 4)
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// That of `f`; else the first operation that failed, or the flush: a peer
    /// that died, by name.
    ///
    /// # Panics
    /// When `f` does, after the operations were completed.
    pub fn scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, N, T>) -> Result<R, WindowError>,
    ) -> Result<R, WindowError> {
        let scope = Scope::new(self);
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        let completed = scope.complete();
        match result {
            Ok(result) => result.and_then(|value| completed.map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<'scope, 'env, N: Netmod, T: Pod> Scope<'scope, 'env, N, T> {
    fn new(window: &'env TypedWindow<N, T>) -> Scope<'scope, 'env, N, T> {
        let inject_size = |transport| {
            let (netmod, _) = window.context().endpoint(transport)?;
            Some(netmod.caps().inject_size)
        };
        let sizes = [Transport::Local, Transport::Network].into_iter().filter_map(inject_size);
        Scope {
            window,
            inject_size: sizes.min().unwrap_or(0),
            under_way: RefCell::default(),
            staged: Cell::new(0),
            failed: RefCell::default(),
            scope: PhantomData,
            env: PhantomData,
        }
    }

    /// Puts `values` into the elements of `rank` from `index` on.
    ///
    /// # Errors
    /// As [`TypedWindow::put_slice`].
    #[inline]
    pub fn put(&self, values: &'scope [T], rank: u32, index: usize) -> Result<(), WindowError> {
        let bytes = bytes_of(values);
        if bytes.len() <= self.inject_size {
            return self.window.access().put(bytes, rank, index);
        }
        self.put_long(bytes, rank, index)
    }

    fn put_long(&self, bytes: &[u8], rank: u32, index: usize) -> Result<(), WindowError> {
        let access = self.window.access();
        if !self.is_staged(bytes.len(), rank, index)? {
            return access.put(bytes, rank, index);
        }
        let mut bounce = self.stage(bytes.len());
        // SAFETY: both hold the bytes, and the bounce memory is leaked unless
        // the operation completes.
        let pending = unsafe {
            bounce.start().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            access.rput(bounce.start(), bytes.len(), rank, index)?
        };
        self.keep(Staged { pending, bounce, len: bytes.len(), into: None });
        Ok(())
    }

    /// Gets the elements of `rank` from `index` on, which are in `values` when
    /// the scope has ended well.
    ///
    /// # Errors
    /// As [`TypedWindow::get_slice`].
    pub fn get(&self, values: &'scope mut [T], rank: u32, index: usize) -> Result<(), WindowError> {
        let access = self.window.access();
        let bytes = bytes_of_mut(values);
        let len = bytes.len();
        if !self.is_staged(len, rank, index)? {
            return access.get(bytes, rank, index);
        }
        let mut bounce = self.stage(len);
        // SAFETY: the bounce memory holds the bytes, and is leaked unless the
        // operation completes.
        let pending = unsafe { access.rget(bounce.start(), len, rank, index)? };
        self.keep(Staged { pending, bounce, len, into: Some(bytes.as_mut_ptr()) });
        Ok(())
    }

    /// Completes what is under way, and nothing it was asked for is lost: the
    /// first failure is that of the scope.
    fn complete(&self) -> Result<(), WindowError> {
        let access = self.window.access();
        access.recorded_all(Kind::FlushAll, || {
            self.wait();
            let flushed = access.flush_dirty();
            self.failed.take().map_or(flushed, Err)
        })
    }

    /// Waits for what is under way.
    fn wait(&self) {
        for Staged { pending, mut bounce, len, into } in self.under_way.take() {
            if let Err(e) = pending.end() {
                self.failed.borrow_mut().get_or_insert(e);
                continue;
            }
            if let Some(into) = into {
                // SAFETY: both hold `len` bytes; the destination is borrowed,
                // and by nobody else, until the scope has ended.
                unsafe { into.copy_from_nonoverlapping(bounce.start(), len) };
            }
            bounce.release();
        }
        self.staged.set(0);
    }

    /// Returns true if a transfer takes time and bounce memory: it goes by a
    /// provider, and is not too long.
    fn is_staged(&self, len: usize, rank: u32, index: usize) -> Result<bool, WindowError> {
        let access = self.window.access();
        access.check(rank, index, len)?;
        if access.is_mapped() || len == 0 || len > MAX_STAGED {
            return Ok(false);
        }
        Ok(matches!(access.target(rank, index)?, Target::Provider(_)))
    }

    /// Memory for an operation; waits for others where there is much.
    fn stage(&self, len: usize) -> Bounce {
        if self.staged.get() + len > MAX_STAGED {
            self.wait();
        }
        self.staged.set(self.staged.get() + len);
        Bounce::new(len)
    }

    fn keep(&self, staged: Staged<'env, N>) {
        self.under_way.borrow_mut().push(staged);
    }
}

/// Operations on elements, where `T` is of a type that MPI has them for.
impl<'scope, N: Netmod, T: Pod + Element> Scope<'scope, '_, N, T> {
    /// Applies `op` to the elements of `rank` from `index` on, with those of
    /// `operands`.
    ///
    /// # Errors
    /// As [`TypedWindow::accumulate`].
    pub fn accumulate(
        &self,
        operands: &'scope [T],
        op: Op,
        rank: u32,
        index: usize,
    ) -> Result<(), WindowError> {
        self.window.accumulate(operands, op, rank, index)
    }

    /// [`Scope::accumulate`] that also brings the elements as they were, which
    /// are in `results` when the scope has ended well.
    ///
    /// # Errors
    /// As [`TypedWindow::get_accumulate`].
    pub fn get_accumulate(
        &self,
        operands: &'scope [T],
        results: &'scope mut [T],
        op: Op,
        rank: u32,
        index: usize,
    ) -> Result<(), WindowError> {
        let (access, len) = (self.window.access(), size_of_val(results));
        if operands.len() != results.len() || !self.is_staged(len, rank, index)? {
            return access.get_accumulate(operands, results, op, rank, index);
        }
        let mut bounce = self.stage(len);
        let (from, count) = (operands.as_ptr().cast(), results.len());
        // SAFETY: the operands are read within the call; the bounce memory
        // holds the results, and is leaked unless the operation completes.
        let pending = unsafe {
            access.rget_accumulate(from, bounce.start(), count, T::TYPE, op, rank, index)?
        };
        let into = Some(results.as_mut_ptr().cast());
        self.keep(Staged { pending, bounce, len, into });
        Ok(())
    }
}
