//! A window seen through a context: the put path.

use super::core::WindowCore;
use super::{Error, ErrorKind};
use crate::av::{Entry, Transport};
use crate::device::{Context, DeviceError, Progress, Token};
use crate::netmod::{AGAIN, Netmod, Transfer};
use crate::rankmap::{Lookup, Model, Process, RankMap};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Answer of [`Access::put_unchecked`] when the failure is not the provider's:
/// [`Access::take_error`] tells.
pub const FAILED: isize = isize::MIN;

/// Ways an operation can go, in the order the put path tests them.
mod path {
    /// The provider, with metadata that is the same for all ranks.
    pub(super) const PROVIDER: u32 = 0;
    /// Every rank's memory is mapped here at an address affine in the rank.
    pub(super) const MAPPED: u32 = 1;
    /// Metadata that differs between ranks.
    pub(super) const GENERAL: u32 = 2;
    /// No epoch is open.
    pub(super) const CLOSED: u32 = 3;
}

/// Which access epoch is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    Closed,
    Fence,
    LockAll,
    Freed,
}

/// Ranks share a mark of "something was put since the last flush" with those
/// that are equal modulo this.
const MARKS: usize = 256;

/// A window seen through a context: everything a put needs, side by side.
///
/// A [`Window`](super::Window) has one of its own; further ones are made for
/// other threads' contexts or for other communicators of the same processes
/// with [`Access::open`]. Operations and flushes of one access do not know of
/// another's.
#[repr(C)]
pub struct Access<N: Netmod> {
    lookup: Lookup,
    /// The way operations go, [`path::CLOSED`] outside an epoch.
    gate: Cell<u32>,
    /// The same, whether an epoch is open or not.
    path: u32,
    ranks: u32,
    wire: N::Wire,
    inject_size: usize,
    unit: usize,
    base: u64,
    key: u64,
    bytes: usize,
    max_disp: usize,
    mapped_start: *mut u8,
    mapped_stride: isize,
    marks: UnsafeCell<[u8; MARKS]>,
    epoch: Cell<Epoch>,
    map: RankMap,
    context: Rc<Context<N>>,
    core: RefCell<Option<Arc<WindowCore<N>>>>,
    error: RefCell<Option<Error>>,
}

impl<N: Netmod> std::fmt::Debug for Access<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("ranks", &self.ranks)
            .field("model", &self.map.model())
            .field("path", &self.path)
            .field("epoch", &self.epoch.get())
            .finish_non_exhaustive()
    }
}

/// How long the caller leaves its buffer alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffer {
    /// Free again when the call returns.
    Returned,
    /// The operation's until the flush.
    Kept,
}

/// Everything about one target that an operation needs.
struct Target {
    process: Process,
    world: u32,
    transport: Transport,
    /// Where the target's memory is mapped here.
    mapped: Option<*mut u8>,
    dest: u64,
    addr: u64,
    key: u64,
}

impl<N: Netmod> Access<N> {
    /// An access to a window for the ranks of `map`, on this thread's context.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] when the window's sizes, units, keys or
    /// addresses differ between ranks and `map` is not the window's own.
    pub fn open(
        core: &Arc<WindowCore<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        if core.uniform().is_none() {
            let why = "this window's sizes, units or keys differ between ranks; \
                       only its own communicator can be used";
            return Err(ErrorKind::Arguments(why.into()).into());
        }
        Access::new(core, context, map)
    }

    pub(super) fn new(
        core: &Arc<WindowCore<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        let uniform = core.uniform();
        let mapped = uniform.and_then(|_| fold_mapped(core, context, map));
        let path = match (uniform, mapped) {
            (None, _) => path::GENERAL,
            (Some(_), Some(_)) => path::MAPPED,
            (Some(_), None) => path::PROVIDER,
        };
        let port = context.port(Transport::Network).or_else(|| context.port(Transport::Local));
        let (netmod, port) = port.ok_or(DeviceError::NoTransport {
            rank: context.device().boot().rank(),
            why: "no provider is open",
        })?;
        let uniform = uniform.unwrap_or_default();
        let (mapped_start, mapped_stride) = mapped.unwrap_or((std::ptr::null_mut(), 0));
        Ok(Access {
            // SAFETY: the directory outlives the access, which holds the
            // context and thereby the device; `map` is kept beside the lookup.
            lookup: unsafe { Lookup::new(map, context.device().av().directory()) },
            gate: Cell::new(path::CLOSED),
            path,
            ranks: map.len(),
            wire: N::wire(port),
            inject_size: netmod.caps().inject_size,
            unit: uniform.unit as usize,
            base: uniform.base,
            key: uniform.key,
            bytes: uniform.bytes as usize,
            max_disp: uniform.bytes.checked_div(uniform.unit).unwrap_or(0) as usize,
            mapped_start,
            mapped_stride,
            marks: UnsafeCell::new([0; MARKS]),
            epoch: Cell::new(Epoch::Closed),
            map: map.clone(),
            context: Rc::clone(context),
            core: RefCell::new(Some(Arc::clone(core))),
            error: RefCell::new(None),
        })
    }

    /// Puts `buf` into the memory of `rank`, `disp` units from its start. The
    /// buffer is free again on return; the bytes are in the target's memory
    /// after a flush.
    ///
    /// # Errors
    /// [`ErrorKind::NoEpoch`], [`ErrorKind::Rank`], [`ErrorKind::OutOfBounds`],
    /// [`ErrorKind::Freed`]; a peer that died or cannot be reached, by name.
    #[inline]
    pub fn put(&self, buf: &[u8], rank: u32, disp: usize) -> Result<(), Error> {
        let gate = self.gate.get();
        let len = buf.len();
        // `disp <= max_disp` keeps the product within the window's bytes.
        if gate > path::MAPPED
            || rank >= self.ranks
            || disp > self.max_disp
            || len > self.bytes - disp * self.unit
        {
            return self.put_slow(buf, rank, disp, AGAIN, Buffer::Returned);
        }
        // SAFETY: rank, displacement and length were checked just now; `buf`
        // is a slice, and long puts wait for it.
        let rc = unsafe { self.issue(gate, buf.as_ptr(), len, rank, disp, Buffer::Returned) };
        if rc == 0 {
            return Ok(());
        }
        self.put_slow(buf, rank, disp, rc, Buffer::Returned)
    }

    /// Puts as [`Access::put`] does, but the buffer belongs to the operation
    /// until the next flush, as MPI_Put has it; long puts then overlap.
    ///
    /// # Errors
    /// As [`Access::put`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// `buf` is null or stays readable for `len` bytes until this access was
    /// flushed for `rank`.
    #[inline]
    pub unsafe fn put_nb(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if buf.is_null() && len > 0 {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        let buf = if len == 0 { std::ptr::NonNull::dangling().as_ptr() } else { buf };
        // SAFETY: not null, readable for `len` bytes by the caller's word.
        let buf = unsafe { std::slice::from_raw_parts(buf, len) };
        let gate = self.gate.get();
        if gate > path::MAPPED
            || rank >= self.ranks
            || disp > self.max_disp
            || len > self.bytes - disp * self.unit
        {
            return self.put_slow(buf, rank, disp, AGAIN, Buffer::Kept);
        }
        // SAFETY: checked just now; the caller keeps `buf` until the flush.
        let rc = unsafe { self.issue(gate, buf.as_ptr(), len, rank, disp, Buffer::Kept) };
        if rc == 0 {
            return Ok(());
        }
        self.put_slow(buf, rank, disp, rc, Buffer::Kept)
    }

    /// The put of a device layer that has checked everything itself: no test
    /// of epoch, rank, displacement or length.
    ///
    /// Returns 0, [`AGAIN`] (make progress and call again), another negative
    /// error number of the provider, or [`FAILED`].
    ///
    /// # Safety
    /// The window is not freed, `rank` is less than the size of the access's
    /// map, the target's memory holds `len` bytes from `disp` units on, and
    /// `buf` stays readable for `len` bytes until the access was flushed for
    /// `rank`.
    #[inline]
    pub unsafe fn put_unchecked(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        // SAFETY: the caller's duty.
        unsafe { self.issue(self.path, buf, len, rank, disp, Buffer::Kept) }
    }

    /// # Safety
    /// As [`Access::put_unchecked`]; `gate` is not `CLOSED`.
    #[inline(always)]
    unsafe fn issue(
        &self,
        gate: u32,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        buffer: Buffer,
    ) -> isize {
        if gate == path::PROVIDER {
            // SAFETY: rank is in range by the caller's word.
            let entry = unsafe { self.lookup.entry(rank as usize) };
            // An empty entry, a peer on the node and a long or empty put go
            // round; the subtraction lets one test see both lengths.
            return match N::unpack(Entry::from_bits(entry)) {
                Some((dest, Transport::Network)) if len.wrapping_sub(1) < self.inject_size => {
                    self.mark(rank);
                    let addr = self.base + (disp * self.unit) as u64;
                    // SAFETY: the port lives in the context held here; `dest`
                    // was inserted; the rest is the caller's word.
                    unsafe { N::inject(self.wire, buf, len, dest, addr, self.key) }
                }
                // SAFETY: the caller's word.
                _ => unsafe { self.issue_other(buf, len, rank, disp, buffer) },
            };
        }
        if gate == path::MAPPED {
            self.mark(rank);
            let part = (rank as isize).wrapping_mul(self.mapped_stride);
            // SAFETY: the parts of all ranks are mapped while the core lives,
            // and displacement and length stay within one by the caller's word.
            unsafe {
                let to = self.mapped_start.offset(part).add(disp * self.unit);
                copy(to, buf, len);
            }
            return 0;
        }
        // SAFETY: the caller's word.
        unsafe { self.issue_other(buf, len, rank, disp, buffer) }
    }

    /// The way round: peers on the node, first use, long puts, uneven windows.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    #[inline(never)]
    unsafe fn issue_other(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        buffer: Buffer,
    ) -> isize {
        if len == 0 {
            return 0;
        }
        let target = match self.target(rank, disp) {
            Ok(target) => target,
            Err(e) => return self.keep(e),
        };
        self.mark(rank);
        if let Some(to) = target.mapped {
            // SAFETY: mapped, and within the part by the caller's word.
            unsafe { copy(to, buf, len) };
            return 0;
        }
        let Some((netmod, port)) = self.context.port(target.transport) else {
            return self.keep(no_provider(&target));
        };
        if len <= netmod.caps().inject_size {
            // SAFETY: the caller's word, and `dest` was inserted.
            return unsafe {
                N::inject(N::wire(port), buf, len, target.dest, target.addr, target.key)
            };
        }
        // SAFETY: as above; the buffer is waited for or kept by the caller.
        match unsafe { self.write_long(buf, len, &target, buffer) } {
            Ok(()) => 0,
            Err(e) => self.keep(e),
        }
    }

    /// Keeps an error for [`Access::take_error`].
    #[cold]
    fn keep(&self, error: Error) -> isize {
        *self.error.borrow_mut() = Some(error);
        FAILED
    }

    /// The error behind the last [`FAILED`].
    #[cold]
    pub fn take_error(&self) -> Option<Error> {
        self.error.borrow_mut().take()
    }

    /// Finds out about a target, inserting it on first use.
    fn target(&self, rank: u32, disp: usize) -> Result<Target, Error> {
        let core = self.core()?;
        let device = self.context.device();
        // SAFETY: callers pass ranks in range.
        let mut entry = Entry::from_bits(unsafe { self.lookup.entry(rank as usize) });
        let process = self.map.get(rank).ok_or(ErrorKind::Rank { rank, size: self.ranks })?;
        if entry.is_empty() {
            entry = device.connect(process)?;
        }
        let world = device.world_rank(process)?;
        let (value, transport) = N::unpack(entry).unwrap_or((0, Transport::Network));
        let offset = disp as u64 * core.units.get(rank);
        let mut target = Target {
            process,
            world,
            transport,
            mapped: None,
            dest: value,
            addr: core.bases.get(rank) + offset,
            key: core.keys.get(rank),
        };
        if transport == Transport::Local {
            let node_rank = value as u32;
            target.mapped = core.mapped.map(|m| {
                // SAFETY: the node's segment holds a part for every node rank.
                unsafe { m.start.add(node_rank as usize * m.pitch).add(offset as usize) }
            });
            target.addr = offset;
            target.key = core.local_key;
            if target.mapped.is_none() {
                let address = device.local_address(node_rank);
                target.dest = address.ok_or_else(|| no_provider(&target))?;
            }
        } else if let Some(m) = core.mapped.filter(|m| m.all) {
            // A node without a shared-memory provider still maps its windows.
            let part = device.node_rank(world).unwrap_or(0) as usize * m.pitch;
            // SAFETY: all members are on this node, so the part is mapped.
            target.mapped = Some(unsafe { m.start.add(part).add(offset as usize) });
        }
        Ok(target)
    }

    /// Issues a tracked write in pieces the provider takes.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    unsafe fn write_long(
        &self,
        buf: *const u8,
        len: usize,
        target: &Target,
        buffer: Buffer,
    ) -> Result<(), Error> {
        let context = &*self.context;
        let (netmod, port) = context.port(target.transport).ok_or_else(|| no_provider(target))?;
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(netmod.caps().max_message);
            let token = context.token(target.world);
            if buffer == Buffer::Returned {
                context.expect(token);
            }
            let op = Transfer {
                // SAFETY: at < len.
                buf: unsafe { buf.add(at) },
                len: piece,
                dest: target.dest,
                addr: target.addr + at as u64,
                key: target.key,
                token: token.bits(),
            };
            self.start(target, "fi_writemsg", || {
                // SAFETY: the caller keeps the buffer, or it is awaited below.
                unsafe { netmod.write(port, op) }
            })
            .inspect_err(|_| context.forget(token))?;
            context.issued();
            if buffer == Buffer::Returned {
                self.await_token(token, target.world)?;
            }
            at += piece;
        }
        Ok(())
    }

    /// Gets `buf.len()` bytes from the memory of `rank`, `disp` units from its
    /// start. They are in `buf` on return.
    ///
    /// # Errors
    /// As [`Access::put`].
    pub fn get(&self, buf: &mut [u8], rank: u32, disp: usize) -> Result<(), Error> {
        self.check(rank, disp, buf.len())?;
        // SAFETY: checked; `buf` is exclusively ours until the return.
        unsafe { self.read(buf.as_mut_ptr(), buf.len(), rank, disp, Buffer::Returned) }
    }

    /// Gets as [`Access::get`] does, but the bytes are in `buf` only after the
    /// next flush, as MPI_Get has it.
    ///
    /// # Errors
    /// As [`Access::get`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// `buf` is null or stays writable for `len` bytes, and untouched, until
    /// this access was flushed for `rank`.
    pub unsafe fn get_nb(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if buf.is_null() && len > 0 {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        self.check(rank, disp, len)?;
        // SAFETY: checked; the caller keeps `buf` until the flush.
        unsafe { self.read(buf, len, rank, disp, Buffer::Kept) }
    }

    /// # Safety
    /// The target range was checked, `buf` is writable for `len` bytes as long
    /// as `buffer` says.
    unsafe fn read(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
        buffer: Buffer,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let target = self.target(rank, disp)?;
        self.mark(rank);
        if let Some(from) = target.mapped {
            // SAFETY: mapped, within the part, and apart from `buf`, which is
            // this process's own.
            unsafe { copy(buf, from, len) };
            return Ok(());
        }
        let context = &*self.context;
        let (netmod, port) = context.port(target.transport).ok_or_else(|| no_provider(&target))?;
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(netmod.caps().max_message);
            // SAFETY: at < len.
            let to = unsafe { buf.add(at) };
            let token = context.token(target.world);
            if buffer == Buffer::Returned {
                context.expect(token);
            }
            // SAFETY: the caller keeps the buffer, or it is awaited below.
            unsafe { self.read_piece(&target, token, to, piece, target.addr + at as u64) }
                .inspect_err(|_| context.forget(token))?;
            if buffer == Buffer::Returned {
                self.await_token(token, target.world)?;
            }
            at += piece;
        }
        let _ = (netmod, port);
        Ok(())
    }

    /// Issues one tracked read.
    ///
    /// # Safety
    /// `to` stays writable for `len` bytes until the token came back.
    unsafe fn read_piece(
        &self,
        target: &Target,
        token: Token,
        to: *mut u8,
        len: usize,
        addr: u64,
    ) -> Result<(), Error> {
        let port = self.context.port(target.transport);
        let (netmod, port) = port.ok_or_else(|| no_provider(target))?;
        let op =
            Transfer { buf: to, len, dest: target.dest, addr, key: target.key, token: token.bits() };
        // SAFETY: the caller's duty.
        self.start(target, "fi_readmsg", || unsafe { netmod.read(port, op) })?;
        self.context.issued();
        Ok(())
    }

    /// Issues until the provider has room.
    fn start(
        &self,
        target: &Target,
        call: &'static str,
        mut issue: impl FnMut() -> isize,
    ) -> Result<(), Error> {
        let mut rc = issue();
        if rc == AGAIN {
            self.context.wait(&[target.world], || {
                rc = issue();
                Ok(if rc == AGAIN { Progress::Waiting } else { Progress::Done })
            })?;
        }
        match rc {
            0 => Ok(()),
            rc => Err(self.provider_error(target.transport, target.world, call, rc)),
        }
    }

    fn provider_error(
        &self,
        transport: Transport,
        world: u32,
        call: &'static str,
        rc: isize,
    ) -> Error {
        match self.context.port(transport) {
            Some((netmod, _)) => self.context.blame(world, netmod.explain(call, rc)).into(),
            None => DeviceError::NoTransport { rank: world, why: "no provider is open" }.into(),
        }
    }

    fn await_token(&self, token: Token, world: u32) -> Result<(), Error> {
        let mut result = Ok(());
        self.context
            .wait(&[world], || {
                Ok(match self.context.answer(token) {
                    Some(answer) => {
                        result = answer;
                        Progress::Done
                    }
                    None => Progress::Waiting,
                })
            })
            .inspect_err(|_| self.context.forget(token))?;
        result.map_err(|e| self.context.blame(world, e).into())
    }

    /// Says what is wrong with a put, or carries it through.
    #[cold]
    #[inline(never)]
    fn put_slow(
        &self,
        buf: &[u8],
        rank: u32,
        disp: usize,
        rc: isize,
        buffer: Buffer,
    ) -> Result<(), Error> {
        self.check(rank, disp, buf.len())?;
        let mut rc = rc;
        if rc == AGAIN {
            let target = self.target(rank, disp)?;
            self.context.wait(&[target.world], || {
                // SAFETY: checked above; the buffer is as the caller promised.
                rc = unsafe { self.issue(self.path, buf.as_ptr(), buf.len(), rank, disp, buffer) };
                Ok(if rc == AGAIN { Progress::Waiting } else { Progress::Done })
            })?;
        }
        match rc {
            0 => Ok(()),
            FAILED => {
                let lost = || ErrorKind::Arguments("the error of a put was lost".into()).into();
                Err(self.take_error().unwrap_or_else(lost))
            }
            rc => {
                let target = self.target(rank, disp)?;
                Err(self.provider_error(target.transport, target.world, "fi_inject_write", rc))
            }
        }
    }

    /// Refuses what must not be issued.
    fn check(&self, rank: u32, disp: usize, len: usize) -> Result<(), Error> {
        match self.epoch.get() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::Closed => return Err(ErrorKind::NoEpoch.into()),
            Epoch::Fence | Epoch::LockAll => {}
        }
        if rank >= self.ranks {
            return Err(ErrorKind::Rank { rank, size: self.ranks }.into());
        }
        let core = self.core()?;
        let (bytes, unit) = (core.sizes.get(rank), core.units.get(rank) as usize);
        let end = disp.checked_mul(unit).and_then(|at| at.checked_add(len));
        if end.is_none_or(|end| end as u64 > bytes) {
            return Err(ErrorKind::OutOfBounds { rank, disp, unit, len, bytes }.into());
        }
        Ok(())
    }

    /// Waits until everything put or got on this access with `rank` is done at
    /// the target.
    ///
    /// # Errors
    /// A peer that died or an operation that failed, by name.
    pub fn flush(&self, rank: u32) -> Result<(), Error> {
        self.check(rank, 0, 0)?;
        self.flush_ranks(&[rank])
    }

    /// Waits until everything issued on this access is done at the targets.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_all(&self) -> Result<(), Error> {
        self.check_open()?;
        self.flush_dirty()
    }

    /// Waits until the buffers of operations with `rank` may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local(&self, rank: u32) -> Result<(), Error> {
        self.check(rank, 0, 0)?;
        let world = self.world(rank)?;
        self.drain(&[world])
    }

    /// Waits until the buffers of all operations may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local_all(&self) -> Result<(), Error> {
        self.check_open()?;
        self.drain(&[])
    }

    fn check_open(&self) -> Result<(), Error> {
        match self.epoch.get() {
            Epoch::Freed => Err(ErrorKind::Freed.into()),
            Epoch::Closed => Err(ErrorKind::NoEpoch.into()),
            Epoch::Fence | Epoch::LockAll => Ok(()),
        }
    }

    pub(super) fn flush_dirty(&self) -> Result<(), Error> {
        let marked = |mark: &usize| {
            // SAFETY: the marks are read and written by the owning thread only.
            unsafe { (*self.marks.get())[*mark] != 0 }
        };
        let ranks: Vec<u32> = (0..MARKS.min(self.ranks as usize))
            .filter(marked)
            .flat_map(|mark| (mark as u32..self.ranks).step_by(MARKS))
            .collect();
        self.flush_ranks(&ranks)?;
        self.drain(&[])
    }

    /// Reads back from every rank that was put to: the answer comes behind the
    /// puts. All reads are under way together.
    fn flush_ranks(&self, ranks: &[u32]) -> Result<(), Error> {
        // What was stored into mapped parts is visible to whoever hears of
        // this flush.
        fence(Ordering::SeqCst);
        let core = self.core()?;
        let device = self.context.device();
        let mut worlds = Vec::with_capacity(ranks.len());
        let mut probes = Vec::new();
        let mut scratch = vec![[0_u8; 8]; ranks.len()];
        let mut first_error = None;
        for (&rank, to) in ranks.iter().zip(&mut scratch) {
            let world = self.world(rank)?;
            if self.path != path::MAPPED {
                // SAFETY: rank < self.ranks, checked by the callers.
                let entry = Entry::from_bits(unsafe { self.lookup.entry(rank as usize) });
                if entry.is_empty() {
                    continue;
                }
                let target = self.target(rank, 0)?;
                let len = core.sizes.get(rank).min(8) as usize;
                if target.mapped.is_none() && len > 0 {
                    let token = self.context.token(world);
                    self.context.expect(token);
                    // SAFETY: `scratch` outlives the wait below, which ends only
                    // when every probe was answered or its peer is dead.
                    match unsafe {
                        self.read_piece(&target, token, to.as_mut_ptr(), len, target.addr)
                    } {
                        Ok(()) => probes.push((token, world)),
                        Err(e) => {
                            self.context.forget(token);
                            first_error.get_or_insert(e);
                        }
                    }
                }
            }
            worlds.push(world);
            self.unmark(rank);
        }
        for &(token, world) in &probes {
            if let Err(e) = self.await_token(token, world) {
                first_error.get_or_insert(e);
            }
        }
        if first_error.is_some() {
            // A probe towards a dead peer may still be answered into it.
            std::mem::forget(scratch);
        }
        let drained = self.drain(&worlds);
        if let Err(e) = self.context.look_after(&worlds) {
            // The death of a peer explains whatever else went wrong.
            return Err(e.into());
        }
        let _ = device;
        first_error.map_or(drained, Err)
    }

    /// Waits for tracked operations and reports those that failed: towards
    /// `worlds`, or anybody when that is empty.
    fn drain(&self, worlds: &[u32]) -> Result<(), Error> {
        let context = &*self.context;
        if context.outstanding() > 0 {
            context.wait(worlds, || {
                let left = context.outstanding();
                Ok(if left == 0 { Progress::Done } else { Progress::Waiting })
            })?;
        } else {
            context.progress()?;
        }
        let failure = match worlds {
            [] => context.take_failure(None),
            worlds => worlds.iter().find_map(|&w| context.take_failure(Some(w))),
        };
        failure.map_or(Ok(()), |e| Err(e.into()))
    }

    fn world(&self, rank: u32) -> Result<u32, Error> {
        let process = self.map.get(rank).ok_or(ErrorKind::Rank { rank, size: self.ranks })?;
        Ok(self.context.device().world_rank(process)?)
    }

    #[inline(always)]
    fn mark(&self, rank: u32) {
        // SAFETY: only the owning thread touches the marks, and never keeps a
        // reference to them.
        unsafe { (*self.marks.get())[rank as usize % MARKS] = 1 };
    }

    fn unmark(&self, rank: u32) {
        // SAFETY: as in `mark`. Ranks that share the mark are flushed in the
        // same call or were not put to through it; see `flush_dirty`.
        unsafe { (*self.marks.get())[rank as usize % MARKS] = 0 };
    }

    /// Whether something was issued since the last flush.
    pub(super) fn dirty(&self) -> bool {
        // SAFETY: as in `mark`.
        unsafe { (*self.marks.get()).iter().any(|&m| m != 0) }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.get()
    }

    pub(super) fn set_epoch(&self, epoch: Epoch) {
        self.epoch.set(epoch);
        let open = matches!(epoch, Epoch::Fence | Epoch::LockAll);
        self.gate.set(if open { self.path } else { path::CLOSED });
        if epoch == Epoch::Freed {
            *self.core.borrow_mut() = None;
        }
    }

    /// The window's shared part.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn core(&self) -> Result<Arc<WindowCore<N>>, Error> {
        self.core.borrow().clone().ok_or_else(|| ErrorKind::Freed.into())
    }

    /// The rank map of this access.
    pub fn map(&self) -> &RankMap {
        &self.map
    }

    /// The context operations are issued on.
    pub fn context(&self) -> &Rc<Context<N>> {
        &self.context
    }

    /// Whether every put is a store into mapped memory, found without an
    /// address-vector entry.
    pub fn is_mapped(&self) -> bool {
        self.path == path::MAPPED
    }
}

fn no_provider(target: &Target) -> Error {
    let why = "the window is not mapped and no shared-memory provider is open on both sides";
    DeviceError::NoTransport { rank: target.world, why }.into()
}

/// Where the parts of a window are mapped, as a line over the ranks of `map`:
/// possible when all members are on this node and their node ranks are affine.
fn fold_mapped<N: Netmod>(
    core: &WindowCore<N>,
    context: &Context<N>,
    map: &RankMap,
) -> Option<(*mut u8, isize)> {
    let mapped = core.mapped.filter(|m| m.all)?;
    let device = context.device();
    affine(map)?;
    let world = match map.pg()? {
        0 => map.clone(),
        pg => device.members_of(pg)?.compose(map).ok()?,
    };
    let (base, stride) = affine(&device.node_ranks().compose(&world).ok()?)?;
    // SAFETY: the segment holds a part for every node rank.
    let start = unsafe { mapped.start.add(base as usize * mapped.pitch) };
    Some((start, stride as isize * mapped.pitch as isize))
}

/// Base and stride of a map that is a line.
fn affine(map: &RankMap) -> Option<(u32, i64)> {
    let lpid = |rank| map.get(rank).map(|p| p.lpid);
    match map.model() {
        Model::Direct | Model::Offset | Model::Stride => {
            let base = lpid(0)?;
            Some((base, lpid(1).map_or(0, |next| i64::from(next) - i64::from(base))))
        }
        _ => None,
    }
}

/// Copies between a buffer and a window's memory. Volatile for one word: the
/// memory is shared, each put is an event of its own.
///
/// # Safety
/// Both sides hold `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    if len == 8 {
        // SAFETY: eight bytes on both sides; x86-64 and aarch64 take them at
        // any alignment, and elsewhere the compiler takes them apart.
        unsafe { to.cast::<Word>().write_volatile(from.cast::<Word>().read()) };
    } else {
        // SAFETY: the caller's duty.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Eight bytes at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);
