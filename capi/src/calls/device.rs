//! Devices and contexts.

use crate::abi::*;
use crate::am;
use crate::args::{answer, out, text};
use crate::boot::Caller;
use crate::error::{Fail, call};
use crate::native::NetmodDevice;
use crate::objects::{Context, DeviceAndContext};
use crate::table::{self, TableGuard, find};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use transport::av::Transport;
use transport::boot::{self, Boot, local};
use transport::device::{self, AnyContext, OpenedBy, Options};
use transport::match_netmod;
use transport::netmod::NAMES;

/// Opens the device of this process and its first context, which belongs to
/// the calling thread. `options` may be null. Collective over the job. After
/// rankway_finalize, and while another device is open, only with a
/// rankway_boot_t of the caller's: launchers take a process once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_init(
    options: *const rankway_options_t,
    device: *mut rankway_device_t,
    context: *mut rankway_context_t,
) -> c_int {
    call("rankway_init", || {
        // SAFETY: [PTR].
        let (to, first, given) = unsafe {
            (out(device, "device")?, out(context, "context")?, options.as_ref().copied())
        };
        let ((device, context), launcher) = open(given)?;
        let guard = TableGuard::new(device.is_serialized())?;
        let context = guard.insert(context)?;
        sweep_at_exit(device.boot().job());
        to.set(table::add_device(device)?);
        first.set(context);
        std::mem::forget(launcher);
        Ok(())
    })
}

/// A program that ends without closing its device leaves no names in
/// `/dev/shm`. Nothing else of the device is touched at that hour.
fn sweep_at_exit(job: u64) {
    /// The process and its job; a forked child that exits is another process.
    static OPENED: Mutex<Option<(u32, u64)>> = Mutex::new(None);

    extern "C" fn sweep() {
        let opened = OPENED.try_lock().ok().and_then(|opened| *opened);
        if let Some((pid, job)) = opened.filter(|(pid, _)| *pid == std::process::id()) {
            let _ = catch_unwind(|| boot::sweep_process(pid, job));
        }
    }

    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if opened.replace((std::process::id(), job)).is_none() {
        // SAFETY: a function of this library, which is never unloaded while
        // its handlers are registered.
        unsafe { libc::atexit(sweep) };
    }
}

/// A device has the launcher that [`boot::connect`] finds, or had it.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// This process has disconnected from it.
static FINALIZED: AtomicBool = AtomicBool::new(false);

/// The launcher, for the device that is opened. Dropped, as where that fails, it can be taken
/// again.
struct Launcher;

impl Launcher {
    fn take() -> Result<Launcher, Fail> {
        if !TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(Launcher);
        }
        let why = match FINALIZED.load(Ordering::Relaxed) {
            true => {
                "rankway_init after rankway_finalize: launchers take a process once; initialise \
                 once, or bring a rankway_boot_t of your own"
            }
            false => {
                "rankway_init while a device of this process is open: launchers take a process \
                 once; use that device, or bring a rankway_boot_t of your own"
            }
        };
        Err(Fail::new(rankway_code::RANKWAY_ERR_BOOT, why))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Relaxed);
    }
}

fn open(given: Option<rankway_options_t>) -> Result<(DeviceAndContext, Option<Launcher>), Fail> {
    let wrong = |why: String| Fail::new(rankway_code::RANKWAY_ERR_ARG, why);
    let mut options = Options::default();
    let (mut is_serialized, mut netmod, mut peers) = (false, None, None);
    if let Some(given) = given {
        if given.abi != RANKWAY_ABI {
            let (theirs, ours) = (given.abi, RANKWAY_ABI);
            let why = format!(
                "the options are of interface {theirs}, this library has {ours}: begin with \
                 RANKWAY_OPTIONS_INIT, and compile with this library's rankway.h"
            );
            return Err(wrong(why));
        }
        let threads = given.threads;
        is_serialized = threads == rankway_threads::RANKWAY_THREAD_SERIALIZED as c_int;
        options.threads =
            is_serialized || threads == rankway_threads::RANKWAY_THREAD_MULTIPLE as c_int;
        if !options.threads && threads != rankway_threads::RANKWAY_THREAD_SINGLE as c_int {
            return Err(wrong(format!("threads is {threads}, which is no rankway_threads")));
        }
        // SAFETY: [PTR].
        unsafe {
            netmod = text(given.netmod, "netmod")?;
            options.provider = text(given.provider, "provider")?;
            peers = given.boot.as_ref().copied();
        }
    }
    let netmod = netmod.filter(|name| !name.is_empty());
    if let Some(other) = netmod.as_deref().filter(|name| !NAMES.contains(name)) {
        let there = NAMES.join(" and ");
        return Err(wrong(format!("netmod is '{other}'; there are {there}")));
    }
    let (boot, launcher): (Arc<dyn Boot>, _) = match peers {
        Some(table) => (Arc::new(Caller::new(table)?), None),
        None => {
            let launcher = Launcher::take()?;
            (boot::connect()?, Some(launcher))
        }
    };
    // (Who brings the job along is a device layer, whose communicators are not the program's.)
    options.opened_by = match boot.launcher() == Caller::LAUNCHER {
        true => OpenedBy::DeviceLayer,
        false => OpenedBy::Program,
    };
    let context = match netmod.as_deref() {
        None => device::open(boot, &options)?,
        name => device::open_by_name(boot, name, &options)?,
    };
    let opened = match_netmod!(
        context,
        AnyContext(context) => NetmodDevice::opened(context, is_serialized)
    );
    Ok((opened, launcher))
}

/// Closes the device and disconnects from the launcher. All contexts must have
/// been closed. As before MPI_Finalize, all communication must be complete: end
/// with rankway_comm_barrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_finalize(device: rankway_device_t) -> c_int {
    call("rankway_finalize", || {
        let found = table::device(device)?;
        let open = found.open();
        if open > 0 {
            let why = format!("{open} contexts are open; close them first");
            return Err(Fail::new(rankway_code::RANKWAY_ERR_BUSY, why));
        }
        table::remove_device(device);
        let boot = Arc::clone(found.boot());
        drop(found);
        if boot.launcher() != Caller::LAUNCHER {
            FINALIZED.store(true, Ordering::Relaxed);
        }
        Ok(boot.finalize()?)
    })
}

/// Ends every process of the job, this one with `code`. Does not return.
/// Without a device this process alone is ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_abort(device: rankway_device_t, code: c_int, why: *const c_char) {
    let _ = call("rankway_abort", || {
        // SAFETY: [PTR].
        let why = unsafe { text(why, "why") }.ok().flatten().unwrap_or_default();
        table::device(device)?.boot().abort(code, &why)
    });
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(code) }
}

/// A device's node, netmod, launcher and providers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_info(
    device: rankway_device_t,
    info: *mut rankway_info_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(info, "info") };
    answer("rankway_info", to, || {
        let found = table::device(device)?;
        let network = found.provider(Transport::Network);
        let local = found.provider(Transport::Local);
        let (node_rank, node_size) = found.node();
        Ok(rankway_info_t {
            rank: found.boot().rank(),
            size: found.boot().size(),
            node_rank,
            node_size,
            netmod: chars(found.netmod()),
            launcher: chars(found.boot().launcher()),
            network: chars(network.as_ref().map_or("", |(name, _)| name)),
            local: chars(local.as_ref().map_or("", |(name, _)| name)),
            inject_size: network.or(local).map_or(0, |(_, size)| size),
        })
    })
}

/// A text of C in a field of fixed length, its zero included.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, from) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    field
}

/// Adds a process group of members of the job: `members` says which rank of
/// the job each lpid is. Rank maps over it name it by the number that comes
/// back. Local; where it is to agree between processes, all must add the same
/// groups in the same order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_group_add(
    device: rankway_device_t,
    members: rankway_rankmap_t,
    pgid: *mut u32,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(pgid, "pgid") };
    answer("rankway_group_add", to, || {
        let found = table::device(device)?;
        found.add_group(&*table::map(members)?)
    })
}

/// Opens a further context for the calling thread, on a device opened with
/// RANKWAY_THREAD_SERIALIZED or RANKWAY_THREAD_MULTIPLE. What is sent on
/// context `index` arrives on the peers' of the same index; -1 takes the
/// smallest that is free. Not collective. The first message to a peer goes once
/// that peer's first context has made progress, which tells where the other is;
/// one opened again speaks to those that were opened again, too. Its messages go
/// on, in and out, in calls on it alone: what was sent, and is complete for the
/// sender, may lie here until rankway_progress or rankway_context_close sends it.
/// Operations on windows go to the peers' first contexts, which must make progress.
/// Over the node's own module some 16 contexts of each process at a time reach a
/// peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_context_open(
    device: rankway_device_t,
    index: c_int,
    context: *mut rankway_context_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(context, "context") };
    answer("rankway_context_open", to, || {
        let found = table::device(device)?;
        let index = (index != -1).then(|| u32::try_from(index)).transpose().map_err(|_| {
            let why = format!("context {index}: indices are 1 to 4096, or -1 for one that is free");
            Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
        })?;
        let guard = TableGuard::new(found.is_serialized())?;
        let context = found.context(index)?;
        guard.insert(context)
    })
}

/// Closes a context. Everything made on it must have been freed. Sends what still
/// waits for space, a connection or credit, also of requests that were freed: it takes
/// until those peers have made progress, as long as they live and have neither left nor
/// closed their context of this number, and at most RANKWAY_TIMEOUT, after which
/// RANKWAY_ERR_PEER names the first of them; the context is closed all the same. What was
/// sent here and not received is refused: who waits for such a send is told so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_context_close(context: rankway_context_t) -> c_int {
    call("rankway_context_close", || {
        let found = find::<Rc<dyn Context>>(context)?;
        am::refuse_within(found.context_id())?;
        if let Some(left) = found.guard.objects_on(found.context_id()) {
            let why = format!("the context has {left}; free or receive them first");
            return Err(Fail::new(rankway_code::RANKWAY_ERR_BUSY, why));
        }
        let finished = found.finish();
        drop(found.guard.remove::<Rc<dyn Context>>(context));
        finished
    })
}

/// The number of a context: that of the peers' contexts it sends to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_context_index(
    context: rankway_context_t,
    index: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(index, "index") };
    answer("rankway_context_index", to, || Ok(find::<Rc<dyn Context>>(context)?.index() as c_int))
}

/// Makes progress once, for operations of this process and for those
/// that target it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_progress(context: rankway_context_t) -> c_int {
    call("rankway_progress", || {
        let found = find::<Rc<dyn Context>>(context)?;
        found.progress()
    })
}

/// rankway_progress that tells whether it was of use: `made` 1 if a packet came in, or if
/// rankway_cq_read has something.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_progress_made(
    context: rankway_context_t,
    made: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(made, "made") };
    answer("rankway_progress_made", to, || {
        Ok(c_int::from(find::<Rc<dyn Context>>(context)?.progress_made()?))
    })
}

/// Returns 1 if a launcher (mpirun, mpiexec, srun) started this process, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn rankway_launched() -> c_int {
    catch_unwind(boot::launched).map_or(0, c_int::from)
}

/// Forks `ranks` processes, has each call `body(argument)` and end with what it
/// answers, and waits for all. `code`, if not null, gets a code for the caller
/// to exit with: 0 when all answered 0. Call it before the program starts a
/// thread; each process then calls rankway_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_run_local(
    ranks: c_int,
    body: Option<unsafe extern "C" fn(argument: *mut c_void) -> c_int>,
    argument: *mut c_void,
    code: *mut c_int,
) -> c_int {
    call("rankway_run_local", || {
        let body = body.ok_or_else(|| Fail::null("body"))?;
        let count = u32::try_from(ranks).map_err(|_| {
            let why = format!("cannot fork {ranks} ranks");
            Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
        })?;
        let outcome = local::run(&local::Options::new(count), |_| {
            // The launcher of this process is another than the parent had.
            TAKEN.store(false, Ordering::Relaxed);
            FINALIZED.store(false, Ordering::Relaxed);
            // SAFETY: [CALLBACK].
            let rank = || unsafe { body(argument) };
            let code = catch_unwind(AssertUnwindSafe(rank)).unwrap_or(101);
            // Exit handlers do not run, and C keeps what it printed in buffers.
            // SAFETY: null stands for all streams.
            unsafe { libc::fflush(std::ptr::null_mut()) };
            code
        })?;
        // SAFETY: [PTR].
        if let Ok(to) = unsafe { out(code, "code") } {
            to.set(outcome.exit_code());
        }
        Ok(())
    })
}
