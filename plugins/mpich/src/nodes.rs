//! Which node each process of the job is on: MPICH's table, read once.

use crate::log::{abort, guarded};
use rankway::rankmap::RankMap;
use std::ffi::c_int;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// World rank → node, as MPICH numbers them; of no process before [`rkw_nodes_read`].
static NODES: RwLock<Option<RankMap>> = RwLock::new(None);

pub(crate) fn nodes() -> RwLockReadGuard<'static, Option<RankMap>> {
    NODES.read().unwrap_or_else(PoisonError::into_inner)
}

/// The node of a rank of the job.
pub(crate) fn node_of(lpid: u32) -> Option<u32> {
    on(nodes().as_ref()?, lpid)
}

/// The same, of the map.
pub(crate) fn on(nodes: &RankMap, lpid: u32) -> Option<u32> {
    nodes.get(lpid).map(|process| process.lpid)
}

/// The map of these numbers, of which MPICH has no more than a map may.
pub(crate) fn map_of(numbers: impl IntoIterator<Item = u32>) -> RankMap {
    RankMap::from_lpids(0, numbers).unwrap_or_else(|e| abort(1, &e.to_string()))
}

/// Reads MPICH's table, which is not needed any more.
///
/// # Safety
/// It has `size` nodes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_read(size: c_int, table: *const c_int) {
    guarded(|| {
        // SAFETY: the caller's.
        let map = map_of((0..size as usize).map(|rank| unsafe { *table.add(rank) } as u32));
        *NODES.write().unwrap_or_else(PoisonError::into_inner) = Some(map);
    });
}

/// The node of a process; -1 of those of other jobs.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rkw_node(lpid: u32) -> c_int {
    guarded(|| node_of(lpid).map_or(-1, |node| node as c_int))
}
