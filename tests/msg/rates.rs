//! Messages beside the provider's own tagged ones, in the same run; prints,
//! and judges nothing. Run with `--include-ignored rates`, in release.

use super::pattern;
use crate::harness::{Result, text};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::device::{self, Options};
use rankway::msg::{Messenger, Request};
use rankway::netmod::Netmod;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ofi::baseline::Partner;
use rankway::rma::Communicator;
use std::sync::Arc;
use std::time::Instant;

const WINDOW: usize = 64;
const PINGS: usize = 2000;
const STREAM: usize = 40 * WINDOW;
const ROUNDS: usize = 9;

fn nanos(count: usize, round: impl FnOnce() -> Result) -> Result<f64> {
    let start = Instant::now();
    round()?;
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn pin(core: u32) {
    // SAFETY: an all-zero set is a set; the calls take this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize % 2, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Half round trips and streams of both, round by round; the best of each.
pub fn beside_raw(boot: Arc<dyn Boot>) -> Result {
    pin(boot.rank());
    let context = device::open_ofi(boot, &Options::default()).map_err(text)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let (me, peer) = (world.rank(), 1 - world.rank());
    let first = me == 0;
    let transport = match context.endpoint(Transport::Local) {
        Some(_) => Transport::Local,
        None => Transport::Network,
    };
    let netmod: &Arc<Ofi> = context.device().provider(transport).ok_or("no provider")?;
    let endpoint = netmod.open_endpoint().map_err(text)?;
    let all = world.allgather(&netmod.address(&endpoint).map_err(text)?).map_err(text)?;
    let dest = netmod.insert(&endpoint, &all[peer as usize]).map_err(text)?;
    for len in [8_usize, 1024, 4000] {
        let from = pattern(1, len);
        let mut to = vec![0; len];
        let partner = Partner { dest, from: from.as_ptr(), to: to.as_mut_ptr(), len };
        let mut best = [f64::INFINITY; 4];
        for _ in 0..ROUNDS {
            world.barrier().map_err(text)?;
            // SAFETY: the buffers are that long, both ranks do the same.
            let raw = nanos(2 * PINGS, || unsafe {
                endpoint.raw_ping_pong(partner, first, PINGS).map_err(text)
            })?;
            world.barrier().map_err(text)?;
            let mut got = vec![0; len];
            let ours = nanos(2 * PINGS, || {
                for _ in 0..PINGS {
                    if first {
                        m.send(&from, peer, 1).map_err(text)?;
                        m.recv(&mut got, peer, 1).map_err(text)?;
                    } else {
                        m.recv(&mut got, peer, 1).map_err(text)?;
                        m.send(&from, peer, 1).map_err(text)?;
                    }
                }
                Ok(())
            })?;
            world.barrier().map_err(text)?;
            // SAFETY: as above.
            let raw_stream = nanos(STREAM, || unsafe {
                if first {
                    endpoint.raw_stream(partner, STREAM, WINDOW).map_err(text)
                } else {
                    endpoint.raw_sink(partner, STREAM, WINDOW).map_err(text)
                }
            })?;
            world.barrier().map_err(text)?;
            let mut requests: Vec<Request<Ofi>> = Vec::with_capacity(WINDOW);
            let stream = nanos(STREAM, || {
                for _ in 0..STREAM / WINDOW {
                    for tag in 0..WINDOW as u32 {
                        // SAFETY: the buffers outlive the waits.
                        let request = unsafe {
                            if first {
                                m.isend(from.as_ptr(), len, peer, tag)
                            } else {
                                m.irecv(got.as_mut_ptr(), len, peer, tag)
                            }
                        };
                        requests.push(request.map_err(text)?);
                    }
                    for request in requests.drain(..) {
                        request.wait().map_err(text)?;
                    }
                    if first {
                        m.recv(&mut [], peer, 99).map_err(text)?;
                    } else {
                        m.send(&[], peer, 99).map_err(text)?;
                    }
                }
                Ok(())
            })?;
            for (best, now) in best.iter_mut().zip([raw, ours, raw_stream, stream]) {
                *best = best.min(now);
            }
        }
        if first {
            let [raw, ours, raw_stream, stream] = best;
            let name = &netmod.caps().provider;
            println!(
                "{name} {len:>5} B: half round trip {ours:.0} ns, raw {raw:.0}, ratio {:.3}; \
                 window {WINDOW}: {:.3} M/s, raw {:.3}, ratio {:.3}",
                ours / raw,
                1000.0 / stream,
                1000.0 / raw_stream,
                raw_stream / stream
            );
        }
    }
    world.barrier().map_err(text)
}

/// Shows what the job printed: as good as the machine was idle.
pub fn told(output: &std::process::Output) -> Result {
    print!("{}", String::from_utf8_lossy(&output.stdout));
    crate::harness::content(output)
}
