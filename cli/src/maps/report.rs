//! What was measured, for people, programs and as a chart.

use super::measure::{HEAD, Measured, Row, Thesis};
use crate::output::{NONE, Table, count, number};
use crate::scatter::{Mark, Panel, Point, scatter};
use rankway::rankmap::compact::Strategy;
use rankway_cli::observe::figures;
use rankway_cli::observe::maps::{CATALOG, Group};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Report {
    command: &'static str,
    version: &'static str,
    head_bytes: u64,
    strategies: Vec<String>,
    maps: Vec<Measured>,
    figures: Vec<Figure>,
    published: Vec<Published>,
}

/// A figure to reach.
#[derive(Serialize)]
struct Figure {
    name: String,
    value: f64,
    at_most: f64,
    unit: &'static str,
    pass: bool,
}

/// Somebody else's figure.
#[derive(Serialize)]
struct Published {
    what: &'static str,
    value: f64,
    unit: &'static str,
    source: &'static str,
}

/// Bytes a member of what the strategy Space picks, at most.
const GOALS: [(&str, f64); 4] = [("A", 0.25), ("C", 0.007), ("D", 0.002), ("E", 0.003)];
/// Bytes a member of a random permutation of 2^20.
const PERMUTATION: f64 = 2.55;

fn published() -> Vec<Published> {
    let told = |what, value, unit, section| Published { what, value, unit, source: section };
    vec![
        told("gap encoding", figures::MIR_TAHERI_GAP_NS, "ns", "Mir Taheri 2011, 4.1.4"),
        told("bitmap with popcnt", figures::MIR_TAHERI_BITMAP_NS, "ns", "Mir Taheri 2011, 4.1.3"),
        told(
            "optimized canonical, beside canonical, at least",
            figures::MIR_TAHERI_PACKED_MORE_NS[0],
            "ns more",
            "Mir Taheri 2011, 4.3.1",
        ),
        told(
            "a 2-D part of a 3-D grid of 2^20 as a BDD",
            figures::MIR_TAHERI_SUBMESH_BYTES as f64,
            "bytes",
            "Mir Taheri 2011, 4.1.2.3",
        ),
    ]
}

/// `space`, `hybrid` of the thesis's weight, `time`.
fn short(strategy: &str) -> &str {
    if strategy.parse() == Ok(Strategy::default()) { "hybrid" } else { strategy }
}

/// Nanoseconds with so many digits as can be meant.
fn ns(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| number(value, 1))
}

/// Few bits have many zeroes behind the point.
fn small(value: f64) -> String {
    number(value, if value >= 0.1 { 2 } else { 5 })
}

impl Report {
    pub(super) fn new(maps: Vec<Measured>, strategies: &[Strategy], seed: u64) -> Report {
        let mut figures = Vec::new();
        for map in &maps {
            // The thesis's smallest against ours; strategies that lean to time may take
            // more. Shapes are not the thesis's.
            let theirs = [Group::Classes, Group::Table61].map(|group| Some(group.name()));
            let space = map.chosen.iter().find(|chosen| chosen.strategy == "space");
            if let (true, Some(space)) = (theirs.contains(&map.group), space) {
                figures.push(Figure {
                    name: format!("{}, space", map.name),
                    value: space.thesis_ratio,
                    at_most: 1.0,
                    unit: "of the thesis's best",
                    pass: space.no_larger_than_thesis,
                });
            }
            let known = CATALOG.iter().any(|one| {
                (one.name, Some(one.group.name()), one.universe)
                    == (&map.name, map.group, map.universe)
            });
            let goal = GOALS.iter().find(|goal| goal.0 == map.name).map(|goal| goal.1);
            let goal = goal.or((map.name == "P").then_some(PERMUTATION));
            if let (true, 0, Some(at_most), Some(space)) = (known, seed, goal, space) {
                let value = space.bytes as f64 / f64::from(map.ranks);
                let name = format!("{}, space", map.name);
                let pass = value <= at_most;
                figures.push(Figure { name, value, at_most, unit: "bytes a member", pass });
            }
        }
        Report {
            command: "maps",
            version: env!("CARGO_PKG_VERSION"),
            head_bytes: HEAD,
            strategies: strategies.iter().map(Strategy::to_string).collect(),
            maps,
            figures,
            published: published(),
        }
    }

    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let detailed = self.maps.iter().any(|map| !map.representations.is_empty());
        if detailed {
            self.maps.iter().try_for_each(|map| self.map_text(map, out))?;
        }
        if !detailed || self.maps.len() > 1 {
            self.summary(out)?;
        }
        writeln!(
            out,
            "# Thesis: Mir Taheri (2011), computed by its descriptions for the same maps. Bytes of \
             ours and of its are"
        )?;
        writeln!(
            out,
            "#   of whole maps, each with a head of {HEAD}. Bound: the fewest bytes that tell the \
             map from its class."
        )?;
        self.figures_text(out)
    }

    /// A line for each map.
    fn summary(&self, out: &mut impl Write) -> io::Result<()> {
        let mut head: Vec<String> =
            ["map", "what", "ranks", "bound\nbytes"].iter().map(|&s| s.to_owned()).collect();
        for strategy in &self.strategies {
            head.push(format!("{}\npicks", short(strategy)));
            head.push("\nbytes".to_owned());
        }
        head.extend(["thesis's\nbest".to_owned(), "\nbytes".to_owned()]);
        head.push(format!("{}\nto thesis", self.strategies.first().map_or("", |s| short(s))));
        let mut table = Table::new(&head);
        table.title("rankway maps: what each strategy picks, and what the thesis's best takes");
        table.title("");
        for map in &self.maps {
            let mut cells = vec![
                map.name.clone(),
                map.what.clone(),
                count(map.ranks.into()),
                count(map.bound.bytes.ceil() as u64),
            ];
            for chosen in &map.chosen {
                cells.extend([chosen.representation.to_owned(), count(chosen.bytes)]);
            }
            let best = &map.thesis_best;
            cells.extend([best.representation.to_owned(), count(best.bytes)]);
            cells.push(map.chosen.first().map_or(NONE.into(), |c| number(c.thesis_ratio, 3)));
            table.row(&cells);
        }
        table.print(out)?;
        writeln!(out, "#")
    }

    /// Everything of one map.
    fn map_text(&self, map: &Measured, out: &mut impl Write) -> io::Result<()> {
        let head = [
            "representation",
            "bytes",
            "bits a\nmember",
            "times\nbound",
            "random\nns",
            "table\nns",
            "walk\nns",
            "inverse\nns",
            "bytes with\ninverse",
            "build\nns a rank",
            "picked by",
        ];
        let mut table = Table::new(&head);
        table.title(format!("rankway maps: {}: {}", map.name, map.what));
        table.title(format!(
            "{} ranks of {}, {}; bound ({}): {} bits a member",
            count(map.ranks.into()),
            count(map.universe.into()),
            if map.set { "a set" } else { "a list" },
            map.bound.what,
            small(map.bound.bits / f64::from(map.ranks)),
        ));
        table.title("");
        for row in &map.representations {
            table.row(&cells(row));
        }
        for chosen in &map.chosen {
            if map.representations.iter().all(|row| row.representation != chosen.representation) {
                let bytes = count(chosen.bytes);
                let by = short(&chosen.strategy);
                table.note(format!("{by} picks {} of {bytes} bytes", chosen.representation));
            }
        }
        table.note("the thesis, computed; times as published");
        for one in &map.thesis {
            table.row(&theirs(map, one));
        }
        table.print(out)?;
        writeln!(out, "#")?;
        for unfit in &map.unfit {
            writeln!(out, "# {} cannot hold it: {}", unfit.representation, unfit.why)?;
        }
        writeln!(out, "#")
    }

    fn figures_text(&self, out: &mut impl Write) -> io::Result<()> {
        if self.figures.is_empty() {
            return Ok(());
        }
        writeln!(out, "#")?;
        let mut table = Table::new(&["figure to reach", "", "at most", ""]);
        for figure in &self.figures {
            let digits = if figure.at_most < 0.1 { 5 } else { 3 };
            table.row(&[
                figure.name.clone(),
                format!("{} {}", number(figure.value, digits), figure.unit),
                number(figure.at_most, digits),
                (if figure.pass { "pass" } else { "MISSED" }).to_owned(),
            ]);
        }
        table.print(out)
    }

    /// Bytes against nanoseconds, a panel for each map: Figures 5.3, 5.7, 5.11,
    /// 5.14 and 5.18 of the thesis with ours in them.
    pub(super) fn svg(&self, path: &Path) -> Result<(), String> {
        let panels: Vec<Panel> = self.maps.iter().map(panel).collect();
        let legend = [
            (Mark::Disc, "Rankway, random lookup"),
            (Mark::Ringed, "picked by a strategy"),
            (Mark::Hollow, "Rankway, sequential"),
            (Mark::Triangle, "thesis: bytes computed, its time"),
        ];
        let title = "Rank maps: bytes of a communicator against the time of a lookup";
        scatter(path, title, &legend, &panels, ("ns a lookup", "bytes")).map_err(|e| e.to_string())
    }
}

fn cells(row: &Row) -> Vec<String> {
    let times = &row.times;
    let picked: Vec<&str> = row.chosen_by.iter().map(|by| short(by)).collect();
    vec![
        row.representation.to_owned(),
        count(row.bytes),
        small(row.bits_per_member),
        number(row.ratio, 2),
        ns(times.random_ns),
        ns(times.table_ns),
        ns(times.sequential_ns),
        ns(times.inverse_ns),
        times.bytes_with_inverse.map_or_else(|| NONE.to_owned(), count),
        ns(times.build_ns),
        picked.join(" "),
    ]
}

fn theirs(map: &Measured, one: &Thesis) -> Vec<String> {
    vec![
        one.representation.to_owned(),
        count(one.bytes),
        small(one.bytes as f64 * 8.0 / f64::from(map.ranks)),
        number(one.bytes as f64 / map.bound.bytes, 2),
        ns(one.random_ns),
    ]
}

fn panel(map: &Measured) -> Panel {
    let mut points = Vec::new();
    let mut add = |label: &str, x: Option<f64>, y: u64, mark| {
        if let Some(x) = x {
            points.push(Point { label: label.to_owned(), x, y: y as f64, mark });
        }
    };
    for row in &map.representations {
        let picked: Vec<&str> = row.chosen_by.iter().map(|by| short(by)).collect();
        let (label, mark) = match picked.is_empty() {
            true => (row.representation.to_owned(), Mark::Disc),
            false => (format!("{} ({})", row.representation, picked.join(", ")), Mark::Ringed),
        };
        add(&label, row.times.random_ns, row.bytes, mark);
        add("", row.times.sequential_ns, row.bytes, Mark::Hollow);
    }
    for one in &map.thesis {
        add(one.representation, one.random_ns, one.bytes, Mark::Triangle);
    }
    let floor = Some((map.bound.bytes.max(1.0), "bound".to_owned()));
    Panel { title: format!("{}: {}", map.name, map.what), points, floor }
}

/// The built-in communicators.
pub(super) fn list(out: &mut impl Write) -> io::Result<()> {
    for group in Group::ALL {
        let mut table = Table::new(&[group.name(), "universe", "what"]);
        table.title(format!("{}: {}", group.name(), group.what()));
        for one in CATALOG.iter().filter(|one| one.group == group) {
            table.row(&[one.name, &count(one.universe.into()), one.what]);
        }
        table.print(out)?;
        writeln!(out, "#")?;
    }
    writeln!(out, "# all: every one of them")
}
