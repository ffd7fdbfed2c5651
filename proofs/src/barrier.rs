//! The barrier of a fence whose members share words: nobody leaves before all have come,
//! with what each did before; also where one gives up on the way and comes again.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// log2 of three or four members, upwards.
const ROUNDS: u32 = 2;

/// What is done otherwise than in `src/rma/node_barrier.rs`, and must be found.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Members wait for the one before them alone.
    OneRound,
    /// What was done before is not told with a step.
    Relaxed,
    /// Who gave up takes its next steps behind those of then.
    StepsKept,
}

#[derive(Default)]
struct Shared {
    steps: [AtomicU32; 4],
    /// What each did before the barrier.
    data: [UnsafeCell<u32>; 4],
}

// SAFETY: the data is under test: loom says where it is not one side's.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// `NodeBarrier::meet`; false where this member gives up. It looks once: looks that
    /// find nothing change nothing, so that to look again is to look later.
    fn meet(&self, me: u32, n: u32, steps: &mut u32, fault: Fault) -> bool {
        let order = match fault {
            Fault::Relaxed => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        let begin = *steps;
        for round in 0..if fault == Fault::OneRound { 1 } else { ROUNDS } {
            let step = begin + round + 1;
            self.steps[me as usize].store(step, order);
            let from = (me + n - (1 << round)) % n;
            if self.steps[from as usize].load(Ordering::Acquire) < step {
                if fault == Fault::StepsKept {
                    *steps = step;
                }
                return false;
            }
        }
        *steps = begin + ROUNDS;
        true
    }
}

/// All come once, and look at what the others did.
fn all_come(fault: Fault) {
    // (Of the interleavings in which one gave up nothing is asked.)
    static LEFT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        let member = move |shared: &Shared, me: u32| {
            shared.data[me as usize].with_mut(|at| unsafe { *at = me + 1 });
            if !shared.meet(me, 3, &mut 0, fault) {
                return;
            }
            LEFT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            for (other, data) in (1..).zip(&shared.data[..3]) {
                assert_eq!(data.with(|at| unsafe { *at }), other, "it has not come");
            }
        };
        let others = [1, 2].map(|me| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || member(&shared, me))
        });
        member(&shared, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    assert_ne!(LEFT.load(std::sync::atomic::Ordering::Relaxed), 0, "nobody ever left");
}

/// Of four one never comes, another gives up, and tries again: nobody ever leaves.
fn one_is_dead(fault: Fault) {
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        shared.steps[3].store(1, Ordering::Release);
        let impatient = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut steps = 0;
                for _ in 0..2 {
                    assert!(!shared.meet(2, 4, &mut steps, fault), "one has not come");
                }
            })
        };
        assert!(!shared.meet(0, 4, &mut 0, fault), "one has not come");
        impatient.join().unwrap();
    });
}

#[test]
fn nobody_leaves_before_all_have_come() {
    all_come(Fault::None);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn one_round_is_too_few() {
    all_come(Fault::OneRound);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_step_tells_what_was_done() {
    all_come(Fault::Relaxed);
}

#[test]
fn the_next_try_does_not_count_for_the_first() {
    one_is_dead(Fault::None);
}

#[test]
#[should_panic(expected = "one has not come")]
fn steps_of_a_failed_one_do_not_count() {
    one_is_dead(Fault::StepsKept);
}
