//! `rankway trace simulate`: definitions of as many processes as are asked for, put together
//! by this one, beside the schemes of Geimer et al. (2011).

use crate::arguments;
use crate::output::{self, Table, bytes, number};
use crate::plot;
use crate::temporary::Temporary;
use rankway::rankmap::RankMap;
use rankway::track::{
    Constructor, Defined, Definition, DefinitionFlags, Identity, NO_PARENT, Partial, Recorder,
    Recording,
};
use rankway_cli::observe::figures::{SCALASCA, UnificationFigures};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

const JOB: u64 = 1;
/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
const PREDEFINED: u32 = 2;

/// What the definitions of many processes take, and how long it takes to put them together,
/// beside the schemes of Geimer et al. (2011)
///
/// Every process has duplicates of MPI_COMM_WORLD and of MPI_COMM_SELF, by default as many as
/// PFLOTRAN. Their definitions are made, merged along a binary tree, encoded, written to a
/// file, and made maps, on one processor. `lists` is what the paper describes, written again
/// and run beside: each communicator gathered into a list of ranks, equal lists kept once.
/// Bitstrings, which it replaced, are computed only. Seconds are of the processor.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many processes, one row each
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          value_parser = arguments::within::<u32>(1..=1 << 24),
          default_values_t = [2, 16, 128, 1024, 8192, 65_536, 131_072, 1_048_576])]
    processes: Vec<u32>,

    /// Duplicates of MPI_COMM_WORLD
    #[arg(long, value_name = "N", default_value_t = 18, value_parser = arguments::within::<u32>(0..=9_999))]
    worlds: u32,

    /// Duplicates of MPI_COMM_SELF
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = arguments::within::<u32>(0..=9_999))]
    selves: u32,

    /// Also writes them as definitions of an OTF2 archive, by the OTF2 library
    #[arg(long)]
    otf2: bool,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,

    /// Draws the bytes of all definitions by processes
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,

    /// Draws the seconds to put them together by processes
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg_seconds: Option<PathBuf>,
}

/// A scheme at a number of processes.
#[derive(Clone, Copy, Serialize)]
struct Scheme {
    /// What a process keeps of a communicator.
    bytes_a_communicator: f64,
    /// To put definitions together; of ours with writing them.
    seconds: Option<f64>,
    /// Groups, communicators, and which process calls which by which number.
    definition_bytes: u64,
    /// Of these, who is in which group.
    group_bytes: u64,
}

/// Definitions of an OTF2 archive.
#[derive(Clone, Copy, Serialize)]
struct Archive {
    /// To write them, behind what it takes to put them together.
    seconds: f64,
    bytes: u64,
}

#[derive(Serialize)]
struct Row {
    processes: u32,
    otf2: Option<Archive>,
    ours: Scheme,
    lists: Scheme,
    bitstrings: Scheme,
    /// Seconds of lists by ours.
    ratio: f64,
}

#[derive(Serialize)]
struct Figure {
    what: String,
    measured: f64,
    at_most: f64,
    met: bool,
}

#[derive(Serialize)]
struct Report {
    command: &'static str,
    version: &'static str,
    worlds: u32,
    selves: u32,
    rows: Vec<Row>,
    figures: Vec<Figure>,
    paper: UnificationFigures,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let report = report(args)?;
    if let Some(path) = &args.svg {
        report.draw(path)?;
    }
    if let Some(path) = &args.svg_seconds {
        report.draw_seconds(path)?;
    }
    output::report(&report, args.json, |out| {
        report.table().print(out)?;
        output::charts(out, args.svg.iter().chain(&args.svg_seconds))
    })
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&report(args)?)
}

fn report(args: &Args) -> Result<Report, String> {
    let mut report = Report {
        command: "trace simulate",
        version: env!("CARGO_PKG_VERSION"),
        worlds: args.worlds,
        selves: args.selves,
        rows: Vec::new(),
        figures: Vec::new(),
        paper: SCALASCA,
    };
    for &processes in &args.processes {
        report.rows.push(Program { processes, ..Program::of(args) }.row()?);
    }
    report.judge();
    Ok(report)
}

/// What every process makes.
struct Program {
    processes: u32,
    worlds: u32,
    selves: u32,
    /// Writes an archive too.
    otf2: bool,
}

impl Program {
    fn of(args: &Args) -> Program {
        Program { processes: 1, worlds: args.worlds, selves: args.selves, otf2: args.otf2 }
    }

    fn communicators(&self) -> u32 {
        PREDEFINED + self.worlds + self.selves
    }

    /// Definitions of a process, in the order of its numbers from 1.
    fn definitions(&self, rank: u32) -> Vec<Defined> {
        let world = Identity::world(JOB);
        let own = world.child(0, u64::from(rank) + 1);
        let definition = |identity, of_world, parent, constructor| Definition {
            identity,
            rank: if of_world { rank } else { 0 },
            size: if of_world { self.processes } else { 1 },
            parent,
            site: 0,
            constructor,
            flags: DefinitionFlags::NONE,
        };
        let predefined = [
            definition(world, true, NO_PARENT, Constructor::World),
            definition(own, false, NO_PARENT, Constructor::ItSelf),
        ];
        let worlds = (1..=self.worlds)
            .map(|ordinal| definition(world.child(ordinal, 0), true, 1, Constructor::Dup));
        let selves = (1..=self.selves)
            .map(|ordinal| definition(own.child(ordinal, 0), false, 2, Constructor::Dup));
        let all = predefined.into_iter().chain(worlds).chain(selves);
        (1..)
            .zip(all)
            .map(|(id, definition)| Defined { id, made: id.into(), freed: None, definition })
            .collect()
    }

    fn row(&self) -> Result<Row, String> {
        let ((ours, otf2), lists) = (self.ours()?, self.lists());
        let ratio = match (lists.seconds, ours.seconds) {
            (Some(lists), Some(ours)) => lists / ours,
            _ => f64::NAN,
        };
        let processes = self.processes;
        Ok(Row { processes, otf2, ours, lists, bitstrings: self.bitstrings(), ratio })
    }

    /// What the recorder keeps, and what the library makes of all.
    fn ours(&self) -> Result<(Scheme, Option<Archive>), String> {
        let directory = Temporary::new(&format!("rankway-{}", std::process::id()))
            .map_err(|e| format!("a directory for definitions: {e}"))?;
        self.ours_in(directory.path())
    }

    fn ours_in(&self, directory: &std::path::Path) -> Result<(Scheme, Option<Archive>), String> {
        let how = Recording { events: false, ring: 0 };
        let last = self.processes - 1;
        let recorder =
            Recorder::open(directory, JOB, last, self.processes, how).map_err(|e| e.to_string())?;
        for defined in self.definitions(last) {
            recorder.define(defined.definition);
        }
        let kept = recorder.bytes();
        let before = cpu_seconds();
        let partial = Partial::merge_all((0..self.processes).map(|rank| {
            Partial::of_definitions(JOB, rank, self.processes, &self.definitions(rank))
        }));
        let encoded = partial.to_bytes();
        fs::write(directory.join("definitions"), &encoded).map_err(|e| e.to_string())?;
        let unified = partial.finish();
        let seconds = cpu_seconds() - before;
        let objects = unified.objects.len();
        let expected = self.communicators() as usize;
        if objects != expected || *unified.groups[0].map() != RankMap::direct(self.processes) {
            return Err(format!("{objects} communicators came out of {expected}"));
        }
        let ids = 1..=self.communicators();
        if !ids.into_iter().all(|id| unified.object_of(JOB, last, id).is_some()) {
            return Err("a process's number leads to no communicator".to_owned());
        }
        let mut otf2 = None;
        if self.otf2 {
            let archive = directory.join("archive");
            fs::create_dir(&archive).map_err(|e| e.to_string())?;
            let before = cpu_seconds();
            let bytes = super::export::write_definitions(&unified, &archive)?;
            otf2 = Some(Archive { seconds: cpu_seconds() - before, bytes });
        }
        let scheme = Scheme {
            bytes_a_communicator: kept as f64 / f64::from(self.communicators()),
            seconds: Some(seconds),
            definition_bytes: encoded.len() as u64,
            group_bytes: unified.group_bytes() as u64,
        };
        Ok((scheme, otf2))
    }

    /// The paper's: a record of five integers, and lists gathered at the root.
    fn lists(&self) -> Scheme {
        #[derive(Clone, Copy)]
        struct Record {
            key: (u32, u32),
            rank: u32,
        }
        let (processes, many) = (self.processes as usize, 1 + self.worlds as usize);
        // Each process's communicators of several processes.
        let records: Vec<Record> = (0..self.processes)
            .flat_map(|rank| {
                (0..many as u32).map(move |counter| Record { key: (0, counter), rank })
            })
            .collect();
        let before = cpu_seconds();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut of = Vec::with_capacity(many);
        for communicator in 0..many as u32 {
            // Each gives its rank, or that it is not in.
            let gathered: Vec<i32> = (0..processes)
                .map(|process| {
                    let own = &records[process * many..(process + 1) * many];
                    let mut found = own.iter().filter(|record| record.key == (0, communicator));
                    found.next().map_or(-1, |record| record.rank as i32)
                })
                .collect();
            let mut list = vec![0u32; gathered.iter().filter(|rank| **rank >= 0).count()];
            for (process, &rank) in gathered.iter().enumerate() {
                if let Some(member) = usize::try_from(rank).ok().and_then(|rank| list.get_mut(rank))
                {
                    *member = process as u32;
                }
            }
            of.push(groups.iter().position(|group| *group == list).unwrap_or_else(|| {
                groups.push(list);
                groups.len() - 1
            }));
        }
        // What each process's number means; its own communicators behind the others.
        let own = 1 + self.selves as usize;
        let mut mapping = Vec::with_capacity(processes * (many + own));
        for process in 0..processes {
            mapping.extend((0..many).map(|communicator| communicator as u32));
            mapping.extend((0..own).map(|at| (many + process * own + at) as u32));
        }
        let seconds = cpu_seconds() - before;
        let group_bytes: usize = groups.iter().map(|group| 4 * group.len()).sum();
        let communicators = 8 * (of.len() + processes * own);
        let mappings = 4 * std::hint::black_box(mapping).len();
        Scheme {
            bytes_a_communicator: 20.0,
            seconds: Some(seconds),
            definition_bytes: (group_bytes + communicators + mappings) as u64,
            group_bytes: group_bytes as u64,
        }
    }

    /// What came before: a bit for each process of the world, in each record.
    fn bitstrings(&self) -> Scheme {
        let (processes, each) = (u64::from(self.processes), u64::from(self.processes).div_ceil(8));
        let groups = 1 + u64::from(self.worlds) + processes * (1 + u64::from(self.selves));
        Scheme {
            bytes_a_communicator: each as f64,
            seconds: None,
            definition_bytes: groups * each,
            group_bytes: groups * each,
        }
    }
}

/// Seconds of the processor that this thread has had.
fn cpu_seconds() -> f64 {
    crate::clock::thread_ns() as f64 / 1e9
}

impl Report {
    /// The figures that are asked of the paper's program at its size.
    fn judge(&mut self) {
        let Some(row) = self.rows.iter().find(|row| row.processes == SCALASCA.processes) else {
            return;
        };
        let asked = [
            ("seconds to put together", row.ours.seconds.unwrap_or(f64::NAN), 1.0),
            ("bytes of groups", row.ours.group_bytes as f64, 1e6),
        ];
        self.figures = asked
            .map(|(what, measured, at_most)| Figure {
                what: format!("{what}, {} processes", output::count(row.processes.into())),
                measured,
                at_most,
                met: measured <= at_most,
            })
            .into();
        if let Some(archive) = row.otf2 {
            let measured = archive.seconds + row.ours.seconds.unwrap_or(f64::NAN);
            self.figures.push(Figure {
                what: format!(
                    "seconds to put together and write OTF2's definitions, {} processes",
                    output::count(row.processes.into())
                ),
                measured,
                at_most: 1.0,
                met: measured <= 1.0,
            });
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "processes",
            "bytes a communicator",
            "of lists",
            "of bitstrings",
            "ms",
            "of lists",
            "ratio",
            "definitions",
            "of lists",
            "of bitstrings",
            "groups",
            "of lists",
        ]);
        let (worlds, selves) = (self.worlds, self.selves);
        table.title(format!(
            "MPI_COMM_WORLD, MPI_COMM_SELF, {worlds} duplicates of the first, {selves} of the other"
        ));
        let ms = |scheme: &Scheme| number(scheme.seconds.unwrap_or(f64::NAN) * 1e3, 2);
        for Row { processes, ours, lists, bitstrings, ratio, .. } in &self.rows {
            table.row(&[
                output::count(u64::from(*processes)),
                number(ours.bytes_a_communicator, 1),
                number(lists.bytes_a_communicator, 1),
                number(bitstrings.bytes_a_communicator, 0),
                ms(ours),
                ms(lists),
                number(*ratio, 2),
                bytes(ours.definition_bytes),
                bytes(lists.definition_bytes),
                bytes(bitstrings.definition_bytes),
                bytes(ours.group_bytes),
                bytes(lists.group_bytes),
            ]);
        }
        for Row { processes, otf2, .. } in &self.rows {
            if let Some(Archive { seconds, bytes: size }) = otf2 {
                table.note(format!(
                    "OTF2's definitions, {} processes: {} ms more, {}",
                    output::count(u64::from(*processes)),
                    number(seconds * 1e3, 2),
                    bytes(*size)
                ));
            }
        }
        for figure in &self.figures {
            table.note(format!(
                "{}: {}, asked for at most {}: {}",
                figure.what,
                number(figure.measured, 3),
                figure.at_most,
                if figure.met { "met" } else { "NOT MET" }
            ));
        }
        let UnificationFigures { label, processes, seconds, definitions_mb, mappings_mb } =
            self.paper;
        table.note(format!(
            "{label}, {} processes: {seconds} s, {definitions_mb} MB of definitions and {mappings_mb} \
             MB of mappings, of all that it defines and with its network",
            output::count(processes.into())
        ));
        table
    }

    fn draw(&self, path: &std::path::Path) -> Result<(), String> {
        let series = |of: fn(&Row) -> Scheme| {
            let point = |row: &Row| (f64::from(row.processes), of(row).definition_bytes as f64);
            self.rows.iter().map(point).collect::<Vec<_>>()
        };
        let paper = f64::from(self.paper.processes);
        let megabytes = self.paper.definitions_mb + self.paper.mappings_mb;
        let series = [
            ("bitstrings".to_owned(), series(|row| row.bitstrings)),
            ("lists of ranks".to_owned(), series(|row| row.lists)),
            ("rank maps".to_owned(), series(|row| row.ours)),
            (self.paper.label.to_owned(), vec![(paper, megabytes * 1e6)]),
        ];
        let title = format!("Definitions of {} communicators a process", self.communicators());
        plot::lines(path, &title, &series, "processes", "bytes").map_err(|e| e.to_string())
    }

    /// On one processor each, the paper's figure on that many processes.
    fn draw_seconds(&self, path: &std::path::Path) -> Result<(), String> {
        let series = |of: fn(&Row) -> Option<f64>| {
            let point = |row: &Row| Some((f64::from(row.processes), of(row)?));
            self.rows.iter().filter_map(point).collect::<Vec<_>>()
        };
        let paper = vec![(f64::from(self.paper.processes), self.paper.seconds)];
        let series = [
            ("lists of ranks".to_owned(), series(|row| row.lists.seconds)),
            ("rank maps".to_owned(), series(|row| row.ours.seconds)),
            (self.paper.label.to_owned(), paper),
        ];
        let communicators = self.communicators();
        let title = format!("Putting together {communicators} communicators a process");
        plot::lines(path, &title, &series, "processes", "seconds").map_err(|e| e.to_string())
    }

    fn communicators(&self) -> u32 {
        PREDEFINED + self.worlds + self.selves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a simulated program says is right at sizes that can be counted by hand.
    #[test]
    fn small_programs() {
        for (processes, worlds, selves) in [(1, 2, 1), (2, 0, 0), (3, 18, 4), (100, 1, 2)] {
            let row =
                Program { processes, worlds, selves, otf2: false }.row().expect("definitions");
            let n = u64::from(processes);
            let own = 1 + u64::from(selves);
            assert_eq!(row.lists.group_bytes, 4 * n);
            let mapped = 4 * n * (u64::from(worlds) + 1 + own);
            let listed = 8 * (u64::from(worlds) + 1 + n * own);
            assert_eq!(row.lists.definition_bytes, 4 * n + listed + mapped);
            let groups = 1 + u64::from(worlds) + n * own;
            assert_eq!(row.bitstrings.definition_bytes, groups * n.div_ceil(8));
            assert_eq!(row.ours.group_bytes, 32);
            // An index of one block, and space for three more.
            let most = 23.0 + 112.0 / (n.min(1) as f64 + (1 + worlds + selves) as f64);
            assert!((23.0..=most).contains(&row.ours.bytes_a_communicator));
        }
    }
}
