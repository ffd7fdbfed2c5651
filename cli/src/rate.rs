//! `rankway rate`: how many puts a second can be issued.

mod issue;
mod loops;
mod mixed;
mod network;
mod raw;
mod report;
mod vc;

use crate::compared::{self, compared};
use crate::fixture::{self, Fixture, GENERATIONS, MIXED, MODELS, Network};
use crate::{arguments, count, output};
use clap::builder::PossibleValuesParser;
use indicatif::ProgressBar;
use network::NetworkReport;
use rankway::boot::{self, Boot, local};
use raw::Measured;
use report::Report;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Measures the issue rate of 8-byte puts through every rank-map model, over
/// the infinitely fast network, node-local mapped windows and libfabric's shm,
/// beside the provider's own loop and the VC-VCRT baseline in the same run.
///
/// Without a launcher it forks two processes; under mpirun or mpiexec it uses
/// the ranks it is given, on the first network named.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  rankway rate\n  rankway rate --network shm,tcp --size 8,1024 --window 1,32,1024\n  \
    mpirun -n 2 rankway rate --network shm\n  rankway rate --netmod ucx\n\
    JSON keys: networks[].{netmod,network,provider,size,window,raw_inject,raw_write,store,view,view_checked,\
    vc_vcrt,vc_vcrt_checked,vc_vcrt_mixed,vc_vcrt_mixed_checked,\
    reference}, networks[].rows[].{model,unchecked,unchecked_ratio,checked,\
    checked_ratio,map_bytes}, instructions.MODEL.{translation,put_checked,put_unchecked}, \
    figures[].{what,measured,at_least,met}; rates in million puts a second, null where there is no \
    such loop"
)]
pub(crate) struct Args {
    #[arg(long, value_delimiter = ',', help = NETWORKS, value_parser = arguments::network)]
    network: Vec<String>,
    /// Netmod
    #[arg(long, default_value = compared::NAMES[0], value_parser = PossibleValuesParser::new(compared::NAMES))]
    netmod: String,
    /// Models to measure; gen1 to gen4 are one after the other by odd/even splits,
    /// mixed is 64 communicators of all models in random order
    #[arg(long, value_delimiter = ',', default_values = models(), value_parser = PossibleValuesParser::new(models()))]
    models: Vec<String>,
    /// Bytes of a put, at most 4M; several with commas
    #[arg(long, value_delimiter = ',', default_value = "8", value_parser = arguments::put_bytes)]
    size: Vec<u32>,
    /// Processes to fork
    #[arg(short = 'n', long, default_value_t = 2, value_parser = arguments::within::<u32>(1..=64))]
    processes: u32,
    /// Ranks of each model's communicator
    #[arg(long, default_value_t = 64, value_parser = arguments::within::<u32>(8..=1 << 20))]
    ranks: u32,
    /// Puts between two flushes, on providers of a network; several with commas
    #[arg(long, value_delimiter = ',', default_value = "256", value_parser = arguments::within::<u32>(1..=1 << 20))]
    window: Vec<u32>,
    /// Puts in one measurement; chosen by the clock without it
    #[arg(long, value_parser = arguments::within::<u32>(1..=1 << 30))]
    iterations: Option<u32>,
    /// Measurements of each figure; the best counts
    #[arg(long, default_value_t = 9, value_parser = arguments::within::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Do not bind each process to a core
    #[arg(long)]
    no_pin: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Write a chart of the rates
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,
}

/// What `--network` may be.
const NETWORKS: &str = "Networks to measure. ofi: null (infinitely fast), mapped, or a libfabric \
    provider [default: null,mapped,shm]. ucx, over the transports UCX_TLS allows: mapped, shm (a \
    window in UCX's own memory), created (one in the user's) [default: mapped,shm]";

/// What `--models` may be.
fn models() -> impl Iterator<Item = &'static str> {
    MODELS.into_iter().chain(GENERATIONS).chain([MIXED])
}

/// How far the measuring is.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Step {
    /// So many measurements are to come.
    Ahead(u64),
    /// One of them is done.
    Done,
}

/// Shows a step.
fn advance(bar: &ProgressBar, step: Step) {
    match step {
        Step::Ahead(n) => bar.inc_length(n),
        Step::Done => bar.inc(1),
    }
}

/// What is measured in one job.
#[derive(Clone)]
pub(crate) struct Plan {
    netmod: String,
    network: Network,
    name: String,
    models: Vec<String>,
    size: usize,
    ranks: u32,
    window: usize,
    iterations: Option<usize>,
    rounds: u32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    fixture::find_null_provider();
    let Some(report) = report(args)? else { return Ok(ExitCode::SUCCESS) };
    show(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints; null in all ranks of a launcher's job but the first.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&report(args)?)
}

fn report(args: &Args) -> Result<Option<Report>, String> {
    let plans = plans(args)?;
    let launched = boot::launched();
    let mut reports = Vec::new();
    let bar = progress(args);
    if launched {
        // (A job meets once, over one network. Who leaves after it connected may take the
        // launcher with it, and with that what it says.)
        let same: Vec<Plan> = plans.iter().filter(|p| p.name == plans[0].name).cloned().collect();
        if !args.network.is_empty() && same.len() < plans.len() {
            return Err("under a launcher one --network is measured at a time".into());
        }
        let boot = boot::connect().map_err(|e| e.to_string())?;
        let measured = measure(&boot, &same, &mut |step| advance(&bar, step))?;
        boot.finalize().map_err(|e| e.to_string())?;
        match measured {
            Some(measured) => reports.extend(measured),
            None => return Ok(None),
        }
    } else {
        for plan in &plans {
            bar.set_message(plan.name.clone());
            reports.push(fork(args, plan, &bar)?);
        }
    }
    bar.set_message("counting instructions");
    let counted = count::count_all();
    bar.finish_and_clear();
    Ok(Some(Report::new(reports, counted)))
}

fn plans(args: &Args) -> Result<Vec<Plan>, String> {
    let networks = compared!(&*args.netmod, N => networks::<N>(&args.network))
        .ok_or_else(|| no_loops(&args.netmod))??;
    let plan = |(name, network): &(String, Network), size: u32, window: u32| Plan {
        netmod: args.netmod.clone(),
        network: network.clone(),
        name: name.clone(),
        models: args.models.clone(),
        size: size as usize,
        ranks: args.ranks,
        window: window as usize,
        iterations: args.iterations.map(|n| n as usize),
        rounds: args.rounds,
    };
    let mut plans = Vec::new();
    for network in &networks {
        // One says all where the loops do not flush.
        let flushed = loops::is_flushed(&network.1);
        let windows = if flushed { &args.window[..] } else { &args.window[..1] };
        for &size in &args.size {
            plans.extend(windows.iter().map(|&window| plan(network, size, window)));
        }
    }
    Ok(plans)
}

/// The networks of these names, or the usual ones.
fn networks<N: Measured>(names: &[String]) -> Result<Vec<(String, Network)>, String> {
    let named = names.iter().map(String::as_str);
    let usual = N::NETWORKS.iter().filter(|_| names.is_empty()).copied();
    named.chain(usual).map(|name| Ok((name.to_owned(), N::network_called(name)?))).collect()
}

fn no_loops(netmod: &str) -> String {
    format!("netmod {netmod} has no loops to compare with")
}

fn progress(args: &Args) -> ProgressBar {
    if args.json || args.csv {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let (wide, narrow) = ("{bar:32} {pos}/{len} {msg} ({elapsed})", "{pos}/{len} {wide_msg}");
    bar.set_style(output::bar_style(wide, narrow));
    bar
}

/// Measures in a job of forked processes.
fn fork(args: &Args, plan: &Plan, bar: &ProgressBar) -> Result<NetworkReport, String> {
    let mut options = local::Options::new(args.processes);
    options.pin = !args.no_pin;
    let plans = std::slice::from_ref(plan);
    let body = |boot, step: &mut dyn FnMut(Step)| {
        let measured = measure(&boot, plans, step)?;
        Ok(measured.and_then(|mut measured| measured.pop()))
    };
    crate::forked::answer(&plan.name, &options, body, |step| advance(bar, step))
}

/// One process's part of plans for one network; rank 0 measures and reports.
fn measure(
    boot: &Arc<dyn Boot>,
    plans: &[Plan],
    step: &mut dyn FnMut(Step),
) -> Result<Option<Vec<NetworkReport>>, String> {
    let netmod = &*plans[0].netmod;
    compared!(netmod, N => measure_on::<N>(boot, plans, step)).ok_or_else(|| no_loops(netmod))?
}

fn measure_on<N: Measured>(
    boot: &Arc<dyn Boot>,
    plans: &[Plan],
    step: &mut dyn FnMut(Step),
) -> Result<Option<Vec<NetworkReport>>, String> {
    let plan = &plans[0];
    let (rank, size) = (boot.rank(), boot.size());
    let targets: Vec<u32> = if size == 1 { vec![0] } else { (1..size).collect() };
    let bytes = plans.iter().map(loops::window_bytes).max().unwrap_or(0);
    let mut fixture =
        Fixture::<N>::new(Arc::clone(boot), &plan.network, plan.ranks, bytes, &targets)?;
    let report = if rank == 0 {
        let reports: Result<Vec<_>, _> =
            plans.iter().map(|plan| loops::measure(&fixture, plan, step)).collect();
        // Let the others go, whatever came of it.
        let released = loops::release(&fixture, &targets);
        Some(reports.and_then(|reports| released.map(|()| reports))?)
    } else {
        loops::serve(&fixture, plan)?;
        None
    };
    fixture.window.free().map_err(|e| e.to_string())?;
    if let Some(mut beside) = fixture.beside.take() {
        beside.free().map_err(|e| e.to_string())?;
    }
    Ok(report)
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    output::report(
        report,
        args.json,
        |out| if args.csv { report.csv(out) } else { report.print(out) },
    )?;
    if let Some(path) = &args.svg {
        report.svg(path).map_err(output::text)?;
        output::complain(&format!("chart written to {}\n", path.display()));
    }
    Ok(())
}
