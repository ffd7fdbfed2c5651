//! Elements of a window under `src/shm/biased_lock.rs`: short changes, which take no
//! lock while it is open, and long ones, which must be alone, as
//! `src/rma/element_gate.rs` makes them; and one who dies with the lock.

use crate::biased_lock::{Acquired, BiasedLock, Count, Slot, revoke};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// The one stretch of memory.
const NAME: u32 = 1;

/// What is done otherwise than there, and must be found.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Who closes the lock raises no barrier.
    NoBarrier,
    /// Nor waits for those who are within.
    NoWait,
}

#[derive(Default)]
struct Segment {
    lock: BiasedLock,
    /// By process.
    slots: [Slot; 3],
    count: Count,
    dead: [AtomicBool; 3],
    elements: UnsafeCell<u32>,
}

// SAFETY: the elements are under test: loom says where they are not one side's.
unsafe impl Sync for Segment {}
// SAFETY: as above.
unsafe impl Send for Segment {}

impl Segment {
    fn change(&self) {
        // SAFETY: loom says where it is not alone.
        self.elements.with_mut(|elements| unsafe { *elements += 1 });
    }

    fn acquire(&self, me: u32, fault: Fault) {
        let mut dead = None;
        loop {
            match self.lock.try_acquire(me, dead) {
                Acquired::Alone => return,
                Acquired::AfterSlots => break,
                Acquired::HeldBy(holder) => {
                    let died = self.dead[holder as usize].load(Ordering::Acquire);
                    dead = died.then_some(holder);
                    thread::yield_now();
                }
            }
        }
        if fault != Fault::NoBarrier {
            assert!(revoke(|| true));
        }
        if fault != Fault::NoWait {
            let clear = || self.slots.iter().all(|slot| slot.is_clear_of(NAME));
            while !clear() || !self.count.is_clear() {
                thread::yield_now();
            }
        }
    }

    fn short(&self, me: u32, counted: bool) {
        let slot = &self.slots[me as usize];
        let entered = match counted {
            true => self.lock.enter_counted(&self.count),
            false => self.lock.enter(slot, NAME),
        };
        if entered {
            self.change();
            if counted { self.count.leave() } else { slot.leave() }
        } else {
            self.acquire(me, Fault::None);
            self.change();
            self.lock.release(Some(1));
        }
    }

    fn long(&self, me: u32, fault: Fault) {
        self.acquire(me, fault);
        self.change();
        self.lock.release(None);
    }
}

fn play(first: fn(&Segment), second: fn(&Segment)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let segment = Arc::new(Segment::default());
        let there = Arc::clone(&segment);
        let other = thread::spawn(move || second(&there));
        first(&segment);
        other.join().unwrap();
        // Whoever comes last finds what the others did.
        segment.long(2, Fault::None);
    });
}

#[test]
fn long_changes_are_alone() {
    play(|s| s.short(0, false), |s| s.long(1, Fault::None));
    play(|s| s.short(0, true), |s| s.long(1, Fault::None));
    play(|s| s.long(0, Fault::None), |s| s.long(1, Fault::None));
}

#[test]
fn a_lock_that_was_opened_again_is_closed_again() {
    let often = |s: &Segment| {
        s.long(0, Fault::None);
        s.short(0, false);
        s.short(0, false);
    };
    play(often, |s| s.long(1, Fault::None));
}

#[test]
fn whose_holder_died_is_taken_when_those_within_have_left() {
    let dies = |s: &Segment| {
        if s.lock.try_acquire(0, None) != Acquired::HeldBy(1) {
            s.dead[0].store(true, Ordering::Release);
        }
    };
    play(dies, |s| {
        s.short(1, false);
        s.long(1, Fault::None);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_lock_closed_without_a_barrier_is_found() {
    play(|s| s.short(0, false), |s| s.long(1, Fault::NoBarrier));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_lock_closed_without_a_wait_is_found() {
    play(|s| s.short(0, false), |s| s.long(1, Fault::NoWait));
}
