//! Operations on many elements that nobody else touches meanwhile: loops that the
//! compiler makes vector instructions of, twice, for processors with AVX2 and for
//! those without.

use super::{Work, complex32, real};
use crate::netmod::{Kind, Op, Type};
use crate::shm::copy::copy;

/// Elements are fetched so many bytes ahead of their change: both happen in the
/// first cache.
const BLOCK: usize = 8 << 10;

/// Runs the operation over the elements as over plain memory; `false`, and nothing
/// done, where that is no faster than by element.
///
/// # Safety
/// \[WORK\], \[VALID\], \[CELL\], \[ALONE\].
pub(super) unsafe fn run(work: &Work) -> bool {
    let size = work.ty.size();
    match (work.kind, work.op) {
        (Kind::Swap, _) => return false,
        (Kind::Update, Op::NoOp) => return true,
        // SAFETY: [WORK], [ALONE].
        (Kind::Fetch, Op::NoOp) => unsafe {
            copy(work.result, work.at, work.count * size);
            return true;
        },
        // SAFETY: as above.
        (Kind::Update, _) => unsafe { update(work) },
        (Kind::Fetch, _) => {
            let mut from = 0;
            while from < work.count {
                let piece = work.piece(from, (BLOCK / size).min(work.count - from));
                // SAFETY: as above.
                unsafe {
                    copy(piece.result, piece.at, piece.count * size);
                    update(&piece);
                }
                from += piece.count;
            }
        }
    }
    true
}

/// Changes the elements.
///
/// # Safety
/// \[WORK\], \[VALID\], \[CELL\], \[ALONE\].
pub(super) unsafe fn update(work: &Work) {
    if work.op == Op::Replace {
        // SAFETY: [WORK], [ALONE].
        unsafe {
            return copy(work.at, work.operand, work.count * work.ty.size());
        }
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: [WORK], [VALID], [CELL], [ALONE]; the processor has it.
        return unsafe { with_avx2(work) };
    }
    // SAFETY: [WORK], [VALID], [CELL], [ALONE].
    unsafe { by_type(work) }
}

/// # Safety
/// As [`update`]; the processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2(work: &Work) {
    // SAFETY: by the contract.
    unsafe { by_type(work) }
}

/// # Safety
/// As [`update`].
#[inline(always)]
unsafe fn by_type(work: &Work) {
    // SAFETY: by the contract; sums, products and bits are those of unsigned
    // integers.
    unsafe {
        match (work.op, work.ty) {
            (_, Type::F32) => numbers::<f32>(work),
            (_, Type::F64) => numbers::<f64>(work),
            (Op::Sum, Type::C32) => each::<f32>(work, 2 * work.count, |a, b| a + b),
            (op, Type::C32) => each::<[f32; 2]>(work, work.count, |a, b| complex32(op, a, b)),
            (Op::Band | Op::Bor | Op::Bxor, ty) => bits(work, work.count * ty.size()),
            (Op::Min | Op::Max, Type::I8) => compare::<i8>(work),
            (Op::Min | Op::Max, Type::I16) => compare::<i16>(work),
            (Op::Min | Op::Max, Type::I32) => compare::<i32>(work),
            (Op::Min | Op::Max, Type::I64) => compare::<i64>(work),
            (Op::Min | Op::Max, Type::U8) => compare::<u8>(work),
            (Op::Min | Op::Max, Type::U16) => compare::<u16>(work),
            (Op::Min | Op::Max, Type::U32) => compare::<u32>(work),
            (Op::Min | Op::Max, Type::U64) => compare::<u64>(work),
            (_, Type::I8 | Type::U8) => integers8(work),
            (_, Type::I16 | Type::U16) => integers16(work),
            (_, Type::I32 | Type::U32) => integers32(work),
            (_, Type::I64 | Type::U64) => integers64(work),
            (_, Type::F80 | Type::C64) => super::unreachable_size(work.ty),
        }
    }
}

/// One loop: each of `count` values of `T` at the place becomes `f` of itself and
/// its operand.
///
/// # Safety
/// As [`update`], for values of that type.
#[inline(always)]
unsafe fn each<T: Copy>(work: &Work, count: usize, f: impl Fn(T, T) -> T) {
    let (at, operands) = (work.at.cast::<T>(), work.operand.cast::<T>());
    for i in 0..count {
        // SAFETY: [WORK], [ALONE]; aligned by [CELL], the operands perhaps not.
        unsafe {
            let at = at.add(i);
            at.write(f(at.read(), operands.add(i).read_unaligned()));
        }
    }
}

/// # Safety
/// As [`each`].
#[inline(always)]
unsafe fn numbers<T>(work: &Work)
where
    T: std::ops::Add<Output = T> + std::ops::Mul<Output = T> + PartialOrd + Copy,
{
    // SAFETY: by the contract. (A loop for each: the operation is known in it.)
    unsafe {
        match work.op {
            Op::Sum => each::<T>(work, work.count, |a, b| real(Op::Sum, a, b)),
            Op::Prod => each::<T>(work, work.count, |a, b| real(Op::Prod, a, b)),
            Op::Min => each::<T>(work, work.count, |a, b| real(Op::Min, a, b)),
            _ => each::<T>(work, work.count, |a, b| real(Op::Max, a, b)),
        }
    }
}

/// # Safety
/// As [`each`].
#[inline(always)]
unsafe fn compare<T: Ord + Copy>(work: &Work) {
    // SAFETY: by the contract.
    unsafe {
        match work.op {
            Op::Min => each::<T>(work, work.count, |a, b| if b < a { b } else { a }),
            _ => each::<T>(work, work.count, |a, b| if b > a { b } else { a }),
        }
    }
}

/// # Safety
/// As [`each`], for bytes.
#[inline(always)]
unsafe fn bits(work: &Work, bytes: usize) {
    // SAFETY: by the contract.
    unsafe {
        match work.op {
            Op::Band => each::<u8>(work, bytes, |a, b| a & b),
            Op::Bor => each::<u8>(work, bytes, |a, b| a | b),
            _ => each::<u8>(work, bytes, |a, b| a ^ b),
        }
    }
}

macro_rules! integers {
    ($($name:ident: $value:ty;)*) => {$(
        /// # Safety
        /// As [`each`].
        #[inline(always)]
        unsafe fn $name(work: &Work) {
            // SAFETY: by the contract.
            unsafe {
                match work.op {
                    Op::Sum => each::<$value>(work, work.count, |a, b| a.wrapping_add(b)),
                    Op::Prod => each::<$value>(work, work.count, |a, b| a.wrapping_mul(b)),
                    Op::Land => {
                        each::<$value>(work, work.count, |a, b| ((a != 0) & (b != 0)).into());
                    }
                    Op::Lor => each::<$value>(work, work.count, |a, b| ((a | b) != 0).into()),
                    _ => each::<$value>(work, work.count, |a, b| ((a != 0) ^ (b != 0)).into()),
                }
            }
        }
    )*};
}

integers! {
    integers8: u8;
    integers16: u16;
    integers32: u32;
    integers64: u64;
}
