//! The words in memory that say who holds which lock on a window.
//!
//! Each region of a window has two: one for locks of this rank alone, and one
//! that only the window's first member's is used of, where lock_all and
//! exclusive locks exclude each other (Gerstenberger et al. 2013, *Enabling
//! Highly-Scalable Remote Memory Access Programming with MPI-3 One Sided*).
//! lock_all is then one operation, whatever the number of ranks, and costs
//! puts nothing. Behind the words stands a count for each process of the job,
//! so that those who wait find out whether somebody died with a lock.
//!
//! Never waits: who does not get a lock is told who has it.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Want {
    /// A shared lock on one rank.
    Shared,
    /// An exclusive lock on one rank.
    Exclusive,
    /// Of the first member: shared locks on all ranks.
    All,
    /// Of the first member: that nobody has shared locks on all ranks.
    Alone,
}

impl Want {
    pub(super) fn from_number(n: u64) -> Option<Want> {
        [Want::Shared, Want::Exclusive, Want::All, Want::Alone].get(n as usize).copied()
    }
}

/// The words of one region.
#[repr(C, align(64))]
pub(super) struct Words {
    /// Low half: exclusive holder's world rank + 1; high half: shared holders.
    lock: AtomicU64,
    /// Low half: holders of all; high half: exclusive holders of any rank.
    global: AtomicU64,
}

impl Words {
    /// Bytes of the words and the counts behind them, in a job of `world`.
    pub(super) const fn bytes(world: u32) -> usize {
        (size_of::<Words>() + world as usize * size_of::<AtomicU16>()).next_multiple_of(64)
    }
}

/// Nobody that is known.
pub(super) const NOBODY: u32 = u32::MAX;

const ONE_HIGH: u64 = 1 << 32;
const LOW: u64 = ONE_HIGH - 1;

/// Who takes a lock.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    /// Its rank in the job.
    pub(super) world: u32,
    /// No other thread counts for this process meanwhile.
    pub(super) alone: bool,
}

impl Holder {
    /// What stands in the word of a rank it has locked exclusively.
    fn word(self) -> u64 {
        u64::from(self.world) + 1
    }
}

/// Where a region's words are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    words: *const Words,
    world: u32,
}

// SAFETY: all access is atomic, and the memory stays with the window.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// # Safety
    /// [`Words::bytes`] of memory at `start`, zeroed before anybody used it and
    /// a multiple of 64, that stay while the control is used.
    pub(super) unsafe fn at(start: *mut u8, world: u32) -> Control {
        Control { words: start.cast(), world }
    }

    fn words(&self) -> &Words {
        // SAFETY: by the contract of `at`.
        unsafe { &*self.words }
    }

    fn count(&self, world: u32) -> Option<&AtomicU16> {
        // SAFETY: behind the words stands a count for each process.
        (world < self.world)
            .then(|| unsafe { &*self.words.add(1).cast::<AtomicU16>().add(world as usize) })
    }

    /// Counts what `holder` holds. An exclusive lock of one rank needs none: its
    /// word names who has it.
    #[inline]
    fn add_holder(&self, want: Want, holder: Holder, by: i16) {
        let Some(count) = self.count(holder.world).filter(|_| want != Want::Exclusive) else {
            return;
        };
        if holder.alone {
            count.store(count.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Release);
        } else {
            count.fetch_add(by as u16, Ordering::AcqRel);
        }
    }

    /// Takes a lock, or says who has it: [`NOBODY`] where that is not known.
    /// Shared holders are only looked for when `look` is not 0, with each number
    /// another one.
    #[inline]
    pub(super) fn take(&self, want: Want, holder: Holder, look: u32) -> Result<(), u32> {
        let words = self.words();
        let alone = holder.word();
        let (word, mine): (_, fn(u64, u64) -> Option<u64>) = match want {
            Want::Shared => (&words.lock, |w, _| (w & LOW == 0).then(|| w + ONE_HIGH)),
            Want::Exclusive => (&words.lock, |w, alone| (w == 0).then_some(alone)),
            Want::All => (&words.global, |w, _| (w < ONE_HIGH).then(|| w + 1)),
            Want::Alone => (&words.global, |w, _| (w & LOW == 0).then(|| w + ONE_HIGH)),
        };
        // Counted before: whoever is killed in between leaves a name too many, and
        // never a lock without one.
        self.add_holder(want, holder, 1);
        let taken = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |w| mine(w, alone));
        if taken.is_err() {
            self.add_holder(want, holder, -1);
        }
        match taken {
            Ok(_) => Ok(()),
            Err(w) if matches!(want, Want::Shared | Want::Exclusive) && w & LOW != 0 => {
                Err((w & LOW) as u32 - 1)
            }
            Err(_) if look == 0 => Err(NOBODY),
            Err(_) => Err(self.some_holder(holder.world, look)),
        }
    }

    /// One of those that hold something here.
    #[cold]
    fn some_holder(&self, me: u32, look: u32) -> u32 {
        let holds = |world: &u32| {
            *world != me && self.count(*world).is_some_and(|c| c.load(Ordering::Acquire) > 0)
        };
        let holders = || (0..self.world).filter(holds);
        let number = holders().count();
        holders().nth(look as usize % number.max(1)).unwrap_or(NOBODY)
    }

    /// Gives back what [`Control::take`] took.
    #[inline]
    pub(super) fn give(&self, want: Want, holder: Holder) {
        let words = self.words();
        match want {
            Want::Shared => words.lock.fetch_sub(ONE_HIGH, Ordering::AcqRel),
            Want::Exclusive => words.lock.fetch_sub(holder.word(), Ordering::AcqRel),
            Want::All => words.global.fetch_sub(1, Ordering::AcqRel),
            Want::Alone => words.global.fetch_sub(ONE_HIGH, Ordering::AcqRel),
        };
        self.add_holder(want, holder, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_excludes_whom() {
        let mut memory = [0_u128; 8];
        let memory: &mut [u128] = &mut memory;
        let start = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: 64 of the 128 bytes start at a multiple of 64, zeroed; only
        // the words and six counts are used.
        let control = unsafe { Control::at(start.add(start.align_offset(64)), 6) };
        let [two, five] = [2, 5].map(|world| Holder { world, alone: world == 5 });
        let free = |want| control.take(want, five, 0).map(|()| control.give(want, five)).is_ok();
        use Want::{All, Alone, Exclusive, Shared};
        for (held, excluded) in [
            (Shared, vec![Exclusive]),
            (Exclusive, vec![Shared, Exclusive]),
            (All, vec![Alone]),
            (Alone, vec![All]),
        ] {
            assert_eq!(control.take(held, two, 0), Ok(()));
            for want in [Shared, Exclusive, All, Alone] {
                assert_eq!(free(want), !excluded.contains(&want), "{want:?} beside {held:?}");
            }
            for want in excluded {
                assert_eq!(control.take(want, five, 1), Err(2), "{want:?} beside {held:?}");
            }
            control.give(held, two);
            assert!([Shared, Exclusive, All, Alone].into_iter().all(free));
        }
    }

    /// Whoever is killed, wherever in here: what it holds has its name on it.
    #[test]
    #[cfg_attr(miri, ignore = "forks")]
    fn no_lock_of_the_killed_is_without_a_name() {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        for trial in 0..200 {
            // SAFETY: a new mapping, of zeros.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: a page of zeros; 6 counts fit.
            let control = unsafe { Control::at(start.cast(), 6) };
            // SAFETY: the child only changes the page until it is killed.
            let child = unsafe { libc::fork() };
            let two = Holder { world: 2, alone: trial % 2 == 0 };
            if child == 0 {
                // SAFETY: ends the child should this test end before it is killed.
                unsafe { libc::alarm(10) };
                loop {
                    for want in [Want::Shared, Want::All, Want::Alone] {
                        let _ = control.take(want, two, 0).map(|()| control.give(want, two));
                    }
                }
            }
            assert!(child > 0);
            std::thread::sleep(std::time::Duration::from_micros(500 + trial * 7));
            // SAFETY: a child of this test's; a null status is allowed.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            let words = control.words();
            let held = [&words.lock, &words.global].map(|word| word.load(Ordering::Acquire));
            let known = control.some_holder(5, 1);
            assert!(held == [0, 0] || known == 2, "{held:x?} is held by nobody known");
            // SAFETY: mapped above, used no more.
            unsafe { libc::munmap(start, 4096) };
        }
    }
}
