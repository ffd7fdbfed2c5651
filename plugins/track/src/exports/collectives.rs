//! Collectives: a blocking one, the one that begins it and the one that makes a request of it
//! take the same, but for the request.

use super::calls;
use super::messages::{begun, persistent};
use crate::calls::{
    Here, bytes, collective, from_neighbors, is_root, own_count, root_of, sum, sum_each, timed,
    to_all, to_neighbors,
};
use crate::mpi;
use crate::requests::Persistent;
use rankway::track::Kind;
use std::ffi::c_int;

/// A collective, what begins it, and what makes a request that does: kinds, names, what they
/// take before the communicator, the root if it has one, and what this process gives.
macro_rules! collectives {
    ($($kind:ident $mpi:ident, $begin:ident $impi:ident ($($args:tt)*), $comm:ident $root:expr,
        |$here:ident| $gives:expr;)*) => {$(
        calls! {
            events;
            $mpi ($($args)* $comm) |call| collective(Kind::$kind, $comm, $root, call, |$here| $gives);
            $impi ($($args)* $comm, request: keeps)
                |call| timed(Kind::$begin, call, |$here, event| {
                    let event = event.with($here.id_of($comm), root_of($root), 0);
                    begun(event.of_bytes($gives), request)
                });
        }
        calls! {
            always [stringify!($mpi), "_init"] ($($args)* $comm, info, request: keeps) |call|
                persistent(call, $comm, request, |$here| Persistent {
                    kind: Kind::$begin,
                    comm: $here.id_of($comm),
                    peer: root_of($root),
                    tag: 0,
                    bytes: $gives,
                })
        }
    )*};
}

collectives! {
    Barrier MPI_Barrier, Ibarrier MPI_Ibarrier (), comm None, |_here| 0;
    Bcast MPI_Bcast, Ibcast MPI_Ibcast (memory, count: int, datatype, root,),
        comm Some(root), |here| match is_root(here.job.mpi, root, comm) {
            true => bytes(here, count, datatype),
            false => 0,
        };
    Gather MPI_Gather, Igather MPI_Igather
        (memory, count: int, datatype, into, into_count: int, into_type, root,),
        comm Some(root), |here| match is_in_root_group(here, root) {
            true => 0,
            false => gathered(here, memory, (count, datatype), (into_count, into_type)),
        };
    Gatherv MPI_Gatherv, Igatherv MPI_Igatherv (
            memory, count: int, datatype, into, counts: [of_root(root, comm)],
            places: [of_root(root, comm)], into_type, root,
        ), comm Some(root), |here| match here.job.mpi.is_in_place(memory) {
            _ if is_in_root_group(here, root) => 0,
            true => bytes(here, own_count(counts, comm), into_type),
            false => bytes(here, count, datatype),
        };
    Scatter MPI_Scatter, Iscatter MPI_Iscatter
        (memory, count: int, datatype, into, into_count: int, into_type, root,),
        comm Some(root), |here| match is_root(here.job.mpi, root, comm) {
            true => bytes(here, count, datatype) * to_all(comm),
            false => 0,
        };
    Scatterv MPI_Scatterv, Iscatterv MPI_Iscatterv (
            memory, counts: [of_root(root, comm)], places: [of_root(root, comm)], datatype, into,
            into_count: int, into_type, root,
        ), comm Some(root), |here| match is_root(here.job.mpi, root, comm) {
            true => sum(here, counts, to_all(comm), datatype),
            false => 0,
        };
    Allgather MPI_Allgather, Iallgather MPI_Iallgather
        (memory, count: int, datatype, into, into_count: int, into_type,),
        comm None, |here| gathered(here, memory, (count, datatype), (into_count, into_type));
    Allgatherv MPI_Allgatherv, Iallgatherv MPI_Iallgatherv (
            memory, count: int, datatype, into, counts: [to_all(comm)], places: [to_all(comm)],
            into_type,
        ), comm None, |here| match here.job.mpi.is_in_place(memory) {
            true => bytes(here, own_count(counts, comm), into_type),
            false => bytes(here, count, datatype),
        };
    Alltoall MPI_Alltoall, Ialltoall MPI_Ialltoall
        (memory, count: int, datatype, into, into_count: int, into_type,),
        comm None, |here| {
            gathered(here, memory, (count, datatype), (into_count, into_type)) * to_all(comm)
        };
    Alltoallv MPI_Alltoallv, Ialltoallv MPI_Ialltoallv (
            memory, counts: [unless_in_place(memory, comm)], places: [unless_in_place(memory, comm)],
            datatype, into, into_counts: [to_all(comm)], into_places: [to_all(comm)], into_type,
        ), comm None, |here| match here.job.mpi.is_in_place(memory) {
            true => sum(here, into_counts, to_all(comm), into_type),
            false => sum(here, counts, to_all(comm), datatype),
        };
    Alltoallw MPI_Alltoallw, Ialltoallw MPI_Ialltoallw (
            memory, counts: [unless_in_place(memory, comm)], places: [unless_in_place(memory, comm)],
            datatypes, into, into_counts: [to_all(comm)], into_places: [to_all(comm)], into_types,
        ), comm None, |here| match here.job.mpi.is_in_place(memory) {
            true => sum_each(here, into_counts, to_all(comm), into_types),
            false => sum_each(here, counts, to_all(comm), datatypes),
        };
    Reduce MPI_Reduce, Ireduce MPI_Ireduce (memory, into, count: int, datatype, op, root,),
        comm Some(root), |here| match is_in_root_group(here, root) {
            true => 0,
            false => bytes(here, count, datatype),
        };
    Allreduce MPI_Allreduce, Iallreduce MPI_Iallreduce (memory, into, count: int, datatype, op,),
        comm None, |here| bytes(here, count, datatype);
    ReduceScatter MPI_Reduce_scatter, IreduceScatter MPI_Ireduce_scatter
        (memory, into, counts: [all_of(comm)], datatype, op,),
        comm None, |here| sum(here, counts, all_of(comm), datatype);
    ReduceScatterBlock MPI_Reduce_scatter_block, IreduceScatterBlock MPI_Ireduce_scatter_block
        (memory, into, count: int, datatype, op,),
        comm None, |here| bytes(here, count, datatype) * all_of(comm);
    Scan MPI_Scan, Iscan MPI_Iscan (memory, into, count: int, datatype, op,),
        comm None, |here| bytes(here, count, datatype);
    Exscan MPI_Exscan, Iexscan MPI_Iexscan (memory, into, count: int, datatype, op,),
        comm None, |here| bytes(here, count, datatype);
    NeighborAllgather MPI_Neighbor_allgather, IneighborAllgather MPI_Ineighbor_allgather
        (memory, count: int, datatype, into, into_count: int, into_type,),
        comm None, |here| bytes(here, count, datatype);
    NeighborAllgatherv MPI_Neighbor_allgatherv, IneighborAllgatherv MPI_Ineighbor_allgatherv (
            memory, count: int, datatype, into, counts: [from_neighbors(comm)],
            places: [from_neighbors(comm)], into_type,
        ), comm None, |here| bytes(here, count, datatype);
    NeighborAlltoall MPI_Neighbor_alltoall, IneighborAlltoall MPI_Ineighbor_alltoall
        (memory, count: int, datatype, into, into_count: int, into_type,),
        comm None, |here| bytes(here, count, datatype) * to_neighbors(comm);
    NeighborAlltoallv MPI_Neighbor_alltoallv, IneighborAlltoallv MPI_Ineighbor_alltoallv (
            memory, counts: [to_neighbors(comm)], places: [to_neighbors(comm)], datatype, into,
            into_counts: [from_neighbors(comm)], into_places: [from_neighbors(comm)], into_type,
        ), comm None, |here| sum(here, counts, to_neighbors(comm), datatype);
    NeighborAlltoallw MPI_Neighbor_alltoallw, IneighborAlltoallw MPI_Ineighbor_alltoallw (
            memory, counts: [to_neighbors(comm)], places, datatypes, into,
            into_counts: [from_neighbors(comm)], into_places, into_types,
        ), comm None, |here| sum_each(here, counts, to_neighbors(comm), datatypes);
}

/// Returns true in the root's group of an intercommunicator, which gives nothing: what is to
/// be sent is not significant there.
fn is_in_root_group(here: &Here<'_>, root: usize) -> bool {
    [here.job.mpi.root(), here.job.mpi.no_process()].contains(&(root as c_int))
}

/// What a process gives, which in place stands where it receives.
fn gathered(here: &Here<'_>, memory: usize, own: (usize, usize), into: (usize, usize)) -> u64 {
    let (count, datatype) = if here.job.mpi.is_in_place(memory) { into } else { own };
    bytes(here, count, datatype)
}

/// Processes of a communicator (of an intercommunicator, of the local group, among which a
/// reduction is scattered).
fn all_of(comm: usize) -> u64 {
    // SAFETY: [MPI]: a call with this communicator has gone well.
    unsafe { mpi::number(&mpi::COMM_SIZE, comm) }.map_or(0, |size| size as u64)
}

/// Members of an array that the root alone has.
fn of_root(root: usize, comm: usize) -> u64 {
    match mpi::get() {
        Some(mpi) if is_root(mpi, root, comm) => to_all(comm),
        _ => 0,
    }
}

/// Members of an array that nobody reads in place.
fn unless_in_place(memory: usize, comm: usize) -> u64 {
    match mpi::get() {
        Some(mpi) if mpi.is_in_place(memory) => 0,
        _ => to_all(comm),
    }
}
