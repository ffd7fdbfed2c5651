//! Elements that the processor changes where they are mapped: one instruction,
//! or a loop around one.
//!
//! Atomic with what Rankway does on its other access paths, whose functions
//! these are.
//! Never looks at epochs or bounds.

use super::element::{element, is_predefined, operation};
use crate::ffi;
use rankway::netmod::{Op, Type};
use rankway::rma::Element;

/// One element: its address, what is done, the operand, where it goes as it was.
type Step = unsafe fn(*mut u8, Op, *const u8, *mut u8);

/// The code for a predefined type and an operation, cached by their addresses,
/// which stay the same as long as the program runs.
#[derive(Clone, Copy)]
pub(super) struct CachedOp {
    ty: *const ffi::ompi_datatype_t,
    op: *const ffi::ompi_op_t,
    code: Op,
    /// Bytes of an element.
    pub(super) size: usize,
    step: Step,
}

impl CachedOp {
    /// Of no type and no operation.
    pub(super) const NONE: CachedOp = CachedOp {
        ty: std::ptr::null(),
        op: std::ptr::null(),
        code: Op::NoOp,
        size: 1,
        step: one::<u8>,
    };

    /// `None` where the processor cannot do it or MPI has no such operation, or the
    /// datatype is one that may be freed.
    ///
    /// # Safety
    /// A live datatype and an operation.
    #[cold]
    pub(super) unsafe fn find(
        ty: *const ffi::ompi_datatype_t,
        op: *const ffi::ompi_op_t,
    ) -> Option<CachedOp> {
        // SAFETY: [MPI].
        let (elem, code) = unsafe {
            if !is_predefined(ty) || !ffi::rw_op_is_for(op, ty) {
                return None;
            }
            (element(ty)?, operation(op)?)
        };
        Some(CachedOp { ty, op, code, size: elem.size(), step: step(elem)? })
    }

    #[inline(always)]
    pub(super) fn is_of(&self, ty: *const ffi::ompi_datatype_t, op: *const ffi::ompi_op_t) -> bool {
        std::ptr::eq(self.ty, ty) && std::ptr::eq(self.op, op)
    }

    /// Fetch-and-op on `count` contiguous elements; `to` is null where the old
    /// values are not wanted.
    ///
    /// # Safety
    /// `at` is a multiple of the size; all sides hold the elements, that of the
    /// operands not with [`Op::NoOp`].
    #[inline(always)]
    pub(super) unsafe fn run(&self, at: *mut u8, from: *const u8, to: *mut u8, count: usize) {
        let mut discarded = 0_u64;
        for byte in (0..count).map(|i| i * self.size) {
            let to = match to.is_null() {
                true => (&raw mut discarded).cast(),
                false => to.wrapping_add(byte),
            };
            // SAFETY: [BUF].
            unsafe { (self.step)(at.add(byte), self.code, from.wrapping_add(byte), to) }
        }
    }
}

/// Runs `$call` with the Rust type of an element of at most 8 bytes.
macro_rules! with_type {
    ($elem:expr, $t:ident => $call:expr) => {
        match $elem {
            Type::I8 => {
                type $t = i8;
                Some($call)
            }
            Type::U8 => {
                type $t = u8;
                Some($call)
            }
            Type::I16 => {
                type $t = i16;
                Some($call)
            }
            Type::U16 => {
                type $t = u16;
                Some($call)
            }
            Type::I32 => {
                type $t = i32;
                Some($call)
            }
            Type::U32 => {
                type $t = u32;
                Some($call)
            }
            Type::I64 => {
                type $t = i64;
                Some($call)
            }
            Type::U64 => {
                type $t = u64;
                Some($call)
            }
            Type::F32 => {
                type $t = f32;
                Some($call)
            }
            Type::F64 => {
                type $t = f64;
                Some($call)
            }
            _ => None,
        }
    };
}

fn step(elem: Type) -> Option<Step> {
    with_type!(elem, T => one::<T>)
}

/// # Safety
/// As [`CachedOp::run`]; the operation is one MPI has for the type.
unsafe fn one<T: Element + Default>(at: *mut u8, op: Op, from: *const u8, to: *mut u8) {
    // SAFETY: [BUF]; the operand of MPI_NO_OP is not looked at.
    unsafe {
        let operand = if op == Op::NoOp { T::default() } else { from.cast::<T>().read_unaligned() };
        if let Some(old) = T::apply(at, op, operand) {
            to.cast::<T>().write_unaligned(old);
        }
    }
}

/// Compare-and-swap of one element; `false` where the processor cannot, and
/// nothing is done.
///
/// # Safety
/// One element at each address.
#[inline]
pub(super) unsafe fn swap(
    elem: Type,
    at: *mut u8,
    compare: *const u8,
    new: *const u8,
    to: *mut u8,
) -> bool {
    if at.addr() & (elem.size() - 1) != 0 {
        return false;
    }
    let old = with_type!(elem, T => {
        // SAFETY: [BUF].
        unsafe {
            let (compare, new) =
                (compare.cast::<T>().read_unaligned(), new.cast::<T>().read_unaligned());
            T::swap_if(at, compare, new).map(|old| to.cast::<T>().write_unaligned(old))
        }
    });
    old.flatten().is_some()
}
