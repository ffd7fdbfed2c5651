//! Messages at three heights in one run: libfabric's own tagged ones as a C
//! program sends them, a netmod's packets, a messenger's messages. Prints the
//! nanoseconds of one way and the rate of windows of 64, best of nine rounds.
//!
//! `cargo bench -p rankway-cli --bench messages -- [shm] [tcp]`; figures of eight
//! bytes beside a bound, over UCX too, are `rankway operations`.

#[path = "../../benches/pair/mod.rs"]
mod pair;

use self::pair::Result;
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::device::{self, Options};
use rankway::msg::{Messenger, Request};
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ofi::baseline::Partner;
use rankway::netmod::{AGAIN, HEAD, Netmod, PENDING};
use rankway::rma::Communicator;
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 9;
const WINDOW: usize = 64;
const PINGS: usize = 1000;
const STREAM: usize = 20 * WINDOW;
const LENGTHS: [usize; 4] = [8, 1024, 4000, 8192];

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let asked = |provider: &&str| named.is_empty() || named.iter().any(|name| name == provider);
    pair::each(["shm", "tcp"].into_iter().filter(asked), measure)
}

/// What one height does: `PINGS` messages there and back, and `STREAM` one way.
struct Height<'a> {
    name: &'static str,
    ping: Box<dyn Fn() -> Result + 'a>,
    stream: Box<dyn Fn() -> Result + 'a>,
}

fn measure(provider: &str, boot: Arc<dyn Boot>) -> Result {
    pin(boot.rank());
    let options = Options::default().provider(provider.to_owned());
    let context = device::open_ofi(boot, &options)?;
    let world = Communicator::world(&context);
    let messenger = Messenger::open(&world)?;
    let first = world.rank() == 0;
    let transport = match context.endpoint(Transport::Local) {
        Some(_) => Transport::Local,
        None => Transport::Network,
    };
    let net: &Arc<Ofi> = context.device().provider(transport).ok_or("no provider")?;
    let endpoint = net.open_endpoint()?;
    let raw = endpoint.library()?;
    let addresses = world.allgather(&net.address(&endpoint)?)?;
    let dest = net.insert(&endpoint, &addresses[1 - world.rank() as usize])?;
    let (seen, sent) = (Cell::new(0), Cell::new(0));
    let packets = Packets { net, endpoint: &endpoint, dest, seen, sent };
    for len in LENGTHS {
        let from = vec![7; len];
        let mut to = vec![0; len];
        let partner = Partner { dest, from: from.as_ptr(), to: to.as_mut_ptr(), len };
        let sides = Sides { messenger: &messenger, peer: 1 - world.rank(), first };
        let heights = [
            Height {
                name: "tagged",
                // SAFETY: the buffers are that long, both ranks do the same.
                ping: Box::new(|| unsafe { Ok(raw.raw_ping_pong(partner, first, PINGS)?) }),
                // SAFETY: as above.
                stream: Box::new(|| unsafe {
                    if first {
                        raw.raw_stream(partner, STREAM, WINDOW)?;
                    } else {
                        raw.raw_sink(partner, STREAM, WINDOW)?;
                    }
                    Ok(())
                }),
            },
            Height {
                name: "packets",
                ping: Box::new(|| packets.ping(&from, first)),
                stream: Box::new(|| packets.stream(&from, first)),
            },
            Height {
                name: "messages",
                ping: Box::new(|| sides.ping(&from)),
                stream: Box::new(|| sides.stream(&from)),
            },
        ];
        let mut best = [[f64::INFINITY; 2]; 3];
        // Round by round: what else the machine does falls on all alike.
        for _ in 0..ROUNDS {
            for (height, best) in heights.iter().zip(&mut best) {
                let [ping, stream] = best;
                for (run, count, best) in
                    [(&height.ping, 2 * PINGS, ping), (&height.stream, STREAM, stream)]
                {
                    world.barrier()?;
                    let start = Instant::now();
                    run()?;
                    *best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
                }
            }
        }
        for (height, [ping, stream]) in heights.iter().zip(best).filter(|_| first) {
            println!(
                "{provider} {len:>5} B {:<9} one way {ping:>8.0} ns, {:.2} of tagged; \
                 window {WINDOW} {:>8.3} M/s, {:.2} of tagged",
                height.name,
                ping / best[0][0],
                1000.0 / stream,
                best[0][1] / stream
            );
        }
    }
    Ok(world.barrier()?)
}

/// A netmod's packets, sent without keeping what arrives.
struct Packets<'a> {
    net: &'a Ofi,
    endpoint: &'a <Ofi as Netmod>::Endpoint,
    dest: u64,
    seen: Cell<usize>,
    sent: Cell<usize>,
}

impl Packets<'_> {
    fn poll(&self) -> Result {
        let done = |_| self.sent.set(self.sent.get() + 1);
        let arrived = |_: &_, _: &[u8]| self.seen.set(self.seen.get() + 1);
        self.net.poll(self.endpoint, done, arrived)?;
        Ok(())
    }

    /// # Safety
    /// `body` stays until all that was sent is.
    unsafe fn send(&self, body: &[u8]) -> Result {
        let head = [1; HEAD];
        loop {
            // SAFETY: the caller's promise.
            let rc = unsafe {
                self.net.send(self.endpoint, &head, body.as_ptr(), body.len(), self.dest, 0)
            };
            match rc {
                0 => self.sent.set(self.sent.get() + 1),
                PENDING => {}
                AGAIN => {
                    self.poll()?;
                    continue;
                }
                rc => return Err(self.net.explain("send", rc).into()),
            }
            return Ok(());
        }
    }

    fn wait(&self, seen: usize, sent: usize) -> Result {
        while self.seen.get() < seen || self.sent.get() < sent {
            self.poll()?;
        }
        Ok(())
    }

    fn begin(&self) {
        self.seen.set(0);
        self.sent.set(0);
    }

    fn ping(&self, from: &[u8], first: bool) -> Result {
        self.begin();
        for n in 0..PINGS {
            if first {
                // SAFETY: waited for below.
                unsafe { self.send(from)? };
            }
            self.wait(n + 1, 0)?;
            if !first {
                // SAFETY: as above.
                unsafe { self.send(from)? };
            }
        }
        self.wait(PINGS, PINGS)
    }

    fn stream(&self, from: &[u8], first: bool) -> Result {
        self.begin();
        for burst in 1..=STREAM / WINDOW {
            if first {
                for _ in 0..WINDOW {
                    // SAFETY: waited for below.
                    unsafe { self.send(from)? };
                }
                self.wait(burst, burst * WINDOW)?;
            } else {
                self.wait(burst * WINDOW, 0)?;
                // SAFETY: nothing of it is sent.
                unsafe { self.send(&[])? };
            }
        }
        Ok(())
    }
}

/// The two sides of a messenger's messages.
struct Sides<'a> {
    messenger: &'a Messenger<'a, Ofi>,
    peer: u32,
    first: bool,
}

impl Sides<'_> {
    fn ping(&self, from: &[u8]) -> Result {
        let (m, peer) = (self.messenger, self.peer);
        let mut got = vec![0; from.len()];
        for _ in 0..PINGS {
            if self.first {
                m.send(from, peer, 1)?;
                m.recv(&mut got, peer, 1)?;
            } else {
                m.recv(&mut got, peer, 1)?;
                m.send(from, peer, 1)?;
            }
        }
        Ok(())
    }

    fn stream(&self, from: &[u8]) -> Result {
        let (m, peer) = (self.messenger, self.peer);
        let mut got = vec![0; from.len()];
        let mut requests: Vec<Request<Ofi>> = Vec::with_capacity(WINDOW);
        for _ in 0..STREAM / WINDOW {
            for tag in 0..WINDOW as u32 {
                // SAFETY: the buffers outlive the waits.
                requests.push(unsafe {
                    match self.first {
                        true => m.isend(from.as_ptr(), from.len(), peer, tag)?,
                        false => m.irecv(got.as_mut_ptr(), got.len(), peer, tag)?,
                    }
                });
            }
            for request in requests.drain(..) {
                request.wait()?;
            }
            match self.first {
                true => drop(m.recv(&mut [], peer, 99)?),
                false => m.send(&[], peer, 99)?,
            }
        }
        Ok(())
    }
}

fn pin(core: u32) {
    // SAFETY: an all-zero set is a set; the calls take this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize % 2, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
