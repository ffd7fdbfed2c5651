//! Which errors of a window's calls MPI has a class for.

use rankway::rma::{Error, ErrorKind};

/// The class of a refused call; each plug-in has its device layer's code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `MPI_ERR_RANK`.
    Rank,
    /// `MPI_ERR_RMA_RANGE`.
    Range,
    /// `MPI_ERR_BUFFER`.
    Buffer,
    /// `MPI_ERR_RMA_SYNC`.
    Sync,
    /// `MPI_ERR_OP`.
    Operation,
    /// `MPI_ERR_WIN`.
    Window,
    /// `MPI_ERR_NO_MEM`.
    Memory,
    /// `MPI_ERR_ARG`.
    Argument,
}

impl Class {
    /// `None` of what cannot be gone on from: whatever fails below, as by the death of a peer,
    /// takes the window's consistency with it.
    #[cold]
    pub fn of(error: &Error) -> Option<Class> {
        Some(match error.kind() {
            ErrorKind::Rank { .. } => Class::Rank,
            ErrorKind::OutOfBounds { .. }
            | ErrorKind::LayoutOutOfBounds { .. }
            | ErrorKind::NotExposed { .. }
            | ErrorKind::Refused { .. } => Class::Range,
            ErrorKind::NullBuffer { .. } => Class::Buffer,
            ErrorKind::NoEpoch | ErrorKind::Epoch { .. } | ErrorKind::NotInEpoch { .. } => {
                Class::Sync
            }
            ErrorKind::Operation { .. } => Class::Operation,
            ErrorKind::Freed => Class::Window,
            ErrorKind::Memory { .. } | ErrorKind::MemberMemory { .. } => Class::Memory,
            ErrorKind::Arguments(_)
            | ErrorKind::Member { .. }
            | ErrorKind::Layout(_)
            | ErrorKind::Length { .. } => Class::Argument,
            _ => return None,
        })
    }
}
