//! Checks of the arguments that come from C.

use crate::abi::*;
use crate::error::{Fail, call};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use transport::datatype::Basic;
use transport::netmod::{Op, Type};
use transport::rma::{Assert, ErrorKind, WindowError};

/// Where an answer goes.
///
/// # Safety
/// `at` is null or can be written to.
pub(crate) unsafe fn out<T>(at: *mut T, what: &str) -> Result<Out<T>, Fail> {
    if at.is_null() { Err(Fail::null(what)) } else { Ok(Out(at)) }
}

/// A place in C's memory, not null. It may hold anything before.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn set(self, value: T) {
        // SAFETY: not null; [PTR], by who called `out`.
        unsafe { self.0.write(value) };
    }
}

/// Stores an answer, if there is one, where C wants it.
///
/// # Safety
/// `at` is null or can be written to.
pub(crate) unsafe fn tell<T>(at: *mut T, answer: Option<T>) {
    // SAFETY: the caller's.
    if let (Ok(to), Some(answer)) = (unsafe { out(at, "") }, answer) {
        to.set(answer);
    }
}

/// Runs the body of a call that has one answer, once there is a place for it.
#[inline]
pub(crate) fn answer<T>(
    name: &str,
    to: Result<Out<T>, Fail>,
    body: impl FnOnce() -> Result<T, Fail>,
) -> c_int {
    call(name, || {
        let to = to?;
        to.set(body()?);
        Ok(())
    })
}

pub(crate) fn rank(rank: c_int) -> Result<u32, Fail> {
    u32::try_from(rank).map_err(|_| {
        let why = format!("rank {rank} is out of range: ranks begin at 0");
        Fail::new(rankway_code::RANKWAY_ERR_RANK, why)
    })
}

/// A list of ranks. Null is a list of none.
///
/// # Safety
/// `at` is null or readable for `n` ranks.
pub(crate) unsafe fn ranks(n: c_int, at: *const c_int, what: &str) -> Result<Vec<u32>, Fail> {
    // SAFETY: [PTR].
    let list = unsafe { list(n, at, what)? };
    list.iter().map(|&r| rank(r)).collect()
}

/// # Safety
/// `at` is null or readable for `n` elements while the answer is used.
pub(crate) unsafe fn list<'a, T>(
    n: impl TryInto<usize> + Copy + Display,
    at: *const T,
    what: &str,
) -> Result<&'a [T], Fail> {
    let most = isize::MAX as usize / size_of::<T>().max(1);
    let n = n.try_into().ok().filter(|&n| n <= most).ok_or_else(|| {
        Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("{what} has a length of {n}"))
    })?;
    match at.is_null() {
        true if n > 0 => Err(Fail::null(what)),
        true => Ok(&[]),
        // SAFETY: not null; [PTR].
        false => Ok(unsafe { std::slice::from_raw_parts(at, n) }),
    }
}

/// A text; `None` for null.
///
/// # Safety
/// `at` is null or a text with its zero.
pub(crate) unsafe fn text(at: *const c_char, what: &str) -> Result<Option<String>, Fail> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: [PTR].
    let text = unsafe { CStr::from_ptr(at) };
    let text = text
        .to_str()
        .map_err(|_| Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("{what} is not UTF-8")))?;
    Ok(Some(text.to_owned()))
}

/// A buffer, an argument of this name: null only where it is empty.
pub(crate) fn buffer(name: &str, buf: *const u8, len: usize) -> Result<*const u8, Fail> {
    match (buf.is_null(), len) {
        (false, _) => Ok(buf),
        (true, 0) => Ok(std::ptr::dangling()),
        (true, len) => Err(Fail::new(
            rankway_code::RANKWAY_ERR_NULL,
            format!("the buffer `{name}` of {len} bytes is null"),
        )),
    }
}

/// A buffer of so many elements.
pub(crate) fn elements(
    name: &str,
    buf: *const c_void,
    count: usize,
    ty: Type,
) -> Result<*const u8, Fail> {
    // What it says is of bytes, which are counted where it is wrong.
    let of = |len| buffer(name, buf.cast(), len);
    of(count).or_else(|_| of(count.saturating_mul(ty.size())))
}

/// The buffer of a receive.
pub(crate) fn receive_buffer(buf: *mut c_void, len: usize) -> Result<(*mut u8, usize), Fail> {
    if len > isize::MAX as usize {
        return Err(too_long(len));
    }
    Ok((buffer("buf", buf.cast_const().cast(), len)?.cast_mut(), len))
}

#[cold]
fn too_long(len: usize) -> Fail {
    WindowError::from(ErrorKind::Length { len }).into()
}

/// The bytes of a buffer. No memory is as long as what is refused, and sums of what is not do not
/// overflow.
///
/// # Safety
/// It is null or readable for as many bytes while the answer is used.
pub(crate) unsafe fn bytes_at<'a>(
    name: &str,
    (at, len): (*const c_void, usize),
) -> Result<&'a [u8], Fail> {
    if len > isize::MAX as usize / 2 {
        return Err(too_long(len));
    }
    // SAFETY: [BUF]; no null pointer comes out of `buffer`.
    Ok(unsafe { std::slice::from_raw_parts(buffer(name, at.cast(), len)?, len) })
}

/// The type of elements that operations are on.
pub(crate) fn element(ty: c_int) -> Result<Type, Fail> {
    let found = u8::try_from(ty).ok().and_then(Type::from_number);
    found.ok_or_else(|| {
        let why = format!("{ty} is no rankway_type that operations take");
        Fail::new(rankway_code::RANKWAY_ERR_ARG, why)
    })
}

/// The basic type of a datatype: `rankway_type` has their order, from 0.
pub(crate) fn basic(ty: c_int) -> Result<Basic, Fail> {
    let number = u8::try_from(ty).ok().and_then(|ty| ty.checked_add(1));
    number
        .and_then(Basic::from_number)
        .ok_or_else(|| Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("{ty} is no rankway_type")))
}

pub(crate) fn operation(op: c_int) -> Result<Op, Fail> {
    let found = u8::try_from(op).ok().and_then(Op::from_number);
    found.ok_or_else(|| Fail::new(rankway_code::RANKWAY_ERR_ARG, format!("{op} is no rankway_op")))
}

pub(crate) fn assert(bits: c_int) -> Result<Assert, Fail> {
    const ALL: [Assert; 5] =
        [Assert::NOCHECK, Assert::NOSTORE, Assert::NOPUT, Assert::NOPRECEDE, Assert::NOSUCCEED];
    if !(0..32).contains(&bits) {
        let why = format!("{bits} is no sum of rankway_asserts");
        return Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why));
    }
    let given = ALL.into_iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
    Ok(given.fold(Assert::NONE, |all, (_, one)| all | one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_types_are_those_of_the_header() {
        use rankway_type::*;
        for (ty, wanted) in [
            (RANKWAY_INT8, Basic::I8),
            (RANKWAY_UINT8, Basic::U8),
            (RANKWAY_UINT64, Basic::U64),
            (RANKWAY_FLOAT, Basic::F32),
            (RANKWAY_LONG_DOUBLE, Basic::LongDouble),
            (RANKWAY_DOUBLE_COMPLEX, Basic::C64),
            (RANKWAY_BYTE, Basic::Byte),
            (RANKWAY_BOOL, Basic::Bool),
        ] {
            assert_eq!(basic(ty as c_int).unwrap(), wanted);
        }
        for wrong in [-1, 17, 255, 256, c_int::MAX] {
            assert!(basic(wrong).is_err());
        }
    }
}
