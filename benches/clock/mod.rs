//! Processor time, so that other programs on the machine do not count.

/// Seconds of processor time of this thread.
#[cfg(unix)]
pub(crate) fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time it was given a place for.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds since the first call.
#[cfg(not(unix))]
pub(crate) fn now() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

/// Least nanoseconds of a call, each round long enough for the clock.
pub(crate) fn least(rounds: u32, mut call: impl FnMut()) -> f64 {
    let start = now();
    call();
    let once = (now() - start).max(1e-9);
    let each = (100e-6 / once).clamp(1.0, 10_000.0) as u32;
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = now();
        (0..each).for_each(|_| call());
        best = best.min((now() - start) / f64::from(each));
    }
    best * 1e9
}
