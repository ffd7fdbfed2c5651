//! When the providers are polled beside the inbox.
//!
//! A poll of a provider takes ten times as long as that of an inbox, which a
//! waiting packet of the node should not have to wait for.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Ticks of the processor's clock, about 0.2 us.
const MOMENT: u64 = 500;

/// What a context knows of its last polls.
#[derive(Default)]
pub(super) struct Pace {
    /// Packets and completions so far; wraps.
    events: Cell<u64>,
    /// Polls of the providers, those a moment apart; wraps.
    polls: Cell<u32>,
    last_counted: Cell<u64>,
    /// Those that found nothing, in a row.
    empty_polls: Cell<u32>,
    /// Polls in a row that left the providers out.
    skipped: Cell<u32>,
    last_poll: Cell<u64>,
    /// Others wanted the processor at the last yields: so many more are to find it free.
    crowd: Cell<u32>,
}

impl Pace {
    /// Notes that something came in.
    #[inline]
    pub(super) fn count_event(&self) {
        self.events.set(self.events.get().wrapping_add(1));
    }

    /// What came in last says nothing to those who wait for something.
    #[cold]
    pub(super) fn uncount_event(&self) {
        self.events.set(self.events.get().wrapping_sub(1));
    }

    /// Packets and completions so far; wraps.
    #[inline]
    pub(super) fn events(&self) -> u64 {
        self.events.get()
    }

    /// Polls of the providers so far, of those in one moment one; wraps. So waits that count
    /// them go on for the same time whether the providers are quiet or not.
    #[inline]
    pub(super) fn polls(&self) -> u32 {
        self.polls.get()
    }

    /// Returns true if the providers can do without a poll this time: packets
    /// came through the inbox, or the providers have been quiet and were polled
    /// a moment ago.
    #[inline]
    pub(super) fn skips_providers(&self, came: bool) -> bool {
        /// Providers with something under way are polled every time.
        const QUIET: u32 = 64;
        /// Polls with packets between two of the providers.
        const SKIPS: u32 = 16;
        let skip = if came {
            self.skipped.get() < SKIPS
        } else {
            self.empty_polls.get() >= QUIET && ticks().wrapping_sub(self.last_poll.get()) < MOMENT
        };
        self.skipped.set(if skip && came { self.skipped.get() + 1 } else { 0 });
        skip
    }

    /// Lets other processes have the processor.
    pub(super) fn yield_now(&self) {
        /// A yield takes longer where another process ran meanwhile.
        const ALONE: Duration = Duration::from_micros(5);
        /// Yields until it is taken that nobody comes back.
        const REMEMBERED: u32 = 64;
        let before = Instant::now();
        std::thread::yield_now();
        let alone = before.elapsed() < ALONE;
        self.crowd.set(if alone { self.crowd.get().saturating_sub(1) } else { REMEMBERED });
    }

    /// Returns true if there are more processes than processors: those that are waited
    /// for run when this one yields.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.crowd.get() > 0
    }

    /// A poll of the providers begins.
    #[inline]
    pub(super) fn begin_poll(&self) {
        let now = ticks();
        let counts = now == 0 || now.wrapping_sub(self.last_counted.get()) >= MOMENT;
        if counts || self.is_crowded() {
            self.polls.set(self.polls.get().wrapping_add(1));
            self.last_counted.set(now);
        }
        // (It is short.)
        self.last_poll.set(now);
    }

    /// A poll of the providers ended, before which there were `events`.
    #[inline]
    pub(super) fn end_poll(&self, events: u64) {
        let empty = self.events.get() == events;
        self.empty_polls.set(if empty { self.empty_polls.get().saturating_add(1) } else { 0 });
    }
}

/// The processor's clock; 0 where there is none to read at once.
#[inline]
pub(super) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: every x86-64 processor has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    0
}
