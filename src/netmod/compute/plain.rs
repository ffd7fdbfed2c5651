//! Operations on elements that nobody else touches meanwhile, at any place.

use super::{Work, alone, complex32, complex64, f80, is_atomic, real};
use crate::netmod::{Kind, Op, Type};

/// Elements that are fetched before they are changed.
const BLOCK: usize = 512;
/// So many are changed by vector instructions.
const MANY: usize = 64;

impl Work {
    /// Runs the operation plainly. Results may go where the operands are, or the
    /// operands of a swap.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[ALONE\].
    pub(crate) unsafe fn run_plain(&self) {
        // SAFETY: [WORK], [VALID], [ALONE], as all three ask for it.
        unsafe {
            match self.kind {
                // ([CELL] by the second.)
                Kind::Update if self.is_long() && is_atomic(self.ty, self.at.addr()) => {
                    alone::update(self);
                }
                Kind::Update => self.change(),
                Kind::Fetch => self.fetch_and_change(),
                Kind::Swap => self.swap(),
            }
        }
    }

    fn is_long(&self) -> bool {
        self.count >= MANY && self.op != Op::NoOp
    }

    /// # Safety
    /// \[WORK\], \[VALID\], \[ALONE\].
    unsafe fn fetch_and_change(&self) {
        let size = self.ty.size();
        let mut old = [0_u8; BLOCK];
        for from in (0..self.count).step_by(BLOCK / size) {
            let count = (self.count - from).min(BLOCK / size);
            let byte = from * size;
            let operand = match self.op {
                Op::NoOp => self.operand,
                _ => self.operand.wrapping_add(byte),
            };
            // SAFETY: [WORK], of which this is a part; [VALID], [ALONE].
            unsafe {
                let at = self.at.add(byte);
                old.as_mut_ptr().copy_from_nonoverlapping(at, count * size);
                Work { at, operand, count, ..*self }.change();
                // The operands of these elements were used.
                self.result.add(byte).copy_from_nonoverlapping(old.as_ptr(), count * size);
            }
        }
    }

    /// # Safety
    /// \[WORK\], \[VALID\], \[ALONE\].
    unsafe fn swap(&self) {
        let size = self.ty.size();
        let compared = if self.ty == Type::F80 { 10 } else { size };
        for byte in (0..self.count * size).step_by(size) {
            let (mut old, mut new, mut compare) = ([0_u8; 16], [0_u8; 16], [0_u8; 16]);
            // SAFETY: [WORK]: an element in each buffer; no type has more bytes.
            unsafe {
                let at = self.at.add(byte);
                old.as_mut_ptr().copy_from_nonoverlapping(at, size);
                new.as_mut_ptr().copy_from_nonoverlapping(self.operand.add(byte), size);
                compare.as_mut_ptr().copy_from_nonoverlapping(self.compare.add(byte), size);
                if old[..compared] == compare[..compared] {
                    at.copy_from_nonoverlapping(new.as_ptr(), size);
                }
                self.result.add(byte).copy_from_nonoverlapping(old.as_ptr(), size);
            }
        }
    }

    /// The elements changed, one loop for each type and operation.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[ALONE\].
    unsafe fn change(&self) {
        let &Work { ty, op, at, operand, count, .. } = self;
        macro_rules! integers {
            ($type:ty) => {
                match op {
                    Op::Sum => each::<$type>(at, operand, count, |a, b| a.wrapping_add(b)),
                    Op::Prod => each::<$type>(at, operand, count, |a, b| a.wrapping_mul(b)),
                    Op::Min => each::<$type>(at, operand, count, |a, b| a.min(b)),
                    Op::Max => each::<$type>(at, operand, count, |a, b| a.max(b)),
                    Op::Band => each::<$type>(at, operand, count, |a, b| a & b),
                    Op::Bor => each::<$type>(at, operand, count, |a, b| a | b),
                    Op::Bxor => each::<$type>(at, operand, count, |a, b| a ^ b),
                    Op::Land => each::<$type>(at, operand, count, |a, b| (a != 0 && b != 0).into()),
                    Op::Lor => each::<$type>(at, operand, count, |a, b| (a != 0 || b != 0).into()),
                    Op::Lxor => {
                        each::<$type>(at, operand, count, |a, b| ((a != 0) != (b != 0)).into())
                    }
                    Op::Replace | Op::NoOp => {}
                }
            };
        }
        macro_rules! reals {
            ($type:ty) => {
                match op {
                    Op::Sum => each::<$type>(at, operand, count, |a, b| real(Op::Sum, a, b)),
                    Op::Prod => each::<$type>(at, operand, count, |a, b| real(Op::Prod, a, b)),
                    Op::Min => each::<$type>(at, operand, count, |a, b| real(Op::Min, a, b)),
                    Op::Max => each::<$type>(at, operand, count, |a, b| real(Op::Max, a, b)),
                    _ => {}
                }
            };
        }
        // SAFETY: [WORK], [ALONE]; the types are those of the elements.
        unsafe {
            match (ty, op) {
                (_, Op::NoOp) => {}
                (_, Op::Replace) => at.copy_from_nonoverlapping(operand, count * ty.size()),
                (Type::I8, _) => integers!(i8),
                (Type::U8, _) => integers!(u8),
                (Type::I16, _) => integers!(i16),
                (Type::U16, _) => integers!(u16),
                (Type::I32, _) => integers!(i32),
                (Type::U32, _) => integers!(u32),
                (Type::I64, _) => integers!(i64),
                (Type::U64, _) => integers!(u64),
                (Type::F32, _) => reals!(f32),
                (Type::F64, _) => reals!(f64),
                (Type::C32, _) => each::<[f32; 2]>(at, operand, count, |a, b| complex32(op, a, b)),
                (Type::C64, _) => each::<[u8; 16]>(at, operand, count, |a, b| complex64(op, a, b)),
                (Type::F80, _) => each::<[u8; 16]>(at, operand, count, |a, b| f80::apply(op, a, b)),
            }
        }
    }
}

/// # Safety
/// \[WORK\], \[ALONE\]: both hold `count` of `T`, at any address.
#[inline]
unsafe fn each<T: Copy>(at: *mut u8, from: *const u8, count: usize, f: impl Fn(T, T) -> T) {
    let (at, from) = (at.cast::<T>(), from.cast::<T>());
    for i in 0..count {
        // SAFETY: [WORK], [ALONE].
        unsafe {
            let at = at.add(i);
            at.write_unaligned(f(at.read_unaligned(), from.add(i).read_unaligned()));
        }
    }
}
