//! Accumulate, get_accumulate, fetch_and_op, compare_and_swap.
//!
//! Three access paths, tried in this order:
//!
//! 1. the target's memory is mapped here: the processor's atomics, done on
//!    return;
//! 2. the provider has the operation for that type, does it with the target's
//!    processor ([`Caps::cpu_atomics`](crate::netmod::Caps)) and takes the elements
//!    in few calls (UCX takes one a call): its atomics;
//! 3. else a packet, carried out in the target's progress with its processor's
//!    atomics.
//!
//! All three are atomic with each other, element by element. Elements of
//! sixteen bytes, and those that do not lie at a multiple of their size, no
//! processor changes in one instruction: these always take the third path, and
//! the target holds a lock. Operations of one access on one rank are done in
//! the order of their calls: a change between the second and the third path
//! waits for what went before, unless [`Hints::ordered`] was given up.
//!
//! Where the provider's atomics are under a lock of the target's
//! ([`Netmod::locks_elements`]), the second path takes all elements that are not mapped,
//! whoever changes some of these takes the lock, and so do those who have elements mapped
//! that no processor changes in one instruction: nothing is left for the third.

use super::access::Access;
use super::am_fallback::{Answer, Request, error_of, opcode};
use super::cold::{CALLS_PER_PROGRESS, PROVIDER_CALLS};
use super::element::{Element, bits};
use super::request::{InFlight, Left, Pending};
use super::types::{AccessPath, Status, Target, unreachable_error};
use super::{Error, ErrorKind, Hints};
use crate::netmod::compute::{Work, is_atomic, refusal};
use crate::netmod::{Kind, Netmod, Op, Type};
use crate::track;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The caller's side of an operation on elements.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) kind: Kind,
    pub(super) ty: Type,
    pub(super) op: Op,
    pub(super) operand: *const u8,
    pub(super) compare: *const u8,
    pub(super) result: *mut u8,
    pub(super) count: usize,
}

impl Origin {
    /// Elements that are changed.
    fn update(ty: Type, op: Op, operand: *const u8, count: usize) -> Origin {
        let (compare, result) = (std::ptr::null(), std::ptr::null_mut());
        Origin { kind: Kind::Update, ty, op, operand, compare, result, count }
    }

    /// Elements that are fetched and changed.
    fn fetch(ty: Type, op: Op, operand: *const u8, result: *mut u8, count: usize) -> Origin {
        Origin { kind: Kind::Fetch, ty, op, operand, compare: std::ptr::null(), result, count }
    }

    /// `count` elements of it from element `from` on.
    pub(super) fn piece(&self, from: usize, count: usize) -> Origin {
        let byte = from * self.ty.size();
        let has_operand = self.op != Op::NoOp || self.kind == Kind::Swap;
        Origin {
            operand: if has_operand { self.operand.wrapping_add(byte) } else { self.operand },
            compare: match self.kind {
                Kind::Swap => self.compare.wrapping_add(byte),
                _ => self.compare,
            },
            result: match self.kind {
                Kind::Update => self.result,
                _ => self.result.wrapping_add(byte),
            },
            count,
            ..*self
        }
    }

    /// (Of a count past all memory, which is refused, some number.)
    pub(super) fn bytes(&self) -> usize {
        self.count.wrapping_mul(self.ty.size())
    }

    pub(super) fn work(&self, at: *mut u8) -> Work {
        let Origin { kind, ty, op, operand, compare, result, count } = *self;
        Work { kind, ty, op, at, operand, compare, result, count }
    }

    /// Operands and comparands, one behind the other: copied only where there are both.
    ///
    /// # Safety
    /// \[BUF\]: the buffers that the operation uses hold its elements as long as this lives.
    pub(super) unsafe fn body(&self) -> Cow<'_, [u8]> {
        let len = self.bytes();
        // SAFETY: [BUF].
        let of = |start| unsafe { std::slice::from_raw_parts(start, len) };
        match self.kind {
            Kind::Swap => [of(self.operand), of(self.compare)].concat().into(),
            _ if self.op == Op::NoOp => Cow::default(),
            _ => of(self.operand).into(),
        }
    }
}

impl<N: Netmod> Access<N> {
    /// Applies `op` to the elements at `disp` units in the memory of `rank`,
    /// with those of `operands`: MPI_Accumulate. The slice may be used again on
    /// return; the result is in the target's memory after a flush.
    ///
    /// # Errors
    /// [`ErrorKind::Operation`] for an operation that MPI does not have for the
    /// type; as [`Access::put`].
    pub fn accumulate<T: Element>(
        &self,
        operands: &[T],
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let (from, count) = (operands.as_ptr().cast(), operands.len());
        // SAFETY: a slice of that many elements.
        unsafe { self.accumulate_raw(from, count, T::TYPE, op, rank, disp) }
    }

    /// [`Access::accumulate`] for elements of a type that is known when it
    /// runs. The operands may be used again on return.
    ///
    /// # Errors
    /// As [`Access::accumulate`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `operands` is null or readable for `count` elements.
    pub unsafe fn accumulate_raw(
        &self,
        operands: *const u8,
        count: usize,
        ty: Type,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let origin = Origin::update(ty, op, operands, count);
        self.recorded(track::Kind::Accumulate, rank, origin.bytes(), || {
            // SAFETY: [BUF], or null.
            unsafe { self.elements(&origin, rank, disp, None) }
        })
    }

    /// [`Access::accumulate`] that also brings the elements as they were into
    /// `results`: MPI_Get_accumulate. They are there on return.
    ///
    /// # Errors
    /// As [`Access::accumulate`], and [`ErrorKind::Arguments`] for slices of
    /// different lengths.
    pub fn get_accumulate<T: Element>(
        &self,
        operands: &[T],
        results: &mut [T],
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if operands.len() != results.len() && op != Op::NoOp {
            let (n, m) = (operands.len(), results.len());
            let why = format!("get_accumulate of {n} operands into {m} results");
            return Err(ErrorKind::Arguments(why).into());
        }
        let origin = Origin::fetch(
            T::TYPE,
            op,
            operands.as_ptr().cast(),
            std::ptr::null_mut(),
            results.len(),
        );
        self.recorded(track::Kind::GetAccumulate, rank, origin.bytes(), || {
            // SAFETY: the slices hold the elements; the result is given inside.
            unsafe { self.fetch_blocking(&origin, results.as_mut_ptr().cast(), rank, disp) }
        })
    }

    /// [`Access::get_accumulate`] for elements of a type that is known when it
    /// runs; the results are there after a flush.
    ///
    /// # Errors
    /// As [`Access::get_accumulate`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `operands` is null or readable for `count` elements; \[INTO\]:
    /// `results` is null or stays writable for `count`, and untouched, until this
    /// access was flushed for `rank`.
    #[allow(clippy::too_many_arguments, reason = "they are MPI's")]
    pub unsafe fn get_accumulate_raw(
        &self,
        operands: *const u8,
        results: *mut u8,
        count: usize,
        ty: Type,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let origin = Origin::fetch(ty, op, operands, results, count);
        self.recorded(track::Kind::GetAccumulate, rank, origin.bytes(), || {
            // SAFETY: [BUF], or null; [INTO] until the flush, or null.
            unsafe { self.elements(&origin, rank, disp, None) }
        })
    }

    /// Applies `op` to one element and answers it as it was: MPI_Fetch_and_op.
    ///
    /// # Errors
    /// As [`Access::accumulate`].
    #[inline]
    pub fn fetch_and_op<T: Element>(
        &self,
        operand: T,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<T, Error> {
        if refusal(T::TYPE, op).is_none()
            && let Some(at) = self.mapped_element(size_of::<T>(), rank, disp)
            && let Some(Some(old)) =
                // SAFETY: [ELEMENT]: of the window, aligned; [VALID] by the first line.
                unsafe { self.inline_gate().enter(at, || T::apply(at, op, operand)) }
        {
            // Additions are no spinning, and counting each would double its
            // cost.
            if op != Op::Sum || bits(operand) == 0 {
                self.count_mapped_call(rank)?;
            }
            return Ok(old);
        }
        self.fetch_one(operand, operand, Kind::Fetch, op, rank, disp)
    }

    /// Puts `new` in the place of an element that equals `compare`, bit by bit,
    /// and answers the element as it was: MPI_Compare_and_swap. (MPI has it for
    /// integers only.)
    ///
    /// # Errors
    /// As [`Access::put`].
    #[inline]
    pub fn compare_and_swap<T: Element>(
        &self,
        compare: T,
        new: T,
        rank: u32,
        disp: usize,
    ) -> Result<T, Error> {
        if let Some(at) = self.mapped_element(size_of::<T>(), rank, disp)
            && let Some(Some(old)) =
                // SAFETY: [ELEMENT]: of the window, aligned.
                unsafe { self.inline_gate().enter(at, || T::swap_if(at, compare, new)) }
        {
            // A spinning process fails again and again; only failures are
            // counted.
            if bits(old) != bits(compare) {
                self.count_mapped_call(rank)?;
            }
            return Ok(old);
        }
        self.fetch_one(new, compare, Kind::Swap, Op::Replace, rank, disp)
    }

    #[inline(never)]
    fn fetch_one<T: Element>(
        &self,
        operand: T,
        compare: T,
        kind: Kind,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<T, Error> {
        let mut old = operand;
        let origin = Origin {
            kind,
            ty: T::TYPE,
            op,
            operand: (&raw const operand).cast(),
            compare: (&raw const compare).cast(),
            result: std::ptr::null_mut(),
            count: 1,
        };
        let called = match kind {
            Kind::Swap => track::Kind::CompareAndSwap,
            _ => track::Kind::FetchAndOp,
        };
        self.recorded(called, rank, origin.bytes(), || {
            // SAFETY: one element each.
            unsafe { self.fetch_blocking(&origin, (&raw mut old).cast(), rank, disp) }
        })?;
        Ok(old)
    }

    /// [`Access::fetch_and_op`] for an element of a type that is known when it
    /// runs; the result is there after a flush.
    ///
    /// # Errors
    /// As [`Access::fetch_and_op`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\], \[INTO\], as [`Access::get_accumulate_raw`], for one element.
    pub unsafe fn fetch_and_op_raw(
        &self,
        operand: *const u8,
        result: *mut u8,
        ty: Type,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let origin = Origin::fetch(ty, op, operand, result, 1);
        self.recorded(track::Kind::FetchAndOp, rank, origin.bytes(), || {
            // SAFETY: [BUF], [INTO], or null: of one element.
            unsafe { self.elements(&origin, rank, disp, None) }
        })
    }

    /// [`Access::compare_and_swap`] for an element of a type that is known when
    /// it runs; the result is there after a flush.
    ///
    /// # Errors
    /// As [`Access::compare_and_swap`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `new` and `compare` are null or readable for one element; \[INTO\]:
    /// `result` as in [`Access::get_accumulate_raw`].
    pub unsafe fn compare_and_swap_raw(
        &self,
        new: *const u8,
        compare: *const u8,
        result: *mut u8,
        ty: Type,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let origin = Origin {
            kind: Kind::Swap,
            ty,
            op: Op::Replace,
            operand: new,
            compare,
            result,
            count: 1,
        };
        self.recorded(track::Kind::CompareAndSwap, rank, origin.bytes(), || {
            // SAFETY: [BUF], [INTO], or null: of one element each.
            unsafe { self.elements(&origin, rank, disp, None) }
        })
    }

    /// [`Access::accumulate`] with a request of its own: MPI_Raccumulate.
    ///
    /// # Errors
    /// As [`Access::accumulate`].
    pub fn raccumulate<T: Element>(
        &self,
        operands: &[T],
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let (from, count) = (operands.as_ptr().cast(), operands.len());
        let origin = Origin::update(T::TYPE, op, from, count);
        self.recorded(track::Kind::Raccumulate, rank, origin.bytes(), || {
            // SAFETY: a slice of that many elements.
            unsafe { self.elements(&origin, rank, disp, None) }
        })?;
        // The operands were copied, or used.
        Ok(Pending::new(self, Vec::new()))
    }

    /// [`Access::get_accumulate_raw`] with a request of its own, whose end
    /// brings the results: MPI_Rget_accumulate.
    ///
    /// # Errors
    /// As [`Access::get_accumulate_raw`].
    ///
    /// # Safety
    /// \[BUF\], \[INTO\], as [`Access::get_accumulate_raw`], until the request was
    /// waited for or the access flushed for `rank`.
    #[allow(clippy::too_many_arguments, reason = "they are MPI's")]
    pub unsafe fn rget_accumulate(
        &self,
        operands: *const u8,
        results: *mut u8,
        count: usize,
        ty: Type,
        op: Op,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let origin = Origin::fetch(ty, op, operands, results, count);
        self.recorded(track::Kind::RgetAccumulate, rank, origin.bytes(), || {
            // SAFETY: [BUF], or null; [INTO], or null, until the end of the request.
            Pending::start(self, |in_flight| unsafe {
                self.elements(&origin, rank, disp, Some(in_flight))
            })
        })
    }

    /// A fetching operation that returns with its results.
    ///
    /// # Safety
    /// \[BUF\]: those of `origin` are null or hold its elements; \[INTO\]: `result`
    /// does.
    unsafe fn fetch_blocking(
        &self,
        origin: &Origin,
        result: *mut u8,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let mut bounce = self.cold.bounce_pool.take(origin.bytes());
        let origin = Origin { result: bounce.start(), ..*origin };
        let mut left = Left::new(self);
        let in_flight = Some(&mut left.in_flight);
        // SAFETY: [BUF]; [INTO]: bounce memory, which is leaked if this fails.
        let started = unsafe { self.elements(&origin, rank, disp, in_flight) };
        let nothing_in_flight = left.in_flight.is_empty();
        if let Err(e) = started.and(left.wait()) {
            if nothing_in_flight {
                self.cold.bounce_pool.put_back(bounce);
            }
            return Err(e);
        }
        // SAFETY: [INTO]; both hold the elements.
        unsafe { std::ptr::copy_nonoverlapping(bounce.start(), result, origin.bytes()) };
        self.cold.bounce_pool.put_back(bounce);
        Ok(())
    }

    /// Starts an operation on elements. With `in_flight`, its completions go
    /// there; else the flush waits for it.
    ///
    /// # Safety
    /// \[BUF\]: those of `origin` are null or hold its elements; \[INTO\]: its result
    /// is null or stays until the operation's end.
    unsafe fn elements(
        &self,
        origin: &Origin,
        rank: u32,
        disp: usize,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let Origin { kind, ty, op, count, .. } = *origin;
        if kind != Kind::Swap
            && let Some(why) = refusal(ty, op)
        {
            return Err(ErrorKind::Operation { ty, op, why }.into());
        }
        let len = count.saturating_mul(ty.size());
        self.check(rank, disp, len)?;
        let needs_operand = kind == Kind::Swap || op != Op::NoOp;
        let null = (needs_operand && origin.operand.is_null())
            || (kind == Kind::Swap && origin.compare.is_null())
            || (kind != Kind::Update && origin.result.is_null());
        if len == 0 {
            return Ok(());
        }
        if null {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        if kind == Kind::Update && op == Op::NoOp {
            return Ok(());
        }
        let state = self.borrowed_state()?;
        let known = match self.target_again(rank, disp) {
            Some(remote) => Ok(remote),
            None => Err(self.process(rank)?),
        };
        let peer = known.map_or_else(|(_, peer)| peer, |remote| remote.peer);
        self.mark(rank);
        let offset = disp as u64 * state.units.get(rank);
        if peer == self.context().device().boot().rank() {
            self.count_mapped_call(rank)?;
            // SAFETY: [BUF], [INTO]: [WORK] but for the place; null was refused.
            return match unsafe {
                state.exposed_region.compute(offset, origin.work(std::ptr::null_mut()))
            } {
                Status::Done => Ok(()),
                status => Err(error_of(peer, status)),
            };
        }
        let hints = Hints::from_bits(state.hints.load(Ordering::Relaxed));
        let (by_packets, created) = (state.by_packets, state.created);
        let address = state.misalignments.get(rank).wrapping_add(offset);
        drop(state);
        let order = |path| match hints.ordered {
            true => self.switch_path(rank, peer, path),
            false => Ok(()),
        };
        let packets = |mut in_flight: Option<&mut Vec<InFlight>>| -> Result<(), Error> {
            order(AccessPath::Packet)?;
            // SAFETY: [BUF]; [INTO] until the operation's end; null was refused.
            unsafe { self.elements_by_packets(origin, peer, offset, &mut in_flight) }
        };
        if by_packets {
            return packets(in_flight);
        }
        let target = match known {
            Ok(remote) => Target::Provider(remote),
            Err(process) => self.target_at(rank, disp, process)?,
        };
        let remote = match target {
            Target::Mapped(at) if !is_atomic(ty, at.addr()) => {
                let Some(lock) = self.element_lock(rank) else { return packets(in_flight) };
                order(AccessPath::Provider)?;
                let _held = lock.lock();
                // SAFETY: [WORK]: mapped and checked; [VALID]: checked; [ALONE]: under
                // the lock.
                unsafe { origin.work(at).run_plain() };
                return Ok(());
            }
            Target::Mapped(at) => {
                self.count_mapped_call(rank)?;
                // SAFETY: [WORK]: mapped and checked; [VALID]: checked; [CELL]:
                // aligned; [SHARED]: all processes keep to it.
                unsafe { self.cold.entrance.run(&origin.work(at)) };
                return Ok(());
            }
            Target::Provider(remote) => remote,
            Target::Unreachable(peer) => return Err(unreachable_error(peer)),
        };
        let limit = self.provider_atomic_limit(&remote, origin, address);
        if !self.endpoint(&remote)?.0.locks_elements() {
            // For memory that it did not allocate a library sends messages, and ours
            // are faster on a node; everywhere a packet is faster than many calls.
            let sends = created && self.context().has_node_queue(remote.peer);
            if sends || count > limit.saturating_mul(PROVIDER_CALLS) {
                return packets(in_flight);
            }
        }
        order(AccessPath::Provider)?;
        // SAFETY: [BUF]; [INTO] until the operation's end.
        unsafe { self.elements_by_provider(origin, &remote, limit, &mut in_flight) }
    }

    /// Counts a call that is done in a rank's mapped memory, whose loop may wait for what the
    /// rank does: makes progress now and then, and asks whether it lives.
    ///
    /// # Errors
    /// A rank that died. What was done is done.
    #[inline(always)]
    pub(super) fn count_mapped_call(&self, rank: u32) -> Result<(), Error> {
        let left = self.cold.calls_until_progress.get().wrapping_sub(1);
        self.cold.calls_until_progress.set(left);
        if left == 0 { self.progress_between(rank) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn progress_between(&self, rank: u32) -> Result<(), Error> {
        self.cold.calls_until_progress.set(CALLS_PER_PROGRESS);
        // (What else it has to say the next flush returns.)
        let _ = self.context().progress();
        let peer = self.world_rank(rank)?;
        if peer == self.context().device().boot().rank() {
            return Ok(());
        }
        Ok(self.context().check_liveness(&[peer])?)
    }

    /// Waits for operations that took another path to the rank, so that they
    /// stay in order.
    pub(super) fn switch_path(&self, rank: u32, peer: u32, path: AccessPath) -> Result<(), Error> {
        if self.cold.last_path.get() == Some((peer, path)) {
            return Ok(());
        }
        let before = self.cold.access_paths.borrow().get(&peer).copied();
        match before.filter(|before| *before != path) {
            None => {}
            // Updates are told of by the flush alone.
            Some(AccessPath::Provider) if self.locks_elements(rank) => self.flush_rank(rank)?,
            Some(_) => self.drain(&[peer])?,
        }
        // (Only now: who works on the window while this waits, waits too.)
        self.cold.access_paths.borrow_mut().insert(peer, path);
        self.cold.last_path.set(Some((peer, path)));
        Ok(())
    }

    /// Sends the operation as requests, in pieces.
    ///
    /// # Safety
    /// \[BUF\], \[INTO\], as [`Access::elements`]; null ones are not used.
    pub(super) unsafe fn elements_by_packets(
        &self,
        origin: &Origin,
        peer: u32,
        offset: u64,
        in_flight: &mut Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let size = origin.ty.size();
        let longest = self.request_limit(peer)?;
        let each = if origin.kind == Kind::Swap { 2 * size } else { size };
        let fits = (longest / each).max(1);
        let opcode = match origin.kind {
            Kind::Update => opcode::UPDATE,
            Kind::Fetch => opcode::FETCH,
            Kind::Swap => opcode::SWAP,
        };
        let mut from = 0;
        while from < origin.count {
            let piece = origin.piece(from, fits.min(origin.count - from));
            let answer = in_flight.is_some().then(|| Rc::new(Answer::default()));
            // SAFETY: [BUF].
            let body = unsafe { piece.body() };
            let result = match piece.kind {
                Kind::Update => (std::ptr::null_mut(), 0),
                _ => (piece.result, piece.bytes()),
            };
            let request = Request {
                opcode,
                window: self.borrowed_state()?.exposed_region.id,
                place: offset + (from * size) as u64,
                count: piece.count,
                ty: piece.ty,
                op: piece.op,
                body: &body,
                result,
                into: None,
                answer: answer.clone(),
            };
            // SAFETY: [INTO], until the answer came.
            unsafe { self.request(peer, request)? };
            if let (Some(in_flight), Some(answer)) = (in_flight.as_deref_mut(), answer) {
                in_flight.push(InFlight::Answer(answer, peer));
            }
            from += piece.count;
        }
        Ok(())
    }
}
