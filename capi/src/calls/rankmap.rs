//! Rank maps: from the arrays a device layer has to the form that is looked
//! up in.

use crate::abi::*;
use crate::args::{answer, list, out};
use crate::error::{Fail, call};
use crate::layout;
use crate::objects::Context;
use crate::table::{self, find};
use std::ffi::{c_char, c_int};
use std::rc::Rc;
use transport::rankmap::{Detector, LPID_MAX, MapError, Model, Process, RankMap, SIZE_MAX};

/// The smallest map of an indirect mapping array: `lpids[rank]` of process
/// group `pgid`, as CH4 4.x has it. The array is read once and not kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_from_lpids(
    pgid: u32,
    size: c_int,
    lpids: *const c_int,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_rankmap_from_lpids", to, || {
        // SAFETY: [PTR].
        let lpids = unsafe { list(size, lpids, "lpids")? };
        let mut detector = Detector::with_pg(pgid);
        detector.expect(lpids.len());
        for (rank, &lpid) in lpids.iter().enumerate() {
            detector.push(u32::try_from(lpid).map_err(|_| {
                let why = format!("rank {rank} has lpid {lpid}");
                Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
            })?);
        }
        table::add_map(detector.finish()?)
    })
}

/// The smallest map of an array of processes of several groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_from_processes(
    size: c_int,
    processes: *const rankway_process_t,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_rankmap_from_processes", to, || {
        // SAFETY: [PTR].
        let all = unsafe { list(size, processes, "processes")? };
        let all = all.iter().map(|p| Process::new(p.pgid, p.lpid));
        table::add_map(RankMap::from_processes(all)?)
    })
}

/// lpid = `base` + `stride` * rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_affine(
    pgid: u32,
    base: u32,
    stride: i64,
    size: u32,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_rankmap_affine", to, || {
        table::add_map(RankMap::affine(pgid, base, stride, size)?)
    })
}

/// The first of so many steps, 0 before any, that leads out of all lpids.
fn first_beyond(base: u32, step: i32, count: u32) -> Option<u32> {
    let (space, stride) = match step {
        0 => return (base > LPID_MAX && count > 0).then_some(0),
        ..0 => (base, step.unsigned_abs()),
        _ => (LPID_MAX.saturating_sub(base), step.unsigned_abs()),
    };
    let within = if base > LPID_MAX { 0 } else { space / stride + 1 };
    (within < count).then_some(within)
}

/// lpid = `base` + `step` * (rank modulo `block`) + `pitch` * (rank divided by `block`): ranks in
/// blocks, as CH4's MPIDI_RANK_MAP_STRIDE_BLOCK has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_blockstride(
    pgid: u32,
    base: u32,
    step: i32,
    block: u32,
    pitch: i32,
    size: u32,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_rankmap_blockstride", to, || {
        if block == 0 {
            return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, "blocks of 0 ranks"));
        }
        if size > SIZE_MAX {
            return Err(MapError::TooManyRanks { limit: SIZE_MAX }.into());
        }
        // (What is out of range is not gone through rank by rank until then.)
        let in_block = first_beyond(base, step, block.min(size)).map(|rank| (rank, step, rank));
        let of_blocks = first_beyond(base, pitch, size.div_ceil(block));
        let of_blocks = of_blocks.map(|turn| (turn * block, pitch, turn));
        if let Some((index, step, times)) = in_block.into_iter().chain(of_blocks).min() {
            let reached = i64::from(base) + i64::from(step) * i64::from(times);
            let why = format!(
                "rank {index} maps to lpid {reached}, outside 0..={LPID_MAX}; check the signs of \
                 the step and the pitch"
            );
            return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
        }
        let mut detector = Detector::with_pg(pgid);
        detector.push_blockstride(base, step, block, pitch, size);
        table::add_map(detector.finish()?)
    })
}

/// The map of a map: rank r of the result is rank `child[r]` of `parent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_compose(
    parent: rankway_rankmap_t,
    child: rankway_rankmap_t,
    map: *mut rankway_rankmap_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(map, "map") };
    answer("rankway_rankmap_compose", to, || {
        let (parent, child) = (table::map(parent)?, table::map(child)?);
        table::add_map(parent.compose(&child)?)
    })
}

/// Frees a map. Communicators made of it stay valid; its lookups do not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_free(map: rankway_rankmap_t) -> c_int {
    call("rankway_rankmap_free", || table::remove_map(map))
}

/// The number of ranks of a map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_size(map: rankway_rankmap_t, size: *mut u32) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(size, "size") };
    answer("rankway_rankmap_size", to, || Ok(table::map(map)?.len()))
}

/// The process that a rank is. The general lookup; operations use a
/// rankway_lookup_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_get(
    map: rankway_rankmap_t,
    rank: c_int,
    process: *mut rankway_process_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(process, "process") };
    answer("rankway_rankmap_get", to, || {
        let map = table::map(map)?;
        let found = u32::try_from(rank).ok().and_then(|rank| map.get(rank));
        let found = found.ok_or_else(|| {
            let why = format!("rank {rank} is out of range: the map has {} ranks", map.len());
            Fail::new(rankway_code::RANKWAY_ERR_RANK, why)
        })?;
        Ok(rankway_process_t { pgid: found.pg, lpid: found.lpid })
    })
}

/// The rank of a process, the smallest if it has several; -1 if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_rank_of(
    map: rankway_rankmap_t,
    process: rankway_process_t,
    rank: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(rank, "rank") };
    answer("rankway_rankmap_rank_of", to, || {
        let found = table::map(map)?.rank_of(Process::new(process.pgid, process.lpid));
        Ok(found.map_or(-1, |rank| rank as c_int))
    })
}

/// Bytes of a map, tables that it shares with others included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_bytes(map: rankway_rankmap_t, bytes: *mut usize) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(bytes, "bytes") };
    answer("rankway_rankmap_bytes", to, || Ok(table::map(map)?.bytes()))
}

/// The mapping model, under the name of Guo et al. (2017): `direct`, `offset`,
/// `stride`, `blockstride`, `md-blockstride`, `segments`, `compact`, `lut`,
/// `mlut`. The text is never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_model(
    map: rankway_rankmap_t,
    model: *mut *const c_char,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(model, "model") };
    answer("rankway_rankmap_model", to, || {
        let name = match table::map(map)?.model() {
            Model::Direct => c"direct",
            Model::Offset => c"offset",
            Model::Stride => c"stride",
            Model::BlockStride => c"blockstride",
            Model::MdBlockStride => c"md-blockstride",
            Model::Segments => c"segments",
            Model::Compact => c"compact",
            Model::Lut => c"lut",
            Model::Mlut => c"mlut",
        };
        Ok(name.as_ptr())
    })
}

/// The lookup of a map in the address vector of a context. It is good while
/// both are open, in any thread. Entries of peers nobody spoke to are 0:
/// rankway_connect fills them in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rankmap_lookup(
    map: rankway_rankmap_t,
    context: rankway_context_t,
    lookup: *mut rankway_lookup_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(lookup, "lookup") };
    answer("rankway_rankmap_lookup", to, || {
        let map = table::map(map)?;
        let context = find::<Rc<dyn Context>>(context)?;
        Ok(layout::lookup(context.lookup(&map)?))
    })
}

/// Inserts a process into the address vector, if it is not there, and answers
/// its entry: the slow half of a translation that answered 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_connect(
    context: rankway_context_t,
    process: rankway_process_t,
    entry: *mut u64,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(entry, "entry") };
    answer("rankway_connect", to, || {
        let context = find::<Rc<dyn Context>>(context)?;
        context.connect(Process::new(process.pgid, process.lpid))
    })
}
