//! Elements that are changed and fetched, by calls and by requests, when a rank
//! dies. Each source has numbers of its own in every member's memory, of which one
//! operation changes all.

use super::onesided::{every_second, ledger};
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, add, pattern, same, text};
use rankway::datatype::{Basic, Layout};
use rankway::device::Context;
use rankway::netmod::{Op, Type};
use rankway::rma::{Error, Pending, Window, register_operator};
use std::sync::atomic::Ordering::SeqCst;

/// How many numbers an operation of this trial changes: one, as many as fit into a
/// packet, more.
pub fn tallied(t: &Trial) -> usize {
    [1, 60, TALLIES][t.common(2, 3) as usize]
}

fn tallies<N: Opens>(run: &Run<'_, N>, to: u32) -> &'static Ledger {
    &board().tallies[run.t.me as usize][to as usize]
}

/// One to each number: those that were there, where they could be fetched.
fn add_one<N: Opens>(
    run: &Run<'_, N>,
    what: &'static str,
    to: u32,
    fetches: bool,
    call: impl FnOnce(&[u8], &mut [u8]) -> std::result::Result<(), Error>,
) -> Result {
    let count = tallied(run.t);
    let ledger = tallies(run, to);
    let (done, before) = ledger.read();
    ledger.begin();
    let ones = 1_u64.to_ne_bytes().repeat(count);
    let call = |b: &mut [u8]| {
        let call = call(&ones, b);
        if call.is_err() {
            std::mem::forget(ones);
        }
        call
    };
    let Some(old) = run.t.filling(what, 8 * count, call)? else { return Ok(()) };
    if fetches {
        let old = old.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default()));
        let (least, most) = old.fold((u64::MAX, 0), |(l, m), n| (l.min(n), m.max(n)));
        let wrong = format!("data: {what}: fetched {least} to {most}, not {done} to {before}");
        ensure!(done <= least && most <= before, "{wrong}");
        ledger.done.store(least + 1, SeqCst);
        ledger.begun.store(most + 1, SeqCst);
    }
    Ok(())
}

pub fn get_accumulate<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let at = share(run.t.me) + TALLY;
    let call = |ones: &[u8], old: &mut [u8]| {
        let count = old.len() / 8;
        // SAFETY: flushed below; where that fails, `old` is kept by `filling`.
        unsafe {
            let (ones, old) = (ones.as_ptr(), old.as_mut_ptr());
            w.get_accumulate_raw(ones, old, count, Type::U64, Op::Sum, to, at)?;
        }
        w.flush(to)
    };
    let safe = |_: &[u8], old: &mut [u8]| {
        let mut words = vec![0_u64; old.len() / 8];
        let ones = vec![1_u64; words.len()];
        w.get_accumulate(&ones, &mut words, Op::Sum, to, at)?;
        old.chunks_exact_mut(8).zip(words).for_each(|(b, n)| b.copy_from_slice(&n.to_ne_bytes()));
        Ok(())
    };
    match run.t.random(2) {
        0 => add_one(run, "get_accumulate", to, true, call),
        _ => add_one(run, "get_accumulate", to, true, safe),
    }?;
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// The same with layouts: the numbers from the last to the first.
pub fn layouts<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let count = tallied(run.t);
    let word = Layout::basic(Basic::U64);
    let dense = Layout::contiguous(count as u64, &word).map_err(text)?;
    let backwards = Layout::hvector(count as u64, 1, -8, &word).map_err(text)?;
    let at = share(run.t.me) + TALLY + 8 * (count - 1);
    if run.t.random(2) == 0 {
        return add_one(run, "accumulate_layout", to, false, |ones, _| {
            w.accumulate_layout(ones, 0, &dense, Op::Sum, to, at, &backwards)?;
            w.flush(to)
        });
    }
    add_one(run, "get_accumulate_layout", to, true, |ones, old| {
        let (ones, old) = (ones.as_ptr(), old.as_mut_ptr());
        // SAFETY: flushed; where that fails, both buffers are kept.
        unsafe {
            w.get_accumulate_layout(ones, &dense, old, &dense, Op::Sum, to, at, &backwards)?;
        }
        w.flush(to)
    })
}

pub fn register<N: Opens>(context: &Context<N>) {
    register_operator(context, add);
}

/// One addition of the program's own, which fetches what was there.
fn custom_by<N: Opens>(
    run: &Run<'_, N>,
    to: u32,
    call: impl FnOnce(&[u8], &mut [u8], usize) -> std::result::Result<(), Error>,
) -> Result {
    let sums = &board().sums[run.t.me as usize][to as usize];
    let (done, before) = sums.read();
    sums.begin();
    let call = |b: &mut [u8]| call(&1_u64.to_ne_bytes(), b, share(run.t.me) + SUM);
    if let Some(old) = run.t.filling("custom", 8, call)? {
        let old = u64::from_ne_bytes(old[..].try_into().map_err(|_| "8 bytes")?);
        ensure!((done..=before).contains(&old), "data: fetched {old}, not {done} to {before}");
        sums.done.store(old + 1, SeqCst);
        sums.begun.store(old + 1, SeqCst);
    }
    Ok(())
}

pub fn custom<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    custom_by(run, to, |one, old, at| w.custom(1, one, old, to, at, 8))?;
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// Waits for a request, or asks it until it is complete.
fn complete<N: Opens>(
    run: &Run<'_, N>,
    request: std::result::Result<Pending<'_, N>, Error>,
) -> std::result::Result<(), Error> {
    let mut request = request?;
    if run.t.random(2) == 0 {
        return request.wait();
    }
    while !request.test()? {
        std::thread::yield_now();
    }
    Ok(())
}

/// Changes by requests of their own, and an operation of the program's.
pub fn accumulate_requests<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let count = tallied(run.t);
    let word = Layout::basic(Basic::U64);
    let dense = Layout::contiguous(count as u64, &word).map_err(text)?;
    let backwards = Layout::hvector(count as u64, 1, -8, &word).map_err(text)?;
    let at = share(run.t.me) + TALLY;
    let last = at + 8 * (count - 1);
    let flushed = |request| complete(run, request).and_then(|()| w.flush(to));
    match run.t.random(4) {
        0 => add_one(run, "raccumulate", to, false, |_, _| {
            flushed(w.raccumulate(&vec![1_u64; count], Op::Sum, to, at))
        }),
        1 => add_one(run, "raccumulate_layout", to, false, |ones, _| {
            let ones = ones.as_ptr();
            // SAFETY: flushed; where that fails, the operands are kept.
            flushed(unsafe { w.raccumulate_layout(ones, &dense, Op::Sum, to, last, &backwards) })
        }),
        2 => add_one(run, "rget_accumulate_layout", to, true, |ones, old| {
            let (ones, old) = (ones.as_ptr(), old.as_mut_ptr());
            // SAFETY: flushed; where that fails, both buffers are kept.
            flushed(unsafe {
                w.rget_accumulate_layout(ones, &dense, old, &dense, Op::Sum, to, last, &backwards)
            })
        }),
        _ => custom_by(run, to, |one, old, at| {
            // SAFETY: flushed; where that fails, the result is kept.
            flushed(unsafe { w.rcustom(1, one, old.as_mut_ptr(), 8, to, at, 8) })
        }),
    }?;
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// Puts and gets of layouts by requests, completed in any order.
pub fn layout_requests<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let byte = Layout::basic(Basic::U8);
    let every = Layout::hvector(100, 60, 130, &byte).map_err(text)?;
    let dense = Layout::contiguous(6000, &byte).map_err(text)?;
    let (out, mut got) = (pattern(3, LONG_LEN), vec![0; 6000].into_boxed_slice());
    // SAFETY: the buffers live until both were completed, and where one fails, on.
    let all = unsafe {
        let (from, into) = (out.as_ptr(), got.as_mut_ptr());
        let mut all = [
            w.rput_layout(from, &every, to, share(run.t.me) + LONG, &every),
            w.rget_layout(into, &dense, to, READ, &every),
        ];
        all.rotate_left(run.t.random(2) as usize);
        // Both are waited for: the buffers are theirs until then.
        all.map(|request| complete(run, request))
            .into_iter()
            .collect::<std::result::Result<(), _>>()
    };
    if all.is_err() {
        std::mem::forget((out, got));
        return run.t.hear("requests of layouts", all).map(drop);
    }
    same("data: got by a request", &got, &every_second(&readable(to)))?;
    run.t.hear("flush", w.flush(to)).map(drop)
}

/// Puts, gets and changes with requests of their own, completed in any order.
pub fn requests<N: Opens>(run: &Run<'_, N>, w: &Window<N>, to: u32) -> Result {
    let base = share(run.t.me);
    let count = tallied(run.t);
    let len = [8, 600, LONG_LEN][run.t.random(3) as usize];
    let (out, ones) = (pattern(3, LONG_LEN), vec![1_u64; count]);
    let mut got = vec![0; len].into_boxed_slice();
    let mut old = vec![0_u64; count];
    let tallies = tallies(run, to);
    let (done, before) = tallies.read();
    tallies.begin();
    let number = ledger(run, to).begin();
    let (slot, short) = (base + (number % SLOTS) as usize * 8, number.to_le_bytes());
    // SAFETY: the buffers live until all were completed, and where one fails, on.
    let all = unsafe {
        let (ones, old) = (ones.as_ptr().cast(), old.as_mut_ptr().cast());
        let mut all = vec![
            w.rput(out.as_ptr(), len, to, base + LONG),
            w.rget(got.as_mut_ptr(), len, to, READ),
            w.rget_accumulate(ones, old, count, Type::U64, Op::Sum, to, base + TALLY),
            w.rput(short.as_ptr(), 8, to, slot),
        ];
        let turn = run.t.random(all.len() as u64) as usize;
        all.rotate_left(turn);
        // All are waited for: the buffers are theirs until then.
        let all: Vec<_> = all.into_iter().map(|request| complete(run, request)).collect();
        all.into_iter().collect::<std::result::Result<(), Error>>()
    };
    if all.is_err() {
        // A failed request does not give its buffers back.
        std::mem::forget((out, ones, got, old));
        std::mem::forget(Box::new(short));
        return run.t.hear("requests", all).map(drop);
    }
    same("data: got by a request", &got, &readable(to)[..len])?;
    let wrong = old.iter().find(|n| !(done..=before).contains(n));
    ensure!(wrong.is_none(), "data: fetched {wrong:?}, not {done} to {before}");
    tallies.done.store(old.iter().min().map_or(done, |n| n + 1), SeqCst);
    tallies.begun.store(old.iter().max().map_or(before, |n| n + 1), SeqCst);
    if run.t.hear("flush", w.flush(to))?.is_some() {
        ledger(run, to).done.fetch_max(number, SeqCst);
    }
    Ok(())
}
