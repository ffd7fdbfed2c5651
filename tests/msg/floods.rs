//! More than a receiver looks at: credit, bounds, order.

use super::{Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::{Any, Envelope, MatchSpec, Started, Word, wait_all};
use rankway::rma::Window;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Ten thousand short messages nobody has asked for.
pub fn unexpected<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const MANY: u32 = 10_000;
        let (me, n) = (comm.rank(), comm.size());
        let mut buf = [0; 64];
        if me == 0 {
            for from in 1..n {
                m.recv(&mut buf, from, MANY).map_err(text)?;
            }
            let lying = m.counts().unexpected;
            ensure!(lying == (MANY * (n - 1)) as usize, "{:?}", m.counts());
            // The latest first, as long as that is cheap; then as they came.
            for from in 1..n {
                for i in (MANY / 2..MANY).rev() {
                    m.recv(&mut buf, from, i).map_err(text)?;
                    same("by tag", &buf[..8], &pattern(i, 8))?;
                }
            }
            for _ in 0..MANY / 2 * (n - 1) {
                m.recv(&mut buf, Any, Any).map_err(text)?;
            }
            let counts = m.counts();
            ensure!((counts.unexpected, counts.unexpected_bytes) == (0, 0), "{counts:?}");
            ensure!(counts.unexpected_most >= lying, "{counts:?}");
        } else {
            for i in 0..=MANY {
                m.send(&pattern(i, 8), 0, i).map_err(text)?;
            }
        }
        Ok(())
    })
}

/// A sender far ahead: what lies at the receiver is within the credit, all
/// arrives in order, whichever route it took. The job sets small limits.
pub fn credit<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const MANY: u32 = 1000;
        let me = comm.rank();
        let length = |i: u32| (i as usize * 37) % 3000;
        if me == 1 {
            let all: Vec<_> = (0..MANY).map(|i| pattern(i, length(i))).collect();
            let send = |i: u32| -> Result<_> {
                let out = &all[i as usize];
                // SAFETY: the buffers outlive the wait below.
                unsafe { m.isend(out.as_ptr(), out.len(), 0, i % 2).map_err(text) }
            };
            let requests = (0..MANY).map(send).collect::<Result<Vec<_>>>()?;
            ensure!(m.counts().queued > 0, "all had credit: {:?}", m.counts());
            wait_all(requests).map_err(text)?;
            ensure!(m.counts().queued == 0, "{:?}", m.counts());
        } else if me == 0 {
            let start = std::time::Instant::now();
            while start.elapsed() < std::time::Duration::from_millis(50) {
                m.tagged().context().progress().map_err(text)?;
            }
            let counts = m.counts();
            ensure!(counts.unexpected_bytes_most <= 16_384, "{counts:?}");
            ensure!(counts.unexpected_most <= 64, "{counts:?}");
            let mut buf = vec![0; 3000];
            for i in 0..MANY {
                let status = m.recv(&mut buf, 1, Any).map_err(text)?;
                ensure!(status.tag() == i % 2 && status.length == length(i) as u64, "{status:?}");
                same("ahead", &buf[..length(i)], &pattern(i, length(i)))?;
            }
            let counts = m.counts();
            ensure!(counts.unexpected_bytes_most <= 16_384, "{counts:?}");
        }
        Ok(())
    })
}

/// The last of more messages than may lie at a receiver is received first: by a receive that
/// is there before them, then by one that comes when they lie there; from one, then from
/// anybody. Then each of these by probes. The job sets small limits.
pub fn behind<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let (me, n) = (comm.rank(), comm.size());
        for round in 0..8_u32 {
            // More each time: what a sender was granted stays.
            let many = 250 * (round + 1);
            let (early, from_one, probes) = (round % 2 == 0, round % 4 < 2, round >= 4);
            let length = |i: u32| if i % 50 == 9 { 3000 } else { i as usize % 20 };
            if me != 0 {
                if early {
                    comm.barrier().map_err(text)?;
                }
                let all: Vec<_> = (0..many).map(|i| pattern(i ^ me, length(i))).collect();
                let send = |i: u32| -> Result<_> {
                    let out = &all[i as usize];
                    // SAFETY: the buffers outlive the wait below.
                    unsafe { m.isend(out.as_ptr(), out.len(), 0, i).map_err(text) }
                };
                let requests = (0..many).map(send).collect::<Result<Vec<_>>>()?;
                if !early {
                    comm.barrier().map_err(text)?;
                }
                wait_all(requests).map_err(text)?;
                continue;
            }
            let mut buf = vec![0; 3000];
            let last = |buf: &mut [u8], from: Option<u32>| {
                let (start, len) = (buf.as_mut_ptr(), buf.len());
                // SAFETY: the buffer outlives the wait.
                unsafe {
                    match from {
                        Some(from) => m.irecv(start, len, from, many - 1),
                        None => m.irecv(start, len, Any, many - 1),
                    }
                }
            };
            let probed = |buf: &mut [u8], from: Option<u32>| match from {
                Some(from) if early => {
                    while m.iprobe(from, many - 1)?.is_none() {}
                    m.recv(buf, from, many - 1)
                }
                Some(from) => {
                    let found = m.probe(from, many - 1)?;
                    m.recv(buf, found.source(), many - 1)
                }
                None if early => loop {
                    if let Some(message) = m.improbe(Any, many - 1)? {
                        break message.recv(buf);
                    }
                },
                None => m.mprobe(Any, many - 1)?.recv(buf),
            };
            if !early || probes {
                comm.barrier().map_err(text)?;
            }
            for at in 1..n {
                let from = from_one.then_some(at);
                let status = if probes {
                    probed(&mut buf, from).map_err(text)?
                } else {
                    let request = last(&mut buf, from).map_err(text)?;
                    if early && at == 1 {
                        comm.barrier().map_err(text)?;
                    }
                    request.wait().map_err(text)?
                };
                let len = length(many - 1);
                ensure!(
                    status.length == len as u64 && from.is_none_or(|f| f == status.source()),
                    "{status:?}"
                );
                same("the last", &buf[..len], &pattern((many - 1) ^ status.source(), len))?;
            }
            for from in 1..n {
                for i in (0..many - 1).rev() {
                    let status = m.recv(&mut buf, from, i).map_err(text)?;
                    ensure!(status.length == length(i) as u64, "{status:?}");
                    same("before it", &buf[..length(i)], &pattern(i ^ from, length(i)))?;
                }
            }
        }
        Ok(())
    })
}

/// The last of more messages than may lie at a receiver is waited for while matched probes have
/// all that do. The job sets small limits.
pub fn held<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const MANY: u32 = 68;
        let tagged = m.tagged();
        let spec = |i: u32| MatchSpec { channel: 9, bits: i.into(), ignore: 0, from: Some(1) };
        if comm.rank() == 1 {
            let all: Vec<_> = (0..MANY).map(|i| pattern(i, 8)).collect();
            let send = |i: u32| {
                let (to, out) =
                    (Envelope { peer: 0, channel: 9, bits: i.into() }, &all[i as usize]);
                // SAFETY: the buffers outlive the wait below.
                unsafe { tagged.isend(to, out.as_ptr(), out.len()) }.map_err(text)
            };
            let requests = (0..MANY).map(send).collect::<Result<Vec<_>>>()?;
            comm.barrier().map_err(text)?;
            return wait_all(requests).map_err(text).map(drop);
        }
        comm.barrier().map_err(text)?;
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(50) {
            tagged.context().progress().map_err(text)?;
        }
        let lying = m.counts().unexpected as u32;
        ensure!(lying < MANY, "all had credit: {:?}", m.counts());
        let mut matched = Vec::new();
        for _ in 0..lying {
            let any = MatchSpec { ignore: u64::MAX, ..spec(0) };
            matched.push(tagged.improbe(&any).map_err(text)?.ok_or("it lay there")?);
        }
        let (mut last, cookie) = ([0; 8], NonZeroU64::MIN);
        let into = last.as_mut_ptr();
        // (So that there is a place for a request.)
        let other = MatchSpec { channel: 10, ..spec(0) };
        // SAFETY: taken back here.
        drop(unsafe { tagged.irecv(&other, into, 8) }.map_err(text)?);
        // SAFETY: the buffer outlives the completion, which is waited for.
        if unsafe { tagged.post_recv(spec(MANY - 1), into, 8, cookie) }.is_none() {
            // SAFETY: as above.
            let started = unsafe { tagged.start_recv(&spec(MANY - 1), into, 8, cookie) };
            let started = started.map_err(text)?;
            ensure!(matches!(started, Started::Pending(_)), "nothing has come: {started:?}");
        }
        let ended = loop {
            tagged.context().progress().map_err(text)?;
            if let Some(ended) = tagged.next_completion() {
                break ended;
            }
        };
        ended.result.map_err(text)?;
        same("the last", &last, &pattern(MANY - 1, 8))?;
        for (i, message) in (0..).zip(matched) {
            message.recv(&mut last).map_err(text)?;
            same("held", &last, &pattern(i, 8))?;
        }
        for i in lying..MANY - 1 {
            tagged.recv(&spec(i), &mut last).map_err(text)?;
            same("behind", &last, &pattern(i, 8))?;
        }
        Ok(())
    })
}

/// All to all with many at once.
pub fn crossing<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let (me, n) = (comm.rank(), comm.size());
        for round in 0..20_u32 {
            let len = [8, 700, 9000, 40_000][round as usize % 4];
            let seed = |from: u32, to: u32| from * 7 + to * 3 + round;
            let out: Vec<_> = (0..n).map(|to| pattern(seed(me, to), len)).collect();
            let mut got = vec![vec![0; len]; n as usize];
            let mut requests = Vec::new();
            for peer in 0..n {
                let (got, out) = (&mut got[peer as usize], &out[peer as usize]);
                // SAFETY: the buffers outlive the wait below.
                unsafe {
                    requests.push(m.isend(out.as_ptr(), len, peer, round).map_err(text)?);
                    requests.push(m.irecv(got.as_mut_ptr(), len, peer, round).map_err(text)?);
                }
            }
            wait_all(requests).map_err(text)?;
            for from in 0..n {
                same("crossing", &got[from as usize], &pattern(seed(from, me), len))?;
            }
        }
        Ok(())
    })
}

/// Each sends more than its credit before it looks at what comes, which all has receives: more
/// rendezvous at once, either way, than a provider takes receives.
pub fn beyond_credit<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const MANY: u32 = 4000;
        let peer = 1 - comm.rank();
        let length = |i: u32| if i % 500 == 499 { 40_000 } else { 900 + i as usize % 200 };
        let out: Vec<_> = (0..MANY).map(|i| pattern(i, length(i))).collect();
        let mut got: Vec<_> = (0..MANY).map(|i| vec![0; length(i)]).collect();
        let mut requests = Vec::new();
        for bytes in &out {
            // SAFETY: the buffers outlive the wait below.
            requests.push(unsafe { m.isend(bytes.as_ptr(), bytes.len(), peer, 7) }.map_err(text)?);
        }
        for bytes in &mut got {
            let (to, len) = (bytes.as_mut_ptr(), bytes.len());
            // SAFETY: as above.
            requests.push(unsafe { m.irecv(to, len, peer, 7) }.map_err(text)?);
        }
        wait_all(requests).map_err(text)?;
        for (got, out) in got.iter().zip(&out) {
            same("beyond credit", got, out)?;
        }
        Ok(())
    })
}

/// 4 GiB and a byte, as a message, a put and a get; the memory is 16 MiB that
/// are mapped over and over.
pub fn huge<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const PART: usize = 16 << 20;
    const LEN: usize = (4 << 30) + 1;
    let out = aliased(PART, LEN.div_ceil(PART))?;
    let into = aliased(PART, LEN.div_ceil(PART))?;
    let bytes = pattern(5, PART);
    // SAFETY: both are mapped for good, and nobody else touches them.
    let (sent, got) = unsafe {
        (std::slice::from_raw_parts_mut(out, PART), std::slice::from_raw_parts(into, PART))
    };
    sent.copy_from_slice(&bytes);
    world::<N>(boot, |comm, m| {
        // SAFETY: mapped for good.
        let made = unsafe { Window::create(comm, into, LEN, 1) };
        let w = made.map_err(text)?;
        if comm.rank() == 0 {
            // SAFETY: mapped, and waited for.
            let sending = unsafe { m.isend(out, LEN, 1, 7) }.map_err(text)?;
            sending.wait().map_err(text)?;
        } else {
            // SAFETY: mapped, and waited for.
            let receiving = unsafe { m.irecv(into, LEN, 0, 7) }.map_err(text)?;
            let status = receiving.wait().map_err(text)?;
            ensure!(status.length == LEN as u64, "{status:?}");
            same("a message past 4 GiB", got, &bytes)?;
            w.write_local(0, &vec![0; PART]).map_err(text)?;
        }
        w.fence().map_err(text)?;
        if comm.rank() == 0 {
            // SAFETY: mapped for good.
            unsafe {
                w.put_nb(out, LEN, 1, 0).map_err(text)?;
                w.flush(1).map_err(text)?;
                w.get_nb(into, LEN, 1, 0).map_err(text)?;
                w.flush(1).map_err(text)?;
            }
        }
        w.fence().map_err(text)?;
        same("put and got past 4 GiB", got, &bytes)
    })
}

/// Memory of `part` bytes, mapped `times` side by side.
fn aliased(part: usize, times: usize) -> Result<*mut u8> {
    use std::ptr::null_mut;
    let failed = || format!("no memory: {}", std::io::Error::last_os_error());
    // SAFETY: a file and mappings of our own, which stay until the process ends.
    unsafe {
        let file = libc::memfd_create(c"aliased".as_ptr(), 0);
        ensure!(file >= 0 && libc::ftruncate(file, part as i64) == 0, "{}", failed());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let all = libc::mmap(null_mut(), part * times, libc::PROT_NONE, flags, -1, 0);
        ensure!(all != libc::MAP_FAILED, "{}", failed());
        let (start, access) = (all.cast::<u8>(), libc::PROT_READ | libc::PROT_WRITE);
        for i in 0..times {
            let at = start.add(i * part).cast();
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            ensure!(libc::mmap(at, part, access, flags, file, 0) == at, "{}", failed());
        }
        Ok(start)
    }
}

/// What [`Tagged::send_now`] takes arrives once and in its place among what it refused, which a
/// request began; of 8 bytes or less by [`Tagged::send_word`], too.
pub fn at_once<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        const MANY: u32 = 2000;
        let (me, n, tagged) = (comm.rank(), comm.size(), m.tagged());
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        // Now and then more than is copied anywhere.
        let length = |i: u32| match i % 50 {
            49 => 40_000,
            _ if i.is_multiple_of(3) => 8,
            _ if i.is_multiple_of(4) => i as usize % 9,
            _ => (i as usize * 7) % 120,
        };
        let all: Vec<_> = (0..MANY).map(|i| pattern(me + i, length(i))).collect();
        let mut begun = Vec::new();
        let (mut taken, mut words, mut refused) = (0, 0, 0);
        let mut send = |i: u32| -> Result {
            let (envelope, out) = (Envelope { peer: to, channel: 9, bits: 4 }, &all[i as usize]);
            // SAFETY: the buffer is readable.
            let word = || unsafe { Word::read(out.as_ptr(), out.len()) };
            let short = out.len() <= Word::BYTES;
            let as_word = short && tagged.send_word(envelope, word()) == Some(true);
            // SAFETY: the buffers outlive the waits below.
            let sent = as_word || unsafe { tagged.send_now(envelope, out.as_ptr(), out.len()) };
            if sent {
                taken += 1;
                words += u32::from(as_word);
                return Ok(());
            }
            refused += 1;
            // SAFETY: as above.
            begun.push(unsafe { tagged.isend(envelope, out.as_ptr(), out.len()).map_err(text)? });
            Ok(())
        };
        let mut got = vec![0; 40_000];
        // A few ahead at first, more than little credit is for later.
        let mut sent = 0;
        for i in 0..MANY {
            let ahead = if i < MANY / 2 { 20 } else { 300 };
            while sent < MANY.min(i + ahead) {
                send(sent)?;
                sent += 1;
            }
            let spec = MatchSpec { channel: 9, bits: 4, ignore: 0, from: Some(from) };
            let status = tagged.recv(&spec, &mut got).map_err(text)?;
            ensure!(status.length == length(i) as u64, "{i}: {status:?}");
            same("at once", &got[..length(i)], &pattern(from + i, length(i)))?;
        }
        wait_all(begun).map_err(text)?;
        ensure!(taken > words && words > 0, "{taken} at once, {words} of them as a word");
        ensure!(refused > 0, "{taken} at once, none not");
        Ok(())
    })
}
