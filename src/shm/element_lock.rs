//! The lock under which the elements of a process's memory are changed: one word in
//! memory that its peers map, too.
//!
//! Held for as long as it takes to carry out some operations, never across a call of
//! anybody else's; a holder that has ended is found, and its place taken.

use super::lock_word::LockWord;
use super::segment::Segment;
use crate::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process of this machine, as lock words have it: its number, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(u64);

impl Holder {
    /// The calling process.
    pub(crate) fn current() -> Holder {
        let pid = std::process::id();
        // (Peers see what this process sees: none of them attaches from elsewhere.)
        let began = began(pid).filter(|_| process::proc_knows(pid)).unwrap_or(0);
        Holder(u64::from(pid) | began << 32)
    }

    /// One that another process has written down ([`Holder::bits`]).
    pub(crate) fn from_bits(bits: u64) -> Holder {
        Holder(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn pid(self) -> u32 {
        self.0 as u32
    }

    /// Returns true if the process is no more.
    pub(crate) fn has_ended(self) -> bool {
        let (pid, start) = (self.pid(), self.0 >> 32);
        process::ended(pid) || (start != 0 && began(pid).is_some_and(|now| now != start))
    }
}

/// Half of a process's start time, if known.
fn began(pid: u32) -> Option<u64> {
    process::start_time(pid).map(|time| u64::from(time as u32))
}

/// A process's lock, as another or itself takes it.
#[derive(Clone, Debug)]
pub struct ElementLock {
    /// Begins with the word.
    segment: Arc<Segment>,
    me: Holder,
}

/// The lock held; given back when dropped.
#[must_use]
pub(crate) struct Held<'a>(&'a LockWord);

impl ElementLock {
    /// The lock whose word the segment begins with.
    ///
    /// # Safety
    /// The segment's first word was zero when it was made, and only this type changes it.
    pub(crate) unsafe fn new(segment: Arc<Segment>, me: Holder) -> ElementLock {
        ElementLock { segment, me }
    }

    fn word(&self) -> &LockWord {
        // SAFETY: mapped as long as the segment; aligned, as a page is.
        unsafe { &*self.segment.start().cast::<LockWord>() }
    }

    /// Writes to the page of the lock, if to nothing else there: its first touch is a
    /// fault.
    pub(crate) fn touch(&self) {
        let word = self.word();
        if word.try_take(self.me.0).is_ok() {
            word.give_back();
        }
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_> {
        let word = self.word();
        if word.try_take(self.me.0).is_err() {
            self.wait();
        }
        Held(word)
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        /// Longer than anybody has it whom nothing has stopped.
        const LATE: Duration = Duration::from_millis(1);
        const SPINS: u32 = 100;
        let (word, me) = (self.word(), self.me);
        let mut since = Instant::now();
        for spins in 1_u32.. {
            let Err(holder) = word.try_take(me.0) else { return };
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            if since.elapsed() > LATE {
                // (Another thread of this process lives.)
                let of_another = Holder(holder) != me;
                if of_another && Holder(holder).has_ended() && word.take_over(holder, me.0).is_ok()
                {
                    return;
                }
                since = Instant::now();
            }
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::segment::PAGE;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn segment() -> Arc<Segment> {
        Arc::new(Segment::private(PAGE).unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn one_has_it_at_a_time() {
        // SAFETY: zeroed.
        let lock = unsafe { ElementLock::new(segment(), Holder::current()) };
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _held = lock.lock();
                        let before = count.load(Ordering::Relaxed);
                        count.store(before + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 40_000);
    }

    /// Who may open no file knows nothing of when others began.
    #[test]
    #[cfg_attr(miri, ignore = "forks")]
    fn who_has_no_descriptor_takes_nobody_for_dead() {
        let me = Holder::current();
        // SAFETY: the child asks for its parent, and leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: of this process alone, whose last call ends it.
            unsafe {
                libc::setrlimit(libc::RLIMIT_NOFILE, &none);
                libc::_exit(i32::from(me.has_ended()));
            }
        }
        let mut status = 0;
        // SAFETY: the kernel writes the status it was given a place for.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }

    /// A process that is no more, and one whose number is another's now.
    #[test]
    #[cfg_attr(miri, ignore = "starts processes")]
    fn who_has_ended_has_it_no_more() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = Holder(u64::from(child.id()) | began(child.id()).unwrap() << 32);
        child.wait().unwrap();
        let me = Holder::current();
        assert!(!me.has_ended());
        let other = Holder(u64::from(me.0 as u32) | ((me.0 >> 32) + 1) << 32);
        for gone in [ended, other] {
            // SAFETY: zeroed.
            let lock = unsafe { ElementLock::new(segment(), me) };
            lock.word().try_take(gone.0).unwrap();
            drop(lock.lock());
            assert_eq!(lock.word().try_take(1), Ok(()));
        }
    }
}
