//! Who talks in which communicator: what a process records of itself while a program
//! runs, and what the records of all say together.
//!
//! ```text
//! event       a call, as 32 bytes
//! definition  a communicator, group or window as one of its members knows it, as 24 bytes
//! file        what a process recorded, as a file
//! reader      the same, a piece at a time
//! unify       what all processes recorded, put together along a tree
//! recorder    records: rings of the threads, live definitions, the thread that writes them
//! ```
//!
//! Geimer et al., "Scaling Performance Tool MPI Communicator Management" (EuroMPI 2011),
//! is where the scheme comes from: no process holds who is in a communicator, each keeps
//! its own rank there and what names the communicator everywhere; the members are put
//! together after the run. Events keep ranks of their communicator.
//!
//! Nothing here knows an MPI library or a network: who records calls in.

mod clock;
mod definition;
mod encoding;
mod environment;
mod error;
mod event;
mod file;
mod live;
mod open_files;
mod partial;
mod reader;
mod recorder;
mod ring;
#[cfg(test)]
mod ring_tests;
mod runs;
mod sink;
mod sync;
mod unify;

pub use definition::{Constructor, Definition, DefinitionFlags, Identity, NO_PARENT, ObjectKind};
pub use environment::Asked;
pub use error::TrackError;
pub use event::{CallClass, Event, EventFlags, Kind, NO_PEER};
pub use file::{Chunk, Defined, FILE_ENDING, Header, ProcessTrace, Writer};
pub use open_files::close_all;
pub use partial::Partial;
pub use reader::{Damage, ThreadEvents};
pub use recorder::{Recorder, Recording, Summary};
pub use unify::{Group, Job, Object, Unified};
