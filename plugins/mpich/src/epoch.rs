//! Epochs: fence, post-start-complete-wait, locks, flushes. Each is Rankway's own.

use crate::fault::{Answer, Refusal, answer};
use crate::host;
use crate::log::guarded;
use crate::window::Held;
use rankway::netmod::Netmod;
use rankway::rma::{Error, Lock};
use rankway_plugin::Promises;
use std::ffi::{c_int, c_void};

/// MPICH's.
const PROMISES: Promises =
    Promises { nocheck: 1024, nostore: 2048, noput: 4096, noprecede: 8192, nosucceed: 16384 };
const EXCLUSIVE: c_int = 234;

/// A call, as C has it: `enum rkw_epoch`.
const LOCK_ALL: c_int = 0;
const UNLOCK_ALL: c_int = 1;
const UNLOCK: c_int = 2;
const FLUSH: c_int = 3;
const FLUSH_LOCAL: c_int = 4;
const FLUSH_ALL: c_int = 5;
const FLUSH_LOCAL_ALL: c_int = 6;
const COMPLETE: c_int = 7;
const WAIT: c_int = 8;
const START: c_int = 9;
const POST: c_int = 10;

/// Calls of single ranks and of all, and the ends of groups' epochs.
pub(crate) unsafe extern "C" fn call<N: Netmod>(
    window: *mut c_void,
    what: c_int,
    rank: c_int,
    assert: c_int,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    guarded(|| {
        let (open, rank) = (held.open(), rank as u32);
        answer(match what {
            UNLOCK if open.unlock_at_once(&held.window, rank) => {
                held.count_store();
                Ok(())
            }
            FLUSH | FLUSH_LOCAL if open.is_passive() && open.has(rank) && held.order_stores() => {
                Ok(())
            }
            FLUSH_ALL | FLUSH_LOCAL_ALL if open.is_passive() && held.order_stores() => Ok(()),
            _ => held.enter(|window| match what {
                LOCK_ALL => open.lock_all(window, PROMISES.read(assert)),
                UNLOCK_ALL => open.unlock_all(window),
                UNLOCK => open.unlock(window, rank),
                COMPLETE => open.complete(window),
                WAIT => window.wait(),
                _ => open.check_passive().and_then(|()| match what {
                    FLUSH => window.flush(rank),
                    FLUSH_LOCAL => window.flush_local(rank),
                    FLUSH_ALL => window.flush_all(),
                    _ => window.flush_local_all(),
                }),
            }),
        })
    })
}

/// Locks a rank.
pub(crate) unsafe extern "C" fn lock<N: Netmod>(
    window: *mut c_void,
    kind: c_int,
    rank: c_int,
    assert: c_int,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    let kind = if kind == EXCLUSIVE { Lock::Exclusive } else { Lock::Shared };
    guarded(|| {
        let (open, rank) = (held.open(), rank as u32);
        if assert == 0 && open.lock_at_once(&held.window, kind, rank) {
            return Answer::Done as c_int;
        }
        // A process that locks again and again must still make progress.
        held.count_store();
        answer(held.enter(|window| open.lock(window, kind, rank, PROMISES.read(assert))))
    })
}

/// A fence. All members call it.
pub(crate) unsafe extern "C" fn fence<N: Netmod>(window: *mut c_void, assert: c_int) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    let promised = PROMISES.read(assert);
    guarded(|| {
        let fenced = |result: Result<(), Error>| {
            if result.is_ok() {
                held.open().fenced(&held.window, promised);
            }
            answer(result)
        };
        if let Some(result) = held.enter(|window| window.fence_in_words(promised)) {
            return fenced(result);
        }
        let entered = held.enter(|window| window.fence_enter(promised)).map_err(Refusal::from);
        // The others wait in the barrier, so a failed operation does not skip it; a refused
        // call does.
        if let Err(refusal @ Refusal(Answer::Sync, _)) = entered {
            return refusal.kept();
        }
        match (entered, held.barrier()) {
            (Ok(()), Ok(())) => fenced(held.enter(|window| window.fence_leave(promised))),
            // (Of a death that it did not meet itself, the barrier may not say whose.)
            (Err(refusal), Ok(())) | (Err(refusal @ Refusal(Answer::Died, _)), Err(_)) => {
                refusal.kept()
            }
            (_, Err(answer)) => answer,
        }
    })
}

/// Starts or posts, to the members of a group by their lpids.
pub(crate) unsafe extern "C" fn group<N: Netmod>(
    window: *mut c_void,
    what: c_int,
    lpids: *const u32,
    count: usize,
    assert: c_int,
) -> c_int {
    // SAFETY: [MPI]; as many numbers as it is told, none of null.
    let (held, lpids) = unsafe {
        let lpids = if count == 0 { &[][..] } else { std::slice::from_raw_parts(lpids, count) };
        (Held::<N>::of(window), lpids)
    };
    guarded(|| {
        let rank_of = |&lpid: &u32| held.window.communicator().rank_of(lpid);
        let Some(ranks) = lpids.iter().map(rank_of).collect::<Option<Vec<u32>>>() else {
            let why = "a member of the group is none of the window".into();
            return Refusal(Answer::Group, why).kept();
        };
        let promised = PROMISES.read(assert);
        answer(held.enter(|window| match what {
            START => held.open().start(window, &ranks, promised),
            POST => window.post(&ranks, promised),
            _ => Ok(()),
        }))
    })
}

/// Whether those that were posted to have completed.
pub(crate) unsafe extern "C" fn test<N: Netmod>(window: *mut c_void, flag: *mut c_int) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    // SAFETY: no arguments. What the others do may need MPICH's own progress here.
    unsafe { host::rkw_host_progress() };
    guarded(|| {
        answer(held.enter(|window| window.test()).map(|done| {
            // SAFETY: [MPI]: the caller's place for the answer.
            unsafe { *flag = done.into() };
        }))
    })
}
