//! Hardware performance counters of the calling thread, user space only, see
//! perf_event_open(2).
//!
//! Virtual machines and containers often have none: then the counts are `None`
//! and [`Counts::missing`] says why. For exact instruction counts anywhere use
//! [`step`](super::step).

/// What the machine counted while a closure ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Core cycles.
    pub cycles: Option<u64>,
    /// Loads that missed the first-level data cache.
    pub l1d_misses: Option<u64>,
    /// Loads that missed the last-level cache.
    pub last_misses: Option<u64>,
    /// Why a count is `None`; of the first one that is.
    pub missing: Option<String>,
}

/// Runs `run` on the calling thread with the counters on.
///
/// When the machine has fewer counters than asked for, the kernel takes turns
/// and the counts are scaled up; reading costs a few hundred instructions, so
/// give it a long enough `run`.
pub fn measure<R>(run: impl FnOnce() -> R) -> (R, Counts) {
    imp::measure(run)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, FromRawFd};

    use super::Counts;

    const HARDWARE: u32 = 0;
    const CACHE: u32 = 3;
    const CYCLES: u64 = 0;
    const INSTRUCTIONS: u64 = 1;
    /// L1D, read, miss.
    const L1D_READ_MISS: u64 = 1 << 16;
    /// Last level, read, miss.
    const LAST_READ_MISS: u64 = 2 | 1 << 16;
    /// Time enabled and time running beside the value.
    const READ_FORMAT: u64 = 1 | 2;
    /// disabled, exclude_kernel, exclude_hv
    const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
    // _IO('$', 0..3)
    const ENABLE: u32 = 0x2400;
    const DISABLE: u32 = 0x2401;

    /// perf_event_attr as of its first published size, 64 bytes.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        bp_type: u32,
        config1: u64,
    }

    fn open(kind: u32, config: u64) -> io::Result<File> {
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            sample_period: 0,
            sample_type: 0,
            read_format: READ_FORMAT,
            flags: FLAGS,
            wakeup_events: 0,
            bp_type: 0,
            config1: 0,
        };
        const CLOSE_ON_EXEC: u64 = 8;
        // SAFETY: the attributes outlive the call and carry their size; this
        // thread, any processor, no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                std::ptr::from_ref(&attributes),
                0,
                -1,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor; no one else has it.
        Ok(unsafe { File::from_raw_fd(fd as i32) })
    }

    fn switch(counters: &[io::Result<File>; 4], request: u32) {
        for counter in counters.iter().flatten() {
            // SAFETY: an ioctl without argument on a perf descriptor we own.
            unsafe { libc::ioctl(counter.as_raw_fd(), request as _, 0) };
        }
    }

    fn read(counter: io::Result<File>) -> Result<u64, String> {
        let mut counter = counter.map_err(|error| reason(&error))?;
        let mut raw = [0; 24];
        counter.read_exact(&mut raw).map_err(|error| reason(&error))?;
        let [value, enabled, running] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&raw[at..at + 8]);
            u64::from_ne_bytes(word)
        });
        if running == 0 {
            return Err("the counter was never scheduled: others use all of them".into());
        }
        Ok((u128::from(value) * u128::from(enabled) / u128::from(running)) as u64)
    }

    fn reason(error: &io::Error) -> String {
        let hint = match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                "this machine has no such counter, as is usual in virtual machines"
            }
            Some(libc::EACCES | libc::EPERM) => {
                "not allowed: sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON in a container"
            }
            Some(libc::ENOSYS) => "the kernel is built without perf events",
            _ => "perf_event_open failed",
        };
        format!("{hint} ({error})")
    }

    pub(super) fn measure<R>(run: impl FnOnce() -> R) -> (R, Counts) {
        let counters = [
            open(HARDWARE, INSTRUCTIONS),
            open(HARDWARE, CYCLES),
            open(CACHE, L1D_READ_MISS),
            open(CACHE, LAST_READ_MISS),
        ];
        switch(&counters, ENABLE);
        let result = run();
        switch(&counters, DISABLE);
        let counts = counters.map(read);
        let missing = counts.iter().find_map(|count| count.as_ref().err().cloned());
        let [instructions, cycles, l1d_misses, last_misses] = counts.map(Result::ok);
        let counts = Counts { instructions, cycles, l1d_misses, last_misses, missing };
        (result, counts)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::Counts;

    pub(super) fn measure<R>(run: impl FnOnce() -> R) -> (R, Counts) {
        let missing =
            Some(format!("perf_event_open(2) is Linux's, this is {}", std::env::consts::OS));
        (run(), Counts { missing, ..Counts::default() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[test]
    fn counts_or_says_why_not() {
        let (sum, counts) =
            super::measure(|| (0..10_000u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum, 49_995_000);
        let all = [counts.instructions, counts.cycles, counts.l1d_misses, counts.last_misses];
        assert_eq!(all.iter().any(Option::is_none), counts.missing.is_some(), "{counts:?}");
        if let Some(instructions) = counts.instructions {
            assert!(instructions >= 10_000, "{counts:?}");
        }
    }
}
