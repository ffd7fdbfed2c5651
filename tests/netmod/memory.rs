//! Remote memory: blocks and atomics.

use super::pair::bytes;
use super::{Opens, Pair};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::netmod::{
    AGAIN, Iov, IovTransfer, NetError, OpenParams, PENDING, Transfer, UNSUPPORTED,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opening for a job of a million takes memory for the peers that are met, not for all.
pub fn million<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MOST: u64 = 16 << 20;
    let resident = || -> Result<u64> {
        let statm = std::fs::read_to_string("/proc/self/statm").map_err(text)?;
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Ok(pages.ok_or("no size in statm")? * 4096)
    };
    let peers = boot.size();
    let open = |peers| -> Result<u64> {
        let params = OpenParams { peers, on_node: 2, ..OpenParams::default() };
        let before = resident()?;
        let providers = N::open_providers(&params).map_err(text)?;
        let netmod = providers.network.or(providers.node).ok_or("no provider")?;
        let _endpoint = netmod.open_endpoint().map_err(text)?;
        Ok(resident()?.saturating_sub(before))
    };
    // (The first brings the library's own, which some keep.)
    let few = open(peers)?;
    let many = open(1 << 20)?;
    ensure!(many < few + MOST, "{many} bytes for a million, {few} for {peers}");
    Ok(())
}

/// Registered memory of this rank, and how the other reaches its own.
pub struct Exposed<N: Opens> {
    /// Dropped before the memory.
    _region: N::Region,
    memory: *mut u8,
    len: usize,
    _words: Vec<u128>,
    pub addr: u64,
    pub key: u64,
}

impl<N: Opens> Exposed<N> {
    pub fn open(p: &Pair<N>, name: &str, len: usize) -> Result<Exposed<N>> {
        let mut words = vec![0_u128; len.div_ceil(16)];
        let memory = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the region is dropped before the memory.
        let region = unsafe { p.net.register(&p.endpoint, memory, len, 7) }.map_err(text)?;
        let start = if p.net.caps().virtual_addresses { memory.addr() as u64 } else { 0 };
        let mut told = start.to_le_bytes().to_vec();
        told.extend(p.net.key(&region).to_le_bytes());
        told.extend(p.net.rkey_pack(&region).map_err(text)?);
        p.boot.put(name, &told).map_err(text)?;
        p.meet()?;
        let told = p.boot.get(1 - p.rank, name).map_err(text)?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| told[at + i]));
        let (addr, mut key) = (word(0), word(8));
        if N::KEY_HANDLES {
            // SAFETY: the address is the peer's.
            key = unsafe { p.net.rkey_unpack(&p.endpoint, p.dest, &told[16..]) }.map_err(text)?;
        }
        Ok(Exposed { _region: region, memory, len, _words: words, addr, key })
    }

    /// The memory as it is now; nobody writes to it at this time.
    pub fn read(&self) -> Vec<u8> {
        let byte = |at| {
            // SAFETY: within the memory, which is there as long as self.
            unsafe { self.memory.add(at).read_volatile() }
        };
        (0..self.len).map(byte).collect()
    }

    pub fn write(&self, bytes: &[u8]) {
        for (at, &b) in bytes[..self.len.min(bytes.len())].iter().enumerate() {
            // SAFETY: as above.
            unsafe { self.memory.add(at).write_volatile(b) };
        }
    }

    pub fn start(&self) -> *mut u8 {
        self.memory
    }
}

/// Scattered and gathered, as many blocks as the provider takes, short and long.
pub fn iov<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 1 << 20;
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "iov", LEN)?;
    // More of them would not fit in the memory.
    let most = p.net.caps().iov_limit.min(16);
    if most <= 1 {
        println!("no iov operations here");
        return p.meet();
    }
    let mut token = 0;
    for count in 1..=most {
        for long in [false, true] {
            let seed = (count * 2 + usize::from(long)) as u64;
            let len = |i: usize| match long {
                true => 30_000 + i * 1001,
                false => 1 + i * 13,
            };
            // Local pieces apart by 64, remote ones by 3, in reverse order.
            let mut list = Vec::new();
            let mut local = bytes(seed, LEN);
            let mut expected = vec![0; LEN];
            let (mut at, mut to) = (0, LEN);
            for i in 0..count {
                to -= len(i) + 3;
                let buf = local[at..].as_mut_ptr();
                list.push(Iov { buf, len: len(i), addr: x.addr + to as u64 });
                expected[to..to + len(i)].copy_from_slice(&local[at..at + len(i)]);
                at += len(i) + 64;
            }
            x.write(&vec![0; LEN]);
            p.meet()?;
            token += 1;
            let op = IovTransfer { list: &list, dest: p.dest, key: x.key, token };
            // SAFETY: the buffers stay until the token came back.
            let rc = p.issue("write_iov", || unsafe { p.net.write_iov(&p.endpoint, op) })?;
            ensure!(rc == 0 || rc == PENDING, "{rc}");
            p.wait("write_iov", token)?;
            p.flush()?;
            p.meet()?;
            ensure!(x.read() == expected, "{count} blocks, long {long}: memory differs");
            // And back, to where they came from.
            let mut back = vec![0xcc; LEN];
            let shift = |b: &Iov| {
                let at = b.buf.addr() - local.as_ptr().addr();
                Iov { buf: back[at..].as_mut_ptr(), ..*b }
            };
            let mut shift = shift;
            let again: Vec<Iov> = list.iter().map(&mut shift).collect();
            token += 1;
            let op = IovTransfer { list: &again, dest: p.dest, key: x.key, token };
            // SAFETY: as above.
            let rc = p.issue("read_iov", || unsafe { p.net.read_iov(&p.endpoint, op) })?;
            ensure!(rc != UNSUPPORTED, "iov is written but not read");
            p.wait("read_iov", token)?;
            let mut at = 0;
            for i in 0..count {
                ensure!(back[at..at + len(i)] == local[at..at + len(i)], "block {i} differs");
                ensure!(back[at + len(i)..at + len(i) + 64] == [0xcc; 64], "behind block {i}");
                at += len(i) + 64;
            }
            p.meet()?;
        }
    }
    Ok(())
}

/// A key that nobody has: nothing is written. The write ends with an error
/// where the provider tells; shm of 1.17 lets go of it at the target, and its
/// end never comes. Keys that are handles cannot be wrong; garbage makes none.
pub fn wrong_key<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "wrong", 4096)?;
    if N::KEY_HANDLES {
        for seed in 0..100 {
            let garbage = bytes(seed, seed as usize % 70);
            // SAFETY: the address is the peer's.
            let made = unsafe { p.net.rkey_unpack(&p.endpoint, p.dest, &garbage) };
            ensure!(matches!(made, Err(NetError::Address { .. })), "a key of garbage: {made:?}");
        }
        return p.meet();
    }
    // It may be read until the very end.
    let data: &[u8] = Box::leak(vec![0x66; 3000].into());
    let (addr, key) = (x.addr, x.key ^ 0x00ff_0000);
    let (buf, len, token) = (data.as_ptr(), data.len(), 1);
    if p.rank == 0 {
        let op = || Transfer { buf, len, dest: p.dest, addr, key, token };
        let mut answer = None;
        let mut rc = AGAIN;
        let start = Instant::now();
        while answer.is_none() && start.elapsed() < Duration::from_millis(1500) {
            if rc == AGAIN {
                // SAFETY: [BUF]: the data stays; [KEY]: any will do; the address is the peer's.
                rc = unsafe { p.net.write(&p.endpoint, op()) };
            }
            if rc < 0 && rc != AGAIN {
                answer = Some(Err(p.net.explain("write", rc)));
            }
            // Errors without a token may come out here, too.
            let _ = p.poll();
            answer = answer.or_else(|| p.done.borrow_mut().remove(&token));
        }
        // shm of 1.17 says nothing, that of 2.5 that all went well.
        let tells = p.net.caps().provider != "shm";
        println!("answer: {answer:?}");
        ensure!(!tells || matches!(answer, Some(Err(_))), "a wrong key: {answer:?}");
    }
    p.boot.fence(&mut || drop(p.poll())).map_err(text)?;
    ensure!(x.read() == vec![0; 4096], "something was written");
    p.boot.fence(&mut || drop(p.poll())).map_err(text)
}

/// A target's poll tells that it has carried out a put, which nothing else does.
pub fn served<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "served", 8)?;
    let data = bytes(5, 8);
    if p.rank == 1 {
        p.until("a put", || (x.read() == data).then_some(()))?;
    } else {
        let handle = N::inject_handle(&p.endpoint);
        // SAFETY: the peer's memory holds them; copied within the call.
        p.issue("inject", || unsafe {
            N::inject(handle, data.as_ptr(), data.len(), p.dest, x.addr, x.key)
        })?;
    }
    p.meet()?;
    ensure!(p.served.get() == p.rank as usize, "{} polls carried out puts", p.served.get());
    Ok(())
}

/// Long puts and gets of a target that polls all the time or now and then, with answers in
/// the ring that nobody has looked at; and one beyond the target's memory.
pub fn long<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 5 << 20;
    const PUT: u64 = 1 << 40;
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "long", LEN)?;
    let mut token = 0;
    let mut read = |at: u64, buf: &mut [u8]| -> Result<u64> {
        token += 1;
        let (buf, len, addr) = (buf.as_mut_ptr(), buf.len(), x.addr + at);
        let op = Transfer { buf, len, dest: p.dest, addr, key: x.key, token };
        // SAFETY: callers keep the buffers until their tokens come back.
        p.issue("read", || unsafe { p.net.read(&p.endpoint, op) }).map(|_| token)
    };
    let pauses = [0, 30, 1000].map(Duration::from_micros);
    for len in [16 << 10, 65_521, 1 << 20, LEN - 3] {
        for pause in pauses {
            if p.rank == 1 {
                let mut failed = Ok(());
                let mut poll = || {
                    failed = std::mem::replace(&mut failed, Ok(())).and_then(|()| p.poll());
                    let begun = Instant::now();
                    while begun.elapsed() < pause {
                        std::hint::spin_loop();
                    }
                };
                p.boot.fence(&mut poll).map_err(text)?;
                failed?;
                continue;
            }
            let (data, mut back) = (bytes(len as u64, len), vec![0; len]);
            let (mut before, mut between) = ([0; 8], [0; 8]);
            let first = read(0, &mut before)?;
            let (buf, addr) = (data.as_ptr(), x.addr + 3);
            let op = Transfer { buf, len, dest: p.dest, addr, key: x.key, token: PUT };
            // SAFETY: the buffer stays until the token comes back.
            p.issue("write", || unsafe { p.net.write(&p.endpoint, op) })?;
            p.wait("write", PUT)?;
            p.flush()?;
            let second = read(3, &mut between)?;
            let last = read(3, &mut back)?;
            for token in [last, second, first] {
                p.wait("read", token)?;
            }
            ensure!(between == data[..8] && back == data, "{len} bytes differ");
            p.boot.fence(&mut || drop(p.poll())).map_err(text)?;
        }
    }
    if p.rank == 0 {
        let mut back = vec![0; LEN];
        let (buf, addr, token) = (back.as_mut_ptr(), x.addr + 1, PUT);
        let op = Transfer { buf, len: LEN, dest: p.dest, addr, key: x.key, token };
        // SAFETY: it is refused at once.
        let rc = unsafe { p.net.read(&p.endpoint, op) };
        ensure!(rc < 0 && rc != AGAIN, "a byte that is not there: {rc}");
    }
    p.meet()
}

/// A target that never polls: puts, gets and flushes of another do not wait for it, more of
/// them than a ring holds.
pub fn absent_target<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 1 << 20;
    let p = Pair::<N>::open(boot)?;
    let x = Exposed::open(&p, "absent", LEN)?;
    let data = bytes(3, LEN);
    // The ends of what is put, one after the other; then the whole.
    let ends: Vec<usize> = (0..)
        .scan(0, |at, i| {
            *at += [8, 1, 300, 8, 8, 4096, 17][i % 7];
            (*at < LEN - 1).then_some(*at)
        })
        .collect();
    let last = ends.last().copied().unwrap_or(0);
    if p.rank == 1 {
        let start = Instant::now();
        // SAFETY: within the memory.
        while unsafe { x.start().add(LEN - 1).read_volatile() } != 0xaa {
            ensure!(start.elapsed() < Duration::from_secs(20), "nothing came");
            std::hint::spin_loop();
        }
        ensure!(x.read()[..last] == data[..last], "what came differs");
    } else {
        let put = |at: usize, bytes: &[u8]| -> Result {
            let handle = N::inject_handle(&p.endpoint);
            let (buf, len, addr) = (bytes.as_ptr(), bytes.len(), x.addr + at as u64);
            // SAFETY: the peer's memory holds them; copied within the call.
            p.issue("inject", || unsafe { N::inject(handle, buf, len, p.dest, addr, x.key) })?;
            Ok(())
        };
        let (mut from, mut token) = (0, 0);
        for &end in &ends {
            put(from, &data[from..end])?;
            from = end;
            if end % 11 == 0 {
                p.flush()?;
                let mut back = vec![0; end.min(5000)];
                let addr = x.addr + (end - back.len()) as u64;
                let (buf, len) = (back.as_mut_ptr(), back.len());
                token += 1;
                let op = Transfer { buf, len, dest: p.dest, addr, key: x.key, token };
                // SAFETY: the buffer stays until the token came back.
                p.issue("read", || unsafe { p.net.read(&p.endpoint, op) })?;
                p.wait("read", token)?;
                ensure!(back == data[end - back.len()..end], "read before {end}");
            }
        }
        p.flush()?;
        put(LEN - 1, &[0xaa])?;
        p.flush()?;
    }
    p.meet()
}
