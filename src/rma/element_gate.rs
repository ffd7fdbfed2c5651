//! Who may change the elements of a node's segment, and how.
//!
//! Where all members of a window have its memory mapped, short operations are the
//! processor's atomics, and long ones run over the elements as over plain memory
//! ([`Work::run_alone`]) while nobody else changes any near them: a
//! [`BiasedLock`] for each stretch of the segment keeps the two apart. Every
//! process takes it by the same rule, so all are atomic with each other, element by
//! element.
//!
//! Never looks at ranks, windows or bounds: an element's place in the segment says
//! which lock is its.

use crate::netmod::compute::Work;
use crate::process;
use crate::shm::barrier;
use crate::shm::biased_lock::{Acquired, BiasedLock, Count, Slot, revoke};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Locks of a segment.
const LOCKS: usize = 64;
/// A lock's stretch is at least so long (18: 256 KiB): each is closed for itself.
const LEAST_SHIFT: u32 = 18;
/// The longest stretch that is changed under a lock at a time; others wait that long.
const STRETCH: usize = 256 << 10;

/// More elements close an open lock: one by one they take as long as a barrier.
const LONG: usize = 1024;
/// Of fewer elements each is changed for itself, if the lock is open.
const FEW: usize = 16;
/// Elements of operations between the two, after which they close it too.
const PATIENCE: u32 = 4096;

/// Short operations in turn that open a lock: a barrier costs what some hundred of
/// them do.
const OPENS: u32 = 128;

/// How often a process looks at a lock that another has before it gives its
/// processor away, and how long it waits before it looks whether that lives.
const SPINS: u32 = 200;
const LOOK: Duration = Duration::from_millis(20);

/// Slots of a process, for so many accesses.
const SLOTS: usize = 4;

/// What each process of the node has in the segment.
#[repr(C, align(64))]
struct Seat {
    slots: [Slot; SLOTS],
    count: Count,
    /// Who it is, and that it takes part in barriers.
    pid: AtomicU32,
    start_time: AtomicU64,
    joined: AtomicU32,
}

impl Seat {
    fn is_clear_of(&self, number: u32) -> bool {
        self.count.is_clear() && self.slots.iter().all(|slot| slot.is_clear_of(number))
    }

    fn is_dead(&self) -> bool {
        let pid = self.pid.load(Ordering::Relaxed);
        let is_another = |time| time != self.start_time.load(Ordering::Relaxed);
        process::ended(pid) || process::start_time(pid).is_some_and(is_another)
    }
}

/// The locks and seats of a segment, as this process has them mapped.
pub(super) struct ElementGate {
    /// The regions.
    base: *mut u8,
    shift: u32,
    locks: *const BiasedLock,
    seats: *const Seat,
    /// Node ranks of this process and of the members.
    me: u32,
    members: Box<[u32]>,
    /// This process's slots that an access has.
    claimed: AtomicU32,
    /// All members can be kept out.
    usable: AtomicBool,
}

// SAFETY: all access is atomic, and the memory stays with the window, as those do
// who have the gate.
unsafe impl Send for ElementGate {}
// SAFETY: as above.
unsafe impl Sync for ElementGate {}

impl ElementGate {
    /// Bytes of locks and seats on a node of so many processes.
    pub(super) const fn bytes(node_size: u32) -> usize {
        LOCKS * size_of::<BiasedLock>() + node_size as usize * size_of::<Seat>()
    }

    /// The gate of `len` bytes at `base`, whose locks and seats are `at`; says in
    /// this process's seat who it is.
    ///
    /// # Safety
    /// [`ElementGate::bytes`] at `at`, a multiple of 64, zeroed before anybody used
    /// them; all of it stays while the gate is used. The node ranks are below those
    /// that the bytes are for.
    pub(super) unsafe fn join(
        (base, len): (*mut u8, usize),
        at: *mut u8,
        me: u32,
        members: Box<[u32]>,
    ) -> ElementGate {
        let shift = (len.div_ceil(LOCKS).max(1).next_power_of_two().ilog2()).max(LEAST_SHIFT);
        // SAFETY: within the bytes.
        let seats = unsafe { at.add(LOCKS * size_of::<BiasedLock>()) }.cast::<Seat>();
        let (locks, claimed) = (at.cast_const().cast(), AtomicU32::new(0));
        let usable = AtomicBool::new(false);
        let gate = ElementGate { base, shift, locks, seats, me, members, claimed, usable };
        let (pid, seat) = (std::process::id(), gate.seat(me));
        let start_time = process::start_time(pid).filter(|_| process::proc_knows(pid));
        seat.pid.store(pid, Ordering::Relaxed);
        seat.start_time.store(start_time.unwrap_or(0), Ordering::Relaxed);
        let joined = start_time.is_some() && barrier::join() && barrier::raise();
        seat.joined.store(u32::from(joined), Ordering::Release);
        gate
    }

    /// Returns true if all members can be kept out: the same in all from when all
    /// have joined, which is before anybody starts an operation.
    pub(super) fn is_usable(&self) -> bool {
        let usable =
            || self.members.iter().all(|&m| self.seat(m).joined.load(Ordering::Acquire) == 1);
        if !self.usable.load(Ordering::Relaxed) && usable() {
            self.usable.store(true, Ordering::Relaxed);
        }
        self.usable.load(Ordering::Relaxed)
    }

    fn seat(&self, node_rank: u32) -> &Seat {
        // SAFETY: a node rank of this node, by the contract of `join`.
        unsafe { &*self.seats.add(node_rank as usize) }
    }

    /// Returns true if a process that a lock names lives no more, or never did.
    fn is_dead(&self, node_rank: u32) -> bool {
        !self.members.contains(&node_rank) || self.seat(node_rank).is_dead()
    }

    fn lock(&self, number: usize) -> &BiasedLock {
        // SAFETY: below `LOCKS`: `join` has the shift so.
        unsafe { &*self.locks.add(number) }
    }

    /// The lock for an address of the segment.
    #[inline(always)]
    fn number(&self, at: *mut u8) -> usize {
        let number = at.addr().wrapping_sub(self.base.addr()) >> self.shift;
        debug_assert!(number < LOCKS, "an address of the segment");
        number & (LOCKS - 1)
    }

    /// Runs an operation on elements of the segment that the processor changes
    /// atomically. `credit` counts the elements of middling operations.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[CELL\]; \[SHARED\]: others change them by a gate to this
    /// segment alone.
    pub(super) unsafe fn run(&self, work: &Work, slot: Option<&Slot>, credit: &Cell<u32>) {
        let size = work.ty.size();
        let mut from = 0;
        while from < work.count {
            let at = work.at.wrapping_add(from * size);
            let number = self.number(at);
            let offset = at.addr() - self.base.addr();
            let next = ((number + 1) << self.shift).min((offset / STRETCH + 1) * STRETCH);
            let count = ((next - offset) / size).min(work.count - from);
            let piece = work.piece(from, count);
            // SAFETY: [WORK], [VALID], [CELL], [SHARED] of a part; of one stretch.
            unsafe { self.run_piece(&piece, work.count, number, slot, credit) };
            from += count;
        }
    }

    /// # Safety
    /// As [`ElementGate::run`], within one lock's stretch.
    unsafe fn run_piece(
        &self,
        work: &Work,
        all: usize,
        number: usize,
        slot: Option<&Slot>,
        credit: &Cell<u32>,
    ) {
        let short = is_short(all, credit);
        let lock = self.lock(number);
        let seat = self.seat(self.me);
        let name = number as u32 + 1;
        if short {
            let entered = match slot {
                Some(slot) => lock.enter(slot, name),
                None => lock.enter_counted(&seat.count),
            };
            if entered {
                // SAFETY: [WORK], [VALID], [CELL]; [SHARED]: nobody has the lock.
                unsafe { work.run_atomic() };
                match slot {
                    Some(slot) => slot.leave(),
                    None => seat.count.leave(),
                }
                return;
            }
        }
        // SAFETY: [WORK], [VALID], [CELL]; [ALONE] and [SHARED] by the lock.
        unsafe {
            if self.acquire(lock, name) {
                work.run_alone();
                lock.release((all < FEW).then_some(OPENS));
            } else {
                work.run_atomic();
            }
        }
    }

    /// Takes a lock; false where nobody can be kept out, and the lock is open.
    #[inline]
    fn acquire(&self, lock: &BiasedLock, name: u32) -> bool {
        match lock.try_acquire(self.me, None) {
            Acquired::Alone => true,
            got => self.acquire_slowly(lock, name, got),
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_slowly(&self, lock: &BiasedLock, name: u32, mut got: Acquired) -> bool {
        let mut wait = Wait::new();
        loop {
            match got {
                Acquired::Alone => return true,
                Acquired::AfterSlots => break,
                Acquired::HeldBy(holder) => {
                    let dead = (wait.once() && self.is_dead(holder)).then_some(holder);
                    got = lock.try_acquire(self.me, dead);
                }
            }
        }
        if !revoke(barrier::raise) {
            lock.reopen();
            return false;
        }
        for seat in self.members.iter().map(|&member| self.seat(member)) {
            let mut wait = Wait::new();
            while !seat.is_clear_of(name) {
                if wait.once() && seat.is_dead() {
                    break;
                }
            }
        }
        true
    }
}

/// Whether an operation on so many elements leaves an open lock open.
fn is_short(count: usize, credit: &Cell<u32>) -> bool {
    if count < FEW {
        return true;
    }
    if count >= LONG || credit.get() >= PATIENCE {
        return false;
    }
    credit.set(credit.get() + count as u32);
    true
}

/// Waits for another process, which may have died.
struct Wait {
    round: u32,
    since: Option<Instant>,
}

impl Wait {
    fn new() -> Wait {
        Wait { round: 0, since: None }
    }

    /// Waits a little; returns true now and then, for a look at who is waited for.
    fn once(&mut self) -> bool {
        self.round += 1;
        if self.round < SPINS {
            std::hint::spin_loop();
            return false;
        }
        std::thread::yield_now();
        let since = self.since.get_or_insert_with(Instant::now);
        let due = since.elapsed() > LOOK;
        if due {
            *since = Instant::now();
        }
        due
    }
}

/// An access's way through the gate: a slot of its own, if there is one left.
#[derive(Default)]
pub(super) struct Entrance {
    gate: Option<Arc<ElementGate>>,
    slot: Option<usize>,
    credit: Cell<u32>,
}

impl Entrance {
    /// Of a gate that all have joined.
    pub(super) fn new(gate: Option<&Arc<ElementGate>>) -> Entrance {
        let claim = |mask: u32| {
            let slot = mask.trailing_ones();
            ((slot as usize) < SLOTS).then(|| mask | 1 << slot)
        };
        let gate = gate.filter(|gate| gate.is_usable());
        let slot = gate.and_then(|gate| {
            let before =
                gate.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim).ok()?;
            Some(before.trailing_ones() as usize)
        });
        Entrance { gate: gate.map(Arc::clone), slot, credit: Cell::new(0) }
    }

    /// [`ElementGate::run`], if there is a gate; else with atomics.
    ///
    /// # Safety
    /// \[WORK\], \[VALID\], \[CELL\]; \[SHARED\]: all processes keep to it.
    pub(super) unsafe fn run(&self, work: &Work) {
        let Some(gate) = &self.gate else {
            // SAFETY: by the contract.
            return unsafe { work.run_atomic() };
        };
        let slot = self.slot.map(|slot| &gate.seat(gate.me).slots[slot]);
        // SAFETY: by the contract; the window's memory is mapped, as the elements
        // are.
        unsafe { gate.run(work, slot, &self.credit) };
    }

    /// What an inline change needs. Valid as long as the window's memory is mapped.
    pub(super) fn inline(&self) -> InlineGate {
        match (&self.gate, self.slot) {
            (Some(gate), Some(slot)) => InlineGate {
                base: gate.base,
                shift: gate.shift,
                locks: gate.locks,
                slot: &raw const gate.seat(gate.me).slots[slot],
                usable: true,
            },
            (gate, _) => InlineGate { usable: gate.is_none(), ..InlineGate::open() },
        }
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        if let (Some(gate), Some(slot)) = (&self.gate, self.slot) {
            gate.claimed.fetch_and(!(1 << slot), Ordering::AcqRel);
        }
    }
}

/// The way of single elements through a window's gate, for code that changes them
/// inline.
#[derive(Clone, Copy)]
pub struct InlineGate {
    base: *mut u8,
    shift: u32,
    /// Single elements may be changed inline at all.
    usable: bool,
    /// Null where there is no gate.
    locks: *const BiasedLock,
    slot: *const Slot,
}

impl std::fmt::Debug for InlineGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineGate").field("usable", &self.usable).finish_non_exhaustive()
    }
}

impl InlineGate {
    /// Without a gate: nobody changes elements otherwise than atomically.
    fn open() -> InlineGate {
        let (locks, slot) = (std::ptr::null(), std::ptr::null());
        InlineGate { base: std::ptr::null_mut(), shift: 0, usable: true, locks, slot }
    }

    /// Runs `change` on a few elements at `at`, which it changes by the processor's
    /// atomics alone; `None` where they must go by
    /// [`Access::accumulate`](super::Access::accumulate) and its like.
    ///
    /// # Safety
    /// The access that gave the gate lives on this thread, and its window; `at` is
    /// in the window's memory, as mapped here.
    #[inline(always)]
    pub unsafe fn enter<R>(&self, at: *mut u8, change: impl FnOnce() -> R) -> Option<R> {
        if self.locks.is_null() {
            return self.usable.then(change);
        }
        let number = (at.addr().wrapping_sub(self.base.addr()) >> self.shift) & (LOCKS - 1);
        // SAFETY: below `LOCKS`, and the memory stays with the window.
        let (lock, slot) = unsafe { (&*self.locks.add(number), &*self.slot) };
        if !lock.enter(slot, number as u32 + 1) {
            return None;
        }
        let result = change();
        slot.leave();
        Some(result)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
