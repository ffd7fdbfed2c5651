//! Runs at the places of a table.

use super::super::table::{Offsets, Runs};
use super::line::{LINE, copy, copy_short};
use super::words::{Listed, by_width};
use super::{Dim, Plan, Set, dispatch};
use std::ops::Range;

dispatch! {
    pub(in super::super) unsafe fn equal_runs<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, rounds: Dim, len: usize, at: &Offsets, range: Range<usize>
    ) => equal
}

dispatch! {
    pub(in super::super) unsafe fn runs<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, rounds: Dim, all: &Runs, range: Range<usize>
    ) => different
}

/// Copies runs of `len` bytes at these offsets, in so many rounds.
///
/// # Safety
/// [MEM] every run lies in memory that the caller may read (write if not `PACK`),
/// and the stream has room for (has) all of them; [RANGE] the range is in the table.
#[inline(always)]
unsafe fn equal<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    len: usize,
    at: &Offsets,
    range: Range<usize>,
    plan: &Plan,
) {
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        let stream = stream.wrapping_add(round * len * range.len());
        // SAFETY: the caller's.
        unsafe {
            match at {
                Offsets::Narrow { unit, words } => {
                    let places =
                        Listed { mem, unit: *unit as isize, offsets: &words[range.clone()] };
                    by_width::<S, _, PACK>(places, stream, len, range.len(), plan);
                }
                Offsets::Wide(words) => {
                    let places = Listed { mem, unit: 1, offsets: &words[range.clone()] };
                    by_width::<S, _, PACK>(places, stream, len, range.len(), plan);
                }
            }
        }
    }
}

/// Copies runs of different lengths, in so many rounds.
///
/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn different<S: Set, const PACK: bool>(
    mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    all: &Runs,
    range: Range<usize>,
    plan: &Plan,
) {
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        for i in range.clone() {
            let (offset, len) = all.get(i);
            let len = len as usize;
            let at = mem.wrapping_offset(offset as isize);
            let (from, to) = if PACK { (at, stream) } else { (stream, at) };
            // SAFETY: the caller's.
            unsafe {
                if plan.streaming && len >= 16 * LINE {
                    copy::<S, true>(from, to, len);
                } else {
                    copy_short(from, to, len);
                }
            }
            stream = stream.wrapping_add(len);
        }
    }
}
