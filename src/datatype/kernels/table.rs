//! Runs at the places of a table.

use super::super::table::{Offsets, Runs};
use super::line::{
    LINE, Piece, apart, copy, copy_short, load, masked, prefetch, prefetch_write, store, write_line,
};
use super::words::{Listed, Rounds, SHORT, Strided, by_length, by_width};
use super::{Dim, Level, Plan, Set, dispatch};
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
    let all = Rounds { stream, step: len, count: range.len(), rounds };
    // SAFETY: the caller's.
    unsafe {
        match at {
            Offsets::Narrow { unit, words } => {
                let (unit, offsets) = (*unit as isize, &words[range]);
                // (Units that are constants need no multiplication.)
                match unit {
                    4 => {
                        let places = Listed::<_, 4> { mem, unit, offsets };
                        by_width::<S, _, PACK>(places, all, len, plan);
                    }
                    8 => {
                        let places = Listed::<_, 8> { mem, unit, offsets };
                        by_width::<S, _, PACK>(places, all, len, plan);
                    }
                    _ => {
                        let places = Listed::<_, 0> { mem, unit, offsets };
                        by_width::<S, _, PACK>(places, all, len, plan);
                    }
                }
            }
            Offsets::Wide(words) => {
                let places = Listed::<_, 1> { mem, unit: 1, offsets: &words[range] };
                by_width::<S, _, PACK>(places, all, len, plan);
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
/// the first cache, run by run over each strip. What is past the caches is copied round
/// by round, so that memory is read all the time, where the instructions are wide enough:
/// rounds of about a line with masks, longer ones through a buffer.
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
    // SAFETY: the caller's.
    unsafe {
        // (No form has an empty run, and no description of one is taken.)
        let past = plan.streaming && S::LEVEL == Level::Avx512;
        if past && ABOUT_A_LINE.contains(&rounds.stride) {
            match list.iter().map(|run| run.1).max() {
                Some(..=32) => return round_by_round::<S, PACK, 16>(mem, stream, rounds, list),
                Some(..=64) => return round_by_round::<S, PACK, 32>(mem, stream, rounds, list),
                _ => {}
            }
        }
        if PACK && past && size <= GATHERED {
            return gathered::<S>(mem, stream, rounds, list, size);
        }
        let strip = STRIP / (size + rounds.stride.unsigned_abs());
        let one_by_one = !PACK && plan.streaming && S::LEVEL > Level::Portable;
        if one_by_one || strip < 8 {
            return round_by_round::<S, PACK, 0>(mem, stream, rounds, list);
        }
        let mut first = 0;
        while first < rounds.count {
            let count = strip.min(rounds.count - first);
            let mem = mem.wrapping_offset(first as isize * rounds.stride);
            let mut stream = stream.wrapping_add(first * size);
            first += count;
            for &(offset, len) in list {
                let places = Strided { mem: mem.wrapping_offset(offset), stride: rounds.stride };
                let all = Rounds { stream, step: size, count, rounds: Dim::ONE };
                by_width::<S, _, PACK>(places, all, len, plan);
                stream = stream.wrapping_add(len);
            }
        }
    }
}

/// Runs by words and branches, or, where `WORD` is not 0, of up to twice that, by a masked word
/// each, lines of both sides asked for: branches by length are guessed wrong in turn, and
/// memory is not read meanwhile.
///
/// # Safety
/// As [`few_runs`]; where `WORD` is not 0, runs have 1 to twice as many bytes and the set is
/// AVX-512.
#[inline(always)]
unsafe fn round_by_round<S: Set, const PACK: bool, const WORD: usize>(
    mut mem: *mut u8,
    mut stream: *mut u8,
    rounds: Dim,
    list: &[(isize, usize)],
) {
    for _ in 0..rounds.count {
        if WORD > 0 {
            let (of_mem, of_stream) = (mem.wrapping_add(AHEAD), stream.wrapping_add(AHEAD));
            if PACK {
                prefetch(of_mem);
                prefetch_write(of_stream);
            } else {
                prefetch(of_stream);
                prefetch_write(of_mem);
            }
        }
        for &(offset, len) in list {
            let at = mem.wrapping_offset(offset);
            let (from, to) = if PACK { (at, stream) } else { (stream, at) };
            // SAFETY: the caller's; the two are apart.
            unsafe {
                if WORD > 0 {
                    masked::<S, WORD>(from, to, len);
                } else {
                    copy_short::<S>(from, to, len);
                }
            }
            stream = stream.wrapping_add(len);
        }
        mem = mem.wrapping_offset(rounds.stride);
    }
}

/// Bytes from one round to the next where a line a round asks for nearly all of them, and
/// for none twice: that would cost more than one not at all, as would finding out which have
/// been asked for.
const ABOUT_A_LINE: Range<isize> = LINE as isize..LINE as isize * 3 / 2;

/// Bytes that lines are asked for ahead of their use: some pages, as the processor's own
/// prefetcher waits for a page to be looked up.
const AHEAD: usize = 16 << 10;

/// Bytes that are put together before their lines are written past the caches.
const GATHERED: usize = 2048;

/// Packs rounds into a buffer, and whole lines of that past the caches.
///
/// # Safety
/// As [`few_runs`]; a round has up to [`GATHERED`] bytes.
#[inline(always)]
unsafe fn gathered<S: Set>(
    mut mem: *mut u8,
    stream: *mut u8,
    rounds: Dim,
    list: &[(isize, usize)],
    size: usize,
) {
    let mut buffer = [[0u64; 8]; (2 * GATHERED) / LINE + 1];
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    // Lines of the buffer are the stream's; of the first, some bytes are another's.
    let mut skip = stream.addr() % LINE;
    let (mut have, mut out) = (skip, stream.wrapping_sub(skip));
    // SAFETY: the caller's: the buffer has room for a line that is left and as many rounds
    // as go into it.
    unsafe {
        for i in 0..rounds.count {
            for &(offset, len) in list {
                copy_short::<S>(mem.wrapping_offset(offset), buffer.add(have), len);
                have += len;
            }
            mem = mem.wrapping_offset(rounds.stride);
            if have + size <= 2 * GATHERED && i + 1 < rounds.count {
                continue;
            }
            let mut at = 0;
            if skip > 0 {
                at = LINE.min(have);
                copy_short::<S>(buffer.add(skip), out.wrapping_add(skip), at - skip);
                skip = 0;
            }
            while at + LINE <= have {
                write_line::<S, true>(out.wrapping_add(at), load(buffer.add(at)));
                at += LINE;
            }
            have -= at;
            out = out.wrapping_add(at);
            std::ptr::copy(buffer.add(at), buffer, have);
        }
        copy_short::<S>(buffer, out, have);
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
            copy_short::<S>(from, to, len);
        }
    }
    stream.wrapping_add(len)
}
