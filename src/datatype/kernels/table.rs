//! Runs at the places of a table.

use super::super::table::{Offsets, Runs};
use super::line::{LINE, Word, copy, copy_short, load, prefetch, store, write_line};
use super::{Dim, How, Set, dispatch};
use std::ops::Range;

dispatch! {
    pub(in super::super) unsafe fn equal_runs<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, rounds: Dim, len: usize, at: &Offsets, range: Range<usize>
    ) => equal
}

dispatch! {
    pub(in super::super) unsafe fn runs<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, rounds: Dim, all: &Runs
    ) => different
}

/// How far ahead of an element its line is asked for.
const AHEAD: usize = 32;

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
    how: &How,
) {
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        let stream = stream.wrapping_add(round * len * range.len());
        // SAFETY: the caller's.
        unsafe {
            match at {
                Offsets::Narrow { unit, words } => {
                    let (unit, words) = (*unit as isize, &words[range.clone()]);
                    let place = |i: usize| mem.wrapping_offset(unit * words[i] as isize);
                    sized::<S, PACK>(place, stream, len, words.len(), how);
                }
                Offsets::Wide(words) => {
                    let words = &words[range.clone()];
                    let place = |i: usize| mem.wrapping_offset(words[i] as isize);
                    sized::<S, PACK>(place, stream, len, words.len(), how);
                }
            }
        }
    }
}

/// # Safety
/// As [`equal`], where run `i` is at `place(i)`.
#[inline(always)]
unsafe fn sized<S: Set, const PACK: bool>(
    place: impl Fn(usize) -> *mut u8,
    stream: *mut u8,
    len: usize,
    count: usize,
    how: &How,
) {
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => words::<S, u8, PACK>(place, stream, count, how),
            2 => words::<S, u16, PACK>(place, stream, count, how),
            4 => words::<S, u32, PACK>(place, stream, count, how),
            8 => words::<S, u64, PACK>(place, stream, count, how),
            16 => words::<S, [u64; 2], PACK>(place, stream, count, how),
            32 => words::<S, [u64; 4], PACK>(place, stream, count, how),
            _ => {
                let whole = PACK
                    && how.streaming
                    && len.is_multiple_of(LINE)
                    && stream.align_offset(LINE) == 0;
                for i in 0..count {
                    if how.ahead {
                        let next = place((i + 8).min(count - 1));
                        for line in (0..len.min(512)).step_by(LINE) {
                            prefetch(next.wrapping_add(line));
                        }
                    }
                    let (mem, stream) = (place(i), stream.wrapping_add(i * len));
                    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
                    if whole {
                        for at in (0..len).step_by(LINE) {
                            let line = from.add(at).cast::<[u64; 8]>().read_unaligned();
                            write_line::<S, true>(to.add(at), line);
                        }
                    } else if how.streaming {
                        copy::<S, true>(from, to, len);
                    } else {
                        copy_short(from, to, len);
                    }
                }
            }
        }
    }
}

/// Single elements.
///
/// # Safety
/// As [`sized`].
#[inline(always)]
unsafe fn words<S: Set, W: Word, const PACK: bool>(
    place: impl Fn(usize) -> *mut u8,
    stream: *mut u8,
    count: usize,
    how: &How,
) {
    let n = LINE / W::SIZE;
    let mut i = 0;
    // SAFETY: the caller's; elements before `i` are done.
    unsafe {
        if PACK && how.streaming && stream.align_offset(W::SIZE) == 0 {
            let lead = (stream.align_offset(LINE) / W::SIZE).min(count);
            while i < lead {
                store::<W>(stream.add(i * W::SIZE), load(place(i)));
                i += 1;
            }
            while i + n + AHEAD <= count {
                let mut line = [0u64; 8];
                let words = line.as_mut_ptr().cast::<u8>();
                for k in 0..n {
                    prefetch(place(i + k + AHEAD));
                    store::<W>(words.add(k * W::SIZE), load(place(i + k)));
                }
                write_line::<S, true>(stream.add(i * W::SIZE), line);
                i += n;
            }
        }
        let ahead = if how.ahead { AHEAD } else { 0 };
        while i + ahead < count {
            if how.ahead {
                prefetch(place(i + ahead));
            }
            let at = stream.add(i * W::SIZE);
            let (from, to) = if PACK { (place(i), at) } else { (at, place(i)) };
            store::<W>(to, load(from));
            i += 1;
        }
        while i < count {
            let at = stream.add(i * W::SIZE);
            let (from, to) = if PACK { (place(i), at) } else { (at, place(i)) };
            store::<W>(to, load(from));
            i += 1;
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
    how: &How,
) {
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        for (offset, len) in all.iter() {
            let len = len as usize;
            let at = mem.wrapping_offset(offset as isize);
            let (from, to) = if PACK { (at, stream) } else { (stream, at) };
            // SAFETY: the caller's.
            unsafe {
                if how.streaming && len >= 16 * LINE {
                    copy::<S, true>(from, to, len);
                } else {
                    copy_short(from, to, len);
                }
            }
            stream = stream.wrapping_add(len);
        }
    }
}
