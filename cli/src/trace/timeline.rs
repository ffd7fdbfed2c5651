//! `rankway trace timeline`: what each rank did when.

use super::calls::{Call, Process, Program};
use super::load::{Source, Traces};
use super::messages::Message;
use super::picture::{Anchor, COLORS, Picture};
use super::replay::{Visitor, replay};
use super::word::{CLASSES, word};
use crate::arguments;
use crate::output::{self, NONE, Table, count, number};
use serde::Serialize;
use std::path::PathBuf;

/// What each rank did when: shares of its time, and a picture
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// Begins so many seconds after the first call
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = arguments::seconds)]
    from: f64,

    /// Ends so many seconds after the first call [default: with the last]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds)]
    to: Option<f64>,

    /// Draws it into this file
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// What a rank spent its time with; shares of `seconds`, of all its threads.
#[derive(Clone, Debug, Default, Serialize)]
struct Shares {
    rank: String,
    seconds: f64,
    threads: usize,
    calls: u64,
    send: f64,
    receive: f64,
    wait: f64,
    collective: f64,
    management: f64,
    one_sided: f64,
    synchronization: f64,
    other: f64,
    outside: f64,
}

#[derive(Serialize)]
pub(super) struct Timeline {
    seconds: f64,
    shares: Vec<Shares>,
    #[serde(skip)]
    spent: Spent,
}

/// What of the time is told, in ns since 1970.
#[derive(Clone, Copy)]
struct Window {
    /// When the first call began.
    first: u64,
    begin: u64,
    end: u64,
}

/// What ranks spend their time with, as calls come by.
pub(super) struct Spent {
    window: Window,
    processes: Vec<OfProcess>,
    /// Rows of the picture, and how much of each column a class covers; none without picture.
    rows: Vec<Row>,
    seen: [bool; CLASSES.len()],
    /// Messages as lines of the picture, at most one more than it has.
    lines: Vec<Message>,
}

#[derive(Clone)]
struct OfProcess {
    sums: [u64; CLASSES.len()],
    low: u64,
    high: u64,
    calls: u64,
}

type Row = Vec<[f32; CLASSES.len()]>;

/// The most rows of a picture, and the most messages as lines.
const ROWS: usize = 64;
const LINES: usize = 400;
/// Columns of a picture.
const COLUMNS: usize = 1000;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let program = Program::of(&traces);
    let mut spent = Spent::new(&program, args.from, args.to, args.svg.is_some())?;
    replay(&program, args.svg.is_some(), &mut [&mut spent])?;
    let timeline = Timeline::new(&program, spent);
    if let Some(path) = &args.svg {
        timeline.picture(&program).write_svg(path)?;
    }
    if args.json {
        return traces.json("timeline", timeline);
    }
    output::print(|out| {
        timeline.table(&traces).print(out)?;
        output::charts(out, &args.svg)
    })
}

impl Window {
    /// How far into a picture a time is, in columns.
    fn column(&self, ns: u64) -> f64 {
        let span = self.end.saturating_sub(self.begin).max(1) as f64;
        let since = ns.clamp(self.begin, self.end.max(self.begin)) - self.begin;
        since as f64 / span * COLUMNS as f64
    }
}

impl Spent {
    /// Of the time from `from` to `to`, in seconds since the first call; with what a picture
    /// needs.
    ///
    /// # Errors
    /// There is no such time.
    pub(super) fn new(
        program: &Program<'_>,
        from: f64,
        to: Option<f64>,
        picture: bool,
    ) -> Result<Spent, String> {
        let of = |process: &Process<'_>| {
            let (begin, end) = process.file.calls?;
            Some((process.nanos(begin), process.nanos(end)))
        };
        let calls = || program.processes.iter().filter_map(of);
        let first = calls().map(|(begin, _)| begin).min().unwrap_or(0);
        let last = calls().map(|(_, end)| end).max().unwrap_or(first);
        let at = |seconds: f64| first.saturating_add((seconds * 1e9) as u64).min(last);
        let (begin, end) = (at(from), to.map_or(last, at));
        if to.is_some_and(|to| to <= from) || (begin >= end && from > 0.0) {
            let all = last.saturating_sub(first) as f64 / 1e9;
            return Err(format!("--from and --to: nothing is there; the calls last {all:.6} s"));
        }
        let none = OfProcess { sums: [0; CLASSES.len()], low: u64::MAX, high: 0, calls: 0 };
        let rows = if picture { program.processes.len().min(ROWS) } else { 0 };
        Ok(Spent {
            window: Window { first, begin, end },
            processes: vec![none; program.processes.len()],
            rows: vec![vec![[0.0; CLASSES.len()]; COLUMNS]; rows],
            seen: [false; CLASSES.len()],
            lines: Vec::new(),
        })
    }
}

impl Visitor for Spent {
    fn call(&mut self, _: &Program<'_>, process: &Process<'_>, call: &Call) {
        let window = self.window;
        let (start, stop) = (call.start.max(window.begin), call.end.min(window.end));
        let Some(class) = word(call.kind).filter(|_| start <= stop) else { return };
        let of = &mut self.processes[process.at];
        of.sums[class] += stop - start;
        (of.low, of.high, of.calls) = (of.low.min(start), of.high.max(stop), of.calls + 1);
        let Some(row) = self.rows.get_mut(process.at) else { return };
        self.seen[class] = true;
        // A call has some width, however short.
        let (from, to) = (window.column(start), window.column(stop));
        let to = to.max(from + 0.05).min(COLUMNS as f64);
        for column in from as usize..=(to as usize).min(COLUMNS - 1) {
            let part = to.min(column as f64 + 1.0) - from.max(column as f64);
            if let Some(covered) = row.get_mut(column) {
                covered[class] += part.max(0.0) as f32;
            }
        }
    }

    fn message(&mut self, message: &Message) {
        let within = |ns: u64| (self.window.begin..=self.window.end).contains(&ns);
        if self.lines.len() <= LINES && within(message.send.start) && within(message.receive.end) {
            self.lines.push(message.clone());
        }
    }
}

impl Timeline {
    pub(super) fn new(program: &Program<'_>, spent: Spent) -> Timeline {
        let mut shares = Vec::new();
        for (process, of) in program.processes.iter().zip(&spent.processes) {
            let &OfProcess { sums, low, high, calls: count } = of;
            let span = high.saturating_sub(low);
            let threads = process.file.threads.len();
            let all = span as f64 * threads as f64;
            let share = |ns: u64| if all > 0.0 { ns as f64 / all } else { 0.0 };
            let [send, receive, wait, collective, management, one_sided, synchronization, other] =
                sums.map(share);
            shares.push(Shares {
                rank: program.label(process.place),
                seconds: span as f64 / 1e9,
                threads,
                calls: count,
                send,
                receive,
                wait,
                collective,
                management,
                one_sided,
                synchronization,
                other,
                outside: (1.0 - sums.iter().map(|&ns| share(ns)).sum::<f64>()).max(0.0),
            });
        }
        let Window { begin, end, .. } = spent.window;
        Timeline { seconds: end.saturating_sub(begin) as f64 / 1e9, shares, spent }
    }

    pub(super) fn table(&self, traces: &Traces) -> Table {
        let mut table = Table::new(&[
            "rank",
            "s",
            "calls",
            "send\n%",
            "receive\n%",
            "wait\n%",
            "collective\n%",
            "make,\nfree %",
            "put,\nget %",
            "synchro-\nnize %",
            "other\n%",
            "outside\nMPI %",
        ]);
        traces.head(&mut table);
        let percent = |share: f64| match share {
            0.0 => NONE.to_owned(),
            share => number(100.0 * share, 1),
        };
        for one in self.shares.iter().take(ROWS) {
            let shares = [
                one.send,
                one.receive,
                one.wait,
                one.collective,
                one.management,
                one.one_sided,
                one.synchronization,
                one.other,
                one.outside,
            ];
            let mut cells = vec![one.rank.clone(), number(one.seconds, 6), count(one.calls)];
            cells.extend(shares.map(percent));
            table.row(&cells);
        }
        if self.shares.len() > ROWS {
            let more = (self.shares.len() - ROWS) as u64;
            table.note(format!("and {} ranks more; --json has all", count(more)));
        }
        table.note(
            "shares of the time from a rank's first call behind MPI_Init to its last before \
             MPI_Finalize, of all its threads",
        );
        table
    }

    /// A row for each rank, calls coloured by class; messages as lines where they are few.
    pub(super) fn picture(&self, program: &Program<'_>) -> Picture {
        const LEFT: f64 = 60.0;
        const TOP: f64 = 66.0;
        let Spent { window, rows: covered, seen, lines, .. } = &self.spent;
        let rows = covered.len();
        let height = (360.0 / rows.max(1) as f64).clamp(10.0, 28.0);
        let bottom = TOP + height * rows as f64;
        let mut picture = Picture::new(LEFT + COLUMNS as f64 + 24.0, bottom + 56.0);
        picture.text((LEFT, 22.0), Anchor::Start, 16, "Calls by rank and time");
        let x = |ns: u64| LEFT + window.column(ns);
        for (row, (process, covered)) in program.processes.iter().zip(covered).enumerate() {
            let y = TOP + row as f64 * height;
            // As many names as fit.
            if row % (13.0 / height).ceil() as usize == 0 {
                let at = (LEFT - 6.0, y + height / 2.0 + 4.0);
                picture.text(at, Anchor::End, 11, &program.label(process.place));
            }
            let shown = |column: &[f32; CLASSES.len()]| -> Option<(usize, u8)> {
                let sum: f32 = column.iter().sum();
                let most = (0..CLASSES.len()).max_by(|&a, &b| column[a].total_cmp(&column[b]))?;
                (sum > 0.0).then_some((most, (sum.min(1.0) * 4.0).ceil() as u8))
            };
            let mut column = 0;
            while column < COLUMNS {
                let what = shown(&covered[column]);
                let mut end = column + 1;
                while end < COLUMNS && shown(&covered[end]) == what {
                    end += 1;
                }
                if let Some((class, shade)) = what {
                    let corner = (LEFT + column as f64, y + 1.0);
                    let size = ((end - column) as f64, height - 2.0);
                    picture.rectangle(corner, size, (COLORS[class], f64::from(shade) / 4.0), "");
                }
                column = end;
            }
        }
        let row_of = |place: usize| {
            let row = program.processes.iter().take(rows).position(|one| one.place == place)?;
            Some(TOP + (row as f64 + 0.5) * height)
        };
        if lines.len() <= LINES {
            for message in lines {
                let (_, source, destination, _) = message.key;
                if let (Some(from), Some(to)) = (row_of(source), row_of(destination)) {
                    picture.line((x(message.send.start), from), (x(message.receive.end), to), 0.7);
                }
            }
        }
        window.axis(&mut picture, (LEFT, bottom));
        picture.frame((LEFT, TOP), (COLUMNS as f64, height * rows as f64));
        let mut at = LEFT;
        for class in (0..CLASSES.len()).filter(|&class| seen[class]) {
            let name = CLASSES[class].replace('_', "-");
            picture.rectangle((at, 36.0), (12.0, 12.0), (COLORS[class], 1.0), "");
            picture.text((at + 17.0, 46.0), Anchor::Start, 12, &name);
            at += 17.0 + 7.5 * name.len() as f64 + 16.0;
        }
        let hidden = program.processes.len() - rows;
        if hidden > 0 {
            let said = format!("and {} ranks more", count(hidden as u64));
            picture.text((LEFT + COLUMNS as f64, 22.0), Anchor::End, 12, &said);
        }
        picture
    }
}

impl Window {
    fn axis(&self, picture: &mut Picture, (left, bottom): (f64, f64)) {
        let span = self.end.saturating_sub(self.begin).max(1) as f64;
        let (unit, ns) = match span {
            s if s >= 1e9 => ("s", 1e9),
            s if s >= 1e6 => ("ms", 1e6),
            s if s >= 1e3 => ("µs", 1e3),
            _ => ("ns", 1.0),
        };
        for tick in crate::plot::Axis::linear(span / ns).ticks(10) {
            let x = left + tick * ns / span * COLUMNS as f64;
            picture.line((x, bottom), (x, bottom + 5.0), 0.6);
            picture.text((x, bottom + 18.0), Anchor::Middle, 11, &crate::plot::tick_text(tick));
        }
        let said = match self.begin.saturating_sub(self.first) {
            0 => format!("{unit} since the first call"),
            later => {
                let later = crate::plot::tick_text((later as f64 / ns).round());
                format!("{unit} since {later} {unit} after the first call")
            }
        };
        let middle = left + COLUMNS as f64 / 2.0;
        picture.text((middle, bottom + 38.0), Anchor::Middle, 12, &said);
    }
}
