//! Open MPI's predefined types and operations as Rankway's elements.

use crate::ffi;
use rankway::netmod::{Op, Type};

/// The predefined type that a datatype is made of, if it is of one.
///
/// # Safety
/// `ty` is a datatype.
pub(super) unsafe fn predefined(
    ty: *mut ffi::ompi_datatype_t,
) -> Option<*mut ffi::ompi_datatype_t> {
    // SAFETY: [MPI].
    unsafe {
        if is_predefined(ty) {
            return Some(ty);
        }
        let single = ffi::ompi_datatype_get_single_predefined_type_from_args(ty);
        (!single.is_null()).then_some(single)
    }
}

/// Returns true if a datatype is one of MPI's own.
///
/// # Safety
/// `ty` is a datatype.
#[inline]
pub(super) unsafe fn is_predefined(ty: *const ffi::ompi_datatype_t) -> bool {
    // SAFETY: [MPI].
    let flags = unsafe { (*ty).super_.flags };
    u32::from(flags) & ffi::OMPI_DATATYPE_FLAG_PREDEFINED != 0
}

/// The element a predefined type is; `None` for pairs and sizes Rankway has no
/// operations on, which the target's Open MPI computes.
///
/// # Safety
/// `ty` is a predefined datatype.
#[inline]
pub(super) unsafe fn element(ty: *const ffi::ompi_datatype_t) -> Option<Type> {
    // SAFETY: [MPI].
    let (base, id) = unsafe { (&(*ty).super_, (*ty).id as u32) };
    if (ffi::OMPI_DATATYPE_MPI_2INT..=ffi::OMPI_DATATYPE_MPI_SHORT_INT).contains(&id) {
        return None;
    }
    // Fortran's REAL*16 has the size of C's long double and is another.
    let long_double = id == ffi::OMPI_DATATYPE_MPI_LONG_DOUBLE;
    match (u32::from(base.id), base.size) {
        (ffi::OPAL_DATATYPE_INT1, _) => Some(Type::I8),
        (ffi::OPAL_DATATYPE_INT2, _) => Some(Type::I16),
        (ffi::OPAL_DATATYPE_INT4, _) => Some(Type::I32),
        (ffi::OPAL_DATATYPE_INT8, _) => Some(Type::I64),
        (ffi::OPAL_DATATYPE_UINT1 | ffi::OPAL_DATATYPE_BOOL, 1) => Some(Type::U8),
        (ffi::OPAL_DATATYPE_UINT2, _) => Some(Type::U16),
        (ffi::OPAL_DATATYPE_UINT4, _) => Some(Type::U32),
        (ffi::OPAL_DATATYPE_UINT8, _) => Some(Type::U64),
        (ffi::OPAL_DATATYPE_LONG, 8) => Some(Type::I64),
        (ffi::OPAL_DATATYPE_LONG, 4) => Some(Type::I32),
        (ffi::OPAL_DATATYPE_UNSIGNED_LONG, 8) => Some(Type::U64),
        (ffi::OPAL_DATATYPE_UNSIGNED_LONG, 4) => Some(Type::U32),
        (ffi::OPAL_DATATYPE_WCHAR, 4) => Some(Type::I32),
        (ffi::OPAL_DATATYPE_FLOAT4, _) => Some(Type::F32),
        (ffi::OPAL_DATATYPE_FLOAT8, _) => Some(Type::F64),
        (ffi::OPAL_DATATYPE_FLOAT16, 16) if long_double => Some(Type::F80),
        (ffi::OPAL_DATATYPE_FLOAT_COMPLEX, 8) => Some(Type::C32),
        (ffi::OPAL_DATATYPE_DOUBLE_COMPLEX, 16) => Some(Type::C64),
        _ => None,
    }
}

/// Returns true if an operation is MPI_NO_OP.
#[inline]
pub(super) fn is_no_op(op: *const ffi::ompi_op_t) -> bool {
    std::ptr::eq(op.cast(), &raw const ffi::ompi_mpi_op_no_op)
}

/// An operation of Open MPI's as Rankway's; `None` for MPI_MINLOC and MAXLOC.
///
/// # Safety
/// `op` is an operation.
#[inline]
pub(super) unsafe fn operation(op: *const ffi::ompi_op_t) -> Option<Op> {
    if is_no_op(op) {
        return Some(Op::NoOp);
    }
    // SAFETY: [MPI].
    match unsafe { (*op).op_type } {
        ffi::OMPI_OP_MAX => Some(Op::Max),
        ffi::OMPI_OP_MIN => Some(Op::Min),
        ffi::OMPI_OP_SUM => Some(Op::Sum),
        ffi::OMPI_OP_PROD => Some(Op::Prod),
        ffi::OMPI_OP_LAND => Some(Op::Land),
        ffi::OMPI_OP_BAND => Some(Op::Band),
        ffi::OMPI_OP_LOR => Some(Op::Lor),
        ffi::OMPI_OP_BOR => Some(Op::Bor),
        ffi::OMPI_OP_LXOR => Some(Op::Lxor),
        ffi::OMPI_OP_BXOR => Some(Op::Bxor),
        ffi::OMPI_OP_REPLACE => Some(Op::Replace),
        _ => None,
    }
}
