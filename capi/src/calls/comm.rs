//! Communicators.

use crate::abi::*;
use crate::args::{answer, out, rank, ranks};
use crate::error::{Fail, call};
use crate::layout;
use crate::objects::{Comm, Context};
use crate::table::{self, TableGuard, find};
use std::ffi::c_int;
use std::rc::Rc;

/// The communicator of all processes of the job, in the order of their ranks; on contexts of
/// different indices it is another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_world(
    context: rankway_context_t,
    comm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(comm, "comm") };
    answer("rankway_comm_world", to, || {
        let found = find::<Rc<dyn Context>>(context)?;
        found.guard.insert(found.world())
    })
}

/// A communicator of the processes of a map, for device layers that have agreed
/// on it themselves: members that name the same `id` (MPICH's context_id), also
/// those of other jobs, mean the same communicator. This process must be in the
/// map. Sends no message, and is called by the members only. One with members of
/// other jobs is for messages: what all call together, and windows, it refuses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_from_rankmap(
    context: rankway_context_t,
    map: rankway_rankmap_t,
    id: u64,
    comm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(comm, "comm") };
    answer("rankway_comm_from_rankmap", to, || {
        let map = table::map(map)?;
        let found = find::<Rc<dyn Context>>(context)?;
        found.guard.insert(found.comm(&map, id)?)
    })
}

/// A communicator between two groups, of which `map` is the other one and does not hold this
/// process, which is `rank` of its own: an intercommunicator's messages, probes and active
/// messages go by the other group's ranks. Both groups name the same `id`; the other group's map
/// is this one. Sends no message. What all members call together is refused, but for
/// rankway_comm_dup; rankway_comm_rank is `rank`, rankway_comm_size the size of `map`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_from_remote(
    context: rankway_context_t,
    map: rankway_rankmap_t,
    rank_: c_int,
    id: u64,
    comm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(comm, "comm") };
    answer("rankway_comm_from_remote", to, || {
        let (map, rank) = (table::map(map)?, rank(rank_)?);
        let found = find::<Rc<dyn Context>>(context)?;
        found.guard.insert(found.intercomm(&map, rank, id)?)
    })
}

/// The same processes with a context of their own. Collective, sends no
/// message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_dup(
    comm: rankway_comm_t,
    newcomm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(newcomm, "newcomm") };
    answer("rankway_comm_dup", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        found.guard.insert(found.dup())
    })
}

/// One communicator for each color, ranks in the order of `key`, then of rank
/// here. A negative color joins none and gets a null handle. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_split(
    comm: rankway_comm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(newcomm, "newcomm") };
    answer("rankway_comm_split", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        let made = found.split(u32::try_from(color).ok(), key)?;
        insert(&found.guard, made)
    })
}

/// A communicator of the given ranks, in the given order; a null handle for
/// processes that are not among them. Collective over `comm` with the same
/// list, sends no message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_create(
    comm: rankway_comm_t,
    size: c_int,
    ranks_: *const c_int,
    newcomm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(newcomm, "newcomm") };
    answer("rankway_comm_create", to, || {
        // SAFETY: [PTR].
        let ranks = unsafe { ranks(size, ranks_, "ranks")? };
        let found = find::<Rc<dyn Comm>>(comm)?;
        insert(&found.guard, found.create(&ranks)?)
    })
}

/// The handle of a communicator that was made; a null one where none was.
pub(super) fn insert(
    guard: &TableGuard,
    made: Option<Rc<dyn Comm>>,
) -> Result<rankway_comm_t, Fail> {
    made.map_or(Ok(rankway_comm_t::default()), |comm| guard.insert(comm))
}

/// Frees a communicator. Its windows have their own; requests under way
/// go on. Lookups of it are no longer good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_free(comm: rankway_comm_t) -> c_int {
    call("rankway_comm_free", || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        drop(found.guard.remove::<Rc<dyn Comm>>(comm));
        Ok(())
    })
}

/// The rank of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_rank(comm: rankway_comm_t, rank: *mut c_int) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(rank, "rank") };
    answer("rankway_comm_rank", to, || Ok(find::<Rc<dyn Comm>>(comm)?.rank() as c_int))
}

/// The number of processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_size(comm: rankway_comm_t, size: *mut c_int) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(size, "size") };
    answer("rankway_comm_size", to, || Ok(find::<Rc<dyn Comm>>(comm)?.map().len() as c_int))
}

/// The channel of a communicator's messages: equal in all members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_channel(comm: rankway_comm_t, channel: *mut u64) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(channel, "channel") };
    answer("rankway_comm_channel", to, || Ok(find::<Rc<dyn Comm>>(comm)?.id()))
}

/// The process that a rank is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_get_lpid(
    comm: rankway_comm_t,
    rank_: c_int,
    process: *mut rankway_process_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(process, "process") };
    answer("rankway_comm_get_lpid", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        let rank = rank(rank_)?;
        found.world_rank(rank)?;
        let process = found.map().get(rank).unwrap_or_default();
        Ok(rankway_process_t { pgid: process.pg, lpid: process.lpid })
    })
}

/// The rank in the job of a rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_world_rank(
    comm: rankway_comm_t,
    rank_: c_int,
    peer: *mut u32,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(peer, "peer") };
    answer("rankway_comm_world_rank", to, || find::<Rc<dyn Comm>>(comm)?.world_rank(rank(rank_)?))
}

/// Sets 1 if a rank runs on this process's node, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rank_is_local(
    rank_: c_int,
    comm: rankway_comm_t,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(flag, "flag") };
    answer("rankway_rank_is_local", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        Ok(c_int::from(found.is_local(rank(rank_)?)?))
    })
}

/// The node of a rank, by the order in which nodes have their first ranks in the job, and its
/// rank among those of the job there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_node_of(
    rank_: c_int,
    comm: rankway_comm_t,
    node: *mut u32,
    node_rank: *mut u32,
) -> c_int {
    call("rankway_comm_node_of", || {
        // SAFETY: [PTR].
        let (node, node_rank) = unsafe { (out(node, "node")?, out(node_rank, "node_rank")?) };
        let found = find::<Rc<dyn Comm>>(comm)?.node_of(rank(rank_)?)?;
        node.set(found.0);
        node_rank.set(found.1);
        Ok(())
    })
}

/// The rank map of a communicator, as a map of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_rankmap(
    comm: rankway_comm_t,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_comm_rankmap", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        table::add_map(found.map().clone())
    })
}

/// The lookup of a communicator's ranks. It is good until the communicator is
/// freed or its context closed. Entries of peers nobody spoke to are 0:
/// rankway_comm_connect fills them in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_lookup(
    comm: rankway_comm_t,
    lookup: *mut rankway_lookup_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(lookup, "lookup") };
    answer("rankway_comm_lookup", to, || Ok(layout::lookup(find::<Rc<dyn Comm>>(comm)?.lookup())))
}

/// Inserts a rank into the address vector, if it is not there, and answers its
/// entry: the slow half of a translation that answered 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_connect(
    comm: rankway_comm_t,
    rank_: c_int,
    entry: *mut u64,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(entry, "entry") };
    answer("rankway_comm_connect", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        found.connect(rank(rank_)?)
    })
}

/// Waits for all members, making progress meanwhile. Collective. A set-up
/// call over sockets, not a fast barrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_barrier(comm: rankway_comm_t) -> c_int {
    call("rankway_comm_barrier", || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        found.barrier()
    })
}
