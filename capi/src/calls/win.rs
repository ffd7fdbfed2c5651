//! Windows: made, asked, given back.

use crate::abi::*;
use crate::am;
use crate::args::{answer, out, rank, tell, text};
use crate::error::{Fail, call};
use crate::objects::{Comm, Win};
use crate::table::{TableGuard, find};
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

/// Allocates `bytes` of zeroed memory in every member and makes a window of it;
/// sizes and units may differ. Members of one node share the memory, so that a
/// put between them is a store. `base`, if not null, gets this process's
/// memory, which lives as long as the window. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_allocate(
    bytes: usize,
    disp_unit: c_int,
    comm: rankway_comm_t,
    base: *mut *mut c_void,
    win: *mut rankway_win_t,
) -> c_int {
    call("rankway_win_allocate", || {
        // SAFETY: [PTR].
        unsafe { make(comm, base, win, |comm| comm.win_allocate(bytes, unit(disp_unit))) }
    })
}

/// As rankway_win_allocate, all members on one node and their memory side by
/// side in the order of ranks: rankway_win_shared_query tells where. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_allocate_shared(
    bytes: usize,
    disp_unit: c_int,
    comm: rankway_comm_t,
    base: *mut *mut c_void,
    win: *mut rankway_win_t,
) -> c_int {
    call("rankway_win_allocate_shared", || {
        // SAFETY: [PTR].
        unsafe { make(comm, base, win, |comm| comm.win_shared(bytes, unit(disp_unit))) }
    })
}

/// Makes a window of memory the caller has, which must stay until the window
/// is freed. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_create(
    base: *mut c_void,
    bytes: usize,
    disp_unit: c_int,
    comm: rankway_comm_t,
    win: *mut rankway_win_t,
) -> c_int {
    call("rankway_win_create", || {
        // SAFETY: [PTR], [MEM].
        unsafe {
            make(comm, std::ptr::null_mut(), win, |comm| {
                comm.win_create(base.cast(), bytes, unit(disp_unit))
            })
        }
    })
}

/// Promises something of the operations to come, by one of MPI's info keys
/// (`accumulate_ordering`, `accumulate_ops`) and its value, on all members alike and before any
/// operation. `known` 1: it is a key that is known here; 0: nothing has happened. May be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_set_hint(
    win: rankway_win_t,
    key: *const c_char,
    value: *const c_char,
    known: *mut c_int,
) -> c_int {
    call("rankway_win_set_hint", || {
        // SAFETY: [PTR].
        let (key, value) = unsafe { (text(key, "key")?, text(value, "value")?) };
        let key = key.ok_or_else(|| Fail::null("key"))?;
        let value = value.ok_or_else(|| Fail::null("value"))?;
        let is_known = find::<Rc<dyn Win>>(win)?.set_hint(&key, &value)?;
        // SAFETY: [PTR].
        unsafe { tell(known, Some(c_int::from(is_known))) };
        Ok(())
    })
}

/// Makes a window without memory, to which members attach their own while it
/// lives. Displacements are addresses at the target. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_create_dynamic(
    comm: rankway_comm_t,
    win: *mut rankway_win_t,
) -> c_int {
    call("rankway_win_create_dynamic", || {
        // SAFETY: [PTR].
        unsafe { make(comm, std::ptr::null_mut(), win, |comm| comm.win_dynamic()) }
    })
}

/// A unit below 1 is refused by all members together, as a unit of 0.
fn unit(disp_unit: c_int) -> usize {
    usize::try_from(disp_unit).unwrap_or(0)
}

/// # Safety
/// `base` is null or can be written to, `win` too.
unsafe fn make(
    comm: rankway_comm_t,
    base: *mut *mut c_void,
    win: *mut rankway_win_t,
    make: impl FnOnce(&dyn Comm) -> Result<Rc<dyn Win>, Fail>,
) -> Result<(), Fail> {
    // SAFETY: [PTR].
    let to = unsafe { out(win, "win")? };
    let comm = find::<Rc<dyn Comm>>(comm)?;
    let made = make(&**comm)?;
    let (start, _) = made.local()?;
    to.set(comm.guard.insert(made)?);
    // SAFETY: [PTR].
    if let Ok(base) = unsafe { out(base, "base") } {
        base.set(start.cast());
    }
    Ok(())
}

/// Waits for all members and gives the window back. Its requests must be
/// complete. Collective. After an error other than RANKWAY_ERR_EPOCH,
/// RANKWAY_ERR_BUSY and RANKWAY_ERR_NESTED the window is freed too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_free(win: rankway_win_t) -> c_int {
    call("rankway_win_free", || {
        let guard = TableGuard::of(win)?;
        am::refuse_within(guard.get::<Rc<dyn Win>>(win)?.context_id())?;
        let mut found = guard.take::<Rc<dyn Win>>(win)?;
        // The only one: what a C program has of it are requests.
        let Some(alone) = Rc::get_mut(&mut found) else {
            guard.restore(win, found);
            let why = "requests of the window are under way; wait for them first";
            return Err(Fail::new(rankway_code::RANKWAY_ERR_BUSY, why));
        };
        match alone.free() {
            Err(e) if e.code == rankway_code::RANKWAY_ERR_EPOCH => {
                guard.restore(win, found);
                Err(e)
            }
            freed => {
                guard.remove::<Rc<dyn Win>>(win);
                freed
            }
        }
    })
}

/// This process's memory of a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_local(
    win: rankway_win_t,
    base: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    call("rankway_win_local", || {
        // SAFETY: [PTR].
        let (start, len) = unsafe { (out(base, "base")?, out(bytes, "bytes")?) };
        let local = find::<Rc<dyn Win>>(win)?.local()?;
        start.set(local.0.cast());
        len.set(local.1);
        Ok(())
    })
}

/// Where the memory of a rank is mapped in this process: it is of this node,
/// and the window allocated it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_shared_query(
    win: rankway_win_t,
    target_rank: c_int,
    bytes: *mut usize,
    disp_unit: *mut c_int,
    base: *mut *mut c_void,
) -> c_int {
    call("rankway_win_shared_query", || {
        // SAFETY: [PTR].
        let (len, unit, start) =
            unsafe { (out(bytes, "bytes")?, out(disp_unit, "disp_unit")?, out(base, "base")?) };
        let found = find::<Rc<dyn Win>>(win)?;
        let (at, size, step) = found.query(rank(target_rank)?)?;
        start.set(at.cast());
        len.set(size);
        unit.set(step as c_int);
        Ok(())
    })
}

/// Attaches memory to a dynamic window: peers reach it at its addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_attach(
    win: rankway_win_t,
    base: *mut c_void,
    bytes: usize,
) -> c_int {
    call("rankway_win_attach", || {
        if base.is_null() && bytes > 0 {
            return Err(Fail::null("base"));
        }
        let found = find::<Rc<dyn Win>>(win)?;
        // SAFETY: [MEM].
        unsafe { found.attach(base.cast(), bytes) }
    })
}

/// Takes attached memory back, by its start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_detach(win: rankway_win_t, base: *const c_void) -> c_int {
    call("rankway_win_detach", || {
        let found = find::<Rc<dyn Win>>(win)?;
        found.detach(base.cast())
    })
}

/// A window as rankway_put_unchecked reads it. It is good until the window is
/// freed, on the thread of its context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_access(
    win: rankway_win_t,
    access: *mut *const rankway_access_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(access, "access") };
    answer("rankway_win_access", to, || Ok(find::<Rc<dyn Win>>(win)?.access().cast()))
}

/// Why the last rankway_put_unchecked on a window answered RANKWAY_FAILED: the
/// code, with rankway_error_message and rankway_error_peer. RANKWAY_SUCCESS when
/// none did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_win_error(win: rankway_win_t) -> c_int {
    call("rankway_put_unchecked", || {
        let found = find::<Rc<dyn Win>>(win)?;
        found.take_error().map_or(Ok(()), Err)
    })
}
