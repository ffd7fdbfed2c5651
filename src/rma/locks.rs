//! The words in memory that say who holds which lock on a window.
//!
//! Each region of a window has two: a local one for locks of its rank, and a
//! global one, of which only the first member's is used, where lock_all and
//! exclusive locks exclude each other (Gerstenberger et al. 2013, *Enabling
//! Highly-Scalable Remote Memory Access Programming with MPI-3 One Sided*).
//! lock_all is then one operation, whatever the number of ranks, and costs
//! puts nothing. Behind the words stands a count for each process of the job,
//! by which those who wait find out that a holder died.
//!
//! Never waits: a failed attempt returns a holder.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// Which word a lock takes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LockMode {
    /// A shared lock on one rank.
    Shared,
    /// An exclusive lock on one rank.
    Exclusive,
    /// Global word: a shared lock on all ranks.
    GlobalShared,
    /// Global word: an exclusive lock on some rank, which excludes shared locks
    /// on all ranks.
    GlobalExclusive,
}

impl LockMode {
    pub(super) fn from_number(n: u64) -> Option<LockMode> {
        [LockMode::Shared, LockMode::Exclusive, LockMode::GlobalShared, LockMode::GlobalExclusive]
            .get(n as usize)
            .copied()
    }
}

/// The lock words of one region.
#[repr(C, align(64))]
pub(super) struct LockWords {
    /// Low half: exclusive holder's world rank + 1; high half: shared holders.
    lock: AtomicU64,
    /// Low half: holders of all; high half: exclusive holders of any rank.
    global: AtomicU64,
}

impl LockWords {
    /// Bytes of the words and the counts behind them, in a job of `job_size`.
    pub(super) const fn bytes(job_size: u32) -> usize {
        (size_of::<LockWords>() + job_size as usize * size_of::<AtomicU16>()).next_multiple_of(64)
    }
}

/// No rank, or none that is known.
pub(super) const NO_RANK: u32 = u32::MAX;

const ONE_HIGH: u64 = 1 << 32;
const LOW: u64 = ONE_HIGH - 1;

/// The process that takes a lock.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    /// Its rank in the job.
    pub(super) peer: u32,
    /// No other thread changes this process's count meanwhile, so that a plain
    /// store will do.
    pub(super) single_writer: bool,
}

impl Holder {
    /// The word of a rank that it has locked exclusively.
    fn word(self) -> u64 {
        u64::from(self.peer) + 1
    }
}

/// The address of a region's lock words.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockHandle {
    words: *const LockWords,
    job_size: u32,
}

// SAFETY: all access is atomic, and the memory stays with the window.
unsafe impl Send for LockHandle {}
// SAFETY: as above.
unsafe impl Sync for LockHandle {}

impl LockHandle {
    /// # Safety
    /// [`LockWords::bytes`] of memory at `start`, zeroed before anybody used it
    /// and a multiple of 64, that stay while the handle is used.
    pub(super) unsafe fn at(start: *mut u8, job_size: u32) -> LockHandle {
        LockHandle { words: start.cast(), job_size }
    }

    fn words(&self) -> &LockWords {
        // SAFETY: by the contract of `at`.
        unsafe { &*self.words }
    }

    fn count(&self, peer: u32) -> Option<&AtomicU16> {
        // SAFETY: behind the words stands a count for each process.
        (peer < self.job_size)
            .then(|| unsafe { &*self.words.add(1).cast::<AtomicU16>().add(peer as usize) })
    }

    /// Counts what `holder` holds. An exclusive lock of one rank needs none: its
    /// word names who has it.
    #[inline]
    fn add_holder(&self, mode: LockMode, holder: Holder, by: i16) {
        let Some(count) = self.count(holder.peer).filter(|_| mode != LockMode::Exclusive) else {
            return;
        };
        if holder.single_writer {
            count.store(count.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Release);
        } else {
            count.fetch_add(by as u16, Ordering::AcqRel);
        }
    }

    /// Takes a lock, or returns a holder: [`NO_RANK`] where none is known.
    /// Shared holders are searched only when `look` is not 0; each number finds
    /// another one.
    #[inline]
    pub(super) fn try_acquire(&self, mode: LockMode, holder: Holder, look: u32) -> Result<(), u32> {
        let words = self.words();
        let exclusive = holder.word();
        let (word, mine): (_, fn(u64, u64) -> Option<u64>) = match mode {
            LockMode::Shared => (&words.lock, |w, _| (w & LOW == 0).then(|| w + ONE_HIGH)),
            LockMode::Exclusive => (&words.lock, |w, exclusive| (w == 0).then_some(exclusive)),
            LockMode::GlobalShared => (&words.global, |w, _| (w < ONE_HIGH).then(|| w + 1)),
            LockMode::GlobalExclusive => {
                (&words.global, |w, _| (w & LOW == 0).then(|| w + ONE_HIGH))
            }
        };
        // Counted before: a process that is killed in between leaves a count too
        // many, never a lock without a count.
        self.add_holder(mode, holder, 1);
        let acquired =
            word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |w| mine(w, exclusive));
        if acquired.is_err() {
            self.add_holder(mode, holder, -1);
        }
        match acquired {
            Ok(_) => Ok(()),
            Err(w) if matches!(mode, LockMode::Shared | LockMode::Exclusive) && w & LOW != 0 => {
                Err((w & LOW) as u32 - 1)
            }
            Err(_) if look == 0 => Err(NO_RANK),
            Err(_) => Err(self.some_holder(holder.peer, look)),
        }
    }

    /// One of the processes whose count is not zero.
    #[cold]
    fn some_holder(&self, me: u32, look: u32) -> u32 {
        let holds = |peer: &u32| {
            *peer != me && self.count(*peer).is_some_and(|c| c.load(Ordering::Acquire) > 0)
        };
        let holders = || (0..self.job_size).filter(holds);
        let number = holders().count();
        holders().nth(look as usize % number.max(1)).unwrap_or(NO_RANK)
    }

    /// Releases what [`LockHandle::try_acquire`] took.
    #[inline]
    pub(super) fn release(&self, mode: LockMode, holder: Holder) {
        let words = self.words();
        match mode {
            LockMode::Shared => words.lock.fetch_sub(ONE_HIGH, Ordering::AcqRel),
            LockMode::Exclusive => words.lock.fetch_sub(holder.word(), Ordering::AcqRel),
            LockMode::GlobalShared => words.global.fetch_sub(1, Ordering::AcqRel),
            LockMode::GlobalExclusive => words.global.fetch_sub(ONE_HIGH, Ordering::AcqRel),
        };
        self.add_holder(mode, holder, -1);
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
        let lock = unsafe { LockHandle::at(start.add(start.align_offset(64)), 6) };
        let [two, five] = [2, 5].map(|peer| Holder { peer, single_writer: peer == 5 });
        let free =
            |mode| lock.try_acquire(mode, five, 0).map(|()| lock.release(mode, five)).is_ok();
        use LockMode::{Exclusive, GlobalExclusive, GlobalShared, Shared};
        for (held, excluded) in [
            (Shared, vec![Exclusive]),
            (Exclusive, vec![Shared, Exclusive]),
            (GlobalShared, vec![GlobalExclusive]),
            (GlobalExclusive, vec![GlobalShared]),
        ] {
            assert_eq!(lock.try_acquire(held, two, 0), Ok(()));
            for mode in [Shared, Exclusive, GlobalShared, GlobalExclusive] {
                assert_eq!(free(mode), !excluded.contains(&mode), "{mode:?} beside {held:?}");
            }
            for mode in excluded {
                assert_eq!(lock.try_acquire(mode, five, 1), Err(2), "{mode:?} beside {held:?}");
            }
            lock.release(held, two);
            assert!([Shared, Exclusive, GlobalShared, GlobalExclusive].into_iter().all(free));
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
            let lock = unsafe { LockHandle::at(start.cast(), 6) };
            // SAFETY: the child only changes the page until it is killed.
            let child = unsafe { libc::fork() };
            let two = Holder { peer: 2, single_writer: trial % 2 == 0 };
            if child == 0 {
                // SAFETY: ends the child should this test end before it is killed.
                unsafe { libc::alarm(10) };
                loop {
                    for mode in
                        [LockMode::Shared, LockMode::GlobalShared, LockMode::GlobalExclusive]
                    {
                        let _ = lock.try_acquire(mode, two, 0).map(|()| lock.release(mode, two));
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
            let words = lock.words();
            let held = [&words.lock, &words.global].map(|word| word.load(Ordering::Acquire));
            let known = lock.some_holder(5, 1);
            assert!(held == [0, 0] || known == 2, "{held:x?} is held by nobody known");
            // SAFETY: mapped above, used no more.
            unsafe { libc::munmap(start, 4096) };
        }
    }
}
