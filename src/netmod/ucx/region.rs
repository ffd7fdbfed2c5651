//! Memory that peers may reach, and the keys they reach it by.

use super::bindings as sys;
use super::domain::Ucx;
use crate::netmod::NetError;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::{Arc, PoisonError};

/// Memory mapped for remote access; unmapped on drop, and given back when it
/// is UCX's own.
pub struct Region {
    memh: sys::ucp_mem_h,
    owner: Arc<Ucx>,
}

// SAFETY: a handle is only packed and unmapped; both go to a context whose
// threading rules `Ucx` keeps.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").finish_non_exhaustive()
    }
}

impl Region {
    /// Registers the caller's memory.
    ///
    /// # Safety
    /// \[MEM\] for `start..start + len`.
    pub(super) unsafe fn register(
        owner: &Arc<Ucx>,
        start: *mut u8,
        len: usize,
    ) -> Result<Region, NetError> {
        // SAFETY: all-zero parameters name no field.
        let mut params: sys::ucp_mem_map_params_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_MEM_MAP_PARAM_FIELD_ADDRESS | sys::UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.field_mask = u64::from(fields);
        params.address = start.cast();
        params.length = len;
        // SAFETY: [MEM].
        unsafe { Region::map(owner, &params) }
    }

    /// Memory from UCX's own allocators, zeroed: transports that share memory
    /// reach theirs by stores, and anybody else's only by messages.
    pub(super) fn allocate(owner: &Arc<Ucx>, len: usize) -> Result<(Region, *mut u8), NetError> {
        let most = machine_memory();
        if len as u64 > most {
            // UCX would take all there is, and the kernel kill somebody, before it gave up.
            return Err(NetError::Call {
                provider: owner.caps.provider.clone(),
                call: "ucp_mem_map",
                code: i64::from(sys::UCS_ERR_NO_MEMORY),
                text: format!("this machine has {most} bytes of memory"),
            });
        }
        // SAFETY: all-zero parameters name no field.
        let mut params: sys::ucp_mem_map_params_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_MEM_MAP_PARAM_FIELD_LENGTH | sys::UCP_MEM_MAP_PARAM_FIELD_FLAGS;
        params.field_mask = u64::from(fields);
        params.length = len;
        params.flags = sys::UCP_MEM_MAP_ALLOCATE;
        // SAFETY: no memory of the caller's.
        let region = unsafe { Region::map(owner, &params)? };
        // SAFETY: all zeroes name no field.
        let mut attr: sys::ucp_mem_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(sys::UCP_MEM_ATTR_FIELD_ADDRESS);
        // SAFETY: the handle is open.
        let status = unsafe { (owner.f().ucp_mem_query)(region.memh, &mut attr) };
        owner.check("ucp_mem_query", status)?;
        let start: *mut u8 = attr.address.cast();
        // SAFETY: `len` bytes of ours, told to nobody yet. UCX does not say
        // that they are zero; its heap's are not.
        unsafe { start.write_bytes(0, len) };
        Ok((region, start))
    }

    /// # Safety
    /// \[MEM\] for what `params` name.
    unsafe fn map(
        owner: &Arc<Ucx>,
        params: &sys::ucp_mem_map_params_t,
    ) -> Result<Region, NetError> {
        let mut memh = null_mut();
        // SAFETY: the context is open; the mask names the fields that are set.
        let status = unsafe { (owner.f().ucp_mem_map)(owner.context, params, &mut memh) };
        owner.check("ucp_mem_map", status)?;
        Ok(Region { memh, owner: Arc::clone(owner) })
    }

    /// Keeps the registration, and the memory if it is UCX's, until UCX is
    /// closed: a put by messages that comes late is a copy to its address.
    pub(super) fn abandon(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, for `this` is not dropped.
        let owner = unsafe { std::ptr::read(&raw mut this.owner) };
        let mut stale = owner.stale_regions.lock().unwrap_or_else(PoisonError::into_inner);
        stale.push(this.memh);
    }

    /// The key, packed.
    pub(super) fn rkey_pack(&self) -> Result<Vec<u8>, NetError> {
        let owner = &self.owner;
        let (mut buffer, mut len) = (null_mut(), 0);
        // SAFETY: context and handle are open.
        let status =
            unsafe { (owner.f().ucp_rkey_pack)(owner.context, self.memh, &mut buffer, &mut len) };
        owner.check("ucp_rkey_pack", status)?;
        // SAFETY: UCX gave a buffer of `len` bytes, released once.
        unsafe {
            let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), len).to_vec();
            (owner.f().ucp_rkey_buffer_release)(buffer);
            Ok(bytes)
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped once, unmapped once.
        unsafe { (self.owner.f().ucp_mem_unmap)(self.owner.context, self.memh) };
    }
}

/// A key for operations through an endpoint.
///
/// # Safety
/// `dest` is an endpoint, `key` what [`Region::rkey_pack`] gave.
pub(super) unsafe fn rkey_unpack(ucx: &Ucx, dest: u64, key: &[u8]) -> Result<u64, NetError> {
    let mut rkey = null_mut();
    // SAFETY: [DEST]; `key` is whole, as UCX packed it.
    let status = unsafe {
        (ucx.f().ucp_ep_rkey_unpack)(dest as sys::ucp_ep_h, key.as_ptr().cast(), &mut rkey)
    };
    ucx.check("ucp_ep_rkey_unpack", status)?;
    Ok(rkey as u64)
}

/// Where the memory behind a key is mapped here.
///
/// # Safety
/// `key` came from [`rkey_unpack`], `addr` lies in its region.
pub(super) unsafe fn rkey_ptr(ucx: &Ucx, key: u64, addr: u64) -> Option<*mut u8> {
    let mut pointer: *mut c_void = null_mut();
    // SAFETY: [KEY]: `addr` lies in its region.
    let status = unsafe { (ucx.f().ucp_rkey_ptr)(key as sys::ucp_rkey_h, addr, &mut pointer) };
    (status == sys::UCS_OK && !pointer.is_null()).then_some(pointer.cast())
}

/// Bytes of memory that the machine has; `u64::MAX` where that cannot be told.
fn machine_memory() -> u64 {
    // SAFETY: all-zero is a valid sysinfo, which the call fills.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: a structure of ours.
    let known = unsafe { libc::sysinfo(&mut info) } == 0;
    if known { (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) } else { u64::MAX }
}
