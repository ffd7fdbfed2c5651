//! `rankway trace matrix`: who sent how much to whom.

use super::calls::{Call, Process, Program, Worlds};
use super::load::{Source, Traces};
use super::picture::{Anchor, BLUE, Picture};
use super::replay::{Visitor, replay};
use crate::arguments;
use crate::output::{self, NONE, Table, bytes, count};
use rankway::track::CallClass;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Who sent how much to whom, in ranks of the world: messages, puts and gets
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// Shows bytes, as without any
    #[arg(short, long, conflicts_with = "calls")]
    bytes: bool,

    /// Shows how many messages, puts and gets instead of bytes
    #[arg(short, long)]
    calls: bool,

    /// Of one communicator or window: its name, its key, or its number in `comms --json`
    #[arg(short = 'm', long, value_name = "COMM")]
    comm: Option<String>,

    /// Draws it into this file
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,

    /// The same in pixels
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    png: Option<PathBuf>,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// From one process to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Moved {
    messages: u64,
    message_bytes: u64,
    puts: u64,
    put_bytes: u64,
    gets: u64,
    get_bytes: u64,
}

/// A pair that had something to do with each other.
#[derive(Serialize)]
struct Pair {
    source: String,
    destination: String,
    #[serde(flatten)]
    moved: Moved,
}

#[derive(Serialize)]
pub(super) struct Matrix {
    communicator: Option<String>,
    processes_in_all: usize,
    pairs: Vec<Pair>,
    elsewhere: u64,
    #[serde(skip)]
    by_calls: bool,
    #[serde(skip)]
    worlds: Worlds,
    #[serde(skip)]
    cells: BTreeMap<(usize, usize), Moved>,
}

/// The most processes that a table shows one by one.
const TABLE: usize = 16;
/// The most lines of pairs.
const PAIRS: usize = 20;
/// The most rows of a picture; of more processes some share one.
const ROWS: usize = 128;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let program = Program::of(&traces);
    let mut moves = Moves::new(&program, args.comm.as_deref())?;
    replay(&program, false, &mut [&mut moves])?;
    let matrix = Matrix::new(&program, moves, args.calls);
    if let Some(path) = &args.svg {
        matrix.picture().write_svg(path)?;
    }
    if let Some(path) = &args.png {
        matrix.picture().write_png(path)?;
    }
    if args.json {
        return traces.json("matrix", matrix);
    }
    output::print(|out| {
        matrix.table(&traces).print(out)?;
        output::charts(out, args.svg.iter().chain(&args.png))
    })
}

/// What was moved between processes, as calls come by.
pub(super) struct Moves {
    chosen: Option<usize>,
    cells: BTreeMap<(usize, usize), Moved>,
    elsewhere: u64,
}

impl Moves {
    /// In one communicator or window, or all.
    ///
    /// # Errors
    /// There is no such communicator.
    pub(super) fn new(program: &Program<'_>, comm: Option<&str>) -> Result<Moves, String> {
        let chosen = comm.map(|comm| program.object_named(comm)).transpose()?;
        Ok(Moves { chosen, cells: BTreeMap::new(), elsewhere: 0 })
    }
}

impl Visitor for Moves {
    fn call(&mut self, _: &Program<'_>, process: &Process<'_>, call: &Call) {
        if call.failed
            || !matches!(call.class, CallClass::Send | CallClass::OneSided)
            || call.rank.is_none()
            || self.chosen.is_some() && call.object != self.chosen
        {
            return;
        }
        let Some(peer) = call.peer else {
            self.elsewhere += 1;
            return;
        };
        let get = call.is_get();
        let between = if get { (peer, process.place) } else { (process.place, peer) };
        let moved = self.cells.entry(between).or_default();
        let (calls, sum) = match call.class {
            CallClass::Send => (&mut moved.messages, &mut moved.message_bytes),
            _ if get => (&mut moved.gets, &mut moved.get_bytes),
            _ => (&mut moved.puts, &mut moved.put_bytes),
        };
        *calls += 1;
        *sum += call.bytes;
    }
}

impl Matrix {
    pub(super) fn new(program: &Program<'_>, moves: Moves, by_calls: bool) -> Matrix {
        let Moves { chosen, cells, elsewhere } = moves;
        let worlds = program.worlds().clone();
        let pairs = cells.iter().map(|(&(source, destination), &moved)| Pair {
            source: worlds.label(source),
            destination: worlds.label(destination),
            moved,
        });
        Matrix {
            communicator: chosen.map(|object| program.object_label(Some(object))),
            processes_in_all: worlds.len(),
            pairs: pairs.collect(),
            elsewhere,
            by_calls,
            worlds,
            cells,
        }
    }

    fn value(&self, moved: &Moved) -> u64 {
        match self.by_calls {
            true => moved.messages + moved.puts + moved.gets,
            false => moved.message_bytes + moved.put_bytes + moved.get_bytes,
        }
    }

    fn told(&self, value: u64) -> String {
        if self.by_calls { count(value) } else { bytes(value) }
    }

    pub(super) fn table(&self, traces: &Traces) -> Table {
        let all = self.worlds.len();
        let few = all <= TABLE;
        let head: Vec<String> = match few {
            true => std::iter::once("from \\ to".to_owned())
                .chain((0..all).map(|place| self.worlds.label(place)))
                .chain(["sum".to_owned()])
                .collect(),
            false => ["from", "to", "messages", "bytes", "puts", "bytes", "gets", "bytes"]
                .map(str::to_owned)
                .to_vec(),
        };
        let mut table = Table::new(&head);
        traces.head(&mut table);
        let what = if self.by_calls { "messages, puts and gets" } else { "bytes" };
        let of = self.communicator.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        table.title(format!("{what} from rank to rank{of}; a get counts from where the bytes are"));
        let mut total = 0;
        if few {
            for source in 0..all {
                let row = (0..all).map(|to| self.cells.get(&(source, to)));
                let values: Vec<Option<u64>> =
                    row.map(|moved| moved.map(|moved| self.value(moved))).collect();
                let sum: u64 = values.iter().flatten().sum();
                total += sum;
                let shown = values.iter().map(|value| match value {
                    Some(value) => self.told(*value),
                    None => NONE.to_owned(),
                });
                let mut line = vec![self.worlds.label(source)];
                line.extend(shown);
                line.push(self.told(sum));
                table.row(&line);
            }
        } else {
            let mut pairs: Vec<(&(usize, usize), &Moved)> = self.cells.iter().collect();
            total = pairs.iter().map(|(_, moved)| self.value(moved)).sum();
            pairs.sort_by_key(|(at, moved)| (std::cmp::Reverse(self.value(moved)), **at));
            for &(&(source, to), moved) in pairs.iter().take(PAIRS) {
                let cells = [
                    self.worlds.label(source),
                    self.worlds.label(to),
                    count(moved.messages),
                    bytes(moved.message_bytes),
                    count(moved.puts),
                    bytes(moved.put_bytes),
                    count(moved.gets),
                    bytes(moved.get_bytes),
                ];
                table.row(&cells);
            }
            let more = pairs.len().saturating_sub(PAIRS);
            if more > 0 {
                table.note(format!(
                    "and {} pairs more; --json has all, --svg and --png draw them",
                    count(more as u64)
                ));
            }
        }
        table.note(format!(
            "together {} in {} pairs",
            self.told(total),
            count(self.cells.len() as u64)
        ));
        if self.elsewhere > 0 {
            table.note(format!(
                "and {} calls to ranks of which nothing is known",
                count(self.elsewhere)
            ));
        }
        table
    }

    /// A square for each pair, the darker the more, by the logarithm.
    pub(super) fn picture(&self) -> Picture {
        const TOP: f64 = 70.0;
        let label = |place| self.worlds.label(place);
        let all = self.worlds.len().max(1);
        let share = all.div_ceil(ROWS);
        let rows = all.div_ceil(share);
        let name = |row: usize| {
            let (first, last) = (row * share, ((row + 1) * share).min(all) - 1);
            match share {
                _ if self.worlds.len() == 0 => String::new(),
                1 => label(first),
                _ => format!("{}-{}", label(first), label(last)),
            }
        };
        // (What a name takes, with space.)
        let wide = 6.5 * name(rows - 1).len() as f64 + 8.0;
        let left = 70_f64.max(wide + 24.0);
        let mut sums: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (&(source, to), moved) in &self.cells {
            *sums.entry((source / share, to / share)).or_default() += self.value(moved);
        }
        let most = sums.values().copied().max().unwrap_or(0);
        let least = sums.values().copied().filter(|&value| value > 0).min().unwrap_or(1);
        let side = (560.0 / rows as f64).clamp(4.0, 40.0);
        let (width, height) = (left + side * rows as f64 + 150.0, TOP + side * rows as f64 + 30.0);
        let mut picture = Picture::new(width.max(430.0), height.max(190.0));
        let what = if self.by_calls { "Messages, puts and gets" } else { "Bytes" };
        picture.text((left, 22.0), Anchor::Start, 16, &format!("{what} from rank to rank"));
        picture.text((left + side * rows as f64 / 2.0, 44.0), Anchor::Middle, 12, "to");
        picture.text((left - 6.0, 44.0), Anchor::End, 12, "from");
        // As many names as fit.
        let every = (wide.max(16.0) / side).ceil().max(1.0) as usize;
        for row in (0..rows).step_by(every) {
            let middle = (row as f64 + 0.5) * side;
            picture.text((left - 6.0, TOP + middle + 4.0), Anchor::End, 11, &name(row));
            picture.text((left + middle, TOP - 6.0), Anchor::Middle, 11, &name(row));
        }
        let shade = |value: u64| {
            let (low, high) = ((least as f64).ln(), (most.max(1) as f64).ln());
            let at = if high > low { ((value as f64).ln() - low) / (high - low) } else { 1.0 };
            0.15 + 0.85 * at
        };
        for (&(source, to), &value) in &sums {
            let said = format!("{} to {}: {}", name(source), name(to), self.told(value));
            let opacity = if value == 0 { 0.05 } else { shade(value) };
            let corner = (left + to as f64 * side, TOP + source as f64 * side);
            picture.rectangle(corner, (side - 0.5, side - 0.5), (BLUE, opacity), &said);
        }
        picture.frame((left, TOP), (side * rows as f64, side * rows as f64));
        let x = left + side * rows as f64 + 24.0;
        let mut steps = vec![most];
        if least < most {
            steps.push(((least as f64).ln() / 2.0 + (most as f64).ln() / 2.0).exp().round() as u64);
            steps.push(least);
        }
        for (at, &value) in steps.iter().enumerate() {
            let y = TOP + 26.0 * at as f64;
            let opacity = if most == 0 { 0.05 } else { shade(value) };
            picture.rectangle((x, y), (18.0, 18.0), (BLUE, opacity), "");
            picture.text((x + 26.0, y + 14.0), Anchor::Start, 12, &self.told(value));
        }
        picture
    }
}
