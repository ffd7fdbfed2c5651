//! A communicator's ranks as a rank map: CH4's, read once when the communicator is
//! made. Regular maps are a formula, the others are held as `RANKWAY_MAP_STRATEGY` says.

use crate::log::{abort, guarded};
use rankway::rankmap::compact::Strategy;
use rankway::rankmap::{Detector, Model, RankMap};
use std::ffi::{c_int, c_void};

/// What C sees of a map: ranks below `affine` are `first + step · rank`, others are
/// asked for here.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct rkw_map {
    affine: u32,
    first: u32,
    step: u32,
    map: *mut c_void,
}

pub(crate) type LpidOf = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The map of `size` ranks, whose lpids `lpid_of` tells.
///
/// # Safety
/// \[MPI\]: `lpid_of` may be called with `comm` and each rank.
pub(crate) unsafe fn map_of(size: c_int, lpid_of: LpidOf, comm: *mut c_void) -> RankMap {
    let mut map = Detector::new();
    for rank in 0..size {
        // SAFETY: [MPI].
        map.push(unsafe { lpid_of(comm, rank) } as u32);
    }
    let map = map.finish().unwrap_or_else(|e| abort(1, &e.to_string()));
    let strategy = Strategy::from_env().unwrap_or_else(|e| abort(1, &e.to_string()));
    map.held_as(strategy).unwrap_or_else(|e| abort(1, &e.to_string()))
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
        let map = unsafe { map_of(size, lpid_of, comm) };
        let lpid = |rank| map.get(rank).map_or(0, |process| process.lpid);
        let (first, second) = (lpid(0), lpid(1));
        let step = if size > 1 { second.wrapping_sub(first) } else { 0 };
        let held = if matches!(map.model(), Model::Direct | Model::Offset | Model::Stride) {
            rkw_map { affine: map.len(), first, step, map: std::ptr::null_mut() }
        } else {
            let map = Box::into_raw(Box::new(map)).cast();
            rkw_map { affine: 0, first: 0, step: 0, map }
        };
        // SAFETY: [MPI].
        unsafe { to.write(held) };
    });
}

/// The lpid of a rank of a map that is no formula.
///
/// # Safety
/// `map` is what [`rkw_map_read`] made, not freed yet.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_lpid(map: *const c_void, rank: c_int) -> u32 {
    // SAFETY: the caller's.
    let map = unsafe { &*map.cast::<RankMap>() };
    map.get(rank as u32).map_or(u32::MAX, |process| process.lpid)
}

/// Frees a map; of a formula nothing is to be freed.
///
/// # Safety
/// As [`rkw_map_lpid`], or null; not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_map_free(map: *mut c_void) {
    if !map.is_null() {
        // SAFETY: made by `Box::into_raw` in `rkw_map_read`.
        drop(unsafe { Box::from_raw(map.cast::<RankMap>()) });
    }
}
