//! What Open MPI loads: `mca_mtl_rankway_component`.

use super::{module, table};
use crate::log::print;
use crate::state::{self, Chosen};
use crate::{ffi, params, version};
use std::ffi::{c_char, c_int};

type Query =
    Option<unsafe extern "C" fn(*mut *mut ffi::mca_base_module_2_0_0_t, *mut c_int) -> c_int>;

/// The head that all components have.
pub(crate) const fn base(
    framework: &str,
    interface: c_int,
    query: Query,
) -> ffi::mca_base_component_2_1_0_t {
    let (major, minor, release) = version::BUILT;
    ffi::mca_base_component_2_1_0_t {
        mca_major_version: ffi::MCA_BASE_VERSION_MAJOR as c_int,
        mca_minor_version: ffi::MCA_BASE_VERSION_MINOR as c_int,
        mca_release_version: ffi::MCA_BASE_VERSION_RELEASE as c_int,
        mca_project_name: ffi::name("ompi"),
        mca_project_major_version: major as c_int,
        mca_project_minor_version: minor as c_int,
        mca_project_release_version: release as c_int,
        mca_type_name: ffi::name(framework),
        mca_type_major_version: interface,
        mca_type_minor_version: 0,
        mca_type_release_version: 0,
        mca_component_name: ffi::name("rankway"),
        mca_component_major_version: own(env!("CARGO_PKG_VERSION_MAJOR")),
        mca_component_minor_version: own(env!("CARGO_PKG_VERSION_MINOR")),
        mca_component_release_version: own(env!("CARGO_PKG_VERSION_PATCH")),
        mca_open_component: None,
        mca_close_component: None,
        mca_query_component: query,
        mca_register_component_params: Some(register),
        mca_component_flags: 0,
        reserved: [0 as c_char; 28],
    }
}

/// A number of this crate's own version.
const fn own(digits: &str) -> c_int {
    let (bytes, mut at, mut number) = (digits.as_bytes(), 0, 0);
    while at < bytes.len() {
        number = number * 10 + (bytes[at] - b'0') as c_int;
        at += 1;
    }
    number
}

/// What Open MPI looks for in `mca_mtl_rankway.so`.
#[unsafe(no_mangle)]
pub static mut mca_mtl_rankway_component: ffi::mca_mtl_base_component_2_0_0_t =
    ffi::mca_mtl_base_component_2_0_0_t {
        mtl_version: base("mtl", 2, Some(query)),
        mtl_data: ffi::mca_base_component_data_2_0_0_t { param_field: 0, reserved: [0; 32] },
        mtl_init: Some(init),
        #[cfg(openmpi5)]
        accelerator_support: false,
    };

unsafe extern "C" fn register() -> c_int {
    register_shared();
    ffi::SUCCESS
}

/// Registers the parameters that both components share.
pub(crate) fn register_shared() {
    // SAFETY: its address alone is taken; the component lives for ever.
    params::register(unsafe { &raw const mca_mtl_rankway_component.mtl_version });
}

/// Whether this MTL is to be considered: not under an Open MPI that it was not
/// built for.
unsafe extern "C" fn query(
    found: *mut *mut ffi::mca_base_module_2_0_0_t,
    priority: *mut c_int,
) -> c_int {
    if let Some(why) = version::mismatch() {
        decline(&why);
        return ffi::OMPI_ERR_NOT_AVAILABLE;
    }
    // SAFETY: places for the answers. `init` fills the module.
    unsafe {
        *found = module::place().cast();
        *priority = params::priority();
    }
    ffi::SUCCESS
}

/// Opens the device. Null, and Open MPI takes another component, when no
/// provider fits.
unsafe extern "C" fn init(
    _progress_threads: bool,
    mpi_threads: bool,
    #[cfg(openmpi5)] accelerators: *mut bool,
) -> *mut ffi::mca_mtl_base_module_t {
    // Messages of an accelerator's memory are copied by Open MPI.
    #[cfg(openmpi5)]
    // SAFETY: Open MPI's place for the answer.
    unsafe {
        *accelerators = false
    };
    let opened = std::panic::catch_unwind(|| state::acquire(mpi_threads, true));
    match opened.unwrap_or_else(|_| Err("a bug in rankway".into())) {
        Ok(chosen) => rankway::match_netmod!(chosen, Chosen(state) => table::module(state)),
        Err(why) => {
            decline(&why);
            std::ptr::null_mut()
        }
    }
}

/// Says why the component does not run: to who asks for words, and to who asked
/// for this component.
fn decline(why: &str) {
    let wanted = |name| std::env::var(name).is_ok_and(|list: String| list.contains("rankway"));
    if params::verbosity() >= 1 || wanted("OMPI_MCA_mtl") || wanted("OMPI_MCA_osc") {
        print(&format!("this component does not run: {why}"));
    }
}
