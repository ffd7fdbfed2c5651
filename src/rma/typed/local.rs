//! Memory of a window on this node, element by element.

use super::pod::{Pod, load, store, zeroed};
use crate::rma::{ErrorKind, WindowError};
use std::marker::PhantomData;

/// The elements that a rank exposes in a window, mapped in this process: this
/// process's own, or a neighbour's.
///
/// Peers may write here at any time within their epochs, so there is no slice of
/// it: elements are read and written by value, and a view may be copied. Each
/// access is one of the processor for an element of 1, 2, 4 or 8 bytes that is
/// aligned to its size; longer ones may be found half written. What peers wrote
/// in an epoch is there after the call that ends it (a fence, an unlock and a
/// barrier).
pub struct LocalView<'w, T: Pod> {
    start: *mut T,
    len: usize,
    rank: u32,
    window: PhantomData<&'w T>,
}

impl<T: Pod> Clone for LocalView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for LocalView<'_, T> {}

impl<T: Pod> std::fmt::Debug for LocalView<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalView")
            .field("rank", &self.rank)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> LocalView<'_, T> {
    /// A view of `bytes` bytes at `start`; those of a last element that is not
    /// whole are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for memory that is not aligned for the elements.
    ///
    /// # Safety
    /// The memory stays mapped while the view lives, and no thread of this
    /// process accesses it otherwise than MPI's rules for windows allow.
    pub(super) unsafe fn new<'w>(
        start: *mut u8,
        bytes: usize,
        rank: u32,
    ) -> Result<LocalView<'w, T>, WindowError> {
        let len = bytes / size_of::<T>();
        let start = start.cast::<T>();
        if len > 0 && !start.is_aligned() {
            let (align, ty) = (align_of::<T>(), std::any::type_name::<T>());
            let why = format!(
                "the window memory of rank {rank} is not aligned to the {align} bytes of {ty}: make \
                 the window with WindowBuilder, for the same type in all ranks"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        Ok(LocalView { start, len, rank, window: PhantomData })
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rank whose memory it is.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The first element.
    #[must_use]
    pub fn as_ptr(&self) -> *mut T {
        self.start
    }

    /// Reads an element.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`].
    #[inline]
    pub fn read(&self, index: usize) -> Result<T, WindowError> {
        self.check(index, 1)?;
        // SAFETY: in range; the memory stays while the view lives.
        Ok(unsafe { load(self.start.add(index)) })
    }

    /// Writes an element.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`].
    #[inline]
    pub fn write(&self, index: usize, value: T) -> Result<(), WindowError> {
        self.check(index, 1)?;
        // SAFETY: in range; the memory stays while the view lives.
        unsafe { store(self.start.add(index), value) };
        Ok(())
    }

    /// Copies the elements from `index` on into a slice.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`]; nothing is copied then.
    pub fn copy_to(&self, index: usize, out: &mut [T]) -> Result<(), WindowError> {
        self.check(index, out.len())?;
        for (i, value) in out.iter_mut().enumerate() {
            // SAFETY: in range; the memory stays while the view lives.
            *value = unsafe { load(self.start.add(index + i)) };
        }
        Ok(())
    }

    /// Copies a slice to the elements from `index` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`]; nothing is copied then.
    pub fn copy_from(&self, index: usize, values: &[T]) -> Result<(), WindowError> {
        self.check(index, values.len())?;
        for (i, value) in values.iter().enumerate() {
            // SAFETY: in range; the memory stays while the view lives.
            unsafe { store(self.start.add(index + i), *value) };
        }
        Ok(())
    }

    /// Writes the same to all elements.
    pub fn fill(&self, value: T) {
        for i in 0..self.len {
            // SAFETY: in range; the memory stays while the view lives.
            unsafe { store(self.start.add(i), value) };
        }
    }

    /// A copy of all elements.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        let mut all = vec![zeroed(); self.len];
        for (i, value) in all.iter_mut().enumerate() {
            // SAFETY: in range; the memory stays while the view lives.
            *value = unsafe { load(self.start.add(i)) };
        }
        all
    }

    /// All elements as a slice.
    ///
    /// # Safety
    /// \[QUIET\]: while the slice is used no process writes to this memory: it is an
    /// epoch in which all members only read, or none has access.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: aligned elements, which stay while the view lives; [QUIET].
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    #[inline]
    fn check(&self, index: usize, count: usize) -> Result<(), WindowError> {
        match index.checked_add(count) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(self.outside(index, count)),
        }
    }

    #[cold]
    fn outside(&self, index: usize, count: usize) -> WindowError {
        let unit = size_of::<T>();
        let (len, bytes) = (count.saturating_mul(unit), (self.len * unit) as u64);
        ErrorKind::OutOfBounds { rank: self.rank, disp: index, unit, len, bytes }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_and_written_within_the_memory() {
        let mut memory = vec![0_u64; 5];
        let start = memory.as_mut_ptr().cast();
        // SAFETY: the memory is this test's, used through the view alone.
        let view = unsafe { LocalView::<[u32; 2]>::new(start, 39, 7) }.unwrap();
        assert_eq!((view.len(), view.is_empty(), view.rank()), (4, false, 7));
        view.fill([1, 2]);
        view.write(3, [5, 6]).unwrap();
        view.copy_from(1, &[[3, 4]]).unwrap();
        assert_eq!(view.to_vec(), [[1, 2], [3, 4], [1, 2], [5, 6]]);
        let mut two = [[0; 2]; 2];
        view.copy_to(2, &mut two).unwrap();
        assert_eq!((two, view.read(0).unwrap()), ([[1, 2], [5, 6]], [1, 2]));
        for (index, count) in [(4, 1), (3, 2), (usize::MAX, 1), (0, 5)] {
            let why = view.copy_from(index, &vec![[9; 2]; count]).unwrap_err();
            assert!(why.to_string().contains("rank 7"), "{why}");
            assert!(view.copy_to(index, &mut vec![[9; 2]; count]).is_err());
        }
        assert!(view.read(4).is_err() && view.write(4, [0; 2]).is_err());
        // SAFETY: nobody writes.
        assert_eq!(unsafe { view.as_slice() }.len(), 4);
        assert_eq!(memory[4], 0);
        // SAFETY: as above; odd.
        let odd = unsafe { LocalView::<u64>::new(memory.as_mut_ptr().cast::<u8>().add(1), 16, 0) };
        assert!(odd.unwrap_err().to_string().contains("not aligned"));
        // SAFETY: no memory.
        let none = unsafe { LocalView::<u64>::new(std::ptr::null_mut(), 0, 0) }.unwrap();
        assert!(none.is_empty() && none.to_vec().is_empty());
        // SAFETY: no memory.
        assert!(unsafe { none.as_slice() }.is_empty());
    }
}
