//! Runs of one length, each at its place.

use super::line::{
    LINE, Word, apart, copy, copy_short, load, prefetch, store, store_past, write_line,
};
use super::{Plan, Set};

/// Where in memory run `i` is. A trait and no closure, as that would be compiled
/// without the set's instructions.
pub(super) trait Places: Copy {
    /// A compiler that sees the places makes shuffles of them, and not gathers, which
    /// are slower than loads.
    const SHUFFLED: bool = false;

    /// The place of run `i`, which is below the count.
    ///
    /// # Safety
    /// [RANGE] there is such a run.
    unsafe fn at(&self, i: usize) -> *mut u8;

    /// A place to ask for ahead of its use: of run `i`, if there is such a run.
    fn ahead(&self, i: usize) -> *const u8;

    /// Returns true if neighbours lie so far apart that they are worth asking for.
    fn far(&self) -> bool;
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
    fn far(&self) -> bool {
        // Neighbours beyond a quarter of a page have no prefetcher of their own.
        self.stride.unsigned_abs() >= 1024
    }
}

/// Elements of so many bytes, of which every second is a run: a stride that is a
/// constant, for which there are shuffles.
#[derive(Clone, Copy)]
pub(super) struct Alternate<const SIZE: usize> {
    pub(super) mem: *mut u8,
}

impl<const SIZE: usize> Places for Alternate<SIZE> {
    const SHUFFLED: bool = true;

    #[inline(always)]
    unsafe fn at(&self, i: usize) -> *mut u8 {
        self.mem.wrapping_add(i * 2 * SIZE)
    }

    #[inline(always)]
    fn ahead(&self, i: usize) -> *const u8 {
        self.mem.wrapping_add(i * 2 * SIZE)
    }

    #[inline(always)]
    fn far(&self) -> bool {
        false
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
            fn far(&self) -> bool {
                true
            }
        }
    )*};
}
listed!(i32 i64);

/// Copies `count` runs of `len` bytes, one behind the other in the stream.
///
/// # Safety
/// [MEM] run `i` is at its place, in memory that the caller may read (write if not
/// `PACK`), and the stream has room for (has) all of them; [RANGE] there are `count`
/// places.
#[inline(always)]
pub(super) unsafe fn by_width<S: Set, P: Places, const PACK: bool>(
    places: P,
    stream: *mut u8,
    len: usize,
    count: usize,
    plan: &Plan,
) {
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => words::<S, u8, P, PACK>(places, stream, count, plan),
            2 => words::<S, u16, P, PACK>(places, stream, count, plan),
            4 => words::<S, u32, P, PACK>(places, stream, count, plan),
            8 => words::<S, u64, P, PACK>(places, stream, count, plan),
            16 => words::<S, [u64; 2], P, PACK>(places, stream, count, plan),
            32 => words::<S, [u64; 4], P, PACK>(places, stream, count, plan),
            _ => blocks::<S, P, PACK>(places, stream, len, count, plan),
        }
    }
}

/// How many elements ahead of its use a line is asked for.
const AHEAD: usize = 32;

/// Runs of one element.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
pub(super) unsafe fn words<S: Set, W: Word, P: Places, const PACK: bool>(
    places: P,
    stream: *mut u8,
    count: usize,
    plan: &Plan,
) {
    let far = plan.prefetch && places.far();
    // SAFETY: the caller's.
    unsafe {
        if PACK && plan.streaming && W::SIZE >= 4 && stream.align_offset(W::SIZE) == 0 {
            if far {
                each::<S, W, P, PACK, true, true>(places, stream, count);
            } else {
                each::<S, W, P, PACK, true, false>(places, stream, count);
            }
            return;
        }
        if far {
            each::<S, W, P, PACK, false, true>(places, stream, count);
        } else {
            each::<S, W, P, PACK, false, false>(places, stream, count);
        }
    }
}

/// One element after the other.
///
/// # Safety
/// As [`by_width`]; [ALIGNED] the stream is aligned to an element if `PAST`.
#[inline(always)]
unsafe fn each<S: Set, W: Word, P: Places, const PACK: bool, const PAST: bool, const FAR: bool>(
    places: P,
    stream: *mut u8,
    count: usize,
) {
    for i in 0..count {
        if FAR {
            prefetch(places.ahead(i + AHEAD));
        }
        if !(P::SHUFFLED && PACK) {
            apart();
        }
        // SAFETY: the caller's.
        unsafe {
            let at = stream.add(i * W::SIZE);
            if PAST {
                store_past::<S, W>(at, load(places.at(i)));
            } else if PACK {
                store::<W>(at, load(places.at(i)));
            } else {
                store::<W>(places.at(i), load(at));
            }
        }
    }
}

/// Runs of any length.
///
/// # Safety
/// As [`by_width`].
#[inline(always)]
unsafe fn blocks<S: Set, P: Places, const PACK: bool>(
    places: P,
    stream: *mut u8,
    len: usize,
    count: usize,
    plan: &Plan,
) {
    if PACK && plan.streaming && (LINE..16 * LINE).contains(&len) && len * count >= 4096 {
        // SAFETY: the caller's.
        return unsafe { lines::<S, P>(places, stream, len, count) };
    }
    let past = plan.streaming && len >= 4 * LINE;
    let ask = if plan.prefetch && places.far() { len.min(8 * LINE) } else { 0 };
    for i in 0..count {
        let mut asked = 0;
        while asked < ask {
            prefetch(places.ahead((i + 8).min(count - 1)).wrapping_add(asked));
            asked += LINE;
        }
        // SAFETY: the caller's.
        unsafe {
            let (mem, stream) = (places.at(i), stream.add(i * len));
            let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
            if past {
                copy::<S, true>(from, to, len);
            } else {
                copy_short(from, to, len);
            }
        }
    }
}

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
