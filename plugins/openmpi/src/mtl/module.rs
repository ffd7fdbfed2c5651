//! The module that Open MPI is handed, with the state behind it.

use crate::ffi;
use crate::state::State;
use rankway::netmod::Netmod;
use std::cell::UnsafeCell;
use std::ffi::c_void;
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

/// Fills the module with the functions of the state's netmod.
pub(super) fn fill<N: Netmod>(
    base: ffi::mca_mtl_base_module_t,
    state: &'static State<N>,
) -> *mut ffi::mca_mtl_base_module_t {
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
    // SAFETY: [MPI], and `fill` filled it for this netmod.
    unsafe { &*(*mtl.cast::<Module>()).state.cast::<State<N>>() }
}
