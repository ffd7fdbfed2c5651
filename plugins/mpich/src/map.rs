//! A communicator's ranks as a rank map: CH4's, read once when the communicator is made.
//! Regular maps are a formula; others are held as `RANKWAY_MAP_STRATEGY` says, and where that is
//! no less than a table of CH4's, which it keeps, that one is read.

use crate::boot::Pmi;
use crate::log::{abort, guarded};
use crate::nodes;
use rankway::rankmap::compact::Strategy;
use rankway::rankmap::{Model, RankMap};
use std::ffi::{c_int, c_void};

/// What C sees of a map: ranks below `affine` are `first + step · rank`, others stand in a
/// table of CH4's where it has one, or are asked for here.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct rkw_map {
    affine: u32,
    first: u32,
    step: u32,
    table: *const c_int,
    map: *mut c_void,
}

impl rkw_map {
    /// As the C half's `rkw_lpid`.
    ///
    /// # Safety
    /// The map is C's own, and of this rank.
    pub(crate) unsafe fn lpid(&self, rank: u32) -> u32 {
        if rank < self.affine {
            return self.first.wrapping_add(self.step.wrapping_mul(rank));
        }
        match (self.table.is_null(), self.map.is_null()) {
            // SAFETY: the caller's.
            (false, _) => unsafe { *self.table.add(rank as usize) as u32 },
            // SAFETY: made by `rkw_map_read`.
            (_, false) => unsafe { rkw_map_lpid(self.map, rank as c_int) },
            _ => rank,
        }
    }

    /// The map of its `size` ranks, shared with the communicator where that holds one.
    ///
    /// # Safety
    /// As [`rkw_map::lpid`], of all these ranks.
    pub(crate) unsafe fn ranks(&self, size: c_int) -> RankMap {
        if self.map.is_null() {
            // SAFETY: the caller's.
            return held((0..size).map(|rank| unsafe { self.lpid(rank as u32) }));
        }
        // SAFETY: a [`Held`], as long as the communicator.
        unsafe { Held::at(self.map) }.map.clone()
    }
}

type LpidOf = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The map of these lpids as `RANKWAY_MAP_STRATEGY` has it.
fn held(lpids: impl IntoIterator<Item = u32>) -> RankMap {
    let map = nodes::map_of(lpids);
    map.held_as(strategy()).unwrap_or_else(|e| abort(1, &e.to_string()))
}

fn strategy() -> Option<Strategy> {
    Strategy::from_env().unwrap_or_else(|e| abort(1, &e.to_string()))
}

/// A map that is no formula, or has members in other jobs.
struct Held {
    map: RankMap,
    jobs: Box<[u64]>,
}

impl Held {
    /// What C keeps of it, until [`rkw_map_free`].
    fn into_raw(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
    }

    /// # Safety
    /// From [`Held::into_raw`], not freed as long as it is used.
    unsafe fn at<'a>(map: *const c_void) -> &'a Held {
        // SAFETY: the caller's.
        unsafe { &*map.cast::<Held>() }
    }
}

/// The other jobs that have members in a map, which holds them.
fn held_jobs(map: &RankMap) -> Box<[u64]> {
    let Some(launcher) = Pmi::current().filter(|launcher| launcher.other_jobs.has_met()) else {
        return Box::default();
    };
    let mut jobs = Vec::new();
    for job in map.iter().filter_map(|member| launcher.other_jobs.job_of(member.lpid)) {
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    launcher.other_jobs.hold(&jobs);
    jobs.into()
}

/// Reads the map of `size` ranks, whose lpids `lpid_of` tells.
///
/// # Safety
/// \[MPI\]: `lpid_of` may be called with `comm` and each rank; `to` can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_read(
    size: c_int,
    lpid_of: LpidOf,
    comm: *mut c_void,
    to: *mut rkw_map,
) {
    guarded(|| {
        // SAFETY: [MPI].
        let map = held((0..size).map(|rank| unsafe { lpid_of(comm, rank) } as u32));
        let lpid = |rank| map.get(rank).map_or(0, |process| process.lpid);
        let (first, second) = (lpid(0), lpid(1));
        let step = if size > 1 { second.wrapping_sub(first) } else { 0 };
        let formula = matches!(map.model(), Model::Direct | Model::Offset | Model::Stride);
        let (affine, jobs) = (if formula { map.len() } else { 0 }, held_jobs(&map));
        let map = match formula && jobs.is_empty() {
            true => std::ptr::null_mut(),
            false => Held { map, jobs }.into_raw(),
        };
        let held = rkw_map { affine, first, step, table: std::ptr::null(), map };
        // SAFETY: [MPI].
        unsafe { to.write(held) };
    });
}

/// The lpid of a rank of a map that is no formula.
///
/// # Safety
/// `map` is what [`rkw_map_read`] made, or [`rkw_map_pack`], not freed yet.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_lpid(map: *const c_void, rank: c_int) -> u32 {
    // SAFETY: the caller's.
    let held = unsafe { Held::at(map) };
    held.map.get(rank as u32).map_or(u32::MAX, |process| process.lpid)
}

/// The map of `size` ranks, whose lpids a table of CH4's has; null where that one is to stay, as
/// a short one is, and one than which the map is no shorter, unless a strategy is asked for.
///
/// # Safety
/// \[MPI\]: the table is as long.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_pack(size: c_int, table: *const c_int) -> *mut c_void {
    let bytes = size as usize * size_of::<c_int>();
    guarded(|| {
        let Some(strategy) = strategy() else { return std::ptr::null_mut() };
        let may_stay = strategy == Strategy::Auto;
        if may_stay && bytes <= Strategy::TABLE_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: [MPI].
        let table = unsafe { std::slice::from_raw_parts(table, size as usize) };
        let map = held(table.iter().map(|&lpid| lpid as u32));
        if may_stay && map.bytes() >= bytes {
            return std::ptr::null_mut();
        }
        Held { map, jobs: Box::default() }.into_raw()
    })
}

/// Writes CH4's table of a map that [`rkw_map_pack`] made.
///
/// # Safety
/// As [`rkw_map_lpid`]; the table is as long as it was.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_write(map: *const c_void, table: *mut c_int) {
    // SAFETY: the caller's.
    let held = unsafe { Held::at(map) };
    for (rank, member) in held.map.iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { table.add(rank).write(member.lpid as c_int) };
    }
}

/// The same map once more, for another communicator: nothing is copied.
///
/// # Safety
/// As [`rkw_map_lpid`], of a map that [`rkw_map_pack`] made.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_share(map: *const c_void) -> *mut c_void {
    // SAFETY: the caller's.
    let held = unsafe { Held::at(map) };
    Held { map: held.map.clone(), jobs: Box::default() }.into_raw()
}

/// Frees a map.
///
/// # Safety
/// As [`rkw_map_lpid`], or null; not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_free(map: *mut c_void) {
    if !map.is_null() {
        // SAFETY: made by `Held::into_raw`.
        let held = unsafe { Box::from_raw(map.cast::<Held>()) };
        if let Some(launcher) = Pmi::current() {
            launcher.other_jobs.release(&held.jobs);
        }
    }
}
