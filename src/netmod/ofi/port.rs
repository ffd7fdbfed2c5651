//! An endpoint with its completion queue and counter.

use super::bindings as sys;
use super::domain::{Ofi, Region};
use super::ffi;
use crate::netmod::{AGAIN, Completion, NetError, Netmod, Transfer};
use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::Arc;

/// Tracked operations under way at one time on a port; one more is answered
/// with [`AGAIN`]. Smaller than every provider's default queue.
const SLOTS: usize = 256;
/// Bytes a bounce buffer of a slot holds (only with `FI_MR_LOCAL`).
const BOUNCE: usize = 4096;

/// The endpoint, as the put path needs it: with the provider's function at
/// hand. Operation tables stand once an endpoint is enabled.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    ep: *mut sys::fid_ep,
    inject: Inject,
}

type Inject =
    unsafe extern "C" fn(*mut sys::fid_ep, *const c_void, usize, sys::fi_addr_t, u64, u64) -> isize;

impl Wire {
    /// The provider's own `fi_inject_write`.
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
        // SAFETY: the caller's duty; the port that made this is alive.
        unsafe { (self.inject)(self.ep, buf.cast(), len, dest, addr, key) }
    }
}

/// Stands in until the endpoint is open.
unsafe extern "C" fn no_inject(
    _: *mut sys::fid_ep,
    _: *const c_void,
    _: usize,
    _: sys::fi_addr_t,
    _: u64,
    _: u64,
) -> isize {
    -(libc::EINVAL as isize)
}

/// An endpoint, its completion queue and its write counter. Belongs to one
/// thread at a time.
pub struct Port {
    ep: *mut sys::fid_ep,
    cq: *mut sys::fid_cq,
    /// Counts writes; without one rxm crashes when a peer dies under an inject.
    cntr: *mut sys::fid_cntr,
    slots: Box<[UnsafeCell<Slot>]>,
    free: RefCell<Vec<u16>>,
    bounce: Option<Bounce>,
    owner: Arc<Ofi>,
}

/// Registered memory for tracked transfers of up to BOUNCE bytes, a part for
/// each slot (`FI_MR_LOCAL`).
struct Bounce {
    region: Region,
    memory: Box<[UnsafeCell<u8>]>,
}

/// A tracked operation; its address is the operation's context.
#[repr(C)]
struct Slot {
    /// The provider's own while the operation is under way (`FI_CONTEXT2`).
    context: [*mut c_void; 8],
    token: u64,
    dest: u64,
    /// A long local buffer registered for this operation.
    region: Option<Region>,
    /// Where a bounced read goes.
    copy_to: *mut [u8],
}

// SAFETY: the raw pointers name objects of this port alone; a port has one
// owner at a time, who may change (FI_THREAD_SAFE is asked for when ports are
// used in several threads).
unsafe impl Send for Port {}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("provider", &self.owner.caps.provider).finish_non_exhaustive()
    }
}

impl Port {
    pub(super) fn open(owner: &Arc<Ofi>) -> Result<Port, NetError> {
        let slot = || {
            UnsafeCell::new(Slot {
                context: [null_mut(); 8],
                token: 0,
                dest: 0,
                region: None,
                copy_to: slice_from_raw_parts_mut(null_mut(), 0),
            })
        };
        let mut port = Port {
            ep: null_mut(),
            cq: null_mut(),
            cntr: null_mut(),
            slots: (0..SLOTS).map(|_| slot()).collect(),
            free: RefCell::new((0..SLOTS as u16).collect()),
            bounce: None,
            owner: Arc::clone(owner),
        };
        // After `port`, whose drop takes it too when this fails.
        let _alone = owner.alone();
        // SAFETY: the domain and its info are open while `owner` lives; each
        // object is bound before the endpoint is enabled, as fi_endpoint(3)
        // asks, and whatever was opened is closed on drop.
        unsafe {
            let domain = owner.domain;
            let rc = ffi::fi_endpoint(domain, owner.info.as_ptr(), &mut port.ep, null_mut());
            owner.check("fi_endpoint", rc)?;
            let mut attr: sys::fi_cq_attr = std::mem::zeroed();
            attr.format = sys::FI_CQ_FORMAT_CONTEXT;
            attr.wait_obj = sys::FI_WAIT_NONE;
            owner.check(
                "fi_cq_open",
                ffi::fi_cq_open(domain, &mut attr, &mut port.cq, null_mut()),
            )?;
            let flags = sys::FI_TRANSMIT | sys::FI_RECV | sys::FI_SELECTIVE_COMPLETION;
            let rc = ffi::fi_ep_bind(port.ep, &raw mut (*port.cq).fid, flags);
            owner.check("fi_ep_bind(cq)", rc)?;
            let mut attr: sys::fi_cntr_attr = std::mem::zeroed();
            attr.events = sys::FI_CNTR_EVENTS_COMP;
            attr.wait_obj = sys::FI_WAIT_NONE;
            let rc = ffi::fi_cntr_open(domain, &mut attr, &mut port.cntr, null_mut());
            owner.check("fi_cntr_open", rc)?;
            let rc = ffi::fi_ep_bind(port.ep, &raw mut (*port.cntr).fid, sys::FI_WRITE);
            owner.check("fi_ep_bind(counter)", rc)?;
            let rc = ffi::fi_ep_bind(port.ep, &raw mut (*owner.av).fid, 0);
            owner.check("fi_ep_bind(av)", rc)?;
            owner.check("fi_enable", ffi::fi_enable(port.ep))?;
            if !ffi::has_rma(port.ep) {
                return Err(NetError::NoRma { provider: owner.caps.provider.clone() });
            }
        }
        if owner.duty(sys::FI_MR_LOCAL) {
            port.bounce = Some(port.open_bounce()?);
        }
        Ok(port)
    }

    fn open_bounce(&self) -> Result<Bounce, NetError> {
        let memory: Box<[_]> = (0..SLOTS * BOUNCE).map(|_| UnsafeCell::new(0_u8)).collect();
        // SAFETY: memory and region are dropped together with the port.
        let region = unsafe { self.register_local(memory.as_ptr().cast(), memory.len())? };
        Ok(Bounce { region, memory })
    }

    /// Registers a local buffer for reads and writes of this port.
    ///
    /// # Safety
    /// The buffer stays mapped until the region is dropped.
    unsafe fn register_local(&self, start: *const u8, len: usize) -> Result<Region, NetError> {
        // Keys of local registrations are never told to anyone; where the
        // provider does not choose them they need only differ from windows'.
        let key = u64::from(u32::MAX) ^ (start.addr() as u64 >> 3 & 0x7fff_ffff);
        // SAFETY: the caller's duty.
        unsafe { self.owner.register_for(self.ep, start, len, sys::FI_READ | sys::FI_WRITE, key) }
    }

    #[inline(always)]
    pub(super) fn wire(&self) -> Wire {
        // SAFETY: the endpoint is open and has RMA (checked at open).
        let inject = unsafe { (*(*self.ep).rma).inject };
        Wire { ep: self.ep, inject: inject.unwrap_or(no_inject) }
    }

    pub(super) fn endpoint(&self) -> *mut sys::fid_ep {
        self.ep
    }

    pub(super) fn counter(&self) -> *mut sys::fid_cntr {
        self.cntr
    }

    pub(super) fn owner(&self) -> &Ofi {
        &self.owner
    }

    /// See [`Netmod::write`](crate::netmod::Netmod::write).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn write(&self, op: Transfer<*const u8>) -> isize {
        let write = Direction::Write;
        // SAFETY: the caller's duty; a write only reads the buffer.
        unsafe {
            self.transfer(op.buf.cast_mut(), op.len, op.dest, op.addr, op.key, op.token, write)
        }
    }

    /// See [`Netmod::read`](crate::netmod::Netmod::read).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn read(&self, op: Transfer<*mut u8>) -> isize {
        let read = Direction::Read;
        // SAFETY: the caller's duty.
        unsafe { self.transfer(op.buf, op.len, op.dest, op.addr, op.key, op.token, read) }
    }

    #[expect(clippy::too_many_arguments, reason = "one operation, taken apart once")]
    unsafe fn transfer(
        &self,
        buf: *mut u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
        token: u64,
        direction: Direction,
    ) -> isize {
        let Some(index) = self.free.borrow_mut().pop() else { return AGAIN };
        // SAFETY: a free slot is referred to by nobody else until its
        // completion, and the port has one owner.
        let slot = unsafe { &mut *self.slots[usize::from(index)].get() };
        slot.token = token;
        slot.dest = dest;
        // SAFETY: the caller keeps `buf` alive until the completion.
        let local = match unsafe { self.local(slot, index, buf, len, direction) } {
            Ok(local) => local,
            Err(code) => {
                self.free.borrow_mut().push(index);
                return code;
            }
        };
        let (start, mut desc) = local;
        let iov = sys::iovec { iov_base: start.cast(), iov_len: len };
        let remote = sys::fi_rma_iov { addr, len, key };
        let msg = sys::fi_msg_rma {
            msg_iov: &iov,
            desc: &mut desc,
            iov_count: 1,
            addr: dest,
            rma_iov: &remote,
            rma_iov_count: 1,
            context: (&raw mut *slot).cast(),
            data: 0,
        };
        // SAFETY: the endpoint is enabled and has RMA; vectors are copied at
        // the call (fi_rma(3)); slot and buffers live until the completion.
        let rc = unsafe {
            match direction {
                Direction::Write => {
                    let flags = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;
                    ffi::fi_writemsg(self.ep, &msg, flags)
                }
                Direction::Read => ffi::fi_readmsg(self.ep, &msg, sys::FI_COMPLETION),
            }
        };
        if rc != 0 {
            slot.region = None;
            self.free.borrow_mut().push(index);
        }
        rc
    }

    /// The local buffer as the provider wants it: as it is, bounced, or
    /// registered for this operation.
    ///
    /// # Safety
    /// `buf` holds `len` bytes until the slot's completion.
    unsafe fn local(
        &self,
        slot: &mut Slot,
        index: u16,
        buf: *mut u8,
        len: usize,
        direction: Direction,
    ) -> Result<(*mut u8, *mut c_void), isize> {
        slot.copy_to = slice_from_raw_parts_mut(null_mut(), 0);
        let Some(Bounce { region, memory }) = &self.bounce else { return Ok((buf, null_mut())) };
        if len <= BOUNCE {
            let start = memory[usize::from(index) * BOUNCE].get();
            match direction {
                // SAFETY: this slot's part of the bounce memory is BOUNCE long,
                // and `buf` holds `len` bytes.
                Direction::Write => unsafe { start.copy_from_nonoverlapping(buf, len) },
                Direction::Read => slot.copy_to = slice_from_raw_parts_mut(buf, len),
            }
            // SAFETY: the bounce region is open.
            return Ok((start, unsafe { ffi::fi_mr_desc(region.mr) }));
        }
        // SAFETY: the caller keeps the buffer until the completion, which drops
        // the region.
        let region = unsafe { self.register_local(buf, len) };
        let region = region.map_err(|e| match e {
            NetError::Call { code, .. } => code as isize,
            _ => -(libc::EINVAL as isize),
        })?;
        // SAFETY: just opened.
        let desc = unsafe { ffi::fi_mr_desc(region.mr) };
        slot.region = Some(region);
        Ok((buf, desc))
    }

    /// See [`Netmod::poll`](crate::netmod::Netmod::poll).
    pub(super) fn poll(&self, mut done: impl FnMut(Completion)) -> Result<(), NetError> {
        const BATCH: usize = 16;
        let empty = sys::fi_cq_entry { op_context: null_mut() };
        let mut entries = [empty; BATCH];
        loop {
            // SAFETY: the queue is open with FI_CQ_FORMAT_CONTEXT, and `entries`
            // holds BATCH of those.
            let n = unsafe { ffi::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), BATCH) };
            match n {
                AGAIN => break,
                n if n >= 0 => {
                    for e in &entries[..n as usize] {
                        if let Some(token) = self.finish(e.op_context, true) {
                            done(Completion { token, result: Ok(()) });
                        }
                    }
                    if n < BATCH as isize {
                        break;
                    }
                }
                n if n == -(sys::FI_EAVAIL as isize) => self.take_error(&mut done)?,
                n => return Err(self.owner.explain("fi_cq_read", n)),
            }
        }
        Ok(())
    }

    fn take_error(&self, done: &mut impl FnMut(Completion)) -> Result<(), NetError> {
        // SAFETY: an all-zero error entry asks for no error data.
        let mut entry: sys::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open.
        let n = unsafe { ffi::fi_cq_readerr(self.cq, &mut entry, 0) };
        if n == AGAIN {
            return Ok(());
        }
        if n < 0 {
            return Err(self.owner.explain("fi_cq_readerr", n));
        }
        // SAFETY: `entry` was filled by this queue just now.
        let detail = unsafe { ffi::fi_cq_strerror(self.cq, &entry) };
        let general = self.owner.lib.strerror(entry.err as isize);
        let text = if detail == general { general } else { format!("{general}: {detail}") };
        let error = |peer| NetError::Operation {
            provider: self.owner.caps.provider.clone(),
            peer,
            code: i64::from(entry.err),
            text: text.clone(),
        };
        // SAFETY: slots live as long as the port, whose owner is here now.
        let peer = self.slot_of(entry.op_context).map(|(_, slot)| unsafe { (*slot).dest });
        match self.finish(entry.op_context, false) {
            Some(token) => {
                done(Completion { token, result: Err(error(peer)) });
                Ok(())
            }
            None => Err(error(None)),
        }
    }

    /// The slot behind a context, if it is one of ours: providers have been
    /// seen to hand out contexts of their own for injected puts.
    fn slot_of(&self, context: *mut c_void) -> Option<(u16, *mut Slot)> {
        let offset = context.addr().checked_sub(self.slots.as_ptr().addr())?;
        let index = offset / size_of::<Slot>();
        if index >= SLOTS || offset % size_of::<Slot>() != 0 {
            return None;
        }
        Some((index as u16, self.slots[index].get()))
    }

    /// Frees the slot of a finished operation and returns its token.
    fn finish(&self, context: *mut c_void, copy: bool) -> Option<u64> {
        let (index, slot) = self.slot_of(context)?;
        // SAFETY: the operation is over, so the slot is the port's alone, and
        // the port's owner is here now.
        let slot = unsafe { &mut *slot };
        if let Some(Bounce { memory, .. }) = self.bounce.as_ref().filter(|_| copy) {
            let from = memory[usize::from(index) * BOUNCE].get();
            let len = slot.copy_to.len();
            // SAFETY: the reader keeps its buffer until the token comes back;
            // the bounce part holds what was read.
            unsafe { slot.copy_to.cast::<u8>().copy_from_nonoverlapping(from, len) };
        }
        slot.region = None;
        self.free.borrow_mut().push(index);
        Some(slot.token)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Regions first: some are bound to the endpoint (FI_MR_ENDPOINT).
        self.slots.iter_mut().for_each(|slot| slot.get_mut().region = None);
        self.bounce = None;
        let owner = Arc::clone(&self.owner);
        let _alone = owner.alone();
        // SAFETY: opened by `open`, closed once; the endpoint goes before what
        // is bound to it.
        unsafe {
            for fid in [self.ep.cast(), self.cq.cast(), self.cntr.cast::<sys::fid>()] {
                if !fid.is_null() {
                    ffi::fi_close(fid);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Write,
    Read,
}
