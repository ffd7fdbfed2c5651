//! One communicator in every representation, and in those the strategies pick.

use super::source::Source;
use rankway::rankmap::compact::{Compact, CompactError, Representation, Strategy};
use rankway_cli::observe::maps::{Sample, clock, thesis};
use serde::Serialize;
use std::hint::black_box;
use std::time::Duration;

/// For each kind of measurement of each representation.
const BUDGET: Duration = Duration::from_millis(300);

/// Bytes that a map takes by itself, whatever it holds. The thesis tells none
/// of its own objects: it is given the same, so that contents are compared.
pub(super) const HEAD: u64 = size_of::<Compact>() as u64;

/// A communicator, measured. Bytes and bits are of the whole map, heads
/// included; an absent figure was not measured.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) group: Option<&'static str>,
    pub(super) what: String,
    pub(super) universe: u32,
    pub(super) ranks: u32,
    /// Whether the lpids rise.
    pub(super) set: bool,
    pub(super) radices: Vec<u32>,
    pub(super) bound: Bound,
    pub(super) representations: Vec<Row>,
    pub(super) unfit: Vec<Unfit>,
    pub(super) chosen: Vec<Chosen>,
    pub(super) thesis: Vec<Thesis>,
    pub(super) thesis_best: Thesis,
}

#[derive(Serialize)]
pub(super) struct Bound {
    pub(super) bits: f64,
    pub(super) bytes: f64,
    pub(super) what: &'static str,
}

/// A representation of ours.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) representation: &'static str,
    pub(super) bytes: u64,
    pub(super) bits_per_member: f64,
    /// To the bound.
    pub(super) ratio: f64,
    #[serde(flatten)]
    pub(super) times: Times,
    /// Strategies that pick it.
    pub(super) chosen_by: Vec<String>,
}

/// Nanoseconds.
#[derive(Default, Serialize)]
pub(super) struct Times {
    pub(super) random_ns: Option<f64>,
    /// Of the same lookups in an array of as many bytes.
    pub(super) table_ns: Option<f64>,
    pub(super) sequential_ns: Option<f64>,
    pub(super) inverse_ns: Option<f64>,
    /// Bytes once the inverse was asked for.
    pub(super) bytes_with_inverse: Option<u64>,
    /// Of each rank.
    pub(super) build_ns: Option<f64>,
}

/// A representation that cannot hold the map.
#[derive(Serialize)]
pub(super) struct Unfit {
    pub(super) representation: &'static str,
    pub(super) why: &'static str,
}

/// What a strategy picks.
#[derive(Serialize)]
pub(super) struct Chosen {
    pub(super) strategy: String,
    pub(super) representation: &'static str,
    pub(super) bytes: u64,
    pub(super) bits_per_member: f64,
    pub(super) ratio: f64,
    /// Bytes to those of the thesis's best.
    pub(super) thesis_ratio: f64,
    pub(super) no_larger_than_thesis: bool,
}

#[derive(Clone, Serialize)]
pub(super) struct Thesis {
    pub(super) representation: &'static str,
    pub(super) bytes: u64,
    pub(super) random_ns: Option<f64>,
}

/// What is measured of a communicator.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    /// Every representation, and not only what the strategies pick.
    pub(super) all: bool,
    /// Times too, and not only bytes.
    pub(super) times: bool,
}

pub(super) fn measure(
    source: &Source,
    sample: &Sample,
    strategies: &[Strategy],
    depth: Depth,
    mut step: impl FnMut(&str),
) -> Result<Measured, String> {
    let Sample { universe, radices, lpids, bound } = sample;
    let members = lpids.len() as f64;
    let ratio = |bytes: u64| bytes as f64 / bound.bytes();
    let bits = |bytes: u64| bytes as f64 * 8.0 / members;
    let mut weights: Vec<Thesis> =
        thesis::weigh(*universe, lpids).into_iter().map(charge).collect();
    weights.sort_by_key(|weight| weight.bytes);
    let best = weights.first().cloned().ok_or("the thesis has nothing for this map")?;

    let mut chosen = Vec::with_capacity(strategies.len());
    for &strategy in strategies {
        step(&format!("{}: {strategy}", source.name));
        let map = Compact::with_radices(strategy, radices, lpids.iter().copied())
            .map_err(|e| format!("{}: {e}", source.name))?;
        check(&map, lpids)?;
        let bytes = map.bytes() as u64;
        chosen.push(Chosen {
            strategy: strategy.to_string(),
            representation: map.representation().name(),
            bytes,
            bits_per_member: bits(bytes),
            ratio: ratio(bytes),
            thesis_ratio: bytes as f64 / best.bytes as f64,
            no_larger_than_thesis: bytes <= best.bytes,
        });
    }

    let (mut representations, mut unfit) = (Vec::new(), Vec::new());
    for one in Representation::ALL.into_iter().filter(|_| depth.all) {
        step(&format!("{}: {one}", source.name));
        let make = || Compact::build_with_radices(one, radices, lpids.iter().copied());
        let map = match make() {
            Ok(map) => map,
            Err(CompactError::Unfit { why, .. }) => {
                // (The library's word is for who calls it.)
                let why = match one {
                    Representation::Child => {
                        "it is made of no other communicator; one that a program makes of another may be"
                    }
                    _ => why,
                };
                unfit.push(Unfit { representation: one.name(), why });
                continue;
            }
            Err(e) => return Err(format!("{}: {e}", source.name)),
        };
        check(&map, lpids)?;
        let bytes = map.bytes() as u64;
        let picked = chosen.iter().filter(|chosen| chosen.representation == one.name());
        representations.push(Row {
            representation: one.name(),
            bytes,
            bits_per_member: bits(bytes),
            ratio: ratio(bytes),
            times: if depth.times { times(&map, lpids, &make) } else { Times::default() },
            chosen_by: picked.map(|chosen| chosen.strategy.clone()).collect(),
        });
    }
    Ok(Measured {
        name: source.name.clone(),
        group: source.group,
        what: source.what.clone(),
        universe: *universe,
        ranks: lpids.len() as u32,
        set: sample.is_set(),
        radices: radices.clone(),
        bound: Bound { bits: bound.bits, bytes: bound.bytes(), what: bound.what },
        representations,
        unfit,
        chosen,
        thesis: weights,
        thesis_best: best,
    })
}

fn charge(weight: thesis::Weight) -> Thesis {
    let thesis::Weight { name, bytes, ns } = weight;
    Thesis { representation: name, bytes: bytes + HEAD, random_ns: ns }
}

/// A figure of a wrong map is none.
fn check(map: &Compact, lpids: &[u32]) -> Result<(), String> {
    if map.iter().eq(lpids.iter().copied()) {
        return Ok(());
    }
    Err(format!(
        "{} holds another map than it was given: an error in rankway",
        map.representation()
    ))
}

fn times(map: &Compact, lpids: &[u32], make: &dyn Fn() -> Result<Compact, CompactError>) -> Times {
    let len = map.len();
    // Diagrams take a second for a million ranks.
    let build = clock::least(BUDGET, 5, len, || {
        black_box(make().ok());
    });
    Times {
        build_ns: Some(build),
        random_ns: Some(clock::random(BUDGET, len, |rank| map.find(rank).unwrap_or(0))),
        table_ns: Some(clock::floor(BUDGET, map.bytes() as u64)),
        sequential_ns: Some(clock::walk(BUDGET, len, || map.iter())),
        inverse_ns: Some(clock::inverse(BUDGET, lpids, |lpid| map.position(lpid))),
        bytes_with_inverse: Some(map.bytes() as u64),
    }
}
