//! Data transfer: check, complete, count. Nothing is moved.
//!
//! ```text
//! mod     the tables of operations
//! rma, msg, tagged, atomic    their functions
//! issue   what all of them come to
//! ```
//!
//! `SAFE` says whether threads may come at once; without it counts are plain
//! loads and stores, and the program keeps threads apart (see `info`).

mod atomic;
mod issue;
mod msg;
mod rma;
mod tagged;

use crate::bindings::*;

pub(crate) use atomic::query_atomic;

/// The operation tables of an endpoint.
pub(crate) struct Tables {
    pub(crate) rma: fi_ops_rma,
    pub(crate) msg: fi_ops_msg,
    pub(crate) tagged: fi_ops_tagged,
    pub(crate) atomic: fi_ops_atomic,
}

static APART: Tables = tables_for::<false>();
static TOGETHER: Tables = tables_for::<true>();

/// The tables for threads that may come at once, or are kept apart.
pub(crate) fn tables(safe: bool) -> &'static Tables {
    if safe { &TOGETHER } else { &APART }
}

pub(crate) const fn tables_for<const SAFE: bool>() -> Tables {
    Tables {
        rma: fi_ops_rma {
            size: size_of::<fi_ops_rma>(),
            read: Some(rma::read::<SAFE>),
            readv: Some(rma::readv::<SAFE>),
            readmsg: Some(rma::readmsg::<SAFE>),
            write: Some(rma::write::<SAFE>),
            writev: Some(rma::writev::<SAFE>),
            writemsg: Some(rma::writemsg::<SAFE>),
            inject: Some(rma::inject_write::<SAFE>),
            writedata: Some(rma::writedata::<SAFE>),
            injectdata: Some(rma::inject_writedata::<SAFE>),
        },
        msg: fi_ops_msg {
            size: size_of::<fi_ops_msg>(),
            recv: Some(msg::recv::<SAFE>),
            recvv: Some(msg::recvv::<SAFE>),
            recvmsg: Some(msg::recvmsg::<SAFE>),
            send: Some(msg::send::<SAFE>),
            sendv: Some(msg::sendv::<SAFE>),
            sendmsg: Some(msg::sendmsg::<SAFE>),
            inject: Some(msg::inject::<SAFE>),
            senddata: Some(msg::senddata::<SAFE>),
            injectdata: Some(msg::injectdata::<SAFE>),
        },
        tagged: fi_ops_tagged {
            size: size_of::<fi_ops_tagged>(),
            recv: Some(tagged::recv::<SAFE>),
            recvv: Some(tagged::recvv::<SAFE>),
            recvmsg: Some(tagged::recvmsg::<SAFE>),
            send: Some(tagged::send::<SAFE>),
            sendv: Some(tagged::sendv::<SAFE>),
            sendmsg: Some(tagged::sendmsg::<SAFE>),
            inject: Some(tagged::inject::<SAFE>),
            senddata: Some(tagged::senddata::<SAFE>),
            injectdata: Some(tagged::injectdata::<SAFE>),
        },
        atomic: fi_ops_atomic {
            size: size_of::<fi_ops_atomic>(),
            write: Some(atomic::atomic::<SAFE>),
            writev: Some(atomic::atomicv::<SAFE>),
            writemsg: Some(atomic::atomicmsg::<SAFE>),
            inject: Some(atomic::inject_atomic::<SAFE>),
            readwrite: Some(atomic::fetch_atomic::<SAFE>),
            readwritev: Some(atomic::fetch_atomicv::<SAFE>),
            readwritemsg: Some(atomic::fetch_atomicmsg::<SAFE>),
            compwrite: Some(atomic::compare_atomic::<SAFE>),
            compwritev: Some(atomic::compare_atomicv::<SAFE>),
            compwritemsg: Some(atomic::compare_atomicmsg::<SAFE>),
            writevalid: Some(atomic::atomicvalid),
            readwritevalid: Some(atomic::fetch_atomicvalid),
            compwritevalid: Some(atomic::compare_atomicvalid),
        },
    }
}
