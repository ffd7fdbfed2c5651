//! Long operations on elements, whose operands stay where they are: the origin says in the
//! ring where, and waits within the call.
//!
//! A target that comes to it reads them out of the origin's memory, a piece at a time, and
//! computes. What it has not done when the offer was taken out of the ring, by whomever,
//! the origin does itself: it reads the target's elements, computes, and writes them.
//! Elements are changed under the target's lock, which is given back behind each piece.
//!
//! # Contracts
//! - **\[BODY\]** The body is readable and writable for the bytes of the packet.

use super::Error;
use super::elements::{self, OFFERED};
use crate::netmod::compute::Work;
use crate::netmod::{Kind, Op};
use crate::process;
use crate::shm::attach::{self, Direction};
use crate::shm::element_lock::{ElementLock, Holder};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A packet's class: an offer. In the first word above it stand kind, type and operation,
/// in the last one where the operands are.
pub(super) const OFFER: u64 = 5;
/// Bytes that are read to be computed with, and changed under the lock, at a time: half a
/// second cache.
const PIECE: usize = 256 << 10;

/// The body of an offer.
#[repr(C)]
pub(super) struct Offer {
    /// Bytes of the operands.
    len: u64,
    /// Whose memory they are in.
    of: u64,
    /// Bytes of them that the target is done with.
    done: AtomicU64,
}

impl Offer {
    pub(super) fn new(len: usize, of: Holder) -> Offer {
        Offer { len: len as u64, of: of.bits(), done: AtomicU64::new(0) }
    }

    /// Bytes that are done once it was taken.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed).min(self.len) as usize
    }
}

/// The origin at the other end of a ring, as its target knows it.
#[derive(Debug, Default)]
pub(super) struct Origin(Option<(Holder, OwnedFd)>);

impl Origin {
    /// Returns true if the process lives, so that its number is its own.
    fn lives(&mut self, of: Holder) -> bool {
        if self.0.as_ref().is_none_or(|&(known, _)| known != of) {
            // (The descriptor first: the number is not another's from then on.)
            let pidfd = process::pidfd_open(of.pid()).ok().filter(|_| !of.has_ended());
            self.0 = pidfd.map(|pidfd| (of, pidfd));
        }
        self.0.as_ref().is_some_and(|(_, pidfd)| !process::has_exited(pidfd))
    }
}

/// Takes an offer as its target, whose elements begin at what `find` says of so many bytes;
/// false where no peer writes that. It is no error if nothing is done.
///
/// # Safety
/// \[BODY\] of `body_len` bytes; what `find` answers stays this process's memory.
#[cold]
#[inline(never)]
pub(super) unsafe fn take(
    (first, operands): (u64, u64),
    (body, body_len): (*mut u8, usize),
    find: impl FnOnce(usize) -> Option<u64>,
    lock: &ElementLock,
    origin: &mut Origin,
    memory: &mut Vec<u8>,
) -> bool {
    let Some((kind @ Kind::Update, ty, op)) = elements::operation(first) else { return false };
    if body_len != size_of::<Offer>() || !body.cast::<Offer>().is_aligned() {
        return false;
    }
    // SAFETY: [BODY]; any bits are one.
    let offer = unsafe { &*body.cast::<Offer>() };
    let (len, of) = (offer.len as usize, Holder::from_bits(offer.of));
    if len > OFFERED || !len.is_multiple_of(ty.size()) {
        return false;
    }
    let Some(at) = find(len).filter(|_| origin.lives(of)) else { return true };
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
    let mut from = 0;
    while from < len {
        // (What replaces is not looked at: each call of the system less is time.)
        let some = if op == Op::Replace { len } else { PIECE.min(len - from) };
        let (there, at) = (operands.wrapping_add(from as u64), at.wrapping_add(from));
        let read = |here| {
            // SAFETY: [SIDE]: `memory`, or the elements under the lock.
            unsafe { attach::copy(Direction::Out, of.pid(), there, here, some) }.is_ok()
        };
        if op == Op::Replace {
            let _held = lock.lock();
            if !read(at) {
                break;
            }
        } else {
            memory.resize(PIECE, 0);
            if !read(memory.as_mut_ptr()) {
                break;
            }
            let (operand, result) = (memory.as_ptr(), std::ptr::null_mut());
            let count = some / ty.size();
            let work = Work { kind, ty, op, at, operand, compare: operand, result, count };
            let _held = lock.lock();
            // SAFETY: [WORK]: within registered memory, by `find`; [VALID]: by
            // `operation`; [ALONE]: the lock is held.
            unsafe { work.run_plain() };
        }
        from += some;
        offer.done.store(from as u64, Ordering::Relaxed);
    }
    true
}

/// Carries out an operation as its origin, on elements at `there` in the memory of process
/// `pid`. Part may be done where it fails.
///
/// # Safety
/// The operands of `work` are there, and its operation is one for the type.
pub(super) unsafe fn carry_out(
    work: &Work,
    (pid, there): (u32, u64),
    lock: &ElementLock,
    memory: &mut Vec<u8>,
) -> Result<(), Error> {
    let size = work.ty.size();
    memory.resize(PIECE, 0);
    let mut from = 0;
    while from < work.count {
        let count = (PIECE / size).min(work.count - from);
        let piece = Work { at: memory.as_mut_ptr(), ..work.piece(from, count) };
        let there = there + (from * size) as u64;
        let copy = |direction, here| {
            // SAFETY: [SIDE]: `memory`, or operands, which are read only.
            unsafe { attach::copy(direction, pid, there, here, count * size) }
                .map_err(|why| Error::of(&why))
        };
        let _held = lock.lock();
        if piece.op == Op::Replace {
            copy(Direction::Into, piece.operand.cast_mut())?;
        } else {
            copy(Direction::Out, piece.at)?;
            // SAFETY: [WORK]: in `memory`, and the caller's; [VALID]: the caller's; [ALONE].
            unsafe { piece.run_plain() };
            copy(Direction::Into, piece.at)?;
        }
        from += count;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::netmod::{Op, Type};
    use crate::shm::segment::{PAGE, Segment};
    use std::sync::Arc;

    const COUNT: usize = 2 * PIECE / 8 + 100;

    fn lock() -> ElementLock {
        let segment = Arc::new(Segment::private(PAGE).expect("memory"));
        // SAFETY: zeroed.
        unsafe { ElementLock::new(segment, Holder::current()) }
    }

    fn first(op: Op) -> u64 {
        OFFER | (Type::I64 as u64) << 12 | (op as u64) << 16
    }

    /// What is taken of operands at an address, in `memory`.
    fn taken(first: u64, operands: u64, offer: &mut Offer, memory: &mut [i64]) -> bool {
        let at = memory.as_mut_ptr().expose_provenance() as u64;
        let find = |len| (len <= size_of_val(memory)).then_some(at);
        let body = ((&raw mut *offer).cast(), size_of::<Offer>());
        let (mut origin, mut space) = (Origin::default(), Vec::new());
        // SAFETY: a body; the memory stays.
        unsafe { take((first, operands), body, find, &lock(), &mut origin, &mut space) }
    }

    fn address<T>(of: &[T]) -> u64 {
        of.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn what_a_target_leaves_its_origin_does() {
        let operands: Vec<i64> = (0..COUNT as i64).map(|i| i * 7 - 5).collect();
        for op in [Op::Sum, Op::Replace] {
            let mut memory: Vec<i64> = (0..COUNT as i64).collect();
            let wanted: Vec<i64> = memory
                .iter()
                .zip(&operands)
                .map(|(m, o)| if op == Op::Sum { m + o } else { *o })
                .collect();
            // Operands that end where the process has no memory: the second piece is not
            // there.
            let mapped = Segment::private(3 * PIECE).unwrap();
            let start = mapped.start();
            // SAFETY: of the mapping; its second half is given back.
            unsafe {
                start.copy_from_nonoverlapping(operands.as_ptr().cast(), PIECE);
                assert_eq!(libc::mprotect(start.add(PIECE).cast(), PIECE, libc::PROT_NONE), 0);
            }
            let mut offer = Offer::new(8 * COUNT, Holder::current());
            assert!(taken(first(op), start.expose_provenance() as u64, &mut offer, &mut memory));
            // (What replaces comes at once or not.)
            let done = offer.done();
            assert_eq!(done, if op == Op::Sum { PIECE } else { 0 });
            let work = Work {
                kind: Kind::Update,
                ty: Type::I64,
                op,
                at: std::ptr::null_mut(),
                operand: operands.as_ptr().cast(),
                compare: std::ptr::null(),
                result: std::ptr::null_mut(),
                count: COUNT,
            };
            let rest = work.piece(done / 8, COUNT - done / 8);
            let there = (std::process::id(), address(&memory) + done as u64);
            // SAFETY: the operands are there.
            unsafe { carry_out(&rest, there, &lock(), &mut Vec::new()) }.unwrap();
            assert!(memory == wanted, "{op:?}");
        }
    }

    #[test]
    fn a_target_takes_all_that_is_there() {
        let operands = vec![3_i64; COUNT];
        let mut memory = vec![4_i64; COUNT];
        let mut offer = Offer::new(8 * COUNT, Holder::current());
        assert!(taken(first(Op::Prod), address(&operands), &mut offer, &mut memory));
        assert_eq!(offer.done(), 8 * COUNT);
        assert!(memory.iter().all(|&m| m == 12));
    }

    #[test]
    fn of_one_that_has_ended_nothing_is_read() {
        let of = Holder::from_bits(u64::from(crate::process::one_that_ended()) | 1 << 32);
        // Its number is this process's now, say.
        let other = Holder::from_bits(Holder::current().bits() ^ 1 << 40);
        let operands = vec![1_i64; 8];
        let mut memory = vec![0_i64; 8];
        for of in [of, other] {
            let mut offer = Offer::new(64, of);
            assert!(taken(first(Op::Sum), address(&operands), &mut offer, &mut memory));
            assert_eq!((offer.done(), memory[0]), (0, 0));
        }
    }

    #[test]
    fn what_no_peer_writes_is_refused() {
        let operands = vec![1_i64; 8];
        let mut memory = vec![0_i64; 8];
        let me = Holder::current();
        let fetch = first(Op::Sum) | 1 << 8;
        let no_type = OFFER | 0xf << 12;
        for (first, len) in
            [(fetch, 64), (no_type, 64), (first(Op::Sum), OFFERED + 8), (first(Op::Sum), 7)]
        {
            let mut offer = Offer::new(len, me);
            assert!(!taken(first, address(&operands), &mut offer, &mut memory), "{first:x} {len}");
        }
        // Past the end of the region it is left to the origin, which finds that, too.
        let mut offer = Offer::new(72, me);
        assert!(taken(first(Op::Sum), address(&operands), &mut offer, &mut memory));
        assert_eq!((offer.done(), memory), (0, vec![0; 8]));
    }
}
