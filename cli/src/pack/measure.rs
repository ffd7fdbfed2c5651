//! Measures one pattern: ours, memcpy, loops, and the MPIs, round after round, so
//! that what else the machine does falls on all alike. Everything is compared with
//! the reference before it is timed.

use super::manual::{self, Style};
use super::pattern::Pattern;
use super::peer::Peer;
use super::stage::{Copy, Stage};
use rankway::datatype::{Basic, Direction, Layout, Level, Plan};
use rankway::device::{Medium, explain};
use rankway::netmod::costs;
use serde::Serialize;
use std::collections::BTreeMap;

/// An MPI, or why there is none.
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) peer: Result<Peer, String>,
}

/// What is wanted beside the times.
pub(super) struct Wanted {
    /// The instructions, if not the machine's best.
    pub(super) level: Option<Level>,
    pub(super) repetitions: u32,
    /// Where memory and stream begin behind a line.
    pub(super) offset: usize,
    pub(super) model: bool,
    pub(super) explain: bool,
}

/// Nanoseconds of an element; ratios are theirs to ours, more is better for us.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Times {
    pub(super) memcpy: f64,
    pub(super) ours: f64,
    pub(super) naive: f64,
    pub(super) manual: f64,
    pub(super) openmpi: Option<f64>,
    pub(super) mpich: Option<f64>,
    pub(super) to_memcpy: f64,
    pub(super) to_manual: f64,
    pub(super) to_openmpi: Option<f64>,
    pub(super) to_mpich: Option<f64>,
}

/// A plan that could be taken; times as above.
#[derive(Debug, Serialize)]
pub(super) struct Planned {
    pub(super) direction: &'static str,
    pub(super) plan: String,
    pub(super) chosen: bool,
    pub(super) predicted: f64,
    pub(super) measured: f64,
    pub(super) first_cache_misses: u64,
    pub(super) last_cache_misses: u64,
    pub(super) tlb_misses: u64,
}

/// How the pattern would travel.
#[derive(Debug, Serialize)]
pub(super) struct Transfer {
    pub(super) network: &'static str,
    /// What the target has: `contiguous` or `same`.
    pub(super) target: &'static str,
    pub(super) method: &'static str,
    /// Predicted nanoseconds by method.
    pub(super) costs: BTreeMap<&'static str, f64>,
}

/// All of one pattern.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) bytes: u64,
    pub(super) element_bytes: usize,
    pub(super) blocks: u64,
    pub(super) pack: Times,
    pub(super) unpack: Times,
    /// MPIs that did not do this pattern, and why.
    pub(super) failed: BTreeMap<&'static str, String>,
    pub(super) candidates: Vec<Planned>,
    pub(super) transfers: Vec<Transfer>,
}

/// Those of this process: memcpy, ours, the plain loops, the quickest.
const HERE: usize = 4;
/// With the MPIs.
const CONTENDERS: usize = HERE + 2;

/// Measures a pattern.
pub(super) fn measure(
    pattern: &Pattern,
    rivals: &mut [Rival; 2],
    wanted: &Wanted,
) -> Result<Row, String> {
    let name = &pattern.name;
    let layout = pattern.shape.layout().map_err(|e| format!("{name}: {e}"))?;
    let mut failed = BTreeMap::new();
    let mut there = [false; 2];
    for (there, rival) in there.iter_mut().zip(rivals.iter_mut()) {
        if let Ok(peer) = &mut rival.peer {
            match peer.prepare(&pattern.shape, wanted.offset) {
                Ok(()) => *there = true,
                Err(why) => drop(failed.insert(rival.name, why)),
            }
        }
    }
    let mut stage = Stage::new(&pattern.shape, wanted.offset);
    let plan = |direction| {
        let chosen = layout.plans(direction).first().map(|one| one.plan);
        wanted.level.and_then(|level| chosen.map(|plan| Plan { level, ..plan }))
    };
    let mut ours_pack = ours::<true>(&layout, plan(Direction::Pack));
    let mut ours_unpack = ours::<false>(&layout, plan(Direction::Unpack));
    let ours = |e| format!("{name}: ours {e}");
    stage.check_pack(&mut ours_pack).map_err(ours)?;
    stage.check_unpack(&mut ours_unpack).map_err(ours)?;
    let level = wanted.level.unwrap_or_else(Level::best);
    let (mut naive_pack, mut naive_unpack) =
        (loops::<true>(pattern, Style::NAIVE), loops::<false>(pattern, Style::NAIVE));
    let (mut manual_pack, mut manual_unpack) = (
        loops::<true>(pattern, quickest::<true>(&mut stage, pattern, level)?),
        loops::<false>(pattern, quickest::<false>(&mut stage, pattern, level)?),
    );
    let by_hand = |e| format!("{name}: the loop {e}");
    stage.check_pack(&mut naive_pack).map_err(by_hand)?;
    stage.check_unpack(&mut naive_unpack).map_err(by_hand)?;
    stage.check_pack(&mut manual_pack).map_err(by_hand)?;
    stage.check_unpack(&mut manual_unpack).map_err(by_hand)?;
    let mut copy_pack = |m: &mut [u8], s: &mut [u8]| {
        s.copy_from_slice(&m[..s.len()]);
        Ok(())
    };
    let mut copy_unpack = |m: &mut [u8], s: &mut [u8]| {
        m[..s.len()].copy_from_slice(s);
        Ok(())
    };
    let mut here: [[&mut Copy<'_>; 2]; HERE] = [
        [&mut copy_pack, &mut copy_unpack],
        [&mut ours_pack, &mut ours_unpack],
        [&mut naive_pack, &mut naive_unpack],
        [&mut manual_pack, &mut manual_unpack],
    ];
    let mut best = [[f64::INFINITY; 2]; CONTENDERS];
    for round in 0..wanted.repetitions as usize {
        // Each is the first in its turn.
        for i in (0..CONTENDERS).map(|i| (i + round) % CONTENDERS) {
            let took = match i.checked_sub(HERE) {
                None => {
                    let [pack, unpack] = &mut here[i];
                    [stage.time(pack)?, stage.time(unpack)?]
                }
                Some(rival) if there[rival] => {
                    let Ok(peer) = &mut rivals[rival].peer else { continue };
                    match peer.round() {
                        Ok((pack, unpack)) => [pack, unpack],
                        Err(why) => {
                            there[rival] = false;
                            best[i] = [f64::INFINITY; 2];
                            failed.insert(rivals[rival].name, why);
                            continue;
                        }
                    }
                }
                Some(_) => continue,
            };
            best[i] = [best[i][0].min(took[0]), best[i][1].min(took[1])];
        }
    }
    for (rival, there) in rivals.iter_mut().zip(there) {
        if let Ok(peer) = &mut rival.peer
            && there
        {
            peer.enough()?;
        }
    }
    let elements = layout.size() as f64 / pattern.element as f64;
    let times = |direction: usize| {
        let [memcpy, ours, naive, manual, openmpi, mpich] =
            best.map(|both| both[direction] / elements);
        let some = |ns: f64| ns.is_finite().then_some(ns);
        let to = |ns: f64| ns / ours;
        Times {
            memcpy,
            ours,
            naive,
            manual,
            openmpi: some(openmpi),
            mpich: some(mpich),
            to_memcpy: to(memcpy),
            to_manual: to(manual),
            to_openmpi: some(openmpi).map(to),
            to_mpich: some(mpich).map(to),
        }
    };
    let mut candidates = Vec::new();
    if wanted.model {
        plans::<true>(&mut candidates, &mut stage, &layout, pattern, wanted)?;
        plans::<false>(&mut candidates, &mut stage, &layout, pattern, wanted)?;
    }
    Ok(Row {
        name: name.clone(),
        what: pattern.what.clone(),
        bytes: layout.size(),
        element_bytes: pattern.element,
        blocks: layout.blocks(),
        pack: times(0),
        unpack: times(1),
        failed,
        candidates,
        transfers: if wanted.explain { transfers(&layout)? } else { Vec::new() },
    })
}

/// Ours, by this plan or the chosen one.
fn ours<const PACK: bool>(
    layout: &Layout,
    plan: Option<Plan>,
) -> impl FnMut(&mut [u8], &mut [u8]) -> Result<(), String> {
    move |m, s| {
        let done = match (&plan, PACK) {
            (None, true) => layout.pack(m, 0, 0, s),
            (None, false) => layout.unpack(m, 0, 0, s),
            (Some(plan), true) => layout.pack_by(plan, m, 0, 0, s),
            (Some(plan), false) => layout.unpack_by(plan, m, 0, 0, s),
        };
        done.map(drop).map_err(|e| e.to_string())
    }
}

/// A program's loops.
fn loops<const PACK: bool>(
    pattern: &Pattern,
    style: Style,
) -> impl FnMut(&mut [u8], &mut [u8]) -> Result<(), String> {
    move |m, s| {
        let done = manual::run::<PACK>(&pattern.pieces, style, m, s);
        done.then_some(()).ok_or_else(|| "leaves the memory or the stream".to_owned())
    }
}

/// How the loops are best written here.
fn quickest<const PACK: bool>(
    stage: &mut Stage<'_>,
    pattern: &Pattern,
    level: Level,
) -> Result<Style, String> {
    let mut best = (f64::INFINITY, Style::NAIVE);
    for style in Style::all(level, &pattern.pieces) {
        let took = stage.time(&mut loops::<PACK>(pattern, style))?;
        if took < best.0 {
            best = (took, style);
        }
    }
    Ok(best.1)
}

/// What each plan should take and what it takes.
fn plans<const PACK: bool>(
    into: &mut Vec<Planned>,
    stage: &mut Stage<'_>,
    layout: &Layout,
    pattern: &Pattern,
    wanted: &Wanted,
) -> Result<(), String> {
    let direction = if PACK { Direction::Pack } else { Direction::Unpack };
    let all = layout.plans(direction);
    let level = |plan: Plan| wanted.level.map_or(plan, |level| Plan { level, ..plan });
    let mut best = vec![f64::INFINITY; all.len()];
    for _ in 0..wanted.repetitions {
        for (best, candidate) in best.iter_mut().zip(&all) {
            let plan = Some(level(candidate.plan));
            *best = best.min(stage.time(&mut ours::<PACK>(layout, plan))?);
        }
    }
    let elements = layout.size() as f64 / pattern.element as f64;
    for (took, candidate) in best.into_iter().zip(all) {
        into.push(Planned {
            direction: if PACK { "pack" } else { "unpack" },
            plan: level(candidate.plan).to_string(),
            chosen: candidate.chosen,
            predicted: candidate.cost.ns_per_byte * pattern.element as f64,
            measured: took / elements,
            first_cache_misses: candidate.cost.first_cache.misses,
            last_cache_misses: candidate.cost.last_cache.misses,
            tlb_misses: candidate.cost.tlb.misses,
        });
    }
    Ok(())
}

/// What the transport would do with it.
fn transfers(layout: &Layout) -> Result<Vec<Transfer>, String> {
    let flat = Layout::contiguous(layout.size(), &Layout::basic(Basic::Byte));
    let flat = flat.map_err(|e| e.to_string())?;
    let media = [
        ("mapped window", Medium::Mapped),
        ("node", Medium::Node),
        ("shm", Medium::Provider(costs("shm"))),
        ("tcp", Medium::Provider(costs("tcp;ofi_rxm"))),
        ("verbs", Medium::Provider(costs("verbs;ofi_rxm"))),
        ("ucx", Medium::Provider(costs("ucx"))),
    ];
    let mut all = Vec::new();
    for (network, medium) in media {
        for (target, other) in [("contiguous", &flat), ("same", layout)] {
            let told = explain(layout, other, medium);
            let costs = told.costs.iter().map(|(method, ns)| (method.name(), *ns)).collect();
            all.push(Transfer { network, target, method: told.method.name(), costs });
        }
    }
    Ok(all)
}
