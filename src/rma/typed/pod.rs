//! Plain data: what may lie in a window.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Types of which any bytes are a value, and whose bytes are all data: integers,
/// floating-point numbers, arrays of them, structures of them without padding.
///
/// ```
/// use rankway::rma::Pod;
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Particle {
///     position: [f64; 3],
///     charge: f32,
///     kind: u32,
/// }
///
/// // SAFETY: 32 bytes of numbers, and no padding between them.
/// unsafe impl Pod for Particle {}
/// ```
///
/// # Safety
/// Any bytes are a value of the type (no `bool`, `char`, enumeration, reference,
/// pointer), none of its bytes is padding, and nothing in it can be changed
/// through a shared reference (no `Cell`, no atomic).
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pods {
    ($($ty:ty)*) => {$(
        // SAFETY: a number: all its bytes are data, and any are a value.
        unsafe impl Pod for $ty {}
    )*};
}

pods! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64 }

// SAFETY: elements side by side, without padding between them.
unsafe impl<T: Pod, const K: usize> Pod for [T; K] {}

/// The bytes of some elements.
#[inline(always)]
pub(crate) fn bytes_of<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: none of the bytes is padding, so all are initialized.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of some elements, to be written to.
#[inline(always)]
pub(crate) fn bytes_of_mut<T: Pod>(values: &mut [T]) -> &mut [u8] {
    let len = size_of_val(values);
    // SAFETY: as in `bytes_of`; whatever is written there is a value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), len) }
}

/// An element of zero bytes.
#[inline(always)]
pub(super) fn zeroed<T: Pod>() -> T {
    // SAFETY: any bytes are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Copies an element word by word, each word by one relaxed atomic access on the
/// side of the window. Words are as long as the alignment, at most eight bytes.
macro_rules! by_words {
    ($ty:ty, $at:ident, |$word:ident: $cell:ident| $copy:expr) => {
        match align_of::<$ty>() {
            1 => by_words!(@ $ty, $at, AtomicU8, u8, $word, $cell, $copy),
            2 => by_words!(@ $ty, $at, AtomicU16, u16, $word, $cell, $copy),
            4 => by_words!(@ $ty, $at, AtomicU32, u32, $word, $cell, $copy),
            _ => by_words!(@ $ty, $at, AtomicU64, u64, $word, $cell, $copy),
        }
    };
    (@ $ty:ty, $at:ident, $atomic:ident, $int:ident, $word:ident, $cell:ident, $copy:expr) => {
        for i in 0..size_of::<$ty>() / size_of::<$int>() {
            // SAFETY: [PLACE]: within the element, and aligned, as the element's
            // alignment is no less than the word's.
            let $cell = unsafe { $atomic::from_ptr($at.cast::<$int>().add(i)) };
            let $word = |start: *mut $ty| start.cast::<$int>().wrapping_add(i);
            $copy
        }
    };
}

/// Loads an element that other processes may be writing. One of at most eight
/// bytes whose alignment is its size comes whole; of another each word does.
///
/// # Safety
/// \[PLACE\]: `at` is an aligned element, and no thread of this process writes it
/// except by atomic accesses or in other epochs.
#[inline]
pub(super) unsafe fn load<T: Pod>(at: *mut T) -> T {
    let mut value = zeroed::<T>();
    let start = &raw mut value;
    by_words!(T, at, |word: cell| {
        // SAFETY: within `value`, at a multiple of the word's size.
        unsafe { *word(start) = cell.load(Ordering::Relaxed) }
    });
    value
}

/// Stores an element that other processes may be reading.
///
/// # Safety
/// \[PLACE\], as [`load`].
#[inline]
pub(super) unsafe fn store<T: Pod>(at: *mut T, value: T) {
    let mut value = value;
    let start = &raw mut value;
    by_words!(T, at, |word: cell| {
        // SAFETY: within `value`, at a multiple of the word's size.
        unsafe { cell.store(*word(start), Ordering::Relaxed) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<T: Pod + PartialEq + std::fmt::Debug>(value: T) {
        let mut memory = [zeroed::<T>(); 3];
        let at = &raw mut memory[1];
        // SAFETY: an element of this thread's own.
        unsafe {
            store(at, value);
            assert_eq!(load(at), value);
        }
        assert_eq!(bytes_of(&memory[..1]), vec![0; size_of::<T>()]);
        assert_eq!(bytes_of(&memory[2..]), vec![0; size_of::<T>()]);
        let copy = bytes_of(&memory[1..2]).to_vec();
        bytes_of_mut(&mut memory[2..]).copy_from_slice(&copy);
        assert_eq!(memory[2], value);
    }

    #[test]
    fn elements_of_every_alignment_come_back() {
        comes_back(0xa5_u8);
        comes_back(-2_i16);
        comes_back(1.5_f32);
        comes_back(-0.25_f64);
        comes_back(u64::MAX - 3);
        comes_back(1_u128 << 100 | 7);
        comes_back([1_u8, 2, 3, 4, 5]);
        comes_back([[1.5_f32, -2.5], [3.5, 4.5], [0.0, 1.0]]);
        comes_back([1_u64, 2, 3]);
    }
}
