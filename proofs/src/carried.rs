//! A ring that several processes receive from in turns, and the lock of elements: nothing
//! is carried out twice or never, elements lose nothing, and a holder that was killed stops
//! nobody for good.

use crate::lock_word::LockWord;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// What is done otherwise than in the library, and must be found.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Elements are changed with the role of the receiver alone.
    NoLock,
    /// The role is given back before its place is written.
    RoleFirst,
}

/// `Received` of `ring.rs`, with the packets: so many, each adding one.
struct Ring {
    role: AtomicU32,
    place: AtomicU32,
    packets: u32,
}

/// A target: rings of two origins, its lock, an element.
struct Target {
    rings: [Ring; 2],
    lock: LockWord,
    element: UnsafeCell<u32>,
}

// SAFETY: the element is under test: loom says where it is not one side's.
unsafe impl Sync for Target {}
// SAFETY: as above.
unsafe impl Send for Target {}

impl Target {
    fn new(packets: [u32; 2]) -> Target {
        let ring = |packets| Ring { role: AtomicU32::new(0), place: AtomicU32::new(0), packets };
        Target {
            rings: packets.map(ring),
            lock: LockWord::default(),
            element: UnsafeCell::new(0),
        }
    }

    /// Reads and writes the element, as the target does in place and an origin by copies.
    fn add(&self, me: u64) {
        while self.lock.try_take(me).is_err() {
            thread::yield_now();
        }
        self.change();
        self.lock.give_back();
    }

    fn change(&self) {
        // SAFETY: the lock is held, or loom says so.
        self.element.with_mut(|element| unsafe { *element += 1 });
    }

    /// Carries out what is in a ring, if nobody else is at it: `serve` of the target,
    /// `carry_out` of the origin.
    fn carry_out(&self, ring: &Ring, me: u32, fault: Fault) {
        if ring.role.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let from = ring.place.load(Ordering::Relaxed);
        for _ in from..ring.packets {
            match fault {
                Fault::NoLock => self.change(),
                _ => self.add(u64::from(me)),
            }
        }
        if fault == Fault::RoleFirst {
            ring.role.store(0, Ordering::Release);
        }
        ring.place.store(ring.packets, Ordering::Relaxed);
        ring.role.store(0, Ordering::Release);
    }
}

/// Two origins and the target, which all carry out what they find.
fn three(fault: Fault) {
    let target = Arc::new(Target::new([1, 1]));
    let origins: Vec<_> = (0..2)
        .map(|i| {
            let target = Arc::clone(&target);
            thread::spawn(move || target.carry_out(&target.rings[i], 2 + i as u32, fault))
        })
        .collect();
    for ring in &target.rings {
        target.carry_out(ring, 1, fault);
    }
    origins.into_iter().for_each(|origin| origin.join().unwrap());
    // SAFETY: nobody else is there any more.
    target.element.with(|element| assert_eq!(unsafe { *element }, 2));
}

#[test]
fn each_is_carried_out_once() {
    loom::model(|| three(Fault::None));
}

#[test]
#[should_panic]
fn without_the_lock_elements_are_lost() {
    loom::model(|| three(Fault::NoLock));
}

#[test]
#[should_panic]
fn a_role_given_back_early_is_found() {
    loom::model(|| three(Fault::RoleFirst));
}

/// Two find a holder that has ended: one of them takes its place at a time.
#[test]
fn a_holder_that_has_ended() {
    const ENDED: u64 = 7;
    loom::model(|| {
        let target = Arc::new(Target::new([0, 0]));
        target.lock.try_take(ENDED).unwrap();
        let add = |target: &Target, me: u64| {
            while let Err(holder) = target.lock.try_take(me) {
                if holder == ENDED && target.lock.take_over(holder, me).is_ok() {
                    break;
                }
                thread::yield_now();
            }
            target.change();
            target.lock.give_back();
        };
        let theirs = Arc::clone(&target);
        let other = thread::spawn(move || add(&theirs, 2));
        add(&target, 1);
        other.join().unwrap();
        // SAFETY: nobody else is there any more.
        target.element.with(|element| assert_eq!(unsafe { *element }, 2));
    });
}
