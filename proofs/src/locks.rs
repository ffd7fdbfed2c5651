//! A lock word and the counts behind it, by which those who wait find out that a
//! holder died: whatever step it died at, a word that is held has a holder who
//! can be named.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use loom::thread;

/// Shared holders, as `locks.rs` counts them, and what each process holds.
#[derive(Default)]
struct Words {
    holders: AtomicU64,
    counts: [AtomicU16; 2],
}

/// In which order a process takes a lock and says that it does.
#[derive(Clone, Copy)]
enum Order {
    CountFirst,
    WordFirst,
}

impl Words {
    fn add_holder(&self, me: usize, by: i16) {
        self.counts[me].fetch_add(by as u16, Ordering::AcqRel);
    }

    /// Takes and gives back, and dies after so many steps.
    fn live(&self, me: usize, order: Order, steps: usize) {
        let word = |by: i64| {
            self.holders.fetch_add(by as u64, Ordering::AcqRel);
        };
        let taken: [&dyn Fn(); 4] = match order {
            Order::CountFirst => {
                [&|| self.add_holder(me, 1), &|| word(1), &|| word(-1), &|| self.add_holder(me, -1)]
            }
            Order::WordFirst => {
                [&|| word(1), &|| self.add_holder(me, 1), &|| self.add_holder(me, -1), &|| word(-1)]
            }
        };
        taken.iter().take(steps).for_each(|step| step());
    }
}

/// Process 0 dies, process 1 lives and takes its turns; then somebody waits.
fn dies(order: Order, steps: usize) {
    loom::model(move || {
        let words = Arc::new(Words::default());
        let all = [(0, steps), (1, 4)].map(|(me, steps)| {
            let words = Arc::clone(&words);
            thread::spawn(move || words.live(me, order, steps))
        });
        // Whoever is seen to hold it and is not named is asked for again, so it
        // is what stays that counts.
        all.into_iter().for_each(|process| process.join().unwrap());
        let held = words.holders.load(Ordering::Acquire);
        let named = words.counts[0].load(Ordering::Acquire);
        assert_eq!(words.counts[1].load(Ordering::Acquire), 0);
        assert!(held == 0 || named > 0, "held by the dead, whom nobody can name");
    });
}

#[test]
fn a_dead_holder_is_named_whatever_step_it_died_at() {
    (0..=4).for_each(|steps| dies(Order::CountFirst, steps));
}

#[test]
#[should_panic(expected = "nobody can name")]
fn a_word_taken_before_its_holder_is_counted_is_found() {
    (0..=4).for_each(|steps| dies(Order::WordFirst, steps));
}
