//! What `rankway rate` found, for people and for machines.

use super::network::NetworkReport;
use super::raw::Measured;
use crate::compared::compared;
use crate::count::Counted;
use crate::fixture::{self, MIXED};
use crate::output::{NONE, Table, bytes, maybe, number, rate};
use crate::plot;
use rankway::netmod::{Calls, Netmod};
use rankway_cli::observe::figures;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Instructions of one model.
#[derive(Clone, Copy, Serialize)]
struct Instructions {
    translation: usize,
    put_checked: usize,
    put_unchecked: usize,
}

/// A figure to reach.
#[derive(Serialize)]
struct Figure {
    what: &'static str,
    measured: f64,
    at_least: f64,
    met: bool,
}

#[derive(Serialize)]
pub(super) struct Report {
    networks: Vec<NetworkReport>,
    /// By model; empty where instructions cannot be counted.
    instructions: BTreeMap<&'static str, Instructions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_counted: Option<String>,
    figures: Vec<Figure>,
}

impl Report {
    pub(super) fn new(
        networks: Vec<NetworkReport>,
        counted: Result<Vec<Counted>, String>,
    ) -> Report {
        let (counted, not_counted) = match counted {
            Ok(counted) => (counted, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let instructions = counted.iter().map(|c| {
            let (translation, put_checked) = (c.translation.count, c.checked.count);
            let put_unchecked = c.unchecked.count;
            (c.model, Instructions { translation, put_checked, put_unchecked })
        });
        let instructions = instructions.collect();
        let figures = figures_of(&networks);
        Report { networks, instructions, not_counted, figures }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (i, network) in self.networks.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            self.table(network).print(out)?;
        }
        if let Some(why) = &self.not_counted {
            writeln!(out, "# instructions were not counted: {why}")?;
        }
        if !self.figures.is_empty() {
            writeln!(out)?;
            let mut table = Table::new(&["figure", "measured", "at least", "met"]);
            for f in &self.figures {
                let met = if f.met { "yes" } else { "NO" };
                table.row(&[f.what, &number(f.measured, 2), &number(f.at_least, 2), met]);
            }
            table.print(out)?;
        }
        Ok(())
    }

    pub(super) fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&[
            "network",
            "size",
            "window",
            "model",
            "unchecked",
            "unchecked_ratio",
            "checked",
            "checked_ratio",
            "map_bytes",
        ]);
        for n in &self.networks {
            for r in &n.rows {
                table.row(&[
                    n.network.clone(),
                    n.size.to_string(),
                    n.window.map_or(String::new(), |window| window.to_string()),
                    r.model.clone(),
                    number(r.unchecked, 3),
                    number(r.unchecked_ratio, 3),
                    number(r.checked, 3),
                    number(r.checked_ratio, 3),
                    r.map_bytes.to_string(),
                ]);
            }
        }
        table.csv(out)
    }

    pub(super) fn svg(&self, path: &Path) -> Result<(), plot::PlotError> {
        let models: Vec<&str> = self
            .networks
            .first()
            .map_or(Vec::new(), |n| n.rows.iter().map(|r| &*r.model).collect());
        let mut series = Vec::new();
        for n in &self.networks {
            let rate = |model| n.rows.iter().find(|r| r.model == model).map(|r| r.unchecked);
            let rates = models.iter().map(|&model| rate(model).unwrap_or(f64::NAN)).collect();
            series.push((format!("{}, unchecked", n.network), rates));
        }
        let theirs = models.iter().map(|m| published(m).unwrap_or(f64::NAN)).collect();
        series.push(("paper, theoretical network".to_owned(), theirs));
        let title = "Puts issued per second, by rank-map model";
        plot::bars(path, title, &models, &series, "million puts a second")
    }

    fn table(&self, n: &NetworkReport) -> Table {
        let (inject, write) = compared!(&*n.netmod, N => (N::CALLS.inject, N::TRACKED))
            .unwrap_or((Calls::GENERIC.inject, None));
        let write = write.unwrap_or(Calls::GENERIC.write);
        let reference = match (n.store, n.raw_write) {
            (Some(_), _) => "store",
            (None, Some(w)) if w == n.reference => write,
            _ => inject,
        };
        let mut table = Table::new(&[
            "model",
            "unchecked\nM/s",
            "ratio",
            "checked\nM/s",
            "ratio",
            "paper\nM/s",
            "instr.\nlookup",
            "instr.\nput",
            "map\nbytes",
        ]);
        let flush = n.window.map_or(String::new(), |n| format!(", a flush every {n} puts"));
        let NetworkReport { network, provider, size, .. } = n;
        table.title(format!("Put issue rate over {network} ({provider}), {size} bytes{flush}"));
        table.title(format!(
            "Best of several rounds; ratios to the {reference} loop of the same run"
        ));
        let paper = figures::TABLE_V_BLUES_2_THEORETICAL;
        let plain = |name: &str, value: f64| {
            [name.to_owned(), rate(value * 1e6), number(value / n.reference, 2)]
        };
        let raw = [(inject, n.raw_inject), (write, n.raw_write), ("store", n.store)];
        for (name, value) in raw {
            if let Some(value) = value {
                table.row(&plain(name, value));
            }
        }
        if let (Some(vc), Some(checked)) = (n.vc_vcrt, n.vc_vcrt_checked) {
            let mut cells = plain("vc-vcrt", vc).to_vec();
            cells.extend([rate(checked * 1e6), number(checked / n.reference, 2)]);
            cells.extend([maybe(paper.get("vc-vcrt")), "7".into(), NONE.into(), "480/peer".into()]);
            table.row(&cells);
        }
        if let (Some(view), Some(checked)) = (n.view, n.view_checked) {
            let mut cells = plain("view", view).to_vec();
            cells.extend([rate(checked * 1e6), number(checked / n.reference, 2)]);
            table.row(&cells);
        }
        if let (Some(vc), Some(checked)) = (n.vc_vcrt_mixed, n.vc_vcrt_mixed_checked) {
            let mut cells = plain(&format!("vc-vcrt, {MIXED}"), vc).to_vec();
            cells.extend([rate(checked * 1e6), number(checked / n.reference, 2)]);
            table.row(&cells);
        }
        for r in &n.rows {
            let counted = self.instructions.get(r.model.as_str());
            table.row(&[
                r.model.clone(),
                rate(r.unchecked * 1e6),
                number(r.unchecked_ratio, 2),
                rate(r.checked * 1e6),
                number(r.checked_ratio, 2),
                maybe(published(&r.model)),
                maybe(counted.map(|c| c.translation)),
                maybe(counted.map(|c| format!("{}/{}", c.put_unchecked, c.put_checked))),
                bytes(r.map_bytes as u64),
            ]);
        }
        table
            .note(format!("paper: {} (other machine); instr. put: unchecked/checked", paper.label));
        if n.rows.iter().any(|r| fixture::splits(&r.model).is_some()) {
            let sparse = figures::TABLE_VI.map(|generation| generation.sparse_group.to_string());
            table.note(format!(
                "gen1 to gen4: each by an odd/even split of the one before; paper: Table VI, where Open MPI's \
                 sparse groups have {} from the world on",
                sparse.join(", ")
            ));
        }
        if n.rows.iter().any(|r| r.model == MIXED) {
            table.note(format!("{MIXED}: 64 communicators of all models, in random order"));
        }
        table
    }
}

/// Of the paper, for a model or a generation of splits.
fn published(model: &str) -> Option<f64> {
    match fixture::splits(model) {
        Some(splits) => figures::TABLE_VI.get(splits).map(|row| row.av_rankmap),
        None => figures::TABLE_V_BLUES_2_THEORETICAL.get(model),
    }
}

/// The figures this project wants to reach, where they were measured.
fn figures_of(networks: &[NetworkReport]) -> Vec<Figure> {
    let networks = networks.iter().filter(|n| n.size == 8);
    let figures = networks.filter_map(|n| compared!(&*n.netmod, N => N::figures(n))).flatten();
    figures
        .filter(|(_, measured, _)| !measured.is_nan())
        .map(|(what, measured, at_least)| {
            let met = measured >= at_least;
            Figure { what, measured, at_least, met }
        })
        .collect()
}
