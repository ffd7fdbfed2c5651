//! libfabric's calls through the operation tables of its objects.
//!
//! Most of libfabric's interface is `static inline` in C: one indirect call
//! through the object's operation table. Those are written here again, by the
//! names of their man pages (fi_domain(3), fi_endpoint(3), fi_rma(3), ...). None
//! retries or decides anything.

#![allow(dead_code, reason = "some are for `baseline` and the null provider's tests")]
#![allow(clippy::too_many_arguments, reason = "the calls are libfabric's")]

use super::bindings::*;
use crate::dl;
use std::ffi::{c_char, c_int, c_void};

/// True when every RMA call below can be made on `ep`: the provider granted
/// `FI_RMA` and filled its table. Check once, after fi_enable; the unchecked
/// calls rely on it.
///
/// # Safety
/// `ep` is an open endpoint.
pub(crate) unsafe fn has_rma(ep: *mut fid_ep) -> bool {
    // SAFETY: the endpoint is open, so its tables are null or whole.
    unsafe {
        (*ep).rma.as_ref().is_some_and(|ops| {
            ops.write.is_some()
                && ops.writemsg.is_some()
                && ops.inject.is_some()
                && ops.read.is_some()
                && ops.readmsg.is_some()
        })
    }
}

/// True when packets can be sent and received on `ep`, see [`has_rma`].
///
/// # Safety
/// `ep` is an open endpoint.
pub(crate) unsafe fn has_messages(ep: *mut fid_ep) -> bool {
    // SAFETY: the endpoint is open, so its tables are null or whole.
    unsafe {
        (*ep)
            .msg
            .as_ref()
            .is_some_and(|ops| ops.recv.is_some() && ops.sendmsg.is_some() && ops.inject.is_some())
    }
}

/// Writes what asks whether the endpoint's table of atomics has a call.
macro_rules! has_atomics {
    ($($(#[$doc:meta])* $name:ident: $entry:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `ep` is an open endpoint.
        pub(crate) unsafe fn $name(ep: *mut fid_ep) -> bool {
            // SAFETY: the endpoint is open, so its tables are null or whole.
            unsafe { (*ep).atomic.as_ref().is_some_and(|ops| ops.$entry.is_some()) }
        }
    )*};
}

has_atomics! {
    /// Whether there is [`fi_atomicmsg`].
    has_atomic: writemsg;
    /// Whether there is [`fi_fetch_atomicmsg`].
    has_fetch_atomic: readwritemsg;
    /// Whether there is [`fi_compare_atomicmsg`].
    has_compare_atomic: compwritemsg;
}

/// Writes libfabric's inline functions: one call through an operation table.
///
/// `cold` calls answer `-FI_ENOSYS` when the table or its entry is missing, as
/// an object of another class or an older provider may have it. `hot` calls do
/// not look: they are an operation's whole cost above the provider.
macro_rules! calls {
    () => {};
    (
        $(#[$doc:meta])*
        cold fn $name:ident($object:ident: $class:ty, $($table:ident).+ => $entry:ident($($pass:expr),*)
            $(; $arg:ident: $type:ty)*) -> $ret:ty;
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The object is open and of this class, every pointer is what the man
        /// page asks for, and the threading level of the domain is kept.
        #[inline]
        pub(crate) unsafe fn $name($object: *mut $class $(, $arg: $type)*) -> $ret {
            // SAFETY: an open object's tables are null or live as long as it;
            // the caller upholds the man page for the rest.
            unsafe {
                match (*$object).$($table).+.as_ref().and_then(|ops| ops.$entry) {
                    Some(entry) => entry($($pass),*),
                    None => -(FI_ENOSYS as $ret),
                }
            }
        }
        calls! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        hot fn $name:ident($object:ident: $class:ty, $($table:ident).+ => $entry:ident($($pass:expr),*)
            $(; $arg:ident: $type:ty)*) -> $ret:ty;
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The object is open, enabled and has this operation ([`has_rma`]
        /// and its like said so), every pointer is what the man page asks for,
        /// and the threading level of the domain is kept.
        #[inline(always)]
        pub(crate) unsafe fn $name($object: *mut $class $(, $arg: $type)*) -> $ret {
            // SAFETY: the caller has checked that the table and the entry are
            // there, and upholds the man page for the rest.
            unsafe { (*(*$object).$($table).+).$entry.unwrap_unchecked()($($pass),*) }
        }
        calls! { $($rest)* }
    };
}

calls! {
    /// fi_close(3), for any object.
    cold fn fi_close(fid: fid, ops => close(fid)) -> c_int;
    /// fi_control(3), for any object.
    cold fn fi_control(fid: fid, ops => control(fid, command, arg);
        command: c_int; arg: *mut c_void) -> c_int;

    /// fi_domain(3).
    cold fn fi_domain(fabric: fid_fabric, ops => domain(fabric, info, domain, context);
        info: *mut fi_info; domain: *mut *mut fid_domain; context: *mut c_void) -> c_int;
    /// fi_endpoint(3).
    cold fn fi_endpoint(domain: fid_domain, ops => endpoint(domain, info, ep, context);
        info: *mut fi_info; ep: *mut *mut fid_ep; context: *mut c_void) -> c_int;
    /// fi_av(3): opens an address vector.
    cold fn fi_av_open(domain: fid_domain, ops => av_open(domain, attr, av, context);
        attr: *mut fi_av_attr; av: *mut *mut fid_av; context: *mut c_void) -> c_int;
    /// fi_cq(3): opens a completion queue.
    cold fn fi_cq_open(domain: fid_domain, ops => cq_open(domain, attr, cq, context);
        attr: *mut fi_cq_attr; cq: *mut *mut fid_cq; context: *mut c_void) -> c_int;
    /// fi_cntr(3): opens a counter.
    cold fn fi_cntr_open(domain: fid_domain, ops => cntr_open(domain, attr, cntr, context);
        attr: *mut fi_cntr_attr; cntr: *mut *mut fid_cntr; context: *mut c_void) -> c_int;
    /// fi_atomic(3): whether a (datatype, operation) pair is supported. `flags`
    /// is 0, `FI_FETCH_ATOMIC` or `FI_COMPARE_ATOMIC`.
    cold fn fi_query_atomic(domain: fid_domain, ops => query_atomic(domain, datatype, op, attr, flags);
        datatype: fi_datatype; op: fi_op; attr: *mut fi_atomic_attr; flags: u64) -> c_int;

    /// fi_mr(3): registers one buffer.
    cold fn fi_mr_reg(domain: fid_domain, mr =>
        reg(&raw mut (*domain).fid, buf, len, access, offset, requested_key, flags, mr, context);
        buf: *const c_void; len: usize; access: u64; offset: u64; requested_key: u64; flags: u64;
        mr: *mut *mut fid_mr; context: *mut c_void) -> c_int;
    /// fi_mr(3): binds a region to an endpoint (`FI_MR_ENDPOINT`) or a counter.
    cold fn fi_mr_bind(mr: fid_mr, fid.ops => bind(&raw mut (*mr).fid, object, flags);
        object: *mut fid; flags: u64) -> c_int;
    /// fi_mr(3): enables a region after binding (`FI_MR_ENDPOINT`, `FI_MR_RMA_EVENT`).
    cold fn fi_mr_enable(mr: fid_mr, fid.ops =>
        control(&raw mut (*mr).fid, FI_ENABLE as c_int, core::ptr::null_mut())) -> c_int;

    /// fi_av(3): inserts `count` addresses laid end to end; the number inserted
    /// is the return value.
    cold fn fi_av_insert(av: fid_av, ops => insert(av, addr, count, out, flags, context);
        addr: *const c_void; count: usize; out: *mut fi_addr_t; flags: u64;
        context: *mut c_void) -> c_int;
    /// fi_av(3): removes addresses.
    cold fn fi_av_remove(av: fid_av, ops => remove(av, addr, count, flags);
        addr: *mut fi_addr_t; count: usize; flags: u64) -> c_int;
    /// fi_av(3): the raw address behind an entry.
    cold fn fi_av_lookup(av: fid_av, ops => lookup(av, entry, addr, addrlen);
        entry: fi_addr_t; addr: *mut c_void; addrlen: *mut usize) -> c_int;

    /// fi_endpoint(3): binds an address vector, queue or counter.
    cold fn fi_ep_bind(ep: fid_ep, fid.ops => bind(&raw mut (*ep).fid, object, flags);
        object: *mut fid; flags: u64) -> c_int;
    /// fi_endpoint(3): makes the endpoint ready for data.
    cold fn fi_enable(ep: fid_ep, fid.ops =>
        control(&raw mut (*ep).fid, FI_ENABLE as c_int, core::ptr::null_mut())) -> c_int;
    /// fi_endpoint(3): asks for a posted operation to be given up.
    cold fn fi_cancel(ep: fid_ep, ops => cancel(&raw mut (*ep).fid, context);
        context: *mut c_void) -> isize;
    /// fi_cm(3): the endpoint's own raw address. `-FI_ETOOSMALL` when it is
    /// longer than `*addrlen`, which then holds the length needed.
    cold fn fi_getname(ep: fid_ep, cm => getname(&raw mut (*ep).fid, addr, addrlen);
        addr: *mut c_void; addrlen: *mut usize) -> c_int;

    /// fi_cq(3): takes up to `count` completions of the queue's format; drives
    /// manual progress.
    hot fn fi_cq_read(cq: fid_cq, ops => read(cq, buf, count);
        buf: *mut c_void; count: usize) -> isize;
    /// fi_cq(3): takes the error that fi_cq_read reported with `-FI_EAVAIL`.
    cold fn fi_cq_readerr(cq: fid_cq, ops => readerr(cq, entry, flags);
        entry: *mut fi_cq_err_entry; flags: u64) -> isize;

    /// fi_cntr(3): successful operations; drives manual progress.
    hot fn fi_cntr_read(cntr: fid_cntr, ops => read(cntr)) -> u64;
    /// fi_cntr(3): waits for the counter to reach `threshold`; `timeout` is in
    /// milliseconds, negative for ever.
    cold fn fi_cntr_wait(cntr: fid_cntr, ops => wait(cntr, threshold, timeout);
        threshold: u64; timeout: c_int) -> c_int;

    /// fi_rma(3): writes `len` bytes; `buf` stays untouched until it completes.
    hot fn fi_write(ep: fid_ep, rma => write(ep, buf, len, desc, dest, addr, key, context);
        buf: *const c_void; len: usize; desc: *mut c_void; dest: fi_addr_t; addr: u64; key: u64;
        context: *mut c_void) -> isize;
    /// fi_rma(3): the write that takes vectors and flags.
    hot fn fi_writemsg(ep: fid_ep, rma => writemsg(ep, msg, flags);
        msg: *const fi_msg_rma; flags: u64) -> isize;
    /// fi_rma(3): writes up to `inject_size` bytes; `buf` is free on return and
    /// no completion is queued.
    hot fn fi_inject_write(ep: fid_ep, rma => inject(ep, buf, len, dest, addr, key);
        buf: *const c_void; len: usize; dest: fi_addr_t; addr: u64; key: u64) -> isize;
    /// fi_rma(3): reads `len` bytes.
    hot fn fi_read(ep: fid_ep, rma => read(ep, buf, len, desc, src, addr, key, context);
        buf: *mut c_void; len: usize; desc: *mut c_void; src: fi_addr_t; addr: u64; key: u64;
        context: *mut c_void) -> isize;
    /// fi_rma(3): the read that takes vectors and flags.
    hot fn fi_readmsg(ep: fid_ep, rma => readmsg(ep, msg, flags);
        msg: *const fi_msg_rma; flags: u64) -> isize;

    /// fi_atomic(3): `remote[i] op= buf[i]`.
    cold fn fi_atomic(ep: fid_ep, atomic =>
        write(ep, buf, count, desc, dest, addr, key, datatype, op, context);
        buf: *const c_void; count: usize; desc: *mut c_void; dest: fi_addr_t; addr: u64; key: u64;
        datatype: fi_datatype; op: fi_op; context: *mut c_void) -> isize;
    /// fi_atomic(3): compare and swap, giving back what was there before.
    cold fn fi_compare_atomic(ep: fid_ep, atomic =>
        compwrite(ep, buf, count, desc, compare, compare_desc, result, result_desc, dest, addr, key,
            datatype, op, context);
        buf: *const c_void; count: usize; desc: *mut c_void; compare: *const c_void;
        compare_desc: *mut c_void; result: *mut c_void; result_desc: *mut c_void; dest: fi_addr_t;
        addr: u64; key: u64; datatype: fi_datatype; op: fi_op; context: *mut c_void) -> isize;

    /// fi_atomic(3): the atomic that takes vectors and flags.
    cold fn fi_atomicmsg(ep: fid_ep, atomic => writemsg(ep, msg, flags);
        msg: *const fi_msg_atomic; flags: u64) -> isize;
    /// fi_atomic(3): the fetching atomic that takes vectors and flags.
    cold fn fi_fetch_atomicmsg(ep: fid_ep, atomic =>
        readwritemsg(ep, msg, result, result_desc, result_count, flags);
        msg: *const fi_msg_atomic; result: *mut fi_ioc; result_desc: *mut *mut c_void;
        result_count: usize; flags: u64) -> isize;
    /// fi_atomic(3): the compare and swap that takes vectors and flags.
    cold fn fi_compare_atomicmsg(ep: fid_ep, atomic =>
        compwritemsg(ep, msg, compare, compare_desc, compare_count, result, result_desc,
            result_count, flags);
        msg: *const fi_msg_atomic; compare: *const fi_ioc; compare_desc: *mut *mut c_void;
        compare_count: usize; result: *mut fi_ioc; result_desc: *mut *mut c_void;
        result_count: usize; flags: u64) -> isize;
    /// fi_atomic(3): whether the operation is there, and for how many elements.
    cold fn fi_atomicvalid(ep: fid_ep, atomic => writevalid(ep, datatype, op, count);
        datatype: fi_datatype; op: fi_op; count: *mut usize) -> c_int;
    /// fi_atomic(3): the same for the fetching atomic.
    cold fn fi_fetch_atomicvalid(ep: fid_ep, atomic => readwritevalid(ep, datatype, op, count);
        datatype: fi_datatype; op: fi_op; count: *mut usize) -> c_int;
    /// fi_atomic(3): the same for compare and swap.
    cold fn fi_compare_atomicvalid(ep: fid_ep, atomic => compwritevalid(ep, datatype, op, count);
        datatype: fi_datatype; op: fi_op; count: *mut usize) -> c_int;

    /// fi_poll(3): zero when it is safe to wait on the descriptors of these
    /// objects, `-FI_EAGAIN` when there is work.
    cold fn fi_trywait(fabric: fid_fabric, ops => trywait(fabric, fids, count);
        fids: *mut *mut fid; count: c_int) -> c_int;

    /// fi_msg(3): the send that takes vectors and flags.
    hot fn fi_sendmsg(ep: fid_ep, msg => sendmsg(ep, msg, flags);
        msg: *const fi_msg; flags: u64) -> isize;
    /// fi_msg(3).
    cold fn fi_send(ep: fid_ep, msg => send(ep, buf, len, desc, dest, context);
        buf: *const c_void; len: usize; desc: *mut c_void; dest: fi_addr_t;
        context: *mut c_void) -> isize;
    /// fi_msg(3).
    hot fn fi_recv(ep: fid_ep, msg => recv(ep, buf, len, desc, src, context);
        buf: *mut c_void; len: usize; desc: *mut c_void; src: fi_addr_t;
        context: *mut c_void) -> isize;
    /// fi_msg(3): sends up to `inject_size` bytes; `buf` is free on return.
    hot fn fi_inject(ep: fid_ep, msg => inject(ep, buf, len, dest);
        buf: *const c_void; len: usize; dest: fi_addr_t) -> isize;

    /// fi_tagged(3): the send that takes vectors and flags.
    cold fn fi_tsendmsg(ep: fid_ep, tagged => sendmsg(ep, msg, flags);
        msg: *const fi_msg_tagged; flags: u64) -> isize;
    /// fi_tagged(3).
    cold fn fi_tsend(ep: fid_ep, tagged => send(ep, buf, len, desc, dest, tag, context);
        buf: *const c_void; len: usize; desc: *mut c_void; dest: fi_addr_t; tag: u64;
        context: *mut c_void) -> isize;
    /// fi_tagged(3): `ignore` has a bit set for each tag bit that matches any.
    cold fn fi_trecv(ep: fid_ep, tagged => recv(ep, buf, len, desc, src, tag, ignore, context);
        buf: *mut c_void; len: usize; desc: *mut c_void; src: fi_addr_t; tag: u64; ignore: u64;
        context: *mut c_void) -> isize;
    /// fi_tagged(3): sends up to `inject_size` bytes; `buf` is free on return.
    cold fn fi_tinject(ep: fid_ep, tagged => inject(ep, buf, len, dest, tag);
        buf: *const c_void; len: usize; dest: fi_addr_t; tag: u64) -> isize;
}

/// fi_mr(3): the key that peers name the region by.
///
/// # Safety
/// `mr` is an open, enabled region.
#[inline]
pub(crate) unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the region is open.
    unsafe { (*mr).key }
}

/// fi_mr(3): the descriptor to pass with local buffers in the region
/// (`FI_MR_LOCAL`); null where the provider needs none.
///
/// # Safety
/// `mr` is an open, enabled region.
#[inline]
pub(crate) unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the region is open.
    unsafe { (*mr).mem_desc }
}

/// fi_cq(3): the provider's text for an error that fi_cq_readerr gave.
///
/// # Safety
/// `cq` is open and `entry` was filled by it just now.
pub(crate) unsafe fn fi_cq_strerror(cq: *mut fid_cq, entry: &fi_cq_err_entry) -> String {
    let mut buffer = [0 as c_char; 256];
    // SAFETY: the queue is open; the buffer is as long as said; the answer is
    // null, static, or in the buffer.
    unsafe {
        match (*cq).ops.as_ref().and_then(|ops| ops.strerror) {
            Some(strerror) => dl::text(strerror(
                cq,
                entry.prov_errno,
                entry.err_data,
                buffer.as_mut_ptr(),
                buffer.len(),
            )),
            None => String::from("(no text)"),
        }
    }
}
