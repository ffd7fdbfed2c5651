//! The memory the ranks of a forked job share.
//!
//! One anonymous shared mapping made before the fork, so it has no name that
//! could be left behind and goes away with the last process.
//!
//! ```text
//! Header | Slot × ranks | log of rank 0 | log of rank 1 | …
//! ```
//!
//! A log is the append-only list of what one rank published: written by that
//! rank alone, read by all up to `used`. No lock lives in here, so a rank
//! that dies at any instruction leaves nothing locked.

use crate::boot::{BootError, os};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// States of a rank, in [`Slot::state`]; 0 until it has started.
pub(super) const RUNNING: u32 = 1;
pub(super) const FINALIZED: u32 = 2;
pub(super) const EXITED: u32 = 3;
pub(super) const KILLED: u32 = 4;

/// Values of [`Header::gate`].
pub(super) const GATE_CLOSED: u32 = 0;
pub(super) const GATE_OPEN: u32 = 1;
pub(super) const GATE_FAILED: u32 = 2;

/// Shared by all ranks and their supervisor. All zeroes is its first state.
#[repr(C, align(64))]
pub(super) struct Header {
    /// Ranks wait here until all are forked.
    pub(super) gate: AtomicU32,
    /// errno of the fork that failed, when the gate says so.
    pub(super) fork_errno: AtomicI32,
    /// Last fence that all ranks reached, its low bits; a futex.
    pub(super) generation: AtomicU32,
    /// Ranks that have ended, in any way.
    pub(super) ended: AtomicU32,
    /// Rank that called abort first, plus 1, in the upper half, and the code it gave.
    pub(super) aborted: AtomicU64,
    /// Arrivals at fences, summed over all fences.
    pub(super) arrived: AtomicU64,
}

/// One rank's words, alone on its cache lines.
#[repr(C, align(128))]
pub(super) struct Slot {
    pub(super) pid: AtomicU32,
    pub(super) state: AtomicU32,
    /// Exit code or signal, valid once `state` says which.
    pub(super) status: AtomicI32,
    /// Number of the last fence this rank reached.
    pub(super) fence: AtomicU64,
    /// Bytes of its log that readers may look at.
    pub(super) used: AtomicU64,
}

/// The mapping.
pub(super) struct Arena {
    base: *mut u8,
    bytes: usize,
    ranks: u32,
    space: usize,
    /// Name of the job, decided before the fork.
    pub(super) job: u64,
}

// SAFETY: all shared words are atomics; log bytes are written once, by their
// own rank under its process's put lock, before `used` is released past them,
// and never again.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps an arena for `ranks` ranks with `space` log bytes each. Pages
    /// cost memory when they are first written.
    pub(super) fn new(ranks: u32, space: usize) -> Result<Self, BootError> {
        let too_large = || {
            BootError::Options(format!(
                "{ranks} ranks with {space} bytes of key space each do not fit in the address \
                 space; lower `Options::space`"
            ))
        };
        let space = space.max(1).checked_next_multiple_of(64).ok_or_else(too_large)?;
        let logs = space.checked_mul(ranks as usize).ok_or_else(too_large)?;
        let bytes = logs.checked_add(Self::logs_at(ranks)).ok_or_else(too_large)?;
        // SAFETY: a fresh anonymous mapping at an address the kernel picks
        // touches no existing memory; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(BootError::os(format!("mapping {bytes} bytes for {ranks} ranks")));
        }
        Ok(Arena { base: base.cast(), bytes, ranks, space, job: os::random_job()? })
    }

    fn logs_at(ranks: u32) -> usize {
        size_of::<Header>().next_multiple_of(align_of::<Slot>())
            + ranks as usize * size_of::<Slot>()
    }

    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping starts page-aligned with space for a Header, and
        // zero bytes are a valid Header; it lives as long as `self`.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// Words of `rank`, which the caller has checked against [`ranks`](Self::ranks).
    pub(super) fn slot(&self, rank: u32) -> &Slot {
        assert!(rank < self.ranks, "rank {rank} outside the arena");
        let first = size_of::<Header>().next_multiple_of(align_of::<Slot>());
        // SAFETY: in bounds by the assertion and `logs_at`; aligned since
        // `first` and Slot's size are multiples of its alignment; zero bytes
        // are a valid Slot.
        unsafe { &*self.base.add(first).cast::<Slot>().add(rank as usize) }
    }

    /// The part of `rank`'s log that is published.
    fn log(&self, rank: u32) -> &[u8] {
        let used = self.slot(rank).used.load(Ordering::Acquire) as usize;
        assert!(used <= self.space, "rank {rank} wrote past its log");
        // SAFETY: in bounds by the assertion; bytes below `used` were
        // released by their writer and do not change any more.
        unsafe { std::slice::from_raw_parts(self.log_start(rank), used) }
    }

    fn log_start(&self, rank: u32) -> *mut u8 {
        // SAFETY: rank < ranks (checked by every caller through `slot`), so
        // the offset is within the mapping.
        unsafe { self.base.add(Self::logs_at(self.ranks) + rank as usize * self.space) }
    }

    /// The value of `key` in `rank`'s log.
    pub(super) fn find(&self, rank: u32, key: &str) -> Option<&[u8]> {
        let mut rest = self.log(rank);
        loop {
            let (lengths, tail) = rest.split_first_chunk::<8>()?;
            let key_length = u32::from_le_bytes(*lengths.first_chunk()?) as usize;
            let value_length = u32::from_le_bytes(*lengths.last_chunk()?) as usize;
            let (name, tail) = tail.split_at_checked(key_length)?;
            let (value, tail) = tail.split_at_checked(value_length)?;
            if name == key.as_bytes() {
                return Some(value);
            }
            rest = tail;
        }
    }

    /// Appends to the caller's own log. One thread of one process, the rank
    /// itself, may be in here at a time.
    pub(super) fn append(&self, rank: u32, key: &str, value: &[u8]) -> Result<(), BootError> {
        let slot = self.slot(rank);
        let used = slot.used.load(Ordering::Relaxed) as usize;
        let too_large = || BootError::TooLarge {
            key: key.into(),
            bytes: value.len(),
            limit: format!(
                "a rank of a local job can publish {} bytes in all and has {} left; \
                 raise `Options::space`",
                self.space,
                self.space - used
            ),
        };
        let need = 8usize.checked_add(key.len()).and_then(|n| n.checked_add(value.len()));
        let need = need.filter(|&need| need <= self.space - used).ok_or_else(too_large)?;
        let lengths = [key.len(), value.len()].map(|n| u32::try_from(n).ok());
        let [Some(key_length), Some(value_length)] = lengths else { return Err(too_large()) };
        let parts: [&[u8]; 4] =
            [&key_length.to_le_bytes(), &value_length.to_le_bytes(), key.as_bytes(), value];
        let mut at = used;
        for part in parts {
            // SAFETY: `need` bytes from `used` lie in this rank's log; nobody
            // reads past `used` and nobody else writes this log.
            unsafe {
                let to = self.log_start(rank).add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
        slot.used.store((used + need) as u64, Ordering::Release);
        Ok(())
    }

    /// Notes how `rank` ended, and wakes those who wait for it.
    pub(super) fn mark_ended(&self, rank: u32, state: u32, status: i32) {
        let slot = self.slot(rank);
        slot.status.store(status, Ordering::Relaxed);
        slot.state.store(state, Ordering::Release);
        let header = self.header();
        header.ended.fetch_add(1, Ordering::Release);
        os::futex_wake_all(&header.generation);
        os::futex_wake_all(&header.gate);
    }

    /// How `rank` ended, in words; `None` while it runs.
    pub(super) fn obituary(&self, rank: u32) -> Option<String> {
        let slot = self.slot(rank);
        let state = slot.state.load(Ordering::Acquire);
        let status = slot.status.load(Ordering::Relaxed);
        match state {
            EXITED => Some(format!("exited with code {status}")),
            KILLED => Some(format!("killed by {}", os::signal_name(status))),
            _ => None,
        }
    }

    /// Returns true if `rank` returned 0.
    pub(super) fn exited_well(&self, rank: u32) -> bool {
        let slot = self.slot(rank);
        slot.state.load(Ordering::Acquire) == EXITED && slot.status.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives self.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_hold_what_was_put_until_full() {
        let arena = Arena::new(3, 64).unwrap();
        arena.append(2, "a", b"one").unwrap();
        arena.append(2, "empty", b"").unwrap();
        assert_eq!(arena.find(2, "a"), Some(&b"one"[..]));
        assert_eq!(arena.find(2, "empty"), Some(&b""[..]));
        assert_eq!(arena.find(2, "b"), None);
        assert_eq!(arena.find(1, "a"), None);
        assert!(matches!(arena.append(2, "b", &[0; 64]), Err(BootError::TooLarge { .. })));
        arena.append(2, "rest", &[7; 64 - 12 - 13 - 12]).unwrap();
        assert!(matches!(arena.append(2, "", b""), Err(BootError::TooLarge { .. })));
        assert_eq!(arena.find(2, "rest"), Some(&[7u8; 27][..]));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Arena::new(u32::MAX, usize::MAX / 2).is_err());
    }
}
