//! fetch_and_op and compare_and_swap of eight bytes beside the raw operation,
//! in the same process and on the same memory: the processor's atomics where
//! the window is mapped, the provider's where it is not.
//!
//! `cargo bench --bench atomic`; the ratio is raw time through our time.

use rankway::boot::{Boot, local};
use rankway::device::{self, Context, Options};
use rankway::netmod::ucx;
use rankway::netmod::{Atomic, Kind, Netmod, Op, Type};
use rankway::rma::{Communicator, Window};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 15;

fn main() -> ExitCode {
    for (provider, mapped) in [("shm", true), ("shm", false), ("tcp", false), ("ucx", false)] {
        if provider == "ucx"
            && let Err(e) = ucx::library()
        {
            println!("UCX: skipped: {e}");
            continue;
        }
        let body = |boot: Arc<dyn Boot>| match run(boot, provider, mapped) {
            Ok(()) => 0,
            Err(e) => {
                eprintln!("{e}");
                1
            }
        };
        match local::run(&local::Options::new(2), body) {
            Ok(outcome) if outcome.exit_code() == 0 => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(boot: Arc<dyn Boot>, provider: &str, mapped: bool) -> Result {
    if provider == "ucx" {
        return measure(&device::open_ucx(boot, &Options::default())?, provider, mapped);
    }
    let options = Options::default().provider(provider.to_owned());
    measure(&device::open_ofi(boot, &options)?, provider, mapped)
}

fn measure<N: Netmod>(context: &Rc<Context<N>>, provider: &str, mapped: bool) -> Result {
    let world = Communicator::world(context);
    let mut memory = vec![0_u64; 8];
    let window = if mapped {
        Window::allocate(&world, 64, 8)?
    } else {
        // SAFETY: `memory` outlives the window.
        unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 8)? }
    };
    window.fence()?;
    if world.rank() == 0 {
        let calls = if mapped { 2_000_000 } else { 2_000 };
        let what = if mapped { "mapped" } else { provider };
        let names = ["fetch_and_op", "compare_and_swap"];
        for (name, swap) in names.into_iter().zip([false, true]) {
            // In turns, so that what else the machine does meets both.
            let (mut ours, mut raw) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                ours = ours.min(timed(calls, |_| match swap {
                    false => Ok(window.fetch_and_op(1_u64, Op::Sum, 1, 1).map(drop)?),
                    true => Ok(window.compare_and_swap(0_u64, 0, 1, 2).map(drop)?),
                })?);
                raw = raw.min(match window.mapped(1)? {
                    Some(start) => raw_mapped(start, calls, swap)?,
                    None => match raw_provider(context, &window, calls, swap)? {
                        Some(raw) => raw,
                        None => break,
                    },
                });
            }
            if raw == f64::MAX {
                println!("{what}: {name}: {ours:.0} ns; the provider has none of its own");
            } else {
                let ratio = raw / ours;
                println!("{what}: {name}: {ours:.1} ns, raw {raw:.1} ns, ratio {ratio:.2}");
            }
        }
    }
    window.fence()?;
    Ok(())
}

/// Nanoseconds a call.
fn timed(calls: usize, mut call: impl FnMut(usize) -> Result) -> Result<f64> {
    let start = Instant::now();
    for i in 0..calls {
        call(i)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / calls as f64)
}

fn raw_mapped(start: *mut u8, calls: usize, swap: bool) -> Result<f64> {
    // SAFETY: words of the peer's part, which is mapped here.
    let cell = |word: usize| unsafe { &*start.cast::<AtomicU64>().add(word) };
    timed(calls, |_| {
        if swap {
            let old = cell(2).compare_exchange(0, 0, Ordering::AcqRel, Ordering::Acquire);
            std::hint::black_box(old.is_ok());
        } else {
            std::hint::black_box(cell(1).fetch_add(1, Ordering::AcqRel));
        }
        Ok(())
    })
}

/// One call of the provider's atomics at a time, and its polls.
fn raw_provider<N: Netmod>(
    context: &Context<N>,
    window: &Window<N>,
    calls: usize,
    swap: bool,
) -> Result<Option<f64>> {
    let target = window.raw_target(1)?.ok_or("the rank is mapped")?;
    let (netmod, endpoint) = context.endpoint(target.transport).ok_or("no provider")?;
    let (kind, op) = if swap { (Kind::Swap, Op::Replace) } else { (Kind::Fetch, Op::Sum) };
    if !netmod.caps().cpu_atomics || netmod.atomic_limit(endpoint, kind, Type::U64, op) == 0 {
        return Ok(None);
    }
    let (operand, compare, mut old) = ([u64::from(!swap)], [0_u64], [0_u64]);
    let time = timed(calls, |_| {
        let atomic = Atomic {
            kind,
            ty: Type::U64,
            op,
            operand: operand.as_ptr().cast(),
            compare: compare.as_ptr().cast(),
            result: old.as_mut_ptr().cast(),
            count: 1,
            dest: target.dest,
            addr: target.addr + 8 * (1 + u64::from(swap)),
            key: target.key,
            token: 7,
        };
        // SAFETY: the buffers outlive the operation, which ends below.
        let mut rc = unsafe { netmod.atomic(endpoint, &atomic) };
        let mut done = rc == 0;
        while !done {
            netmod.poll(endpoint, |c| done |= c.token == 7 && rc == 1, |_, _| ())?;
            if rc != 1 {
                // SAFETY: as above.
                rc = unsafe { netmod.atomic(endpoint, &atomic) };
                done = rc == 0;
            }
        }
        Ok(())
    })?;
    Ok(Some(time))
}
