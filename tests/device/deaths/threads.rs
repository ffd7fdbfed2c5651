//! Contexts of threads at work when a rank dies.

use super::onesided::{self, base};
use super::pair;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, pattern, same, text};
use rankway::netmod::Op;
use rankway::rma::Access;

const THREADS: u32 = 2;
const PART: usize = LONG_LEN / THREADS as usize;

/// Puts, gets and sums of two threads, each by a context of its own, while the first
/// context makes progress. Those who leave end at the death, with something under way
/// towards the living, and take their contexts with them.
pub fn contexts<N: Opens, const LEAVE: bool>(run: &Run<'_, N>) -> Result {
    let w = base(run)?;
    let state = w.state().map_err(text)?;
    let (device, map) = (run.context.device(), run.world.map());
    let trials: Vec<Trial> = (0..THREADS).map(|thread| run.t.of_thread(thread)).collect();
    run.world.barrier().map_err(|e| format!("name: before: {e}"))?;
    run.go(if LEAVE { 300 } else { 40 })?;
    let work = |t: &Trial, thread: u32| -> Result {
        let context = device.context().map_err(|e| format!("name: a context: {e}"))?;
        let access = Access::open(&state, &context, map);
        let access = access.map_err(|e| format!("name: an access: {e}"))?;
        if t.hear("lock_all", access.lock_all())?.is_none() {
            return Ok(());
        }
        let mut sums = [(0, 0); RANKS];
        while t.going()? {
            for to in t.others() {
                if LEAVE {
                    loose_lap(t, &access, to, thread)?;
                } else {
                    lap(t, &access, to, thread, &mut sums[to as usize])?;
                }
            }
        }
        if LEAVE {
            return Ok(());
        }
        // The living still answers, sooner or later.
        let mut got = vec![0; LONG_LEN];
        pair::again(t, "get of a thread", || access.get(&mut got, t.other, READ))?;
        same("data: got by a thread", &got, &readable(t.other))?;
        t.hear("unlock_all", access.unlock_all())?;
        t.unwritten(&mut || drop(context.progress()))
    };
    std::thread::scope(|scope| -> Result {
        let work = &work;
        let begin = |(thread, t): (u32, Trial)| scope.spawn(move || work(&t, thread));
        let threads: Vec<_> = (0..THREADS).zip(trials).map(begin).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            run.idle();
            std::thread::yield_now();
        }
        let mut all = threads.into_iter().map(|t| t.join().map_err(|_| "crash: a thread")?);
        all.try_for_each(|ended| ended)
    })?;
    while run.t.going()? {
        if run.t.hear("lock_all", w.lock_all())?.is_some() {
            run.others().into_iter().try_for_each(|to| onesided::get(run, &w, to))?;
            run.t.hear("unlock_all", w.unlock_all())?;
        }
    }
    if LEAVE { pair::anew(run) } else { pair::with_locks(run, &w) }
}

/// What one thread does towards one rank; `sum`: what its number there is, at least
/// and at most.
fn lap<N: Opens>(t: &Trial, w: &Access<N>, to: u32, thread: u32, sum: &mut (u64, u64)) -> Result {
    let at = share(t.me) + LONG + thread as usize * PART;
    let mine = pattern(3, LONG_LEN)[thread as usize * PART..][..PART].to_vec();
    let put = t.reading("put", mine.clone(), |b| w.put(b, to, at))?;
    if put.and(t.hear("flush", w.flush(to))?).is_some() {
        let got = t.filling("get", PART, |b| w.get(b, to, at))?;
        got.map_or(Ok(()), |got| same("data: put by a thread", &got, &mine))?;
    }
    let got = t.filling("get", LONG_LEN, |b| w.get(b, to, READ))?;
    got.map_or(Ok(()), |got| same("data: got by a thread", &got, &readable(to)))?;
    let before = *sum;
    sum.1 += 1;
    let number = share(t.me) + NUMBERS + 8 * thread as usize;
    if let Some(old) = t.hear("fetch_and_op", w.fetch_and_op(1_u64, Op::Sum, to, number))? {
        let (least, most) = before;
        ensure!((least..=most).contains(&old), "data: fetched {old}, not {least} to {most}");
        *sum = (old + 1, old + 1);
    }
    Ok(())
}

/// The same of one that waits for little.
fn loose_lap<N: Opens>(t: &Trial, w: &Access<N>, to: u32, thread: u32) -> Result {
    let at = share(t.me) + LONG + thread as usize * PART;
    t.reading("put", vec![3; 1000], |b| w.put(b, to, at))?;
    let number = share(t.me) + NUMBERS + 8 * thread as usize;
    t.hear("accumulate", w.accumulate(&[1_u64], Op::Sum, to, number))?;
    t.hear("flush", w.flush(to))?;
    let bytes: &'static mut [u8; 1000] = Box::leak(Box::new([3; 1000]));
    // SAFETY: the bytes stay.
    let got = unsafe { w.rget(bytes.as_mut_ptr(), 1000, to, READ) };
    t.hear("rget", got)?;
    t.hear("flush_local", w.flush_local(to))?;
    // SAFETY: as above.
    let put = unsafe { w.rput(bytes.as_ptr(), 8, to, at + 1000) };
    t.hear("rput", put)?;
    t.hear("fetch_and_op", w.fetch_and_op(0_u64, Op::NoOp, to, number)).map(drop)
}
