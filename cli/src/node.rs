//! `rankway node`: windows over a program's own memory, between processes of a node.

use crate::arguments;
use crate::output::{self, Table, text};
use indicatif::ProgressBar;
use rankway::av::Transport;
use rankway::boot::{Boot, local};
use rankway::device::{self, Options};
use rankway::netmod::node::Node;
use rankway::netmod::ofi::{Ofi, baseline};
use rankway::netmod::ucx::Ucx;
use rankway::netmod::{Netmod, Op};
use rankway::rma::{Communicator, Window};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures puts, gets, operations on elements and flushes between two processes of this
/// machine on a window over memory of their own: by the node's own netmod, libfabric's shared memory and UCX, and by
/// libfabric's bare loop. The target waits in a barrier, and then computes.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  rankway node\n  rankway node --rounds 30 --json\n\
    JSON keys: rows[].{operation,unit,node,shm,ucx,raw,ratio}; ratio is node to the best of the \
    others; what was not measured is null"
)]
pub(crate) struct Args {
    /// Measurements of each figure; the best counts
    #[arg(long, default_value_t = 9, value_parser = arguments::within::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Milliseconds that the target computes
    #[arg(long, default_value_t = 1000, value_parser = arguments::within::<u64>(100..=60_000))]
    compute: u64,
    /// Do not bind each process to a core
    #[arg(long)]
    no_pin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    operation: String,
    unit: &'static str,
    node: Option<f64>,
    shm: Option<f64>,
    ucx: Option<f64>,
    raw: Option<f64>,
    ratio: Option<f64>,
}

/// Nanoseconds by operation, in the order of the measuring.
type Times = Vec<(String, f64)>;

/// Bytes of the window.
const BYTES: usize = 8 << 20;
/// What libfabric's bare loop is called among the operations.
const RAW: &str = "put of 8 bytes, 256 a flush: fi_write";

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let measure = |name: &'static str, body: fn(Arc<dyn Boot>, &Args) -> Answer| {
        bar.set_message(format!("measuring over {name}"));
        bar.tick();
        let mut options = local::Options::new(2);
        options.pin = !args.no_pin;
        crate::forked::answer(
            name,
            &options,
            |boot, _: &mut dyn FnMut(())| body(boot, args),
            |()| {},
        )
    };
    let node = measure("node", |boot, args| measured::<Node>(boot, None, args, None))?;
    // (A library that is not there has no column.)
    let shm = measure("shm", |boot, args| measured(boot, Some("shm"), args, Some(bare_loop))).ok();
    let ucx = measure("ucx", |boot, args| measured::<Ucx>(boot, None, args, None)).ok();
    bar.finish_and_clear();
    let of = |times: &Option<Times>, name: &str| {
        times.iter().flatten().find(|(known, _)| known == name).map(|&(_, time)| time)
    };
    let bare = of(&shm, RAW);
    let rows = node.iter().enumerate().map(|(i, (name, time))| {
        let (shm, ucx) = (of(&shm, name), of(&ucx, name));
        let raw = bare.filter(|_| i == 0);
        let best = [shm, ucx, raw].into_iter().flatten().reduce(f64::min);
        let ratio = best.map(|best| time / best);
        Row { operation: name.clone(), unit: "ns", node: Some(*time), shm, ucx, raw, ratio }
    });
    let report = Report { rows: rows.collect() };
    output::report(&report, args.json, |out| report.print(out))?;
    Ok(ExitCode::SUCCESS)
}

type Answer = Result<Option<Times>, String>;
type RawLoop<N> = fn(&Window<N>, usize) -> Result<(), String>;

/// Tracked puts of 8 bytes by libfabric alone, 64 under way.
fn bare_loop(window: &Window<Ofi>, count: usize) -> Result<(), String> {
    let target = window.raw_target(1).map_err(text)?.ok_or("the memory is mapped")?;
    let (_, endpoint) = window.context().endpoint(Transport::Local).ok_or("no provider")?;
    let place = baseline::Target { dest: target.dest, addr: target.addr };
    // SAFETY: [DEST], [KEY]: the window's; it holds 8 bytes.
    unsafe {
        let endpoint = endpoint.library().map_err(text)?;
        endpoint.raw_write([7; 8].as_ptr(), 8, &[place], target.key, count, 64).map_err(text)
    }
}

impl Report {
    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let heads = ["operation", "unit", "node", "shm", "ucx", "fi_write", "ratio"];
        let mut table = Table::new(&heads);
        table.title("A window over the program's own memory, two processes of this machine");
        table.title("ratio: node to the best of the others; below 1 is faster");
        for row in &self.rows {
            let cell = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| output::NONE.into(), |v| output::number(v, digits))
            };
            let time = |value| cell(value, 1);
            table.row(&[
                row.operation.clone(),
                row.unit.into(),
                time(row.node),
                time(row.shm),
                time(row.ucx),
                time(row.raw),
                cell(row.ratio, 2),
            ]);
        }
        table.print(out)
    }
}

/// One process's part; rank 0 reports.
fn measured<N: Netmod>(
    boot: Arc<dyn Boot>,
    provider: Option<&str>,
    args: &Args,
    raw: Option<RawLoop<N>>,
) -> Answer {
    let options = Options::default().provider(provider.map(str::to_owned));
    let context = device::open_over::<N>(boot, &options).map_err(text)?;
    let world = Communicator::world(&context);
    let mut memory = vec![0_u64; BYTES / 8];
    // SAFETY: the memory outlives the window.
    let mut window =
        unsafe { Window::create(&world, memory.as_mut_ptr().cast(), BYTES, 1) }.map_err(text)?;
    window.lock_all().map_err(text)?;
    let first = world.rank() == 0;
    let mut times = Times::new();
    let mut time = |name: String, each: usize, body: &mut dyn FnMut() -> Result<(), String>| {
        world.barrier().map_err(text)?;
        if first {
            body()?;
            let mut best = Duration::MAX;
            for _ in 0..args.rounds {
                let start = Instant::now();
                body()?;
                best = best.min(start.elapsed());
            }
            times.push((name, best.as_secs_f64() * 1e9 / each as f64));
        }
        world.barrier().map_err(text)
    };
    attending(&window, raw, &mut time)?;
    world.barrier().map_err(text)?;
    let computes = Duration::from_millis(args.compute);
    if first {
        // The other is at it by then; this one does not sleep meanwhile.
        spin(computes / 5);
        computing(&window, &mut times)?;
    } else {
        spin(computes);
    }
    world.barrier().map_err(text)?;
    window.unlock_all().map_err(text)?;
    window.free().map_err(text)?;
    Ok(first.then_some(times))
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Measures `body`, which does so many of an operation.
type Timer<'a> =
    dyn FnMut(String, usize, &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> + 'a;

/// While the target waits for this process.
fn attending<N: Netmod>(
    window: &Window<N>,
    raw: Option<RawLoop<N>>,
    time: &mut Timer<'_>,
) -> Result<(), String> {
    const MANY: usize = 100;
    let (data, mut into) = (vec![7_u8; 1 << 20], vec![0_u8; 1 << 20]);
    time("put of 8 bytes, 256 a flush".into(), 256 * MANY, &mut || {
        for _ in 0..MANY {
            (0..256).try_for_each(|i| window.put(&data[..8], 1, i * 8)).map_err(text)?;
            window.flush(1).map_err(text)?;
        }
        Ok(())
    })?;
    if let Some(raw) = raw {
        time(RAW.into(), 256 * MANY, &mut || raw(window, 256 * MANY))?;
    }
    for bytes in [8, 512, 4096, 8192, 65_536, 1 << 20] {
        let many = if bytes > 65_536 { 10 } else { MANY };
        time(format!("put of {bytes} bytes and flush"), many, &mut || {
            (0..many)
                .try_for_each(|_| {
                    window.put(&data[..bytes], 1, 0)?;
                    window.flush(1)
                })
                .map_err(text)
        })?;
        time(format!("get of {bytes} bytes"), many, &mut || {
            (0..many).try_for_each(|_| window.get(&mut into[..bytes], 1, 0)).map_err(text)
        })?;
    }
    time("get of 8 bytes, 64 a flush".into(), 64 * MANY, &mut || {
        for _ in 0..MANY {
            for i in 0..64 {
                // SAFETY: the buffer stays until the flush.
                unsafe { window.get_nb(into.as_mut_ptr().wrapping_add(8 * i), 8, 1, i * 8) }
                    .map_err(text)?;
            }
            window.flush(1).map_err(text)?;
        }
        Ok(())
    })?;
    time("fetch_and_op".into(), MANY, &mut || {
        (0..MANY)
            .try_for_each(|_| window.fetch_and_op(1_u64, Op::Sum, 1, 0).map(drop))
            .map_err(text)
    })?;
    time("compare_and_swap".into(), MANY, &mut || {
        (0..MANY)
            .try_for_each(|i| window.compare_and_swap(0, i as u64, 1, 0).map(drop))
            .map_err(text)
    })?;
    time("accumulate of 8 bytes and flush".into(), MANY, &mut || {
        (0..MANY)
            .try_for_each(|_| {
                window.accumulate(&[1_u64], Op::Sum, 1, 0)?;
                window.flush(1)
            })
            .map_err(text)
    })?;
    time("accumulate of 8 bytes, 256 a flush".into(), 256 * MANY, &mut || {
        for _ in 0..MANY {
            (0..256)
                .try_for_each(|i| window.accumulate(&[1_u64], Op::Sum, 1, i * 8))
                .map_err(text)?;
            window.flush(1).map_err(text)?;
        }
        Ok(())
    })?;
    let doubles = vec![1.0_f64; (1 << 20) / 8];
    for bytes in [4096, 1 << 20] {
        let many = if bytes > 65_536 { 10 } else { MANY };
        time(format!("accumulate of {bytes} bytes and flush"), many, &mut || {
            (0..many)
                .try_for_each(|_| {
                    window.accumulate(&doubles[..bytes / 8], Op::Sum, 1, 0)?;
                    window.flush(1)
                })
                .map_err(text)
        })?;
    }
    Ok(())
}

/// While the target computes: each twice. The first may wait, and after some time in which
/// nobody called the system it finds neither the system's code nor the target's pages in caches.
fn computing<N: Netmod>(window: &Window<N>, times: &mut Times) -> Result<(), String> {
    let (data, mut into) = ([7_u8; 8], [0_u8; 8]);
    for when in ["computing target", "computing target, again"] {
        let mut time = |name: &str, body: &mut dyn FnMut() -> Result<(), rankway::rma::Error>| {
            let start = Instant::now();
            body().map_err(text)?;
            let took = start.elapsed().as_secs_f64() * 1e9;
            times.push((format!("{when}: {name}"), took));
            Ok::<(), String>(())
        };
        time("put and flush", &mut || {
            window.put(&data, 1, 0)?;
            window.flush(1)
        })?;
        for (name, apart) in [("256 puts and a flush", 8), ("256 puts apart and a flush", 4096)] {
            time(name, &mut || {
                (0..256).try_for_each(|i| window.put(&data, 1, i * apart))?;
                window.flush(1)
            })?;
        }
        time("get", &mut || window.get(&mut into, 1, 0))?;
        time("fetch_and_op", &mut || window.fetch_and_op(1_u64, Op::Sum, 1, 0).map(drop))?;
        time("compare_and_swap", &mut || window.compare_and_swap(0_u64, 1, 1, 0).map(drop))?;
        time("accumulate of 8 bytes and flush", &mut || {
            window.accumulate(&[1_u64], Op::Sum, 1, 0)?;
            window.flush(1)
        })?;
        for (name, apart) in [
            ("256 accumulates and a flush", 8),
            ("256 accumulates into one and a flush", 0),
            ("256 accumulates apart and a flush", 64),
        ] {
            time(name, &mut || {
                (0..256).try_for_each(|i| window.accumulate(&[1_u64], Op::Sum, 1, i * apart))?;
                window.flush(1)
            })?;
        }
    }
    Ok(())
}
