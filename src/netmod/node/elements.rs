//! Operations on elements: as they travel in the ring of puts, and as an origin carries
//! them out in the memory of a target that does not come to it.
//!
//! Whoever changes elements of a process's memory holds its lock meanwhile. So an origin
//! may read them, compute, and write what it has changed.
//!
//! # Contracts
//! - **\[BODY\]** The body is readable and writable for the bytes of the packet, until the
//!   operation is carried out.

use super::Error;
use crate::netmod::compute::{Work, refusal};
use crate::netmod::{Atomic, Kind, Op, Type};
use crate::shm::attach::{Copies, Direction};
use crate::shm::element_lock::ElementLock;
use crate::shm::ring::LONGEST;
use crate::shm::segment::PAGE;

/// A packet's class: an operation on elements. In the first word above it stand kind, type
/// and operation; the body has operands, then comparands. What is fetched goes where the
/// operands are.
pub(super) const ELEMENTS: u64 = 4;

/// Bytes of the longest update that is offered: others are served behind it.
pub(super) const OFFERED: usize = 1 << 20;

/// Elements that one operation of the kind takes, in a packet or offered; 0 where there is
/// no such operation.
pub(super) fn limit(kind: Kind, ty: Type, op: Op) -> usize {
    match kind {
        Kind::Swap if op == Op::Replace => LONGEST / ty.size() / 2,
        Kind::Swap => 0,
        Kind::Update if op == Op::NoOp => 0,
        _ if refusal(ty, op).is_some() => 0,
        Kind::Update => OFFERED / ty.size(),
        Kind::Fetch => LONGEST / ty.size(),
    }
}

/// The first word of a packet, and the bytes of its body.
pub(super) fn encode(op: &Atomic) -> (u64, usize) {
    let kind = match op.kind {
        Kind::Update => 0,
        Kind::Fetch => 1,
        Kind::Swap => 2,
    };
    let first = ELEMENTS | kind << 8 | (op.ty as u64) << 12 | (op.op as u64) << 16;
    let len = op.count * op.ty.size();
    (first, if op.kind == Kind::Swap { 2 * len } else { len })
}

/// Writes operands and comparands.
///
/// # Safety
/// The operation's buffers hold its elements, and `to` is writable for its body.
pub(super) unsafe fn fill(op: &Atomic, to: *mut u8) {
    let len = op.count * op.ty.size();
    // SAFETY: the caller's.
    unsafe {
        match op.kind {
            Kind::Swap => {
                to.copy_from_nonoverlapping(op.operand, len);
                to.add(len).copy_from_nonoverlapping(op.compare, len);
            }
            _ if op.op == Op::NoOp => {}
            _ if len == 8 => {
                to.cast::<u64>().write_unaligned(op.operand.cast::<u64>().read_unaligned());
            }
            _ => to.copy_from_nonoverlapping(op.operand, len),
        }
    }
}

/// Returns true if something is fetched.
pub(super) fn fetches(first: u64) -> bool {
    first >> 8 & 0xf != 0
}

/// What the first word says is to be done; `None` where there is no such operation.
pub(super) fn operation(first: u64) -> Option<(Kind, Type, Op)> {
    let kind = match first >> 8 & 0xf {
        0 => Kind::Update,
        1 => Kind::Fetch,
        2 => Kind::Swap,
        _ => return None,
    };
    let ty = Type::from_number((first >> 12) as u8 & 0xf)?;
    let op = Op::from_number((first >> 16) as u8 & 0xf)?;
    (limit(kind, ty, op) > 0).then_some((kind, ty, op))
}

/// What a packet of elements says, but for the place, and the bytes that it is about;
/// `None` where no peer writes that.
///
/// # Safety
/// \[BODY\] of `len` bytes.
pub(super) unsafe fn decode(first: u64, body: *mut u8, len: usize) -> Option<(Work, usize)> {
    let (kind, ty, op) = operation(first)?;
    let bytes = if kind == Kind::Swap { len / 2 } else { len };
    let count = bytes / ty.size();
    let whole = count * ty.size() * if kind == Kind::Swap { 2 } else { 1 } == len;
    if !whole {
        return None;
    }
    let (at, compare) = (std::ptr::null_mut(), body.wrapping_add(bytes));
    Some((Work { kind, ty, op, at, operand: body, compare, result: body, count }, bytes))
}

/// What was found in a ring, to be carried out in another process's memory.
pub(super) struct Carried {
    copies: Copies,
    /// Operations on elements, each with its place, in their order.
    elements: Vec<(Work, u64)>,
    /// Stretches of the target's memory, apart, in the order of their addresses: where they
    /// begin, how long they are, where they stand in `memory`.
    stretches: Vec<(u64, usize, usize)>,
    /// Stretches as they were, and as they are to be.
    before: Vec<u8>,
    memory: Vec<u8>,
    /// Bytes of the elements.
    bytes: usize,
}

/// Elements of so many bytes are carried out at a time.
const BYTES: usize = 64 << 10;

impl Carried {
    pub(super) fn new(pid: u32) -> Carried {
        Carried {
            copies: Copies::new(Direction::Into, pid),
            elements: Vec::new(),
            stretches: Vec::new(),
            before: Vec::new(),
            memory: Vec::new(),
            bytes: 0,
        }
    }

    /// Copies between a body and the target's memory, behind what was added before.
    ///
    /// # Safety
    /// \[BODY\], until [`Carried::finish`].
    pub(super) unsafe fn copy(
        &mut self,
        lock: &ElementLock,
        direction: Direction,
        (there, body, len): (u64, *mut u8, usize),
    ) {
        self.carry_out(lock);
        self.copies.set_direction(direction);
        // SAFETY: [BODY].
        unsafe { self.copies.add(there, body, len) };
    }

    /// Carries out an operation on elements, behind what was added before.
    ///
    /// # Safety
    /// \[BODY\], until [`Carried::finish`].
    pub(super) unsafe fn operate(
        &mut self,
        lock: &ElementLock,
        (work, bytes): (Work, usize),
        there: u64,
    ) {
        if self.elements.is_empty() {
            self.copies.copy_all();
        } else if self.bytes + bytes > BYTES {
            self.carry_out(lock);
        }
        self.bytes += bytes;
        self.elements.push((work, there));
    }

    /// Memory for elements, which has nothing between operations.
    pub(super) fn memory(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    /// Carries out what is left. Part may be done where it fails.
    pub(super) fn finish(&mut self, lock: &ElementLock) -> Result<(), Error> {
        self.carry_out(lock);
        self.copies.finish().map_err(|why| Error::of(&why))
    }

    fn carry_out(&mut self, lock: &ElementLock) {
        if !self.elements.is_empty() {
            self.carry_out_elements(lock);
            self.elements.clear();
            self.bytes = 0;
        }
    }

    /// Reads, computes, writes what has changed.
    #[inline(never)]
    fn carry_out_elements(&mut self, lock: &ElementLock) {
        self.find_stretches();
        let _held = lock.lock();
        self.copies.set_direction(Direction::Out);
        for &(there, len, at) in &self.stretches {
            // SAFETY: within `memory`, which has space for all and stays until the copies.
            unsafe { self.copies.add(there, self.memory.as_mut_ptr().add(at), len) };
        }
        self.copies.copy_all();
        if self.copies.has_failed() {
            return;
        }
        self.before.clone_from(&self.memory);
        let place = |there: u64| {
            let behind = self.stretches.partition_point(|&(begin, ..)| begin <= there);
            let (begin, _, at) = self.stretches[behind - 1];
            at + (there - begin) as usize
        };
        for &(work, there) in &self.elements {
            // SAFETY: a place within `memory`, whose stretch holds the elements; [BODY];
            // [VALID]: `decode` looked at that.
            unsafe { Work { at: self.memory.as_mut_ptr().add(place(there)), ..work }.run_plain() };
        }
        self.copies.set_direction(Direction::Into);
        for &(work, there) in &self.elements {
            let (at, len) = (place(there), work.count * work.ty.size());
            if self.memory[at..at + len] != self.before[at..at + len] {
                // (Not twice what several have changed.)
                self.before[at..at + len].copy_from_slice(&self.memory[at..at + len]);
                // SAFETY: as above.
                unsafe { self.copies.add(there, self.memory.as_mut_ptr().add(at), len) };
            }
        }
        self.copies.copy_all();
    }

    /// The stretches that hold the elements: together what is in a page, which the system
    /// finds once.
    fn find_stretches(&mut self) {
        let page = |at: u64| at / PAGE as u64;
        self.stretches.clear();
        let all = self.elements.iter();
        self.stretches.extend(all.map(|&(work, at)| (at, work.count * work.ty.size(), 0)));
        if !self.stretches.is_sorted() {
            self.stretches.sort_unstable();
        }
        self.stretches.dedup_by(|next, last| {
            let end = last.0 + last.1 as u64;
            let together = next.0 <= end || page(next.0) == page(end - 1);
            if together {
                last.1 = (next.0 + next.1 as u64).max(end).wrapping_sub(last.0) as usize;
            }
            together
        });
        let mut bytes = 0;
        for (_, len, at) in &mut self.stretches {
            *at = bytes;
            bytes += *len;
        }
        self.memory.resize(bytes, 0);
    }
}
