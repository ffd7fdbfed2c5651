//! Rankway under a stock Open MPI: an MTL and an OSC component in one library.
//!
//! Installed under two names, `mca_mtl_rankway.so` and `mca_osc_rankway.so`,
//! which are links to one file, so that both share one device and one context
//! ([`state`]). Open MPI opens it at run time; nothing of it is rebuilt.
//!
//! ```text
//! ffi      Open MPI's structures, the C shim          decides nothing
//! version  is this the Open MPI we were built for
//! params   MCA parameters
//! boot     the launcher, through Open MPI's modex
//! state    device, context, lock, progress, abort
//! comm     a communicator's group as a rank map
//! mtl      two-sided: pml/cm's lower half
//! osc      one-sided
//! ```
//!
//! Matching, transport and address translation are Rankway's; nothing here
//! looks at Open MPI's process tables for a message.

mod boot;
mod comm;
mod ffi;
mod mtl;
mod osc;
mod params;
mod state;
mod version;

pub use mtl::component::mca_mtl_rankway_component;
pub use osc::mca_osc_rankway_component;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that C calls: no panic goes out. One that
/// happens ends the job, as its state can no longer be trusted.
#[inline]
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| state::abort("a bug in rankway"))
}
