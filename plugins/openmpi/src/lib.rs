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
//! log      what is said, and how the job ends
//! boot     the launcher, through Open MPI's modex
//! datatype a datatype as a layout
//! buffer   where a message's bytes are
//! request  a message under way, and how it ends
//! senders  communicators' rank maps by channel
//! state    device and context (rankway_plugin), acquired and released
//! comm     a communicator's group as a rank map
//! mtl      two-sided: pml/cm's lower half
//! osc      one-sided
//! ```
//!
//! Each imports those above it alone: what Open MPI calls stands in tables
//! (`mtl::table`, `osc::table`), which the functions do not know.
//!
//! # Contracts
//! What Open MPI answers for, named once:
//!
//! - **\[MPI\]** A handle that it passes is a live one of its kind: this component's
//!   module or window, a communicator that was added, a group, datatype,
//!   operation, info, prepared convertor. Places for answers can be written.
//! - **\[BUF\]** A buffer holds what count and datatype say, and is the operation's
//!   until its request is completed or the window synchronised; both sides of an
//!   operation do not overlap.
//! - **\[REQ\]** The place of a request has the size that the module asks for, and
//!   stays, with its convertor, until the request is completed, which is once.
//!
//! Matching, transport and address translation are Rankway's; nothing here
//! looks at Open MPI's process tables for a message.

mod boot;
mod buffer;
mod comm;
mod datatype;
mod ffi;
mod log;
mod mtl;
mod osc;
mod params;
mod request;
mod senders;
mod state;
mod version;

pub use mtl::component::mca_mtl_rankway_component;
pub use osc::mca_osc_rankway_component;
