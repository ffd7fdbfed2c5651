//! The two lock words of a region and the counts behind them: who excludes whom,
//! and that whatever step a holder died at, those who wait for it can name it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};
use loom::thread;
use std::cell::Cell;

const ONE_HIGH: u64 = 1 << 32;
const LOW: u64 = ONE_HIGH - 1;

/// As in `src/rma/locks.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Shared,
    Exclusive,
    GlobalShared,
    GlobalExclusive,
}

use Mode::{Exclusive, GlobalExclusive, GlobalShared, Shared};

/// The words, the counts of two processes and one that looks at the end, and what
/// the locks are for.
#[derive(Default)]
struct Words {
    lock: AtomicU64,
    global: AtomicU64,
    counts: [AtomicU16; 3],
    /// Exclusive locks that each holds or tries to take, where all are on one node.
    exclusive: [AtomicU16; 3],
    data: UnsafeCell<u32>,
}

// SAFETY: the data is under test: loom says where it is not one side's.
unsafe impl Sync for Words {}
// SAFETY: as above.
unsafe impl Send for Words {}

/// What a process does: `src/rma/epoch.rs`.
#[derive(Clone, Copy)]
enum Epoch {
    /// A shared lock of the rank.
    Shared,
    /// An exclusive one: of the rank, within one that excludes locks of all.
    Exclusive,
    /// `lock_all`.
    All,
}

/// How exclusive locks and locks of all exclude each other.
#[derive(Clone, Copy, PartialEq)]
enum Members {
    /// Both take the global word.
    Anywhere,
    /// Each looks at the other's: `NodeLocks` of `src/rma/locks.rs`.
    OnNode,
}

/// What is done otherwise than there, and must be found.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Its holder is counted when the word is taken already.
    WordFirst,
    /// An exclusive lock of the rank alone.
    NoGlobal,
    /// Where the rank's own lock is not to be had, that on all is kept.
    Kept,
    /// What the other has is looked at before one's own is there.
    LookFirst,
}

struct Process<'w> {
    words: &'w Words,
    me: usize,
    members: Members,
    fault: Fault,
    /// Steps until it is killed.
    left: Cell<u32>,
}

/// How a process that is killed goes on: not at all.
type Alive<T = ()> = Option<T>;

impl Process<'_> {
    fn step(&self) -> Alive {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(())
    }

    fn count(&self, mode: Mode, by: i16) -> Alive {
        if mode != Exclusive {
            self.add(&self.words.counts[self.me], by)?;
        }
        Some(())
    }

    fn add(&self, count: &AtomicU16, by: i16) -> Alive {
        self.step()?;
        // The first has no other thread that counts.
        if self.me == 0 {
            let more = count.load(Ordering::Relaxed).wrapping_add_signed(by);
            count.store(more, Ordering::Release);
        } else {
            count.fetch_add(by as u16, Ordering::AcqRel);
        }
        Some(())
    }

    /// `NodeLocks::try_exclusive`.
    fn try_exclusive(&self) -> Alive<bool> {
        let all = || self.words.global.load(Ordering::Acquire) & LOW;
        let early = (self.fault == Fault::LookFirst).then(all);
        self.add(&self.words.exclusive[self.me], 1)?;
        self.step()?;
        let (lock, mine) = (&self.words.lock, self.mine(Exclusive));
        let taken = lock.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire).is_ok();
        self.step()?;
        fence(Ordering::SeqCst);
        if taken && early.unwrap_or_else(all) == 0 {
            return Some(true);
        }
        if taken {
            self.step()?;
            lock.store(0, Ordering::Release);
        }
        self.add(&self.words.exclusive[self.me], -1)?;
        Some(false)
    }

    /// `NodeLocks::try_all`.
    fn try_all(&self) -> Alive<bool> {
        if !self.try_acquire(GlobalShared)? {
            return Some(false);
        }
        self.step()?;
        fence(Ordering::SeqCst);
        if self.words.exclusive.iter().all(|count| count.load(Ordering::Acquire) == 0) {
            return Some(true);
        }
        self.release(GlobalShared)?;
        Some(false)
    }

    fn word(&self, mode: Mode) -> &AtomicU64 {
        if matches!(mode, Shared | Exclusive) { &self.words.lock } else { &self.words.global }
    }

    /// What a mode adds to its word: for an exclusive lock, whose it is.
    fn mine(&self, mode: Mode) -> u64 {
        match mode {
            Shared | GlobalExclusive => ONE_HIGH,
            Exclusive => self.me as u64 + 1,
            GlobalShared => 1,
        }
    }

    fn try_acquire(&self, mode: Mode) -> Alive<bool> {
        if self.fault != Fault::WordFirst {
            self.count(mode, 1)?;
        }
        self.step()?;
        let free = |word: u64| match mode {
            Shared | GlobalExclusive => word & LOW == 0,
            Exclusive => word == 0,
            GlobalShared => word < ONE_HIGH,
        };
        let more = |word| free(word).then(|| word + self.mine(mode));
        let acquired =
            self.word(mode).fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok();
        match (self.fault, acquired) {
            (Fault::WordFirst, true) => self.count(mode, 1)?,
            (Fault::WordFirst, false) | (_, true) => {}
            (_, false) => self.count(mode, -1)?,
        }
        Some(acquired)
    }

    fn release(&self, mode: Mode) -> Alive {
        self.step()?;
        if mode == Exclusive {
            self.words.lock.store(0, Ordering::Release);
            return Some(());
        }
        self.word(mode).fetch_sub(self.mine(mode), Ordering::AcqRel);
        self.count(mode, -1)
    }

    /// One epoch, if its locks are free.
    fn live(&self, epoch: Epoch) -> Alive {
        // SAFETY: under a lock: loom says where it is not.
        let read = || self.words.data.with(|data| unsafe { *data });
        match epoch {
            Epoch::All if self.members == Members::OnNode => {
                if self.try_all()? {
                    read();
                    self.release(GlobalShared)?;
                }
            }
            Epoch::Exclusive if self.members == Members::OnNode => {
                if self.try_exclusive()? {
                    // SAFETY: as above.
                    self.words.data.with_mut(|data| unsafe { *data += 1 });
                    self.release(Exclusive)?;
                    self.add(&self.words.exclusive[self.me], -1)?;
                }
            }
            Epoch::Shared | Epoch::All => {
                let mode = if matches!(epoch, Epoch::All) { GlobalShared } else { Shared };
                if self.try_acquire(mode)? {
                    read();
                    self.release(mode)?;
                }
            }
            Epoch::Exclusive => {
                let global = self.fault != Fault::NoGlobal;
                if global && !self.try_acquire(GlobalExclusive)? {
                    return Some(());
                }
                if self.try_acquire(Exclusive)? {
                    // SAFETY: as above.
                    self.words.data.with_mut(|data| unsafe { *data += 1 });
                    self.release(Exclusive)?;
                } else if self.fault == Fault::Kept {
                    return Some(());
                }
                if global {
                    self.release(GlobalExclusive)?;
                }
            }
        }
        Some(())
    }

    /// Who is known to hold what this one could not get.
    fn holder(&self, mode: Mode) -> Option<usize> {
        let exclusive = self.words.lock.load(Ordering::Acquire) & LOW;
        if matches!(mode, Shared | Exclusive) && exclusive != 0 {
            return Some(exclusive as usize - 1);
        }
        let counts = self.words.counts.iter().chain(&self.words.exclusive);
        counts.map(|count| count.load(Ordering::Acquire)).position(|n| n > 0).map(|at| at % 3)
    }

    /// Wants each lock at the end: each is got, or its holder is known.
    fn want_each(&self) -> Vec<(Mode, Option<bool>)> {
        let modes = match self.members {
            Members::Anywhere => &[Shared, Exclusive, GlobalShared, GlobalExclusive][..],
            Members::OnNode => &[Shared, Exclusive, GlobalShared],
        };
        let want = |&mode: &Mode| {
            let got = match (self.members, mode) {
                (Members::OnNode, Exclusive) => self.try_exclusive(),
                (Members::OnNode, GlobalShared) => self.try_all(),
                _ => self.try_acquire(mode),
            };
            if got == Some(true) {
                self.release(mode);
                if (self.members, mode) == (Members::OnNode, Exclusive) {
                    self.add(&self.words.exclusive[self.me], -1);
                }
            }
            (mode, got)
        };
        modes.iter().map(want).collect()
    }
}

const ALL: u32 = 100;

/// Process 0 is killed after some steps, process 1 lives; then somebody wants each
/// lock, and gets it or is told of process 0. (While they go on, who is seen to hold
/// it and is not named is asked for again: it is what stays that counts.)
fn play(members: Members, epochs: [Epoch; 2], steps: u32, fault: Fault) {
    loom::model(move || {
        let words = Arc::new(Words::default());
        let all = [(0, steps), (1, ALL)].map(|(me, steps)| {
            let words = Arc::clone(&words);
            let epoch = epochs[me];
            thread::spawn(move || {
                let left = Cell::new(steps);
                Process { words: &words, me, members, fault, left }.live(epoch);
            })
        });
        all.into_iter().for_each(|process| process.join().unwrap());
        let left = Cell::new(ALL);
        let last = Process { words: &words, me: 2, members, fault: Fault::None, left };
        for (mode, got) in last.want_each() {
            if got != Some(true) {
                assert!(steps < ALL, "held by nobody");
                assert_eq!(last.holder(mode), Some(0), "held by the dead, whom nobody can name");
            }
        }
        assert_eq!(words.counts[1].load(Ordering::Acquire), 0, "counted for the living");
        assert_eq!(words.exclusive[1].load(Ordering::Acquire), 0, "counted for the living");
    });
}

/// Every two epochs, the first process killed at each of its steps.
fn all_pairs(members: Members, fault: Fault) {
    for first in [Epoch::Shared, Epoch::Exclusive, Epoch::All] {
        for second in [Epoch::Shared, Epoch::Exclusive, Epoch::All] {
            (0..=7).chain([ALL]).for_each(|steps| play(members, [first, second], steps, fault));
        }
    }
}

#[test]
fn locks_exclude_each_other_and_a_dead_holder_is_named_whatever_step_it_died_at() {
    all_pairs(Members::Anywhere, Fault::None);
}

#[test]
fn locks_of_one_node_exclude_each_other_and_a_dead_holder_is_named() {
    all_pairs(Members::OnNode, Fault::None);
}

#[test]
#[should_panic(expected = "nobody can name")]
fn a_word_taken_before_its_holder_is_counted_is_found() {
    all_pairs(Members::Anywhere, Fault::WordFirst);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_exclusive_lock_beside_locks_of_all_is_found() {
    play(Members::Anywhere, [Epoch::Exclusive, Epoch::All], ALL, Fault::NoGlobal);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_look_at_locks_of_all_before_the_own_is_there_is_found() {
    play(Members::OnNode, [Epoch::Exclusive, Epoch::All], ALL, Fault::LookFirst);
}

#[test]
#[should_panic(expected = "held by nobody")]
fn a_lock_of_all_kept_for_one_that_was_not_to_be_had_is_found() {
    play(Members::Anywhere, [Epoch::Shared, Epoch::Exclusive], ALL, Fault::Kept);
}
