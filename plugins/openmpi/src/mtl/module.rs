//! The module: the table of entry points, and the communicators' hooks.

use super::request::Request;
use super::{probe, recv, send};
use crate::comm::Comm;
use crate::state::{State, print, release};
use crate::{ffi, guarded};
use rankway::netmod::Netmod;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Open MPI's module, with the state behind it: every entry point is handed
/// it.
#[repr(C)]
pub(super) struct Module {
    base: ffi::mca_mtl_base_module_t,
    /// A `State<N>` of the netmod whose functions stand in the table.
    state: *const c_void,
}

/// The one module: Open MPI asks for its address before it is initialised.
struct Place(UnsafeCell<MaybeUninit<Module>>);

// SAFETY: written by `fill` in the thread that initialises MPI, before any
// other is told of the address; read only afterwards.
unsafe impl Sync for Place {}

static MODULE: Place = Place(UnsafeCell::new(MaybeUninit::zeroed()));

/// Where the module is.
pub(super) fn place() -> *mut ffi::mca_mtl_base_module_t {
    MODULE.0.get().cast()
}

/// Fills the module with the functions of a netmod.
pub(super) fn fill<N: Netmod>(state: &'static State<N>) -> *mut ffi::mca_mtl_base_module_t {
    let base = ffi::mca_mtl_base_module_t {
        mtl_max_contextid: c_int::MAX,
        mtl_max_tag: c_int::MAX,
        mtl_request_size: size_of::<Request>() - size_of::<ffi::mca_mtl_request_t>(),
        mtl_flags: 0,
        mtl_add_procs: Some(add_procs),
        mtl_del_procs: Some(del_procs),
        mtl_finalize: Some(finalize),
        mtl_send: Some(send::send::<N>),
        mtl_isend: Some(send::isend::<N>),
        mtl_irecv: Some(recv::irecv::<N>),
        mtl_iprobe: Some(probe::iprobe::<N>),
        mtl_imrecv: Some(recv::imrecv::<N>),
        mtl_improbe: Some(probe::improbe::<N>),
        mtl_cancel: Some(recv::cancel::<N>),
        mtl_add_comm: Some(add_comm::<N>),
        mtl_del_comm: Some(del_comm),
    };
    let module = Module { base, state: std::ptr::from_ref(state).cast() };
    // SAFETY: nobody reads it yet, see `Place`.
    unsafe { (*MODULE.0.get()).write(module) };
    place()
}

/// The state behind a module.
///
/// # Safety
/// `mtl` was filled for this netmod and not finalized.
#[inline]
pub(super) unsafe fn state<N: Netmod>(mtl: *mut ffi::mca_mtl_base_module_t) -> &'static State<N> {
    // SAFETY: the caller's duty.
    unsafe { &*(*mtl.cast::<Module>()).state.cast::<State<N>>() }
}

/// Nothing: peers are inserted on first use.
unsafe extern "C" fn add_procs(
    _mtl: *mut ffi::mca_mtl_base_module_t,
    _count: usize,
    _procs: *mut *mut ffi::ompi_proc_t,
) -> c_int {
    ffi::SUCCESS
}

unsafe extern "C" fn del_procs(
    _mtl: *mut ffi::mca_mtl_base_module_t,
    _count: usize,
    _procs: *mut *mut ffi::ompi_proc_t,
) -> c_int {
    ffi::SUCCESS
}

unsafe extern "C" fn finalize(_mtl: *mut ffi::mca_mtl_base_module_t) -> c_int {
    guarded(|| {
        release();
        ffi::SUCCESS
    })
}

unsafe extern "C" fn add_comm<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
) -> c_int {
    guarded(|| {
        // SAFETY: Open MPI's module and a communicator with its groups.
        let made = unsafe { Comm::new(state::<N>(mtl), comm) };
        match made {
            Ok(made) => {
                // SAFETY: the field is the MTL's.
                unsafe { (*comm).c_pml_comm = Box::into_raw(Box::new(made)).cast() };
                ffi::SUCCESS
            }
            Err(why) => {
                print(&why);
                ffi::OMPI_ERR_UNREACH
            }
        }
    })
}

unsafe extern "C" fn del_comm(
    _mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
) -> c_int {
    guarded(|| {
        // SAFETY: null, or what `add_comm` put there.
        let kept = unsafe { std::mem::replace(&mut (*comm).c_pml_comm, std::ptr::null_mut()) };
        if !kept.is_null() {
            // SAFETY: made by `add_comm`, taken out once.
            drop(unsafe { Box::from_raw(kept.cast::<Comm>()) });
        }
        ffi::SUCCESS
    })
}
