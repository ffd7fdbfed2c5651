//! What `rankway count --cache` prints.

use super::super::counters::Counted;
use super::super::misses::Misses;
use super::super::peers::PEERS;
use crate::fixture::MODELS;
use crate::output::{self, Table, maybe};
use rankway_cli::observe::cache::Geometry;
use rankway_cli::observe::figures::{ByModel, TABLE_IV};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Keys: docs/json.md.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) caches: Vec<Geometry>,
    pub(super) caches_from: &'static str,
    pub(super) lines: Vec<LinesRow>,
    /// Ranks of each model whose calls were traced.
    pub(super) traced: usize,
    pub(super) misses: Vec<Row>,
    pub(super) counted: Vec<Counted>,
    pub(super) not_counted: Option<String>,
    pub(super) published: Vec<Published>,
    pub(super) compiler: &'static str,
}

/// Distinct lines of one call.
#[derive(Serialize)]
pub(super) struct LinesRow {
    pub(super) model: &'static str,
    pub(super) call: &'static str,
    pub(super) code: usize,
    /// Of code, as it lies in this binary.
    pub(super) placed: usize,
    pub(super) read: usize,
    pub(super) written: usize,
    pub(super) stack: usize,
}

/// Misses by level of calls to so many ranks through so many communicators.
#[derive(Serialize)]
pub(super) struct Row {
    model: &'static str,
    ranks: u32,
    communicators: u32,
    whole: bool,
    put: Vec<f64>,
    translation: Vec<f64>,
    peers: BTreeMap<&'static str, Vec<f64>>,
    /// Of `translation` to each of `peers`; absent where those miss nothing.
    ratios: BTreeMap<&'static str, Vec<Option<f64>>>,
    /// Where it was asked for.
    pub(super) all: Option<All>,
}

/// All misses by level of so many puts to each of the other ranks, from empty caches on.
#[derive(Serialize)]
pub(super) struct All {
    pub(super) puts: u32,
    pub(super) put: Vec<u64>,
    pub(super) translation: Vec<u64>,
    pub(super) peers: BTreeMap<&'static str, Vec<u64>>,
}

impl Row {
    pub(super) fn new(
        model: &'static str,
        ranks: u32,
        communicators: u32,
        put: Misses,
        translation: Misses,
        peers: BTreeMap<&'static str, Misses>,
    ) -> Row {
        let ratios = peers.iter().map(|(&name, peer)| {
            let pairs = translation.levels.iter().zip(&peer.levels);
            (name, pairs.map(|(ours, theirs)| (*theirs > 0.0).then(|| ours / theirs)).collect())
        });
        let ratios = ratios.collect();
        let whole = peers.values().chain([&put, &translation]).all(|misses| misses.whole);
        let peers = peers.into_iter().map(|(name, misses)| (name, misses.levels)).collect();
        let (put, translation) = (put.levels, translation.levels);
        Row { model, ranks, communicators, whole, put, translation, peers, ratios, all: None }
    }
}

/// A line of Table IV of Guo et al. (2017).
#[derive(Serialize)]
pub(super) struct Published {
    what: &'static str,
    vc_vcrt: Option<u32>,
    misses: BTreeMap<&'static str, Option<u32>>,
}

impl Published {
    pub(super) fn table_iv() -> Vec<Published> {
        let line = |figures: &ByModel<u32>| Published {
            what: figures.label,
            vc_vcrt: figures.vc_vcrt,
            misses: MODELS.iter().map(|model| (*model, figures.get(model))).collect(),
        };
        TABLE_IV.iter().map(line).collect()
    }
}

const LEVELS: [&str; 3] = ["D1", "L2", "L3"];

impl Report {
    pub(super) fn print(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.lines_table().print(out)?;
        writeln!(out)?;
        self.misses_table().print(out)?;
        writeln!(out)?;
        if self.misses.iter().any(|row| row.all.is_some()) {
            self.all_table().print(out)?;
            writeln!(out)?;
        }
        if self.not_counted.is_none() {
            self.counted_table().print(out)?;
            writeln!(out)?;
        }
        published_table().print(out)
    }

    fn lines_table(&self) -> Table {
        let heads = ["code", "as\nplaced", "read", "written", "stack"];
        let calls = ["rank to entry:", "put checked:", "put unchecked:"];
        let mut head = vec!["model".to_owned()];
        for call in calls {
            head.extend(heads.iter().enumerate().map(|(i, head)| match i {
                0 => format!("{call}\n{head}"),
                _ => (*head).to_owned(),
            }));
        }
        let mut table = Table::new(&head);
        table.title("Distinct lines of 64 bytes, by every access that was traced on this machine");
        table.title("code: if each function began at a line; as placed: in this binary");
        table.title("Puts of 8 bytes: to the entry of the provider's fi_inject_write");
        for model in MODELS {
            let mut row = vec![model.to_owned()];
            for line in self.lines.iter().filter(|line| line.model == model) {
                let counts = [line.code, line.placed, line.read, line.written, line.stack];
                row.extend(counts.map(|count| count.to_string()));
            }
            table.row(&row);
        }
        table
    }

    fn misses_table(&self) -> Table {
        let mut head: Vec<String> = ["model", "ranks", "commu-\nnicators"].map(String::from).into();
        for level in LEVELS {
            head.push(format!("{level}:\nput"));
            head.push("ours".into());
            head.extend(PEERS.iter().map(|peer| match peer.name.strip_prefix('e') {
                Some(bytes) => bytes.to_owned(),
                None => "VC".to_owned(),
            }));
        }
        head.extend(LEVELS.map(|level| format!("ours/VC\n{level}")));
        let mut table = Table::new(&head);
        let sizes: Vec<String> = LEVELS
            .iter()
            .zip(&self.caches)
            .map(|(level, c)| {
                format!("{level} {} of {} lines a set", output::bytes(c.bytes), c.associativity)
            })
            .collect();
        table.title(format!(
            "Data-cache misses a call, simulated (least recently used out, no prefetching): {}, by: {}",
            sizes.join(", "),
            self.caches_from
        ));
        table.title(format!(
            "put: the whole unchecked put; ours: rank to entry alone. Their addresses by rank were \
             derived from {} traced ranks of each model, half of them to hold the others against",
            self.traced
        ));
        table.title(
            "Others: rank to address alone, the least their puts touch, 8 bytes of an element",
        );
        for peer in &PEERS {
            let name = peer.name.strip_prefix('e').unwrap_or("VC");
            table.title(format!("  {name}: {}", peer.label));
        }
        table.title(
            "Each communicator has tables of its own. Calls go to all ranks in turn through one, then \
             through the next; ~: not all of that was simulated",
        );
        for row in &self.misses {
            let mark = if row.whole { "" } else { "~" };
            let mut cells = vec![
                row.model.to_owned(),
                output::count(row.ranks.into()),
                format!("{mark}{}", row.communicators),
            ];
            for level in 0..LEVELS.len() {
                let all = [&row.put, &row.translation];
                let peers = PEERS.iter().map(|peer| &row.peers[peer.name]);
                cells.extend(all.into_iter().chain(peers).map(|m| output::number(m[level], 3)));
            }
            let ratios = row.ratios["vc_vcrt"].iter();
            cells.extend(ratios.map(|r| output::number(r.unwrap_or(f64::NAN), 2)));
            table.row(&cells);
        }
        if let Some(why) = &self.not_counted {
            table.note(format!("not counted by hardware: {why}"));
        }
        table
    }

    fn all_table(&self) -> Table {
        let mut head = vec!["model".to_owned(), "ranks".to_owned()];
        for level in LEVELS {
            head.extend([format!("{level}:\nput"), "ours".to_owned(), "VC".to_owned()]);
        }
        let mut table = Table::new(&head);
        let puts = self.misses.iter().find_map(|row| Some(row.all.as_ref()?.puts)).unwrap_or(0);
        table.title(format!(
            "All misses of {} puts to each of the other ranks, caches empty before, simulated",
            output::count(puts.into())
        ));
        for row in &self.misses {
            let Some(all) = &row.all else { continue };
            let mut cells = vec![row.model.to_owned(), output::count(row.ranks.into())];
            for level in 0..LEVELS.len() {
                let counts = [&all.put, &all.translation, &all.peers["vc_vcrt"]];
                cells.extend(counts.map(|count| output::count(count[level])));
            }
            table.row(&cells);
        }
        table
    }

    fn counted_table(&self) -> Table {
        let mut table = Table::new(&["model", "ranks", "D1", "last level"]);
        table.title(
            "Misses of a put that hardware counted, one communicator: loads alone, with the",
        );
        table.title("null provider's own and what the processor fetches ahead");
        for row in &self.counted {
            let cell = |count: Option<f64>| output::number(count.unwrap_or(f64::NAN), 4);
            let ranks = output::count(row.ranks.into());
            table.row(&[row.model.into(), ranks, cell(row.l1d_misses), cell(row.last_misses)]);
        }
        table
    }
}

fn published_table() -> Table {
    let models = MODELS.iter().filter(|model| **model != "blockstride");
    let mut head = vec!["cache", "VC-VCRT"];
    head.extend(models.clone());
    let mut table = Table::new(&head);
    table.title(
        "Guo et al. 2017, Table IV: misses of a process that issued 8 million puts to each other",
    );
    for figures in TABLE_IV {
        let mut row = vec![figures.label.to_owned(), maybe(figures.vc_vcrt)];
        row.extend(models.clone().map(|model| maybe(figures.get(model))));
        table.row(&row);
    }
    table
}
