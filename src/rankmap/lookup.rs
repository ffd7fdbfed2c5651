//! The hot form: rank → 64-bit address-vector entry.
//!
//! A [`Lookup`] is what a communicator keeps next to its [`RankMap`]. The
//! address vector's pointer is folded in: an affine map is one multiply and two
//! loads away from its entry, behind one predictable test; every other form is
//! one indirect tail call away from a body that is as short as its formula.
//! New forms add a body and nothing else. Counts on x86-64, without `ret`:
//! affine 5, blockstride 9, from inside a block on 10, two digits of any step 10
//! and 11, lut 8 (a strided view of one 9), mlut 10 (11); of two runs in two process
//! groups, as two merged worlds are, 8.
//!
//! # Contracts
//! - **\[RANK\]** The rank is below the map's size.
//! - **\[LIVE\]** The directory, with the arrays it points to, and the map's tables
//!   live and stay where they are, as [`Lookup::new`] asks for.
//! - **\[BODY\]** A body runs for the `Lookup` that chose it, whose fields are as
//!   [`Lookup::new`] set them.

use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::affine::{Affine, Piece};
use super::compact::Compact;
use super::map::{Form, RankMap};
use super::mixed::Mixed;
use super::reciprocal::{floor, reciprocal};
use super::regular::Regular;
use super::segments::Run;
use super::several::Several;
use super::table::View;

/// The bodies a caller may want to inline, as a constant parameter of
/// [`Lookup::entry_by`]. Any other body goes by [`body::OTHER`].
pub mod body {
    /// Direct, offset, stride: resolved inline everywhere.
    pub const AFFINE: u32 = 0;
    /// Through the function pointer.
    pub const OTHER: u32 = 1;
    /// Contiguous blocks at a stride, of sizes for which a product of 64 bits is exact.
    pub const BLOCK: u32 = 2;
    /// A table of lpids.
    pub const LUT: u32 = 3;
    /// A table of (process group, lpid).
    pub const MLUT: u32 = 4;
}
use body::AFFINE;

const ENTRY: i64 = size_of::<AtomicU64>() as i64;

/// How to find the entry of a rank: 64 bytes, one cache line if so placed.
///
/// Address arithmetic wraps: `base` may point outside its array where a phase
/// or a negative stride brings it back for every rank of the map.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Lookup {
    /// 0 for the affine family; anything else goes through `select`.
    kind: u32,
    /// Ranks before rank 0 in its box (three digits and more), the
    /// directory's shift (segments), or the ranks of the first of two runs.
    phase: u32,
    /// Entry of rank 0 (affine, lut: of lpid 0; mlut: the directory).
    base: *const u8,
    /// Bytes from one rank's entry to the next; in a table view, to the next
    /// element; of a tile, back to the one before.
    stride: isize,
    /// Body for every form that is not affine.
    select: Select,
    /// Parameters of `select`.
    params: [Param; 4],
}

/// A parameter of a body, which alone knows which it is.
#[derive(Clone, Copy)]
#[repr(C)]
union Param {
    word: u64,
    table: *const u8,
}

type Select = unsafe extern "C" fn(*const Lookup, usize) -> u64;

const _: () = assert!(size_of::<Lookup>() <= 64);

// SAFETY: the pointers are read-only, and what they point to (address-vector
// tables of atomics, immutable rank-map tables) may be shared by threads, and
// outlives the lookup: [LIVE].
unsafe impl Send for Lookup {}
// SAFETY: as above; no method changes a field.
unsafe impl Sync for Lookup {}

impl core::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lookup")
            .field("affine", &(self.kind == AFFINE))
            .field("base", &self.base)
            .field("stride", &self.stride)
            .finish_non_exhaustive()
    }
}

impl Lookup {
    /// Where the fields stand, in bytes from the start, for headers in other
    /// languages: kind, phase, base, stride, select, params.
    #[doc(hidden)]
    pub const LAYOUT: [usize; 6] = [
        offset_of!(Lookup, kind),
        offset_of!(Lookup, phase),
        offset_of!(Lookup, base),
        offset_of!(Lookup, stride),
        offset_of!(Lookup, select),
        offset_of!(Lookup, params),
    ];

    /// Folds a map and the address-vector directory into a lookup.
    ///
    /// `directory[pg]` points to the entries of process group `pg`, one 64-bit
    /// atomic for each lpid. For a map of a single group the pointer is read
    /// here once, and so are those of two runs; any other mlut reads it at each
    /// lookup. An empty map may have a null directory.
    ///
    /// # Safety
    /// For as long as [`entry`](Self::entry) is called on the result or a copy:
    /// - `directory` has a slot for every process group of `map`, which points to
    ///   an array with an entry for every lpid of `map` in that group, and does
    ///   not move (nor do the arrays);
    /// - `map`, or a clone of it, is alive: its tables are not copied. The owner
    ///   keeps the map next to the lookup.
    pub unsafe fn new(map: &RankMap, directory: *const AtomicPtr<AtomicU64>) -> Lookup {
        let mut lookup = Lookup {
            kind: AFFINE,
            phase: 0,
            base: core::ptr::null(),
            stride: 0,
            select: select_none,
            params: [Param { word: 0 }; 4],
        };
        if map.size == 0 {
            return lookup;
        }
        if let Form::Mlut(view) = &map.form {
            lookup.kind = if view.step == 1 { body::MLUT } else { body::OTHER };
            lookup.base = directory.cast();
            lookup.params[0].table = start_of(view);
            lookup.stride = view.step as isize * size_of::<u64>() as isize;
            lookup.select = if view.step == 1 { select_mlut } else { select_mlut_strided };
            return lookup;
        }
        if let Form::Several(several) = &map.form {
            // SAFETY: the caller's.
            unsafe { lookup.set_several(map, several, directory) };
            return lookup;
        }
        // SAFETY: [LIVE]: there is a slot for every process group of the map.
        let slot = unsafe { &*directory.add(map.pg as usize) };
        let table: *const u8 = slot.load(Ordering::Acquire).cast_const().cast();
        match &map.form {
            Form::Regular(Regular::Affine(affine)) => lookup.set_affine(table, *affine),
            Form::Regular(Regular::Block(block)) => {
                lookup.set_mixed(map.size, table, &block.widen(), core::ptr::null())
            }
            Form::Regular(Regular::Mixed(mixed)) => {
                lookup.set_mixed(map.size, table, mixed, &**mixed)
            }
            Form::Regular(Regular::Tile(tile)) => {
                let length = tile.lpids.len();
                lookup.kind = body::OTHER;
                lookup.base = table;
                lookup.stride = -((length * size_of::<u32>()) as isize);
                lookup.params[0].word = reciprocal(length as u32);
                lookup.params[1].word = (i64::from(tile.growth) * ENTRY) as u64;
                lookup.params[2].table = tile.lpids.as_ptr().cast();
                lookup.select = select_tile;
            }
            Form::Regular(Regular::Segments(segments)) => {
                lookup.kind = body::OTHER;
                lookup.phase = segments.shift;
                lookup.base = table;
                lookup.params[0].table = segments.runs.as_ptr().cast();
                lookup.params[1].table = segments.directory.as_ptr().cast();
                lookup.select = select_segments;
            }
            Form::Compact(compact) => {
                lookup.kind = body::OTHER;
                lookup.base = table;
                lookup.params[0].table = core::ptr::from_ref::<Compact>(compact).cast();
                lookup.select = select_compact;
            }
            Form::Lut(view) => {
                lookup.kind = if view.step == 1 { body::LUT } else { body::OTHER };
                lookup.base = table;
                lookup.params[0].table = start_of(view);
                lookup.stride = view.step as isize * size_of::<u32>() as isize;
                lookup.select = if view.step == 1 { select_lut } else { select_lut_strided };
            }
            Form::Several(_) | Form::Mlut(_) => {}
        }
        lookup
    }

    /// Two runs of one step, each in a group: the entries of both at rank 0. Of any other
    /// map of several groups the form is asked.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    unsafe fn set_several(
        &mut self,
        map: &RankMap,
        several: &Several,
        directory: *const AtomicPtr<AtomicU64>,
    ) {
        self.kind = body::OTHER;
        let mut pieces = map.iter();
        let two = [pieces.next_piece(), pieces.next_piece(), pieces.next_piece()];
        if let [Some(one), Some(other), None] = two
            && (one.len == 1 || other.len == 1 || one.step == other.step)
        {
            let step = if one.len == 1 { other.step } else { one.step };
            let entry = |piece: Piece| {
                // SAFETY: [LIVE]: there is a slot for every process group of the map.
                let slot = unsafe { &*directory.add(piece.first.pg as usize) };
                let table: *const u8 = slot.load(Ordering::Acquire).cast_const().cast();
                table.wrapping_add(piece.first.lpid as usize * ENTRY as usize)
            };
            self.stride = step as isize * ENTRY as isize;
            self.phase = one.len;
            self.base = entry(one);
            let before = (one.len as usize).wrapping_mul(self.stride as usize);
            self.params[0].table = entry(other).wrapping_sub(before);
            self.select = select_halves;
            return;
        }
        self.base = directory.cast();
        self.params[0].table = core::ptr::from_ref(several).cast();
        self.select = select_several;
    }

    fn set_affine(&mut self, table: *const u8, affine: Affine) {
        self.base = table.wrapping_add(affine.first as usize * ENTRY as usize);
        self.stride = affine.step as isize * ENTRY as isize;
    }

    /// `base` such that the terms in bytes, of the rank for the first and of
    /// `x` for the floors, add up.
    fn set_mixed(&mut self, size: u32, table: *const u8, mixed: &Mixed, heap: *const Mixed) {
        let phase = u64::from(mixed.phase);
        let floors =
            mixed.growth(phase).wrapping_sub(i64::from(mixed.step[0]).wrapping_mul(phase as i64));
        let origin = i64::from(mixed.first).wrapping_sub(floors);
        // A product of 64 bits leaves all registers but its own as they are.
        let short = match (mixed.digits, mixed.phase, mixed.step[0]) {
            (2, 0, 1) => short_reciprocal(mixed.radix[0], size),
            _ => None,
        };
        self.kind = if short.is_some() { body::BLOCK } else { body::OTHER };
        self.phase = mixed.phase;
        self.base = table.wrapping_add(origin.wrapping_mul(ENTRY) as usize);
        self.stride = mixed.step[0] as isize * ENTRY as isize;
        if mixed.digits == 4 {
            for (k, &radix) in mixed.radix.iter().enumerate() {
                self.params[k].word = reciprocal(radix);
            }
            self.params[3].table = heap.cast();
        } else {
            for (k, (c, radix)) in mixed.terms().enumerate() {
                self.params[2 * k].word = reciprocal(radix);
                self.params[2 * k + 1].word = c.wrapping_mul(ENTRY) as u64;
            }
        }
        if mixed.digits == 2 {
            self.params[2].word = phase;
        }
        if let Some(short) = short {
            self.params[0].word = short;
        }
        self.select = match (mixed.digits, mixed.phase, mixed.step[0]) {
            (2, 0, 1) if short.is_some() => select_block,
            (2, 0, 1) => select_block_long,
            (2, _, 1) => select_block_phase,
            (2, 0, _) => select_two,
            (2, ..) => select_two_phase,
            (3, ..) => select_three,
            _ => select_four,
        };
    }

    /// The entry of `rank`, 0 if that peer was never inserted.
    ///
    /// # Safety
    /// `rank` is below the map's size, and what [`new`](Self::new) asks for
    /// holds.
    #[inline(always)]
    pub unsafe fn entry(&self, rank: usize) -> u64 {
        if self.kind == AFFINE {
            // SAFETY: [RANK], [LIVE]; the kind was tested.
            unsafe { self.affine_entry(rank) }
        } else {
            // SAFETY: [RANK], [LIVE]; [BODY]: `select` was chosen with what it reads.
            unsafe { (self.select)(self, rank) }
        }
    }

    /// The [`body`] that finds this lookup's entries.
    pub fn body(&self) -> u32 {
        self.kind
    }

    /// [`entry`](Self::entry) by a body known beforehand, inlined and without
    /// the test: for callers that are compiled once for each body.
    ///
    /// # Safety
    /// As [`entry`](Self::entry), and `BODY` is [`body`](Self::body).
    #[inline(always)]
    pub unsafe fn entry_by<const BODY: u32>(&self, rank: usize) -> u64 {
        // SAFETY: [RANK], [LIVE], and [BODY] as the caller tested it.
        unsafe {
            match BODY {
                body::AFFINE => self.affine_entry(rank),
                body::BLOCK => select_block(self, rank),
                body::LUT => select_lut(self, rank),
                body::MLUT => select_mlut(self, rank),
                _ => (self.select)(self, rank),
            }
        }
    }

    /// [`entry`](Self::entry) of a map known to be affine, without the test.
    ///
    /// # Safety
    /// As [`entry`](Self::entry), and [`body`](Self::body) is [`body::AFFINE`].
    #[inline(always)]
    pub unsafe fn affine_entry(&self, rank: usize) -> u64 {
        // SAFETY: [RANK], [LIVE].
        unsafe { load(self.base.wrapping_add(rank.wrapping_mul(self.stride as usize))) }
    }
}

/// # Safety
/// `entry` points to an entry of a live address vector.
#[inline(always)]
unsafe fn load(entry: *const u8) -> u64 {
    // SAFETY: entries are aligned atomics; [LIVE].
    unsafe { (*entry.cast::<AtomicU64>()).load(Ordering::Acquire) }
}

fn start_of<T>(view: &View<T>) -> *const u8 {
    view.table.entries.as_ptr().wrapping_add(view.start as usize).cast()
}

/// `⌈2^32 / radix⌉`, if `⌊x / radix⌋` is its product with `x` without the low 32 bits for
/// all `x` below `size`. The product is above `x * 2^32 / radix` by `x * excess / radix`,
/// which leaves the floor as it is while `x * excess` is below 2^32.
fn short_reciprocal(radix: u32, size: u32) -> Option<u64> {
    let short = (1_u64 << 32).div_ceil(u64::from(radix));
    let excess = short * u64::from(radix) - (1 << 32);
    (u64::from(size) * excess <= 1 << 32).then_some(short)
}

// The bodies. Each is called through `Lookup::entry` only. By [BODY], [LIVE] and
// [RANK] the entry that one finds is one of the map's.

unsafe extern "C" fn select_none(_: *const Lookup, _: usize) -> u64 {
    0
}

/// Contiguous blocks at a stride, the paper's blockstride, by a short reciprocal.
#[inline]
unsafe extern "C" fn select_block(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let turns = (rank as u64).wrapping_mul(l.params[0].word) >> 32;
        let block = l.base.wrapping_add((turns as usize).wrapping_mul(l.params[1].word as usize));
        load(block.wrapping_add(rank.wrapping_mul(ENTRY as usize)))
    }
}

/// The same by a long one.
unsafe extern "C" fn select_block_long(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let turns = floor(rank, l.params[0].word);
        let block = l.base.wrapping_add(turns.wrapping_mul(l.params[1].word as usize));
        load(block.wrapping_add(rank.wrapping_mul(ENTRY as usize)))
    }
}

/// The same from inside a block on: `base` takes back the phase for the rank,
/// the floor needs it.
unsafe extern "C" fn select_block_phase(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let turns = floor(rank + l.params[2].word as usize, l.params[0].word);
        let block = l.base.wrapping_add(turns.wrapping_mul(l.params[1].word as usize));
        load(block.wrapping_add(rank.wrapping_mul(ENTRY as usize)))
    }
}

unsafe extern "C" fn select_two(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let turns = floor(rank, l.params[0].word);
        let inside = l.base.wrapping_add(rank.wrapping_mul(l.stride as usize));
        load(inside.wrapping_add(turns.wrapping_mul(l.params[1].word as usize)))
    }
}

unsafe extern "C" fn select_two_phase(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let turns = floor(rank + l.params[2].word as usize, l.params[0].word);
        let inside = l.base.wrapping_add(rank.wrapping_mul(l.stride as usize));
        load(inside.wrapping_add(turns.wrapping_mul(l.params[1].word as usize)))
    }
}

unsafe extern "C" fn select_three(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK].
    unsafe {
        let l = &*lookup;
        let x = rank + l.phase as usize;
        let one = floor(x, l.params[0].word).wrapping_mul(l.params[1].word as usize);
        let two = floor(x, l.params[2].word).wrapping_mul(l.params[3].word as usize);
        let inside = l.base.wrapping_add(rank.wrapping_mul(l.stride as usize));
        load(inside.wrapping_add(one).wrapping_add(two))
    }
}

/// Four digits: the factors come from the map's own form.
unsafe extern "C" fn select_four(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[3] is the map's `Mixed`.
    unsafe {
        let l = &*lookup;
        let step = &(*l.params[3].table.cast::<Mixed>()).step;
        let x = rank + l.phase as usize;
        let factor = |k: usize| (step[k] as isize).wrapping_sub(step[k - 1] as isize) as usize;
        let one = floor(x, l.params[0].word).wrapping_mul(factor(1));
        let two = floor(x, l.params[1].word).wrapping_mul(factor(2));
        let three = floor(x, l.params[2].word).wrapping_mul(factor(3));
        let turns = one.wrapping_add(two).wrapping_add(three).wrapping_mul(ENTRY as usize);
        let inside = l.base.wrapping_add(rank.wrapping_mul(l.stride as usize));
        load(inside.wrapping_add(turns))
    }
}

unsafe extern "C" fn select_tile(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[2] is the tile, and `stride` bytes back for each
    // whole tile lead from `rank` to the place in it.
    unsafe {
        let l = &*lookup;
        let tiles = floor(rank, l.params[0].word);
        let back = tiles.wrapping_mul(l.stride as usize);
        let place = l.params[2].table.cast::<u32>().wrapping_add(rank).wrapping_byte_add(back);
        let grown = l.base.wrapping_add(tiles.wrapping_mul(l.params[1].word as usize));
        load(grown.wrapping_add((*place as usize).wrapping_mul(ENTRY as usize)))
    }
}

unsafe extern "C" fn select_segments(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params are the runs and the directory, which has one
    // more element than there are buckets.
    unsafe {
        let l = &*lookup;
        let runs = l.params[0].table.cast::<Run>();
        let bucket = l.params[1].table.cast::<u32>().add(rank >> l.phase);
        let (mut low, mut high) = (*bucket as usize, *bucket.add(1) as usize);
        while low < high {
            let middle = high - (high - low) / 2;
            if (*runs.add(middle)).start as usize <= rank {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let run = &*runs.add(low);
        let lpid = Affine { first: run.first, step: run.step }.get(rank as u32 - run.start);
        load(l.base.add(lpid as usize * ENTRY as usize))
    }
}

unsafe extern "C" fn select_compact(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the compact map, behind the reference count
    // that the owner of the map holds, and its lpids are the map's.
    unsafe {
        let l = &*lookup;
        let lpid = (*l.params[0].table.cast::<Compact>()).select(rank as u32);
        load(l.base.add(lpid as usize * ENTRY as usize))
    }
}

#[inline]
unsafe extern "C" fn select_lut(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the table from rank 0 on.
    unsafe {
        let l = &*lookup;
        let lpid = *l.params[0].table.cast::<u32>().add(rank);
        load(l.base.add(lpid as usize * ENTRY as usize))
    }
}

unsafe extern "C" fn select_lut_strided(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the table at rank 0.
    unsafe {
        let l = &*lookup;
        let element = l.params[0].table.wrapping_add(rank.wrapping_mul(l.stride as usize));
        let lpid = *element.cast::<u32>();
        load(l.base.add(lpid as usize * ENTRY as usize))
    }
}

/// Two runs, each in a process group: ranks from `phase` on are in the second.
unsafe extern "C" fn select_halves(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the second's entry at rank 0.
    unsafe {
        let l = &*lookup;
        let base = if rank < l.phase as usize { l.base } else { l.params[0].table };
        load(base.wrapping_add(rank.wrapping_mul(l.stride as usize)))
    }
}

unsafe extern "C" fn select_several(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the map's form, behind the reference count
    // that the owner of the map holds; base is the directory.
    unsafe {
        let l = &*lookup;
        let process = (*l.params[0].table.cast::<Several>()).get(rank as u32);
        let slot = &*l.base.cast::<AtomicPtr<AtomicU64>>().add(process.pg as usize);
        let table = slot.load(Ordering::Acquire).cast_const().cast::<u8>();
        load(table.add(process.lpid as usize * ENTRY as usize))
    }
}

#[inline(always)]
unsafe fn mlut_entry(lookup: &Lookup, packed: *const u64) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; `packed` is an element of the table, and its halves
    // are loaded one by one, which takes an instruction less than to part them; base is
    // the directory.
    unsafe {
        let [lpid, pg] = if cfg!(target_endian = "little") { [0, 1] } else { [1, 0] };
        let half = |k: usize| *packed.cast::<u32>().add(k) as usize;
        let slot = &*lookup.base.cast::<AtomicPtr<AtomicU64>>().add(half(pg));
        let table = slot.load(Ordering::Acquire).cast_const().cast::<u8>();
        load(table.add(half(lpid) * ENTRY as usize))
    }
}

#[inline]
unsafe extern "C" fn select_mlut(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the table from rank 0 on.
    unsafe {
        let l = &*lookup;
        mlut_entry(l, l.params[0].table.cast::<u64>().add(rank))
    }
}

unsafe extern "C" fn select_mlut_strided(lookup: *const Lookup, rank: usize) -> u64 {
    // SAFETY: [BODY], [LIVE], [RANK]; params[0] is the table at rank 0.
    unsafe {
        let l = &*lookup;
        let element = l.params[0].table.wrapping_add(rank.wrapping_mul(l.stride as usize));
        mlut_entry(l, element.cast::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_short_reciprocal_is_exact_where_there_is_one(
            radix in 1..=u32::MAX,
            small in 1..5000_u32,
            size in 1..=u32::MAX,
            x: u32,
        ) {
            for radix in [radix, small] {
                let Some(short) = short_reciprocal(radix, size) else { continue };
                let whole = x % size / radix * radix;
                for x in [x % size, size - 1, whole, whole.saturating_sub(1)] {
                    prop_assert_eq!((u64::from(x) * short) >> 32, u64::from(x / radix));
                }
            }
        }
    }

    #[test]
    fn blocks_of_usual_jobs_have_a_short_reciprocal() {
        for radix in 1..=1024 {
            assert!(short_reciprocal(radix, 1 << 22).is_some(), "{radix}");
        }
        assert!(short_reciprocal(1 << 20, u32::MAX).is_some());
        assert!(short_reciprocal(3 << 28, u32::MAX).is_none());
    }
}
