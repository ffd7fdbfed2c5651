//! Packets, bulk and atomics beside the raw library's loops; prints, and
//! judges nothing. Run with `--include-ignored`.

use super::Pair;
use super::memory::Exposed;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ofi::baseline::{Partner, Target};
use rankway::netmod::{AGAIN, HEAD, Netmod, PENDING};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 9;

/// Nanoseconds of the fastest of some rounds, over `count`.
fn best(count: usize, mut round: impl FnMut() -> Result) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(best)
}

/// Sends without keeping what arrives.
struct Light<'a> {
    p: &'a Pair<Ofi>,
    seen: Cell<usize>,
    sent: Cell<usize>,
}

impl Light<'_> {
    fn poll(&self) -> Result {
        let done = |_| self.sent.set(self.sent.get() + 1);
        let arrived = |_: &_, _: &[u8]| self.seen.set(self.seen.get() + 1);
        self.p.net.poll(&self.p.endpoint, done, arrived).map_err(text)
    }

    /// # Safety
    /// `body` stays until all that was sent is.
    unsafe fn send(&self, body: &[u8]) -> Result {
        let head = [1; HEAD];
        let p = self.p;
        loop {
            // SAFETY: the caller's duty.
            let rc =
                unsafe { p.net.send(&p.endpoint, &head, body.as_ptr(), body.len(), p.dest, 0) };
            match rc {
                0 => self.sent.set(self.sent.get() + 1),
                PENDING => {}
                AGAIN => {
                    self.poll()?;
                    continue;
                }
                rc => return Err(p.net.explain("send", rc).to_string()),
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
}

pub fn all(boot: Arc<dyn Boot>) -> Result {
    const WINDOW: usize = 64;
    const PINGS: usize = 1000;
    const STREAM: usize = 20 * WINDOW;
    pin(boot.rank());
    let p = Pair::<Ofi>::open(boot)?;
    let x = Exposed::open(&p, "rates", 64)?;
    let first = p.rank == 0;
    let say = |what: &str, ns: f64| {
        if first {
            println!("{what:<28}{ns:>10.0} ns {:>8.3} M/s", 1000.0 / ns);
        }
    };
    let light = Light { p: &p, seen: Cell::new(0), sent: Cell::new(0) };
    for len in [8_usize, 1024, 4000, 8192] {
        let from = vec![7; len];
        let mut to = vec![0; len];
        let partner = Partner { dest: p.dest, from: from.as_ptr(), to: to.as_mut_ptr(), len };
        p.meet()?;
        // SAFETY: the buffers are that long, both ranks do the same.
        let ns = best(2 * PINGS, || unsafe {
            p.endpoint.raw_ping_pong(partner, first, PINGS).map_err(text)
        })?;
        say(&format!("tagged {len} one way"), ns);
        p.meet()?;
        let ns = best(2 * PINGS, || {
            light.seen.set(0);
            light.sent.set(0);
            for n in 0..PINGS {
                if first {
                    // SAFETY: waited for below.
                    unsafe { light.send(&from)? };
                }
                light.wait(n + 1, 0)?;
                if !first {
                    // SAFETY: as above.
                    unsafe { light.send(&from)? };
                }
            }
            light.wait(PINGS, PINGS)
        })?;
        say(&format!("packets {len} one way"), ns);
        p.meet()?;
        // SAFETY: as above.
        let ns = best(STREAM, || unsafe {
            if first {
                p.endpoint.raw_stream(partner, STREAM, WINDOW).map_err(text)
            } else {
                p.endpoint.raw_sink(partner, STREAM, WINDOW).map_err(text)
            }
        })?;
        say(&format!("tagged {len}, stream"), ns);
        p.meet()?;
        let ns = best(STREAM, || {
            light.seen.set(0);
            light.sent.set(0);
            for burst in 1..=STREAM / WINDOW {
                if first {
                    for _ in 0..WINDOW {
                        // SAFETY: waited for below.
                        unsafe { light.send(&from)? };
                    }
                    light.wait(burst, burst * WINDOW)?;
                } else {
                    light.wait(burst * WINDOW, 0)?;
                    // SAFETY: nothing of it is sent.
                    unsafe { light.send(&[])? };
                }
            }
            Ok(())
        })?;
        say(&format!("packets {len}, stream"), ns);
    }
    for (name, window) in [("one at a time", 1), ("window 64", 64)] {
        let target = Target { dest: p.dest, addr: x.addr };
        for (what, swap) in [("fetch and add", false), ("compare and swap", true)] {
            p.meet()?;
            if first {
                let ns = best(PINGS, || {
                    // SAFETY: the word is registered.
                    let rc = unsafe {
                        match swap {
                            false => p.endpoint.raw_fetch_add(target, x.key, PINGS, window),
                            true => p.endpoint.raw_compare_swap(target, x.key, PINGS, window),
                        }
                    };
                    rc.map_err(text)
                });
                match ns {
                    Ok(ns) => say(&format!("{what}, {name}"), ns),
                    Err(why) => println!("{what}: {why}"),
                }
                p.send([9; HEAD], &[], 0)?;
            } else {
                // Carries the atomics out.
                p.receive()?;
            }
        }
    }
    p.meet()
}

fn pin(core: u32) {
    // SAFETY: an all-zero set is a set; the calls take this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize % 2, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
