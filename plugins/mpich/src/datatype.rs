//! MPICH's datatypes as Rankway's layouts.
//!
//! Each is translated by its contents when it is first used, and kept with the datatype
//! until MPICH frees it. Bounds are MPICH's own at every step.

use crate::fault::{Answer, Refusal};
use crate::host::{self, rkw_type};
use crate::log::guarded;
use rankway::datatype::{Basic, Combiner, Contents, Layout, LayoutError, Numbers};
use rankway::netmod::Type;
use rankway_plugin::custom::Elements;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Steps of nested constructors that are followed, beside duplicates.
const DEEPEST: usize = 64;
/// No element of Rankway's.
const NONE: c_int = -1;

/// So many of a datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Side {
    pub(crate) count: c_int,
    /// MPICH's handle.
    pub(crate) ty: c_int,
}

/// Memory of this process that an operation takes.
pub(crate) struct Memory {
    /// The layout's origin.
    pub(crate) start: *mut u8,
    pub(crate) layout: Layout,
}

/// What is kept with a datatype.
#[derive(Clone, Debug)]
struct Translated {
    layout: Layout,
    /// The predefined datatype that it is made of, if it is of one.
    basic: Option<c_int>,
}

/// The element that a predefined datatype is; `None` of pairs and sizes that Rankway has
/// no operations on.
#[inline]
pub(crate) fn element(ty: c_int) -> Option<Type> {
    // SAFETY: any handle.
    let number = unsafe { host::rkw_host_element(ty) };
    u8::try_from(number).ok().and_then(Type::from_number)
}

/// The elements of a predefined datatype, as the target's MPICH computes with them.
///
/// # Safety
/// \[MPI\]: a datatype.
pub(crate) unsafe fn elements(ty: c_int) -> Result<Elements, Refusal> {
    // SAFETY: [MPI].
    let one = unsafe { translated(ty)? }.layout;
    Elements::new(one).ok_or_else(|| refusal("a type without bytes has no elements"))
}

fn refusal(why: &str) -> Refusal {
    Refusal(Answer::Type, why.into())
}

fn no_layout(error: LayoutError) -> Refusal {
    refusal(&error.to_string())
}

/// So many of a datatype.
///
/// # Errors
/// A datatype that no layout says.
///
/// # Safety
/// \[MPI\]: a datatype, committed.
unsafe fn layout(ty: c_int, count: i64) -> Result<Layout, Refusal> {
    // SAFETY: [MPI].
    let one = unsafe { translated(ty)? }.layout;
    one.times(count.max(0) as u64).map_err(no_layout)
}

/// So many of a datatype in memory. Behind MPI_BOTTOM are addresses, and its null would be
/// refused.
///
/// # Errors
/// As [`layout`].
///
/// # Safety
/// As [`layout`].
pub(crate) unsafe fn around(ty: c_int, count: i64, buf: *mut u8) -> Result<Memory, Refusal> {
    // SAFETY: [MPI].
    let layout = unsafe { layout(ty, count)? };
    if buf.is_null()
        && let Some((first, _)) = layout.true_bounds()
    {
        let layout = Layout::hindexed(&[1], &[-first], &layout).map_err(no_layout)?;
        return Ok(Memory { start: buf.wrapping_offset(first as isize), layout });
    }
    Ok(Memory { start: buf, layout })
}

impl Side {
    /// # Errors
    /// As [`layout`].
    ///
    /// # Safety
    /// As [`layout`].
    pub(crate) unsafe fn layout(&self) -> Result<Layout, Refusal> {
        // SAFETY: [MPI].
        unsafe { layout(self.ty, self.count.into()) }
    }

    /// As [`around`].
    ///
    /// # Errors
    /// As [`layout`].
    ///
    /// # Safety
    /// As [`layout`].
    pub(crate) unsafe fn around(&self, buf: *mut u8) -> Result<Memory, Refusal> {
        // SAFETY: [MPI].
        unsafe { around(self.ty, self.count.into(), buf) }
    }

    /// The predefined datatype that it is made of.
    ///
    /// # Errors
    /// One of several.
    ///
    /// # Safety
    /// As [`Side::layout`].
    pub(crate) unsafe fn basic(&self) -> Result<c_int, Refusal> {
        // SAFETY: [MPI].
        let basic = unsafe { translated(self.ty)? }.basic;
        basic.ok_or_else(|| refusal("an accumulate is of elements of one predefined type"))
    }
}

impl Memory {
    /// The bytes, one behind the other.
    ///
    /// # Safety
    /// \[BUF\]
    pub(crate) unsafe fn packed(&self) -> Vec<u8> {
        let mut out = vec![0; self.layout.size() as usize];
        // SAFETY: [BUF].
        unsafe { self.layout.pack_raw(self.start, 0, &mut out) };
        out
    }
}

/// One instance of a datatype. Of several threads that translate it at once the first keeps
/// what it made.
///
/// # Safety
/// \[MPI\]: a datatype.
unsafe fn translated(ty: c_int) -> Result<Translated, Refusal> {
    // SAFETY: [MPI]: MPICH's place for it, or null.
    let place = unsafe { host::rkw_host_type_place(ty) };
    if place.is_null() {
        // SAFETY: [MPI].
        return unsafe { translate(ty, 0) };
    }
    // SAFETY: a pointer's place that stays as long as the datatype, and is touched only here
    // and when that is freed.
    let place = unsafe { AtomicPtr::from_ptr(place.cast::<*mut Translated>()) };
    let mut kept = place.load(Ordering::Acquire);
    if kept.is_null() {
        // SAFETY: [MPI].
        let made = Box::into_raw(Box::new(unsafe { translate(ty, 0)? }));
        let (none, acquire) = (std::ptr::null_mut(), Ordering::Acquire);
        kept = match place.compare_exchange(none, made, Ordering::AcqRel, acquire) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: made above, and nobody else's.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
    }
    // SAFETY: a box made above, which stays as long as the datatype.
    Ok(unsafe { (*kept).clone() })
}

/// Drops what is kept with a datatype.
///
/// # Safety
/// Null, or what is in a place that MPICH gave, used no more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_type_drop(translated: *mut c_void) {
    if !translated.is_null() {
        // SAFETY: made by `Box::into_raw` in `translated`.
        guarded(|| drop(unsafe { Box::from_raw(translated.cast::<Translated>()) }));
    }
}

/// # Safety
/// \[MPI\]: a datatype.
unsafe fn translate(mut ty: c_int, depth: usize) -> Result<Translated, Refusal> {
    if depth == DEEPEST {
        return Err(refusal(&format!("a datatype is nested more than {DEEPEST} deep")));
    }
    // SAFETY: [MPI].
    let mut of = unsafe { said(ty) };
    while of.leaf == 0 && Combiner::from_number(Numbers::Mpich, of.combiner) == Some(Combiner::Dup)
    {
        // SAFETY: [MPI]: the contents of a duplicate hold the one that it is of.
        (ty, of) = unsafe { (*of.types, said(*of.types)) };
    }
    let (made, basic) = if of.leaf != 0 {
        (leaf(&of)?, Some(ty))
    } else {
        // SAFETY: [MPI].
        unsafe { derived(&of, depth)? }
    };
    let layout = made.resized(of.lb, of.extent).map_err(no_layout)?;
    if layout.size() != of.size as u64 {
        return Err(refusal("a datatype's size comes out otherwise than MPICH's"));
    }
    Ok(Translated { layout, basic })
}

/// What MPICH says of a datatype.
///
/// # Safety
/// \[MPI\]: a datatype.
unsafe fn said(ty: c_int) -> rkw_type {
    let mut of = std::mem::MaybeUninit::uninit();
    // SAFETY: [MPI]; a place for the answer, which is written.
    unsafe {
        host::rkw_host_type(ty, of.as_mut_ptr());
        of.assume_init()
    }
}

/// A predefined datatype: a basic one, or a pair, whose second is an `int` at its end.
fn leaf(of: &rkw_type) -> Result<Layout, Refusal> {
    if let Some(ty) = u8::try_from(of.element).ok().and_then(Type::from_number) {
        return Ok(Layout::basic(ty.basic()));
    }
    let bytes = |n: i64| Layout::contiguous(n as u64, &Layout::basic(Basic::Byte));
    if of.element == NONE && of.size == of.true_ub {
        return bytes(of.size).map_err(no_layout);
    }
    let int = size_of::<c_int>() as i64;
    let (first, second) = (bytes(of.size - int), bytes(int));
    let (first, second) = (first.map_err(no_layout)?, second.map_err(no_layout)?);
    Layout::structure(&[(1, 0, &first), (1, of.true_ub - int, &second)]).map_err(no_layout)
}

/// # Safety
/// \[MPI\]: `of` is of a datatype that has contents.
unsafe fn derived(of: &rkw_type, depth: usize) -> Result<(Layout, Option<c_int>), Refusal> {
    if of.size == 0 {
        let byte = Layout::basic(Basic::Byte);
        return Ok((Layout::contiguous(0, &byte).map_err(no_layout)?, None));
    }
    let Some(combiner) = Combiner::from_number(Numbers::Mpich, of.combiner) else {
        return Err(refusal(&format!("combiner {} is not known", of.combiner)));
    };
    // SAFETY: [MPI]: MPICH's arrays, as long as it says; null where they are empty.
    let (integers, addresses, counts, types) = unsafe {
        (
            slice(of.integers, of.ints),
            slice(of.addresses, of.aints),
            slice(of.large, of.counts),
            slice(of.types, of.kinds),
        )
    };
    let told = combiner.in_order(integers, addresses, counts);
    let (integers, addresses) = told.map_err(|why| refusal(&why))?;
    let mut inner = Vec::with_capacity(types.len());
    let mut basics = Vec::with_capacity(types.len());
    let is_empty =
        |member: usize| combiner == Combiner::Struct && integers.get(1 + member) == Some(&0);
    for (member, &ty) in types.iter().enumerate() {
        // SAFETY: [MPI]: the contents hold their datatypes.
        let made = unsafe { translate(ty, depth + 1)? };
        if made.layout.size() > 0 && !is_empty(member) {
            basics.push(made.basic);
        }
        inner.push(made.layout);
    }
    let contents = Contents { combiner, integers: &integers, addresses: &addresses, types: &inner };
    let layout = contents.layout(Numbers::Mpich).map_err(|why| refusal(&why))?;
    let first = basics.first().copied().flatten();
    Ok((layout, first.filter(|_| basics.iter().all(|&basic| basic == first))))
}

/// # Safety
/// `len` elements from `start` on, which stay; none if that is null.
unsafe fn slice<'a, T>(start: *const T, len: i64) -> &'a [T] {
    if start.is_null() || len <= 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(start, len as usize) }
}
