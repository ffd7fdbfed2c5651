//! What every object starts with: its `fid`, and how many others use it.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::*;

/// A libfabric error number as calls return it.
pub(crate) const fn err(number: c_int) -> c_int {
    -number
}

/// The same, for data transfer calls.
pub(crate) const fn ssize(number: c_int) -> isize {
    -(number as isize)
}

/// The first member of every object.
pub(crate) fn header(class: u32, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class as usize, context, ops: (&raw const *ops).cast_mut() }
}

/// Gives an object to libfabric. Boxes keep its address until [`free`].
pub(crate) fn give<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// Frees what [`give`] gave.
///
/// # Safety
/// `object` comes from [`give`], is not used afterwards, and nothing else uses it.
pub(crate) unsafe fn free<T>(object: *mut T) {
    // SAFETY: a box of [`give`]'s, which the caller alone has.
    drop(unsafe { Box::from_raw(object) });
}

/// How many other objects use this one.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicUsize);

impl Uses {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// `-FI_EBUSY` while something uses the object.
    pub(crate) fn busy(&self) -> Option<c_int> {
        (self.0.load(Ordering::Relaxed) != 0).then_some(err(FI_EBUSY))
    }
}

/// Defines functions of a table that answer `-FI_ENOSYS`. libfabric's inline
/// functions call most entries without looking, so none may be null.
macro_rules! not_supported {
    ($($name:ident($($type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(
            unsafe extern "C" fn $name($(_: $type),*) -> $ret {
                -($crate::bindings::FI_ENOSYS as $ret)
            }
        )*
    };
}
pub(crate) use not_supported;

/// The common operations with the given close, bind and control.
pub(crate) const fn fid_ops(
    close: unsafe extern "C" fn(*mut fid) -> c_int,
    bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ops_open: Some(no_ops_open),
        tostr: None,
        ops_set: None,
    }
}

pub(crate) unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    err(FI_ENOSYS)
}

pub(crate) unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    err(FI_ENOSYS)
}

not_supported! {
    no_ops_open(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int;
}

/// A blocking call without anything to block on: nothing completes later here,
/// but another thread may issue. `timeout` is in milliseconds, negative for ever.
pub(crate) struct Patience {
    deadline: Option<std::time::Instant>,
}

impl Patience {
    pub(crate) fn new(timeout: c_int) -> Self {
        let deadline = u64::try_from(timeout)
            .ok()
            .map(|ms| std::time::Instant::now() + std::time::Duration::from_millis(ms));
        Self { deadline }
    }

    pub(crate) fn pause(&self) -> bool {
        if self.deadline.is_some_and(|deadline| std::time::Instant::now() >= deadline) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
        true
    }
}
