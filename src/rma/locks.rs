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
//! Where all members of a window are on one node ([`NodeLocks`]), an exclusive lock
//! changes the rank's own word alone: each process counts beside the others' counts
//! the exclusive locks that it holds or tries to take, and looks at the global word
//! behind that; lock_all changes the global word and looks at the counts behind that.
//! One of two that meet sees the other, and steps back.
//!
//! Never waits: a failed attempt returns a holder.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering, compiler_fence, fence};

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

/// Stores before a change of a word are visible before what is loaded behind it.
#[inline(always)]
fn fence_behind_change() {
    // On x86 the change itself sees to that.
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The process that takes a lock.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    /// Its rank in the job; in the window, where that has members in other jobs.
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

    /// Changes a count of this process.
    #[inline(always)]
    fn add_to(self, count: &AtomicU16, by: i16) {
        if self.single_writer {
            count.store(count.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Release);
        } else {
            count.fetch_add(by as u16, Ordering::AcqRel);
        }
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
        holder.add_to(count, by);
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
            LockMode::Exclusive => {
                // While it is held nobody else changes it.
                words.lock.store(0, Ordering::Release);
                return;
            }
            LockMode::GlobalShared => words.global.fetch_sub(1, Ordering::AcqRel),
            LockMode::GlobalExclusive => words.global.fetch_sub(ONE_HIGH, Ordering::AcqRel),
        };
        self.add_holder(mode, holder, -1);
    }
}

/// The locks of a window whose members are all on this node and share its words.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLocks {
    /// The first member's words: who holds locks on all ranks.
    first: LockHandle,
    /// How many exclusive locks each process holds or tries to take, by node rank.
    exclusive: *const AtomicU16,
    node_size: u32,
    /// This process's node rank.
    me: u32,
}

/// Who may keep another from a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    /// By rank in the job; [`NO_RANK`] where none is known.
    Peer(u32),
    /// By rank on the node.
    OnNode(u32),
}

// SAFETY: all access is atomic, and the memory stays with the window.
unsafe impl Send for NodeLocks {}
// SAFETY: as above.
unsafe impl Sync for NodeLocks {}

impl NodeLocks {
    /// # Safety
    /// `node_size` counts at `exclusive`, zeroed before anybody used them, that stay
    /// while this is used; `me` is below that.
    pub(super) unsafe fn at(
        first: LockHandle,
        exclusive: *const AtomicU16,
        node_size: u32,
        me: u32,
    ) -> NodeLocks {
        NodeLocks { first, exclusive, node_size, me }
    }

    fn exclusive(&self, node_rank: u32) -> &AtomicU16 {
        // SAFETY: by the contract of `at`; callers pass ranks of the node.
        unsafe { &*self.exclusive.add(node_rank as usize) }
    }

    /// Takes an exclusive lock of `target`, or returns who may have kept it.
    #[inline(always)]
    pub(super) fn try_exclusive(
        &self,
        target: LockHandle,
        holder: Holder,
        look: u32,
    ) -> Result<(), u32> {
        // Counted before, as in `LockHandle::try_acquire`.
        holder.add_to(self.exclusive(self.me), 1);
        let word = &target.words().lock;
        let exchanged =
            word.compare_exchange(0, holder.word(), Ordering::AcqRel, Ordering::Acquire);
        fence_behind_change();
        // The other side: `try_all`.
        let all = self.first.words().global.load(Ordering::Acquire) & LOW;
        if exchanged.is_ok() && all == 0 {
            return Ok(());
        }
        Err(self.step_back(target, holder, exchanged, look))
    }

    /// Gives back what `try_exclusive` has of a lock that it does not get.
    #[cold]
    #[inline(never)]
    fn step_back(
        &self,
        target: LockHandle,
        holder: Holder,
        exchanged: Result<u64, u64>,
        look: u32,
    ) -> u32 {
        if exchanged.is_ok() {
            target.words().lock.store(0, Ordering::Release);
        }
        holder.add_to(self.exclusive(self.me), -1);
        match exchanged {
            Err(word) if word & LOW != 0 => (word & LOW) as u32 - 1,
            _ if look == 0 => NO_RANK,
            Err(_) => target.some_holder(holder.peer, look),
            Ok(_) => self.first.some_holder(holder.peer, look),
        }
    }

    /// Releases what [`NodeLocks::try_exclusive`] took.
    #[inline(always)]
    pub(super) fn release_exclusive(&self, target: LockHandle, holder: Holder) {
        target.release(LockMode::Exclusive, holder);
        holder.add_to(self.exclusive(self.me), -1);
    }

    /// Takes a shared lock on all ranks, or returns who may have kept it.
    pub(super) fn try_all(&self, holder: Holder, look: u32) -> Result<(), Blocker> {
        self.first.try_acquire(LockMode::GlobalShared, holder, look).map_err(Blocker::Peer)?;
        fence_behind_change();
        // The other side: `try_exclusive`.
        let holds = |&rank: &u32| self.exclusive(rank).load(Ordering::Acquire) != 0;
        let Some(rank) = (0..self.node_size).find(holds) else { return Ok(()) };
        self.release_all(holder);
        if look == 0 {
            return Err(Blocker::Peer(NO_RANK));
        }
        // Each look finds another one.
        let others: Vec<u32> = (0..self.node_size).filter(holds).collect();
        let number = look as usize % others.len().max(1);
        Err(Blocker::OnNode(others.get(number).copied().unwrap_or(rank)))
    }

    /// Releases what [`NodeLocks::try_all`] took.
    pub(super) fn release_all(&self, holder: Holder) {
        self.first.release(LockMode::GlobalShared, holder);
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
        let each = |lock: LockHandle, _: NodeLocks, two| {
            for mode in [LockMode::Shared, LockMode::GlobalShared, LockMode::GlobalExclusive] {
                let _ = lock.try_acquire(mode, two, 0).map(|()| lock.release(mode, two));
            }
        };
        for trial in 0..200 {
            killed_within(trial, each, |lock, _| {
                let words = lock.words();
                let held = [&words.lock, &words.global].map(|word| word.load(Ordering::Acquire));
                let known = lock.some_holder(5, 1);
                assert!(held == [0, 0] || known == 2, "{held:x?} is held by nobody known");
            });
        }
    }

    /// The same of a window whose members are all on one node.
    #[test]
    #[cfg_attr(miri, ignore = "forks")]
    fn no_lock_of_the_killed_on_a_node_is_without_a_name() {
        let each = |lock: LockHandle, locks: NodeLocks, two| {
            let _ = locks.try_exclusive(lock, two, 0).map(|()| locks.release_exclusive(lock, two));
            let _ = locks.try_all(two, 0).map(|()| locks.release_all(two));
            let shared = lock.try_acquire(LockMode::Shared, two, 0);
            let _ = shared.map(|()| lock.release(LockMode::Shared, two));
        };
        for trial in 0..200 {
            killed_within(trial, each, |lock, locks| {
                let five = Holder { peer: 5, single_writer: true };
                let locks = NodeLocks { me: 5, ..locks };
                match locks.try_exclusive(lock, five, 1) {
                    Ok(()) => locks.release_exclusive(lock, five),
                    Err(holder) => assert_eq!(holder, 2, "keeps an exclusive lock"),
                }
                match locks.try_all(five, 1) {
                    Ok(()) => locks.release_all(five),
                    Err(Blocker::Peer(holder) | Blocker::OnNode(holder)) => {
                        assert_eq!(holder, 2, "keeps a lock of all");
                    }
                }
            });
        }
    }

    /// Has process 2 do `each` again and again until it is killed, then has a look.
    fn killed_within(
        trial: u64,
        each: impl Fn(LockHandle, NodeLocks, Holder),
        look: impl FnOnce(LockHandle, NodeLocks),
    ) {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of zeros.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: a page of zeros; 6 counts fit behind the words, and 6 in the middle.
        let (lock, locks) = unsafe {
            let lock = LockHandle::at(start.cast(), 6);
            (lock, NodeLocks::at(lock, start.byte_add(2048).cast(), 6, 2))
        };
        // SAFETY: the child only changes the page until it is killed.
        let child = unsafe { libc::fork() };
        let two = Holder { peer: 2, single_writer: trial.is_multiple_of(2) };
        if child == 0 {
            // SAFETY: ends the child should this test end before it is killed.
            unsafe { libc::alarm(10) };
            loop {
                each(lock, locks, two);
            }
        }
        assert!(child > 0);
        std::thread::sleep(std::time::Duration::from_micros(500 + trial * 7));
        // SAFETY: a child of this test's; a null status is allowed.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        look(lock, locks);
        // SAFETY: mapped above, used no more.
        unsafe { libc::munmap(start, 4096) };
    }
}
