//! Two threads beside one: puts of 8 bytes to one window, and messages of 8 bytes on a
//! communicator each, every thread through a context of its own.
//!
//! `cargo bench --bench threads`; the null provider is there after `make build`. One
//! process speaks to itself, so that two processors are enough for two threads: what they
//! would wait for is what they share. The null netmod is our own path alone; the provider,
//! opened for threads, counts by three locked additions a put, for which two processors of a
//! core wait for each other: *locked additions* are those without a put, on memory of each
//! thread's own. Wall time; one thread and two take turns, and the best round of each counts.

use rankway::boot::alone::Alone;
use rankway::device::{self, Context, Device, Options};
use rankway::msg::Messenger;
use rankway::netmod::Netmod;
use rankway::netmod::null::Null;
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Access, Communicator, Window};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 40;
const PUTS: usize = 1_000_000;
const MESSAGES: usize = 20_000;
const WINDOW: usize = 64;
const NULL: &str = "rankway_null";

fn main() -> Result {
    let providers = || -> Option<PathBuf> {
        let target = std::env::current_exe().ok()?.parent()?.parent()?.join("providers");
        target.is_dir().then_some(target)
    };
    if let (None, Some(path)) = (std::env::var_os("FI_PROVIDER_PATH"), providers()) {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::set_var("FI_PROVIDER_PATH", path) };
    }
    println!("{:<26}  {:>10}  {:>11}  {:>5}", "M/s", "one thread", "two threads", "ratio");
    puts("puts, mapped window", &open(None)?, true)?;
    let null = Device::open(Arc::new(Alone::new()?), Some(Null::open()), None, true)?;
    puts("puts, null netmod", &null, false)?;
    puts("puts, null provider", &open(Some(NULL))?, false)?;
    additions()?;
    messages()
}

fn open(provider: Option<&str>) -> Result<Rc<Context<Ofi>>> {
    let options = Options::default().threads(true);
    let options = provider.into_iter().fold(options, |o, name| o.provider(name.to_owned()));
    Ok(device::open_ofi(Arc::new(Alone::new()?), &options)?)
}

fn puts<N: Netmod>(what: &str, context: &Rc<Context<N>>, mapped: bool) -> Result {
    let world = Communicator::world(context);
    let mut memory = [0_u64; 2 * WINDOW];
    let (start, bytes) = (memory.as_mut_ptr().cast(), size_of_val(&memory));
    let window = if mapped {
        Window::allocate(&world, bytes, 8)?
    } else {
        // SAFETY: the memory outlives the window.
        unsafe { Window::create(&world, start, bytes, 8) }?
    };
    let (state, device, map) = (window.state()?, context.device(), world.map());
    compare(what, PUTS, |thread, round| {
        let context = device.context()?;
        let access = Access::open(&state, &context, map)?;
        access.lock_all()?;
        round(&mut || {
            for i in 0..PUTS {
                access.put(&[1; 8], 0, thread * WINDOW + i % WINDOW)?;
            }
            Ok(access.flush_all()?)
        })?;
        Ok(access.unlock_all()?)
    })
}

fn additions() -> Result {
    compare("locked additions, by three", PUTS, |_, round| {
        #[repr(align(128))]
        struct Counts([AtomicU64; 3]);
        let counts = Counts([const { AtomicU64::new(0) }; 3]);
        round(&mut || {
            for _ in 0..PUTS {
                for count in &counts.0 {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    })
}

fn messages() -> Result {
    let context = open(None)?;
    let (device, map) = (context.device(), Communicator::world(&context).map().clone());
    compare("messages", MESSAGES, |thread, round| {
        let context = device.context_at(1 + thread as u32)?;
        let own = Communicator::with_id(&context, map.clone(), 0, 100 + thread as u64);
        let m = Messenger::open(&own)?;
        round(&mut || {
            let (out, mut into) = ([1_u8; 8], [[0_u8; 8]; WINDOW]);
            for _ in 0..MESSAGES / WINDOW {
                let mut requests = Vec::with_capacity(2 * WINDOW);
                for buf in &mut into {
                    // SAFETY: the buffers stay until the waits below.
                    requests.push(unsafe { m.irecv(buf.as_mut_ptr(), 8, 0, 7) }?);
                    // SAFETY: as above.
                    requests.push(unsafe { m.isend(out.as_ptr(), 8, 0, 7) }?);
                }
                for request in requests {
                    request.wait()?;
                }
            }
            Ok(())
        })
    })
}

/// What a thread hands the loop of one round to.
type Rounds<'a> = dyn FnMut(&mut dyn FnMut() -> Result) -> Result + 'a;

/// Has `work` prepare in each of two threads and measures its rounds, of one thread and of
/// both in turn.
fn compare(
    what: &str,
    calls: usize,
    work: impl Fn(usize, &mut Rounds<'_>) -> Result + Sync,
) -> Result {
    let (barrier, slowest) = (Barrier::new(2), AtomicU64::new(0));
    let best = [const { AtomicU64::new(u64::MAX) }; 2];
    let part = |thread: usize| {
        work(thread, &mut |round| {
            for number in 0..2 * ROUNDS {
                let both = number % 2;
                barrier.wait();
                if thread <= both {
                    let start = Instant::now();
                    round()?;
                    slowest.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                }
                if barrier.wait().is_leader() {
                    best[both].fetch_min(slowest.swap(0, Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            Ok(())
        })
        .unwrap_or_else(|e| {
            // The other would wait for this one.
            eprintln!("{what}: {e}");
            std::process::exit(1)
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| part(1));
        part(0);
    });
    let rate = |threads: usize| {
        let took = best[threads - 1].load(Ordering::Relaxed);
        (threads * calls) as f64 * 1e3 / took as f64
    };
    println!("{what:<26}  {:>10.1}  {:>11.1}  {:>5.2}", rate(1), rate(2), rate(2) / rate(1));
    Ok(())
}
