//! What was measured: tables, JSON, a chart.

use super::measure::{Row, Times};
use crate::output::{self, Table};
use crate::plot::{self, PlotError};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// An MPI of the run.
#[derive(Serialize)]
pub(super) struct Library {
    pub(super) name: &'static str,
    pub(super) library: String,
    pub(super) version: Option<String>,
    pub(super) error: Option<String>,
    /// What installs it, where it is not there.
    pub(super) remedy: Option<&'static str>,
}

/// A figure to reach.
#[derive(Serialize)]
pub(super) struct Figure {
    what: &'static str,
    measured: usize,
    at_least: usize,
    met: bool,
}

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) command: &'static str,
    pub(super) version: &'static str,
    /// The instructions that ours and the loops were compiled for.
    pub(super) level: &'static str,
    pub(super) libraries: Vec<Library>,
    pub(super) patterns: Vec<Row>,
    pub(super) figures: Vec<Figure>,
}

impl Report {
    /// Figures over applications: `names` has the application of each row.
    pub(super) fn judge(&mut self, names: &[&'static str]) {
        let mut applications = names.to_vec();
        applications.dedup();
        let mut figure = |what, at_least, ratio: &dyn Fn(&Row) -> Option<f64>, bound: f64| {
            let good = |name: &&str| {
                let rows = self.patterns.iter().zip(names).filter(|(_, of)| *of == name);
                let ratios: Option<Vec<f64>> = rows.map(|(row, _)| ratio(row)).collect();
                ratios.is_some_and(|all| all.iter().all(|&ratio| ratio >= bound))
            };
            let measured = applications.iter().filter(|name| good(name)).count();
            self.figures.push(Figure { what, measured, at_least, met: measured >= at_least });
        };
        let there = |name| self.libraries.iter().any(|one| one.name == name && one.error.is_none());
        let (openmpi, mpich) = (there("Open MPI"), there("MPICH"));
        if openmpi {
            figure("packed faster than by Open MPI", 16, &|row| row.pack.to_openmpi, 1.0);
            figure("unpacked faster than by Open MPI", 16, &|row| row.unpack.to_openmpi, 1.0);
        }
        if mpich {
            figure("packed faster than by MPICH", 16, &|row| row.pack.to_mpich, 1.0);
            figure("unpacked faster than by MPICH", 16, &|row| row.unpack.to_mpich, 1.0);
        }
        figure("packed no slower than by hand", 14, &|row| Some(row.pack.to_manual), 1.0);
        figure("unpacked no slower than by hand", 14, &|row| Some(row.unpack.to_manual), 1.0);
    }

    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let heads = [
            "pattern",
            "payload",
            "",
            "memcpy",
            "ours",
            "naive",
            "manual",
            "Open MPI",
            "MPICH",
            "to\nmemcpy",
            "to\nmanual",
            "to\nOpen MPI",
            "to\nMPICH",
        ];
        let mut table = Table::new(&heads);
        table.title(format!(
            "Packing and unpacking, ns an element, {}; ratios: their time to ours (1.00 and more: ours is as fast)",
            self.level
        ));
        for library in &self.libraries {
            let text = match (&library.version, &library.error, library.remedy) {
                (Some(version), ..) => version.clone(),
                (_, Some(why), Some(remedy)) => format!("not measured: {why}; try: {remedy}"),
                (_, why, _) => format!("not measured: {}", output::maybe(why.as_ref())),
            };
            table.title(format!("{}: {text}", library.name));
        }
        for row in &self.patterns {
            let bytes = output::bytes(row.bytes);
            table.row(&line(&row.name, &bytes, "pack", &row.pack));
            table.row(&line("", "", "unpack", &row.unpack));
            for (name, why) in &row.failed {
                table.note(format!("{name} did not do it: {why}"));
            }
        }
        table.print(out)?;
        for row in self.patterns.iter().filter(|row| !row.candidates.is_empty()) {
            row.print_plans(out)?;
        }
        for row in self.patterns.iter().filter(|row| !row.transfers.is_empty()) {
            row.print_transfers(out)?;
        }
        if !self.figures.is_empty() {
            let mut table = Table::new(&["figure to reach", "of 16", "at least", ""]);
            for figure in &self.figures {
                let met = if figure.met { "pass" } else { "MISSED" };
                table.row(&[
                    figure.what.to_owned(),
                    figure.measured.to_string(),
                    figure.at_least.to_string(),
                    met.to_owned(),
                ]);
            }
            writeln!(out)?;
            table.print(out)?;
        }
        Ok(())
    }

    /// Bandwidth by payload of the one pattern that was measured at several sizes.
    pub(super) fn draw(&self, name: &str, path: &Path) -> Result<(), PlotError> {
        let points = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            let point = |row: &Row| {
                let speed = row.element_bytes as f64 / of(row)?;
                Some((row.bytes as f64, speed))
            };
            self.patterns.iter().filter_map(point).collect()
        };
        let series: Vec<(&str, Vec<(f64, f64)>)> = vec![
            ("Rankway", points(&|row| Some(row.pack.ours))),
            ("memcpy", points(&|row| Some(row.pack.memcpy))),
            ("by hand", points(&|row| Some(row.pack.manual))),
            ("plain loop", points(&|row| Some(row.pack.naive))),
            ("Open MPI", points(&|row| row.pack.openmpi)),
            ("MPICH", points(&|row| row.pack.mpich)),
            ("Rankway, unpack", points(&|row| Some(row.unpack.ours))),
        ];
        let series: Vec<_> = series.into_iter().filter(|(_, all)| !all.is_empty()).collect();
        let title = format!("Packing: {name}, {}", self.level);
        plot::lines(path, &title, &series, "payload, bytes", "GB/s")
    }
}

fn line(name: &str, bytes: &str, direction: &str, times: &Times) -> Vec<String> {
    let ns = |value: Option<f64>| output::number(value.unwrap_or(f64::NAN), 3);
    let ratio = |value: Option<f64>| output::number(value.unwrap_or(f64::NAN), 2);
    vec![
        name.to_owned(),
        bytes.to_owned(),
        direction.to_owned(),
        ns(Some(times.memcpy)),
        ns(Some(times.ours)),
        ns(Some(times.naive)),
        ns(Some(times.manual)),
        ns(times.openmpi),
        ns(times.mpich),
        ratio(Some(times.to_memcpy)),
        ratio(Some(times.to_manual)),
        ratio(times.to_openmpi),
        ratio(times.to_mpich),
    ]
}

impl Row {
    fn print_plans(&self, out: &mut impl Write) -> std::io::Result<()> {
        let heads = [
            "plan",
            "",
            "predicted",
            "measured",
            "cache 1\nmisses",
            "last cache\nmisses",
            "TLB\nmisses",
            "",
        ];
        let mut table = Table::new(&heads);
        table.title("").title(format!("Plans for {}, ns an element", self.name));
        for plan in &self.candidates {
            table.row(&[
                plan.plan.clone(),
                plan.direction.to_owned(),
                output::number(plan.predicted, 3),
                output::number(plan.measured, 3),
                output::count(plan.first_cache_misses),
                output::count(plan.last_cache_misses),
                output::count(plan.tlb_misses),
                if plan.chosen { "chosen".to_owned() } else { String::new() },
            ]);
        }
        table.print(out)
    }

    fn print_transfers(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut table = Table::new(&["network", "target", "takes", "predicted us by method"]);
        table.title("").title(format!("How {} would travel", self.name));
        for one in &self.transfers {
            let costs: Vec<String> =
                one.costs.iter().map(|(name, ns)| format!("{name} {:.1}", ns / 1e3)).collect();
            table.row(&[one.network, one.target, one.method, &costs.join(", ")]);
        }
        table.print(out)
    }
}
