//! Several small integers changed by one instruction: accumulates of many go
//! eight bytes at a time.
//!
//! Instructions written down, for Rust's atomics must not meet in different
//! sizes; the processor lets them (Intel SDM 3A, 9.1.2: a locked instruction is
//! atomic to all that overlap it).

use super::Work;
use crate::netmod::{Kind, Op, Type};
use std::arch::asm;

const WORD: usize = 8;
/// Fewer elements are faster one by one.
pub(super) const MANY: usize = 16;

/// The upper bit of each integer in a word, where an operation goes by words.
#[inline]
pub(super) fn of(kind: Kind, ty: Type, op: Op) -> Option<u64> {
    let by_words = matches!(op, Op::Sum | Op::Band | Op::Bor | Op::Bxor | Op::Replace);
    if kind != Kind::Update || !by_words {
        return None;
    }
    match ty {
        Type::I8 | Type::U8 => Some(0x8080_8080_8080_8080),
        Type::I16 | Type::U16 => Some(0x8000_8000_8000_8000),
        Type::I32 | Type::U32 => Some(0x8000_0000_8000_0000),
        _ => None,
    }
}

/// Does what lies in whole words at multiples of eight: the first element done,
/// and the one behind the last.
///
/// # Safety
/// \[WORK\], \[VALID\], \[SHARED\], \[CELL\], as [`Work::run_atomic`]; `high` is what
/// [`of`] said of its operation.
pub(super) unsafe fn run(work: &Work, high: u64) -> (usize, usize) {
    let size = work.ty.size();
    let first = (work.at.addr().wrapping_neg() % WORD / size).min(work.count);
    let words = (work.count - first) * size / WORD;
    // SAFETY: [WORK]; [WORDS]: they are elements of both buffers, [CELL], [SHARED].
    unsafe {
        let at = work.at.add(first * size).cast::<u64>();
        let operands = work.operand.add(first * size).cast::<u64>();
        match work.op {
            // The upper bits apart, so that nothing is carried over.
            Op::Sum => {
                each(at, operands, words, |a, b| ((a & !high) + (b & !high)) ^ ((a ^ b) & high))
            }
            Op::Band => each(at, operands, words, |a, b| a & b),
            Op::Bor => each(at, operands, words, |a, b| a | b),
            Op::Bxor => each(at, operands, words, |a, b| a ^ b),
            _ => each(at, operands, words, |_, b| b),
        }
    }
    (first, first + words * WORD / size)
}

/// # Safety
/// \[WORDS\]: `words` of them at both; those at `at` at a multiple of eight, touched
/// by the processor's atomic instructions only.
#[inline(always)]
unsafe fn each(at: *mut u64, operands: *const u64, words: usize, f: impl Fn(u64, u64) -> u64) {
    for i in 0..words {
        // SAFETY: [WORDS].
        unsafe {
            let (at, operand) = (at.add(i), operands.add(i).read_unaligned());
            let mut old: u64;
            asm!("mov {old}, [{at}]", at = in(reg) at, old = out(reg) old,
                options(nostack, preserves_flags, readonly));
            loop {
                let mut seen = old;
                asm!("lock cmpxchg [{at}], {new}", at = in(reg) at, new = in(reg) f(old, operand),
                    inout("rax") seen, options(nostack));
                if seen == old {
                    break;
                }
                old = seen;
            }
        }
    }
}
