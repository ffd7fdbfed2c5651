//! `rankway memory`: bytes a process of a large job spends on addresses and
//! communicators.
//!
//! The job is simulated, the structures are not: one process's device, address
//! vector and communicators are made as in the job, over a network that moves
//! nothing, and weighed. See [`report`] for the keys of the JSON output.

mod baseline;
mod kind;
mod live;
mod report;
mod world;

pub(crate) use world::pages;

use self::baseline::VcVcrt;
use self::kind::{Kind, Layout};
use self::report::{Figure, KindReport, Report, SweepPoint};
use self::world::World;
use crate::arguments::{self, number};
use crate::output::{self, progress, refuse_arguments};
use std::path::PathBuf;
use std::process::ExitCode;

/// Processes of the paper's largest run (the whole of Mira).
const PAPER_PROCESSES: u32 = 786_432;
const PAPER_COMMUNICATORS: u32 = 100;
/// Job sizes of a sweep: 1k to 16M.
const SWEEP: [u32; 8] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
/// Most bytes of communicators, and of a baseline, that are really allocated.
const BUDGET_MAX: u64 = 1 << 30;

const HELP: &str = "\
Examples:
  rankway memory                                     the job of the paper
  rankway memory --processes 16M --communicators 10  16 million processes
  rankway memory --kind stride,lut --touch 1000      a process that talks to 1000 peers
  rankway memory --sweep --svg memory.svg            1k to 16M processes, as a table and a chart
  rankway memory --live 16                           a peer in a real job: heap, descriptors

The job is simulated; the structures are the real ones of one of its processes: a device, its \
address vector, communicators. Heap is counted by the allocator, address vectors by the pages \
the kernel says are there, after really inserting every peer. What would not fit into a quarter \
of this machine's free memory (1 GiB at most) is computed from fewer and marked with *.

Keys of --json: command, version, processes, communicators, processes_per_node, rank; \
sizes {communicator, rank_map, entry, vc, vcrt_entry}; \
device {heap_bytes, node_tables_bytes, av_bytes_none, av_bytes_touched, touched_peers, \
touch_heap_bytes}; \
kinds [{kind, what, model, ranks, communicator_bytes, communicators_built, communicators_bytes, \
total_bytes_none, total_bytes_touched, computed, vc_vcrt {bytes, computed}, mpich_4_bytes, \
mpich_5_bytes}]; \
figures [{name, value, at_most, unit, pass}]; \
published [{source, processes, vc_vcrt_mb, av_rankmap_mb}]; \
sweep [{kind, processes, total_bytes_none, total_bytes_touched, computed, vc_vcrt, \
mpich_4_bytes, mpich_5_bytes}]. With --live: command; live [{network, ranks, active, inactive \
{ours, library, descriptors, locked}}], each of one peer. All bytes are of one process; an absent \
figure is null.";

/// How many bytes address vectors and communicators take
#[derive(clap::Args)]
#[command(allow_negative_numbers = true, after_long_help = HELP, after_help = "More, with examples: rankway memory --help")]
pub(crate) struct Args {
    /// Processes of the job: 2 to 2147483647; k is 1024, M is 1024k
    /// [default: 786432, and with --sweep up to 16M]
    #[arg(short, long, value_name = "P", value_parser = processes)]
    processes: Option<u32>,

    /// Communicators of each kind
    #[arg(short, long, value_name = "C", default_value = "100", value_parser = communicators)]
    communicators: u32,

    /// Ranks on each node
    #[arg(long, value_name = "N", default_value = "16", value_parser = per_node)]
    ppn: u32,

    /// Kinds of communicators, with commas [default: all; with --sweep: stride]
    #[arg(short, long, value_enum, value_delimiter = ',')]
    kind: Vec<Kind>,

    /// Peers the process has talked to: none, all, or a number, spread evenly,
    /// which touches the most pages
    #[arg(short, long, default_value = "all", value_parser = touch)]
    touch: Touch,

    /// Jobs of 1k to 16M processes instead of one size
    #[arg(long)]
    sweep: bool,

    /// Writes the sweep as a chart into this file
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,

    /// A real job of so many ranks instead: what a peer costs on these networks
    /// (see --network)
    #[arg(long, value_name = "RANKS", value_parser = arguments::within::<u32>(4..=256),
        conflicts_with_all = ["processes", "communicators", "ppn", "kind", "touch", "sweep", "svg", "csv"])]
    live: Option<u32>,

    /// Networks of --live: libfabric providers (shm, tcp), or ucx
    #[arg(long, value_delimiter = ',', default_value = "shm,tcp,ucx", requires = "live",
        value_parser = arguments::network)]
    network: Vec<String>,

    /// For programs: one JSON object, keys as in --help
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// For spreadsheets: the table with bytes as plain numbers
    #[arg(long)]
    csv: bool,
}

/// Peers to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touch {
    None,
    All,
    Some(u32),
}

impl Touch {
    fn peers(self, processes: u32) -> u32 {
        match self {
            Touch::None => 0,
            Touch::All => processes,
            Touch::Some(n) => n.min(processes),
        }
    }
}

fn at_least(text: &str, least: u32) -> Result<u32, String> {
    let value = number(text)?;
    if value < least { Err(format!("at least {least}")) } else { Ok(value) }
}

fn processes(text: &str) -> Result<u32, String> {
    at_least(text, 2)
}

fn per_node(text: &str) -> Result<u32, String> {
    at_least(text, 1)
}

fn communicators(text: &str) -> Result<u32, String> {
    let value = at_least(text, 1)?;
    if value > 1_000_000 { Err("at most 1000000".into()) } else { Ok(value) }
}

fn touch(text: &str) -> Result<Touch, String> {
    match text {
        "none" => Ok(Touch::None),
        "all" => Ok(Touch::All),
        _ => number(text).map(Touch::Some).map_err(|_| {
            format!("'{text}' is neither none nor all nor a number of peers (1000, 64k, 1M)")
        }),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some(ranks) = args.live {
        return live(args, ranks);
    }
    if let Err(why) = check(args) {
        return Ok(refuse_arguments("memory", &why));
    }
    let mut report = report(args)?;
    report.figures = figures()?;
    if let Some(path) = &args.svg {
        report.svg(path)?;
    }
    output::report(&report, args.json, |out| {
        if args.csv {
            return report.csv(out);
        }
        report.text(out)?;
        output::charts(out, &args.svg)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints, without figures to reach.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    check(args)?;
    output::value(&report(args)?)
}

impl Args {
    fn is_sweep(&self) -> bool {
        self.sweep || self.svg.is_some()
    }

    /// Processes of the largest job.
    fn largest(&self) -> u32 {
        self.processes.unwrap_or(if self.is_sweep() { SWEEP[7] } else { PAPER_PROCESSES })
    }
}

/// What was asked for, without figures to reach.
fn report(args: &Args) -> Result<Report, String> {
    let largest = args.largest();
    let budget = (available() / 4).min(BUDGET_MAX);
    let mut report = Report::new(args.communicators, args.ppn);
    if args.is_sweep() {
        let kinds = if args.kind.is_empty() { &[Kind::Stride][..] } else { &args.kind };
        let sizes = SWEEP.into_iter().filter(|&p| p < largest).chain([largest]);
        for size in sizes {
            let (of_size, _) = measure(args, size, kinds, budget)?;
            report.sweep.extend(of_size.iter().map(|kind| SweepPoint::new(size, kind)));
        }
        // Kind by kind, sizes ascending within.
        report.sweep.sort_by_key(|point| kinds.iter().position(|&k| k == point.kind));
    } else {
        let kinds = if args.kind.is_empty() { &Kind::ALL[..] } else { &args.kind };
        let (kinds, world) = measure(args, largest, kinds, budget)?;
        report.world(&world);
        report.kinds = kinds;
    }
    Ok(report)
}

/// What a peer costs in a real job.
fn live(args: &Args, ranks: u32) -> Result<ExitCode, String> {
    let networks = args.network.iter().map(|network| live::measure(network, ranks));
    let live = networks.collect::<Result<Vec<_>, _>>()?;
    let value = serde_json::json!({ "command": "memory", "live": live });
    output::report(&value, args.json, |out| live::table(&live).print(out))?;
    Ok(ExitCode::SUCCESS)
}

/// What clap cannot see.
fn check(args: &Args) -> Result<(), String> {
    let processes = args.largest();
    if let Touch::Some(peers) = args.touch
        && peers > processes
    {
        return Err(format!(
            "--touch {peers} is more than the {processes} processes of the job; \
             write --touch all, or more --processes"
        ));
    }
    let peers = u64::from(args.touch.peers(processes));
    let wanted = (u64::from(processes) * 8).min(peers * 4096);
    if wanted > available() / 4 * 3 {
        return Err(format!(
            "inserting {peers} peers takes {} of memory, and {} are free here; \
             insert fewer with --touch N, or --touch none",
            crate::output::bytes(wanted),
            crate::output::bytes(available())
        ));
    }
    Ok(())
}

/// Bytes of memory that can be had without swapping; "plenty" where the system
/// does not say.
pub(crate) fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok()
    });
    kib.unwrap_or(8_u64 << 20) << 10
}

/// One job size: all kinds asked for, with and without peers.
fn measure(
    args: &Args,
    processes: u32,
    kinds: &[Kind],
    budget: u64,
) -> Result<(Vec<KindReport>, World), String> {
    let layout = Layout::new(processes, args.ppn);
    let count = crate::output::count(u64::from(processes));
    let bar = progress(1_u32, format!("{count} processes: opening"));
    let mut world = World::open(layout)?;
    bar.finish_and_clear();
    let peers = args.touch.peers(processes);
    if peers > 0 {
        let bar = progress(peers, format!("{count} processes: inserting peers"));
        world.touch(peers, |done| bar.set_position(done.into()))?;
        bar.finish_and_clear();
    }
    let mut measured = Vec::with_capacity(kinds.len());
    for &kind in kinds {
        let bar = progress(args.communicators, format!("{count} processes: {}", kind.name()));
        let step = |done: u32| bar.set_position(done.into());
        measured.push(world.measure(kind, args.communicators, budget, step)?);
        bar.finish_and_clear();
    }
    let bar = progress(kinds.len() as u32, format!("{count} processes: VC-VCRT"));
    let baseline = VcVcrt::open(layout, budget);
    let mut reports = Vec::with_capacity(kinds.len());
    for m in measured {
        let vc_vcrt = baseline.weigh(m.kind, m.ranks, args.communicators);
        let mpich_4 = baseline::mpich_4(&m, &layout, args.communicators);
        let mpich_5 = baseline::mpich_5(&m, &layout, args.communicators);
        reports.push(KindReport::new(&m, args.communicators, vc_vcrt, mpich_4, mpich_5));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((reports, world))
}

/// The figures the project stands for, measured on the job they are about.
fn figures() -> Result<Vec<Figure>, String> {
    let mut world = World::open(Layout::new(PAPER_PROCESSES, 16))?;
    let bar = progress(PAPER_PROCESSES, "the job of the paper".into());
    world.touch(PAPER_PROCESSES, |done| bar.set_position(done.into()))?;
    let split = world.measure(Kind::Stride, PAPER_COMMUNICATORS, BUDGET_MAX, |_| ())?;
    let mut regular = 0.0_f64;
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_regular()) {
        regular = regular.max(world.measure(kind, 2, BUDGET_MAX, |_| ())?.each());
    }
    let half = world.measure(Kind::Set, 1, BUDGET_MAX, |_| ())?;
    let merge = world.measure(Kind::Merge, 1, BUDGET_MAX, |_| ())?;
    bar.finish_and_clear();
    let peers = f64::from(PAPER_PROCESSES);
    let inserted = world.touched.map_or(f64::NAN, |t| t.table as f64 / peers);
    let touched = split.total_touched.map_or(f64::NAN, |bytes| bytes as f64);
    Ok(vec![
        Figure::new("av_bytes_per_inserted_peer", inserted, 8.0),
        Figure::new("av_bytes_per_untouched_peer", world.table_none as f64 / peers, 0.0),
        Figure::new("split_100_bytes_all_touched", touched, 6_500_000.0),
        Figure::new("split_100_bytes_none_touched", split.total_none as f64, 64_000.0),
        Figure::new("regular_communicator_bytes", regular, 128.0),
        Figure::new("random_half_bytes_per_member", half.each() / f64::from(half.ranks), 0.3),
        Figure::new("merge_of_two_jobs_bytes", merge.each(), 256.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        let good = [("786,432", 786_432), ("64k", 65_536), ("16M", 16 << 20), ("1_000", 1000)];
        good.into_iter().for_each(|(text, value)| assert_eq!(number(text), Ok(value), "{text}"));
        for bad in ["", "k", "-1", "1.5M", "16G", "4294967295", "99999999999999999999M"] {
            assert!(number(bad).is_err(), "{bad}");
        }
        assert_eq!((touch("none"), touch("1k")), (Ok(Touch::None), Ok(Touch::Some(1024))));
        assert!(touch("some").is_err_and(|why| why.contains("neither none nor all")));
        assert!(processes("1").is_err() && communicators("0").is_err() && per_node("0").is_err());
    }
}
