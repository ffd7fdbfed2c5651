//! Operations that the target's Open MPI computes.
//!
//! Elements travel at the extent of their type, so that the target's reduction
//! function works on them as they are; pairs may have gaps, which are never
//! written. `code` is Open MPI's Fortran numbers, which are the same in all
//! processes for what is predefined.

use super::element::is_no_op;
use super::fault::code;
use super::module::Module;
use crate::{datatype, ffi};
use rankway::datatype::Layout;
use rankway::netmod::Netmod;
use rankway::rma::Custom;
use std::ffi::c_int;

/// The origin gets the elements as they were.
const FETCH: u64 = 1 << 62;
/// The elements stay.
const KEEP: u64 = 1 << 61;

/// An operation on a predefined type that is not Rankway's.
pub(super) struct CustomOp {
    pub(super) basic: *mut ffi::ompi_datatype_t,
    pub(super) op: *mut ffi::ompi_op_t,
}

/// Elements of the target that lie at the distance of their extent.
struct Run {
    /// Bytes from the operation's place to the first.
    at: isize,
    count: usize,
}

impl CustomOp {
    /// # Safety
    /// As [`CustomOp::each`].
    pub(super) unsafe fn update<N: Netmod>(
        &self,
        module: &Module<N>,
        packed: &[u8],
        rank: u32,
        offset: usize,
        to: &Layout,
    ) -> c_int {
        // SAFETY: [MPI].
        unsafe { self.each(module, packed, None, rank, offset, to) }
    }

    /// # Safety
    /// As [`CustomOp::each`].
    pub(super) unsafe fn fetch<N: Netmod>(
        &self,
        module: &Module<N>,
        packed: &[u8],
        results: &mut [u8],
        rank: u32,
        offset: usize,
        to: &Layout,
    ) -> c_int {
        // SAFETY: [MPI].
        unsafe { self.each(module, packed, Some(results), rank, offset, to) }
    }

    /// Sends the operation, run by run. Operands and results are packed.
    ///
    /// # Safety
    /// Type and operation are alive; `to` are whole elements of the type.
    unsafe fn each<N: Netmod>(
        &self,
        module: &Module<N>,
        packed: &[u8],
        mut results: Option<&mut [u8]>,
        rank: u32,
        offset: usize,
        to: &Layout,
    ) -> c_int {
        // SAFETY: [MPI].
        let (ty, no_op) = unsafe { (&(*self.basic).super_, is_no_op(self.op)) };
        let (size, extent, end) = (ty.size, (ty.ub - ty.lb) as usize, ty.true_ub as usize);
        if size == 0 || extent == 0 {
            return ffi::MPI_ERR_TYPE as c_int;
        }
        // SAFETY: both are alive.
        let mut number = unsafe {
            (*self.op).o_f_to_c_index as u64 | ((*self.basic).d_f_to_c_index as u64) << 24
        };
        number |= if results.is_some() { FETCH } else { 0 } | if no_op { KEEP } else { 0 };
        let longest = match module.window.custom_limit(rank) {
            Ok(longest) => longest,
            Err(e) => return code(&e),
        };
        let most = (longest / extent).max(1);
        let mut done = 0;
        for run in runs(to, size, extent) {
            let mut from = 0;
            while from < run.count {
                let count = most.min(run.count - from);
                let span = (count - 1) * extent + end;
                // SAFETY: the type is alive.
                let Some(spread) = (unsafe { datatype::layout(self.basic, count) }) else {
                    return ffi::MPI_ERR_TYPE as c_int;
                };
                let operand = match no_op {
                    true => Vec::new(),
                    false => {
                        let mut operand = vec![0; span];
                        let Some(piece) = packed.get(done..done + count * size) else {
                            return ffi::MPI_ERR_TRUNCATE as c_int;
                        };
                        // SAFETY: the span of `count` elements.
                        unsafe { spread.unpack_raw(operand.as_mut_ptr(), 0, piece) };
                        operand
                    }
                };
                let mut old = vec![0; if results.is_some() { span } else { 0 }];
                let Some(at) = offset.checked_add_signed(run.at + (from * extent) as isize) else {
                    return ffi::OMPI_ERR_RMA_RANGE;
                };
                let sent = module.window.custom(number, &operand, &mut old, rank, at, span);
                if let Err(e) = sent {
                    return code(&e);
                }
                if let Some(results) = results.as_deref_mut()
                    && let Some(place) = results.get_mut(done..done + count * size)
                {
                    // SAFETY: the span of `count` elements.
                    unsafe { spread.pack_raw(old.as_ptr(), 0, place) };
                }
                done += count * size;
                from += count;
            }
        }
        ffi::SUCCESS
    }
}

/// The elements of `size` bytes that blocks are made of, neighbours joined.
fn runs(layout: &Layout, size: usize, extent: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut packed = 0_usize;
    layout.for_each_block(|at, len| {
        let (at, len) = (at as isize, len as usize);
        // The first element that begins within the block.
        let mut byte = packed.next_multiple_of(size) - packed;
        while byte < len {
            let place = at + byte as isize;
            match runs.last_mut() {
                Some(run) if run.at + (run.count * extent) as isize == place => run.count += 1,
                _ => runs.push(Run { at: place, count: 1 }),
            }
            byte += size;
        }
        packed += len;
    });
    runs
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
    // SAFETY: a type from Open MPI's table.
    let base = unsafe { &(*ty).super_ };
    let (extent, end) = ((base.ub - base.lb) as usize, base.true_ub as usize);
    if extent == 0 || custom.span < end || !(custom.span - end).is_multiple_of(extent) {
        return false;
    }
    let count = (custom.span - end) / extent + 1;
    if custom.code & FETCH != 0 {
        // SAFETY: the memory holds the span.
        result.extend_from_slice(unsafe { std::slice::from_raw_parts(custom.at, custom.span) });
    }
    if custom.code & KEEP != 0 {
        return true;
    }
    if custom.operand.len() != custom.span {
        return false;
    }
    // The operand, where its elements are aligned.
    let mut operand = vec![0_u128; custom.span.div_ceil(16)];
    // SAFETY: both hold the span; type and operation are Open MPI's, and so is
    // the check that they go together, made where the operation was called.
    unsafe {
        let from = operand.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(custom.operand.as_ptr(), from, custom.span);
        if (*op).op_type == ffi::OMPI_OP_REPLACE {
            let Some(spread) = datatype::layout(ty, count) else { return false };
            let mut packed = vec![0; spread.size() as usize];
            spread.pack_raw(from, 0, &mut packed);
            spread.unpack_raw(custom.at, 0, &packed);
        } else if !ffi::rw_op_reduce(op, from.cast(), custom.at.cast(), count, ty) {
            return false;
        }
    }
    true
}
