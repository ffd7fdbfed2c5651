//! Runs of one length, each at its place.

use super::line::{LINE, Piece, apart, copy, copy_row, prefetch, store, store_past, write_line};
use super::{Plan, Set};

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

/// Copies `count` runs of `len` bytes, `step` bytes apart in the stream.
///
/// # Safety
/// [MEM] run `i` is at its place, in memory that the caller may read (write if not
/// `PACK`), and the stream has room for (has) all of them; [RANGE] there are `count`
/// places.
#[inline(always)]
pub(super) unsafe fn by_width<S: Set, P: Places, const PACK: bool>(
    places: P,
    stream: *mut u8,
    step: usize,
    len: usize,
    count: usize,
    plan: &Plan,
) {
    let joined = step == len;
    // SAFETY: the caller's.
    unsafe {
        if PACK && joined && plan.streaming {
            let aligned = stream.addr().is_multiple_of(len);
            match len {
                // (Single lines apart are read faster if what is written waits in the caches.)
                WIDE..1024 if len * count >= 4096 => {
                    return lines::<S, P>(places, stream, len, count);
                }
                4 if aligned => return past::<S, P, 4>(places, stream, count),
                8 if aligned => return past::<S, P, 8>(places, stream, count),
                16 if aligned => return past::<S, P, 16>(places, stream, count),
                32 if aligned => return past::<S, P, 32>(places, stream, count),
                _ => {}
            }
        }
        by_length!(
            len,
            piece => each::<S, P, _, _, _, PACK>(piece, places, stream, step, count),
            long::<S, P, PACK>(places, stream, step, len, count, plan)
        );
    }
}

/// Runs from so many bytes on are packed past the caches in whole lines.
const WIDE: usize = 2 * LINE;

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
    mut stream: *mut u8,
    step: usize,
    count: usize,
) {
    // (Four a round: a taken branch takes as long as the copy of one.)
    let four = if MANY { 0 } else { count - count % 4 };
    for i in (0..four).step_by(4) {
        for k in 0..4 {
            apart();
            // SAFETY: the caller's.
            unsafe { piece.between::<S, PACK>(places.at(i + k), stream.wrapping_add(k * step)) };
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

/// Packs one element after the other, past the caches.
///
/// # Safety
/// As [`by_width`]; [ALIGNED] the stream is aligned to an element.
#[inline(always)]
unsafe fn past<S: Set, P: Places, const SIZE: usize>(places: P, stream: *mut u8, count: usize) {
    for i in 0..count {
        apart();
        // SAFETY: the caller's.
        unsafe { store_past::<S, SIZE>(places.at(i), stream.add(i * SIZE)) };
    }
}

/// Long runs.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn long<S: Set, P: Places, const PACK: bool>(
    places: P,
    stream: *mut u8,
    step: usize,
    len: usize,
    count: usize,
    plan: &Plan,
) {
    // (The processor asks for the rest itself once it sees that lines follow lines.)
    let ask = if plan.prefetch && places.far(len) { len.min(4 * LINE) } else { 0 };
    let ahead = (4096 / len).clamp(1, 8);
    for i in 0..count {
        let mut asked = 0;
        while asked < ask {
            prefetch(places.ahead((i + ahead).min(count - 1)).wrapping_add(asked));
            asked += LINE;
        }
        // SAFETY: the caller's.
        unsafe {
            let (mem, stream) = (places.at(i), stream.add(i * step));
            let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
            if plan.streaming {
                copy::<S, true>(from, to, len);
            } else if len < LONGEST {
                copy_row::<S>(from, to, len);
            } else {
                copy::<S, false>(from, to, len);
            }
        }
    }
}

/// Rows of so many bytes are left to the system's `memcpy`.
const LONGEST: usize = 64 << 10;

/// The line at `from`.
///
/// # Safety
/// [MEM] there are 64 bytes to read.
#[inline(always)]
unsafe fn line(from: *const u8) -> [u64; 8] {
    // SAFETY: [MEM]; unaligned.
    unsafe { from.cast::<[u64; 8]>().read_unaligned() }
}

/// Packs runs of a line and more in whole lines of the stream, wherever these
/// begin and end within runs.
///
/// # Safety
/// As [`by_width`]; `len` is a line or more.
#[inline(always)]
unsafe fn lines<S: Set, P: Places>(places: P, stream: *mut u8, len: usize, count: usize) {
    let total = len * count;
    let head = stream.align_offset(LINE).min(total);
    // (A line before it, the line, and what is copied beyond.)
    let mut joint = [[0u64; 8]; 3];
    let joint = joint.as_mut_ptr().cast::<u8>();
    let (mut run, mut within, mut at) = (0, head, head);
    let ahead = (1024 / len).max(4);
    // SAFETY: the caller's: runs are a line at least, so a line lies in two of
    // them at most, the second of which is there as the stream has the line.
    unsafe {
        std::ptr::copy_nonoverlapping(places.at(0), stream, head);
        while at + LINE <= total {
            if within >= len {
                (run, within) = (run + 1, within - len);
            }
            let from = places.at(run);
            prefetch(places.ahead(run + ahead).wrapping_add(within));
            let left = len - within;
            let whole = if left >= LINE {
                line(from.add(within))
            } else {
                store::<[u64; 8]>(joint.add(left), line(from.add(len - LINE)));
                store::<[u64; 8]>(joint.add(LINE + left), line(places.at(run + 1)));
                line(joint.add(LINE))
            };
            write_line::<S, true>(stream.add(at), whole);
            (within, at) = (within + LINE, at + LINE);
        }
        // What is left of the last run.
        if at < total {
            let from = places.at(count - 1).add(len - (total - at));
            std::ptr::copy_nonoverlapping(from, stream.add(at), total - at);
        }
    }
}
