//! Operations that the target's Open MPI computes ([`rankway_plugin::custom`]).

use super::element::is_no_op;
use super::fault::code;
use crate::{datatype, ffi};
use rankway::rma::Custom;
use rankway_plugin::custom::{Change, CustomOp, Elements, Failed, carry_out};
use std::ffi::c_int;

/// An operation on a predefined type that is not Rankway's.
#[derive(Debug)]
pub(super) struct OnPredefined {
    code: u64,
    elements: Elements,
    keep: bool,
}

impl OnPredefined {
    /// `None` of a type without bytes.
    ///
    /// # Safety
    /// \[MPI\]: a predefined type, and an operation.
    pub(super) unsafe fn new(
        basic: *mut ffi::ompi_datatype_t,
        op: *mut ffi::ompi_op_t,
    ) -> Option<OnPredefined> {
        // SAFETY: [MPI]. Fortran's numbers are the same in all processes for what is predefined.
        unsafe {
            let code = (*op).o_f_to_c_index as u64 | ((*basic).d_f_to_c_index as u64) << 24;
            let elements = datatype::layout(basic, 1).and_then(Elements::new)?;
            Some(OnPredefined { code, elements, keep: is_no_op(op) })
        }
    }

    pub(super) fn custom(&self) -> CustomOp<'_> {
        CustomOp { code: self.code, elements: &self.elements, keep: self.keep }
    }
}

/// Open MPI's code for an operation that was not carried out.
#[cold]
pub(super) fn failed(why: &Failed) -> c_int {
    match why {
        Failed::Type => ffi::MPI_ERR_TYPE as c_int,
        Failed::Truncated => ffi::MPI_ERR_TRUNCATE as c_int,
        Failed::Range => ffi::OMPI_ERR_RMA_RANGE,
        Failed::Window(error) => code(error),
    }
}

/// Carries out an operation of a peer's on this process's memory.
///
/// # Safety
/// As [`rankway::rma::Operator`].
pub(super) unsafe fn operator(custom: &Custom<'_>, result: &mut Vec<u8>) -> bool {
    let (op, ty) = (custom.code & 0xff_ffff, custom.code >> 24 & 0xff_ffff);
    // SAFETY: numbers of whatever value are looked up in Open MPI's tables.
    let (op, ty) = unsafe { (ffi::MPI_Op_f2c(op as c_int), ffi::MPI_Type_f2c(ty as c_int)) };
    if op.is_null() || ty.is_null() {
        return false;
    }
    // SAFETY: a type and an operation from Open MPI's tables; that they go together was
    // checked where the operation was called. The operator's contract.
    unsafe {
        let Some(elements) = datatype::layout(ty, 1).and_then(Elements::new) else { return false };
        let change = match (*op).op_type {
            ffi::OMPI_OP_REPLACE => Change::Replace,
            _ => Change::Reduce(|from: *mut u8, to: *mut u8, count| {
                ffi::rw_op_reduce(op, from.cast(), to.cast(), count, ty)
            }),
        };
        carry_out(custom, result, &elements, change)
    }
}
