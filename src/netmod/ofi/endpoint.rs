//! An endpoint with its completion queue and counter.

use super::bindings as sys;
use super::constants::{PROVIDER_ENV, TRACKED};
use super::domain::{Av, Domain};
use super::ffi;
use super::gate::lock;
use super::gather::Gather;
use super::inject::{Gated, InjectHandle, no_inject};
use super::pages::Pages;
use super::region::Region;
use super::ring::{Posted, Ring};
use super::select::is_node_local;
use super::slots::{Slot, SlotKind, Slots};
use crate::netmod::{AGAIN, Completion, HEAD, NetError, Transfer, UNSUPPORTED};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::{Arc, MutexGuard};

/// Completions one poll hands out, in batches; what is left waits for the next.
const BATCHES: usize = 16;

/// An endpoint, its completion queue and its write counter. Belongs to one
/// thread at a time.
pub struct Endpoint {
    ep: *mut sys::fid_ep,
    cq: *mut sys::fid_cq,
    /// Counts writes; without one rxm crashes when a peer dies under an inject.
    cntr: *mut sys::fid_cntr,
    pub(super) slots: Slots,
    pub(super) bounce: Option<Bounce>,
    /// Where packets arrive; none where the provider has no messages.
    pub(super) ring: Option<Ring>,
    /// Readable when the queue has work, where the provider has such a thing.
    pub(super) fd: Option<RawFd>,
    gated: Option<Box<Gated>>,
    pub(super) gather: Option<Box<Gather>>,
    /// Closed after the endpoint, and before its domain.
    av: Arc<Av>,
    owner: Arc<Domain>,
}

/// Bounce buffers for tracked operations, one for each slot: for packets that
/// are longer than an inject, and with `FI_MR_LOCAL` for all that fits.
pub(super) struct Bounce {
    /// With `FI_MR_LOCAL` only.
    pub(super) region: Option<Region>,
    memory: Pages,
    /// Bytes of a slot's buffer.
    pub(super) each: usize,
}

impl Bounce {
    pub(super) fn at(&self, index: u16) -> *mut u8 {
        self.memory.at(usize::from(index) * self.each)
    }

    /// The descriptor that goes with addresses in here.
    pub(super) fn desc(&self) -> *mut c_void {
        // SAFETY: the registration is open.
        self.region.as_ref().map_or(null_mut(), |region| unsafe { ffi::fi_mr_desc(region.mr) })
    }
}

// SAFETY: the raw pointers name objects of this endpoint alone; an endpoint has
// one owner at a time, who may change (FI_THREAD_SAFE is asked for when
// endpoints are used in several threads).
unsafe impl Send for Endpoint {}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.owner.caps.provider)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn open(owner: &Arc<Domain>) -> Result<Endpoint, NetError> {
        let mut endpoint = Endpoint {
            ep: null_mut(),
            cq: null_mut(),
            cntr: null_mut(),
            slots: Slots::new(),
            bounce: None,
            ring: None,
            fd: None,
            gated: None,
            gather: None,
            av: owner.av()?,
            owner: Arc::clone(owner),
        };
        owner.setup.alone(|gates| {
            endpoint.enable()?;
            if owner.gated {
                let gated = Gated::new(endpoint.provider_handle());
                gates.push(Arc::clone(gated.gate()));
                endpoint.gated = Some(gated);
            }
            Ok::<(), NetError>(())
        })?;
        let caps = &owner.caps;
        if caps.provider.contains("tcp") && caps.inject_size > 0 {
            let provider = endpoint.provider_handle();
            endpoint.gather = Gather::new(provider, caps.iov_limit, caps.inject_size);
        }
        let each = owner.bounce_size();
        if each > 0 {
            endpoint.bounce = Some(endpoint.open_bounce(each)?);
        }
        if owner.caps.packet_size > 0 {
            let memory = Pages::new(Ring::BYTES)?;
            let region = endpoint.register_if_required(&memory)?;
            let ring = endpoint.ring.insert(Ring::new(memory, region));
            match ring.post_all(Posted { ep: endpoint.ep, slots: &endpoint.slots }) {
                0 => {}
                rc => return Err(owner.explain("fi_recv", rc)),
            }
        }
        Ok(endpoint)
    }

    /// Opens the endpoint and what is bound to it.
    fn enable(&mut self) -> Result<(), NetError> {
        let owner = Arc::clone(&self.owner);
        // SAFETY: the domain and its info are open while `owner` lives; each
        // object is bound before the endpoint is enabled, as fi_endpoint(3)
        // asks, and whatever was opened is closed on drop.
        unsafe {
            let domain = owner.domain;
            let rc = ffi::fi_endpoint(domain, owner.info.as_ptr(), &mut self.ep, null_mut());
            owner.check("fi_endpoint", rc)?;
            self.open_queue()?;
            // Receives all complete here; of the rest those that ask for it.
            for flags in [sys::FI_TRANSMIT | sys::FI_SELECTIVE_COMPLETION, sys::FI_RECV] {
                let rc = ffi::fi_ep_bind(self.ep, &raw mut (*self.cq).fid, flags);
                owner.check("fi_ep_bind(cq)", rc)?;
            }
            let mut attr: sys::fi_cntr_attr = std::mem::zeroed();
            attr.events = sys::FI_CNTR_EVENTS_COMP;
            attr.wait_obj = sys::FI_WAIT_NONE;
            let rc = ffi::fi_cntr_open(domain, &mut attr, &mut self.cntr, null_mut());
            owner.check("fi_cntr_open", rc)?;
            let rc = ffi::fi_ep_bind(self.ep, &raw mut (*self.cntr).fid, sys::FI_WRITE);
            owner.check("fi_ep_bind(counter)", rc)?;
            let rc = ffi::fi_ep_bind(self.ep, &raw mut (*self.av.as_ptr()).fid, 0);
            owner.check("fi_ep_bind(av)", rc)?;
            owner.check("fi_enable", ffi::fi_enable(self.ep))?;
            if !ffi::has_rma(self.ep) {
                let provider = owner.caps.provider.clone();
                return Err(NetError::NoRma { provider, variable: PROVIDER_ENV });
            }
            if owner.caps.packet_size > 0 && !ffi::has_messages(self.ep) {
                return Err(owner.explain("fi_enable", UNSUPPORTED));
            }
        }
        Ok(())
    }

    /// Opens the completion queue, with a descriptor where there can be one.
    fn open_queue(&mut self) -> Result<(), NetError> {
        let mut rc = 0;
        for wait_obj in [sys::FI_WAIT_FD, sys::FI_WAIT_NONE] {
            // With shared memory there is no descriptor, or one that every sender
            // has to write to.
            if wait_obj == sys::FI_WAIT_FD && is_node_local(&self.owner.caps.provider) {
                continue;
            }
            // SAFETY: all zeroes are the defaults; the domain is open.
            rc = unsafe {
                let mut attr: sys::fi_cq_attr = std::mem::zeroed();
                attr.format = sys::FI_CQ_FORMAT_MSG;
                attr.wait_obj = wait_obj;
                ffi::fi_cq_open(self.owner.domain, &mut attr, &mut self.cq, null_mut())
            };
            if rc == 0 {
                if wait_obj == sys::FI_WAIT_FD {
                    self.fd = self.queue_fd();
                }
                return Ok(());
            }
        }
        self.owner.check("fi_cq_open", rc)
    }

    /// The completion queue's descriptor, as it was opened.
    #[cold]
    fn queue_fd(&self) -> Option<RawFd> {
        let mut fd: RawFd = -1;
        // SAFETY: the queue is open with FI_WAIT_FD, for which this command
        // answers an int (fi_cq(3)).
        let rc = unsafe {
            let fid = &raw mut (*self.queue()).fid;
            ffi::fi_control(fid, sys::FI_GETWAIT as i32, (&raw mut fd).cast())
        };
        (rc == 0 && fd >= 0).then_some(fd)
    }

    fn open_bounce(&self, each: usize) -> Result<Bounce, NetError> {
        let memory = Pages::new(TRACKED * each)?;
        let region = self.register_if_required(&memory)?;
        Ok(Bounce { region, memory, each })
    }

    /// Registers buffers of the endpoint itself where the provider wants that.
    pub(super) fn register_if_required(&self, memory: &Pages) -> Result<Option<Region>, NetError> {
        if !self.owner.requires_registration(sys::FI_MR_LOCAL) {
            return Ok(None);
        }
        // SAFETY: memory and region are dropped together with the endpoint.
        unsafe { self.register_local(memory.at(0), memory.len()).map(Some) }
    }

    /// Registers a local buffer for reads and writes of this endpoint.
    ///
    /// # Safety
    /// \[MEM\]: the buffer stays mapped until the region is dropped.
    pub(super) unsafe fn register_local(
        &self,
        start: *const u8,
        len: usize,
    ) -> Result<Region, NetError> {
        let key = self.owner.local_key();
        // SAFETY: [MEM]; the endpoint is the owner's.
        unsafe { self.owner.register_for(self.ep, start, len, self.owner.local_access(), key) }
    }

    /// Held while the library is called for this endpoint, where it needs that: by what
    /// may meet a peer for the first time.
    #[inline]
    pub(super) fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        self.gated.as_ref().map(|gated| lock(gated.gate()))
    }

    #[inline(always)]
    pub(super) fn inject_handle(&self) -> InjectHandle {
        match (&self.gated, &self.gather) {
            (Some(gated), _) => gated.handle(),
            (_, Some(gather)) => gather.handle(),
            _ => self.provider_handle(),
        }
    }

    #[inline(always)]
    fn provider_handle(&self) -> InjectHandle {
        // SAFETY: the endpoint is open and has RMA (checked at open).
        let inject = unsafe { (*(*self.ep).rma).inject };
        InjectHandle { inject: inject.unwrap_or(no_inject), ep: self.ep }
    }

    /// Where the ring's receives go.
    #[inline(always)]
    fn posted(&self) -> Posted<'_> {
        Posted { ep: self.ep, slots: &self.slots }
    }

    pub(super) fn ep(&self) -> *mut sys::fid_ep {
        self.ep
    }

    pub(super) fn queue(&self) -> *mut sys::fid_cq {
        self.cq
    }

    #[cfg(feature = "baseline")]
    pub(super) fn counter(&self) -> *mut sys::fid_cntr {
        self.cntr
    }

    pub(super) fn av(&self) -> *mut sys::fid_av {
        self.av.as_ptr()
    }

    pub(super) fn owner(&self) -> &Domain {
        &self.owner
    }

    /// See [`Netmod::write`](crate::netmod::Netmod::write).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn write(&self, op: Transfer<*const u8>) -> isize {
        let write = Direction::Write;
        // SAFETY: [DEST], [LIMIT]; [BUF]: a write only reads it.
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
        // SAFETY: [DEST], [BUF], [LIMIT].
        unsafe { self.transfer(op.buf, op.len, op.dest, op.addr, op.key, op.token, read) }
    }

    /// # Safety
    /// \[DEST\], \[LIMIT\], \[BUF\] to read from or to write to, as the direction is.
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
        let Some((index, slot)) = self.slots.tracked() else { return AGAIN };
        slot.token = token;
        slot.dest = dest;
        // SAFETY: [BUF]: `buf` stays until the completion.
        let local = match unsafe { self.prepare_local(slot, index, buf, len, direction) } {
            Ok(local) => local,
            Err(code) => {
                self.slots.release(index, slot);
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
            context: slot.as_context(),
            data: 0,
        };
        // SAFETY: [DEST]; the endpoint is enabled and has RMA; vectors are copied at the
        // call (fi_rma(3)); slot and buffers live until the completion: [BUF].
        let rc = unsafe { self.issue(&msg, direction) };
        if rc != 0 {
            self.slots.release(index, slot);
        }
        rc
    }

    /// # Safety
    /// As fi_rma(3) asks; what the message's context and buffers name lives
    /// until the completion.
    #[inline]
    pub(super) unsafe fn issue(&self, msg: &sys::fi_msg_rma, direction: Direction) -> isize {
        if let Some(gather) = &self.gather {
            // What tells that they are done must not overtake them.
            match gather.send(msg.addr) {
                0 => {}
                rc => return rc,
            }
        }
        let _inside = self.enter();
        // SAFETY: the endpoint is enabled and has RMA; the message is as fi_rma(3) asks,
        // and what it names lives until the completion.
        unsafe {
            match direction {
                Direction::Write => {
                    let flags = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;
                    ffi::fi_writemsg(self.ep, msg, flags)
                }
                Direction::Read => ffi::fi_readmsg(self.ep, msg, sys::FI_COMPLETION),
            }
        }
    }

    /// The local buffer as the provider needs it: as it is, bounced, or
    /// registered for this operation.
    ///
    /// # Safety
    /// \[BUF\]: `buf` holds `len` bytes until the slot's completion.
    unsafe fn prepare_local(
        &self,
        slot: &mut Slot,
        index: u16,
        buf: *mut u8,
        len: usize,
        direction: Direction,
    ) -> Result<(*mut u8, *mut c_void), isize> {
        let Some(bounce) = self.bounce.as_ref().filter(|b| b.region.is_some()) else {
            return Ok((buf, null_mut()));
        };
        if len <= bounce.each {
            let start = bounce.at(index);
            match direction {
                // SAFETY: this slot's part of the bounce memory is long enough,
                // and `buf` holds `len` bytes.
                Direction::Write => unsafe { start.copy_from_nonoverlapping(buf, len) },
                Direction::Read => {
                    slot.copy_from = 0;
                    slot.copy_to.push((buf, len));
                }
            }
            return Ok((start, bounce.desc()));
        }
        // SAFETY: [BUF]: `buf` stays until the completion, which drops the region.
        let desc = unsafe { self.register_for_operation(slot, buf, len)? };
        Ok((buf, desc))
    }

    /// Registers the caller's memory until the slot's completion (`FI_MR_LOCAL`).
    ///
    /// # Safety
    /// \[BUF\]: `buf` holds `len` bytes until then.
    pub(super) unsafe fn register_for_operation(
        &self,
        slot: &mut Slot,
        buf: *const u8,
        len: usize,
    ) -> Result<*mut c_void, isize> {
        if !self.owner.requires_registration(sys::FI_MR_LOCAL) || len == 0 {
            return Ok(null_mut());
        }
        // SAFETY: [MEM], by [BUF]: the completion drops the region.
        let region = unsafe { self.register_local(buf, len) };
        let region = region.map_err(|e| match e {
            NetError::Call { code, .. } | NetError::LockLimit { code, .. } => code as isize,
            _ => -(libc::EINVAL as isize),
        })?;
        // SAFETY: just opened.
        let desc = unsafe { ffi::fi_mr_desc(region.mr) };
        slot.regions.push(region);
        Ok(desc)
    }

    /// See [`Netmod::poll`](crate::netmod::Netmod::poll).
    pub(super) fn poll(
        &self,
        mut done: impl FnMut(Completion),
        mut arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        const BATCH: usize = 16;
        let mut entries = [MaybeUninit::<sys::fi_cq_msg_entry>::uninit(); BATCH];
        if let Some(ring) = &self.ring {
            match ring.repost(self.posted()) {
                0 => {}
                rc => return Err(self.owner.explain("fi_recv", rc)),
            }
        }
        if let Some(gather) = &self.gather {
            self.send_gathered(gather)?;
        }
        for _ in 0..BATCHES {
            let inside = self.enter();
            // SAFETY: the queue is open with FI_CQ_FORMAT_MSG, and `entries`
            // holds BATCH of those.
            let n = unsafe { ffi::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), BATCH) };
            drop(inside);
            match n {
                AGAIN => break,
                n if n >= 0 => {
                    for e in &entries[..n as usize] {
                        // SAFETY: the provider filled the first `n`.
                        let e = unsafe { e.assume_init_ref() };
                        self.complete_one(e, &mut done, &mut arrived);
                    }
                    if n < BATCH as isize {
                        break;
                    }
                }
                n if n == -(sys::FI_EAVAIL as isize) => self.take_error(&mut done)?,
                n => return Err(self.owner.explain("fi_cq_read", n)),
            }
        }
        Ok(false)
    }

    #[inline]
    fn send_gathered(&self, gather: &Gather) -> Result<(), NetError> {
        gather.send_all();
        gather.take_refused().map_or(Ok(()), |(_, code)| {
            Err(NetError::Operation {
                provider: self.owner.caps.provider.clone(),
                // (Only packets have one without a token.)
                peer: None,
                code: code as i64,
                text: self.owner.lib.strerror(code),
            })
        })
    }

    /// Handles one completion.
    #[inline]
    pub(super) fn complete_one(
        &self,
        e: &sys::fi_cq_msg_entry,
        done: &mut impl FnMut(Completion),
        arrived: &mut impl FnMut(&[u8; HEAD], &[u8]),
    ) {
        match (self.slots.find(e.op_context), &self.ring) {
            (Some((SlotKind::Packet(number), _)), Some(ring)) => {
                ring.arrived(self.posted(), number, e.len, arrived);
            }
            (Some((what, index)), _) => {
                let result =
                    if what == SlotKind::Bulk { self.check_length(index, e.len) } else { Ok(()) };
                if let Some(token) = self.finish(index, true) {
                    done(Completion { token, result });
                }
            }
            (None, _) => {}
        }
    }

    /// Checks that a bulk message was as long as the two sides agreed.
    fn check_length(&self, index: u16, len: usize) -> Result<(), NetError> {
        // SAFETY: the slot is given back by `finish`, later.
        let expected = unsafe { self.slots.get(index) }.len;
        if len == expected {
            return Ok(());
        }
        Err(NetError::Operation {
            provider: self.owner.caps.provider.clone(),
            peer: None,
            code: i64::from(libc::EMSGSIZE),
            text: format!("a bulk message of {len} bytes came where {expected} were expected"),
        })
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
        let index = match (self.slots.find(entry.op_context), &self.ring) {
            (Some((SlotKind::Packet(number), _)), Some(ring)) => {
                // Cancelled because the endpoint is being closed, or it could
                // not be received: the layer above numbers packets and notices.
                ring.failed(number);
                return if entry.err == libc::ECANCELED { Ok(()) } else { Err(error(None)) };
            }
            (Some((_, index)), _) => index,
            (None, _) => return Err(error(None)),
        };
        // SAFETY: an operation's slot is not given back before `finish`.
        let peer = Some(unsafe { self.slots.get(index) }.dest);
        match self.finish(index, false) {
            Some(token) => {
                done(Completion { token, result: Err(error(peer)) });
                Ok(())
            }
            None => Err(error(peer)),
        }
    }

    /// Frees the slot of a finished operation and returns its token.
    #[inline]
    fn finish(&self, index: u16, copy: bool) -> Option<u64> {
        // SAFETY: the operation is over, so the slot is the endpoint's alone,
        // and the endpoint's owner is here now.
        let slot = unsafe { self.slots.get(index) };
        if !slot.copy_to.is_empty() && copy {
            self.copy_back(index, slot);
        }
        let token = (!slot.internal).then_some(slot.token);
        self.slots.release(index, slot);
        token
    }

    #[cold]
    fn copy_back(&self, index: u16, slot: &mut Slot) {
        let Some(bounce) = &self.bounce else { return };
        let mut from = bounce.at(index).wrapping_add(slot.copy_from);
        for &(to, len) in &slot.copy_to {
            // SAFETY: [BUF], as the token is not back yet; the bounce part holds what
            // was read.
            unsafe { to.copy_from_nonoverlapping(from, len) };
            from = from.wrapping_add(len);
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Regions first: some are bound to the endpoint (FI_MR_ENDPOINT).
        self.slots.abandon();
        if let Some(bounce) = &mut self.bounce {
            bounce.region = None;
        }
        if let Some(ring) = &mut self.ring {
            ring.region = None;
        }
        let owner = Arc::clone(&self.owner);
        owner.setup.alone(|gates| {
            if let Some(gated) = &self.gated {
                gates.retain(|gate| !Arc::ptr_eq(gate, gated.gate()));
            }
            // SAFETY: opened by `open`, closed once; the endpoint goes before what
            // is bound to it.
            unsafe {
                for fid in [self.ep.cast(), self.cq.cast(), self.cntr.cast::<sys::fid>()] {
                    if !fid.is_null() {
                        ffi::fi_close(fid);
                    }
                }
            }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Write,
    Read,
}
