//! One-sided operations, checked.

use crate::abi::*;
use crate::args::{buffer, element, list, operation, out, rank};
use crate::error::{Fail, call};
use crate::objects::{Elements, Pieces, Win};
use crate::operation::Operation;
use crate::table::{TableGuard, find};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// Puts `bytes` bytes into the memory of a rank, `target_disp` units from its
/// start. The origin is the operation's until a flush. rankway_put_unchecked is
/// for callers that have checked everything themselves.
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
        let buf = buffer(origin.cast(), bytes)?;
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
        let buf = buffer(origin.cast(), bytes)?.cast_mut();
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
        let operands = buffer(origin.cast(), count)?;
        let of = Elements { operands, results: null_mut(), count, ty, op };
        // SAFETY: [BUF].
        unsafe { found.accumulate(&of, rank(target_rank)?, target_disp) }
    })
}

/// As rankway_accumulate, with the elements as they were in `result` after a
/// flush. With RANKWAY_NO_OP the origin may be null.
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

fn fetched(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<Elements, Fail> {
    let (ty, op) = (element(datatype)?, operation(op)?);
    let needed = if op == transport::netmod::Op::NoOp { 0 } else { count };
    let operands = buffer(origin.cast(), needed)?;
    let results = buffer(result.cast(), count)?.cast_mut();
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
        let compare = buffer(compare.cast(), 1)?;
        // SAFETY: [BUF].
        unsafe { found.compare_and_swap(&of, compare, rank(target_rank)?, target_disp) }
    })
}

/// Puts iov entries of the origin into those of the memory of a rank, which
/// count from `target_disp` units on; both lists have as many bytes. With
/// `request` null the origin is the operation's until a flush, else until the
/// request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_put_iov(
    origin: *const c_void,
    origin_count: c_int,
    origin_iov: *const rankway_iov_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: c_int,
    target_iov: *const rankway_iov_t,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    call("rankway_put_iov", || {
        let found = find::<Rc<dyn Win>>(win)?;
        // SAFETY: [PTR], [BUF].
        unsafe {
            let of = Pieces {
                buf: origin.cast(),
                here: iov(origin_count, origin_iov, "origin_iov")?,
                rank: rank(target_rank)?,
                disp: target_disp,
                there: iov(target_count, target_iov, "target_iov")?,
            };
            return_request(&found.guard, Rc::clone(&found).put_iov(&of)?, request)
        }
    })
}

/// Gets iov entries of the memory of a rank into those of the origin, as
/// rankway_put_iov puts them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_get_iov(
    origin: *mut c_void,
    origin_count: c_int,
    origin_iov: *const rankway_iov_t,
    target_rank: c_int,
    target_disp: usize,
    target_count: c_int,
    target_iov: *const rankway_iov_t,
    win: rankway_win_t,
    request: *mut rankway_request_t,
) -> c_int {
    call("rankway_get_iov", || {
        let found = find::<Rc<dyn Win>>(win)?;
        // SAFETY: [PTR], [BUF].
        unsafe {
            let of = Pieces {
                buf: origin.cast(),
                here: iov(origin_count, origin_iov, "origin_iov")?,
                rank: rank(target_rank)?,
                disp: target_disp,
                there: iov(target_count, target_iov, "target_iov")?,
            };
            return_request(&found.guard, Rc::clone(&found).get_iov(&of)?, request)
        }
    })
}

/// # Safety
/// `at` is null or readable for `n` entries.
unsafe fn iov(n: c_int, at: *const rankway_iov_t, what: &str) -> Result<Vec<(usize, usize)>, Fail> {
    // SAFETY: [PTR].
    let list = unsafe { list(n, at, what)? };
    Ok(list.iter().map(|entry| (entry.at, entry.bytes)).collect())
}

/// A handle for an operation, where one is wanted; else the flush ends it.
///
/// # Safety
/// `request` is null or can be written to.
unsafe fn return_request(
    guard: &TableGuard,
    operation: Operation,
    request: *mut rankway_request_t,
) -> Result<(), Fail> {
    // SAFETY: [PTR].
    if let Ok(to) = unsafe { out(request, "request") } {
        to.set(guard.insert::<Operation>(operation)?);
    }
    Ok(())
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
    call("rankway_rput", || {
        // SAFETY: [PTR].
        let to = unsafe { out(request, "request")? };
        let found = find::<Rc<dyn Win>>(win)?;
        let buf = buffer(origin.cast(), bytes)?;
        // SAFETY: [BUF].
        let operation =
            unsafe { Rc::clone(&found).rput(buf, bytes, rank(target_rank)?, target_disp)? };
        to.set(found.guard.insert::<Operation>(operation)?);
        Ok(())
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
    call("rankway_rget", || {
        // SAFETY: [PTR].
        let to = unsafe { out(request, "request")? };
        let found = find::<Rc<dyn Win>>(win)?;
        let buf = buffer(origin.cast(), bytes)?.cast_mut();
        // SAFETY: [BUF].
        let operation =
            unsafe { Rc::clone(&found).rget(buf, bytes, rank(target_rank)?, target_disp)? };
        to.set(found.guard.insert::<Operation>(operation)?);
        Ok(())
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
    call("rankway_rget_accumulate", || {
        // SAFETY: [PTR].
        let to = unsafe { out(request, "request")? };
        let found = find::<Rc<dyn Win>>(win)?;
        let of = fetched(origin, result, count, datatype, op)?;
        // SAFETY: [BUF].
        let operation =
            unsafe { Rc::clone(&found).rget_accumulate(&of, rank(target_rank)?, target_disp)? };
        to.set(found.guard.insert::<Operation>(operation)?);
        Ok(())
    })
}
