//! What MPI promises of messages, one promise at a time.

use super::{Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::{Any, Envelope, MatchSpec, MsgError, Started, Status, wait_all, wait_any};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Every kind of length, to the next rank and from the one before.
pub fn sizes<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let (me, n) = (comm.rank(), comm.size());
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let mut lengths: Vec<usize> = (0..130).collect();
        let powers = (7..=20).map(|p| 1_usize << p);
        lengths.extend(powers.flat_map(|p| [p - 33, p - 32, p - 31, p - 1, p, p + 1]));
        lengths.extend([8191, 8192, 8193, 64 << 20]);
        for (i, &len) in lengths.iter().enumerate() {
            let out = pattern(me + i as u32, len);
            let mut got = vec![0; len];
            let tag = i as u32;
            // SAFETY: both buffers outlive the wait below.
            let pair = unsafe {
                [
                    m.irecv(got.as_mut_ptr(), len, from, tag).map_err(text)?,
                    m.isend(out.as_ptr(), len, to, tag).map_err(text)?,
                ]
            };
            let status = wait_all(pair).map_err(text)?[0];
            let is = (status.source(), status.tag(), status.length);
            ensure!(is == (from, tag, len as u64), "{len}: {status:?}");
            same("ring", &got, &pattern(from + i as u32, len))?;
        }
        // The same before their receives, one rank at a time, blocking.
        for (i, &len) in lengths.iter().enumerate().filter(|(_, len)| **len <= 1 << 20) {
            let mut got = vec![0; len + 8];
            if me % 2 == 0 && to % 2 == 1 {
                m.send(&pattern(i as u32, len), to, 7).map_err(text)?;
            } else if me % 2 == 1 && from % 2 == 0 {
                let status = m.recv(&mut got, from, 7).map_err(text)?;
                ensure!(status.length == len as u64, "{status:?}");
                same("pairs", &got[..len], &pattern(i as u32, len))?;
                ensure!(got[len..] == [0; 8], "{len}: written past the end");
            }
        }
        ensure!(m.counts().unexpected == 0, "{:?}", m.counts());
        Ok(())
    })
}

/// Wildcards take what came first, from whom it may be.
pub fn wildcards<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const EACH: u32 = 200;
        let (me, n) = (comm.rank(), comm.size());
        let dup = comm.dup();
        let other = rankway::msg::Messenger::open(&dup).map_err(text)?;
        if me != 0 {
            for i in 0..EACH {
                let len = if i % 50 == 49 { 20_000 } else { 8 + i as usize };
                m.send(&pattern(me + i, len), 0, i % 3).map_err(text)?;
                other.send(&pattern(99, 4), 0, 5).map_err(text)?;
            }
            return Ok(());
        }
        // From anybody with any tag: each sender's come in order.
        let mut next = vec![0; n as usize];
        let mut buf = vec![0; 20_000];
        for _ in 0..EACH / 2 * (n - 1) {
            let status = m.recv(&mut buf, Any, Any).map_err(text)?;
            let i = &mut next[status.source() as usize];
            ensure!(status.tag() == *i % 3, "{status:?} is not the {i}th");
            let want = pattern(status.source() + *i, status.length as usize);
            same("any", &buf[..want.len()], &want)?;
            *i += 1;
        }
        // By source with any tag, then the rest by tag from anybody.
        for from in 1..n {
            while next[from as usize] < EACH - 30 {
                let i = &mut next[from as usize];
                let status = m.recv(&mut buf, from, Any).map_err(text)?;
                ensure!(status.tag() == *i % 3 && status.source() == from, "{status:?}");
                *i += 1;
            }
        }
        for tag in [2, 0, 1] {
            let left = |i: &u32| (*i..EACH).filter(|i| i % 3 == tag).count();
            for _ in 0..next.iter().skip(1).map(left).sum::<usize>() {
                let status = m.recv(&mut buf, Any, tag).map_err(text)?;
                ensure!(status.tag() == tag, "{status:?}");
            }
        }
        ensure!(m.iprobe(Any, Any).map_err(text)?.is_none(), "something is left");
        for _ in 0..EACH * (n - 1) {
            let status = other.recv(&mut buf, Any, 5).map_err(text)?;
            same("other communicator", &buf[..4], &pattern(99, 4))?;
            ensure!(status.length == 4, "{status:?}");
        }
        Ok(())
    })
}

/// Probes, matched probes, cancelled receives, truncation, zero bytes, self.
pub fn probes<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let me = comm.rank();
        let mut buf = vec![0; 100_000];
        if me == 1 {
            for (tag, len) in [(1, 10), (2, 70_000), (3, 0), (1, 20), (4, 30), (5, 90_000)] {
                m.send(&pattern(tag, len), 0, tag).map_err(text)?;
            }
            m.ssend(&pattern(6, 50_000), 0, 6).map_err(text)?;
            m.send(b"go", 0, 9).map_err(text)?;
            let status = m.recv(&mut buf, 0, Any).map_err(text)?;
            ensure!(status.tag() == 8, "{status:?}");
            return Ok(());
        }
        if me != 0 {
            return Ok(());
        }
        let status = m.probe(1, Any).map_err(text)?;
        ensure!((status.tag(), status.length) == (1, 10), "{status:?}");
        let status = m.probe(Any, 2).map_err(text)?;
        ensure!((status.source(), status.length) == (1, 70_000), "{status:?}");
        // A matched one is gone for others.
        let first = m.mprobe(Any, 1).map_err(text)?;
        let second = m.recv(&mut buf, 1, 2).map_err(text)?;
        ensure!(second.length == 70_000, "{second:?}");
        same("behind a matched probe", &buf[..70_000], &pattern(2, 70_000))?;
        let status = m.recv(&mut buf, 1, 3).map_err(text)?;
        ensure!(status.length == 0, "{status:?}");
        let status = m.recv(&mut buf, 1, 1).map_err(text)?;
        ensure!(status.length == 20, "the matched one was found again: {status:?}");
        let status = first.recv(&mut buf).map_err(text)?;
        ensure!(status.length == 10, "{status:?}");
        same("matched", &buf[..10], &pattern(1, 10))?;
        // Too short: the error names lengths, source and tag; it is consumed.
        for (tag, sent) in [(4, 30), (5, 90_000)] {
            match m.recv(&mut buf[..16], 1, tag) {
                Err(e @ MsgError::Truncated { peer: 1, .. }) => {
                    let told = e.to_string();
                    for part in [format!("{sent} bytes"), "16 bytes".into(), "rank 1".into()] {
                        ensure!(told.contains(&part), "{told}");
                    }
                    ensure!(told.contains(&format!("tag {tag}")), "{told}");
                }
                other => return Err(format!("truncated: {other:?}")),
            }
        }
        ensure!(m.iprobe(1, 5).map_err(text)?.is_none(), "a truncated message is still there");
        // Thrown away: its synchronous sender goes on.
        drop(m.mprobe(1, 6).map_err(text)?);
        m.recv(&mut buf, 1, 9).map_err(text)?;
        // Cancelled ones take nothing.
        // SAFETY: `buf` outlives the requests.
        let mut all = unsafe {
            let at = buf.as_mut_ptr();
            [
                m.irecv(at, 8, Any, 77).map_err(text)?,
                m.irecv(at, 8, 0, Any).map_err(text)?,
                m.irecv(at, 8, 0, 78).map_err(text)?,
            ]
        };
        ensure!(all[1].cancel() && all[0].cancel(), "not cancelled");
        m.send(&pattern(78, 8), 0, 78).map_err(text)?;
        ensure!(!all[2].cancel(), "a complete one was cancelled");
        let got = wait_all(all).map_err(text)?;
        ensure!(got[0].cancelled && got[1].cancelled && !got[2].cancelled, "{got:?}");
        same("self", &buf[..8], &pattern(78, 8))?;
        // To itself: before and after the receive, short, long, synchronous.
        for len in [0, 5, 8192, 100_000] {
            let out = pattern(3, len);
            // SAFETY: `buf` and `out` outlive the requests.
            let (send, receive) = unsafe {
                let send = m.issend(out.as_ptr(), len, 0, 1).map_err(text)?;
                ensure!(!send.is_complete(), "a synchronous send before its receive");
                (send, m.irecv(buf.as_mut_ptr(), len, 0, Any).map_err(text)?)
            };
            wait_all([send, receive]).map_err(text)?;
            same("to itself", &buf[..len], &out)?;
        }
        m.send(&[], 1, 8).map_err(text)?;
        // One of several.
        // SAFETY: `buf` outlives the requests.
        let mut any = unsafe {
            let at = buf.as_mut_ptr();
            [m.irecv(at, 8, 0, 1).map_err(text)?, m.irecv(at.add(8), 8, 0, 2).map_err(text)?]
        };
        m.send(&pattern(2, 8), 0, 2).map_err(text)?;
        let first = wait_any(&mut any).map_err(|(at, e)| format!("{at}: {e}"))?;
        ensure!(first.is_some_and(|(at, _)| at == 1), "{first:?}");
        ensure!(any[0].cancel(), "too late");
        let second = wait_any(&mut any).map_err(|(at, e)| format!("{at}: {e}"))?;
        ensure!(second.is_some_and(|(at, s)| at == 0 && s.cancelled), "{second:?}");
        ensure!(wait_any(&mut any).map_err(|(_, e)| text(e))?.is_none(), "a third");
        Ok(())
    })
}

/// Requests with cookies: each end is told once, with its cookie, whether it
/// was done at once, later, truncated or taken back.
pub fn completion_queue<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const EACH: u64 = 60;
        let (me, n) = (comm.rank(), comm.size());
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        let tagged = m.tagged();
        let len = |i: u64| if i % 7 == 6 { 90_000 } else { 1 + i as usize };
        let out: Vec<_> = (0..EACH).map(|i| pattern(me + i as u32, len(i))).collect();
        // The last receive has no space, the one behind it no message.
        let short = EACH - 1;
        let mut got: Vec<_> =
            (0..=EACH).map(|i| vec![0; if i == short { 4 } else { len(i) }]).collect();
        // By cookie, from 1: how each ended. Sends behind receives.
        let mut ends: Vec<Option<std::result::Result<_, MsgError>>> = Vec::new();
        ends.resize_with((2 * EACH + 2) as usize, || None);
        let cookie = |i: u64| NonZeroU64::new(i + 1).ok_or("a cookie of 0");
        let mut last = None;
        for i in 0..=EACH {
            let spec = MatchSpec { channel: 5, bits: i, ignore: 0, from: Some(from) };
            let buf = &mut got[i as usize];
            // SAFETY: `got` outlives the requests, all of which end below.
            let started = unsafe {
                tagged.start_recv(&spec, buf.as_mut_ptr(), buf.len(), cookie(i)?).map_err(text)?
            };
            match started {
                Started::Done(result) => ends[i as usize] = Some(result),
                Started::Pending(id) => last = Some(id),
            }
        }
        let last = last.ok_or("a receive without a message is done")?;
        for i in 0..EACH {
            let (buf, cookie) = (&out[i as usize], cookie(EACH + 1 + i)?);
            // SAFETY: `out` outlives the requests.
            let started = unsafe {
                let envelope = Envelope { peer: to, channel: 5, bits: i };
                let (start, len) = (buf.as_ptr(), buf.len());
                tagged.start_send(envelope, start, len, i % 3 == 0, cookie).map_err(text)?
            };
            if let Started::Done(result) = started {
                ends[(EACH + 1 + i) as usize] = Some(result);
            }
        }
        ensure!(tagged.cancel(last), "not taken back");
        ensure!(!tagged.cancel(last), "taken back twice");
        while ends.iter().filter(|end| end.is_some()).count() < (2 * EACH + 1) as usize {
            tagged.context().progress().map_err(text)?;
            while let Some(ended) = tagged.next_completion() {
                let end = &mut ends[ended.cookie.get() as usize - 1];
                ensure!(end.is_none(), "cookie {} ended twice", ended.cookie);
                *end = Some(ended.result.map_err(|e| *e));
            }
        }
        ensure!(!tagged.cancel(last), "its place was another's");
        for i in 0..EACH {
            match ends[i as usize].take() {
                Some(Ok(status)) if i != short => {
                    ensure!(status.length == len(i) as u64 && !status.cancelled, "{status:?}");
                    same("completion queue", &got[i as usize], &pattern(from + i as u32, len(i)))?;
                }
                Some(Err(MsgError::Truncated { length, capacity: 4, .. })) if i == short => {
                    ensure!(length == len(i) as u64, "{length}");
                }
                other => return Err(format!("receive {i}: {other:?}")),
            }
        }
        let cancelled = ends[EACH as usize].take();
        ensure!(matches!(&cancelled, Some(Ok(s)) if s.cancelled), "{cancelled:?}");
        Ok(())
    })
}

/// What came before its receive is received at once where it is the first of all, whole, no
/// longer than the buffer, and nobody waits to hear of it. Else nothing happens.
pub fn early<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const LENGTHS: [usize; 6] = [8, 0, 100, 8, 90_000, 8];
        const SYNCHRONOUS: usize = 3;
        const LONG: usize = 4;
        let (me, tagged) = (comm.rank(), m.tagged());
        let out: Vec<_> = (0..).zip(LENGTHS).map(|(i, len)| pattern(i, len)).collect();
        let cookie = |i: usize| NonZeroU64::new(i as u64 + 1).ok_or("a cookie of 0");
        let end = |started: Started| {
            let Started::Pending(_) = started else { return Ok(()) };
            loop {
                tagged.context().progress().map_err(text)?;
                if let Some(ended) = tagged.next_completion() {
                    return ended.result.map(|_| ()).map_err(|e| text(*e));
                }
            }
        };
        if me == 0 {
            let mut all = Vec::new();
            for (i, body) in out.iter().enumerate() {
                let (to, start) = (Envelope { peer: 1, channel: 6, bits: i as u64 }, body.as_ptr());
                // SAFETY: `out` outlives the sends, all of which end below.
                all.push(unsafe {
                    let synchronous = i == SYNCHRONOUS;
                    tagged
                        .start_send(to, start, body.len(), synchronous, cookie(i)?)
                        .map_err(text)?
                });
            }
            all.into_iter().try_for_each(end)?;
        } else if me == 1 {
            while m.counts().unexpected < LENGTHS.len() {
                tagged.context().progress().map_err(text)?;
            }
            let mut got = vec![0; LENGTHS[LONG]];
            let at = got.as_mut_ptr();
            let spec = |bits: usize, ignore: u64| MatchSpec {
                channel: 6,
                bits: bits as u64,
                ignore,
                from: Some(0),
            };
            // SAFETY: `got` holds as much.
            let now = |spec: MatchSpec, len: usize| unsafe { tagged.recv_now(&spec, at, len) };
            let elsewhere = MatchSpec { channel: 7, ..spec(0, 0) };
            ensure!(now(elsewhere, 8).is_none(), "another channel's");
            ensure!(now(spec(2, 0), 100).is_none(), "not the first");
            ensure!(now(spec(0, 0), 7).is_none(), "longer than the buffer");
            let is = |i: usize, status: Option<Status>| {
                let status = status.ok_or_else(|| format!("{i} was left"))?;
                let told = (status.source(), status.tag(), status.length);
                ensure!(told == (0, i as u32, LENGTHS[i] as u64), "{i}: {status:?}");
                // SAFETY: `got` is as long, and written to by receives alone.
                same("early", unsafe { std::slice::from_raw_parts(at, LENGTHS[i]) }, &out[i])
            };
            is(0, now(spec(0, 0), 100))?;
            // SAFETY: no byte is written.
            is(1, unsafe { tagged.recv_now(&spec(1, 0), std::ptr::null_mut(), 0) })?;
            is(2, now(spec(9, u64::MAX), 100))?;
            ensure!(now(spec(SYNCHRONOUS, 0), 8).is_none(), "its sender waits to hear of it");
            for i in [SYNCHRONOUS, LONG] {
                // SAFETY: `got` outlives the receive, which ends here.
                end(unsafe {
                    tagged.start_recv(&spec(i, 0), at, LENGTHS[i], cookie(i)?).map_err(text)?
                })?;
                // SAFETY: as above.
                same("early", unsafe { std::slice::from_raw_parts(at, LENGTHS[i]) }, &out[i])?;
            }
            is(5, now(spec(5, 0), 8))?;
            ensure!(now(spec(5, 0), 8).is_none(), "received twice");
            ensure!(m.counts().unexpected == 0 && m.counts().unexpected_bytes == 0, "kept");
        }
        Ok(())
    })
}

/// A synchronous send ends with its match and not before.
pub fn synchronous<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let me = comm.rank();
        let mut buf = vec![0; 100_000];
        for len in [0, 8, 5000, 100_000] {
            if me == 0 {
                let out = pattern(1, len);
                // SAFETY: `out` outlives the request.
                let mut send = unsafe { m.issend(out.as_ptr(), len, 1, 1).map_err(text)? };
                m.send(b"there", 1, 2).map_err(text)?;
                // Rank 1 has heard of the message, and not received it.
                m.recv(&mut buf, 1, 3).map_err(text)?;
                for _ in 0..1000 {
                    ensure!(send.test().map_err(text)?.is_none(), "{len}: before its match");
                }
                m.send(b"take it", 1, 4).map_err(text)?;
                send.wait().map_err(text)?;
                ensure!(m.recv(&mut buf, 1, 5).map_err(text)?.length == 0, "odd");
            } else if me == 1 {
                m.recv(&mut buf, 0, 2).map_err(text)?;
                m.send(&[], 0, 3).map_err(text)?;
                m.recv(&mut buf, 0, 4).map_err(text)?;
                ensure!(m.recv(&mut buf, 0, 1).map_err(text)?.length == len as u64, "length");
                same("synchronous", &buf[..len], &pattern(1, len))?;
                m.send(&[], 0, 5).map_err(text)?;
            }
        }
        Ok(())
    })
}
