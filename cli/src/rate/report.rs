//! What `rankway rate` found, for people and for machines.

use crate::count::Counted;
use crate::output::{NONE, Table, bytes, maybe, number, rate};
use crate::plot;
use rankway_cli::observe::figures;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// One network; rates in million puts a second.
#[derive(Serialize, Deserialize)]
pub(super) struct NetworkReport {
    pub(super) netmod: String,
    pub(super) network: String,
    pub(super) provider: String,
    /// Bytes of a put.
    pub(super) size: usize,
    /// The provider's `fi_inject_write` in a loop, or UCX's `ucp_put_nbx`.
    pub(super) raw_inject: Option<f64>,
    /// The provider's `fi_write` in a loop, windowed.
    pub(super) raw_write: Option<f64>,
    /// Volatile stores in a loop, for mapped windows.
    pub(super) store: Option<f64>,
    /// Puts through [`rankway::rma::View`], for mapped windows.
    pub(super) view: Option<f64>,
    pub(super) view_checked: Option<f64>,
    pub(super) vc_vcrt: Option<f64>,
    pub(super) vc_vcrt_checked: Option<f64>,
    /// What the ratios are to.
    pub(super) reference: f64,
    pub(super) rows: Vec<Row>,
}

/// One model.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) model: String,
    pub(super) unchecked: f64,
    pub(super) unchecked_ratio: f64,
    pub(super) checked: f64,
    pub(super) checked_ratio: f64,
    /// Bytes of the rank map.
    pub(super) map_bytes: usize,
}

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
        let paper = figures::TABLE_V_BLUES_2_THEORETICAL;
        let mut series = Vec::new();
        for n in &self.networks {
            let rates = n.rows.iter().map(|r| r.unchecked).collect();
            series.push((format!("{}, unchecked", n.network), rates));
        }
        let theirs = models.iter().map(|m| paper.get(m).unwrap_or(f64::NAN)).collect();
        series.push(("paper, theoretical network".to_owned(), theirs));
        let title = "Puts issued per second, by rank-map model";
        plot::bars(path, title, &models, &series, "million puts a second")
    }

    fn table(&self, n: &NetworkReport) -> Table {
        let reference = match (n.store, n.raw_write) {
            (Some(_), _) => "store loop",
            (None, Some(w)) if w == n.reference => "fi_write loop",
            _ if n.netmod == "ucx" => "ucp_put_nbx loop",
            _ => "fi_inject_write loop",
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
        table
            .title(format!("Put issue rate over {} ({}), {} bytes", n.network, n.provider, n.size));
        table.title(format!("Best of several rounds; ratios to the {reference} of the same run"));
        let paper = figures::TABLE_V_BLUES_2_THEORETICAL;
        let plain = |name: &str, value: f64| {
            [name.to_owned(), rate(value * 1e6), number(value / n.reference, 2)]
        };
        let inject = if n.netmod == "ucx" { "ucp_put_nbx" } else { "fi_inject_write" };
        let raw = [(inject, n.raw_inject), ("fi_write", n.raw_write), ("store", n.store)];
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
        for r in &n.rows {
            let counted = self.instructions.get(r.model.as_str());
            table.row(&[
                r.model.clone(),
                rate(r.unchecked * 1e6),
                number(r.unchecked_ratio, 2),
                rate(r.checked * 1e6),
                number(r.checked_ratio, 2),
                maybe(paper.get(&r.model)),
                maybe(counted.map(|c| c.translation)),
                maybe(counted.map(|c| format!("{}/{}", c.put_unchecked, c.put_checked))),
                bytes(r.map_bytes as u64),
            ]);
        }
        table
            .note(format!("paper: {} (other machine); instr. put: unchecked/checked", paper.label));
        table
    }
}

/// The figures this project wants to reach, where they were measured: by the
/// best of the affine models, whose work is the same.
fn figures_of(networks: &[NetworkReport]) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut add = |what, measured, at_least| {
        all.push(Figure { what, measured, at_least, met: measured >= at_least });
    };
    for n in networks.iter().filter(|n| n.size == 8) {
        let affine =
            || n.rows.iter().filter(|r| ["direct", "offset", "stride"].contains(&&*r.model));
        let best = |f: fn(&Row) -> f64| affine().map(f).fold(f64::NAN, f64::max);
        let (unchecked, checked) = (best(|r| r.unchecked_ratio), best(|r| r.checked_ratio));
        match n.network.as_str() {
            "shm" if n.netmod == "ucx" => {
                add("UCX, allocated window, unchecked / ucp_put_nbx loop", unchecked, 0.9);
            }
            "mapped" if n.netmod == "ucx" => {
                let raw = n.raw_inject.unwrap_or(f64::NAN);
                let put = best(|r| r.unchecked) / raw;
                add("mapped window, unchecked / ucp_put_nbx loop", put, 3.0);
            }
            "null" => {
                add("null provider, unchecked / fi_inject_write loop", unchecked, 0.75);
                add("null provider, checked / fi_inject_write loop", checked, 0.55);
            }
            "shm" => add("shm, checked / fi_write loop", checked, 0.95),
            "mapped" => {
                let view = n.view.map_or(f64::NAN, |v| v / n.reference);
                add("mapped window, view / store loop", view, 0.4);
            }
            _ => {}
        }
    }
    all.retain(|f| !f.measured.is_nan());
    all
}
