//! A window of elements, and the memory that was given to one.

use super::local::LocalView;
use super::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use crate::netmod::{Netmod, Op};
use crate::rma::state::WindowState;
use crate::rma::{Access, Element, Window, WindowError};
use std::ops::Deref;
use std::sync::Weak;

/// Elements of type `T` in every member, to and from which the others may put
/// and get.
///
/// Dereferences to its [`Window`], and so to [`Access`]: epochs and flushes are
/// those, and their displacements count elements too.
///
/// ```
/// # use std::sync::Arc;
/// use rankway::rma::Communicator;
///
/// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
/// # let context = rankway::device::open_null(boot)?;
/// let world = Communicator::world(&context); // a job of one rank
/// let mut window = world.window::<f64>().len(8).allocate()?;
/// window.fence()?;
/// window.put_slice(&[0.5, 1.5], 0, 6)?;
/// window.fence()?;
/// assert_eq!(window.local()?.read(7)?, 1.5);
/// let why = window.put_slice(&[0.5, 1.5], 0, 7).unwrap_err().to_string();
/// assert!(why.ends_with("displacements up to 6 fit"));
/// window.free()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedWindow<N: Netmod, T: Pod> {
    // Before the memory it is over.
    pub(super) window: Window<N>,
    pub(super) memory: Option<OwnMemory<N, T>>,
}

impl<N: Netmod, T: Pod> std::fmt::Debug for TypedWindow<N, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypedWindow")
            .field("element", &std::any::type_name::<T>())
            .field("access", self.access())
            .finish_non_exhaustive()
    }
}

impl<N: Netmod, T: Pod> Deref for TypedWindow<N, T> {
    type Target = Window<N>;

    #[inline(always)]
    fn deref(&self) -> &Window<N> {
        &self.window
    }
}

impl<N: Netmod, T: Pod> TypedWindow<N, T> {
    /// The window itself, whose buffers are bytes.
    pub fn window(&self) -> &Window<N> {
        &self.window
    }

    #[inline(always)]
    pub(super) fn access(&self) -> &Access<N> {
        &self.window
    }

    /// How many elements a rank exposes.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`](crate::rma::ErrorKind::Rank),
    /// [`ErrorKind::Freed`](crate::rma::ErrorKind::Freed).
    pub fn len_of(&self, rank: u32) -> Result<usize, WindowError> {
        self.window.communicator().world_rank(rank)?;
        Ok(self.window.state()?.sizes.get(rank) as usize / size_of::<T>())
    }

    /// The elements of this process.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`](crate::rma::ErrorKind::Freed).
    pub fn local(&self) -> Result<LocalView<'_, T>, WindowError> {
        let (start, bytes) = self.window.local()?;
        // SAFETY: the window's own memory, which stays until `free`, which no
        // view outlives. Only views and operations access it: memory of the
        // program's own was given away, or [MEM] keeps it so.
        unsafe { LocalView::new(start, bytes, self.window.communicator().rank()) }
    }

    /// The elements of a rank whose memory is mapped in this process: of every
    /// rank in a window made with [`WindowBuilder::shared`](super::WindowBuilder::shared), of those on this
    /// node in one made with [`WindowBuilder::allocate`](super::WindowBuilder::allocate).
    ///
    /// # Errors
    /// As [`Window::shared_query`].
    pub fn local_of(&self, rank: u32) -> Result<LocalView<'_, T>, WindowError> {
        let (start, bytes, _) = self.window.shared_query(rank)?;
        // SAFETY: as in `local`.
        unsafe { LocalView::new(start, bytes, rank) }
    }

    /// Puts `values` into the elements of `rank` from `index` on. The slice is
    /// free again on return; the elements are there after a flush.
    ///
    /// # Errors
    /// As [`Access::put`].
    #[inline(always)]
    pub fn put_slice(&self, values: &[T], rank: u32, index: usize) -> Result<(), WindowError> {
        self.access().put(bytes_of(values), rank, index)
    }

    /// Puts one element.
    ///
    /// # Errors
    /// As [`Access::put`].
    #[inline(always)]
    pub fn put_value(&self, value: T, rank: u32, index: usize) -> Result<(), WindowError> {
        self.put_slice(&[value], rank, index)
    }

    /// Gets the elements of `rank` from `index` on. They are in `values` on
    /// return.
    ///
    /// # Errors
    /// As [`Access::get`].
    #[inline]
    pub fn get_slice(&self, values: &mut [T], rank: u32, index: usize) -> Result<(), WindowError> {
        self.access().get(bytes_of_mut(values), rank, index)
    }

    /// Gets one element.
    ///
    /// # Errors
    /// As [`Access::get`].
    #[inline]
    pub fn get_value(&self, rank: u32, index: usize) -> Result<T, WindowError> {
        let mut value = [zeroed()];
        self.get_slice(&mut value, rank, index)?;
        let [value] = value;
        Ok(value)
    }

    /// Waits for all members and gives the window back. Collective.
    ///
    /// # Errors
    /// As [`Window::free`].
    pub fn free(&mut self) -> Result<(), WindowError> {
        self.window.free()?;
        if let Some(memory) = &mut self.memory {
            memory.quiescent = true;
        }
        Ok(())
    }

    /// [`TypedWindow::free`] for a window made with [`WindowBuilder::create`](super::WindowBuilder::create),
    /// which gives its memory back: `None` where it is not to be had, as another
    /// access of the window still lives, or the window was made otherwise.
    ///
    /// # Errors
    /// As [`Window::free`]; the memory is leaked then.
    pub fn into_memory(mut self) -> Result<Option<Vec<T>>, WindowError> {
        self.free()?;
        Ok(self.memory.take().and_then(OwnMemory::into_vec))
    }
}

/// Operations on elements, where `T` is of a type that MPI has them for.
impl<N: Netmod, T: Pod + Element> TypedWindow<N, T> {
    /// Applies `op` to the elements of `rank` from `index` on, with those of
    /// `operands`. The slice is free again on return; the result is there after
    /// a flush.
    ///
    /// # Errors
    /// As [`Access::accumulate`].
    #[inline]
    pub fn accumulate(
        &self,
        operands: &[T],
        op: Op,
        rank: u32,
        index: usize,
    ) -> Result<(), WindowError> {
        self.access().accumulate(operands, op, rank, index)
    }

    /// [`TypedWindow::accumulate`] that also brings the elements as they were.
    ///
    /// # Errors
    /// As [`Access::get_accumulate`].
    #[inline]
    pub fn get_accumulate(
        &self,
        operands: &[T],
        results: &mut [T],
        op: Op,
        rank: u32,
        index: usize,
    ) -> Result<(), WindowError> {
        self.access().get_accumulate(operands, results, op, rank, index)
    }

    /// Applies `op` to one element and returns it as it was.
    ///
    /// # Errors
    /// As [`Access::fetch_and_op`].
    #[inline]
    pub fn fetch_and_op(
        &self,
        operand: T,
        op: Op,
        rank: u32,
        index: usize,
    ) -> Result<T, WindowError> {
        self.access().fetch_and_op(operand, op, rank, index)
    }

    /// Puts `new` in the place of an element that equals `compare`, bit by bit,
    /// and returns the element as it was.
    ///
    /// # Errors
    /// As [`Access::compare_and_swap`].
    #[inline]
    pub fn compare_and_swap(
        &self,
        compare: T,
        new: T,
        rank: u32,
        index: usize,
    ) -> Result<T, WindowError> {
        self.access().compare_and_swap(compare, new, rank, index)
    }
}

/// Memory that was given to a window. It is freed when the window was freed with
/// all its members and nothing in this process holds it any more, and leaked
/// otherwise: a peer that has not heard of the end may still put there.
pub(super) struct OwnMemory<N: Netmod, T> {
    pub(super) start: *mut T,
    pub(super) len: usize,
    pub(super) capacity: usize,
    pub(super) state: Weak<WindowState<N>>,
    pub(super) quiescent: bool,
}

impl<N: Netmod, T> OwnMemory<N, T> {
    fn into_vec(mut self) -> Option<Vec<T>> {
        self.take()
    }

    fn take(&mut self) -> Option<Vec<T>> {
        let unused = std::mem::take(&mut self.quiescent) && self.state.strong_count() == 0;
        // SAFETY: parts of the vector that was given, taken once; no access of
        // this process has the memory, and no peer puts to it any more.
        unused.then(|| unsafe { Vec::from_raw_parts(self.start, self.len, self.capacity) })
    }
}

impl<N: Netmod, T> Drop for OwnMemory<N, T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
