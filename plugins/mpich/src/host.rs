//! MPICH's functions that are called from here, and the structures that both sides
//! know: `netmod/rkw.h` has the same.

use std::ffi::{c_char, c_int, c_void};

/// How a message ended, or what a probe found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct rkw_status {
    /// Source in the upper half, tag in the lower.
    pub(crate) bits: u64,
    /// Bytes of the message.
    pub(crate) length: u64,
    pub(crate) truncated: c_int,
    pub(crate) cancelled: c_int,
}

unsafe extern "C" {
    /// Bytes of a key and of a value in the launcher's space.
    pub(crate) fn rkw_host_limits(key: *mut c_int, value: *mut c_int);
    pub(crate) fn rkw_host_put(key: *const c_char, value: *const c_char) -> c_int;
    pub(crate) fn rkw_host_get(
        rank: c_int,
        key: *const c_char,
        value: *mut c_char,
        size: c_int,
    ) -> c_int;
    pub(crate) fn rkw_host_barrier() -> c_int;
    pub(crate) fn rkw_host_node(rank: c_int) -> c_int;
    pub(crate) fn rkw_host_abort(code: c_int, why: *const c_char) -> !;
    /// MPICH's own progress, while a call waits.
    pub(crate) fn rkw_host_progress();
    /// As many bytes of each member of a communicator, by rank.
    pub(crate) fn rkw_host_allgather(
        comm: *mut c_void,
        mine: *const c_void,
        bytes: usize,
        all: *mut c_void,
    ) -> c_int;
    pub(crate) fn rkw_host_comm_barrier(comm: *mut c_void) -> c_int;
    /// An active message for a handler of CH4's.
    pub(crate) fn rkw_host_am(
        handler: c_int,
        header: *const c_void,
        payload: *const c_void,
        len: usize,
    );
    /// The payload of an active message is the caller's again.
    pub(crate) fn rkw_host_posted(request: *mut c_void);
    /// A message ended.
    pub(crate) fn rkw_host_ended(request: *mut c_void, status: *const rkw_status);
}
