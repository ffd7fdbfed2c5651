//! What is under way on windows when a rank dies.

use super::pair;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, pattern, same, text};
use rankway::datatype::{Basic, Layout};
use rankway::netmod::Op;
use rankway::rma::{Assert, Error, Lock, Window};
use std::sync::atomic::Ordering::SeqCst;

/// What one lap of a row does towards one rank.
type Lap<N> = fn(&Run<'_, N>, &Window<N>, u32) -> Result;

/// Laps within lock_all, until the death is heard of.
pub fn passive<N: Opens>(run: &Run<'_, N>, lap: Lap<N>) -> Result {
    let w = base(run)?;
    w.lock_all().map_err(|e| format!("name: lock_all: {e}"))?;
    run.go(30)?;
    while run.t.going()? {
        for to in run.others() {
            lap(run, &w, to)?;
        }
    }
    pair::on_window(run, &w)?;
    run.t.hear("unlock_all", w.unlock_all())?;
    pair::anew(run)
}

/// A window of all three, with the bytes that gets read written.
pub fn base<N: Opens>(run: &Run<'_, N>) -> Result<Held<N>> {
    let kind = run.t.common(1, 4);
    let w = make(&run.world, kind, BYTES).map_err(|e| format!("name: before: {e}"))?;
    w.write_local(READ, &readable(run.t.me)).map_err(|e| format!("name: before: {e}"))?;
    run.world.barrier().map_err(|e| format!("name: before: {e}"))?;
    Ok(w)
}

pub fn ledger<N: Opens>(run: &Run<'_, N>, to: u32) -> &'static Ledger {
    &board().puts[run.t.me as usize][to as usize]
}

/// Windows of each two ranks: that of the survivors goes on, and is freed.
pub fn pairs<N: Opens>(run: &Run<'_, N>) -> Result {
    let (t, w) = (run.t, base(run)?);
    let mut windows = Vec::new();
    for pair in [[0, 1], [1, 2], [2, 0]] {
        let group = run.world.group().incl(&pair).map_err(text)?;
        let both = run.world.create_group(&group).map_err(|e| format!("name: before: {e}"))?;
        let Some(both) = both else { continue };
        let window = make(&both, t.common(4, 3), BYTES);
        let window = window.map_err(|e| format!("name: before: {e}"))?;
        window.write_local(READ, &readable(t.me)).map_err(|e| format!("name: before: {e}"))?;
        window.lock_all().map_err(|e| format!("name: before: {e}"))?;
        windows.push((pair[0] + pair[1] - t.me, 1 - both.rank(), window, 0_u64));
    }
    run.world.barrier().map_err(|e| format!("name: before: {e}"))?;
    run.go(30)?;
    let lap = |(of, to, window, number): &mut (u32, u32, Held<N>, u64)| -> Result {
        *number += 1;
        let word = number.to_le_bytes();
        let put = t.reading("put", word.to_vec(), |b| window.put(b, *to, PAIR))?;
        let flush = t.hear("flush", window.flush(*to))?;
        let got = t.filling("get", 8, |b| window.get(b, *to, PAIR))?;
        if let (Some(got), Some(_)) = (got, put.and(flush)) {
            same("data: in a window of two", &got, &word)?;
        }
        let got = t.filling("get", LONG_LEN, |b| window.get(b, *to, READ))?;
        got.map_or(Ok(()), |got| same("data: got in a window of two", &got, &readable(*of)))
    };
    while t.going()? {
        windows.iter_mut().try_for_each(lap)?;
    }
    for mut window in windows {
        if window.0 == t.other {
            // Deaths are told of once: the third of these is not about one any more.
            (0..3).try_for_each(|_| lap(&mut window))?;
            let mut w = window.2;
            w.unlock_all().map_err(|e| format!("pair: unlock_all of the two: {e}"))?;
            w.free().map_err(|e| format!("pair: free of the two: {e}"))?;
        } else {
            t.hear("unlock_all", window.2.unlock_all())?;
        }
    }
    pair::with_locks(run, &w)
}

/// A put of the next number into the slot of its turn, not flushed.
fn short<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result<Option<u64>> {
    let number = ledger(run, to).begin();
    let at = share(run.t.me) + (number % SLOTS) as usize * 8;
    let put = run.t.reading("put", number.to_le_bytes().to_vec(), |b| w.put(b, to, at))?;
    Ok(put.map(|()| number))
}

fn flushed<N: Opens>(
    run: &Run<'_, N>,
    to: u32,
    upto: u64,
    flush: std::result::Result<(), Error>,
) -> Result {
    if run.t.hear("flush", flush)?.is_some() {
        ledger(run, to).done.fetch_max(upto, SeqCst);
    }
    Ok(())
}

pub fn put<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let mut last = None;
    for _ in 0..1 + run.t.random(20) {
        match short(run, w, to)? {
            Some(number) => last = Some(number),
            // Those before it may be lost with it.
            None => return Ok(()),
        }
    }
    last.map_or(Ok(()), |last| flushed(run, to, last, w.flush(to)))
}

pub fn long_put<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let at = share(run.t.me) + LONG;
    let put = run.t.reading("long put", pattern(3, LONG_LEN), |b| w.put(b, to, at))?;
    let flush = run.t.hear("flush", w.flush(to))?;
    // Got back, it is what was put: nothing else is ever put there.
    if put.and(flush).is_some() {
        let got = run.t.filling("get", LONG_LEN, |b| w.get(b, to, at))?;
        got.map_or(Ok(()), |got| same("data: a long put", &got, &pattern(3, LONG_LEN)))?;
    }
    Ok(())
}

/// Puts and gets whose buffers belong to them until the flush.
pub fn stream<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    const MANY: usize = 16;
    const PIECE: usize = LONG_LEN / MANY;
    let (at, out) = (share(run.t.me) + LONG, pattern(3, LONG_LEN));
    let mut got = vec![0; LONG_LEN].into_boxed_slice();
    let mut all = Ok(());
    for i in 0..MANY {
        // SAFETY: both buffers live until the flush, and where it fails, on.
        let done = unsafe {
            let put = w.put_nb(out[i * PIECE..].as_ptr(), PIECE, to, at + i * PIECE);
            let into = got[i * PIECE..].as_mut_ptr();
            put.and_then(|()| w.get_nb(into, PIECE, to, READ + i * PIECE))
        };
        all = all.and(done);
    }
    all = all.and(w.flush(to));
    if all.is_ok() {
        return same("data: a stream of gets", &got, &readable(to));
    }
    // Operations without a flush that went well keep their buffers: the library
    // may not have heard of their end, and said so.
    std::mem::forget((out, got));
    run.t.hear("stream", all).map(drop)
}

pub fn get<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let len = [8, 200, LONG_LEN][run.t.random(3) as usize];
    let got = run.t.filling("get", len, |b| w.get(b, to, READ))?;
    got.map_or(Ok(()), |got| same("data: got", &got, &readable(to)[..len]))?;
    // The memory of a process of this node can be read after its death.
    run.t.hear("flush", w.flush(to)).map(drop)
}

pub fn layouts<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let byte = Layout::basic(Basic::U8);
    let every = Layout::hvector(100, 60, 130, &byte).map_err(text)?;
    let dense = Layout::contiguous(6000, &byte).map_err(text)?;
    let at = share(run.t.me) + LONG;
    let out = pattern(3, LONG_LEN);
    run.t.reading("put_layout", out, |b| w.put_layout(b, 0, &every, to, at, &every))?;
    let get = |b: &mut [u8]| w.get_layout(b, 0, &dense, to, READ, &every);
    let got = run.t.filling("get_layout", 6000, get)?;
    got.map_or(Ok(()), |got| same("data: layouts", &got, &every_second(&readable(to))))?;
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// The first 60 of each 130 bytes, 100 times.
pub fn every_second(all: &[u8]) -> Vec<u8> {
    all.chunks(130).take(100).flat_map(|c| &c[..60]).copied().collect()
}

pub fn accumulate<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let sums = &board().sums[run.t.me as usize][to as usize];
    let at = share(run.t.me) + SUM;
    let mut last = 0;
    for _ in 0..1 + run.t.random(8) {
        last = sums.begin();
        let done = w.accumulate(&[1_u64], Op::Sum, to, at);
        if run.t.hear("accumulate", done)?.is_none() {
            return Ok(());
        }
    }
    // Those that failed before may have been done or not.
    let failed = last - sums.read().0;
    if run.t.hear("flush", w.flush(to))?.is_some() && failed <= 8 {
        check_sum(run, w, to)?;
    }
    Ok(())
}

/// Reads the sum back: it is one of those that can be, and known from now on.
pub fn check_sum<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let sums = &board().sums[run.t.me as usize][to as usize];
    let at = share(run.t.me) + SUM;
    let Some(now) = run.t.hear("fetch", w.fetch_and_op(0_u64, Op::NoOp, to, at))? else {
        return Ok(());
    };
    let (done, begun) = sums.read();
    ensure!((done..=begun).contains(&now), "data: a sum of {now}, not of {done} to {begun}");
    sums.done.store(now, SeqCst);
    sums.begun.store(now, SeqCst);
    Ok(())
}

pub fn fetch<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let sums = &board().sums[run.t.me as usize][to as usize];
    let at = share(run.t.me) + SUM;
    let (done, before) = sums.read();
    sums.begin();
    let old = run.t.hear("fetch_and_op", w.fetch_and_op(1_u64, Op::Sum, to, at))?;
    if let Some(old) = old {
        ensure!((done..=before).contains(&old), "data: fetched {old}, not {done} to {before}");
        sums.done.store(old + 1, SeqCst);
        sums.begun.store(old + 1, SeqCst);
    }
    run.t.hear("flush", w.flush(to)).map(drop)
}

pub fn swap<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let sums = &board().sums[run.t.me as usize][to as usize];
    let at = share(run.t.me) + SUM;
    let (done, before) = sums.read();
    sums.begin();
    let swapped = w.compare_and_swap(done, done + 1, to, at);
    if let Some(old) = run.t.hear("compare_and_swap", swapped)? {
        ensure!((done..=before).contains(&old), "data: swapped {old}, not {done} to {before}");
        let now = if old == done { done + 1 } else { old };
        sums.done.store(now, SeqCst);
        sums.begun.store(now, SeqCst);
    }
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// Puts to both, and a flush of all.
pub fn flush<N: Opens>(run: &Run<'_, N>, w: &Window<N>, _: u32) -> Result {
    let mut last = [None; 2];
    let others = run.others();
    for _ in 0..8 {
        for (to, last) in others.iter().zip(&mut last) {
            *last = short(run, w, *to)?;
        }
    }
    if run.t.random(2) == 0 && run.t.hear("flush_local_all", w.flush_local_all())?.is_none() {
        return Ok(());
    }
    let flush = run.t.hear("flush_all", w.flush_all())?;
    for (to, last) in others.iter().zip(last) {
        if let (Some(last), Some(())) = (last, flush) {
            ledger(run, *to).done.fetch_max(last, SeqCst);
        }
    }
    Ok(())
}

/// Locks of one rank after another, and under an exclusive one a sum that two
/// at a time would get wrong.
pub fn lock<N: Opens>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    run.go(30)?;
    while run.t.going()? {
        for to in run.others() {
            let exclusive = run.t.random(2) == 0;
            let kind = if exclusive { Lock::Exclusive } else { Lock::Shared };
            if run.t.hear("lock", w.lock(kind, to, Assert::NONE))?.is_none() {
                continue;
            }
            if exclusive {
                counted(run, &w, to)?;
            } else if let Some(last) = short(run, &w, to)? {
                flushed(run, to, last, w.flush(to))?;
            }
            run.t.hear("unlock", w.unlock(to))?;
        }
    }
    pair::with_locks(run, &w)
}

/// Get, add one, put.
fn counted<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let sums = &board().locked[run.t.me as usize][to as usize];
    let got = run.t.filling("get", 8, |b| w.get(b, to, LOCKED))?;
    let Some(got) = got else { return Ok(()) };
    let old = u64::from_le_bytes(got[..].try_into().map_err(|_| "8 bytes")?);
    sums.begin();
    let more = (old + 1).to_le_bytes().to_vec();
    let put = run.t.reading("put", more, |b| w.put(b, to, LOCKED))?;
    if put.and(run.t.hear("flush", w.flush(to))?).is_some() {
        sums.done.fetch_add(1, SeqCst);
    }
    Ok(())
}

pub fn lock_all<N: Opens>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    run.go(30)?;
    while run.t.going()? {
        if run.t.hear("lock_all", w.lock_all())?.is_none() {
            continue;
        }
        let mut last = [None; 2];
        let others = run.others();
        for (to, last) in others.iter().zip(&mut last) {
            *last = short(run, &w, *to)?;
        }
        if run.t.hear("unlock_all", w.unlock_all())?.is_some() {
            for (to, last) in others.iter().zip(last) {
                ledger(run, *to).done.fetch_max(last.unwrap_or(0), SeqCst);
            }
        }
    }
    pair::with_locks(run, &w)
}

pub fn fence<N: Opens>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    w.fence().map_err(|e| format!("name: before: {e}"))?;
    run.go(30)?;
    while run.t.going()? {
        let mut last = [None; 2];
        let others = run.others();
        for (to, last) in others.iter().zip(&mut last) {
            *last = short(run, &w, *to)?;
        }
        if run.t.hear("fence", w.fence())?.is_some() {
            for (to, last) in others.iter().zip(last) {
                ledger(run, *to).done.fetch_max(last.unwrap_or(0), SeqCst);
            }
        }
    }
    // The epoch that the failed fence was to end is still open.
    pair::on_window(run, &w)?;
    pair::anew(run)
}

pub fn pscw<N: Opens>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    run.go(30)?;
    while run.t.going()? {
        let others = run.others();
        let posted = run.t.hear("post", w.post(&others, Assert::NONE))?;
        if run.t.hear("start", w.start(&others, Assert::NONE))?.is_some() {
            let mut last = [None; 2];
            for (to, last) in others.iter().zip(&mut last) {
                *last = short(run, &w, *to)?;
            }
            if run.t.hear("complete", w.complete())?.is_some() {
                for (to, last) in others.iter().zip(last) {
                    ledger(run, *to).done.fetch_max(last.unwrap_or(0), SeqCst);
                }
            }
        }
        if posted.is_some() {
            run.t.hear("wait", w.wait())?;
        }
    }
    pair::with_locks(run, &w)
}

/// Windows made, used and freed.
pub fn made<N: Opens, const KIND: u8>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    run.go(40)?;
    while run.t.going()? {
        let turn = make_and_free::<N, KIND>(run);
        if let Some(wrong) = run.t.hear("a window", turn)?.flatten() {
            return Err(wrong);
        }
    }
    pair::with_locks(run, &w)
}

pub const ALLOCATED: u8 = 0;
pub const CREATED: u8 = 2;
pub const SHARED: u8 = 3;
pub const DYNAMIC: u8 = 4;

/// One window's life: what was wrong in it.
fn make_and_free<N: Opens, const KIND: u8>(
    run: &Run<'_, N>,
) -> std::result::Result<Option<String>, Error> {
    let me = run.t.me;
    let to = (me + 1) % 3;
    if KIND == DYNAMIC {
        let mut memory = vec![0_u64; 64].into_boxed_slice();
        let start = memory.as_mut_ptr().cast::<u8>();
        let mut w = Window::dynamic(&run.world)?;
        // SAFETY: kept longer than the window, and for ever where that fails.
        let at = unsafe { w.attach(start, 512)? };
        let turn = (|| {
            let places = run.world.allgather(&at.to_le_bytes())?;
            let at = places[to as usize].as_slice().try_into().map_or(0, usize::from_le_bytes);
            w.fence()?;
            w.put(&[7; 8], to, at)?;
            w.fence()
        })();
        let freed = turn.and_then(|()| w.free());
        if freed.is_err() {
            std::mem::forget(memory);
            return freed.map(|()| None);
        }
        return Ok((memory[0] != 0x0707_0707_0707_0707).then(|| "data: attached".into()));
    }
    let mut w = if KIND == SHARED {
        Held::from(Window::shared(&run.world, 512, 1)?)
    } else {
        make(&run.world, KIND.into(), 512)?
    };
    (|| {
        w.fence()?;
        w.put(&[7; 8], to, 8)?;
        w.fence()?;
        let mut got = [0; 8];
        w.read_local(8, &mut got)?;
        w.free()?;
        Ok((got != [7; 8]).then(|| "data: in a new window".into()))
    })()
}
