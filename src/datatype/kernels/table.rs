//! Runs at the places of a table.

use super::super::table::{Offsets, Runs};
use super::line::{LINE, Word, apart, copy, copy_short, load, store};
use super::words::{Listed, by_width, words};
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
    if rounds.count > 1 && range.len() <= SMALL && len < LINE {
        let mut offsets = [0; SMALL];
        for (offset, i) in offsets.iter_mut().zip(range.clone()) {
            *offset = at.get(i) as isize;
        }
        // SAFETY: the caller's.
        return unsafe { few::<PACK>(mem, stream, rounds, len, &offsets[..range.len()]) };
    }
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        let stream = stream.wrapping_add(round * len * range.len());
        // SAFETY: the caller's.
        unsafe {
            match at {
                Offsets::Narrow { unit, words: all } => {
                    let (unit, offsets) = (*unit as isize, &all[range.clone()]);
                    match (len, unit) {
                        (4, 4) => {
                            let places = Listed::<_, 4> { mem, unit, offsets };
                            words::<S, u32, _, PACK>(places, stream, range.len(), plan);
                        }
                        (8, 8) => {
                            let places = Listed::<_, 8> { mem, unit, offsets };
                            words::<S, u64, _, PACK>(places, stream, range.len(), plan);
                        }
                        _ => {
                            let places = Listed::<_, 0> { mem, unit, offsets };
                            by_width::<S, _, PACK>(places, stream, len, range.len(), plan);
                        }
                    }
                }
                Offsets::Wide(all) => {
                    let places = Listed::<_, 1> { mem, unit: 1, offsets: &all[range.clone()] };
                    by_width::<S, _, PACK>(places, stream, len, range.len(), plan);
                }
            }
        }
    }
}

/// Runs up to which a table within a loop is kept at hand.
pub(in super::super) const SMALL: usize = 16;

/// Runs of one length at a few places, in many rounds.
///
/// # Safety
/// As [`equal`].
#[inline(always)]
pub(super) unsafe fn few<const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    len: usize,
    offsets: &[isize],
) {
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => few_words::<u8, PACK>(mem, stream, rounds, offsets),
            2 => few_words::<u16, PACK>(mem, stream, rounds, offsets),
            4 => few_words::<u32, PACK>(mem, stream, rounds, offsets),
            8 => few_words::<u64, PACK>(mem, stream, rounds, offsets),
            16 => few_words::<[u64; 2], PACK>(mem, stream, rounds, offsets),
            32 => few_words::<[u64; 4], PACK>(mem, stream, rounds, offsets),
            _ => {
                let mut list = [(0, len); SMALL];
                for (run, &offset) in list.iter_mut().zip(offsets) {
                    run.0 = offset;
                }
                few_runs::<PACK>(mem, stream, rounds, &list[..offsets.len()]);
            }
        }
    }
}

/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn few_words<W: Word, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    offsets: &[isize],
) {
    macro_rules! of {
        ($($n:literal)*) => {
            match offsets.len() {
                $($n => {
                    let mut all = [0; $n];
                    all.copy_from_slice(offsets);
                    // SAFETY: the caller's.
                    unsafe { rounds_of::<W, $n, PACK>(mem, stream, rounds, all) }
                })*
                _ => {
                    for round in 0..rounds.count {
                        let mem = mem.wrapping_offset(round as isize * rounds.stride);
                        let stream = stream.wrapping_add(round * offsets.len() * W::SIZE);
                        for (k, offset) in offsets.iter().enumerate() {
                            apart();
                            // SAFETY: the caller's.
                            unsafe {
                                one::<W, PACK>(mem.wrapping_offset(*offset), stream.add(k * W::SIZE));
                            }
                        }
                    }
                }
            }
        };
    }
    of!(2 3 4 5 6 7 8);
}

/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn rounds_of<W: Word, const N: usize, const PACK: bool>(
    mut mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    offsets: [isize; N],
) {
    for _ in 0..rounds.count {
        apart();
        for (k, offset) in offsets.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { one::<W, PACK>(mem.wrapping_offset(*offset), stream.add(k * W::SIZE)) };
        }
        mem = mem.wrapping_offset(rounds.stride);
        stream = stream.wrapping_add(N * W::SIZE);
    }
}

/// # Safety
/// [MEM] an element at both sides.
#[inline(always)]
unsafe fn one<W: Word, const PACK: bool>(mem: *mut u8, stream: *mut u8) {
    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
    // SAFETY: [MEM].
    unsafe { store::<W>(to, load(from)) };
}

/// A few runs of different lengths, in many rounds.
///
/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn few_runs<const PACK: bool>(
    mut mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    list: &[(isize, usize)],
) {
    for _ in 0..rounds.count {
        for &(offset, len) in list {
            let at = mem.wrapping_offset(offset);
            let (from, to) = if PACK { (at, stream) } else { (stream, at) };
            // SAFETY: the caller's.
            unsafe { copy_short(from, to, len) };
            stream = stream.wrapping_add(len);
        }
        mem = mem.wrapping_offset(rounds.stride);
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
    if rounds.count > 1 && range.len() <= SMALL {
        let mut list = [(0, 0); SMALL];
        for (run, i) in list.iter_mut().zip(range.clone()) {
            let (offset, len) = all.get(i);
            *run = (offset as isize, len as usize);
        }
        // SAFETY: the caller's.
        return unsafe { few_runs::<PACK>(mem, stream, rounds, &list[..range.len()]) };
    }
    let mut list = [(0, 0); AT_ONCE];
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        let mut first = range.start;
        while first < range.end {
            let list = &mut list[..AT_ONCE.min(range.end - first)];
            all.read(first, list);
            for &(offset, len) in &*list {
                let at = mem.wrapping_offset(offset as isize);
                // SAFETY: the caller's.
                stream = unsafe { run_of::<S, PACK>(at, stream, len as usize, plan) };
            }
            first += list.len();
        }
    }
}

/// Runs that are read from their table before they are copied.
const AT_ONCE: usize = 64;

/// Copies a run; returns where the next is in the stream.
///
/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn run_of<S: Set, const PACK: bool>(
    at: *mut u8,
    stream: *mut u8,
    len: usize,
    plan: &Plan,
) -> *mut u8 {
    let (from, to) = if PACK { (at, stream) } else { (stream, at) };
    // SAFETY: the caller's.
    unsafe {
        if len == 8 {
            store::<u64>(to, load(from));
        } else if plan.streaming && len >= 16 * LINE {
            copy::<S, true>(from, to, len);
        } else {
            copy_short(from, to, len);
        }
    }
    stream.wrapping_add(len)
}
