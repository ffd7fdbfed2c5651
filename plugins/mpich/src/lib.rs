//! The Rust half of a CH4 netmod of MPICH, linked into `libmpi`.
//!
//! The C half (`netmod/`) has the functions that CH4 compiles in; what they do not do
//! themselves they call here, through a table of functions of the netmod that was
//! chosen ([`calls`]).
//!
//! ```text
//! host     MPICH's functions that are called from here    decides nothing
//! log      how the job ends
//! nodes    which node each process is on
//! boot     the launcher, through MPICH's PMI
//! map      a communicator's ranks as a rank map
//! by_node  its ranks by node
//! state    device and context (rankway_plugin)
//! message  tagged messages
//! active   active messages of MPICH's own protocols
//! fault    errors as answers
//! other_jobs  processes of other jobs
//! datatype datatypes as layouts
//! window   windows
//! rma      operations on them
//! epoch    their epochs
//! calls    the table that C sees; opens and closes
//! ```
//!
//! Each imports those above it alone.
//!
//! # Contracts
//! What the C half answers for, named once:
//!
//! - **\[MPI\]** The state is the one that `rkw_open` gave, until `rkw_close`; one thread
//!   at a time calls (MPICH's global lock). Places for answers can be written.
//! - **\[BUF\]** A buffer holds as many bytes as it is told, and is the operation's until
//!   its request is completed.
//! - **\[REQ\]** A cookie is the address of an MPICH request that stays until it is
//!   completed, which is once.

mod active;
mod boot;
mod by_node;
mod calls;
mod datatype;
mod epoch;
mod fault;
mod host;
mod log;
mod map;
mod message;
mod nodes;
mod other_jobs;
mod rma;
mod state;
mod window;
