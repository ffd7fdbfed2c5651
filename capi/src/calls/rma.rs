//! One-sided operations, checked.

use crate::abi::*;
use crate::args::{answer, buffer, bytes_at, element, elements, operation, out, rank};
use crate::calls::message::begin;
use crate::custom::{self, CustomOp, Function};
use crate::error::{Fail, call};
use crate::objects::{Context, Elements, Laid, Win};
use crate::operation::Operation;
use crate::table::{self, find};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use transport::datatype::Layout;
use transport::netmod::Op;

/// Puts `bytes` bytes into the memory of a rank, `target_disp` units from its
/// start. The origin is the operation's until a flush, and does not overlap what
/// it is put to, as in every operation here. rankway_put_unchecked is for callers
/// that have checked everything themselves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_put(
    origin: *const c_void,
    bytes: usize,
    target_rank: c_int,
    target_disp: usize,
    win: rankway_win_t,
) -> c_int {
    call("rankway_put", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let buf = buffer("origin", origin.cast(), bytes)?;
        // SAFETY: [BUF].
        unsafe { found.put(buf, bytes, rank(target_rank)?, target_disp) }
    })
}

/// Gets `bytes` bytes from the memory of a rank. They are there after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_get(
    origin: *mut c_void,
    bytes: usize,
    target_rank: c_int,
    target_disp: usize,
    win: rankway_win_t,
) -> c_int {
    call("rankway_get", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let buf = buffer("origin", origin.cast(), bytes)?.cast_mut();
        // SAFETY: [BUF].
        unsafe { found.get(buf, bytes, rank(target_rank)?, target_disp) }
    })
}

/// Applies a rankway_op to `count` elements of a rankway_type in the memory of
/// a rank, with those at the origin, which may be used again on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_accumulate(
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    target_rank: c_int,
    target_disp: usize,
    op: c_int,
    win: rankway_win_t,
) -> c_int {
    call("rankway_accumulate", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let (ty, op) = (element(datatype)?, operation(op)?);
        let operands = elements("origin", origin, count, ty)?;
        let of = Elements { operands, results: null_mut(), count, ty, op };
        // SAFETY: [BUF].
        unsafe { found.accumulate(&of, rank(target_rank)?, target_disp) }
    })
}

/// As rankway_accumulate, with the elements as they were in `result` after a
/// flush. With RANKWAY_NO_OP the origin may be null. Origin and result must not overlap
/// (MPI_Get_accumulate).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_get_accumulate(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    target_rank: c_int,
    target_disp: usize,
    op: c_int,
    win: rankway_win_t,
) -> c_int {
    call("rankway_get_accumulate", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let of = fetched(origin, result, count, datatype, op)?;
        // SAFETY: [BUF].
        unsafe { found.get_accumulate(&of, rank(target_rank)?, target_disp) }
    })
}

/// rankway_get_accumulate of one element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: c_int,
    target_rank: c_int,
    target_disp: usize,
    op: c_int,
    win: rankway_win_t,
) -> c_int {
    call("rankway_fetch_and_op", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let of = fetched(origin, result, 1, datatype, op)?;
        // SAFETY: [BUF].
        unsafe { found.get_accumulate(&of, rank(target_rank)?, target_disp) }
    })
}

#[cold]
fn overlap() -> Fail {
    let why = "origin and result overlap; MPI wants them apart: take another buffer for the result";
    Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
}

fn fetched(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<Elements, Fail> {
    let (ty, op) = (element(datatype)?, operation(op)?);
    let needed = if op == Op::NoOp { 0 } else { count };
    let operands = elements("origin", origin, needed, ty)?;
    let results = elements("result", result, count, ty)?.cast_mut();
    if operands.addr().abs_diff(results.addr()) < needed.saturating_mul(ty.size()) {
        return Err(overlap());
    }
    Ok(Elements { operands, results, count, ty, op })
}

/// Puts the element at the origin in the place of one that equals `compare`,
/// and brings the element as it was into `result` after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: c_int,
    target_rank: c_int,
    target_disp: usize,
    win: rankway_win_t,
) -> c_int {
    call("rankway_compare_and_swap", || {
        let found = find::<Rc<dyn Win>>(win)?;
        let replace = rankway_op::RANKWAY_REPLACE as c_int;
        let of = fetched(origin, result, 1, datatype, replace)?;
        let compare = elements("compare", compare, 1, of.ty)?;
        // SAFETY: [BUF].
        unsafe { found.compare_and_swap(&of, compare, rank(target_rank)?, target_disp) }
    })
}

/// A side of an operation: so many elements of a datatype.
type Side = (u64, rankway_type_t);

fn side((count, datatype): Side) -> Result<Layout, Fail> {
    Ok(table::layout(datatype)?.times(count)?)
}

/// The rank and displacement of an operation, and the side there.
type Target = (c_int, usize, Side);

fn laid<P>(buf: P, here: Layout, target: Target) -> Result<Laid<P>, Fail> {
    let (target_rank, disp, there) = target;
    Ok(Laid { buf, here, rank: rank(target_rank)?, disp, there: side(there)? })
}

/// The elements of a side around a buffer of this process, which is null only where there are
/// none.
fn around(name: &str, buf: *const c_void, of: Side) -> Result<Layout, Fail> {
    let elements = side(of)?;
    buffer(name, buf.cast(), elements.size() as usize)?;
    Ok(elements)
}

/// Begins an operation with datatypes. It has a handle where one is wanted; else the
/// flush ends it.
///
/// # Safety
/// `request` is null or can be written to.
unsafe fn begin_typed(
    name: &str,
    win: rankway_win_t,
    request: *mut rankway_request_t,
    operation: impl FnOnce(Rc<dyn Win>) -> Result<Operation, Fail>,
) -> c_int {
    call(name, || {
        let found = find::<Rc<dyn Win>>(win)?;
        let operation = operation(Rc::clone(&found))?;
        // SAFETY: [PTR].
        if let Ok(to) = unsafe { out(request, "request") } {
            to.set(found.guard.insert::<Operation>(operation)?);
        }
        Ok(())
    })
}

/// Puts `origin_count` elements of a datatype at the origin to where
/// `target_count` elements of another have them in the memory of a rank, around
/// `target_disp` units; both have as many bytes, which are paired in the order of
/// the type maps. With `request` null the origin is the operation's until a
/// flush, else until the request is complete (MPI_Put, MPI_Rput).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_put_typed(
    origin: *const c_void,
    origin_count: u64,
    origin_type: rankway_type_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: u64,
    target_type: rankway_type_t,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    let target = (target_rank, target_disp, (target_count, target_type));
    // SAFETY: [PTR], [BUF].
    unsafe {
        begin_typed("rankway_put_typed", win, request, |win| {
            let here = around("origin", origin, (origin_count, origin_type))?;
            win.put_layout(&laid(origin.cast(), here, target)?)
        })
    }
}

/// Gets elements of a datatype from the memory of a rank, as rankway_put_typed
/// puts them. With `request` null they are there after a flush (MPI_Get,
/// MPI_Rget).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_get_typed(
    origin: *mut c_void,
    origin_count: u64,
    origin_type: rankway_type_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: u64,
    target_type: rankway_type_t,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    let target = (target_rank, target_disp, (target_count, target_type));
    // SAFETY: [PTR], [BUF].
    unsafe {
        begin_typed("rankway_get_typed", win, request, |win| {
            let here = around("origin", origin, (origin_count, origin_type))?;
            win.get_layout(&laid(origin.cast(), here, target)?)
        })
    }
}

/// rankway_accumulate with datatypes of one and the same basic type. The origin
/// may be used again on return; `request` may be null (MPI_Accumulate,
/// MPI_Raccumulate).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_accumulate_typed(
    origin: *const c_void,
    origin_count: u64,
    origin_type: rankway_type_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: u64,
    target_type: rankway_type_t,
    op: c_int,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    let target = (target_rank, target_disp, (target_count, target_type));
    // SAFETY: [PTR], [BUF].
    unsafe {
        begin_typed("rankway_accumulate_typed", win, request, |win| {
            let here = around("origin", origin, (origin_count, origin_type))?;
            let of = laid(origin.cast(), here, target)?;
            win.accumulate_layout(&of, None, operation(op)?)
        })
    }
}

/// rankway_get_accumulate with datatypes of one and the same basic type. With
/// `request` null the elements as they were are in `result` after a flush; with
/// RANKWAY_NO_OP the origin may be null, and its datatype is not looked at. Origin and
/// result must not overlap (MPI_Get_accumulate, MPI_Rget_accumulate).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_get_accumulate_typed(
    origin: *const c_void,
    origin_count: u64,
    origin_type: rankway_type_t,
    result: *mut c_void,
    result_count: u64,
    result_type: rankway_type_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: u64,
    target_type: rankway_type_t,
    op: c_int,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    let target = (target_rank, target_disp, (target_count, target_type));
    // SAFETY: [PTR], [BUF].
    unsafe {
        begin_typed("rankway_get_accumulate_typed", win, request, |win| {
            let op = operation(op)?;
            let into = around("result", result, (result_count, result_type))?;
            let here = match op {
                Op::NoOp => into.clone(),
                _ => around("origin", origin, (origin_count, origin_type))?,
            };
            let of = laid(origin.cast(), here, target)?;
            win.accumulate_layout(&of, Some((result.cast(), into)), op)
        })
    }
}

/// rankway_put with a request: complete when the origin may be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rput(
    origin: *const c_void,
    bytes: usize,
    target_rank: c_int,
    target_disp: usize,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_rput", to, win, |win: &Rc<dyn Win>| {
        let buf = buffer("origin", origin.cast(), bytes)?;
        // SAFETY: [BUF].
        unsafe { Rc::clone(win).rput(buf, bytes, rank(target_rank)?, target_disp) }
    })
}

/// rankway_get with a request: complete when the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rget(
    origin: *mut c_void,
    bytes: usize,
    target_rank: c_int,
    target_disp: usize,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_rget", to, win, |win: &Rc<dyn Win>| {
        let buf = buffer("origin", origin.cast(), bytes)?.cast_mut();
        // SAFETY: [BUF].
        unsafe { Rc::clone(win).rget(buf, bytes, rank(target_rank)?, target_disp) }
    })
}

/// rankway_get_accumulate with a request: complete when the result is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_rget_accumulate(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    target_rank: c_int,
    target_disp: usize,
    op: c_int,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(request, "request") };
    begin("rankway_rget_accumulate", to, win, |win: &Rc<dyn Win>| {
        let of = fetched(origin, result, count, datatype, op)?;
        // SAFETY: [BUF].
        unsafe { Rc::clone(win).rget_accumulate(&of, rank(target_rank)?, target_disp) }
    })
}

/// Has a function carry out rankway_custom on the windows of this process: one
/// for the process, which stays until it ends, registered before a peer's first
/// custom operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_register_operator(
    context: rankway_context_t,
    operator: rankway_operator_t,
) -> c_int {
    call("rankway_register_operator", || {
        let function = operator.ok_or_else(|| Fail::null("operator"))?;
        // SAFETY: the same function, of which less is assumed.
        let function = unsafe { std::mem::transmute::<usize, Function>(function as usize) };
        let found = find::<Rc<dyn Context>>(context)?;
        custom::set(function)?;
        found.register_operator();
        Ok(())
    })
}

/// Has the process of a rank carry out an operation of the caller's own, `code`,
/// on `span` bytes of its memory: pairs of MPI_MINLOC, types that rankway_type
/// does not have. Atomic with other custom operations on the window, in order
/// with all towards the rank, and carried out when the target makes progress. The
/// operand may be used again on return. With `request` null the result is there
/// after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_custom(
    code: u64,
    operand: *const c_void,
    operand_bytes: usize,
    result: *mut c_void,
    result_bytes: usize,
    target_rank: c_int,
    target_disp: usize,
    span: usize,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    // SAFETY: [PTR], [BUF].
    unsafe {
        begin_typed("rankway_custom", win, request, |win| {
            win.custom(&CustomOp {
                code,
                operand: bytes_at("operand", (operand, operand_bytes))?,
                result: buffer("result", result.cast(), result_bytes)?.cast_mut(),
                len: result_bytes,
                rank: rank(target_rank)?,
                disp: target_disp,
                span,
            })
        })
    }
}

/// The most bytes of operand, and of result, that one rankway_custom on a rank has. More are
/// refused with RANKWAY_ERR_ARG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_custom_limit(
    target_rank: c_int,
    win: rankway_win_t,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(bytes, "bytes") };
    answer("rankway_custom_limit", to, || {
        find::<Rc<dyn Win>>(win)?.custom_limit(rank(target_rank)?)
    })
}
