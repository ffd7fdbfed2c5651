//! Rankway's errors as Open MPI's codes.

use crate::ffi;
use crate::log::{abort, log};
use rankway::rma::{Error, ErrorKind};
use std::ffi::c_int;

/// Open MPI's code for an error; what it says goes to the user's terminal if
/// the verbosity asks for it. The death of a peer ends the job, by name: MPI
/// has no way to go on without one.
#[cold]
pub(super) fn code(error: &Error) -> c_int {
    log(1, || error.to_string());
    match error.kind() {
        ErrorKind::Rank { .. } => ffi::MPI_ERR_RANK as c_int,
        ErrorKind::OutOfBounds { .. }
        | ErrorKind::LayoutOutOfBounds { .. }
        | ErrorKind::Refused { .. } => ffi::OMPI_ERR_RMA_RANGE,
        ErrorKind::NullBuffer { .. } => ffi::MPI_ERR_BUFFER as c_int,
        ErrorKind::NoEpoch | ErrorKind::Epoch { .. } | ErrorKind::NotInEpoch { .. } => {
            ffi::OMPI_ERR_RMA_SYNC
        }
        ErrorKind::Operation { .. } => ffi::MPI_ERR_OP as c_int,
        ErrorKind::Freed => ffi::OMPI_ERR_WIN,
        ErrorKind::Memory { .. } => ffi::OMPI_ERR_OUT_OF_RESOURCE,
        ErrorKind::Arguments(_) | ErrorKind::Layout(_) => ffi::MPI_ERR_ARG as c_int,
        // Whatever fails below takes the window's consistency with it.
        _ => abort(&error.to_string()),
    }
}

/// A result as Open MPI's code.
#[inline]
pub(super) fn answer(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => ffi::SUCCESS,
        Err(error) => code(&error),
    }
}
