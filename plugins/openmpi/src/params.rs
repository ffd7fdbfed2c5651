//! MCA parameters: `ompi_info --param mtl rankway --level 9` lists them.

use crate::ffi;
use rankway::rankmap::compact::Strategy;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Storage that Open MPI writes to: while a component registers, and when a
/// user sets a parameter before the library is initialised.
struct Storage<T>(UnsafeCell<T>);

// SAFETY: Open MPI registers and reads parameters in one thread, before any
// other knows this library; afterwards they are read only.
unsafe impl<T> Sync for Storage<T> {}

impl<T: Copy> Storage<T> {
    const fn new(value: T) -> Storage<T> {
        Storage(UnsafeCell::new(value))
    }

    fn get(&self) -> T {
        // SAFETY: nobody writes meanwhile, see `Sync`.
        unsafe { *self.0.get() }
    }
}

type Text = Storage<*const c_char>;

static NETMOD: Text = Storage::new(std::ptr::null());
static PROVIDER: Text = Storage::new(std::ptr::null());
static STRATEGY: Text = Storage::new(std::ptr::null());
static EAGER: Storage<usize> = Storage::new(0);
static PRIORITY: Storage<c_int> = Storage::new(30);
static VERBOSE: Storage<c_int> = Storage::new(0);
static OSC_PRIORITY: Storage<c_int> = Storage::new(120);

/// What Open MPI knows a component by.
pub(crate) type Component = *const ffi::mca_base_component_2_1_0_t;

/// Registers the parameters both components share, under the name of the MTL;
/// again and again does no harm. The component lives for ever.
pub(crate) fn register(mtl: Component) {
    let text = ffi::MCA_BASE_VAR_TYPE_STRING;
    let (usual, detail) = (ffi::OPAL_INFO_LVL_3, ffi::OPAL_INFO_LVL_9);
    variable(
        mtl,
        c"netmod",
        c"The network library: ofi (libfabric) or ucx. Empty: ofi, or ucx where that alone is \
          installed",
        text,
        usual,
        &NETMOD,
    );
    variable(
        mtl,
        c"provider",
        c"Providers by name, separated by commas: node (Rankway's own), or libfabric's, such as \
          shm, tcp;ofi_rxm or node,verbs;ofi_rxm (rankway info lists them). Empty: node where the \
          processes may attach to each other, else shm, and the best network for the rest. UCX \
          goes by UCX_TLS and UCX_NET_DEVICES instead",
        text,
        usual,
        &PROVIDER,
    );
    variable(
        mtl,
        c"eager_limit",
        c"Messages longer than this many bytes are sent by rendezvous. 0: the longest that fits \
          in a packet of the provider",
        ffi::MCA_BASE_VAR_TYPE_SIZE_T,
        usual,
        &EAGER,
    );
    variable(
        mtl,
        c"map_strategy",
        c"How rank maps without a formula are kept: table, time (shortest lookup), space (fewest \
          bytes), hybrid or hybrid:W with W the weight of time from 0 to 1. Empty: as a table, \
          past 64 KiB as hybrid",
        text,
        detail,
        &STRATEGY,
    );
    variable(
        mtl,
        c"priority",
        c"Priority of this component; pml ob1 has 20",
        ffi::MCA_BASE_VAR_TYPE_INT,
        detail,
        &PRIORITY,
    );
    variable(
        mtl,
        c"verbose",
        c"What is said: 0 errors, 1 also why the component does not run, 10 also what it runs \
          over, 20 also each communicator's map",
        ffi::MCA_BASE_VAR_TYPE_INT,
        detail,
        &VERBOSE,
    );
}

/// Registers the one parameter that the OSC component has of its own. The
/// component lives for ever.
pub(crate) fn register_osc(osc: Component) {
    variable(
        osc,
        c"priority",
        c"Priority of this component; osc rdma has 101, sm 100. What else there is to set, both \
          components share: ompi_info --param mtl rankway",
        ffi::MCA_BASE_VAR_TYPE_INT,
        ffi::OPAL_INFO_LVL_9,
        &OSC_PRIORITY,
    );
}

fn variable<T>(
    component: Component,
    name: &CStr,
    help: &CStr,
    kind: ffi::mca_base_var_type_t,
    level: ffi::mca_base_var_info_lvl_t,
    place: &'static Storage<T>,
) {
    // SAFETY: the component and the storage live for ever, the texts are
    // copied, and the storage is of the type named. A failure leaves the
    // default.
    unsafe {
        ffi::mca_base_component_var_register(
            component,
            name.as_ptr(),
            help.as_ptr(),
            kind,
            std::ptr::null_mut(),
            0,
            0,
            level,
            ffi::MCA_BASE_VAR_SCOPE_READONLY,
            place.0.get().cast::<c_void>(),
        )
    };
}

fn string(place: &Text) -> Option<String> {
    let start = place.get();
    if start.is_null() {
        return None;
    }
    // SAFETY: Open MPI keeps a C string there until it deregisters the
    // parameter, after the last use.
    let text = unsafe { CStr::from_ptr(start) }.to_string_lossy().trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// The netmod asked for.
pub(crate) fn netmod() -> Option<String> {
    string(&NETMOD)
}

/// The providers asked for.
pub(crate) fn provider() -> Option<String> {
    string(&PROVIDER)
}

/// The longest message that is sent whole, if the user set a bound.
pub(crate) fn eager_limit() -> Option<usize> {
    Some(EAGER.get()).filter(|&bytes| bytes > 0)
}

/// How irregular rank maps are kept; `None` for tables.
///
/// # Errors
/// For a word that is no strategy.
pub(crate) fn strategy() -> Result<Option<Strategy>, String> {
    let Some(word) = string(&STRATEGY) else { return Ok(Some(Strategy::Auto)) };
    Strategy::named(&word).map_err(|e| format!("mtl_rankway_map_strategy: {e}"))
}

pub(crate) fn priority() -> c_int {
    PRIORITY.get()
}

pub(crate) fn osc_priority() -> c_int {
    OSC_PRIORITY.get()
}

pub(crate) fn verbosity() -> c_int {
    VERBOSE.get()
}
