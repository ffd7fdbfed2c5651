//! A libfabric provider that completes every operation at once: the infinitely
//! fast network.
//!
//! Put the shared library (any name that ends in `fi.so`) in a directory of
//! `FI_PROVIDER_PATH` and any libfabric program sees a provider `rankway_null`
//! with `FI_EP_RDM` endpoints. A write, read, send or atomic is checked, counted
//! and completed inside the call; what remains of a communication library's cost
//! is its own. The idea is that of MPICH's "infinitely fast network" runs
//! (Raffenetti et al., *Why Is MPI So Slow?*, SC '17).
//!
//! What it does: refuses what a real provider refuses (an address never
//! inserted, an inject longer than `inject_size`, a full completion queue, a key
//! in use, closing what is in use), and counts operations and bytes, so that a
//! test can tell that none was lost: through counters, and on standard error at
//! `fi_close` of the endpoint when `RANKWAY_NULL_STATS=1`. Has no space for so
//! many milliseconds when `RANKWAY_NULL_BUSY` says so.
//!
//! What it never does: move a byte (reads and fetching atomics leave their
//! buffers as they are), talk to another process, or complete a receive.
//!
//! ```text
//! data     one call: check, complete, count          busy  no space for a while
//! ep       endpoints             av   who may be addressed
//! cq       completion queues     cntr counters             eq  never an event
//! domain   opens the above, registers memory
//! fabric   opens domains         info what fi_getinfo answers
//! object   what every object starts with
//! ```
//!
//! # Contracts
//! What the program answers for by the man pages, named once:
//!
//! - **\[OPEN\]** An object that is passed is an open one of this provider's; nobody
//!   binds, enables or closes it meanwhile, and what it was opened on or bound to
//!   is closed after it.
//! - **\[ARG\]** Attributes, hints, names, messages and vectors are null or whole, as
//!   long as they say; places for answers can be written.
//! - **\[APART\]** Without `SAFE` the program keeps threads apart.
//!
//! Nothing is linked: libfabric calls in through tables, and the provider needs
//! of it only the number that fi_version(3) gives.

mod av;
#[path = "../../../src/netmod/ofi/bindings.rs"]
#[rustfmt::skip]
mod bindings;
mod busy;
mod cntr;
mod cq;
mod data;
mod domain;
mod ep;
mod eq;
mod fabric;
mod info;
mod object;
mod settings;

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};

use bindings::*;

/// The name that `FI_PROVIDER` and hints know it by.
pub(crate) const NAME: &CStr = c"rankway_null";

/// `FI_VERSION(major, minor)`.
const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// The provider's own version.
pub(crate) const VERSION: u32 = version(0, 1);

struct Provider(UnsafeCell<fi_provider>);

// SAFETY: written by `fi_prov_ini`, which libfabric calls once, under its own
// initialisation lock; afterwards libfabric alone uses it.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: VERSION,
    fi_version: version(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    context: fi_context { internal: [core::ptr::null_mut(); 4] },
    name: NAME.as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::fabric),
    cleanup: Some(cleanup),
}));

/// Called by libfabric once, when it has loaded this file.
///
/// # Safety
/// Only libfabric calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_prov_ini() -> *mut fi_provider {
    let provider = PROVIDER.0.get();
    if let Some(version) = libfabric_version() {
        // SAFETY: libfabric calls once and has not got the pointer yet.
        unsafe { (*provider).fi_version = version };
    }
    provider
}

extern "C" fn cleanup() {}

/// What fi_version(3) answers in this process: libfabric takes a provider only
/// when it says that it was made for a version it knows.
fn libfabric_version() -> Option<u32> {
    let symbol = |handle: *mut c_void| {
        // SAFETY: the handle is a dlsym pseudo handle or an open library.
        let address = unsafe { libc::dlsym(handle, c"fi_version".as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    // A program that has opened libfabric privately does not show its symbols;
    // asking for the library by name, without loading it, gives its handle.
    let private = || {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: nothing is loaded; the name is a C string.
        let handle = unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), flags) };
        (!handle.is_null()).then_some(handle)
    };
    let address = symbol(libc::RTLD_DEFAULT).or_else(|| symbol(private()?))?;
    // SAFETY: fabric.h declares `uint32_t fi_version(void)`.
    Some(unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(address)() })
}
