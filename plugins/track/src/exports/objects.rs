//! Communicators, windows, files, groups, datatypes.

use super::calls;
use crate::objects::{self, Selector};
use crate::{calls as made, mpi};
use rankway::track::{Constructor, Kind};
use std::ffi::c_int;

calls! {
    always;
    MPI_Comm_dup (comm, new) |call|
        objects::comm(Constructor::Dup, comm, new, Selector::Single, call);
    MPI_Comm_dup_with_info (comm, info, new) |call|
        objects::comm(Constructor::DupWithInfo, comm, new, Selector::Single, call);
    MPI_Comm_idup (comm, new, request) |call|
        objects::idup(Constructor::Idup, comm, new, call);
    MPI_Comm_idup_with_info (comm, info, new, request) |call|
        objects::idup(Constructor::IdupWithInfo, comm, new, call);
    MPI_Comm_split (comm, color, key, new) |call|
        objects::comm(Constructor::Split, comm, new, Selector::Color(color as c_int), call);
    MPI_Comm_split_type (comm, kind, key, info, new) |call|
        objects::comm(Constructor::SplitType, comm, new, Selector::Lead, call);
    MPI_Comm_create (comm, group, new) |call|
        objects::comm(Constructor::Create, comm, new, Selector::Lead, call);
    MPI_Comm_create_group (comm, group, tag, new) |call|
        objects::comm(Constructor::CreateGroup, comm, new, Selector::Told, call);
    MPI_Comm_create_from_group (group, text, info, handler, new) |call|
        objects::comm(Constructor::CreateFromGroup, 0, new, Selector::ToldInTime, call);
    MPI_Intercomm_create_from_groups (
        group, lead, others, their_lead, text, info, handler, new
    ) |call| objects::comm(
        Constructor::IntercommCreateFromGroups, 0, new, Selector::BetweenInTime, call
    );
    MPI_Cart_create (comm, n, dims, periods, reorder, new) |call|
        objects::comm(Constructor::CartCreate, comm, new, Selector::Single, call);
    MPI_Cart_sub (comm, remain, new) |call|
        objects::comm(Constructor::CartSub, comm, new, Selector::Lead, call);
    MPI_Graph_create (comm, n, index, edges, reorder, new) |call|
        objects::comm(Constructor::GraphCreate, comm, new, Selector::Single, call);
    MPI_Dist_graph_create (
        comm, n, from, degrees, to, weights, info, reorder, new
    ) |call| objects::comm(Constructor::DistGraphCreate, comm, new, Selector::Single, call);
    MPI_Dist_graph_create_adjacent (
        comm, n, from, from_weights, m, to, to_weights, info, reorder, new
    ) |call| objects::comm(Constructor::DistGraphCreateAdjacent, comm, new, Selector::Single, call);
    MPI_Intercomm_create (comm, lead, peers, remote, tag, new) |call|
        objects::comm(Constructor::IntercommCreate, comm, new, Selector::Between(comm), call);
    MPI_Intercomm_merge (comm, high, new) |call|
        objects::comm(Constructor::IntercommMerge, comm, new, Selector::Single, call);
    MPI_Comm_spawn (command, argv, n, info, root, comm, new, codes) |call|
        objects::spawn(Constructor::Spawn, root, comm, new, call);
    MPI_Comm_spawn_multiple (
        count, commands, argvs, ns, infos, root, comm, new, codes
    ) |call| objects::spawn(Constructor::SpawnMultiple, root, comm, new, call);
    MPI_Comm_accept (port, info, root, comm, new) |call|
        objects::connect(Constructor::Accept, port, root, comm, new, call);
    MPI_Comm_connect (port, info, root, comm, new) |call|
        objects::connect(Constructor::Connect, port, root, comm, new, call);
    MPI_Comm_join (fd, new) |call|
        objects::comm(Constructor::Join, own(), new, Selector::Single, call);
    MPI_Comm_free (comm) |call| objects::free(Some(Kind::CommFree), comm, call);
    MPI_Comm_disconnect (comm) |call|
        objects::free(Some(Kind::CommDisconnect), comm, call);
    MPI_Comm_set_name (comm, text) |call| named(comm, text, call);

    MPI_Win_create (base, size, unit: int, info, comm, new) |call|
        objects::on_comm(Constructor::WinCreate, comm, new, call);
    MPI_Win_allocate (size, unit: int, info, comm, base, new) |call|
        objects::on_comm(Constructor::WinAllocate, comm, new, call);
    MPI_Win_allocate_shared (size, unit: int, info, comm, base, new) |call|
        objects::on_comm(Constructor::WinAllocateShared, comm, new, call);
    MPI_Win_create_dynamic (info, comm, new) |call|
        objects::on_comm(Constructor::WinCreateDynamic, comm, new, call);
    MPI_Win_free (window) |call| objects::free(Some(Kind::WinFree), window, call);
    MPI_Win_set_name (window, text) |call| named(window, text, call);

    MPI_File_open (comm, path, mode, info, new) |call|
        objects::on_comm(Constructor::FileOpen, comm, new, call);
    MPI_File_close (file) |call|
        objects::free(Some(Kind::FileClose), file, call);

    MPI_Comm_group (comm, new) |call|
        local(Constructor::CommGroup, Some(comm), new, call);
    MPI_Comm_remote_group (comm, new) |call|
        local(Constructor::CommRemoteGroup, Some(comm), new, call);
    MPI_Win_get_group (window, new) |call|
        local(Constructor::WinGetGroup, Some(window), new, call);
    MPI_Group_from_session_pset (session, name, new)
        |call| local(Constructor::GroupFromSessionPset, None, new, call);
    MPI_Group_incl (group, n, ranks, new) |call|
        local(Constructor::GroupIncl, Some(group), new, call);
    MPI_Group_excl (group, n, ranks, new) |call|
        local(Constructor::GroupExcl, Some(group), new, call);
    MPI_Group_range_incl (group, n, ranges, new) |call|
        local(Constructor::GroupRangeIncl, Some(group), new, call);
    MPI_Group_range_excl (group, n, ranges, new) |call|
        local(Constructor::GroupRangeExcl, Some(group), new, call);
    MPI_Group_union (group, other, new) |call|
        local(Constructor::GroupUnion, Some(group), new, call);
    MPI_Group_intersection (group, other, new) |call|
        local(Constructor::GroupIntersection, Some(group), new, call);
    MPI_Group_difference (group, other, new) |call|
        local(Constructor::GroupDifference, Some(group), new, call);
    MPI_Group_free (group) |call| objects::free(None, group, call);

    MPI_Type_contiguous (count: int, old, new) |call| datatype(new, call);
    MPI_Type_vector (count: int, block: int, stride: int, old, new) |call| datatype(new, call);
    MPI_Type_create_hvector (count: int, block: int, stride, old, new)
        |call| datatype(new, call);
    MPI_Type_indexed (count: int, blocks: [ints(count)], places: [ints(count)], old, new)
        |call| datatype(new, call);
    MPI_Type_create_hindexed (count: int, blocks: [ints(count)], places, old, new)
        |call| datatype(new, call);
    MPI_Type_create_indexed_block (count: int, block: int, places: [ints(count)], old, new)
        |call| datatype(new, call);
    MPI_Type_create_hindexed_block (count: int, block: int, places, old, new)
        |call| datatype(new, call);
    MPI_Type_create_struct (count: int, blocks: [ints(count)], places, olds, new)
        |call| datatype(new, call);
    MPI_Type_create_subarray (
        n, sizes: [ints(n)], subsizes: [ints(n)], starts: [ints(n)], order, old, new
    )
        |call| datatype(new, call);
    MPI_Type_create_darray (
        size, rank, n, sizes: [ints(n)], distributions, arguments, processes, order, old, new
    ) |call| datatype(new, call);
    MPI_Type_create_resized (old, lower: long, extent: long, new)
        |call| datatype(new, call);
    MPI_Type_dup (old, new) |call| datatype(new, call);
    MPI_Type_set_name (datatype, text) |call| named(datatype, text, call);
    MPI_Type_free (datatype) |call| {
        made::type_goes();
        let code = objects::free(None, datatype, call);
        // (Another thread may have asked for its size meanwhile.)
        made::type_goes();
        code
    };
}

/// Members of an array of which there are as many as an `int` says.
fn ints(n: usize) -> u64 {
    u64::try_from(n as c_int).unwrap_or(0)
}

/// `MPI_COMM_SELF`.
fn own() -> usize {
    mpi::get().map_or(0, |mpi| mpi.own)
}

/// # Safety
/// \[MPI\]
unsafe fn local(
    constructor: Constructor,
    parent: Option<usize>,
    new: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let code = made::silent(call);
    if code == 0 {
        // SAFETY: [MPI].
        unsafe { objects::own(constructor, parent, new) };
    }
    code
}

/// # Safety
/// \[MPI\]
unsafe fn datatype(new: usize, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: [MPI].
    unsafe { local(Constructor::TypeConstruct, None, new, call) }
}

/// # Safety
/// \[MPI\]
unsafe fn named(object: usize, text: usize, call: impl FnOnce() -> c_int) -> c_int {
    let code = call();
    if code == 0 {
        // SAFETY: [MPI].
        unsafe { objects::name(object, text) };
    }
    code
}
