//! `rankway count`: instructions of a translation and of a put, exactly.

mod cache;
mod counters;
mod inline;
mod misses;
mod peers;
mod stream;

use crate::fixture::{self, Fixture, MODELS};
use crate::output::{self, Table, maybe};
use rankway::av::Entry;
use rankway::netmod::ofi::Ofi;
use rankway::rankmap::Lookup;
use rankway::rma::Access;
use rankway_cli::observe::figures;
use rankway_cli::observe::lines::{self, Lines};
use rankway_cli::observe::step::{self, Limits, Region, Trace};
use rankway_cli::observe::{disasm, step::Stop};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Counts the instructions of rank-to-entry translations and of 8-byte puts
/// from the call to the provider's function entry, by single-stepping them.
///
/// The provider is the one that completes at once (plugins/null-provider), so
/// nothing is counted but Rankway. `ret` is not counted, as in the paper.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example: rankway count --listing direct\n\
    JSON keys: translation.MODEL, put_checked.MODEL, put_unchecked.MODEL (instructions), \
    lines.* (distinct cache lines of the same), limits.* (the figures to keep), compiler; \
    with --c: translation.MODEL, put_unchecked.MODEL, compiler; with --cache: caches[], lines[], \
    misses[] (a put), counted[], published[]"
)]
pub(crate) struct Args {
    /// Show the instructions of this model's translation and puts
    #[arg(long, value_name = "MODEL", value_parser = MODELS, conflicts_with = "json")]
    listing: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with an error when a count is above its limit
    #[arg(long)]
    check: bool,
    /// Count what include/rankway.h has inline instead, in this shared object
    /// (made of capi/count/count.c by `make count-c`)
    #[arg(long, value_name = "FILE", conflicts_with = "cache")]
    c: Option<PathBuf>,
    /// Count cache lines instead, and simulate the misses of puts to all ranks in
    /// turn
    #[arg(long, conflicts_with_all = ["listing", "check"])]
    cache: bool,
    #[command(flatten)]
    simulated: cache::Args,
}

/// Ranks of the communicators that instructions are counted in.
const RANKS: u32 = 64;

/// The most instructions each may take.
const TRANSLATION_LIMIT: [(&str, u64); 6] =
    [("direct", 5), ("offset", 5), ("stride", 5), ("blockstride", 10), ("lut", 8), ("mlut", 12)];
const CHECKED_LIMIT: u64 = 34;
const UNCHECKED_LIMIT: u64 = 22;
/// The same through maps that are not affine.
const INDEXED_CHECKED_LIMIT: u64 = 48;
const INDEXED_UNCHECKED_LIMIT: u64 = 27;

/// Rank → entry, as a device layer would call it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C-unwind" fn rankway_translate(lookup: &Lookup, rank: usize) -> u64 {
    // SAFETY: called below with ranks of the lookup's map.
    unsafe { lookup.entry(rank) }
}

/// A checked put; `false` on error.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C-unwind" fn rankway_put(
    access: &Access<Ofi>,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
) -> bool {
    // SAFETY: called below with a live buffer, and flushed before it goes.
    unsafe { access.put_nb(buf, len, rank, disp) }.is_ok()
}

/// An unchecked put.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C-unwind" fn rankway_put_unchecked(
    access: &Access<Ofi>,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
) -> isize {
    // SAFETY: called below with a rank and a range that are in the window.
    unsafe { access.put_unchecked(buf, len, rank, disp) }
}

#[derive(Serialize)]
struct Report {
    translation: BTreeMap<&'static str, u64>,
    put_checked: BTreeMap<&'static str, u64>,
    put_unchecked: BTreeMap<&'static str, u64>,
    lines: LinesReport,
    limits: LimitsReport,
    compiler: &'static str,
}

/// Cache lines of the same calls.
#[derive(Serialize)]
struct LinesReport {
    translation: BTreeMap<&'static str, Lines>,
    put_checked: BTreeMap<&'static str, Lines>,
    put_unchecked: BTreeMap<&'static str, Lines>,
}

#[derive(Serialize)]
struct LimitsReport {
    translation: BTreeMap<&'static str, u64>,
    put_checked: u64,
    put_unchecked: u64,
    put_checked_indexed: u64,
    put_unchecked_indexed: u64,
}

/// What is counted for each model, in this order.
pub(crate) struct Counted {
    pub(crate) model: &'static str,
    pub(crate) translation: Trace,
    pub(crate) checked: Trace,
    pub(crate) unchecked: Trace,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    fixture::find_null_provider();
    if let Some(path) = &args.c {
        return run_c(args, path);
    }
    if args.cache {
        return cache::run(&args.simulated, args.json);
    }
    let counted = count_all()?;
    let report = report(&counted);
    output::print(|out| write_out(args, &report, &counted, out))?;
    let above = above(&report);
    if args.check && !above.is_empty() {
        return Err(above.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    match args.cache {
        true => cache::value(&args.simulated),
        false => output::value(&report(&count_all()?)),
    }
}

fn report(counted: &[Counted]) -> Report {
    let by_model = |pick: fn(&Counted) -> &Trace| {
        counted.iter().map(|c| (c.model, pick(c).count as u64)).collect::<BTreeMap<_, _>>()
    };
    let lines = |pick: fn(&Counted) -> &Trace| {
        counted.iter().map(|c| (c.model, lines::of(pick(c)))).collect::<BTreeMap<_, _>>()
    };
    Report {
        translation: by_model(|c| &c.translation),
        put_checked: by_model(|c| &c.checked),
        put_unchecked: by_model(|c| &c.unchecked),
        lines: LinesReport {
            translation: lines(|c| &c.translation),
            put_checked: lines(|c| &c.checked),
            put_unchecked: lines(|c| &c.unchecked),
        },
        limits: LimitsReport {
            translation: TRANSLATION_LIMIT.into(),
            put_checked: CHECKED_LIMIT,
            put_unchecked: UNCHECKED_LIMIT,
            put_checked_indexed: INDEXED_CHECKED_LIMIT,
            put_unchecked_indexed: INDEXED_UNCHECKED_LIMIT,
        },
        compiler: env!("RANKWAY_RUSTC"),
    }
}

/// The counts of what is inline in C.
fn run_c(args: &Args, path: &Path) -> Result<ExitCode, String> {
    let report = inline::count(path)?;
    output::print(|out| {
        if args.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        } else {
            report.table().print(out)?;
        }
        let Some(model) = args.listing.as_deref() else { return Ok(()) };
        let (translation, put) = &report.traces[model];
        for (what, trace) in [("rank to entry", translation), ("unchecked put", put)] {
            writeln!(out, "\n# {what}, {model}: {} instructions", trace.count)?;
            write!(out, "{}", disasm::listing(trace, disasm::Style::default()))?;
        }
        Ok(())
    })?;
    let above = report.above();
    if args.check && !above.is_empty() {
        return Err(above.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_out(
    args: &Args,
    report: &Report,
    counted: &[Counted],
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
    } else {
        table(report).print(out)?;
    }
    if let Some(c) = counted.iter().find(|c| Some(c.model) == args.listing.as_deref()) {
        let traces = [("rank to entry", &c.translation), ("checked put", &c.checked)];
        for (what, trace) in traces.into_iter().chain([("unchecked put", &c.unchecked)]) {
            writeln!(out, "\n# {what}, {}: {} instructions", c.model, trace.count)?;
            write!(out, "{}", disasm::listing(trace, disasm::Style::default()))?;
        }
    }
    Ok(())
}

/// The most instructions of a checked and of an unchecked put.
fn put_limits(model: &str) -> (u64, u64) {
    match model {
        "direct" | "offset" | "stride" => (CHECKED_LIMIT, UNCHECKED_LIMIT),
        _ => (INDEXED_CHECKED_LIMIT, INDEXED_UNCHECKED_LIMIT),
    }
}

fn above(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    let mut look = |what: &str, model: &str, count: u64, limit: u64| {
        if count > limit {
            all.push(format!("{what} of {model} takes {count} instructions, above {limit}"));
        }
    };
    for (model, limit) in TRANSLATION_LIMIT {
        look("translation", model, report.translation[model], limit);
    }
    for model in MODELS {
        let (checked, unchecked) = put_limits(model);
        look("checked put", model, report.put_checked[model], checked);
        look("unchecked put", model, report.put_unchecked[model], unchecked);
    }
    all
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&[
        "model",
        "rank to entry",
        "limit",
        "paper\nTable III",
        "MPICH\n4.0.2",
        "MPICH\n5.1",
        "put\nchecked",
        "limit",
        "put\nunchecked",
        "limit",
    ]);
    table.title("Instructions, counted one by one on this machine; ret not counted");
    table.title("Puts of 8 bytes: from the call to the entry of the provider's fi_inject_write");
    for (model, limit) in TRANSLATION_LIMIT {
        let (checked, unchecked) = put_limits(model);
        table.row(&[
            model.to_owned(),
            report.translation[model].to_string(),
            limit.to_string(),
            maybe(figures::TABLE_III.get(model)),
            maybe(figures::MPICH_4_0_TRANSLATION.get(model)),
            maybe(figures::MPICH_5_1_TRANSLATION.get(model)),
            report.put_checked[model].to_string(),
            checked.to_string(),
            report.put_unchecked[model].to_string(),
            unchecked.to_string(),
        ]);
    }
    table.note(format!(
        "paper: {}; VC-VCRT takes {}",
        figures::TABLE_III.label,
        maybe(figures::TABLE_III.get("vc-vcrt"))
    ));
    for call in figures::MPICH_WHOLE_CALL {
        let bare = call.put_unchecked.map_or(String::new(), |n| format!(" ({n} without checks)"));
        table.note(format!("MPI_Put up to the network call, {}: {}{bare}", call.label, call.put));
    }
    table
}

/// At the beginning of a line, so that lines are the same wherever it stands.
#[repr(align(64))]
struct Aligned<T>(T);

pub(crate) fn count_all() -> Result<Vec<Counted>, String> {
    let mut traces = trace_ranks(RANKS, &[17])?.into_iter();
    let mut all = Vec::new();
    for model in MODELS {
        let mut next = || traces.next().ok_or("a count is missing");
        all.push(Counted { model, translation: next()?, checked: next()?, unchecked: next()? });
    }
    Ok(all)
}

/// Of each model in turn, and of each of these ranks: the traces of a
/// translation, of a checked put and of an unchecked one. Communicators have
/// `size` ranks.
fn trace_ranks(size: u32, ranks: &[u32]) -> Result<Vec<Trace>, String> {
    let limits = Limits { timeout: Duration::from_secs(120), ..Limits::default() };
    let traces = step::session(limits, |marker| {
        let (fixture, provider) = Fixture::to_count(size)?;
        let buf = Aligned(7_u64.to_ne_bytes());
        let buf = buf.0.as_ptr();
        let put =
            |call: usize| marker.count(Region { start: call, stop: Stop::At(provider), nth: 1 });
        for model in MODELS {
            let access = Aligned(fixture.access(model)?);
            let access = &access.0;
            let map = fixture.map(model)?;
            // SAFETY: the directory lives as long as the device, the map as
            // long as this turn.
            let lookup = unsafe { Lookup::new(&map, fixture.context.av().directory()) };
            let lookup = Aligned(lookup);
            for &rank in ranks {
                marker.count(Region::function(rankway_translate as *const () as usize));
                if Entry::from_bits(rankway_translate(&lookup.0, rank as usize)).is_empty() {
                    return Err(format!("{model}: rank {rank} was not inserted"));
                }
                put(rankway_put as *const () as usize);
                if !rankway_put(access, buf, 8, rank, 3) {
                    return Err(format!("{model}: the checked put failed"));
                }
                put(rankway_put_unchecked as *const () as usize);
                if rankway_put_unchecked(access, buf, 8, rank, 3) != 0 {
                    return Err(format!("{model}: the unchecked put failed"));
                }
            }
            access.flush_all().map_err(|e| e.to_string())?;
        }
        Ok(())
    });
    traces.map_err(|e| e.to_string())
}
