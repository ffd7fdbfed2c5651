//! Rust's types for the elements of a window.

use crate::netmod::compute::Atomic;
use crate::netmod::{Op, Type};
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
};

/// Rust's types for elements.
///
/// # Safety
/// The type has the size and the layout of [`Element::TYPE`], and any bits are
/// a value of it.
pub unsafe trait Element: Copy + 'static {
    /// The element's type.
    const TYPE: Type;

    /// The operation where one address can be changed atomically; the element
    /// as it was.
    ///
    /// # Safety
    /// \[ELEMENT\]: `at` is an element at a multiple of its size, which others touch
    /// by atomics alone; \[VALID\]: the operation is valid for the type.
    #[doc(hidden)]
    unsafe fn apply(at: *mut u8, op: Op, operand: Self) -> Option<Self>;

    /// Compares and swaps, likewise.
    ///
    /// # Safety
    /// \[ELEMENT\], as [`Element::apply`].
    #[doc(hidden)]
    unsafe fn swap_if(at: *mut u8, compare: Self, new: Self) -> Option<Self>;
}

macro_rules! elements {
    ($($value:ty: $ty:ident in $cell:ty;)*) => {$(
        // SAFETY: the types are those of their names.
        unsafe impl Element for $value {
            const TYPE: Type = Type::$ty;

            #[inline(always)]
            unsafe fn apply(at: *mut u8, op: Op, operand: Self) -> Option<Self> {
                // SAFETY: [ELEMENT]; the cell is the type's.
                Some(unsafe { &*at.cast::<$cell>() }.apply(op, operand))
            }

            #[inline(always)]
            unsafe fn swap_if(at: *mut u8, compare: Self, new: Self) -> Option<Self> {
                // SAFETY: [ELEMENT]; the cell is the type's.
                Some(unsafe { &*at.cast::<$cell>() }.swap_if(compare, new))
            }
        }
    )*};
}

elements! {
    i8: I8 in AtomicI8;
    u8: U8 in AtomicU8;
    i16: I16 in AtomicI16;
    u16: U16 in AtomicU16;
    i32: I32 in AtomicI32;
    u32: U32 in AtomicU32;
    i64: I64 in AtomicI64;
    u64: U64 in AtomicU64;
    f32: F32 in crate::netmod::compute::BitsF32;
    f64: F64 in crate::netmod::compute::BitsF64;
    [f32; 2]: C32 in crate::netmod::compute::BitsC32;
}

// SAFETY: two binary64 side by side.
unsafe impl Element for [f64; 2] {
    const TYPE: Type = Type::C64;

    unsafe fn apply(_: *mut u8, _: Op, _: Self) -> Option<Self> {
        None
    }

    unsafe fn swap_if(_: *mut u8, _: Self, _: Self) -> Option<Self> {
        None
    }
}

/// The bits of an element of at most eight bytes.
#[inline(always)]
pub(super) fn bits<T: Element>(value: T) -> u64 {
    let mut bits = [0_u8; 8];
    let len = size_of::<T>().min(8);
    // SAFETY: no more than either has; an element's bytes are all initialized.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast(), bits.as_mut_ptr(), len) };
    u64::from_ne_bytes(bits)
}
