//! Epochs: fence, post-start-complete-wait, locks, flushes.
//!
//! Each call is Rankway's, by way of [`OpenRanks`](rankway_plugin::OpenRanks). Barriers are Open MPI's, which make progress
//! for all components, and are called without the lock.

use super::fault::{answer, code};
use super::module::Module;
use crate::boot::Name;
use crate::ffi;
use crate::log::guarded;
use rankway::netmod::Netmod;
use rankway::rma::{Error, Lock, Window};
use rankway_plugin::Promises;
use std::ffi::c_int;

/// Returns true if a target is MPI_PROC_NULL, towards which operations do
/// nothing.
fn is_proc_null(target: c_int) -> bool {
    target == ffi::MPI_PROC_NULL
}

/// Open MPI's.
const PROMISES: Promises = Promises {
    nocheck: ffi::MPI_MODE_NOCHECK as i32,
    nostore: ffi::MPI_MODE_NOSTORE as i32,
    noput: ffi::MPI_MODE_NOPUT as i32,
    noprecede: ffi::MPI_MODE_NOPRECEDE as i32,
    nosucceed: ffi::MPI_MODE_NOSUCCEED as i32,
};

impl<N: Netmod> Module<N> {
    /// Waits for all members. Not within [`Module::enter`].
    pub(super) fn barrier(&self) -> c_int {
        // SAFETY: a communicator of the window's own, with its collectives.
        unsafe {
            let coll = (*self.comm).c_coll;
            match (*coll).coll_barrier {
                Some(barrier) => barrier(self.comm, (*coll).coll_barrier_module),
                None => ffi::OMPI_ERR_NOT_SUPPORTED,
            }
        }
    }

    /// The window's ranks of a group's members.
    ///
    /// # Safety
    /// `group` is a group.
    unsafe fn members(&self, group: *mut ffi::ompi_group_t) -> Result<Vec<u32>, c_int> {
        // SAFETY: [MPI].
        let size = unsafe { (*group).grp_proc_count };
        let rank = |at| {
            let (mut jobid, mut vpid) = (0, 0);
            // SAFETY: a rank of the group, and live places.
            unsafe { ffi::rw_group_name(group, at, &mut jobid, &mut vpid) };
            let peer = self.state.boot().number(Name { jobid, vpid });
            let rank = peer.and_then(|peer| self.window.communicator().rank_of(peer));
            rank.ok_or(ffi::MPI_ERR_GROUP as c_int)
        };
        (0..size).map(rank).collect()
    }

    /// Runs a call that ends or opens an epoch.
    #[inline(always)]
    fn synchronize(&self, call: impl FnOnce() -> Result<(), Error>) -> c_int {
        // Without threads there is no lock.
        guarded(|| match self.threads {
            false => answer(call()),
            true => self.enter(|_| answer(call())),
        })
    }
}

pub(super) unsafe extern "C" fn fence<N: Netmod>(
    assert: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let promised = PROMISES.read(assert);
    let opened = || module.open.fenced(&module.window, promised);
    guarded(|| {
        let in_words = module.enter(|_| {
            let fenced = module.window.fence_in_words(promised)?;
            Some(answer(fenced.map(|()| opened())))
        });
        if let Some(code) = in_words {
            return code;
        }
        let entered = module.enter(|_| module.window.fence_enter(promised));
        // The others wait in the barrier, so a failed operation does not skip
        // it; a refused call does.
        if let Err(e) = &entered
            && code(e) == ffi::OMPI_ERR_RMA_SYNC
        {
            return ffi::OMPI_ERR_RMA_SYNC;
        }
        let barrier = module.barrier();
        let left = module.enter(|_| {
            let left = module.window.fence_leave(promised);
            opened();
            left
        });
        if barrier == ffi::SUCCESS { answer(entered.and(left)) } else { barrier }
    })
}

pub(super) unsafe extern "C" fn start<N: Netmod>(
    group: *mut ffi::ompi_group_t,
    assert: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    // SAFETY: [MPI].
    let ranks = match unsafe { module.members(group) } {
        Ok(ranks) => ranks,
        Err(code) => return code,
    };
    module.synchronize(|| module.open.start(&module.window, &ranks, PROMISES.read(assert)))
}

pub(super) unsafe extern "C" fn complete<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    module.synchronize(|| module.open.complete(&module.window))
}

pub(super) unsafe extern "C" fn post<N: Netmod>(
    group: *mut ffi::ompi_group_t,
    assert: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    // SAFETY: [MPI].
    match unsafe { module.members(group) } {
        Ok(ranks) => module.synchronize(|| module.window.post(&ranks, PROMISES.read(assert))),
        Err(code) => code,
    }
}

pub(super) unsafe extern "C" fn wait<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    module.synchronize(|| module.window.wait())
}

pub(super) unsafe extern "C" fn test<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    // What the others do may need Open MPI's own progress here.
    ffi::progress();
    guarded(|| match module.enter(|_| module.window.test()) {
        Ok(done) => {
            // SAFETY: the caller's place for the answer.
            unsafe { *flag = c_int::from(done) };
            ffi::SUCCESS
        }
        Err(e) => code(&e),
    })
}

pub(super) unsafe extern "C" fn lock<N: Netmod>(
    kind: c_int,
    target: c_int,
    assert: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let rank = target as u32;
    let at_once = assert == 0 && !module.threads;
    if at_once && module.open.lock_at_once(&module.window, kind_of(kind), rank) {
        return ffi::SUCCESS;
    }
    lock_by_all_means(module, kind_of(kind), target, assert)
}

fn kind_of(kind: c_int) -> Lock {
    if kind == ffi::MPI_LOCK_EXCLUSIVE as c_int { Lock::Exclusive } else { Lock::Shared }
}

#[cold]
#[inline(never)]
fn lock_by_all_means<N: Netmod>(
    module: &Module<N>,
    kind: Lock,
    target: c_int,
    assert: c_int,
) -> c_int {
    if is_proc_null(target) {
        return ffi::SUCCESS;
    }
    if !module.threads {
        // A process that locks again and again must still make progress.
        module.count_store();
    }
    let promised = PROMISES.read(assert);
    module.synchronize(|| module.open.lock(&module.window, kind, target as u32, promised))
}

pub(super) unsafe extern "C" fn unlock<N: Netmod>(
    target: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    if !module.threads && module.open.unlock_at_once(&module.window, target as u32) {
        // A process that locks again and again must still make progress.
        module.count_store();
        return ffi::SUCCESS;
    }
    unlock_by_all_means(module, target)
}

#[cold]
#[inline(never)]
fn unlock_by_all_means<N: Netmod>(module: &Module<N>, target: c_int) -> c_int {
    if is_proc_null(target) {
        return ffi::SUCCESS;
    }
    module.synchronize(|| module.open.unlock(&module.window, target as u32))
}

pub(super) unsafe extern "C" fn lock_all<N: Netmod>(
    assert: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    module.synchronize(|| module.open.lock_all(&module.window, PROMISES.read(assert)))
}

pub(super) unsafe extern "C" fn unlock_all<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    module.synchronize(|| module.open.unlock_all(&module.window))
}

pub(super) unsafe extern "C" fn sync<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    module.full_fence();
    // Programs that spin on memory call this in between.
    ffi::progress();
    module.full_fence();
    ffi::SUCCESS
}

/// A flush where all was stores: done when they are ordered. Returns false if there was more,
/// and now and then if not: a whole flush hears of deaths.
#[inline(always)]
fn flush_stores<N: Netmod>(module: &Module<N>) -> bool {
    if module.threads || module.start.is_null() || !module.window.has_only_stores() {
        return false;
    }
    module.full_fence();
    !module.count_store()
}

/// A flush towards a rank; `rest` where there is more than stores.
///
/// # Safety
/// A live window.
#[inline(always)]
unsafe fn flush_one<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    target: c_int,
    rest: impl FnOnce(&Window<N>, u32) -> Result<(), Error>,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    if !module.open.is_passive() {
        return ffi::OMPI_ERR_RMA_SYNC;
    }
    if (module.open.has(target as u32) && flush_stores(module)) || is_proc_null(target) {
        return ffi::SUCCESS;
    }
    module.synchronize(|| rest(&module.window, target as u32))
}

/// A flush towards all ranks.
///
/// # Safety
/// A live window.
#[inline(always)]
unsafe fn flush_every<N: Netmod>(
    win: *mut ffi::ompi_win_t,
    rest: impl FnOnce(&Window<N>) -> Result<(), Error>,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    if !module.open.is_passive() {
        return ffi::OMPI_ERR_RMA_SYNC;
    }
    if flush_stores(module) {
        return ffi::SUCCESS;
    }
    module.synchronize(|| rest(&module.window))
}

pub(super) unsafe extern "C" fn flush<N: Netmod>(
    target: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    unsafe { flush_one::<N>(win, target, |window, rank| window.flush(rank)) }
}

pub(super) unsafe extern "C" fn flush_all<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    unsafe { flush_every::<N>(win, |window| window.flush_all()) }
}

pub(super) unsafe extern "C" fn flush_local<N: Netmod>(
    target: c_int,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    unsafe { flush_one::<N>(win, target, |window, rank| window.flush_local(rank)) }
}

pub(super) unsafe extern "C" fn flush_local_all<N: Netmod>(win: *mut ffi::ompi_win_t) -> c_int {
    // SAFETY: [MPI].
    unsafe { flush_every::<N>(win, |window| window.flush_local_all()) }
}
