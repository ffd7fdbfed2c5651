//! Put and get.
//!
//! ```text
//! put        same contiguous bytes on both sides, epoch, bounds   a store, or Rankway's put
//! put_any    every other layout, uneven windows, errors           iov lists
//! ```

use super::fault::{answer, code};
use super::layout::Iov;
use super::module::Module;
use super::pieces;
use crate::ffi;
use crate::log::guarded;
use rankway::netmod::Netmod;
use rankway::rma::{Layout, Pending};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, compiler_fence};

/// One side of an operation: a buffer or a displacement, in Open MPI's terms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) count: c_int,
    pub(super) ty: *mut ffi::ompi_datatype_t,
}

impl Side {
    /// # Errors
    /// A datatype that no layout says.
    ///
    /// # Safety
    /// The type is a datatype.
    pub(super) unsafe fn iov(&self) -> Result<Iov, c_int> {
        // SAFETY: [MPI], [BUF].
        let iov = unsafe { Iov::new(self.ty, self.count.max(0) as usize) };
        iov.ok_or(ffi::MPI_ERR_TYPE as c_int)
    }
}

/// The bytes of an operation whose both sides are one block each from their
/// address on.
///
/// # Safety
/// Both types are datatypes.
#[inline(always)]
pub(super) unsafe fn contiguous_len(here: Side, there: Side) -> Option<usize> {
    const WHOLE: u16 =
        (ffi::OPAL_DATATYPE_FLAG_CONTIGUOUS | ffi::OPAL_DATATYPE_FLAG_NO_GAPS) as u16;
    // SAFETY: [MPI], [BUF].
    let (a, b) = unsafe { (&(*here.ty).super_, &(*there.ty).super_) };
    if a.flags & b.flags & WHOLE != WHOLE || a.true_lb | b.true_lb != 0 {
        return None;
    }
    let len = a.size.wrapping_mul(here.count as usize);
    (len == b.size.wrapping_mul(there.count as usize)).then_some(len)
}

pub(super) unsafe extern "C" fn put<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let (here, there) = (Side { count, ty }, Side { count: target_count, ty: target_ty });
    if !module.threads
        // SAFETY: as above.
        && let Some(len) = unsafe { contiguous_len(here, there) }
        && let Some(offset) = module.fast_offset(target, disp, len)
    {
        let rank = target as u32;
        if rank == module.me {
            // SAFETY: bounds were looked at; MPI forbids that both sides
            // overlap.
            unsafe { copy(buf.cast(), module.own.add(offset), len) };
            return ffi::SUCCESS;
        }
        // SAFETY: epoch, rank and bounds were looked at; the buffer is the
        // operation's until it is synchronised, by MPI's rules.
        let rc = unsafe { module.window.put_unchecked(buf.cast(), len, rank, offset) };
        if rc == 0 {
            return ffi::SUCCESS;
        }
    }
    // SAFETY: as above.
    guarded(|| unsafe { put_any(module, buf, here, target, disp, there) })
}

/// # Safety
/// As MPI_Put: live datatypes, a buffer as they say.
#[cold]
#[inline(never)]
unsafe fn put_any<N: Netmod>(
    module: &Module<N>,
    buf: *const c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> c_int {
    // SAFETY: [MPI], [BUF].
    if let Some(len) = unsafe { contiguous_len(here, there) }
        && let Some(offset) = module.offset(target, disp, 0)
    {
        // SAFETY: the buffer is the operation's until it is synchronised.
        let put = || unsafe { module.window.put_nb(buf.cast(), len, target as u32, offset) };
        return module.enter(|_| answer(put()));
    }
    // SAFETY: [MPI], [BUF].
    unsafe {
        let (from, to, offset) = match sides(module, here, target, disp, there) {
            Ok(sides) => sides,
            Err(code) => return code,
        };
        let (rank, start) = (target as u32, buf.cast::<u8>().wrapping_offset(from.low));
        if pieces::use_packets(module, rank, &to) {
            let packed = from.gather(buf.cast());
            return module.enter(|_| answer(pieces::put(module, &packed, rank, offset, &to)));
        }
        let (from, to) = (Layout::List(&from.list), Layout::List(&to.list));
        module.enter(|_| answer(module.window.put_iov_nb(start, &from, rank, offset, &to)))
    }
}

/// A put of any layout.
///
/// # Safety
/// As MPI_Put.
pub(super) unsafe fn put_iov<'a, N: Netmod>(
    module: &'a Module<N>,
    buf: *const c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<Pending<'a, N>, c_int> {
    // SAFETY: [MPI], [BUF].
    let (from, to, offset) = unsafe { sides(module, here, target, disp, there)? };
    // SAFETY: an address within the caller's buffer, which stays until the
    // operation is synchronised.
    let issued = module.enter(|_| unsafe {
        let start = buf.cast::<u8>().wrapping_offset(from.low);
        let (from, to) = (Layout::List(&from.list), Layout::List(&to.list));
        module.window.rput_iov(start, &from, target as u32, offset, &to)
    });
    issued.map_err(|e| code(&e))
}

/// Both sides of an operation, which must have the same bytes, and the target's
/// offset.
///
/// # Safety
/// Both types are datatypes.
pub(super) unsafe fn sides<N: Netmod>(
    module: &Module<N>,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<(Iov, Iov, usize), c_int> {
    // SAFETY: [MPI], [BUF].
    let (here, there) = unsafe { (here.iov()?, there.iov()?) };
    if here.bytes != there.bytes {
        return Err(ffi::MPI_ERR_TRUNCATE as c_int);
    }
    let offset = module.offset(target, disp, there.low).ok_or(ffi::OMPI_ERR_RMA_RANGE)?;
    Ok((here, there, offset))
}

pub(super) unsafe extern "C" fn get<N: Netmod>(
    buf: *mut c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    win: *mut ffi::ompi_win_t,
) -> c_int {
    // SAFETY: [MPI].
    let module = unsafe { Module::<N>::of(win) };
    let (here, there) = (Side { count, ty }, Side { count: target_count, ty: target_ty });
    if !module.threads
        // SAFETY: as above.
        && let Some(len) = unsafe { contiguous_len(here, there) }
        && let Some(offset) = module.fast_offset(target, disp, len)
    {
        if target as u32 == module.me {
            // SAFETY: as in `put`.
            unsafe { copy(module.own.add(offset), buf.cast(), len) };
            module.count_store();
            return ffi::SUCCESS;
        }
        if !module.start.is_null() {
            // SAFETY: epoch, rank and bounds were looked at; the buffer is
            // another, by MPI's rules.
            unsafe { copy(module.at(target as u32, offset), buf.cast(), len) };
            module.count_store();
            return ffi::SUCCESS;
        }
    }
    // SAFETY: as above.
    guarded(|| unsafe { get_any(module, buf, here, target, disp, there) })
}

/// Copies within what is mapped here.
///
/// # Safety
/// Both sides hold `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: [MPI], [BUF].
    unsafe {
        match len {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => std::ptr::copy(from, to, len),
        }
    }
    compiler_fence(Ordering::AcqRel);
}

/// # Safety
/// As MPI_Get.
#[cold]
#[inline(never)]
unsafe fn get_any<N: Netmod>(
    module: &Module<N>,
    buf: *mut c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> c_int {
    // SAFETY: [MPI], [BUF].
    if let Some(len) = unsafe { contiguous_len(here, there) }
        && let Some(offset) = module.offset(target, disp, 0)
    {
        // SAFETY: the buffer is the operation's until it is synchronised.
        let get = || unsafe { module.window.get_nb(buf.cast(), len, target as u32, offset) };
        return module.enter(|_| answer(get()));
    }
    // SAFETY: [MPI], [BUF].
    unsafe {
        let (to, from, offset) = match sides(module, here, target, disp, there) {
            Ok(sides) => sides,
            Err(code) => return code,
        };
        let (rank, start) = (target as u32, buf.cast::<u8>().wrapping_offset(to.low));
        if pieces::use_packets(module, rank, &from) {
            return match module.enter(|_| pieces::get(module, rank, offset, &from)) {
                Ok(packed) => {
                    to.scatter(&packed, buf.cast());
                    ffi::SUCCESS
                }
                Err(e) => code(&e),
            };
        }
        let (to, from) = (Layout::List(&to.list), Layout::List(&from.list));
        module.enter(|_| answer(module.window.get_iov_nb(start, &to, rank, offset, &from)))
    }
}

/// A get of any layout.
///
/// # Safety
/// As MPI_Get.
pub(super) unsafe fn get_iov<'a, N: Netmod>(
    module: &'a Module<N>,
    buf: *mut c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<Pending<'a, N>, c_int> {
    // SAFETY: [MPI], [BUF].
    let (to, from, offset) = unsafe { sides(module, here, target, disp, there)? };
    // SAFETY: an address within the caller's buffer, which stays until the
    // operation is synchronised.
    let issued = module.enter(|_| unsafe {
        let start = buf.cast::<u8>().wrapping_offset(to.low);
        let (to, from) = (Layout::List(&to.list), Layout::List(&from.list));
        module.window.rget_iov(start, &to, target as u32, offset, &from)
    });
    issued.map_err(|e| code(&e))
}
