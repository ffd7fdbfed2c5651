//! Why an operation was refused or failed.

use crate::datatype::LayoutError;
use crate::device::DeviceError;
use std::fmt;

/// An error of a communicator or a window: one pointer, so that a result
/// travels in a register.
#[derive(Debug)]
pub struct WindowError(Box<ErrorKind>);

/// [`WindowError`] under its short name.
pub type Error = WindowError;

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for WindowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl WindowError {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The world rank this is about, if a peer is the cause.
    pub fn peer(&self) -> Option<u32> {
        match &*self.0 {
            ErrorKind::Device(e) => e.rank(),
            ErrorKind::Refused { rank, .. } | ErrorKind::NotExposed { rank } => Some(*rank),
            ErrorKind::Member { peer, .. } | ErrorKind::MemberMemory { peer, .. } => *peer,
            _ => None,
        }
    }
}

impl From<ErrorKind> for WindowError {
    #[cold]
    fn from(kind: ErrorKind) -> WindowError {
        WindowError(Box::new(kind))
    }
}

impl<E: Into<DeviceError>> From<E> for WindowError {
    #[cold]
    fn from(error: E) -> WindowError {
        WindowError(Box::new(ErrorKind::Device(error.into())))
    }
}

/// What to do about an operation that leaves the target's memory.
fn remedy(unit: usize, len: usize, bytes: u64) -> String {
    match bytes.checked_sub(len as u64) {
        Some(left) => format!("displacements up to {} fit", left / (unit as u64).max(1)),
        None => "move less, or make the window larger there".to_owned(),
    }
}

/// The same for a layout of bytes `first..end`.
fn layout_remedy(unit: usize, first: i64, end: i64, bytes: u64) -> String {
    let unit = (unit as u64).max(1);
    let low = first.min(0).unsigned_abs().div_ceil(unit);
    let last = i128::from(bytes) - i128::from(end.max(0));
    match u64::try_from(last).map(|last| last / unit) {
        Ok(high) if low <= high => format!("displacements {low} to {high} fit"),
        _ => "move less, or make the window larger there".to_owned(),
    }
}

/// Of a length that no memory has.
pub(crate) fn too_long(len: usize) -> String {
    format!("a buffer of {len} bytes is longer than any memory: its length is wrong")
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A rank outside the communicator.
    Rank {
        /// The rank given; −1 arrives here as 4294967295.
        rank: u32,
        /// Size of the communicator.
        size: u32,
    },
    /// An operation that leaves the target's memory.
    OutOfBounds {
        /// Target rank.
        rank: u32,
        /// Displacement, in units.
        disp: usize,
        /// Bytes a unit has.
        unit: usize,
        /// Length of the operation, bytes.
        len: usize,
        /// Bytes of the target's memory.
        bytes: u64,
    },
    /// A layout that leaves the target's memory.
    LayoutOutOfBounds {
        /// Target rank.
        rank: u32,
        /// Displacement of the layout's origin, in units.
        disp: usize,
        /// Bytes a unit has.
        unit: usize,
        /// First byte the layout takes, from its origin.
        first: i64,
        /// One past the last.
        end: i64,
        /// Bytes of the target's memory.
        bytes: u64,
    },
    /// A layout that does not fit its memory, or cannot be made.
    Layout(LayoutError),
    /// A null buffer with a length.
    NullBuffer {
        /// Length of the operation, bytes.
        len: usize,
    },
    /// A length that no memory has.
    Length {
        /// The length, bytes.
        len: usize,
    },
    /// An operation while no access epoch is open.
    NoEpoch,
    /// An epoch call that does not fit the one that is open.
    Epoch {
        /// The call.
        call: &'static str,
        /// What is open.
        open: &'static str,
        /// What to call instead.
        remedy: &'static str,
    },
    /// An operation on a rank that the open epoch does not reach.
    NotInEpoch {
        /// The rank, in the access's own numbers.
        rank: u32,
        /// What to call before.
        remedy: &'static str,
    },
    /// An operation that MPI does not have for a type, or that cannot be done.
    Operation {
        /// The elements' type.
        ty: crate::netmod::Type,
        /// The operation.
        op: crate::netmod::Op,
        /// Why not.
        why: &'static str,
    },
    /// A peer did not carry out what it was asked for.
    Refused {
        /// World rank of the peer.
        rank: u32,
        /// Why not.
        why: &'static str,
    },
    /// An operation on memory that a peer does not expose, as what is not attached to a
    /// dynamic window.
    NotExposed {
        /// World rank of the peer.
        rank: u32,
    },
    /// The window was freed.
    Freed,
    /// Arguments that make no sense, or differ between the members.
    Arguments(String),
    /// One member's arguments that make no sense, or what it does not have: all fail.
    Member {
        /// Its rank in the communicator.
        rank: u32,
        /// Its world rank.
        peer: Option<u32>,
        /// What it gave, or does not have.
        why: String,
    },
    /// One member has no memory for a window, or cannot map another's: all fail.
    MemberMemory {
        /// Its rank in the communicator.
        rank: u32,
        /// Its world rank.
        peer: Option<u32>,
        /// What it does not have.
        why: String,
    },
    /// The allgather that the caller brought failed.
    Allgather(String),
    /// Memory of a window.
    Memory {
        /// What was tried.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Device, network, launcher, peers.
    Device(DeviceError),
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Rank { rank, size } => write!(
                f,
                "rank {rank} is out of range: the communicator has {size} ranks, 0 to {}",
                size.wrapping_sub(1)
            ),
            ErrorKind::OutOfBounds { rank, disp, len, bytes: u64::MAX, .. } => write!(
                f,
                "{len} bytes at address {disp:#x} of rank {rank} leave the address space: a \
                 dynamic window's displacements are addresses, as the target has told them"
            ),
            ErrorKind::OutOfBounds { rank, disp, unit, len, bytes } => write!(
                f,
                "{len} bytes at displacement {disp} (units of {unit} bytes) leave the window of \
                 rank {rank}, which has {bytes} bytes: {}",
                remedy(*unit, *len, *bytes)
            ),
            ErrorKind::LayoutOutOfBounds { rank, disp, first, end, bytes: u64::MAX, .. } => write!(
                f,
                "a layout of bytes {first} to {end} around address {disp:#x} of rank {rank} leaves \
                 the address space: a dynamic window's displacements are addresses, as the target \
                 has told them"
            ),
            ErrorKind::LayoutOutOfBounds { rank, disp, unit, first, end, bytes } => write!(
                f,
                "a layout of bytes {first} to {end} around displacement {disp} (units of {unit} \
                 bytes) leaves the window of rank {rank}, which has {bytes} bytes: {}",
                layout_remedy(*unit, *first, *end, *bytes)
            ),
            ErrorKind::Layout(error) => write!(f, "{error}"),
            ErrorKind::NullBuffer { len } => {
                write!(f, "the buffer is null, of which {len} bytes are to be used")
            }
            ErrorKind::Length { len } => f.write_str(&too_long(*len)),
            ErrorKind::NoEpoch => f.write_str(
                "no access epoch is open on this window: call fence, start, lock or lock_all first",
            ),
            ErrorKind::Epoch { call, open, remedy } => write!(f, "{call} while {open}: {remedy}"),
            ErrorKind::NotInEpoch { rank, remedy } => {
                write!(f, "rank {rank} is not in the access epoch that is open: {remedy}")
            }
            ErrorKind::Operation { ty, op, why } => write!(f, "{op:?} on {ty:?}: {why}"),
            ErrorKind::Member { rank, why, .. } | ErrorKind::MemberMemory { rank, why, .. } => {
                write!(f, "rank {rank} {why}")
            }
            ErrorKind::Refused { rank, why } => {
                write!(f, "rank {rank} did not carry out an operation: {why}")
            }
            ErrorKind::NotExposed { rank } => write!(
                f,
                "rank {rank} does not expose this memory in the window: attach it there before, and \
                 detach it after all operations are flushed"
            ),
            ErrorKind::Freed => f.write_str("the window was freed; make a new one"),
            ErrorKind::Arguments(why) => write!(f, "{why}"),
            ErrorKind::Allgather(why) => write!(f, "the allgather of a communicator failed: {why}"),
            ErrorKind::Memory { what, source } => {
                write!(f, "no memory for a window: {what}: {source}")
            }
            ErrorKind::Device(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ErrorKind {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ErrorKind::Memory { source, .. } => Some(source),
            ErrorKind::Device(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_a_window_is_told_what_fits() {
        let told = |disp, unit, len| ErrorKind::OutOfBounds { rank: 3, disp, unit, len, bytes: 60 };
        let why = told(7, 8, 8).to_string();
        assert!(why.contains("rank 3") && why.ends_with("displacements up to 6 fit"), "{why}");
        let why = told(0, 1, 61).to_string();
        assert!(why.ends_with("move less, or make the window larger there"), "{why}");
    }

    #[test]
    fn layouts_are_told_where_they_fit() {
        let told = |disp, first, end| {
            let (rank, unit, bytes) = (3, 8, 60);
            ErrorKind::LayoutOutOfBounds { rank, disp, unit, first, end, bytes }.to_string()
        };
        let why = told(0, -9, 4);
        assert!(why.contains("rank 3") && why.ends_with("displacements 2 to 7 fit"), "{why}");
        assert!(told(6, 0, 16).ends_with("displacements 0 to 5 fit"));
        assert!(told(6, 0, 61).ends_with("larger there"));
        assert!(told(6, -40, 40).ends_with("larger there"));
    }
}
