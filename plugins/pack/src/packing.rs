//! `MPI_Pack` and `MPI_Unpack`.

use crate::stats::{self, Call, Reason};
use crate::types;
use rankway::datatype::Layout;
use rankway_preload::shielded;
use std::ffi::{c_int, c_void};

/// What `MPI_Pack` takes.
pub(crate) type Pack = unsafe extern "C" fn(
    *const c_void,
    c_int,
    usize,
    *mut c_void,
    c_int,
    *mut c_int,
    usize,
) -> c_int;

/// What `MPI_Unpack` takes.
pub(crate) type Unpack = unsafe extern "C" fn(
    *const c_void,
    c_int,
    *mut c_int,
    *mut c_void,
    c_int,
    usize,
    usize,
) -> c_int;

/// Where in the packed buffer the bytes are, if they all are: MPI says what is
/// wrong otherwise.
///
/// # Safety
/// \[MPI\]
unsafe fn place(
    packed: *const c_void,
    size: c_int,
    position: *const c_int,
    bytes: usize,
) -> Option<usize> {
    if packed.is_null() || position.is_null() {
        return None;
    }
    // SAFETY: [MPI].
    let at = usize::try_from(unsafe { *position }).ok()?;
    (at.checked_add(bytes)? <= usize::try_from(size).ok()?).then_some(at)
}

/// Does a call here: `copy` has the layout of its elements and their packed bytes,
/// from the first on. Returns false if MPI is to do it.
///
/// # Safety
/// \[MPI\]; `copy` keeps to as many bytes as the layout has, all within `packed`.
#[allow(clippy::too_many_arguments, reason = "MPI's")]
unsafe fn done(
    call: Call,
    memory: *const c_void,
    count: c_int,
    datatype: usize,
    packed: *const c_void,
    size: c_int,
    position: *mut c_int,
    comm: usize,
    copy: impl FnOnce(&Layout, usize),
) -> bool {
    let work = || {
        // SAFETY: [MPI].
        unsafe {
            let chosen = types::choose(call, memory as usize, count, datatype)?;
            let place = place(packed, size, position, chosen.bytes);
            let Some(at) = place.filter(|_| chosen.mpi.is_comm(comm)) else {
                stats::left(call, Reason::Arguments);
                return None;
            };
            copy(&chosen.layout, at);
            *position = (at + chosen.bytes) as c_int;
        }
        stats::count(call);
        Some(())
    };
    shielded(work).is_some()
}

/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn pack(
    next: Pack,
    memory: *const c_void,
    count: c_int,
    datatype: usize,
    packed: *mut c_void,
    size: c_int,
    position: *mut c_int,
    comm: usize,
) -> c_int {
    let copy = |layout: &Layout, at: usize| {
        let len = layout.size() as usize;
        // SAFETY: the bytes lie within `packed`, and [BUF].
        unsafe {
            let out = std::slice::from_raw_parts_mut(packed.cast::<u8>().add(at), len);
            layout.pack_raw(memory.cast(), 0, out);
        }
    };
    // SAFETY: [MPI]; [SIG], with what the program passed.
    unsafe {
        if done(Call::Pack, memory, count, datatype, packed, size, position, comm, copy) {
            return 0;
        }
        next(memory, count, datatype, packed, size, position, comm)
    }
}

/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn unpack(
    next: Unpack,
    packed: *const c_void,
    size: c_int,
    position: *mut c_int,
    memory: *mut c_void,
    count: c_int,
    datatype: usize,
    comm: usize,
) -> c_int {
    let copy = |layout: &Layout, at: usize| {
        let len = layout.size() as usize;
        // SAFETY: as in `pack`.
        unsafe {
            let data = std::slice::from_raw_parts(packed.cast::<u8>().add(at), len);
            layout.unpack_raw(memory.cast(), 0, data);
        }
    };
    // SAFETY: as in `pack`.
    unsafe {
        if done(Call::Unpack, memory, count, datatype, packed, size, position, comm, copy) {
            return 0;
        }
        next(packed, size, position, memory, count, datatype, comm)
    }
}
