//! One-sided communication: declines every window for now, so that Open MPI
//! takes another component.

use crate::ffi;
use std::ffi::{c_int, c_void};

/// What Open MPI looks for in `mca_osc_rankway.so`.
#[unsafe(no_mangle)]
pub static mut mca_osc_rankway_component: ffi::ompi_osc_base_component_2_0_0_t =
    ffi::ompi_osc_base_component_2_0_0_t {
        osc_version: crate::mtl::component::base("osc", 3, None),
        osc_data: ffi::mca_base_component_data_2_0_0_t { param_field: 0, reserved: [0; 32] },
        osc_init: Some(init),
        osc_query: Some(query),
        osc_select: Some(select),
        osc_finalize: Some(finalize),
    };

unsafe extern "C" fn init(_progress_threads: bool, _mpi_threads: bool) -> c_int {
    ffi::SUCCESS
}

unsafe extern "C" fn query(
    _win: *mut ffi::ompi_win_t,
    _base: *mut *mut c_void,
    _size: usize,
    _disp_unit: c_int,
    _comm: *mut ffi::ompi_communicator_t,
    _info: *mut ffi::opal_info_t,
    _flavor: c_int,
) -> c_int {
    -1
}

unsafe extern "C" fn select(
    _win: *mut ffi::ompi_win_t,
    _base: *mut *mut c_void,
    _size: usize,
    _disp_unit: c_int,
    _comm: *mut ffi::ompi_communicator_t,
    _info: *mut ffi::opal_info_t,
    _flavor: c_int,
    _model: *mut c_int,
) -> c_int {
    ffi::OMPI_ERR_NOT_SUPPORTED
}

unsafe extern "C" fn finalize() -> c_int {
    ffi::SUCCESS
}
