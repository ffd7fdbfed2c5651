//! What the survivors do together afterwards, every byte checked.

use super::elements::tallied;
use super::onesided::check_sum;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, pattern, same};
use rankway::msg::Messenger;
use rankway::netmod::Op;
use rankway::rma::{Assert, Communicator, Error, Lock, Window};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// An operation with the living that names the dead was lost with what was
/// under way, and says so: it is repeated, a few times.
pub fn again<T>(
    t: &Trial,
    what: &str,
    mut call: impl FnMut() -> std::result::Result<T, Error>,
) -> Result<T> {
    let start = Instant::now();
    for turn in 1.. {
        match call() {
            Ok(value) => return Ok(value),
            Err(e) if e.peer() != Some(t.victim) && !is_held_back(&e) => {
                return Err(format!("name: {what}: {e}"));
            }
            Err(e) if turn > 3 || start.elapsed() > Duration::from_secs(10) => {
                return Err(format!("pair: {what}, {turn} times: {e}"));
            }
            Err(_) => {}
        }
    }
    unreachable!("an unbounded range")
}

/// On a window within an epoch that reaches the other: puts, gets, sums; then
/// messages, and what came from the other is compared.
pub fn on_window<N: Opens>(run: &Run<'_, N>, w: &Window<N>) -> Result {
    let (t, to) = (run.t, run.t.other);
    let at = share(t.me) + PAIR;
    let long = pattern(t.me + 40, 9000);
    again(t, "put and flush", || {
        for i in 0..100_u64 {
            w.put(&i.to_le_bytes(), to, at + 8 * i as usize)?;
        }
        w.put(&long, to, at + 0x1000)?;
        w.flush(to)
    })?;
    let mut got = vec![0; 9000];
    again(t, "get", || w.get(&mut got, to, at + 0x1000))?;
    same("data: got back", &got, &long)?;
    let mut read = vec![0; LONG_LEN];
    again(t, "get", || w.get(&mut read, to, READ))?;
    same("data: got from the living", &read, &readable(to))?;
    let sums = &board().sums[t.me as usize][to as usize];
    again(t, "accumulate", || {
        sums.begin();
        w.accumulate(&[1_u64], Op::Sum, to, share(t.me) + SUM)?;
        w.flush(to)
    })?;
    check_sum(run, w, to)?;
    again(t, "flush", || w.flush(to))?;
    exchange(run, &run.world, t.other)?;
    came(run, w)
}

/// What the other put here, before and after.
fn came<N: Opens>(run: &Run<'_, N>, w: &Window<N>) -> Result {
    let (me, other) = (run.t.me as usize, run.t.other);
    let mut all = vec![0; BYTES];
    w.read_local(0, &mut all).map_err(|e| format!("pair: read_local: {e}"))?;
    let base = share(other);
    let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().unwrap_or_default());
    for i in 0..100 {
        let got = word(base + PAIR + 8 * i);
        ensure!(got == i as u64, "data: word {i} of the other is {got:#x}");
    }
    same("data: of the other", &all[base + PAIR + 0x1000..][..9000], &pattern(other + 40, 9000))?;
    let (done, begun) = board().puts[other as usize][me].read();
    for slot in 0..SLOTS {
        let got = word(base + slot as usize * 8);
        // The latest that is known to be done and goes there.
        let least = (done + SLOTS - slot) / SLOTS * SLOTS + slot;
        let least = least.saturating_sub(SLOTS);
        let fits = got == 0 && least == 0 || got % SLOTS == slot && (least..=begun).contains(&got);
        ensure!(fits, "data: slot {slot} holds {got:#x}; {done} of {begun} puts are done");
    }
    let long = &all[base + LONG..][..LONG_LEN];
    let want = pattern(3, LONG_LEN);
    let wrong = long.iter().zip(&want).position(|(got, want)| *got != 0 && got != want);
    ensure!(wrong.is_none(), "data: byte {wrong:?} of long puts");
    let (done, begun) = board().sums[other as usize][me].read();
    let sum = word(base + SUM);
    ensure!((done..=begun).contains(&sum), "data: a sum of {sum}, not of {done} to {begun}");
    let (done, begun) = board().tallies[other as usize][me].read();
    let tallies = all[base + TALLY..][..8 * tallied(run.t)].chunks_exact(8);
    let mut tallies = tallies.map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default()));
    let wrong = tallies.find(|n| !(done..=begun).contains(n));
    ensure!(wrong.is_none(), "data: {wrong:?} beside others, not of {done} to {begun}");
    let locked = |f: fn(&Ledger) -> u64| board().locked.iter().map(|l| f(&l[me])).sum::<u64>();
    let (least, most) = (locked(|l| l.read().0), locked(|l| l.read().1));
    let count = word(LOCKED);
    ensure!((least..=most).contains(&count), "data: counted {count}, not {least} to {most}");
    same("data: what nobody writes", &all[READ..][..LONG_LEN], &readable(run.t.me))?;
    // Read before the other goes on.
    exchange(run, &run.world, other)
}

/// Messages of several lengths, both ways.
pub fn exchange<N: Opens>(run: &Run<'_, N>, world: &Communicator<N>, other: u32) -> Result {
    let failed = |what: &str, e: &dyn std::fmt::Display| format!("pair: {what}: {e}");
    let m = Messenger::open(world).map_err(|e| failed("messages", &e))?;
    let me = world.rank();
    const TAG: u32 = 1 << 30;
    for (i, len) in (0_u32..).zip([8, 3000, 90_000]) {
        let out = pattern(me + i * 7 + 60, len);
        // SAFETY: waited for below.
        let sent = unsafe { m.isend(out.as_ptr(), len, other, TAG + i) };
        let sent = sent.map_err(|e| failed("isend", &e))?;
        let mut got = vec![0; len];
        let received = m.recv(&mut got, other, TAG + i);
        if let Err(e) = received {
            std::mem::forget((out, got));
            return Err(failed("recv", &e));
        }
        same("data: a message of the living", &got, &pattern(other + i * 7 + 60, len))?;
        sent.wait().map_err(|e| failed("wait", &e))?;
    }
    let _ = run;
    Ok(())
}

/// The same on a window whose epochs are closed, under a lock; then on a new
/// communicator of the two.
pub fn with_locks<N: Opens>(run: &Run<'_, N>, w: &Window<N>) -> Result {
    let (t, to) = (run.t, run.t.other);
    // The dead may have held the lock, which is then refused for good.
    if t.hear("pair's lock", w.lock(Lock::Shared, to, Assert::NONE))?.is_none() {
        let unchecked = w.lock(Lock::Shared, to, Assert::NOCHECK);
        unchecked.map_err(|e| format!("pair: lock without a check: {e}"))?;
    }
    on_window(run, w)?;
    again(t, "unlock", || w.unlock(to))?;
    anew(run)
}

/// The same on a new communicator and windows of its own.
pub fn anew<N: Opens>(run: &Run<'_, N>) -> Result {
    let t = run.t;
    let (low, high) = (t.me.min(t.other), t.me.max(t.other));
    let group = run.world.group().incl(&[low, high]);
    let group = group.map_err(|e| format!("pair: group: {e}"))?;
    // The two may have left different collectives of the old one, which so
    // does not make new ones any more: they agree on a name by themselves.
    let name = mix(run.world.id() ^ u64::from(low << 8 | high));
    let mine = u32::from(t.me == high);
    let both = Communicator::with_id(&run.context, group.map().clone(), mine, name);
    let failed = |what: &str, e: Error| format!("pair: {what} of the two: {e}");
    both.barrier().map_err(|e| failed("barrier", e))?;
    let all = both.allgather(&[t.me as u8; 700]).map_err(|e| failed("allgather", e))?;
    ensure!(all == [[low as u8; 700], [high as u8; 700]], "data: allgather of the two");
    let (me, to) = (both.rank(), 1 - both.rank());
    for kind in [0, 2] {
        let mut w = make(&both, kind, 0x4000).map_err(|e| failed("a window", e))?;
        let long = pattern(me + 80, 9000);
        // The first operations of a new window: what is to be renewed is.
        w.fence().map_err(|e| failed("fence", e))?;
        again(t, "put in a new window", || {
            w.put(&[me as u8 + 1; 8], to, 8)?;
            w.put(&long, to, 0x1000)?;
            w.flush(to)
        })?;
        w.fence_with(Assert::NOSUCCEED).map_err(|e| failed("fence", e))?;
        let mut got = vec![0; 0x4000];
        w.read_local(0, &mut got).map_err(|e| failed("read_local", e))?;
        same("data: a new window", &got[8..16], &[to as u8 + 1; 8])?;
        same("data: a new window", &got[0x1000..][..9000], &pattern(to + 80, 9000))?;
        w.lock(Lock::Exclusive, to, Assert::NONE).map_err(|e| failed("lock", e))?;
        again(t, "sum in a new window", || w.fetch_and_op(1_u64, Op::Sum, to, 0))?;
        w.unlock(to).map_err(|e| failed("unlock", e))?;
        w.free().map_err(|e| failed("free", e))?;
    }
    exchange(run, &both, to)?;
    t.unwritten(&mut || run.idle())?;
    board().ready[t.me as usize].store(2, SeqCst);
    Ok(())
}
