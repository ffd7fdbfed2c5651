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
    /// An [`Answer`](crate::fault::Answer), of one that failed.
    pub(crate) failed: c_int,
}

/// What MPICH says of a datatype; its contents, unless it is a predefined one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct rkw_type {
    pub(crate) size: i64,
    pub(crate) extent: i64,
    pub(crate) lb: i64,
    pub(crate) true_lb: i64,
    pub(crate) true_ub: i64,
    pub(crate) leaf: c_int,
    /// The number of Rankway's element; -1 of others.
    pub(crate) element: c_int,
    pub(crate) combiner: c_int,
    pub(crate) ints: i64,
    pub(crate) aints: i64,
    pub(crate) counts: i64,
    pub(crate) kinds: i64,
    pub(crate) integers: *const i32,
    pub(crate) addresses: *const i64,
    /// Counts of 64 bits.
    pub(crate) large: *const i64,
    pub(crate) types: *const c_int,
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
    /// Memory of MPICH's for so many ranks.
    pub(crate) fn rkw_host_list(count: usize) -> *mut c_int;
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
    /// Has [`rkw_seen`](crate::state) called with `seeing` and each process that sends on a
    /// channel; 0 where none is known.
    pub(crate) fn rkw_host_senders(channel: u64, seeing: *mut c_void) -> c_int;
    /// An active message for a handler of CH4's.
    pub(crate) fn rkw_host_am(
        handler: c_int,
        header: *const c_void,
        payload: *const c_void,
        len: usize,
    );
    /// The payload of an active message is the caller's again.
    pub(crate) fn rkw_host_posted(request: *mut c_void);
    /// The number of the element that a datatype is, or -1.
    pub(crate) fn rkw_host_element(ty: c_int) -> c_int;
    pub(crate) fn rkw_host_type(ty: c_int, to: *mut rkw_type);
    /// Where what is kept with a datatype stands, null at first; null of predefined ones.
    pub(crate) fn rkw_host_type_place(ty: c_int) -> *mut *mut c_void;
    /// Returns 0 where MPI has no such operation on a predefined type.
    pub(crate) fn rkw_host_op_is_for(op: c_int, ty: c_int) -> c_int;
    /// MPICH's reduction; 0 where there is none.
    pub(crate) fn rkw_host_reduce(
        op: c_int,
        ty: c_int,
        from: *mut c_void,
        at: *mut c_void,
        count: i64,
    ) -> c_int;
    /// A request of an operation on a window, complete or not.
    pub(crate) fn rkw_host_request(complete: c_int) -> *mut c_void;
    /// It ended.
    pub(crate) fn rkw_host_finished(request: *mut c_void, answer: c_int);
    /// A message ended.
    pub(crate) fn rkw_host_ended(request: *mut c_void, status: *const rkw_status);
}
