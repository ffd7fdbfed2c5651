//! Open MPI's datatypes as Rankway's layouts.
//!
//! A datatype describes itself as a small program of loops and strided elements
//! in the type map's order. It is translated when it is first used and kept as
//! an attribute of the datatype: Open MPI drops that when the datatype goes, so
//! another one at the same address has none. Predefined datatypes stay for ever
//! and have their places here.
//!
//! Never copies data.

use crate::ffi;
use rankway::datatype::{Basic, Item, Layout};
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A datatype's layout; `None` for one whose offsets no layout has.
type Translated = Option<Layout>;

/// `count` instances of a datatype in memory; `None` if no layout says it.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn layout(ty: *mut ffi::ompi_datatype_t, count: usize) -> Option<Layout> {
    // SAFETY: [MPI].
    let one = unsafe { one(ty)? };
    one.times(count as u64).ok()
}

/// # Safety
/// \[MPI\]
unsafe fn one(ty: *mut ffi::ompi_datatype_t) -> Translated {
    const PREDEFINED: usize = ffi::OMPI_DATATYPE_MAX_PREDEFINED as usize;
    static PREDEFINED_LAYOUTS: [OnceLock<Translated>; PREDEFINED] =
        [const { OnceLock::new() }; PREDEFINED];
    // SAFETY: [MPI].
    unsafe {
        let flags = u32::from((*ty).super_.flags);
        if flags & ffi::OMPI_DATATYPE_FLAG_PREDEFINED != 0 {
            let place = usize::try_from((*ty).id).ok().and_then(|id| PREDEFINED_LAYOUTS.get(id));
            return match place {
                Some(place) => place.get_or_init(|| translate(ty)).clone(),
                None => translate(ty),
            };
        }
        // Before and behind that there are no attributes.
        if !is_up() {
            return translate(ty);
        }
        let Some(key) = key() else { return translate(ty) };
        kept(ty, key).unwrap_or_else(|| keep(ty, key))
    }
}

/// Returns true between MPI_Init and MPI_Finalize.
fn is_up() -> bool {
    let mut initialized = 0;
    // SAFETY: callable at any time.
    unsafe { ffi::PMPI_Initialized(&raw mut initialized) };
    initialized != 0 && !ffi::is_finalized()
}

/// The attribute's key.
fn key() -> Option<c_int> {
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let (mut key, state) = (0, std::ptr::null_mut());
        // A duplicate gets no copy of the attribute: it is translated for itself.
        let (none, gone) = (ffi::OMPI_C_MPI_TYPE_NULL_COPY_FN, drop_kept);
        // SAFETY: MPI is up; functions as it calls them.
        let rc =
            unsafe { ffi::PMPI_Type_create_keyval(Some(none), Some(gone), &raw mut key, state) };
        (rc == ffi::SUCCESS).then_some(key)
    })
}

/// What is kept with a datatype; `None` if nothing is yet.
///
/// # Safety
/// \[MPI\], of a datatype that is not predefined; `key` is ours.
unsafe fn kept(ty: *mut ffi::ompi_datatype_t, key: c_int) -> Option<Translated> {
    let (mut value, mut found) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: [MPI]. The value is one of `keep`'s, which stays as long as the
    // datatype: nobody sets another.
    unsafe {
        let rc = ffi::PMPI_Type_get_attr(ty, key, (&raw mut value).cast(), &raw mut found);
        if rc != ffi::SUCCESS || found == 0 {
            return None;
        }
        Some((*value.cast::<Translated>()).clone())
    }
}

/// Translates a datatype and keeps the layout with it.
///
/// # Safety
/// As [`kept`].
#[cold]
unsafe fn keep(ty: *mut ffi::ompi_datatype_t, key: c_int) -> Translated {
    // One thread at a time, since a second value would drop the first, which
    // others may be looking at.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: [MPI]; the attribute owns the box from then on.
    unsafe {
        if let Some(kept) = kept(ty, key) {
            return kept;
        }
        let translated = translate(ty);
        let value = Box::into_raw(Box::new(translated.clone()));
        if ffi::PMPI_Type_set_attr(ty, key, value.cast()) != ffi::SUCCESS {
            drop(Box::from_raw(value));
        }
        translated
    }
}

/// Open MPI drops a datatype with its attributes.
unsafe extern "C" fn drop_kept(
    _ty: ffi::MPI_Datatype,
    _key: c_int,
    value: *mut c_void,
    _state: *mut c_void,
) -> c_int {
    // SAFETY: a value of `keep`'s, which is dropped once.
    drop(unsafe { Box::from_raw(value.cast::<Translated>()) });
    ffi::SUCCESS
}

/// # Safety
/// \[MPI\]
unsafe fn translate(ty: *const ffi::ompi_datatype_t) -> Translated {
    // SAFETY: [MPI]; `used` descriptions, by Open MPI's own bookkeeping. It is the
    // description as it was made: the optimised one has lost the element types.
    let (ty, steps) = unsafe {
        let ty = &(*ty).super_;
        let steps = match ty.desc.desc.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(ty.desc.desc, ty.desc.used),
        };
        (ty, steps)
    };
    let items: Vec<Item> = steps.iter().filter_map(item).collect();
    let layout = Layout::from_items(&items, ty.lb as i64, (ty.ub - ty.lb) as i64).ok()?;
    // A description that says something else than the datatype is none.
    (layout.size() == ty.size as u64).then_some(layout)
}

/// One step of a description.
fn item(step: &ffi::dt_elem_desc) -> Option<Item> {
    // SAFETY: all variants begin with the common part.
    let common = unsafe { step.elem.common };
    match u32::from(common.type_) {
        ffi::OPAL_DATATYPE_LOOP => {
            // SAFETY: it says that it is a loop.
            let head = unsafe { step.loop_ };
            Some(Item::Loop { count: head.loops.into(), stride: head.extent as i64 })
        }
        ffi::OPAL_DATATYPE_END_LOOP => Some(Item::End),
        id if u32::from(common.flags) & ffi::OPAL_DATATYPE_FLAG_DATA != 0 => {
            // SAFETY: it says that it is data.
            let elem = unsafe { step.elem };
            let (basic, each) = basic(id);
            Some(Item::Blocks {
                basic,
                count: elem.count.into(),
                length: (elem.blocklen * each) as u64,
                stride: elem.extent as i64,
                displacement: elem.disp as i64,
            })
        }
        _ => None,
    }
}

/// One of the types that everything is made of, and how many of Rankway's it is:
/// those that Rankway has no name for are so many bytes.
fn basic(id: u32) -> (Basic, usize) {
    // SAFETY: a table of constants; the id comes from a description.
    let size = unsafe {
        let table = &raw const ffi::opal_datatype_basicDatatypes;
        (*(*table).as_ptr().add(id as usize).read()).size
    };
    let known = match id {
        ffi::OPAL_DATATYPE_INT1 => Basic::I8,
        ffi::OPAL_DATATYPE_INT2 => Basic::I16,
        ffi::OPAL_DATATYPE_INT4 => Basic::I32,
        ffi::OPAL_DATATYPE_INT8 | ffi::OPAL_DATATYPE_LONG => Basic::I64,
        ffi::OPAL_DATATYPE_UINT1 => Basic::U8,
        ffi::OPAL_DATATYPE_UINT2 => Basic::U16,
        ffi::OPAL_DATATYPE_UINT4 => Basic::U32,
        ffi::OPAL_DATATYPE_UINT8 | ffi::OPAL_DATATYPE_UNSIGNED_LONG => Basic::U64,
        ffi::OPAL_DATATYPE_FLOAT4 => Basic::F32,
        ffi::OPAL_DATATYPE_FLOAT8 => Basic::F64,
        ffi::OPAL_DATATYPE_FLOAT16 => Basic::LongDouble,
        ffi::OPAL_DATATYPE_FLOAT_COMPLEX => Basic::C32,
        ffi::OPAL_DATATYPE_DOUBLE_COMPLEX => Basic::C64,
        ffi::OPAL_DATATYPE_BOOL => Basic::Bool,
        ffi::OPAL_DATATYPE_WCHAR => Basic::WideChar,
        _ => Basic::Byte,
    };
    if known.size() == size { (known, 1) } else { (Basic::Byte, size) }
}
