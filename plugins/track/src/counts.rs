//! Counts, which MPI has in two widths: `int`, and `MPI_Count` in the functions whose names
//! end in `_c`.
//!
//! Programs may find those here where MPI has none (Python's module takes what there is):
//! then the function with `int` is called, as long as the counts fit.

use rankway_preload::ByHandle;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// `MPI_ERR_COUNT`, in every library.
pub(crate) const ERR_COUNT: c_int = 2;

/// An array of counts.
#[derive(Clone, Copy)]
pub(crate) enum Counts {
    /// Of `int`.
    Ints(*const c_int),
    /// Of `MPI_Count`, or of `MPI_Aint`.
    Longs(*const i64),
}

impl Counts {
    /// Count `i`, as a word.
    ///
    /// # Safety
    /// \[MPI\]: there are more than `i`.
    #[inline]
    pub(crate) unsafe fn get(self, i: usize) -> usize {
        // SAFETY: [MPI].
        unsafe {
            match self {
                Counts::Ints(counts) => counts.add(i).read() as isize as usize,
                Counts::Longs(counts) => counts.add(i).read() as usize,
            }
        }
    }
}

/// Arrays as `int`, kept while MPI may read them.
#[derive(Default)]
pub(crate) struct Narrowed {
    arrays: Vec<Box<[c_int]>>,
    /// Where MPI puts the request that reads them, 0 for none.
    request: usize,
}

/// By requests under way. (MPI gives a request out again when it is over.)
static KEPT: Mutex<Option<ByHandle<Narrowed>>> = Mutex::new(None);

impl Narrowed {
    /// A count, if it fits.
    pub(crate) fn int(&mut self, count: usize) -> Option<usize> {
        c_int::try_from(count as isize).is_ok().then_some(count)
    }

    /// `n` counts, if they fit; nobody reads an array of none.
    ///
    /// # Safety
    /// \[MPI\]: there are so many.
    pub(crate) unsafe fn ints(&mut self, counts: usize, n: u64) -> Option<usize> {
        if n == 0 {
            return Some(counts);
        }
        // SAFETY: [MPI].
        let count = |i| unsafe { (counts as *const i64).add(i).read() };
        let ints: Option<Box<[c_int]>> =
            (0..n as usize).map(|i| c_int::try_from(count(i)).ok()).collect();
        self.arrays.push(ints?);
        self.arrays.last().map(|ints| ints.as_ptr() as usize)
    }

    /// They are read until the request that MPI puts here is over.
    pub(crate) fn until(&mut self, request: usize) -> Option<usize> {
        self.request = request;
        Some(request)
    }

    /// Calls with them.
    pub(crate) fn call(self, call: impl FnOnce() -> c_int) -> c_int {
        let code = call();
        if code == 0 && self.request != 0 && !self.arrays.is_empty() {
            // SAFETY: [MPI]: MPI has put a request there.
            let request = unsafe { crate::mpi::at(self.request) };
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert_default().insert(request, self);
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told() {
        let mut narrowed = Narrowed::default();
        assert_eq!(narrowed.int(7), Some(7));
        assert_eq!(narrowed.int(-7isize as usize), Some(-7isize as usize));
        assert_eq!(narrowed.int(1 << 31), None);
        let counts = [3i64, -4, i64::from(c_int::MAX)];
        // SAFETY: as many as are asked for.
        unsafe {
            let ints = narrowed.ints(counts.as_ptr() as usize, 3).expect("they fit");
            let (ints, longs) =
                (Counts::Ints(ints as *const c_int), Counts::Longs(counts.as_ptr()));
            for (i, &count) in counts.iter().enumerate() {
                assert_eq!((ints.get(i), longs.get(i)), (count as usize, count as usize));
            }
            let large = [1i64 << 31];
            assert_eq!(narrowed.ints(large.as_ptr() as usize, 1), None);
            assert_eq!(narrowed.ints(0, 0), Some(0));
        }
        assert_eq!(narrowed.call(|| 5), 5);
    }
}
