//! One-sided communication: Rankway's windows under Open MPI's.
//!
//! ```text
//! mod         the component: query and select
//! create      windows made, freed, attached to
//! table       the functions Open MPI calls
//! module      what Open MPI's window points to
//! access      put, get
//! accumulate  operations on elements      element  which of them Rankway has
//! stored      those on mapped memory
//! custom      those it has not
//! epoch       fence, groups, locks, flushes
//! request     operations with a request
//! fault       errors as codes
//! ```
//!
//! Works beside any PML. Never looks at messages.

mod access;
mod accumulate;
mod create;
mod custom;
mod element;
mod epoch;
mod fault;
mod module;
mod request;
mod stored;
mod table;

use crate::log::{guarded, log};
use crate::state::{self, Chosen};
use crate::{ffi, mtl, params};
use rankway::match_netmod;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

const HEAD: ffi::mca_base_component_2_1_0_t = {
    let mut head = crate::mtl::component::base("osc", 3, None);
    head.mca_register_component_params = Some(register);
    head
};

unsafe extern "C" fn register() -> c_int {
    mtl::component::register_shared();
    // SAFETY: its address alone is taken; the component lives for ever.
    params::register_osc(unsafe { &raw const mca_osc_rankway_component.osc_version });
    ffi::SUCCESS
}

/// What Open MPI looks for in `mca_osc_rankway.so`.
#[unsafe(no_mangle)]
pub static mut mca_osc_rankway_component: ffi::ompi_osc_base_component_2_0_0_t =
    ffi::ompi_osc_base_component_2_0_0_t {
        osc_version: HEAD,
        osc_data: ffi::mca_base_component_data_2_0_0_t { param_field: 0, reserved: [0; 32] },
        osc_init: Some(init),
        osc_query: Some(query),
        osc_select: Some(select),
        osc_finalize: Some(finalize),
    };

/// The device, once a component of this process opened it, and whether there
/// are several threads.
static CHOSEN: Mutex<Option<(Chosen, bool)>> = Mutex::new(None);

fn chosen() -> Option<(Chosen, bool)> {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn init(_progress_threads: bool, threads: bool) -> c_int {
    guarded(|| match state::acquire(threads, false) {
        Ok(state) => {
            *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some((state, threads));
            // SAFETY: a function that stays, as the library is never unloaded.
            unsafe { ffi::opal_progress_register(Some(request::progress)) };
            ffi::SUCCESS
        }
        Err(why) => {
            log(1, || format!("no one-sided communication: {why}"));
            ffi::OMPI_ERR_NOT_AVAILABLE
        }
    })
}

unsafe extern "C" fn query(
    _win: *mut ffi::ompi_win_t,
    _base: *mut *mut c_void,
    _size: usize,
    _disp_unit: c_int,
    comm: *mut ffi::ompi_communicator_t,
    _info: *mut ffi::opal_info_t,
    flavor: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: [MPI].
        let fits = unsafe {
            let Some((chosen, _)) = chosen() else { return -1 };
            match_netmod!(chosen, Chosen(state) => create::check_supported(state, comm, flavor))
        };
        match fits {
            Ok(()) => params::osc_priority(),
            Err(why) => {
                log(1, || format!("leaves a window to another component: {why}"));
                -1
            }
        }
    })
}

unsafe extern "C" fn select(
    win: *mut ffi::ompi_win_t,
    base: *mut *mut c_void,
    size: usize,
    unit: c_int,
    comm: *mut ffi::ompi_communicator_t,
    info: *mut ffi::opal_info_t,
    flavor: c_int,
    model: *mut c_int,
) -> c_int {
    let arguments = create::WindowArguments { base, size, unit, flavor, info };
    guarded(|| {
        // SAFETY: as Open MPI hands them over.
        let made = unsafe {
            match chosen() {
                Some((chosen, threads)) => match_netmod!(
                    chosen,
                    Chosen(state) => {
                        let functions = table::functions(state);
                        create::make(functions, state, threads, win, comm, arguments)
                    }
                ),
                None => Err(ffi::OMPI_ERR_NOT_AVAILABLE),
            }
        };
        match made {
            Ok(()) => {
                // SAFETY: Open MPI's place for the answer.
                unsafe { *model = ffi::MPI_WIN_UNIFIED as c_int };
                ffi::SUCCESS
            }
            Err(code) => code,
        }
    })
}

unsafe extern "C" fn finalize() -> c_int {
    guarded(|| {
        let was = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        if was.is_some() {
            // SAFETY: registered by `init`.
            unsafe { ffi::opal_progress_unregister(Some(request::progress)) };
            state::release();
        }
        ffi::SUCCESS
    })
}
