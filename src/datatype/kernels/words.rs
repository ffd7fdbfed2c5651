//! Runs of one length, each at its place.

use super::line::{LINE, Word, copy, copy_short, load, prefetch, store, write_line};
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

/// Runs at the offsets of a table, in units.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a, T> {
    pub(super) mem: *mut u8,
    pub(super) unit: isize,
    pub(super) offsets: &'a [T],
}

macro_rules! listed {
    ($($type:ty)*) => {$(
        impl Places for Listed<'_, $type> {
            #[inline(always)]
            unsafe fn at(&self, i: usize) -> *mut u8 {
                // SAFETY: [RANGE].
                let offset = unsafe { *self.offsets.get_unchecked(i) };
                self.mem.wrapping_offset(self.unit * offset as isize)
            }

            #[inline(always)]
            fn ahead(&self, i: usize) -> *const u8 {
                let offset = self.offsets.get(i).copied().unwrap_or(0);
                self.mem.wrapping_offset(self.unit * offset as isize)
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
            64 => words::<S, [u64; 8], P, PACK>(places, stream, count, plan),
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
    let n = LINE / W::SIZE;
    let far = plan.prefetch && places.far();
    let mut i = 0;
    // SAFETY: the caller's; elements before `i` are done.
    unsafe {
        if PACK && plan.streaming && stream.align_offset(W::SIZE) == 0 {
            let lead = (stream.align_offset(LINE) / W::SIZE).min(count);
            while i < lead {
                store::<W>(stream.add(i * W::SIZE), load(places.at(i)));
                i += 1;
            }
            while i + n <= count {
                let mut line = [0u64; 8];
                let words = line.as_mut_ptr().cast::<u8>();
                for k in 0..n {
                    if far {
                        prefetch(places.ahead(i + k + AHEAD));
                    }
                    store::<W>(words.add(k * W::SIZE), load(places.at(i + k)));
                }
                write_line::<S, true>(stream.add(i * W::SIZE), line);
                i += n;
            }
        }
        while i < count {
            let at = stream.add(i * W::SIZE);
            if far {
                prefetch(places.ahead(i + AHEAD));
            }
            let (from, to) = if PACK { (places.at(i), at) } else { (at, places.at(i)) };
            store::<W>(to, load(from));
            i += 1;
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
    if PACK && plan.streaming && (LINE..16 * LINE).contains(&len) {
        // SAFETY: the caller's.
        return unsafe { lines::<S, P>(places, stream, len, count, plan) };
    }
    let past = plan.streaming && len >= 16 * LINE;
    let ask = if plan.prefetch && places.far() { len.min(8 * LINE) } else { 0 };
    for i in 0..count {
        let mut asked = 0;
        while asked < ask {
            prefetch(places.ahead(i + 8).wrapping_add(asked));
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
unsafe fn lines<S: Set, P: Places>(
    places: P,
    stream: *mut u8,
    len: usize,
    count: usize,
    plan: &Plan,
) {
    let total = len * count;
    let head = stream.align_offset(LINE).min(total);
    // (A line before it, the line, and what is copied beyond.)
    let mut joint = [[0u64; 8]; 3];
    let joint = joint.as_mut_ptr().cast::<u8>();
    let (mut run, mut within, mut at) = (0, head, head);
    let ahead = (4096 / len).max(2);
    // SAFETY: the caller's: runs are a line at least, so a line lies in two of
    // them at most, the second of which is there as the stream has the line.
    unsafe {
        std::ptr::copy_nonoverlapping(places.at(0), stream, head);
        while at + LINE <= total {
            if within >= len {
                (run, within) = (run + 1, within - len);
            }
            let from = places.at(run);
            if plan.prefetch {
                prefetch(places.ahead(run + ahead).wrapping_add(within));
            }
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
