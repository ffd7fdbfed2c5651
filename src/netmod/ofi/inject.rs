//! What an access holds to put: the provider's function, or one of ours in its place.

use super::bindings as sys;
use super::gate::{Gate, lock};
use crate::netmod::node;
use std::ffi::c_void;
use std::sync::Arc;

/// The provider's `fi_inject_write` and the endpoint, side by side. Operation
/// tables do not change once an endpoint is enabled. Laid out for C, where a
/// device layer's inline put reads it. The endpoint stands last, for compilers load
/// words in the order of their addresses: then it replaces the pointer to all this.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InjectHandle {
    pub(super) inject: Inject,
    pub(super) ep: *mut sys::fid_ep,
}

pub(super) type Inject =
    unsafe extern "C" fn(*mut sys::fid_ep, *const c_void, usize, sys::fi_addr_t, u64, u64) -> isize;

impl InjectHandle {
    /// One that hands puts to the module for the node.
    pub(super) fn of_node(node: node::InjectHandle) -> InjectHandle {
        let (unused, inject) = node.parts();
        // SAFETY: functions of one signature but for what their first two arguments
        // point to, which is theirs alone to know.
        let inject = unsafe { std::mem::transmute::<node::Inject, Inject>(inject) };
        InjectHandle { inject, ep: unused.cast_mut().cast() }
    }

    /// The call that a put ends in.
    ///
    /// # Safety
    /// As [`Netmod::inject`](crate::netmod::Netmod::inject).
    #[inline(always)]
    pub(super) unsafe fn inject(
        self,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT]: `ep` is open; [DEST], [BUF], [LIMIT].
        unsafe { (self.inject)(self.ep, buf.cast(), len, dest, addr, key) }
    }
}

/// Stands in until the endpoint is open.
pub(super) unsafe extern "C" fn no_inject(
    _: *mut sys::fid_ep,
    _: *const c_void,
    _: usize,
    _: sys::fi_addr_t,
    _: u64,
    _: u64,
) -> isize {
    -(libc::EINVAL as isize)
}

/// The provider's `fi_inject_write`, called under the endpoint's gate.
pub(super) struct Gated {
    gate: Arc<Gate>,
    provider: InjectHandle,
}

impl Gated {
    pub(super) fn new(provider: InjectHandle) -> Box<Gated> {
        Box::new(Gated { gate: Arc::default(), provider })
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What puts call in place of the provider's.
    pub(super) fn handle(&self) -> InjectHandle {
        InjectHandle { inject: gated_inject, ep: std::ptr::from_ref(self).cast_mut().cast() }
    }
}

/// # Safety
/// `this` is a [`Gated`] of an open endpoint; the rest as fi_rma(3) asks.
unsafe extern "C" fn gated_inject(
    this: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    dest: u64,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: `handle` is the only one to give this function, with its own address,
    // and lives as long as the endpoint.
    let this = unsafe { &*this.cast::<Gated>() };
    let _inside = lock(&this.gate);
    // SAFETY: the caller's.
    unsafe { this.provider.inject(buf.cast(), len, dest, addr, key) }
}
