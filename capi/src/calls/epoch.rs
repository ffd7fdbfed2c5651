//! Epochs and flushes.

use crate::abi::*;
use crate::args::{answer, assert, out, rank, ranks};
use crate::error::{Fail, call};
use crate::objects::{Epoch, Win};
use crate::table::find;
use std::ffi::c_int;
use std::rc::Rc;
use transport::rma::Lock;

fn epoch(name: &str, win: rankway_win_t, what: Result<Epoch<'_>, Fail>) -> c_int {
    call(name, || {
        let found = find::<Rc<dyn Win>>(win)?;
        found.epoch(what?)
    })
}

/// Ends the epoch that is open, waits until all members' operations are done
/// everywhere, and opens the next. `assert` is a sum of rankway_asserts.
/// Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_fence(assert_: c_int, win: rankway_win_t) -> c_int {
    epoch("rankway_win_fence", win, assert(assert_).map(Epoch::Fence))
}

/// Opens an epoch to one rank, with a rankway_lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_lock(
    lock: c_int,
    target_rank: c_int,
    assert_: c_int,
    win: rankway_win_t,
) -> c_int {
    let what = || {
        let kind = match lock {
            l if l == rankway_lock::RANKWAY_LOCK_EXCLUSIVE as c_int => Lock::Exclusive,
            l if l == rankway_lock::RANKWAY_LOCK_SHARED as c_int => Lock::Shared,
            other => {
                let why = format!("{other} is no rankway_lock");
                return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
            }
        };
        Ok(Epoch::Lock(kind, rank(target_rank)?, assert(assert_)?))
    };
    epoch("rankway_win_lock", win, what())
}

/// Closes the epoch of rankway_win_lock; everything issued to the rank is done
/// there on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_unlock(target_rank: c_int, win: rankway_win_t) -> c_int {
    epoch("rankway_win_unlock", win, rank(target_rank).map(Epoch::Unlock))
}

/// Opens an epoch to all ranks. Not collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_lock_all(assert_: c_int, win: rankway_win_t) -> c_int {
    epoch("rankway_win_lock_all", win, assert(assert_).map(Epoch::LockAll))
}

/// Closes the epoch of rankway_win_lock_all; everything issued in it is done at
/// the targets on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_unlock_all(win: rankway_win_t) -> c_int {
    epoch("rankway_win_unlock_all", win, Ok(Epoch::UnlockAll))
}

/// Waits until everything issued to a rank is done there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_flush(target_rank: c_int, win: rankway_win_t) -> c_int {
    epoch("rankway_win_flush", win, rank(target_rank).map(Epoch::Flush))
}

/// Waits until everything issued is done at the targets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_flush_all(win: rankway_win_t) -> c_int {
    epoch("rankway_win_flush_all", win, Ok(Epoch::FlushAll))
}

/// Waits until the buffers of everything issued to a rank are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_flush_local(target_rank: c_int, win: rankway_win_t) -> c_int {
    epoch("rankway_win_flush_local", win, rank(target_rank).map(Epoch::FlushLocal))
}

/// Waits until the buffers of everything issued are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_flush_local_all(win: rankway_win_t) -> c_int {
    epoch("rankway_win_flush_local_all", win, Ok(Epoch::FlushLocalAll))
}

/// Makes this process's own stores to its memory and those of peers visible to
/// each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_sync(win: rankway_win_t) -> c_int {
    epoch("rankway_win_sync", win, Ok(Epoch::Sync))
}

/// Opens an access epoch to the ranks of a group, which call rankway_win_post.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_start(
    size: c_int,
    group: *const c_int,
    assert_: c_int,
    win: rankway_win_t,
) -> c_int {
    // SAFETY: [PTR].
    let group = unsafe { ranks(size, group, "group") };
    call("rankway_win_start", || {
        let found = find::<Rc<dyn Win>>(win)?;
        found.epoch(Epoch::Start(&group?, assert(assert_)?))
    })
}

/// Closes the epoch of rankway_win_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_complete(win: rankway_win_t) -> c_int {
    epoch("rankway_win_complete", win, Ok(Epoch::Complete))
}

/// Opens an exposure epoch for the ranks of a group, which call
/// rankway_win_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_post(
    size: c_int,
    group: *const c_int,
    assert_: c_int,
    win: rankway_win_t,
) -> c_int {
    // SAFETY: [PTR].
    let group = unsafe { ranks(size, group, "group") };
    call("rankway_win_post", || {
        let found = find::<Rc<dyn Win>>(win)?;
        found.epoch(Epoch::Post(&group?, assert(assert_)?))
    })
}

/// Waits until the group of rankway_win_post has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_wait(win: rankway_win_t) -> c_int {
    epoch("rankway_win_wait", win, Ok(Epoch::Wait))
}

/// Sets 1 if the group of rankway_win_post has completed, which closes the
/// exposure epoch, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_test(win: rankway_win_t, flag: *mut c_int) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(flag, "flag") };
    answer("rankway_win_test", to, || {
        let found = find::<Rc<dyn Win>>(win)?;
        Ok(c_int::from(found.test()?))
    })
}
