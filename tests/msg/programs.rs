//! Random programs: every rank plays its part of one schedule that all know,
//! and a sequential oracle tells what each receive must get.
//!
//! A phase is a set of messages and as many receives at each rank. Receives
//! without a wildcard for the source are decided by their order alone; those
//! with one take tags that no other receive of the phase could, so that any
//! interleaving of sources is right, and each source's order is checked.

use super::shapes::{SHAPES, Shape, shape};
use super::{Dice, Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::{Any, Request, Source, Tag, wait_all};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u32,
    to: u32,
    tag: u32,
    seed: u32,
    len: usize,
    synchronous: bool,
}

/// Tags from here on are received from anybody.
const OPEN: u32 = 4;

fn phase(dice: &mut Dice, n: u32) -> Vec<Sent> {
    let count = dice.below(60) + 5;
    let mut sent = Vec::new();
    for _ in 0..count {
        let len = match dice.below(8) {
            0 => 0,
            1..=4 => dice.below(200),
            5 => dice.below(9000),
            6 => 8190 + dice.below(4),
            _ => dice.below(60_000),
        };
        sent.push(Sent {
            from: dice.below(n as usize) as u32,
            to: dice.below(n as usize) as u32,
            tag: dice.below(7) as u32,
            seed: dice.next() as u32 >> 4,
            len,
            synchronous: dice.below(6) == 0,
        });
    }
    sent
}

struct Receive<N: Opens> {
    /// `None`: from anybody.
    source: Option<u32>,
    tag: u32,
    buf: Vec<u8>,
    /// Where in it the message belongs.
    into: Shape,
    request: Option<Request<N>>,
}

/// Sixty phases of a schedule by seed.
pub fn random<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let (me, n) = (comm.rank(), comm.size());
        for seed in 0..60_u64 {
            let told = |e: String| format!("seed {seed}: {e}");
            let mut dice = Dice(seed * 1000 + u64::from(n));
            let all = phase(&mut dice, n);
            let mine = |s: &&Sent| s.to == me;
            // Own dice from here on: when, not what.
            let mut dice = Dice(seed << 20 | u64::from(me) << 8 | 1);
            let mut sends: VecDeque<Sent> = all.iter().copied().filter(|s| s.from == me).collect();
            // Receives in an order of this rank's own; those of one source and
            // tag are alike.
            let mut wanted: Vec<(Option<u32>, u32)> = all
                .iter()
                .filter(mine)
                .map(|s| (Some(s.from).filter(|_| s.tag < OPEN), s.tag))
                .collect();
            for i in (1..wanted.len()).rev() {
                wanted.swap(i, dice.below(i + 1));
            }
            let mut wanted: VecDeque<_> = wanted.into();
            let mut receives: Vec<Receive<N>> = Vec::new();
            let mut bodies = Vec::new();
            let mut requests = Vec::new();
            while !sends.is_empty() || !wanted.is_empty() {
                match dice.below(5) {
                    0 | 1 => {
                        let Some(s) = sends.pop_front() else { continue };
                        let out = shape(dice.below(2 * SHAPES).saturating_sub(SHAPES), s.len)?;
                        let body = out.scattered(&pattern(s.seed, s.len), 0);
                        // SAFETY: the body is kept until all requests ended; a
                        // moved vector's bytes stay where they are.
                        let request = unsafe {
                            let at = body.as_ptr().add(out.origin);
                            match (out.is_plain(), s.synchronous) {
                                (true, true) => m.issend(at, s.len, s.to, s.tag),
                                (true, false) => m.isend(at, s.len, s.to, s.tag),
                                (false, true) => m.issend_layout(at, &out.layout, s.to, s.tag),
                                (false, false) => m.isend_layout(at, &out.layout, s.to, s.tag),
                            }
                        };
                        bodies.push(body);
                        requests.push(request.map_err(text)?);
                    }
                    2 | 3 => {
                        let Some((source, tag)) = wanted.pop_front() else { continue };
                        let into = shape(dice.below(2 * SHAPES).saturating_sub(SHAPES), 60_000)?;
                        let mut buf = vec![0; into.bytes];
                        let from = source.map_or(Source::from(Any), Source::from);
                        // A matched probe now and then, where one is there.
                        let found = match dice.below(3) {
                            0 => m.improbe(from, tag).map_err(text)?,
                            _ => None,
                        };
                        // SAFETY: the buffer is kept until its request ended; a
                        // moved vector's bytes stay where they are.
                        let request = unsafe {
                            let at = buf.as_mut_ptr().add(into.origin);
                            let (layout, tag) = (&into.layout, Tag::from(tag));
                            match (found, into.is_plain()) {
                                (Some(message), true) => message.irecv(at, 60_000),
                                (Some(message), false) => message.irecv_layout(at, layout),
                                (None, true) => m.irecv(at, 60_000, from, tag).map_err(text)?,
                                (None, false) => {
                                    m.irecv_layout(at, layout, from, tag).map_err(text)?
                                }
                            }
                        };
                        receives.push(Receive { source, tag, buf, into, request: Some(request) });
                    }
                    _ => {
                        let found = m.iprobe(Any, Any).map_err(text)?;
                        let real = found.is_none_or(|f| {
                            let same = |s: &Sent| {
                                s.from == f.source() && s.tag == f.tag() && s.len as u64 == f.length
                            };
                            // The next phase's may be here already.
                            all.iter().filter(mine).any(same) || f.source() != me
                        });
                        ensure!(real, "seed {seed}: probed {found:?}");
                    }
                }
            }
            let mut next: Vec<(u32, u32, VecDeque<Sent>)> = Vec::new();
            for s in all.iter().filter(mine) {
                match next.iter_mut().find(|(from, tag, _)| (*from, *tag) == (s.from, s.tag)) {
                    Some((.., queue)) => queue.push_back(*s),
                    None => next.push((s.from, s.tag, VecDeque::from([*s]))),
                }
            }
            for receive in &mut receives {
                let Some(request) = receive.request.take() else { continue };
                let status = request.wait().map_err(|e| told(text(e)))?;
                let (from, tag) = (status.source(), status.tag());
                ensure!(tag == receive.tag, "seed {seed}: {status:?}");
                ensure!(receive.source.is_none_or(|s| s == from), "seed {seed}: {status:?}");
                let queue = next.iter_mut().find(|(f, t, _)| (*f, *t) == (from, tag));
                let want = queue.and_then(|(.., q)| q.pop_front());
                let want = want.ok_or_else(|| format!("seed {seed}: one too many: {status:?}"))?;
                ensure!(status.length == want.len as u64, "seed {seed}: {status:?}, {want:?}");
                let want = receive.into.scattered(&pattern(want.seed, want.len), 0);
                same(receive.into.name, &receive.buf, &want).map_err(told)?;
            }
            wait_all(requests).map_err(|e| told(text(e)))?;
            // Open receives of two phases would mix.
            comm.barrier().map_err(text)?;
        }
        Ok(())
    })
}
