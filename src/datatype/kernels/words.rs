//! Runs of one length, each at its place.

use super::line::{
    LINE, Piece, apart, copy, copy_row, copy_row_past, copy_short, copy_string, joint, load,
    prefetch, prefetch_run, prefetch_write, store, store_past, strings, write_line,
};
use super::{Dim, Level, Plan, Set};

/// Where in memory run `i` is. A trait and no closure, as that would be compiled
/// without the set's instructions.
pub(super) trait Places: Copy {
    /// The place of run `i`, which is below the count.
    ///
    /// # Safety
    /// [RANGE] there is such a run.
    unsafe fn at(&self, i: usize) -> *mut u8;

    /// A place to ask for ahead of its use: of run `i`, if there is such a run.
    fn ahead(&self, i: usize) -> *const u8;

    /// Returns true if runs of so many bytes lie so far apart that each is worth asking for.
    fn far(&self, len: usize) -> bool;

    /// Returns true if it is known that all runs of so many bytes are whole lines.
    fn whole_lines(&self, len: usize) -> bool;

    /// The same runs so many bytes on.
    fn moved(self, by: isize) -> Self;
}

/// Runs one stride apart.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    pub(super) mem: *mut u8,
    pub(super) stride: isize,
}

impl Places for Strided {
    #[inline(always)]
    unsafe fn at(&self, i: usize) -> *mut u8 {
        self.mem.wrapping_offset(i as isize * self.stride)
    }

    #[inline(always)]
    fn ahead(&self, i: usize) -> *const u8 {
        self.mem.wrapping_offset(i as isize * self.stride)
    }

    #[inline(always)]
    fn far(&self, len: usize) -> bool {
        // What is a quarter of a page off or more has no prefetcher of its own.
        self.stride.unsigned_abs() >= len + 1024
    }

    #[inline(always)]
    fn whole_lines(&self, len: usize) -> bool {
        (self.mem.addr() | self.stride.unsigned_abs() | len).is_multiple_of(LINE)
    }

    #[inline(always)]
    fn moved(self, by: isize) -> Self {
        Strided { mem: self.mem.wrapping_offset(by), ..self }
    }
}

/// Runs at the offsets of a table, in units: a constant, or 0 for what `unit` says.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a, T, const UNIT: isize> {
    pub(super) mem: *mut u8,
    pub(super) unit: isize,
    pub(super) offsets: &'a [T],
}

macro_rules! listed {
    ($($type:ty)*) => {$(
        impl<const UNIT: isize> Places for Listed<'_, $type, UNIT> {
            #[inline(always)]
            unsafe fn at(&self, i: usize) -> *mut u8 {
                // SAFETY: [RANGE].
                let offset = unsafe { *self.offsets.get_unchecked(i) };
                self.mem.wrapping_offset(if UNIT == 0 { self.unit } else { UNIT } * offset as isize)
            }

            #[inline(always)]
            fn ahead(&self, i: usize) -> *const u8 {
                let offset = self.offsets.get(i).copied().unwrap_or(0);
                self.mem.wrapping_offset(if UNIT == 0 { self.unit } else { UNIT } * offset as isize)
            }

            #[inline(always)]
            fn far(&self, _: usize) -> bool {
                true
            }

            #[inline(always)]
            fn whole_lines(&self, _: usize) -> bool {
                false
            }

            #[inline(always)]
            fn moved(self, by: isize) -> Self {
                Listed { mem: self.mem.wrapping_offset(by), ..self }
            }
        }
    )*};
}
listed!(i32 i64);

/// The longest run that [`by_length`] has words for.
pub(super) const SHORT: usize = 512;

/// Evaluates `$call` with `$piece` as what copies runs of `$len` bytes; `$other` for
/// long ones.
macro_rules! by_length {
    ($len:expr, $piece:ident => $call:expr, $other:expr) => {
        by_length!(
            $len, $piece => $call, $other,
            1 => 1, 0, false; 2 => 2, 0, false; 3 => 2, 1, false; 4 => 4, 0, false;
            5..8 => 4, 4, false; 8 => 8, 0, false; 9..=12 => 8, 4, false; 13..16 => 8, 8, false;
            16 => 16, 0, false; 17..=24 => 16, 8, false; 25..32 => 16, 16, false;
            32 => 32, 0, false; 33..=40 => 32, 8, false; 41..=48 => 32, 16, false;
            49..64 => 32, 32, false; 64 => 64, 0, false; 65..=512 => 32, 32, true
        )
    };
    ($len:expr, $piece:ident => $call:expr, $other:expr, $($lens:pat => $word:literal, $last:literal, $many:literal);*) => {
        match $len {
            $(len @ $lens => {
                let $piece = crate::datatype::kernels::line::Piece::<$word, $last, $many> { len };
                $call
            })*
            _ => $other,
        }
    };
}
pub(super) use by_length;

/// Runs of one length in rounds, and where the stream has them.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    pub(super) stream: *mut u8,
    /// Bytes from one run to the next in the stream, where a round's runs and the rounds
    /// are one behind the other.
    pub(super) step: usize,
    /// Runs of a round.
    pub(super) count: usize,
    /// How often, and how far apart in memory.
    pub(super) rounds: Dim,
}

impl Rounds {
    /// The runs and the stream of a round.
    #[inline(always)]
    fn of<P: Places>(&self, places: P, round: usize) -> (P, *mut u8) {
        let stream = self.stream.wrapping_add(round * self.step * self.count);
        (places.moved(self.rounds.stride.wrapping_mul(round as isize)), stream)
    }
}

/// Copies runs of `len` bytes.
///
/// # Safety
/// [MEM] run `i` of each round is at its place, in memory that the caller may read (write
/// if not `PACK`), and the stream has room for (has) all of them; [RANGE] there are
/// `count` places.
#[inline(always)]
pub(super) unsafe fn by_width<S: Set, P: Places, const PACK: bool>(
    places: P,
    all: Rounds,
    len: usize,
    plan: &Plan,
) {
    // SAFETY: the caller's.
    unsafe {
        if plan.streaming && all.step == len && past::<S, P, PACK>(places, all, len) {
            return;
        }
        by_length!(
            len,
            piece => each::<S, P, _, _, _, PACK>(piece, places, all),
            long::<S, P, PACK>(places, all, len, plan)
        );
    }
}

/// Copies runs past the caches in whole lines, or elements, where these are found;
/// returns false, and copies nothing, where they are not.
///
/// # Safety
/// As [`by_width`]; runs are one behind the other in the stream.
#[inline(always)]
unsafe fn past<S: Set, P: Places, const PACK: bool>(places: P, all: Rounds, len: usize) -> bool {
    // (Without masks a line out of two runs takes longer than it saves where each is one.)
    let joined = if S::LEVEL == Level::Avx512 { LINE } else { 2 * LINE };
    let aligned = PACK && all.stream.addr().is_multiple_of(len);
    let lined = PACK && (joined..1024).contains(&len) && len * all.count >= 4096;
    let rows = !PACK && (4 * LINE..2048).contains(&len);
    let whole = !PACK && len < 4 * LINE && places.whole_lines(len);
    if !(lined || rows || whole || aligned && matches!(len, 4 | 8 | 16 | 32)) {
        return false;
    }
    for round in 0..all.rounds.count {
        let (places, stream) = all.of(places, round);
        // SAFETY: the caller's.
        unsafe {
            match len {
                _ if lined => lines::<S, P>(places, stream, len, all.count),
                _ if rows => rows_past::<S, P, true>(places, stream, len, all.count),
                _ if whole => rows_past::<S, P, false>(places, stream, len, all.count),
                4 => elements::<S, P, 4>(places, stream, all.count),
                8 => elements::<S, P, 8>(places, stream, all.count),
                16 => elements::<S, P, 16>(places, stream, all.count),
                _ => elements::<S, P, 32>(places, stream, all.count),
            }
        }
    }
    true
}

/// One run after the other, by words of one length.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn each<
    S: Set,
    P: Places,
    const WORD: usize,
    const LAST: usize,
    const MANY: bool,
    const PACK: bool,
>(
    piece: Piece<WORD, LAST, MANY>,
    places: P,
    all: Rounds,
) {
    let (step, count) = (all.step, all.count);
    // (Four a round: a taken branch takes as long as the copy of one.)
    let four = if MANY { 0 } else { count - count % 4 };
    for round in 0..all.rounds.count {
        let (places, mut stream) = all.of(places, round);
        for i in (0..four).step_by(4) {
            // SAFETY: the caller's.
            unsafe {
                if WORD == 4 && LAST == 0 && S::LEVEL > Level::Portable && step == WORD {
                    quad::<P, PACK>(places, i, stream);
                } else {
                    for k in 0..4 {
                        apart();
                        let stream = stream.wrapping_add(k * step);
                        piece.between::<S, PACK>(places.at(i + k), stream);
                    }
                }
            }
            stream = stream.wrapping_add(4 * step);
        }
        for i in four..count {
            apart();
            // SAFETY: the caller's.
            unsafe { piece.between::<S, PACK>(places.at(i), stream) };
            stream = stream.wrapping_add(step);
        }
    }
}

/// Four elements of 4 bytes from run `i` on, by fewer words of the stream.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn quad<P: Places, const PACK: bool>(places: P, i: usize, stream: *mut u8) {
    apart();
    // SAFETY: the caller's.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if PACK {
            use std::arch::x86_64 as x86;
            let (a, b) = (load::<i32>(places.at(i)), load::<i32>(places.at(i + 1)));
            let (c, d) = (load::<i32>(places.at(i + 2)), load::<i32>(places.at(i + 3)));
            return x86::_mm_storeu_si128(stream.cast(), x86::_mm_set_epi32(d, c, b, a));
        }
        for k in 0..2 {
            let (first, second) = (places.at(i + 2 * k), places.at(i + 2 * k + 1));
            let stream = stream.add(8 * k);
            if PACK {
                store::<u32>(stream, load(first));
                store::<u32>(stream.add(4), load(second));
            } else {
                let two = load::<u64>(stream).to_le();
                store::<u32>(first, (two as u32).to_le());
                store::<u32>(second, ((two >> 32) as u32).to_le());
            }
        }
    }
}

/// Packs one element after the other, past the caches.
///
/// # Safety
/// As [`by_width`]; [ALIGNED] the stream is aligned to an element.
#[inline(always)]
unsafe fn elements<S: Set, P: Places, const SIZE: usize>(places: P, stream: *mut u8, count: usize) {
    for i in 0..count {
        apart();
        // SAFETY: the caller's.
        unsafe { store_past::<S, SIZE>(places.at(i), stream.add(i * SIZE)) };
    }
}

/// Unpacks runs of a line and more, lines of memory past the caches; `ENDS` if runs may
/// begin and end within lines, which are asked for ahead of their use.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn rows_past<S: Set, P: Places, const ENDS: bool>(
    places: P,
    stream: *mut u8,
    len: usize,
    count: usize,
) {
    for i in 0..count {
        if ENDS {
            let ahead = places.ahead((i + 8).min(count - 1));
            prefetch_write(ahead);
            prefetch_write(ahead.wrapping_add(len - 1));
        }
        // SAFETY: the caller's.
        unsafe { copy_row_past::<S>(stream.add(i * len), places.at(i), len) };
    }
}

/// Long runs.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn long<S: Set, P: Places, const PACK: bool>(
    places: P,
    all: Rounds,
    len: usize,
    plan: &Plan,
) {
    let count = all.count;
    // (The processor asks for the rest itself once it sees that lines follow lines.)
    let ask = if plan.prefetch && places.far(len) { len.min(4 * LINE) } else { 0 };
    let ahead = (4096 / len).clamp(1, 8);
    // (What is in the first cache is copied faster by words.)
    let copied = len * count * all.rounds.count;
    // (Short ones side by side are one stream to the processor's prefetcher, and so is
    // what is packed.)
    let shortest = if !PACK && places.far(len) { STRING } else { 2 * STRING };
    let string = len >= shortest && copied > IN_FIRST && strings();
    for round in 0..all.rounds.count {
        let (places, stream) = all.of(places, round);
        for i in 0..count {
            prefetch_run(places.ahead((i + ahead).min(count - 1)), ask);
            // SAFETY: the caller's.
            unsafe {
                let (mem, stream) = (places.at(i), stream.add(i * all.step));
                let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
                if plan.streaming {
                    copy::<S, true>(from, to, len);
                } else if string {
                    copy_string::<S>(from, to, len);
                } else if len < LONGEST {
                    copy_row::<S>(from, to, len);
                } else {
                    copy::<S, false>(from, to, len);
                }
            }
        }
    }
}

/// Rows of so many bytes are copied as strings, as that takes some time to begin.
const STRING: usize = 2048;

/// Bytes of a side that the first cache has surely room for.
const IN_FIRST: usize = 16 << 10;

/// Rows of so many bytes are left to the system's `memcpy`.
const LONGEST: usize = 64 << 10;

/// Packs runs of a line and more in whole lines of the stream, wherever these
/// begin and end within runs.
///
/// # Safety
/// As [`by_width`]; `len` is a line or more.
#[inline(always)]
unsafe fn lines<S: Set, P: Places>(places: P, stream: *mut u8, len: usize, count: usize) {
    let total = len * count;
    let head = stream.align_offset(LINE).min(total);
    let (mut run, mut within, mut at) = (0, head, head);
    // (A page ahead, a run at a time; its last bytes too, for lines of memory are others.)
    let ahead = (4096 / len).max(2);
    // SAFETY: the caller's: runs are a line at least, so a line lies in two of
    // them at most, the second of which is there as the stream has the line.
    unsafe {
        copy_short::<S>(places.at(0), stream, head);
        while at + LINE <= total {
            if within >= len {
                (run, within) = (run + 1, within - len);
                let next = places.ahead(run + ahead);
                prefetch_run(next, len);
                prefetch(next.wrapping_add(len - 1));
            }
            let from = places.at(run);
            let left = len - within;
            let whole = if left >= LINE {
                load(from.add(within))
            } else {
                joint::<S>(from.add(within), places.at(run + 1), left)
            };
            write_line::<S, true>(stream.add(at), whole);
            (within, at) = (within + LINE, at + LINE);
        }
        // What is left of the last run.
        let from = places.at(count - 1).add(len - (total - at));
        copy_short::<S>(from, stream.add(at), total - at);
    }
}
