//! Groups: rank maps in which no process is twice, and MPI's operations on them.
//!
//! A group is a `rankway_rankmap_t`, as large as its map's form, and freed as one.

use crate::abi::*;
use crate::args::{answer, list, out, ranks};
use crate::calls::comm::insert;
use crate::error::{Fail, call};
use crate::objects::Comm;
use crate::table::{self, find};
use std::ffi::c_int;
use std::rc::Rc;
use transport::rankmap::group::{Comparison, Group, GroupError, RankRange};

fn group(map: rankway_rankmap_t) -> Result<Group, Fail> {
    Ok(Group::new(table::map(map)?.as_ref().clone())?)
}

/// Makes a group.
fn made(
    name: &str,
    newgroup: *mut rankway_rankmap_t,
    make: impl FnOnce() -> Result<Group, Fail>,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(newgroup, "newgroup") };
    answer(name, to, || table::add_map(make()?.into_map()))
}

/// The same of two groups.
fn of_two(
    name: &str,
    (one, other): (rankway_rankmap_t, rankway_rankmap_t),
    newgroup: *mut rankway_rankmap_t,
    make: impl FnOnce(&Group, &Group) -> Result<Group, GroupError>,
) -> c_int {
    made(name, newgroup, || Ok(make(&group(one)?, &group(other)?)?))
}

/// # Safety
/// `at` is null or readable for `n` ranges.
unsafe fn ranges(n: c_int, at: *const [c_int; 3]) -> Result<Vec<RankRange>, Fail> {
    // SAFETY: [PTR].
    let all = unsafe { list(n, at, "ranges")? };
    Ok(all.iter().map(|&[first, last, stride]| RankRange::new(first, last, stride)).collect())
}

/// The group of a communicator's ranks (MPI_Comm_group).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_group(
    comm: rankway_comm_t,
    group: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(group, "group") };
    answer("rankway_comm_group", to, || table::add_map(find::<Rc<dyn Comm>>(comm)?.map().clone()))
}

/// A communicator of a group's ranks; a null handle for processes that are not
/// among them. Collective over the group, whose members name it alike; others need not
/// call it. Sends no message (MPI_Comm_create_group).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_comm_create_group(
    comm: rankway_comm_t,
    group_: rankway_rankmap_t,
    newcomm: *mut rankway_comm_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(newcomm, "newcomm") };
    answer("rankway_comm_create_group", to, || {
        let found = find::<Rc<dyn Comm>>(comm)?;
        insert(&found.guard, found.create_group(&group(group_)?)?)
    })
}

/// The group of these ranks, in the order of the list (MPI_Group_incl).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_incl(
    group_: rankway_rankmap_t,
    n: c_int,
    ranks_: *const c_int,
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    made("rankway_group_incl", newgroup, || {
        // SAFETY: [PTR].
        Ok(group(group_)?.incl(&unsafe { ranks(n, ranks_, "ranks")? })?)
    })
}

/// The group without these ranks, in its own order (MPI_Group_excl).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_excl(
    group_: rankway_rankmap_t,
    n: c_int,
    ranks_: *const c_int,
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    made("rankway_group_excl", newgroup, || {
        // SAFETY: [PTR].
        Ok(group(group_)?.excl(&unsafe { ranks(n, ranks_, "ranks")? })?)
    })
}

/// The group of the ranks of ranges, each of a first rank, a last and a stride
/// (MPI_Group_range_incl).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_range_incl(
    group_: rankway_rankmap_t,
    n: c_int,
    ranges_: *const [c_int; 3],
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    made("rankway_group_range_incl", newgroup, || {
        // SAFETY: [PTR].
        Ok(group(group_)?.range_incl(&unsafe { ranges(n, ranges_)? })?)
    })
}

/// The group without the ranks of ranges (MPI_Group_range_excl).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_range_excl(
    group_: rankway_rankmap_t,
    n: c_int,
    ranges_: *const [c_int; 3],
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    made("rankway_group_range_excl", newgroup, || {
        // SAFETY: [PTR].
        Ok(group(group_)?.range_excl(&unsafe { ranges(n, ranges_)? })?)
    })
}

/// The members of a group, then those of another that are not in it
/// (MPI_Group_union).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_union(
    group1: rankway_rankmap_t,
    group2: rankway_rankmap_t,
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    of_two("rankway_group_union", (group1, group2), newgroup, Group::union)
}

/// The members of the first that the second has too (MPI_Group_intersection).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_intersection(
    group1: rankway_rankmap_t,
    group2: rankway_rankmap_t,
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    of_two("rankway_group_intersection", (group1, group2), newgroup, Group::intersection)
}

/// The members of the first that the second has not (MPI_Group_difference).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_difference(
    group1: rankway_rankmap_t,
    group2: rankway_rankmap_t,
    newgroup: *mut rankway_rankmap_t,
) -> c_int {
    of_two("rankway_group_difference", (group1, group2), newgroup, Group::difference)
}

/// Sets a rankway_comparison of two groups (MPI_Group_compare).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_compare(
    group1: rankway_rankmap_t,
    group2: rankway_rankmap_t,
    result: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(result, "result") };
    answer("rankway_group_compare", to, || {
        Ok(match group(group1)?.compare(&group(group2)?) {
            Comparison::Identical => rankway_comparison::RANKWAY_IDENT,
            Comparison::Similar => rankway_comparison::RANKWAY_SIMILAR,
            Comparison::Unequal => rankway_comparison::RANKWAY_UNEQUAL,
        } as c_int)
    })
}

/// The ranks in the second group of `n` ranks of the first; RANKWAY_UNDEFINED for
/// those that it has not (MPI_Group_translate_ranks).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_translate_ranks(
    group1: rankway_rankmap_t,
    n: c_int,
    ranks1: *const c_int,
    group2: rankway_rankmap_t,
    ranks2: *mut c_int,
) -> c_int {
    call("rankway_group_translate_ranks", || {
        // SAFETY: [PTR].
        let from = unsafe { ranks(n, ranks1, "ranks1")? };
        let mut found = vec![Group::UNDEFINED; from.len()];
        group(group1)?.translate_ranks(&from, &group(group2)?, &mut found)?;
        if ranks2.is_null() && !found.is_empty() {
            return Err(Fail::null("ranks2"));
        }
        for (i, &rank) in found.iter().enumerate() {
            let rank = if rank == Group::UNDEFINED { RANKWAY_UNDEFINED } else { rank as c_int };
            // SAFETY: [PTR]: a place for `n` ranks.
            unsafe { ranks2.add(i).write(rank) };
        }
        Ok(())
    })
}
