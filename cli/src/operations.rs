//! `rankway operations`: messages and atomics, beside the library's own loops.

mod rival;

use crate::arguments;
use crate::compared::compared;
use crate::output::{self, Table, text};
use indicatif::ProgressBar;
use rankway::av::Transport;
use rankway::boot::{Boot, local};
use rankway::device::{self, Options};
use rankway::msg::{Any, Messenger, wait_all};
use rankway::netmod::ofi::Ofi;
use rankway::netmod::{Netmod, Op};
use rankway::rma::{Communicator, RawTarget, Window};
use rival::{LEN, Rival};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures tagged messages and fetching atomics of 8 bytes between two
/// processes of this machine, beside the library's own loop of the same in the
/// same run: the ratio is the claim, the times are this machine's.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  rankway operations\n  rankway operations --network shm --rounds 20\n  \
    UCX_TLS=tcp,self rankway operations --network ucx\n\
    JSON keys: window, networks[].{network,provider,rows[].{operation,unit,ours,raw,ratio,bound,met}}; \
    raw, ratio and met are null where the library has no such loop"
)]
pub(crate) struct Args {
    /// Networks: libfabric providers (shm, tcp), or ucx
    #[arg(long, value_delimiter = ',', default_value = "shm,tcp,ucx", value_parser = arguments::network)]
    network: Vec<String>,
    /// Messages under way in the rate
    #[arg(long, default_value_t = 64, value_parser = arguments::within::<u32>(1..=1024))]
    window: u32,
    /// Measurements of each figure; the best counts
    #[arg(long, default_value_t = 9, value_parser = arguments::within::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Do not bind each process to a core
    #[arg(long)]
    no_pin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    window: u32,
    networks: Vec<NetworkReport>,
}

/// One network's figures.
#[derive(Serialize, Deserialize)]
struct NetworkReport {
    network: String,
    provider: String,
    rows: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    operation: String,
    /// `ns` or `M/s`.
    unit: String,
    ours: f64,
    raw: Option<f64>,
    ratio: Option<f64>,
    /// What the ratio should reach: at most for times, at least for rates.
    bound: f64,
    met: Option<bool>,
}

/// What one measurement should take.
const SLICE: Duration = Duration::from_millis(30);

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let report = report(args)?;
    output::report(&report, args.json, |out| report.print(out))?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&report(args)?)
}

fn report(args: &Args) -> Result<Report, String> {
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let mut networks = Vec::new();
    for network in &args.network {
        bar.set_message(format!("measuring over {network}"));
        bar.tick();
        networks.push(fork(args, network)?);
    }
    bar.finish_and_clear();
    Ok(Report { window: args.window, networks })
}

impl Report {
    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let heads = ["operation", "network", "unit", "ours", "raw", "ratio", "should be"];
        let mut table = Table::new(&heads);
        table.title(format!(
            "8-byte operations between two processes; rates with {} under way",
            self.window
        ));
        table.title("ratio: ours to the library's own loop of the same run");
        for network in &self.networks {
            for row in &network.rows {
                let some = |v: Option<f64>, digits| {
                    v.map_or_else(|| output::NONE.into(), |v| format!("{v:.digits$}"))
                };
                let sign = if row.unit == "ns" { "<=" } else { ">=" };
                let digits = if row.unit == "ns" { 0 } else { 2 };
                table.row(&[
                    row.operation.clone(),
                    format!("{} ({})", network.network, network.provider),
                    row.unit.clone(),
                    format!("{:.digits$}", row.ours),
                    some(row.raw, digits),
                    some(row.ratio, 2),
                    format!("{sign} {:.2}", row.bound),
                ]);
            }
        }
        table.print(out)
    }
}

/// Measures in a job of two forked processes.
fn fork(args: &Args, network: &str) -> Result<NetworkReport, String> {
    let mut options = local::Options::new(2);
    options.pin = !args.no_pin;
    let body = |boot, _: &mut dyn FnMut(())| {
        let named = compared!(network, N => measure::<N>(Arc::clone(&boot), None, args));
        let report = match named {
            Some(report) => report?,
            None => measure::<Ofi>(boot, Some(network), args)?,
        };
        Ok(report.map(|r| NetworkReport { network: network.to_owned(), ..r }))
    };
    crate::forked::answer(network, &options, body, |()| {})
}

/// A figure and the two loops behind it; both processes run each.
struct Figure<'a> {
    operation: &'static str,
    unit: &'static str,
    bound: f64,
    /// Nanoseconds of a round trip are two of the figure.
    halves: f64,
    ours: Loop<'a>,
    raw: Option<Loop<'a>>,
}

type Loop<'a> = Box<dyn Fn(usize) -> Result<(), String> + 'a>;

/// One process's part; rank 0 reports.
fn measure<N: Rival>(
    boot: Arc<dyn Boot>,
    provider: Option<&str>,
    args: &Args,
) -> Result<Option<NetworkReport>, String> {
    let options = Options::default().provider(provider.map(str::to_owned));
    let context = device::open_over::<N>(boot, &options).map_err(text)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let first = me == 0;
    // The raw loops have an endpoint of their own.
    let reached = |t| context.endpoint(t);
    let (netmod, own) = reached(Transport::Local)
        .or_else(|| reached(Transport::Network))
        .ok_or("no provider is open")?;
    let endpoint = netmod.open_endpoint().map_err(text)?;
    let address = netmod.address(&endpoint).map_err(text)?;
    let addresses = world.allgather(&address).map_err(text)?;
    let dest = netmod.insert(&endpoint, &addresses[1 - me as usize]).map_err(text)?;
    let mut memory = [0_u64; 8];
    // SAFETY: the memory outlives the window.
    let mut window =
        unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 8) }.map_err(text)?;
    window.lock_all().map_err(text)?;
    let raw_target = if first {
        window.put(&[0; 8], 1, 0).map_err(text)?;
        window.flush_all().map_err(text)?;
        window.raw_target(1).map_err(text)?
    } else {
        None
    };
    let messenger = Messenger::open(&world).map_err(text)?;
    let report = {
        let figures = figures::<N>(&Stage {
            endpoint: &endpoint,
            own,
            dest,
            first,
            window: &window,
            raw_target,
            messenger: &messenger,
            burst: args.window as usize,
        });
        let mut rows = Vec::new();
        for figure in &figures {
            rows.push(best(&world, figure, args.rounds)?);
        }
        NetworkReport { network: String::new(), provider: netmod.caps().provider.clone(), rows }
    };
    window.unlock_all().map_err(text)?;
    window.free().map_err(text)?;
    Ok(first.then_some(report))
}

/// What the loops stand on.
struct Stage<'a, N: Netmod> {
    /// An endpoint for raw messages, and the peer's on it.
    endpoint: &'a N::Endpoint,
    dest: u64,
    /// The context's own, for raw atomics.
    own: &'a N::Endpoint,
    first: bool,
    window: &'a Window<N>,
    raw_target: Option<RawTarget>,
    messenger: &'a Messenger<'a, N>,
    burst: usize,
}

impl<N: Netmod> Clone for Stage<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Netmod> Copy for Stage<'_, N> {}

fn figures<'a, N: Rival>(stage: &Stage<'a, N>) -> Vec<Figure<'a>> {
    let s = *stage;
    let peer = u32::from(s.first);
    let ping: Loop = Box::new(move |count| {
        let mut buf = [1_u8; LEN];
        for _ in 0..count {
            if s.first {
                s.messenger.send(&buf, peer, 1).map_err(text)?;
            }
            s.messenger.recv(&mut buf, peer, 1).map_err(text)?;
            if !s.first {
                s.messenger.send(&buf, peer, 1).map_err(text)?;
            }
        }
        Ok(())
    });
    let raw_ping: Loop = Box::new(move |count| {
        // SAFETY: the peer's endpoint was inserted on this one.
        unsafe { N::ping_pong(s.endpoint, s.dest, s.first, count) }.map_err(text)
    });
    let stream: Loop = Box::new(move |count| {
        let from = [1_u8; LEN];
        let mut to = vec![[0_u8; LEN]; s.burst];
        let mut requests = Vec::with_capacity(s.burst);
        let mut left = count;
        while left > 0 {
            let burst = left.min(s.burst);
            left -= burst;
            for to in to.iter_mut().take(burst) {
                // SAFETY: both buffers stay until all requests were waited for.
                requests.push(
                    unsafe {
                        match s.first {
                            true => s.messenger.isend(from.as_ptr(), LEN, peer, 2),
                            false => s.messenger.irecv(to.as_mut_ptr(), LEN, peer, 2),
                        }
                    }
                    .map_err(text)?,
                );
            }
            wait_all(requests.drain(..)).map_err(text)?;
            match s.first {
                true => s.messenger.recv(&mut [], peer, Any).map(drop),
                false => s.messenger.send(&[], peer, 3),
            }
            .map_err(text)?;
        }
        Ok(())
    });
    let raw_stream: Loop = Box::new(move |count| {
        // SAFETY: as above.
        unsafe { N::stream(s.endpoint, s.dest, s.first, count, s.burst) }.map_err(text)
    });
    let atomic = move |swap: bool| -> Loop<'a> {
        Box::new(move |count| {
            for _ in 0..if s.first { count } else { 0 } {
                match swap {
                    true => s.window.compare_and_swap(0_u64, 0, 1, 1),
                    false => s.window.fetch_and_op(1_u64, Op::Sum, 1, 0),
                }
                .map_err(text)?;
            }
            Ok(())
        })
    };
    let raw_atomic = move |swap: bool| -> Loop<'a> {
        Box::new(move |count| {
            let Some(target) = s.raw_target.filter(|_| s.first) else { return Ok(()) };
            let addr = target.addr + if swap { 8 } else { 0 };
            let target = RawTarget { addr, ..target };
            // SAFETY: a word of the window, in the epoch that is open.
            unsafe { N::atomics(s.own, &target, swap, count) }.map_err(text)
        })
    };
    let figure = |operation, unit, bound, halves, ours, raw| Figure {
        operation,
        unit,
        bound,
        halves,
        ours,
        raw,
    };
    vec![
        figure("tagged half round trip", "ns", 1.10, 2.0, ping, Some(raw_ping)),
        figure("tagged rate", "M/s", 0.9, 1.0, stream, Some(raw_stream)),
        figure("fetch_and_op", "M/s", 0.9, 1.0, atomic(false), Some(raw_atomic(false))),
        figure("compare_and_swap", "M/s", 0.9, 1.0, atomic(true), Some(raw_atomic(true))),
    ]
}

/// Runs the two loops in turn and keeps the best of each.
fn best<N: Netmod>(
    world: &Communicator<N>,
    figure: &Figure<'_>,
    rounds: u32,
) -> Result<Row, String> {
    let time = |run: &Loop, count: usize| -> Result<Duration, String> {
        world.barrier().map_err(text)?;
        let start = Instant::now();
        run(count)?;
        let took = start.elapsed();
        world.barrier().map_err(text)?;
        Ok(took)
    };
    // Some libraries lack some loops.
    let mut raw_loop = figure.raw.as_ref();
    if let Some(run) = raw_loop {
        world.barrier().map_err(text)?;
        let there = u8::from(run(1).is_ok());
        if world.broadcast(0, Some(&[there])).map_err(text)? != [1] {
            raw_loop = None;
        }
    }
    // Rank 0's clock says how many.
    let mut count = 64_usize;
    loop {
        let took = time(&figure.ours, count)?;
        let next = if took * 4 > SLICE { 0 } else { count * 4 };
        let told = world.broadcast(0, Some(&next.to_le_bytes())).map_err(text)?;
        let next = told.try_into().map(usize::from_le_bytes).unwrap_or(0);
        if next == 0 {
            break;
        }
        count = next;
    }
    let (mut ours, mut raw) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        if let Some(run) = raw_loop {
            raw = raw.min(time(run, count)?.as_secs_f64());
        }
        ours = ours.min(time(&figure.ours, count)?.as_secs_f64());
    }
    let each = |seconds: f64| {
        let nanoseconds = seconds * 1e9 / count as f64 / figure.halves;
        if figure.unit == "ns" { nanoseconds } else { 1e3 / nanoseconds }
    };
    let ours = each(ours);
    let raw = raw_loop.map(|_| each(raw));
    let ratio = raw.map(|raw| ours / raw);
    let met = |r: f64| if figure.unit == "ns" { r <= figure.bound } else { r >= figure.bound };
    Ok(Row {
        operation: figure.operation.into(),
        unit: figure.unit.into(),
        ours,
        raw,
        ratio,
        bound: figure.bound,
        met: ratio.map(met),
    })
}
