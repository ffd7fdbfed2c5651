//! The part of PMIx's C interface that is used, written by hand from the
//! PMIx 4 standard. Sizes are those of `pmix_common.h` and have not changed
//! since PMIx 2; the tests below pin them.

use std::ffi::{c_char, c_int, c_void};

pub(super) const MAX_NSLEN: usize = 255;
pub(super) const MAX_KEYLEN: usize = 511;

pub(super) type Status = c_int;
pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_TIMEOUT: Status = -24;
pub(super) const ERR_UNREACH: Status = -25;
pub(super) const ERR_NOT_FOUND: Status = -46;
pub(super) const OPERATION_SUCCEEDED: Status = -157;

pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
pub(super) const GLOBAL: u8 = 3;

pub(super) const TYPE_BOOL: u16 = 1;
pub(super) const TYPE_STRING: u16 = 3;
pub(super) const TYPE_SIZE: u16 = 4;
pub(super) const TYPE_INT: u16 = 6;
pub(super) const TYPE_INT32: u16 = 9;
pub(super) const TYPE_UINT: u16 = 11;
pub(super) const TYPE_UINT16: u16 = 13;
pub(super) const TYPE_UINT32: u16 = 14;
pub(super) const TYPE_UINT64: u16 = 15;
pub(super) const TYPE_BYTE_OBJECT: u16 = 27;
pub(super) const TYPE_PROC_RANK: u16 = 40;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) nspace: [u8; MAX_NSLEN + 1],
    pub(super) rank: u32,
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub(super) bytes: *mut c_char,
    pub(super) size: usize,
}

/// The members of `pmix_value_t`'s union that are used; the widest,
/// `pmix_envar_t`, takes 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) string: *mut c_char,
    pub(super) size: usize,
    pub(super) integer: c_int,
    pub(super) uint16: u16,
    pub(super) uint32: u32,
    pub(super) uint64: u64,
    pub(super) bo: ByteObject,
    pub(super) widest: [u64; 3],
}

/// `pmix_value_t`
#[repr(C)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// `pmix_info_t`
#[repr(C)]
pub(super) struct Info {
    pub(super) key: [u8; MAX_KEYLEN + 1],
    pub(super) flags: u32,
    pub(super) value: Value,
}

pub(super) type OpCallback = unsafe extern "C" fn(Status, *mut c_void);

pub(super) type InitFn = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;
pub(super) type PutFn = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
pub(super) type CommitFn = unsafe extern "C" fn() -> Status;
pub(super) type FenceNbFn =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> Status;
pub(super) type GetFn =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
pub(super) type AbortFn = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> Status;
pub(super) type FinalizeFn = unsafe extern "C" fn(*const Info, usize) -> Status;
pub(super) type ErrorStringFn = unsafe extern "C" fn(Status) -> *const c_char;
pub(super) type VersionFn = unsafe extern "C" fn() -> *const c_char;

/// The functions, as looked up in a loaded library.
pub(super) struct Functions {
    pub(super) init: InitFn,
    pub(super) put: PutFn,
    pub(super) commit: CommitFn,
    pub(super) fence_nb: FenceNbFn,
    pub(super) get: GetFn,
    pub(super) abort: AbortFn,
    pub(super) finalize: FinalizeFn,
    pub(super) error_string: ErrorStringFn,
    pub(super) version: VersionFn,
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// As `sizeof` and `offsetof` say with the headers of PMIx 4.2.2.
    #[test]
    fn sizes_are_those_of_the_headers() {
        assert_eq!((size_of::<Proc>(), align_of::<Proc>()), (260, 4));
        assert_eq!((size_of::<Value>(), align_of::<Value>()), (32, 8));
        assert_eq!((size_of::<Info>(), align_of::<Info>()), (552, 8));
        assert_eq!(size_of::<ByteObject>(), 16);
        assert_eq!(offset_of!(Proc, rank), 256);
        assert_eq!(offset_of!(Value, data), 8);
        assert_eq!((offset_of!(Info, flags), offset_of!(Info, value)), (512, 520));
        assert_eq!((offset_of!(ByteObject, bytes), offset_of!(ByteObject, size)), (0, 8));
    }
}
