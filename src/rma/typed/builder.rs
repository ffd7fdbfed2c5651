//! How windows of elements are made.

use super::local::LocalView;
use super::pod::Pod;
use super::window::{OwnMemory, TypedWindow};
use crate::netmod::Netmod;
use crate::rma::{Backing, Communicator, Hints, Window, WindowError};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

impl<N: Netmod> Communicator<N> {
    /// A window of elements, to be made by the last call of a row: one of
    /// [`WindowBuilder::allocate`], [`WindowBuilder::shared`] and
    /// [`WindowBuilder::create`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// # let world = rankway::rma::Communicator::world(&context);
    /// let counters = world.window::<u64>().len(1024).allocate()?;
    /// assert_eq!(counters.len_of(0)?, 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn window<T: Pod>(&self) -> WindowBuilder<'_, N, T> {
        const { assert!(size_of::<T>() > 0, "elements of a window have at least one byte") };
        WindowBuilder {
            communicator: self,
            len: 0,
            backing: Backing::default(),
            hints: Hints::default(),
            element: PhantomData,
        }
    }
}

/// A window of elements that is to be made, by [`Communicator::window`].
#[derive(Debug)]
#[must_use = "no window is made before allocate, shared or create"]
pub struct WindowBuilder<'c, N: Netmod, T: Pod> {
    communicator: &'c Communicator<N>,
    len: usize,
    backing: Backing,
    hints: Hints,
    element: PhantomData<T>,
}

impl<N: Netmod, T: Pod> WindowBuilder<'_, N, T> {
    /// How many elements this process exposes; members may differ. 0 unless
    /// given.
    pub fn len(self, len: usize) -> Self {
        WindowBuilder { len, ..self }
    }

    /// Whose memory [`WindowBuilder::allocate`] takes, the same in all members.
    pub fn backing(self, backing: Backing) -> Self {
        WindowBuilder { backing, ..self }
    }

    /// Promises about the operations to come.
    pub fn hints(self, hints: Hints) -> Self {
        WindowBuilder { hints, ..self }
    }

    /// Allocates zeroed memory in every member and makes a window of it.
    /// Members of one node share the memory, so that a put between them is a
    /// store. Collective.
    ///
    /// # Errors
    /// As [`Window::allocate_with`].
    #[track_caller]
    pub fn allocate(self) -> Result<TypedWindow<N, T>, WindowError> {
        let window =
            Window::allocate_with(self.communicator, self.bytes(), size_of::<T>(), self.backing)?;
        self.typed(window)
    }

    /// Allocates zeroed memory in every member, all on one node, so that each
    /// can read and write the elements of all ([`TypedWindow::local_of`]).
    /// Collective.
    ///
    /// # Errors
    /// As [`Window::shared`].
    #[track_caller]
    pub fn shared(self) -> Result<TypedWindow<N, T>, WindowError> {
        let window = Window::shared(self.communicator, self.bytes(), size_of::<T>())?;
        self.typed(window)
    }

    /// Makes a window of memory that the program has, in place of
    /// [`len`](Self::len). The window keeps it: it comes back from
    /// [`TypedWindow::into_memory`], is dropped with a window that was freed,
    /// and is leaked with one that was not, as peers may still put there.
    /// Collective.
    ///
    /// # Errors
    /// As [`Window::create`]; the memory is leaked then.
    #[track_caller]
    pub fn create(self, memory: Vec<T>) -> Result<TypedWindow<N, T>, WindowError> {
        let mut memory = ManuallyDrop::new(memory);
        let (start, len, capacity) = (memory.as_mut_ptr(), memory.len(), memory.capacity());
        // SAFETY: it stays unless all members have met in `free`, and is
        // accessed through the window alone.
        let mut made = unsafe { self.create_at(start, len)? };
        let state = Arc::downgrade(&made.window.state()?);
        made.memory = Some(OwnMemory { start, len, capacity, state, quiescent: false });
        Ok(made)
    }

    /// [`WindowBuilder::create`] over memory that stays the program's.
    ///
    /// # Errors
    /// As [`Window::create`].
    ///
    /// # Safety
    /// \[MEM\], as [`Window::create`], for `len` elements at `start`.
    #[track_caller]
    pub unsafe fn create_at(
        self,
        start: *mut T,
        len: usize,
    ) -> Result<TypedWindow<N, T>, WindowError> {
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: [MEM], of `len` elements.
        let window =
            unsafe { Window::create(self.communicator, start.cast(), bytes, size_of::<T>())? };
        self.typed(window)
    }

    /// Saturated: what no process has is refused in all members alike.
    fn bytes(&self) -> usize {
        self.len.saturating_mul(size_of::<T>())
    }

    fn typed(self, window: Window<N>) -> Result<TypedWindow<N, T>, WindowError> {
        let made = TypedWindow { window: window.with_hints(self.hints), memory: None };
        let _: LocalView<'_, T> = made.local()?;
        Ok(made)
    }
}
