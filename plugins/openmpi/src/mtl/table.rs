//! The table of entry points, and the communicators' hooks.

use super::module::{self, state};
use super::{probe, recv, send};
use crate::comm::Comm;
use crate::ffi;
use crate::log::{guarded, print};
use crate::request::Request;
use crate::state::{State, release};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// The module, with the functions of a netmod.
pub(super) fn module<N: Netmod>(state: &'static State<N>) -> *mut ffi::mca_mtl_base_module_t {
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
        mtl_del_comm: Some(del_comm::<N>),
    };
    module::fill(base, state)
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

unsafe extern "C" fn del_comm<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
) -> c_int {
    guarded(|| {
        // SAFETY: null, or what `add_comm` put there.
        let kept = unsafe { std::mem::replace(&mut (*comm).c_pml_comm, std::ptr::null_mut()) };
        if !kept.is_null() {
            // SAFETY: made by `add_comm`, taken out once, and Open MPI's module.
            unsafe { Box::from_raw(kept.cast::<Comm>()).release(state::<N>(mtl)) };
        }
        ffi::SUCCESS
    })
}
