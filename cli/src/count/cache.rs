//! `rankway count --cache`: cache lines of translations and puts, and misses of
//! puts to all ranks in turn, beside what others' translations miss.

mod report;

use super::counters;
use super::misses::{self, Misses};
use super::peers::PEERS;
use super::stream::{self, Sample, Stream, Touch};
use super::trace_ranks;
use crate::arguments;
use crate::fixture::{self, MODELS};
use crate::output;
use rankway::netmod::ofi::Ofi;
use rankway::rankmap::{Lookup, Process, RankMap};
use rankway::rma::Access;
use rankway_cli::observe::cache::Geometry;
use rankway_cli::observe::lines::{self, Lines};
use rankway_cli::observe::step::Trace;
use report::{All, LinesRow, Published, Report, Row};
use std::collections::BTreeMap;
use std::process::ExitCode;

// (The group of the arguments that these are among has the same name.)
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// First-level data cache, bytes and lines of a set: 32KiB/8 [default: this machine's]
    #[arg(long, value_name = "BYTES/LINES", value_parser = geometry, requires = "cache")]
    d1: Option<Geometry>,
    /// Second-level cache [default: this machine's]
    #[arg(long, value_name = "BYTES/LINES", value_parser = geometry, requires = "cache")]
    l2: Option<Geometry>,
    /// Third-level cache [default: this machine's]
    #[arg(long, value_name = "BYTES/LINES", value_parser = geometry, requires = "cache")]
    l3: Option<Geometry>,
    /// Ranks of a communicator, up to 1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ranks, requires = "cache",
          default_values_t = [2, 16, 128, 1 << 10, 16 << 10, 128 << 10, 1 << 20])]
    ranks: Vec<u32>,
    /// Communicators that puts go through in turn, up to 256
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "cache",
          value_parser = arguments::within::<u32>(1..=256), default_values_t = [1, 16, 256])]
    communicators: Vec<u32>,
    /// Only these rank maps
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = MODELS, requires = "cache")]
    models: Vec<String>,
    /// All misses of so many puts to each of the other ranks too, from empty caches on,
    /// through one communicator of up to 1k ranks
    #[arg(long, value_name = "N", value_parser = arguments::number, requires = "cache")]
    puts: Option<u32>,
}

/// The sizes taken where neither the machine nor an option says any: of a
/// usual server processor.
const ASSUMED: [(u64, u64); 3] = [(32 << 10, 8), (1 << 20, 8), (32 << 20, 16)];

fn geometry(text: &str) -> Result<Geometry, String> {
    let help = || format!("'{text}' is no cache; write bytes/lines of a set, 32KiB/8");
    let (bytes, lines) = text.split_once('/').ok_or_else(help)?;
    let bytes = arguments::cache_bytes(bytes).map_err(|_| help())?;
    Geometry::new(bytes, lines.parse().map_err(|_| help())?)
}

fn ranks(text: &str) -> Result<u32, String> {
    let ranks = arguments::number(text)?;
    let range = 2..=1 << 20;
    range.contains(&ranks).then_some(ranks).ok_or_else(|| "2 to 1M ranks are simulated".into())
}

/// Ranks of the communicators that are traced.
const TRACED_SIZE: u32 = 1024;
/// Ranks that accesses are fitted to, then those that the fit is held against.
const TRACED: [u32; 24] = [
    17, 0, 1, 2, 3, 63, 64, 255, 256, 257, 700, 1023, // fitted
    4, 5, 31, 100, 128, 300, 511, 512, 513, 777, 900, 1022, // held
];

pub(super) fn run(args: &Args, json: bool) -> Result<ExitCode, String> {
    let report = report(args)?;
    output::report(&report, json, |out| report.print(out))?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
pub(super) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&report(args)?)
}

fn report(args: &Args) -> Result<Report, String> {
    let (caches, caches_from) = caches(args);
    let traces = trace_ranks(TRACED_SIZE, &TRACED)?;
    let models =
        MODELS.iter().filter(|m| args.models.is_empty() || args.models.iter().any(|a| a == *m));
    let calls = Calls::derive(&traces)?;
    let cells = models.clone().count() * args.ranks.len() * args.communicators.len();
    let bar = output::progress(cells as u64, "simulating".into());
    let mut rows = Vec::new();
    for model in models {
        for &ranks in &args.ranks {
            let map = fixture::map_over(model, ranks, [0, 1])?;
            let processes: Vec<Process> = (0..map.len()).filter_map(|r| map.get(r)).collect();
            for &communicators in &args.communicators {
                let mut row = calls.row(model, &processes, communicators, &caches);
                if let Some(puts) = args.puts.filter(|_| ranks <= TRACED_SIZE) {
                    row.all = Some(calls.all(model, &processes, puts, &caches));
                }
                rows.push(row);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let not_counted = counters::missing();
    let counted = match &not_counted {
        Some(_) => Vec::new(),
        None => counters::count(&args.ranks)?,
    };
    Ok(Report {
        caches,
        caches_from,
        lines: calls.lines,
        traced: TRACED.len(),
        misses: rows,
        counted,
        not_counted,
        published: Published::table_iv(),
        compiler: env!("RANKWAY_RUSTC"),
    })
}

/// Three levels, and where they are from.
fn caches(args: &Args) -> (Vec<Geometry>, &'static str) {
    let given = [args.d1, args.l2, args.l3];
    let system = Geometry::of_this_machine();
    let assumed = ASSUMED.map(|(bytes, associativity)| Geometry { bytes, associativity });
    let level = |i: usize| given[i].or(system.get(i).copied()).unwrap_or(assumed[i]);
    let from = match (given.iter().flatten().count(), system.len()) {
        (3, _) => "options",
        (0, 3..) => "system",
        (0, 0) => "assumed",
        _ => "options, system, assumed",
    };
    ((0..3).map(level).collect(), from)
}

/// The calls of every model, as derived from what was traced.
struct Calls {
    translation: BTreeMap<&'static str, Vec<Touch>>,
    put: BTreeMap<&'static str, Vec<Touch>>,
    lines: Vec<LinesRow>,
}

impl Calls {
    fn derive(traces: &[Trace]) -> Result<Calls, String> {
        let each = traces.chunks_exact(TRACED.len() * 3);
        let mut calls =
            Calls { translation: BTreeMap::new(), put: BTreeMap::new(), lines: Vec::new() };
        for (model, traces) in MODELS.into_iter().zip(each) {
            let map = fixture::map_over(model, TRACED_SIZE, [0, 1])?;
            let derive = |call: usize, own: usize| {
                let samples = samples(&map, traces.iter().skip(call).step_by(3));
                stream::derive(&samples, own).map_err(|why| format!("{model}: {why}"))
            };
            calls.translation.insert(model, derive(0, size_of::<Lookup>())?);
            derive(1, size_of::<Access<Ofi>>())?;
            calls.put.insert(model, derive(2, size_of::<Access<Ofi>>())?);
            for (call, trace) in ["translation", "put_checked", "put_unchecked"].iter().zip(traces)
            {
                calls.lines.push(LinesRow::new(model, call, trace));
            }
        }
        Ok(calls)
    }

    fn row(
        &self,
        model: &'static str,
        processes: &[Process],
        communicators: u32,
        caches: &[Geometry],
    ) -> Row {
        let simulate = |touches: &[Touch], own: u64| -> Misses {
            let stream = Stream { touches, own, processes };
            misses::simulate(&stream, communicators.into(), caches)
        };
        let put = simulate(&self.put[model], size_of::<Access<Ofi>>() as u64);
        let translation = simulate(&self.translation[model], size_of::<Lookup>() as u64);
        let peers =
            PEERS.iter().map(|peer| (peer.name, simulate(&peer.touches(model), peer.own())));
        Row::new(model, processes.len() as u32, communicators, put, translation, peers.collect())
    }

    /// All misses of `puts` puts to each rank but the first.
    fn all(&self, model: &str, processes: &[Process], puts: u32, caches: &[Geometry]) -> All {
        let all = |touches: &[Touch], own: u64| {
            misses::all_of(&Stream { touches, own, processes }, puts.into(), caches)
        };
        let peers = PEERS.iter().map(|peer| (peer.name, all(&peer.touches(model), peer.own())));
        All {
            puts,
            put: all(&self.put[model], size_of::<Access<Ofi>>() as u64),
            translation: all(&self.translation[model], size_of::<Lookup>() as u64),
            peers: peers.collect(),
        }
    }
}

/// Traces with the ranks that they are of.
fn samples<'a>(map: &RankMap, traces: impl Iterator<Item = &'a Trace>) -> Vec<Sample<'a>> {
    let known = TRACED.into_iter().filter_map(|rank| Some((rank, map.get(rank)?)));
    known.zip(traces).map(|((rank, process), trace)| Sample { rank, process, trace }).collect()
}

impl LinesRow {
    fn new(model: &'static str, call: &'static str, trace: &Trace) -> LinesRow {
        let Lines { code, read, written, stack } = lines::of(trace);
        LinesRow { model, call, code, placed: lines::code_as_placed(trace), read, written, stack }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
#[allow(clippy::unwrap_used)]
mod tests;
