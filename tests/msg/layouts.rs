//! Messages that are not contiguous at either end, every byte of both memories
//! checked against plain loops.

use super::shapes::{SHAPES, Shape, shape};
use super::{Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout};
use rankway::msg::{Envelope, MatchSpec, Messenger, MsgError, Started, wait_all};
use std::num::NonZeroU64;
use std::sync::Arc;

const GAP: u8 = 0x55;
/// Ways to send and receive, one after the other.
const CALLS: usize = 6;

/// A message from the left neighbour to the right one, of these shapes.
struct Exchange<'a> {
    out: &'a Shape,
    into: &'a Shape,
    len: usize,
    tag: u32,
}

impl Exchange<'_> {
    fn told(&self, calls: usize, e: impl std::fmt::Display) -> String {
        let Exchange { out, into, len, .. } = self;
        format!("{len} bytes, {} to {}, calls {calls}: {e}", out.name, into.name)
    }

    /// Sends to the right and receives from the left, by one of the calls.
    fn play<N: Opens>(&self, m: &Messenger<'_, N>, calls: usize) -> Result {
        let (me, n) = (m.communicator().rank(), m.communicator().size());
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let Exchange { out, into, len, tag } = *self;
        let told = |e: MsgError| self.told(calls, e);
        let ours = out.scattered(&pattern(me + tag, len), !GAP);
        let before = ours.clone();
        let mut theirs = vec![GAP; into.bytes];
        let (a, b) = (out.origin, into.origin);
        let length = match calls {
            0 => {
                // SAFETY: both memories outlive the wait.
                let pair = unsafe {
                    [
                        m.irecv_layout(theirs.as_mut_ptr().add(b), &into.layout, from, tag)
                            .map_err(told)?,
                        m.isend_layout(ours.as_ptr().add(a), &out.layout, to, tag).map_err(told)?,
                    ]
                };
                wait_all(pair).map_err(told)?[0].length
            }
            1 => {
                // Before its receive; synchronous.
                // SAFETY: the memory outlives the wait.
                let send = unsafe {
                    m.issend_layout(ours.as_ptr().add(a), &out.layout, to, tag).map_err(told)?
                };
                let found = m.mprobe(from, tag).map_err(told)?;
                let length = found.recv_layout(&mut theirs, b, &into.layout).map_err(told)?.length;
                send.wait().map_err(told)?;
                length
            }
            2 => {
                let mut length = 0;
                m.scope(|s| {
                    let receive = s.recv_layout(&mut theirs, b, &into.layout, from, tag)?;
                    s.send_layout(&ours, a, &out.layout, to, tag)?;
                    length = receive.wait()?.0.length;
                    Ok(())
                })
                .map_err(told)?;
                length
            }
            3 => {
                // Blocking: the first rank begins.
                let mut length = 0;
                for turn in 0..2 {
                    if (me == 0) == (turn == 0) {
                        m.send_layout(&ours, a, &out.layout, to, tag).map_err(told)?;
                    } else {
                        let got = m.recv_layout(&mut theirs, b, &into.layout, from, tag);
                        length = got.map_err(told)?.length;
                    }
                }
                length
            }
            4 => self.by_cookies(m, &ours, &mut theirs, (to, from))?,
            _ => {
                // The other end is contiguous: at odd ranks the sender, else the
                // receiver.
                let packed = pattern(me + tag, len);
                let mut got = vec![GAP; len];
                // SAFETY: all memory outlives the wait.
                let pair = unsafe {
                    if me % 2 == 1 {
                        [
                            m.irecv_layout(theirs.as_mut_ptr().add(b), &into.layout, from, tag)
                                .map_err(told)?,
                            m.isend(packed.as_ptr(), len, to, tag).map_err(told)?,
                        ]
                    } else {
                        [
                            m.irecv(got.as_mut_ptr(), len, from, tag).map_err(told)?,
                            m.isend_layout(ours.as_ptr().add(a), &out.layout, to, tag)
                                .map_err(told)?,
                        ]
                    }
                };
                let length = wait_all(pair).map_err(told)?[0].length;
                if me % 2 == 0 {
                    same("packed", &got, &pattern(from + tag, len))
                        .map_err(|e| self.told(calls, e))?;
                    theirs = into.scattered(&got, GAP);
                }
                length
            }
        };
        ensure!(length == len as u64, "{}", self.told(calls, length));
        let want = into.scattered(&pattern(from + tag, len), GAP);
        same("received", &theirs, &want).map_err(|e| self.told(calls, e))?;
        same("sent", &ours, &before).map_err(|e| self.told(calls, e))
    }

    /// By the completion queue.
    fn by_cookies<N: Opens>(
        &self,
        m: &Messenger<'_, N>,
        ours: &[u8],
        theirs: &mut [u8],
        (to, from): (u32, u32),
    ) -> Result<u64> {
        let Exchange { out, into, tag, .. } = *self;
        let told = |e: MsgError| self.told(4, e);
        let cookie = |n| NonZeroU64::new(n).ok_or("a cookie of 0");
        let tagged = m.tagged();
        let bits = u64::from(tag);
        let spec = MatchSpec { channel: 9, bits, ignore: 0, from: Some(from) };
        let to = Envelope { peer: to, channel: 9, bits };
        // SAFETY: both memories outlive the completions, which are waited for.
        let started = unsafe {
            let at = theirs.as_mut_ptr().add(into.origin);
            [
                tagged.start_recv_layout(&spec, at, &into.layout, cookie(1)?).map_err(told)?,
                tagged
                    .start_send_layout(
                        to,
                        ours.as_ptr().add(out.origin),
                        &out.layout,
                        tag % 2 == 0,
                        cookie(2)?,
                    )
                    .map_err(told)?,
            ]
        };
        let (mut left, mut length) = (0, None);
        for (i, started) in started.into_iter().enumerate() {
            match started {
                Started::Done(result) if i == 0 => length = Some(result.map_err(told)?.length),
                Started::Done(result) => drop(result.map_err(told)?),
                Started::Pending(_) => left += 1,
            }
        }
        while left > 0 {
            tagged.context().progress().map_err(text)?;
            while let Some(ended) = tagged.next_completion() {
                let status = ended.result.map_err(|e| told(*e))?;
                if ended.cookie.get() == 1 {
                    length = Some(status.length);
                }
                left -= 1;
            }
        }
        length.ok_or_else(|| "no receive ended".into())
    }
}

/// Lengths around every limit of the first rank's networks.
fn lengths<N: Opens>(m: &Messenger<'_, N>) -> Result<Vec<usize>> {
    // The queues of the node take 16 KiB with their head.
    let mut all = vec![0, 1, 8, 9, 33, 1000, 16_352, 16_353, 65_536];
    for transport in [Transport::Network, Transport::Local] {
        let open = m.tagged().context().endpoint(transport);
        let limits =
            open.map(|(netmod, _)| [netmod.caps().packet_inject, netmod.caps().packet_size]);
        for limit in limits.into_iter().flatten().filter(|&limit| (32..1 << 20).contains(&limit)) {
            all.extend([limit - 32, limit - 31]);
        }
    }
    all.sort_unstable();
    all.dedup();
    let told: Vec<u8> = all.iter().flat_map(|len| (*len as u64).to_le_bytes()).collect();
    let told = m.communicator().allgather(&told).map_err(text)?.swap_remove(0);
    Ok(told
        .chunks_exact(8)
        .map(|b| b.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
        .collect())
}

/// Every shape to every shape at every length, by the calls in turn.
pub fn shapes<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |_, m| {
        let mut tag = 0;
        for len in lengths(m)? {
            for i in 0..SHAPES * SHAPES {
                let (out, into) = (shape(i / SHAPES, len)?, shape(i % SHAPES, len)?);
                tag += 1;
                let exchange = Exchange { out: &out, into: &into, len, tag };
                exchange.play(m, tag as usize % CALLS)?;
            }
        }
        ensure!(m.counts().unexpected == 0, "{:?}", m.counts());
        Ok(())
    })
}

/// Long ones: each shape from and to each of three.
pub fn long<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |_, m| {
        let mut tag = 0;
        for len in [1 << 20, 5 << 20] {
            for which in 0..SHAPES {
                for (from, to) in [(which, 0), (0, which), (which, (which * 2 + 3) % SHAPES)] {
                    let (out, into) = (shape(from, len)?, shape(to, len)?);
                    tag += 1;
                    let exchange = Exchange { out: &out, into: &into, len, tag };
                    exchange.play(m, (tag as usize * 5 + which) % CALLS)?;
                }
            }
        }
        Ok(())
    })
}

/// A process to itself, before and after the receive.
pub fn own<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let me = comm.rank();
        for (i, len) in (0..SHAPES * SHAPES).flat_map(|i| [(i, 100), (i, 400_000)]) {
            let (out, into) = (shape(i / SHAPES, len)?, shape(i % SHAPES, len)?);
            let data = pattern(i as u32, len);
            let ours = out.scattered(&data, !GAP);
            for synchronous in [false, true] {
                let mut theirs = vec![GAP; into.bytes];
                let (a, b) = (out.origin, into.origin);
                // SAFETY: the memory outlives the waits.
                let send = || unsafe {
                    let at = ours.as_ptr().add(a);
                    match synchronous {
                        true => m.issend_layout(at, &out.layout, me, 1),
                        false => m.isend_layout(at, &out.layout, me, 1),
                    }
                };
                let first = (i % 2 == 0).then(send).transpose().map_err(text)?;
                // SAFETY: as above.
                let receive = unsafe {
                    m.irecv_layout(theirs.as_mut_ptr().add(b), &into.layout, me, 1).map_err(text)?
                };
                let second = (i % 2 == 1).then(send).transpose().map_err(text)?;
                wait_all(first.into_iter().chain(second).chain([receive])).map_err(text)?;
                same("own", &theirs, &into.scattered(&data, GAP))
                    .map_err(|e| format!("{} to {}, {len}: {e}", out.name, into.name))?;
            }
        }
        Ok(())
    })
}

/// Too long for its receive, of other types, out of its memory: told, consumed,
/// and nothing is written beside the layout.
pub fn refusals<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let me = comm.rank();
        let lengths = [200, 300_000];
        for (i, len) in (0..SHAPES).flat_map(|i| lengths.map(|len| (i, len))) {
            let (out, into) = (shape(i, len)?, shape(i, len / 2)?);
            let data = pattern(7, len);
            if me == 0 {
                let ours = out.scattered(&data, !GAP);
                m.send_layout(&ours, out.origin, &out.layout, 1, 3).map_err(text)?;
                m.send(b"next", 1, 3).map_err(text)?;
                continue;
            }
            let mut theirs = vec![GAP; into.bytes];
            match m.recv_layout(&mut theirs, into.origin, &into.layout, 0, 3) {
                Err(MsgError::Truncated { length, capacity, source_rank: 0, tag: 3, peer: 0 })
                    if length == len as u64 && capacity == len / 2 => {}
                other => return Err(format!("{}: truncated: {other:?}", into.name)),
            }
            let untouched = vec![GAP; into.bytes];
            if theirs != untouched {
                same(into.name, &theirs, &into.scattered(&data[..len / 2], GAP))?;
            }
            let mut next = [0; 4];
            m.recv(&mut next, 0, 3).map_err(text)?;
            ensure!(&next == b"next", "the truncated message was not consumed");
        }
        // The same bytes as other types.
        const MANY: u64 = 50_000;
        let of = |basic| Layout::vector(MANY, 1, 2, &Layout::basic(basic)).map_err(text);
        let (doubles, words, bytes) = (of(Basic::F64)?, of(Basic::U64)?, {
            let eight = Layout::contiguous(8, &Layout::basic(Basic::Byte)).map_err(text)?;
            Layout::vector(MANY, 1, 2, &eight).map_err(text)?
        });
        let mut memory = vec![1.0_f64; 2 * MANY as usize];
        if me == 0 {
            for layout in [&doubles, &words, &bytes] {
                m.send_layout(&memory, 0, layout, 1, 4).map_err(text)?;
            }
            m.send_slice(&memory[..3], 1, 5).map_err(text)?;
        } else {
            m.recv_layout(&mut memory, 0, &doubles, 0, 4).map_err(text)?;
            match m.recv_layout(&mut memory, 0, &doubles, 0, 4) {
                Err(e @ MsgError::Types { source_rank: 0, tag: 4, peer: 0, length }) => {
                    ensure!(length == 8 * MANY && e.to_string().contains("other types"), "{e}");
                }
                other => return Err(format!("other types: {other:?}")),
            }
            m.recv_layout(&mut memory, 0, &doubles, 0, 4).map_err(text)?;
            let mut three = [0.0; 4];
            let status = m.recv_slice(&mut three, 0, 5).map_err(text)?;
            ensure!(status.length == 24 && three == [1.0, 1.0, 1.0, 0.0], "{three:?}");
        }
        // Outside of the memory, before anything is sent or taken.
        let small = &mut memory[..9];
        for refused in [
            m.send_layout(small, 0, &doubles, 1 - me.min(1), 6),
            m.send_layout(small, 80, &Layout::basic(Basic::U8), 1 - me.min(1), 6),
            m.recv_layout(small, 0, &doubles, 1 - me.min(1), 6).map(drop),
            m.scope(|s| s.send_layout(small, 8, &doubles, 1 - me.min(1), 6)),
        ] {
            ensure!(matches!(refused, Err(MsgError::Layout(_))), "{refused:?}");
        }
        comm.barrier().map_err(text)?;
        ensure!(m.counts().unexpected == 0, "{:?}", m.counts());
        Ok(())
    })
}
