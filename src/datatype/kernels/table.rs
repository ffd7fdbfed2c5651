//! Runs at the places of a table.

use super::super::table::{Offsets, Runs};
use super::line::{LINE, Piece, apart, copy, copy_short, load, store};
use super::words::{Listed, SHORT, Strided, by_length, by_width};
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
    if rounds.count > 1 && range.len() <= SMALL && len <= SHORT {
        let mut offsets = [0; SMALL];
        for (offset, i) in offsets.iter_mut().zip(range.clone()) {
            *offset = at.get(i) as isize;
        }
        // SAFETY: the caller's.
        return unsafe { few::<S, PACK>(mem, stream, rounds, len, &offsets[..range.len()]) };
    }
    for round in 0..rounds.count {
        let mem = mem.wrapping_offset(round as isize * rounds.stride);
        let stream = stream.wrapping_add(round * len * range.len());
        // SAFETY: the caller's.
        unsafe {
            match at {
                Offsets::Narrow { unit, words: all } => {
                    let (unit, offsets) = (*unit as isize, &all[range.clone()]);
                    // (Units that are constants need no multiplication.)
                    let count = range.len();
                    match unit {
                        4 => {
                            let places = Listed::<_, 4> { mem, unit, offsets };
                            by_width::<S, _, PACK>(places, stream, len, len, count, plan);
                        }
                        8 => {
                            let places = Listed::<_, 8> { mem, unit, offsets };
                            by_width::<S, _, PACK>(places, stream, len, len, count, plan);
                        }
                        _ => {
                            let places = Listed::<_, 0> { mem, unit, offsets };
                            by_width::<S, _, PACK>(places, stream, len, len, count, plan);
                        }
                    }
                }
                Offsets::Wide(all) => {
                    let places = Listed::<_, 1> { mem, unit: 1, offsets: &all[range.clone()] };
                    by_width::<S, _, PACK>(places, stream, len, len, range.len(), plan);
                }
            }
        }
    }
}

/// Runs up to which a table within a loop is kept at hand.
pub(super) const SMALL: usize = 16;

/// Runs of one length at a few places, in many rounds.
///
/// # Safety
/// As [`equal`]; `len` is [`SHORT`] or less, there are up to [`SMALL`] offsets.
#[inline(always)]
pub(super) unsafe fn few<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    len: usize,
    offsets: &[isize],
) {
    // SAFETY: the caller's.
    unsafe {
        by_length!(
            len,
            piece => few_of::<S, _, _, _, PACK>(piece, mem, stream, rounds, offsets),
            unreachable!("runs of more than SHORT bytes are no few")
        );
    }
}

/// # Safety
/// As [`few`].
#[inline(always)]
unsafe fn few_of<
    S: Set,
    const WORD: usize,
    const LAST: usize,
    const MANY: bool,
    const PACK: bool,
>(
    piece: Piece<WORD, LAST, MANY>,
    mut mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    offsets: &[isize],
) {
    macro_rules! of {
        ($($n:literal)*) => {
            match offsets.len() {
                $($n if LAST == 0 => {
                    let mut all = [0; $n];
                    all.copy_from_slice(offsets);
                    // SAFETY: the caller's.
                    unsafe { rounds_of::<S, WORD, $n, PACK>(Piece { len: WORD }, mem, stream, rounds, all) }
                })*
                _ => {
                    for _ in 0..rounds.count {
                        for offset in offsets {
                            apart();
                            // SAFETY: the caller's.
                            unsafe { piece.between::<S, PACK>(mem.wrapping_offset(*offset), stream) };
                            stream = stream.wrapping_add(piece.len);
                        }
                        mem = mem.wrapping_offset(rounds.stride);
                    }
                }
            }
        };
    }
    of!(2 3 4 5 6 7 8);
}

/// # Safety
/// As [`few`].
#[inline(always)]
unsafe fn rounds_of<S: Set, const WORD: usize, const N: usize, const PACK: bool>(
    piece: Piece<WORD, 0, false>,
    mut mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    offsets: [isize; N],
) {
    for _ in 0..rounds.count {
        apart();
        for offset in offsets {
            // SAFETY: the caller's.
            unsafe { piece.between::<S, PACK>(mem.wrapping_offset(offset), stream) };
            stream = stream.wrapping_add(WORD);
        }
        mem = mem.wrapping_offset(rounds.stride);
    }
}

/// Bytes on both sides that are copied run by run, within the first cache.
const STRIP: usize = 16 << 10;

/// A few runs of different lengths, in many rounds: where a strip of rounds stays in
/// the first cache, run by run over each strip.
///
/// # Safety
/// As [`equal`].
#[inline(always)]
unsafe fn few_runs<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    list: &[(isize, usize)],
    plan: &Plan,
) {
    let size: usize = list.iter().map(|run| run.1).sum();
    let strip = STRIP / (size + rounds.stride.unsigned_abs());
    let mut first = 0;
    while first < rounds.count {
        let count = strip.clamp(1, rounds.count - first);
        let mem = mem.wrapping_offset(first as isize * rounds.stride);
        let mut stream = stream.wrapping_add(first * size);
        first += count;
        for &(offset, len) in list {
            let mem = mem.wrapping_offset(offset);
            // SAFETY: the caller's.
            unsafe {
                if count >= 8 {
                    let places = Strided { mem, stride: rounds.stride };
                    by_width::<S, _, PACK>(places, stream, size, len, count, plan);
                } else {
                    for i in 0..count {
                        let mem = mem.wrapping_offset(i as isize * rounds.stride);
                        let stream = stream.wrapping_add(i * size);
                        let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
                        copy_short(from, to, len);
                    }
                }
            }
            stream = stream.wrapping_add(len);
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
    if rounds.count > 1 && range.len() <= SMALL {
        let mut list = [(0, 0); SMALL];
        for (run, i) in list.iter_mut().zip(range.clone()) {
            let (offset, len) = all.get(i);
            *run = (offset as isize, len as usize);
        }
        // SAFETY: the caller's.
        return unsafe { few_runs::<S, PACK>(mem, stream, rounds, &list[..range.len()], plan) };
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
