//! Applies operations to elements in memory.
//!
//! Elements that lie at a multiple of their size and have at most eight bytes
//! can be changed by the processor's atomic instructions, so that processes which
//! share the memory, and providers whose atomics are the processor's, do not
//! disturb each other. All others ([`is_atomic`] says no) are changed plainly
//! under a lock; they never meet the first kind, because every process decides by
//! the same rule. Where a netmod changes elements under its own lock
//! ([`Netmod::locks_elements`](super::Netmod::locks_elements)), all are.
//!
//! Never looks at ranks, windows or bounds.
//!
//! # Contracts
//! - **\[WORK\]** The place, and the buffers that kind and operation use, hold `count`
//!   elements.
//! - **\[VALID\]** [`refusal`] has nothing against type and operation.
//! - **\[SHARED\]** Others touch the elements by the rule above alone, those that are
//!   not atomic under the same lock.
//! - **\[CELL\]** [`is_atomic`] holds for the elements.
//! - **\[ALONE\]** Nobody else touches the elements meanwhile.

mod alone;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lanes;
mod plain;

use super::{Kind, Op, Type};
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

/// What MPI lets an operation be applied to (MPI-4.1, section 6.9.2): the
/// reason why not, where it does not.
pub(crate) fn refusal(ty: Type, op: Op) -> Option<&'static str> {
    let complex = matches!(ty, Type::C32 | Type::C64);
    let float = matches!(ty, Type::F32 | Type::F64 | Type::F80);
    match op {
        Op::Sum | Op::Prod if ty == Type::F80 && !HAVE_F80 => {
            Some("80-bit numbers are computed on x86 processors only")
        }
        Op::Min | Op::Max if ty == Type::F80 && !HAVE_F80 => {
            Some("80-bit numbers are compared on x86 processors only")
        }
        Op::Min | Op::Max if complex => Some("complex numbers have no order"),
        Op::Band | Op::Bor | Op::Bxor if complex || float => {
            Some("bitwise operations are for integers")
        }
        Op::Land | Op::Lor | Op::Lxor if complex || float => {
            Some("logical operations are for integers")
        }
        _ => None,
    }
}

const HAVE_F80: bool = cfg!(any(target_arch = "x86", target_arch = "x86_64"));

/// Returns true if an element at an address that is `address` modulo its size
/// can be changed by one atomic instruction, or a loop around one.
#[inline(always)]
pub(crate) const fn is_atomic(ty: Type, address: usize) -> bool {
    let size = ty.size();
    size <= 8 && address & (size - 1) == 0
}

/// The buffers of one operation on `count` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) ty: Type,
    pub(crate) op: Op,
    /// The elements.
    pub(crate) at: *mut u8,
    /// Operands, at any alignment; unused with [`Op::NoOp`].
    pub(crate) operand: *const u8,
    /// Comparands, for [`Kind::Swap`].
    pub(crate) compare: *const u8,
    /// Where the elements go as they were, unless the kind is an update.
    pub(crate) result: *mut u8,
    pub(crate) count: usize,
}

impl Work {
    /// With the processor's atomics.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[SHARED\], \[CELL\].
    pub(crate) unsafe fn run_atomic(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.count >= lanes::MANY
            && let Some(high) = lanes::of(self.kind, self.ty, self.op)
        {
            // SAFETY: [WORK], of which these are parts; [VALID], [SHARED], [CELL].
            unsafe {
                let (first, behind) = lanes::run(self, high);
                self.piece(0, first).by_element();
                self.piece(behind, self.count - behind).by_element();
            }
            return;
        }
        // SAFETY: [WORK], [VALID], [SHARED], [CELL].
        unsafe { self.by_element() }
    }

    /// With nobody else there: as fast as memory is, where there are many.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[CELL\], \[ALONE\].
    pub(crate) unsafe fn run_alone(&self) {
        // SAFETY: [WORK], [VALID], [CELL], [ALONE], which has [SHARED] in it.
        unsafe {
            if !alone::run(self) {
                self.by_element();
            }
        }
    }

    /// `count` elements of it from the one at `from`.
    pub(crate) fn piece(&self, from: usize, count: usize) -> Work {
        let byte = from * self.ty.size();
        // (Of buffers that are not used the addresses mean nothing.)
        Work {
            at: self.at.wrapping_add(byte),
            operand: self.operand.wrapping_add(byte),
            compare: self.compare.wrapping_add(byte),
            result: self.result.wrapping_add(byte),
            count,
            ..*self
        }
    }

    /// # Safety
    /// \[WORK\], \[VALID\], \[SHARED\], \[CELL\].
    unsafe fn by_element(&self) {
        // SAFETY: [WORK], [VALID], [SHARED], [CELL]; each cell is the type's.
        unsafe {
            match self.ty {
                Type::I8 => self.each::<AtomicI8>(),
                Type::U8 => self.each::<AtomicU8>(),
                Type::I16 => self.each::<AtomicI16>(),
                Type::U16 => self.each::<AtomicU16>(),
                Type::I32 => self.each::<AtomicI32>(),
                Type::U32 => self.each::<AtomicU32>(),
                Type::I64 => self.each::<AtomicI64>(),
                Type::U64 => self.each::<AtomicU64>(),
                Type::F32 => self.each::<BitsF32>(),
                Type::F64 => self.each::<BitsF64>(),
                Type::C32 => self.each::<BitsC32>(),
                Type::F80 | Type::C64 => unreachable_size(self.ty),
            }
        }
    }

    /// # Safety
    /// \[WORK\], \[VALID\], \[SHARED\], \[CELL\], and `C` is the cell of the type.
    unsafe fn each<C: Atomic>(&self) {
        let (kind, op) = (self.kind, self.op);
        for i in 0..self.count {
            // SAFETY: [WORK]: the buffers hold `count` elements; [CELL], [SHARED]:
            // the element is aligned and only touched atomically.
            unsafe {
                let cell = &*self.at.cast::<C>().add(i);
                let operand = || self.operand.cast::<C::Value>().add(i).read_unaligned();
                let old = match kind {
                    Kind::Update if op == Op::NoOp => continue,
                    Kind::Update => {
                        cell.apply(op, operand());
                        continue;
                    }
                    Kind::Fetch if op == Op::NoOp => cell.fetch(),
                    Kind::Fetch => cell.apply(op, operand()),
                    Kind::Swap => {
                        let compare = self.compare.cast::<C::Value>().add(i).read_unaligned();
                        cell.swap_if(compare, operand())
                    }
                };
                self.result.cast::<C::Value>().add(i).write_unaligned(old);
            }
        }
    }
}

/// Elements of sixteen bytes never come this far.
#[cold]
fn unreachable_size(ty: Type) {
    debug_assert!(false, "{ty:?} has no atomic cell");
}

/// A place in memory that is changed atomically.
pub(crate) trait Atomic {
    type Value: Copy;

    fn fetch(&self) -> Self::Value;
    /// Applies an operation other than [`Op::NoOp`]; the value as it was.
    fn apply(&self, op: Op, operand: Self::Value) -> Self::Value;
    /// Puts `new` in the place of `compare`, compared bit by bit; the value as
    /// it was.
    fn swap_if(&self, compare: Self::Value, new: Self::Value) -> Self::Value;
}

const DONE: Ordering = Ordering::AcqRel;
const SEEN: Ordering = Ordering::Acquire;

macro_rules! integers {
    ($($atomic:ty, $value:ty;)*) => {$(
        impl Atomic for $atomic {
            type Value = $value;

            #[inline(always)]
            fn fetch(&self) -> $value {
                self.load(SEEN)
            }

            #[inline(always)]
            fn apply(&self, op: Op, b: $value) -> $value {
                let logical = |f: fn(bool, bool) -> bool| {
                    self.fetch_update(DONE, SEEN, |a| Some(f(a != 0, b != 0) as $value))
                        .unwrap_or_else(|a| a)
                };
                match op {
                    Op::Sum => self.fetch_add(b, DONE),
                    Op::Prod => self
                        .fetch_update(DONE, SEEN, |a| Some(a.wrapping_mul(b)))
                        .unwrap_or_else(|a| a),
                    Op::Min => self.fetch_min(b, DONE),
                    Op::Max => self.fetch_max(b, DONE),
                    Op::Band => self.fetch_and(b, DONE),
                    Op::Bor => self.fetch_or(b, DONE),
                    Op::Bxor => self.fetch_xor(b, DONE),
                    Op::Land => logical(|a, b| a && b),
                    Op::Lor => logical(|a, b| a || b),
                    Op::Lxor => logical(|a, b| a != b),
                    Op::Replace => self.swap(b, DONE),
                    Op::NoOp => self.load(SEEN),
                }
            }

            #[inline(always)]
            fn swap_if(&self, compare: $value, new: $value) -> $value {
                self.compare_exchange(compare, new, DONE, SEEN).unwrap_or_else(|a| a)
            }
        }
    )*};
}

integers! {
    AtomicI8, i8;
    AtomicU8, u8;
    AtomicI16, i16;
    AtomicU16, u16;
    AtomicI32, i32;
    AtomicU32, u32;
    AtomicI64, i64;
    AtomicU64, u64;
}

/// Values that are computed with as numbers and kept as bits.
macro_rules! numbers {
    ($($cell:ident: $atomic:ty, $bits:ty, $value:ty, $to:expr, $from:expr, $apply:expr;)*) => {$(
        #[repr(transparent)]
        pub(crate) struct $cell($atomic);

        impl Atomic for $cell {
            type Value = $value;

            #[inline(always)]
            fn fetch(&self) -> $value {
                $from(self.0.load(SEEN))
            }

            #[inline(always)]
            fn apply(&self, op: Op, b: $value) -> $value {
                let old = match op {
                    Op::Replace => self.0.swap($to(b), DONE),
                    Op::NoOp => self.0.load(SEEN),
                    op => self
                        .0
                        .fetch_update(DONE, SEEN, |a| Some($to($apply(op, $from(a), b))))
                        .unwrap_or_else(|a| a),
                };
                $from(old)
            }

            #[inline(always)]
            fn swap_if(&self, compare: $value, new: $value) -> $value {
                let swapped = self.0.compare_exchange($to(compare), $to(new), DONE, SEEN);
                $from(swapped.unwrap_or_else(|a| a))
            }
        }
    )*};
}

numbers! {
    BitsF32: AtomicU32, u32, f32, f32::to_bits, f32::from_bits, real::<f32>;
    BitsF64: AtomicU64, u64, f64, f64::to_bits, f64::from_bits, real::<f64>;
    BitsC32: AtomicU64, u64, [f32; 2], c32_bits, c32_of, complex32;
}

/// Sum, product, smaller and larger of two numbers. An operand that is not a
/// number changes nothing in a comparison.
#[inline(always)]
fn real<T>(op: Op, a: T, b: T) -> T
where
    T: std::ops::Add<Output = T> + std::ops::Mul<Output = T> + PartialOrd + Copy,
{
    match op {
        Op::Sum => a + b,
        Op::Prod => a * b,
        Op::Min if b < a => b,
        Op::Max if b > a => b,
        _ => a,
    }
}

fn c32_bits(v: [f32; 2]) -> u64 {
    // SAFETY: both are eight bytes without padding.
    unsafe { std::mem::transmute(v) }
}

fn c32_of(bits: u64) -> [f32; 2] {
    // SAFETY: as above; any bits are two numbers.
    unsafe { std::mem::transmute(bits) }
}

#[inline(always)]
fn complex32(op: Op, a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    match op {
        Op::Sum => [a[0] + b[0], a[1] + b[1]],
        Op::Prod => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        _ => a,
    }
}

fn complex64(op: Op, a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    let half = |v: &[u8; 16], at: usize| f64::from_ne_bytes(std::array::from_fn(|i| v[at + i]));
    let (a, b) = ([half(&a, 0), half(&a, 8)], [half(&b, 0), half(&b, 8)]);
    let sum = match op {
        Op::Sum => [a[0] + b[0], a[1] + b[1]],
        Op::Prod => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        _ => a,
    };
    let mut out = [0; 16];
    out[..8].copy_from_slice(&sum[0].to_ne_bytes());
    out[8..].copy_from_slice(&sum[1].to_ne_bytes());
    out
}

/// The 80-bit numbers of x86, computed by the x87.
mod f80 {
    use crate::netmod::Op;

    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    pub(crate) fn apply(op: Op, mut a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
        use std::arch::asm;
        macro_rules! both {
            ($middle:literal) => {
                // SAFETY: loads two numbers of ten bytes, leaves one, and
                // stores it over the first; the stack is empty before and
                // after, and all of it is declared as changed.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{a}]",
                        "fld tbyte ptr [{b}]",
                        $middle,
                        "fstp tbyte ptr [{a}]",
                        a = in(reg) a.as_mut_ptr(),
                        b = in(reg) b.as_ptr(),
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
            };
        }
        match op {
            Op::Sum => both!("faddp st(1), st"),
            Op::Prod => both!("fmulp st(1), st"),
            Op::Min if less(&b, &a) => a[..10].copy_from_slice(&b[..10]),
            Op::Max if less(&a, &b) => a[..10].copy_from_slice(&b[..10]),
            _ => {}
        }
        a
    }

    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    fn less(a: &[u8; 16], b: &[u8; 16]) -> bool {
        use std::arch::asm;
        let above: u8;
        // SAFETY: compares two numbers of ten bytes and leaves the stack empty,
        // as it was.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                "fcomip st, st(1)",
                "fstp st(0)",
                "seta {above}",
                a = in(reg) a.as_ptr(),
                b = in(reg) b.as_ptr(),
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        above != 0
    }

    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    pub(crate) fn apply(_: Op, a: [u8; 16], _: [u8; 16]) -> [u8; 16] {
        a
    }
}

#[cfg(test)]
mod tests;
