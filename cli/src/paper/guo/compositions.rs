//! Table II: the model of a communicator of a communicator.

use crate::paper::answers::Answers;
use crate::paper::item::{Cell, How, Outcome};
use rankway::rankmap::{MapError, Model, Process, RankMap};
use rankway_cli::observe::figures::{TABLE_II, TABLE_II_MODELS};

/// Ranks of a parent; a child has half of them.
const RANKS: u32 = 1 << 12;

/// A list of all below a power of two, without a pattern.
fn mixed(n: u32) -> impl Iterator<Item = u32> {
    // Odd factors and shifts to the right lead from each number to another one.
    let bits = n.trailing_zeros();
    (0..n).map(move |i| {
        let i = i.wrapping_mul(0x9e37_79b1) & (n - 1);
        let i = (i ^ (i >> (bits / 2))).wrapping_mul(0x85eb_ca6b) & (n - 1);
        i ^ (i >> (bits / 2))
    })
}

/// A map of a model of Table II.
fn map(model: &str, ranks: u32) -> Result<RankMap, MapError> {
    match model {
        "direct" => Ok(RankMap::direct(ranks)),
        "offset" => RankMap::from_lpids(0, (0..ranks).map(|rank| rank + 9)),
        "stride" => RankMap::from_lpids(0, (0..ranks).map(|rank| 2 * rank + 1)),
        "mlut" => {
            let lpids = mixed(ranks).enumerate();
            RankMap::from_processes(lpids.map(|(i, lpid)| Process { pg: i as u32 % 2, lpid }))
        }
        _ => RankMap::from_lpids(0, mixed(ranks)),
    }
}

/// How good a model of the paper is.
fn place(model: &str) -> usize {
    let all = ["direct", "offset", "stride", "lut(a)", "mlut(a)", "lut", "mlut"];
    all.iter().position(|one| *one == model).unwrap_or(all.len())
}

/// Ours by the paper's names: `(a)` where nothing but the map itself is new.
fn name(map: &RankMap) -> String {
    let shared = map.shared_bytes() > 0;
    match map.model() {
        model @ (Model::Lut | Model::Mlut) if shared => format!("{}(a)", model.name()),
        model => model.name().to_owned(),
    }
}

pub(super) fn table_2(_: &mut Answers, outcome: &mut Outcome) -> Result<(), String> {
    let columns = ["direct", "offset", "stride", "irregular"];
    outcome.head("", columns);
    for (parent, row) in TABLE_II_MODELS.into_iter().zip(TABLE_II) {
        let cells = row.map(|model| Cell::Text(model.to_owned()));
        outcome.line(parent, How::Quoted, cells);
        let mut ours = Vec::new();
        for column in columns {
            let of = |model, ranks| map(model, ranks).map_err(|e| e.to_string());
            let (parent, child) = (of(parent, RANKS)?, of(column, RANKS / 4)?);
            ours.push(name(&parent.compose(&child).map_err(|e| e.to_string())?));
        }
        let worse = ours.iter().zip(row).map(|(ours, theirs)| place(ours) > place(theirs));
        let worse = worse.collect();
        let at = outcome.line(parent, How::Counted, ours.into_iter().map(Cell::Text));
        outcome.mark(at, worse);
    }
    outcome.note("(a): the parent's table, shared.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_is_what_it_is_called() {
        for model in TABLE_II_MODELS {
            assert_eq!(map(model, RANKS).map(|map| map.model().name()), Ok(model));
        }
        let mut all: Vec<u32> = mixed(RANKS).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..RANKS));
    }
}
