//! Rankway's errors as Open MPI's codes.

use crate::ffi;
use crate::log::{abort, explain, log};
use rankway::rma::Error;
use rankway_plugin::Class;
use std::ffi::c_int;

/// Open MPI's code for an error; what it says goes to the user's terminal if
/// the verbosity asks for it. The death of a peer ends the job, by name: MPI
/// has no way to go on without one.
#[cold]
pub(super) fn code(error: &Error) -> c_int {
    log(1, || explain(error, error.peer()));
    match Class::of(error) {
        Some(Class::Rank) => ffi::MPI_ERR_RANK as c_int,
        Some(Class::Range) => ffi::OMPI_ERR_RMA_RANGE,
        Some(Class::Buffer) => ffi::MPI_ERR_BUFFER as c_int,
        Some(Class::Sync) => ffi::OMPI_ERR_RMA_SYNC,
        Some(Class::Operation) => ffi::MPI_ERR_OP as c_int,
        Some(Class::Window) => ffi::OMPI_ERR_WIN,
        Some(Class::Memory) => ffi::OMPI_ERR_OUT_OF_RESOURCE,
        Some(Class::Argument) => ffi::MPI_ERR_ARG as c_int,
        None => abort(&explain(error, error.peer())),
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
