//! Put and get.
//!
//! ```text
//! put        same contiguous bytes on both sides, epoch, bounds   a store, or Rankway's put
//! put_any    every other layout, uneven windows, errors           layouts
//! ```

use super::fault::{answer, code};
use super::module::Module;
use crate::log::guarded;
use crate::{datatype, ffi};
use rankway::datatype::Layout;
use rankway::netmod::Netmod;
use rankway::rma::{Pending, copy_mapped};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, compiler_fence};

/// One side of an operation: a buffer or a displacement, in Open MPI's terms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) count: c_int,
    pub(super) ty: *mut ffi::ompi_datatype_t,
}

/// Memory of this process that an operation takes.
pub(super) struct Memory {
    /// The layout's origin.
    pub(super) start: *mut u8,
    pub(super) layout: Layout,
}

impl Side {
    /// # Errors
    /// A datatype that no layout says.
    ///
    /// # Safety
    /// The type is a datatype.
    pub(super) unsafe fn layout(&self) -> Result<Layout, c_int> {
        // SAFETY: [MPI], [BUF].
        let layout = unsafe { datatype::layout(self.ty, self.count.max(0) as usize) };
        layout.ok_or(ffi::MPI_ERR_TYPE as c_int)
    }

    /// # Errors
    /// As [`Side::layout`].
    ///
    /// # Safety
    /// As [`Side::layout`].
    pub(super) unsafe fn around(&self, buf: *mut u8) -> Result<Memory, c_int> {
        // SAFETY: [MPI].
        let layout = unsafe { self.layout()? };
        // Behind MPI_BOTTOM are addresses, and its null would be refused.
        if buf.is_null()
            && let Some((first, _)) = layout.true_bounds()
        {
            let moved = Layout::hindexed(&[1], &[-first], &layout);
            let layout = moved.map_err(|_| ffi::MPI_ERR_TYPE as c_int)?;
            return Ok(Memory { start: buf.wrapping_offset(first as isize), layout });
        }
        Ok(Memory { start: buf, layout })
    }
}

impl Memory {
    /// The bytes, one behind the other.
    ///
    /// # Safety
    /// \[BUF\]
    pub(super) unsafe fn packed(&self) -> Vec<u8> {
        let mut out = vec![0; self.layout.size() as usize];
        // SAFETY: [BUF].
        unsafe { self.layout.pack_raw(self.start, 0, &mut out) };
        out
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
        && let Some(offset) = module.offset(target, disp)
    {
        // SAFETY: the buffer is the operation's until it is synchronised.
        let put = || unsafe { module.window.put_nb(buf.cast(), len, target as u32, offset) };
        return module.enter(|_| answer(put()));
    }
    // SAFETY: [MPI], [BUF].
    unsafe {
        let (from, to, offset) = match sides(module, buf.cast_mut(), here, target, disp, there) {
            Ok(sides) => sides,
            Err(code) => return code,
        };
        let (rank, window) = (target as u32, &module.window);
        let put = || window.put_layout_nb(from.start, &from.layout, rank, offset, &to);
        module.enter(|_| answer(put()))
    }
}

/// A put of any layout.
///
/// # Safety
/// As MPI_Put.
pub(super) unsafe fn put_layout<'a, N: Netmod>(
    module: &'a Module<N>,
    buf: *const c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<Pending<'a, N>, c_int> {
    // SAFETY: [MPI], [BUF]: the buffer stays until the operation is synchronised.
    unsafe {
        let (from, to, offset) = sides(module, buf.cast_mut(), here, target, disp, there)?;
        let (rank, window) = (target as u32, &module.window);
        let put = || window.rput_layout(from.start, &from.layout, rank, offset, &to);
        module.enter(|_| put()).map_err(|e| code(&e))
    }
}

/// Both sides of an operation, which must have the same bytes, and the target's
/// offset.
///
/// # Safety
/// Both types are datatypes.
pub(super) unsafe fn sides<N: Netmod>(
    module: &Module<N>,
    buf: *mut c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<(Memory, Layout, usize), c_int> {
    // SAFETY: [MPI], [BUF].
    let (here, there) = unsafe { (here.around(buf.cast())?, there.layout()?) };
    if here.layout.size() != there.size() {
        return Err(ffi::MPI_ERR_TRUNCATE as c_int);
    }
    let offset = module.offset(target, disp).ok_or(ffi::OMPI_ERR_RMA_RANGE)?;
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
            unsafe {
                let from = module.at(target as u32, offset);
                match len {
                    ..256 => copy(from, buf.cast(), len),
                    _ => copy_mapped(buf.cast(), from, len),
                }
            }
            module.count_store();
            return ffi::SUCCESS;
        }
        // SAFETY: epoch, rank and bounds were looked at; the buffer is the operation's
        // until it is synchronised, and another, by MPI's rules.
        if unsafe { module.window.get_unchecked(buf.cast(), len, target as u32, offset) } {
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
        && let Some(offset) = module.offset(target, disp)
    {
        // SAFETY: the buffer is the operation's until it is synchronised.
        let get = || unsafe { module.window.get_nb(buf.cast(), len, target as u32, offset) };
        return module.enter(|_| answer(get()));
    }
    // SAFETY: [MPI], [BUF].
    unsafe {
        let (to, from, offset) = match sides(module, buf, here, target, disp, there) {
            Ok(sides) => sides,
            Err(code) => return code,
        };
        let (rank, window) = (target as u32, &module.window);
        let get = || window.get_layout_nb(to.start, &to.layout, rank, offset, &from);
        module.enter(|_| answer(get()))
    }
}

/// A get of any layout.
///
/// # Safety
/// As MPI_Get.
pub(super) unsafe fn get_layout<'a, N: Netmod>(
    module: &'a Module<N>,
    buf: *mut c_void,
    here: Side,
    target: c_int,
    disp: isize,
    there: Side,
) -> Result<Pending<'a, N>, c_int> {
    // SAFETY: [MPI], [BUF]: the buffer stays until the operation is synchronised.
    unsafe {
        let (to, from, offset) = sides(module, buf, here, target, disp, there)?;
        let (rank, window) = (target as u32, &module.window);
        let get = || window.rget_layout(to.start, &to.layout, rank, offset, &from);
        module.enter(|_| get()).map_err(|e| code(&e))
    }
}
