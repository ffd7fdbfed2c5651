//! A communicator's ranks by node, for MPICH's collectives, which has two tables of them
//! otherwise: with a number for each node and each rank of the caller's node at most.

use crate::host;
use crate::log::guarded;
use crate::map::rkw_map;
use crate::nodes::{map_of, node_of, nodes, on};
use rankway::rankmap::{Process, RankMap};
use std::ffi::{c_int, c_void};

/// A communicator's ranks by node.
struct ByNode {
    /// Rank on the caller's node → rank in the communicator.
    here: RankMap,
    /// Nodes in the order of their first ranks.
    order: RankMap,
    /// Each node's ranks follow one another.
    consecutive: bool,
}

/// The first rank of each node, for MPICH to free; with how many there are and which of them
/// the caller is, or -1.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct rkw_ranks {
    ranks: *mut c_int,
    size: c_int,
    mine: c_int,
}

impl rkw_ranks {
    fn of(ranks: &[u32], rank: u32) -> rkw_ranks {
        // SAFETY: the new list has as many places; ranks are below 2³¹.
        let list = unsafe {
            let list = host::rkw_host_list(ranks.len());
            list.copy_from_nonoverlapping(ranks.as_ptr().cast(), ranks.len());
            list
        };
        let mine = ranks.iter().position(|&it| it == rank).map_or(-1, |at| at as c_int);
        rkw_ranks { ranks: list, size: ranks.len() as c_int, mine }
    }
}

/// A communicator's ranks by node, seen from one of them: the lists of those of its node and
/// of the first ones. Null, without lists, where it has members in other jobs.
///
/// # Safety
/// `map` is of `size` ranks; the places can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_make(
    map: *const rkw_map,
    size: c_int,
    rank: c_int,
    local: *mut rkw_ranks,
    firsts: *mut rkw_ranks,
) -> *mut c_void {
    guarded(|| {
        // SAFETY: the caller's.
        let (map, rank) = (unsafe { &*map }, rank as u32);
        let all = nodes();
        // SAFETY: the caller's.
        let node_of = |rank| on(all.as_ref()?, unsafe { map.lpid(rank) });
        let Some(node) = node_of(rank) else { return std::ptr::null_mut() };
        let (mut here, mut order, mut roots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut is_known, mut last, mut consecutive) = (Vec::new(), None, true);
        for rank in 0..size as u32 {
            let Some(at) = node_of(rank) else { return std::ptr::null_mut() };
            if at == node {
                here.push(rank);
            }
            if last.replace(at) == Some(at) {
                continue;
            }
            if is_known.len() <= at as usize {
                is_known.resize(at as usize + 1, false);
            }
            if std::mem::replace(&mut is_known[at as usize], true) {
                consecutive = false;
            } else {
                order.push(at);
                roots.push(rank);
            }
        }
        // SAFETY: the caller's.
        unsafe {
            local.write(rkw_ranks::of(&here, rank));
            firsts.write(rkw_ranks::of(&roots, rank));
        }
        let made = ByNode { here: map_of(here), order: map_of(order), consecutive };
        Box::into_raw(Box::new(made)).cast()
    })
}

/// # Safety
/// Made by [`rkw_nodes_make`], not freed yet.
unsafe fn by_node<'a>(made: *const c_void) -> &'a ByNode {
    // SAFETY: the caller's.
    unsafe { &*made.cast::<ByNode>() }
}

/// The rank on the caller's node of a rank of the communicator; -1 of those elsewhere.
///
/// # Safety
/// `made` is what [`rkw_nodes_make`] made, not freed yet.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_local(made: *const c_void, rank: c_int) -> c_int {
    // SAFETY: the caller's.
    let here = unsafe { &by_node(made).here };
    guarded(|| here.rank_of(Process { pg: 0, lpid: rank as u32 }).map_or(-1, |at| at as c_int))
}

/// Among the nodes' first ranks, that of the node of a member.
///
/// # Safety
/// As [`rkw_nodes_local`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_first(made: *const c_void, lpid: u32) -> c_int {
    // SAFETY: the caller's.
    let order = unsafe { &by_node(made).order };
    let at = |node| order.rank_of(Process { pg: 0, lpid: node });
    guarded(|| node_of(lpid).and_then(at).map_or(-1, |at| at as c_int))
}

/// Whether each node's ranks follow one another.
///
/// # Safety
/// As [`rkw_nodes_local`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_consecutive(made: *const c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { by_node(made).consecutive.into() }
}

/// Frees them.
///
/// # Safety
/// As [`rkw_nodes_local`], or null; not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_nodes_free(made: *mut c_void) {
    if !made.is_null() {
        // SAFETY: made by `Box::into_raw` in `rkw_nodes_make`.
        drop(unsafe { Box::from_raw(made.cast::<ByNode>()) });
    }
}
