//! The functions that a program finds here before MPI's own.

#![allow(non_snake_case, reason = "MPI's names")]
#![allow(clippy::too_many_arguments, reason = "MPI's")]

use crate::mpi;
use crate::stats::Call;
use crate::{complete, message, packing, requests, stats, types};
use rankway_preload::{export, shielded};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

export! {
    MPI_Type_commit (datatype: *mut c_void) |next| {
        let code = next(datatype);
        if code == 0 {
            after_type(datatype, |handle| types::committed(handle));
        }
        code
    };
    MPI_Type_dup (of: usize, datatype: *mut c_void) |next| {
        let code = next(of, datatype);
        if code == 0 {
            after_type(datatype, |handle| types::duplicated(of, handle));
        }
        code
    };
    MPI_Type_free (datatype: *mut c_void) |next| {
        after_type(datatype, types::freed);
        next(datatype)
    };
    MPI_Finalize () |next| {
        end();
        next()
    };

    MPI_Pack (
        memory: *const c_void, count: c_int, datatype: usize, packed: *mut c_void, size: c_int,
        position: *mut c_int, comm: usize
    ) |next| packing::pack(next, memory, count, datatype, packed, size, position, comm);
    MPI_Unpack (
        packed: *const c_void, size: c_int, position: *mut c_int, memory: *mut c_void,
        count: c_int, datatype: usize, comm: usize
    ) |next| packing::unpack(next, packed, size, position, memory, count, datatype, comm);

    MPI_Recv (
        memory: *mut c_void, count: c_int, datatype: usize, from: c_int, tag: c_int, comm: usize,
        status: *mut c_void
    ) |next| message::recv(next, memory, count, datatype, from, tag, comm, status);
    MPI_Sendrecv (
        memory: *const c_void, count: c_int, datatype: usize, to: c_int, tag: c_int,
        into: *mut c_void, space: c_int, into_type: usize, from: c_int, from_tag: c_int,
        comm: usize, status: *mut c_void
    ) |next| message::sendrecv(
        next, memory, count, datatype, to, tag, into, space, into_type, from, from_tag, comm, status
    );

    MPI_Wait (request: *mut c_void, status: *mut c_void)
        |next| complete::any(1, request, status, |status| next(request, status));
    MPI_Test (request: *mut c_void, flag: *mut c_int, status: *mut c_void)
        |next| complete::any(1, request, status, |status| next(request, flag, status));
    MPI_Request_get_status (
        request: usize, flag: *mut c_int, status: *mut c_void
    ) |next| complete::get_status(next, request, flag, status);
    MPI_Request_free (request: *mut c_void)
        |next| complete::free(next, request);
    MPI_Waitany (
        count: c_int, requests: *mut c_void, index: *mut c_int, status: *mut c_void
    ) |next| complete::any(count, requests, status, |status| {
        next(count, requests, index, status)
    });
    MPI_Testany (
        count: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int,
        status: *mut c_void
    ) |next| complete::any(count, requests, status, |status| {
        next(count, requests, index, flag, status)
    });
    MPI_Waitall (count: c_int, requests: *mut c_void, statuses: *mut c_void)
        |next| complete::all(count, requests, statuses, |statuses| {
            next(count, requests, statuses)
        });
    MPI_Testall (
        count: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void
    ) |next| complete::all(count, requests, statuses, |statuses| {
        next(count, requests, flag, statuses)
    });
    MPI_Waitsome (
        count: c_int, requests: *mut c_void, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut c_void
    ) |next| complete::some(next, count, requests, completed, indices, statuses);
    MPI_Testsome (
        count: c_int, requests: *mut c_void, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut c_void
    ) |next| complete::some(next, count, requests, completed, indices, statuses);
}

export! {
    each call: Call { Send MPI_Send, Ssend MPI_Ssend, Rsend MPI_Rsend, }
    (memory: *const c_void, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize)
    |next| message::send(next, call, memory, count, datatype, to, tag, comm)
}

export! {
    each call: Call {
        Isend MPI_Isend,
        Issend MPI_Issend,
        Irsend MPI_Irsend,
        Irecv MPI_Irecv,
    } (
        memory: *mut c_void, count: c_int, datatype: usize, peer: c_int, tag: c_int,
        comm: usize, request: *mut c_void
    ) |next| message::begin(next, call, memory, count, datatype, peer, tag, comm, request)
}

/// The datatype at `place`, for what is kept of types.
///
/// # Safety
/// \[MPI\]
unsafe fn after_type(place: *const c_void, with: impl FnOnce(usize)) {
    let _ = shielded(|| {
        let mpi = mpi::get().filter(|_| !place.is_null())?;
        // SAFETY: [MPI].
        with(unsafe { mpi.read(place, 0) });
        Some(())
    });
}

/// What is to be done before MPI ends.
fn end() {
    static ENDED: AtomicBool = AtomicBool::new(false);
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _ = shielded(|| {
        let mpi = mpi::get();
        if let Some(mpi) = mpi {
            requests::sweep(mpi, true);
        }
        types::clear();
        stats::print(mpi.map_or("an MPI that is not known", |mpi| mpi.name()));
        Some(())
    });
}
