//! The clock of events: the processor's time stamp counter where it is invariant, else
//! nanoseconds of the system's monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Ticks.
#[inline(always)]
pub(super) fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if counter::is_invariant() {
        return counter::read();
    }
    monotonic()
}

fn monotonic() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const INVARIANT: u8 = 1;
    const VARIES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Returns true if it counts at one rate, whatever the processor does.
    #[inline(always)]
    pub(super) fn is_invariant() -> bool {
        match KNOWN.load(Ordering::Relaxed) {
            INVARIANT => true,
            VARIES => false,
            _ => find_out(),
        }
    }

    #[cold]
    fn find_out() -> bool {
        // SAFETY: every x86-64 has this instruction; the second leaf is read only where
        // the first says that there is one. (Safe by name in later versions of Rust.)
        #[allow(unused_unsafe)]
        let invariant = unsafe {
            __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
        };
        KNOWN.store(if invariant { INVARIANT } else { VARIES }, Ordering::Relaxed);
        invariant
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 has this instruction.
        unsafe { _rdtsc() }
    }
}

/// Ticks, and nanoseconds since 1970 then: of a few looks the one that took least.
pub(super) fn both() -> (u64, u64) {
    let look = |_| {
        let before = now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = now().wrapping_sub(before);
        (took, before.wrapping_add(took / 2), since.as_nanos() as u64)
    };
    let (_, ticks, nanos) = (0..5).map(look).min().unwrap_or_default();
    (ticks, nanos)
}

/// Nanoseconds a tick, measured once over half a millisecond.
pub(super) fn nanos_per_tick() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (start, ticks) = (Instant::now(), now());
        while start.elapsed() < Duration::from_micros(500) {
            std::hint::spin_loop();
        }
        let (nanos, ticks) = (start.elapsed().as_nanos(), now().wrapping_sub(ticks));
        (nanos as f64 / ticks.max(1) as f64).clamp(1e-6, 1e6)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_at_its_rate() {
        let (ticks, nanos) = both();
        std::thread::sleep(Duration::from_millis(20));
        let (later, later_nanos) = both();
        assert!(later > ticks);
        let by_rate = (later - ticks) as f64 * nanos_per_tick();
        let by_system = (later_nanos - nanos) as f64;
        assert!((by_rate / by_system - 1.0).abs() < 0.2, "{by_rate} ns by {by_system} ns");
    }
}
