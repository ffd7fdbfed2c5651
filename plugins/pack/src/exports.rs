//! The functions that a program finds here before MPI's own, by both of their
//! names: Fortran's wrappers of Open MPI call the second.
//!
//! Each calls the next one of its own name, so that a tool between the program and
//! MPI still sees every call.

#![allow(non_snake_case, reason = "MPI's names")]
#![allow(clippy::too_many_arguments, reason = "MPI's")]

use crate::mpi::{self, Function};
use crate::packing::shielded;
use crate::stats::Call;
use crate::{complete, message, packing, requests, stats, types};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// A name as a C string.
const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only 0"),
    }
}

/// Says that the MPI library has no such function; its error code.
#[cold]
fn missing(name: &str) -> c_int {
    eprintln!("rankway_pack: the MPI library has no {name}");
    mpi::failure()
}

macro_rules! export {
    ($($mpi:ident $pmpi:ident ($($arg:ident: $type:ty),*) |$next:ident| $body:expr;)*) => {$(
        export! { one $mpi ($($arg: $type),*) |$next| $body }
        export! { one $pmpi ($($arg: $type),*) |$next| $body }
    )*};
    // Functions that take the same: `which` is the one.
    (each $which:ident { $($call:ident $mpi:ident $pmpi:ident,)* }
        $args:tt |$next:ident| $body:expr) => {$(
        export! { $mpi $pmpi $args |$next| { let $which = Call::$call; $body }; }
    )*};
    (one $name:ident ($($arg:ident: $type:ty),*) |$next:ident| $body:expr) => {
        /// MPI's function of this name.
        ///
        /// # Safety
        /// As MPI has it.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            static NEXT: Function<unsafe extern "C" fn($($type),*) -> c_int> =
                // SAFETY: [SIG], by the MPI standard.
                unsafe { Function::new(name(concat!(stringify!($name), "\0"))) };
            let Some($next) = NEXT.get() else { return missing(stringify!($name)) };
            // SAFETY: [MPI] and [BUF], which the program answers for.
            unsafe { $body }
        }
    };
}

export! {
    MPI_Type_commit PMPI_Type_commit (datatype: *mut c_void) |next| {
        let code = next(datatype);
        if code == 0 {
            after_type(datatype, |handle| types::committed(handle));
        }
        code
    };
    MPI_Type_dup PMPI_Type_dup (of: usize, datatype: *mut c_void) |next| {
        let code = next(of, datatype);
        if code == 0 {
            after_type(datatype, |handle| types::duplicated(of, handle));
        }
        code
    };
    MPI_Type_free PMPI_Type_free (datatype: *mut c_void) |next| {
        after_type(datatype, types::freed);
        next(datatype)
    };
    MPI_Finalize PMPI_Finalize () |next| {
        end();
        next()
    };

    MPI_Pack PMPI_Pack (
        memory: *const c_void, count: c_int, datatype: usize, packed: *mut c_void, size: c_int,
        position: *mut c_int, comm: usize
    ) |next| packing::pack(next, memory, count, datatype, packed, size, position, comm);
    MPI_Unpack PMPI_Unpack (
        packed: *const c_void, size: c_int, position: *mut c_int, memory: *mut c_void,
        count: c_int, datatype: usize, comm: usize
    ) |next| packing::unpack(next, packed, size, position, memory, count, datatype, comm);

    MPI_Recv PMPI_Recv (
        memory: *mut c_void, count: c_int, datatype: usize, from: c_int, tag: c_int, comm: usize,
        status: *mut c_void
    ) |next| message::recv(next, memory, count, datatype, from, tag, comm, status);
    MPI_Sendrecv PMPI_Sendrecv (
        memory: *const c_void, count: c_int, datatype: usize, to: c_int, tag: c_int,
        into: *mut c_void, space: c_int, into_type: usize, from: c_int, from_tag: c_int,
        comm: usize, status: *mut c_void
    ) |next| message::sendrecv(
        next, memory, count, datatype, to, tag, into, space, into_type, from, from_tag, comm, status
    );

    MPI_Wait PMPI_Wait (request: *mut c_void, status: *mut c_void)
        |next| complete::any(1, request, status, |status| next(request, status));
    MPI_Test PMPI_Test (request: *mut c_void, flag: *mut c_int, status: *mut c_void)
        |next| complete::any(1, request, status, |status| next(request, flag, status));
    MPI_Request_get_status PMPI_Request_get_status (
        request: usize, flag: *mut c_int, status: *mut c_void
    ) |next| complete::get_status(next, request, flag, status);
    MPI_Request_free PMPI_Request_free (request: *mut c_void)
        |next| complete::free(next, request);
    MPI_Waitany PMPI_Waitany (
        count: c_int, requests: *mut c_void, index: *mut c_int, status: *mut c_void
    ) |next| complete::any(count, requests, status, |status| {
        next(count, requests, index, status)
    });
    MPI_Testany PMPI_Testany (
        count: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int,
        status: *mut c_void
    ) |next| complete::any(count, requests, status, |status| {
        next(count, requests, index, flag, status)
    });
    MPI_Waitall PMPI_Waitall (count: c_int, requests: *mut c_void, statuses: *mut c_void)
        |next| complete::all(count, requests, statuses, |statuses| {
            next(count, requests, statuses)
        });
    MPI_Testall PMPI_Testall (
        count: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void
    ) |next| complete::all(count, requests, statuses, |statuses| {
        next(count, requests, flag, statuses)
    });
    MPI_Waitsome PMPI_Waitsome (
        count: c_int, requests: *mut c_void, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut c_void
    ) |next| complete::some(next, count, requests, completed, indices, statuses);
    MPI_Testsome PMPI_Testsome (
        count: c_int, requests: *mut c_void, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut c_void
    ) |next| complete::some(next, count, requests, completed, indices, statuses);
}

export! {
    each call { Send MPI_Send PMPI_Send, Ssend MPI_Ssend PMPI_Ssend, Rsend MPI_Rsend PMPI_Rsend, }
    (memory: *const c_void, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize)
    |next| message::send(next, call, memory, count, datatype, to, tag, comm)
}

export! {
    each call {
        Isend MPI_Isend PMPI_Isend,
        Issend MPI_Issend PMPI_Issend,
        Irsend MPI_Irsend PMPI_Irsend,
        Irecv MPI_Irecv PMPI_Irecv,
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
