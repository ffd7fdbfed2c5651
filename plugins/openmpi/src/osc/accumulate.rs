//! Accumulate, get_accumulate, fetch_and_op, compare_and_swap.
//!
//! Elements that Rankway has operations on take its paths, in layouts. All others
//! (pairs with MPI_MINLOC, complex long doubles) go to the target's process, whose
//! Open MPI computes ([`super::custom`]): atomic with each other, and never mixed
//! with the first kind on one element, since the type decides.

use super::access::{Memory, Side, sides};
use super::custom::{OnPredefined, failed};
use super::element::{element, is_no_op, is_predefined, operation, predefined};
use super::fault::{answer, code};
use super::module::Module;
use super::stored::{CachedOp, swap};
use crate::ffi;
use crate::log::guarded;
use rankway::netmod::{Netmod, Op, Type};
use rankway::rma::{Error, Pending};
use std::ffi::{c_int, c_void};

/// A target of operations on elements.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) target: c_int,
    pub(super) disp: isize,
    pub(super) side: Side,
}

pub(super) unsafe extern "C" fn accumulate<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    op: *mut ffi::ompi_op_t,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let (here, there) = (Side { count, ty }, Side { count: target_count, ty: target_ty });
    // SAFETY: live datatypes and operations, a buffer as they say.
    unsafe {
        if here == there
            && let Some((cached, at)) = elements_at(module, target, disp, there, op)
            && let Some(()) = module.gate.enter(at, || {
                cached.run(at, buf.cast(), std::ptr::null_mut(), count as usize);
            })
        {
            module.count_store();
            return ffi::SUCCESS;
        }
        let place = Place { target, disp, side: there };
        guarded(|| update(module, buf.cast(), here, place, op))
    }
}

/// A few elements of a predefined type that lie in memory mapped here, for the
/// processor to work on, and how; `None` where they take the general path.
///
/// # Safety
/// `side` is of a live datatype, `op` an operation.
#[inline(always)]
unsafe fn elements_at<N: Netmod>(
    module: &Module<N>,
    target: c_int,
    disp: isize,
    side: Side,
    op: *const ffi::ompi_op_t,
) -> Option<(CachedOp, *mut u8)> {
    /// More of them take the general path.
    const FEW: u32 = 16;
    let count = side.count as u32;
    if module.threads || module.start.is_null() || count.wrapping_sub(1) >= FEW {
        return None;
    }
    let mut cached = module.cached.get();
    if !cached.is_of(side.ty, op) {
        // SAFETY: [MPI], [BUF].
        cached = unsafe { CachedOp::find(side.ty, op)? };
        module.cached.set(cached);
    }
    let offset = module.fast_offset(target, disp, count as usize * cached.size)?;
    // SAFETY: epoch, rank and bounds were looked at.
    let at = unsafe { module.at(target as u32, offset) };
    (at.addr() & (cached.size - 1) == 0).then_some((cached, at))
}

/// MPI_Accumulate; the origin's buffer is free on return.
///
/// # Safety
/// As MPI_Accumulate.
pub(super) unsafe fn update<N: Netmod>(
    module: &Module<N>,
    buf: *const u8,
    here: Side,
    place: Place,
    op: *mut ffi::ompi_op_t,
) -> c_int {
    // SAFETY: [MPI], [BUF], here and below.
    unsafe {
        if here == place.side
            && is_predefined(here.ty)
            && let (Some(elem), Some(op)) = (element(here.ty), operation(op))
            && let Some(offset) = module.offset(place.target, place.disp)
        {
            let (count, rank) = (here.count.max(0) as usize, place.target as u32);
            let sent = || module.window.accumulate_raw(buf, count, elem, op, rank, offset);
            return module.enter(|_| answer(sent()));
        }
        let buf = buf.cast_mut().cast();
        let (from, to, offset) =
            match sides(module, buf, here, place.target, place.disp, place.side) {
                Ok(sides) => sides,
                Err(code) => return code,
            };
        if to.size() == 0 {
            return module.enter(|_| answer(empty_operation(module, place.target, offset)));
        }
        let Some(basic) = predefined(place.side.ty) else { return ffi::MPI_ERR_TYPE as c_int };
        let (rank, window) = (place.target as u32, &module.window);
        let (Some(_), Some(op)) = (element(basic), operation(op)) else {
            let packed = from.packed();
            let Some(of) = OnPredefined::new(basic, op) else { return ffi::MPI_ERR_TYPE as c_int };
            let sent = module.enter(|_| of.custom().run(window, &packed, None, rank, offset, &to));
            return sent.map_or_else(|why| failed(&why), |()| ffi::SUCCESS);
        };
        let sent = || window.accumulate_layout_raw(from.start, &from.layout, op, rank, offset, &to);
        module.enter(|_| answer(sent()))
    }
}

/// An operation on no elements, which is refused like one on some.
fn empty_operation<N: Netmod>(
    module: &Module<N>,
    target: c_int,
    offset: usize,
) -> Result<(), Error> {
    // SAFETY: no elements.
    unsafe {
        let none = std::ptr::null();
        module.window.accumulate_raw(none, 0, Type::U8, Op::Replace, target as u32, offset)
    }
}

pub(super) unsafe extern "C" fn get_accumulate<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    result: *mut c_void,
    result_count: c_int,
    result_ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    op: *mut ffi::ompi_op_t,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let there = Side { count: target_count, ty: target_ty };
    let place = Place { target, disp, side: there };
    let (here, back) = (Side { count, ty }, Side { count: result_count, ty: result_ty });
    // SAFETY: live datatypes and operations, buffers as they say.
    unsafe {
        // The origin's side says nothing with MPI_NO_OP.
        if back == there
            && (here == there || is_no_op(op))
            && let Some((cached, at)) = elements_at(module, target, disp, there, op)
            && let Some(()) = module.gate.enter(at, || {
                cached.run(at, buf.cast(), result.cast(), target_count as usize);
            })
        {
            module.count_store();
            return ffi::SUCCESS;
        }
    }
    // SAFETY: as above.
    guarded(|| unsafe {
        match fetch(module, buf.cast(), here, result.cast(), back, place, op) {
            Ok(pending) => {
                module.enter(|_| drop(pending));
                ffi::SUCCESS
            }
            Err(code) => code,
        }
    })
}

/// MPI_Get_accumulate; the results are there at the end of what is answered.
///
/// # Safety
/// As MPI_Get_accumulate.
pub(super) unsafe fn fetch<'a, N: Netmod>(
    module: &'a Module<N>,
    buf: *const u8,
    here: Side,
    result: *mut u8,
    back: Side,
    place: Place,
    op: *mut ffi::ompi_op_t,
) -> Result<Option<Pending<'a, N>>, c_int> {
    // SAFETY: [MPI], [BUF], here and below.
    unsafe {
        let (into, to, offset) =
            sides(module, result.cast(), back, place.target, place.disp, place.side)?;
        if to.size() == 0 {
            let looked = module.enter(|_| empty_operation(module, place.target, offset));
            return looked.map(|()| None).map_err(|e| code(&e));
        }
        let no_type = ffi::MPI_ERR_TYPE as c_int;
        let basic = predefined(place.side.ty).ok_or(no_type)?;
        let from = match is_no_op(op) {
            // The origin's side says nothing then.
            true => Memory { start: std::ptr::null_mut(), layout: to.clone() },
            false => here.around(buf.cast_mut())?,
        };
        if from.layout.size() != to.size() {
            return Err(ffi::MPI_ERR_TRUNCATE as c_int);
        }
        let (rank, window) = (place.target as u32, &module.window);
        let (Some(_), Some(op)) = (element(basic), operation(op)) else {
            let operands = if from.start.is_null() { Vec::new() } else { from.packed() };
            let mut results = vec![0; to.size() as usize];
            let of = OnPredefined::new(basic, op).ok_or(ffi::MPI_ERR_TYPE as c_int)?;
            let fetched = Some(&mut results[..]);
            let sent =
                module.enter(|_| of.custom().run(window, &operands, fetched, rank, offset, &to));
            sent.map_err(|why| failed(&why))?;
            into.layout.unpack_raw(into.start, 0, &results);
            return Ok(None);
        };
        let (operands, from) = (from.start.cast_const(), &from.layout);
        let (results, into) = (into.start, &into.layout);
        let sent =
            || window.rget_accumulate_layout(operands, from, results, into, op, rank, offset, &to);
        module.enter(|_| sent()).map(Some).map_err(|e| code(&e))
    }
}

pub(super) unsafe extern "C" fn fetch_and_op<N: Netmod>(
    buf: *const c_void,
    result: *mut c_void,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    op: *mut ffi::ompi_op_t,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: a live window, datatype and operation; one element each.
    unsafe {
        let module = Module::<N>::of(win);
        let one = Side { count: 1, ty };
        if let Some((cached, at)) = elements_at(module, target, disp, one, op)
            && let Some(()) = module.gate.enter(at, || cached.run(at, buf.cast(), result.cast(), 1))
        {
            module.count_store();
            return ffi::SUCCESS;
        }
        guarded(|| {
            // (MPI_Accumulate and MPI_Get_accumulate look at that themselves.)
            if !ffi::rw_op_is_for(op, ty) {
                return ffi::MPI_ERR_OP as c_int;
            }
            if let (Some(elem), Some(op), Some(offset)) =
                (element(ty), operation(op), module.offset(target, disp))
            {
                let (buf, result) = (buf.cast(), result.cast());
                return module.enter(|_| {
                    let window = &module.window;
                    let rank = target as u32;
                    answer(window.fetch_and_op_raw(buf, result, elem, op, rank, offset))
                });
            }
            let place = Place { target, disp, side: one };
            match fetch(module, buf.cast(), one, result.cast(), one, place, op) {
                Ok(pending) => {
                    module.enter(|_| drop(pending));
                    ffi::SUCCESS
                }
                Err(code) => code,
            }
        })
    }
}

pub(super) unsafe extern "C" fn compare_and_swap<N: Netmod>(
    new: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: a live window and datatype; one element each.
    unsafe {
        let module = Module::<N>::of(win);
        let Some(elem) = element(ty) else { return ffi::MPI_ERR_TYPE as c_int };
        if !module.threads
            && !module.start.is_null()
            && let Some(offset) = module.fast_offset(target, disp, elem.size())
        {
            let at = module.at(target as u32, offset);
            let swapped =
                module.gate.enter(at, || swap(elem, at, compare.cast(), new.cast(), result.cast()));
            if swapped == Some(true) {
                module.count_store();
                return ffi::SUCCESS;
            }
        }
        guarded(|| {
            let Some(offset) = module.offset(target, disp) else {
                return ffi::OMPI_ERR_RMA_RANGE;
            };
            let (new, compare, result) = (new.cast(), compare.cast(), result.cast());
            module.enter(|_| {
                let window = &module.window;
                let rank = target as u32;
                answer(window.compare_and_swap_raw(new, compare, result, elem, rank, offset))
            })
        })
    }
}
