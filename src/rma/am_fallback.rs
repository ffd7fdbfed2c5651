//! The active-message fallback: requests that the target carries out itself,
//! and their answers.
//!
//! What an origin cannot do to a target's memory on its own (operations the
//! provider does not have, elements no processor changes in one instruction,
//! locks, signals of epochs, memory attached to dynamic windows) goes as a
//! packet, is done in the target's progress, and answered. Every request but a
//! signal is answered: a flush waits for the counts of [`OutstandingRequests`].
//!
//! Nothing here waits.

use super::exposed_region::{ExposedRegion, Registry};
use super::locks::{Holder, LockMode, NO_RANK};
use super::node_words::Signal;
use super::numbered::Numbered;
use super::places::{self, Stream};
use super::registration::OwnKeys;
use super::types::Status;
use super::{Error, ErrorKind};
use crate::datatype::Layout;
use crate::device::{Class, Context, DeviceError, Head, PacketHandler};
use crate::netmod::compute::Work;
use crate::netmod::{HEAD, Kind, NetError, Netmod, Op, Type};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The opcodes of packets. `words[0]` is the window, `words[1]` an offset or a
/// number, `words[2]` a [`Meta`].
pub(super) mod opcode {
    pub(crate) const UPDATE: u8 = 0;
    pub(crate) const FETCH: u8 = 1;
    pub(crate) const SWAP: u8 = 2;
    pub(crate) const PUT: u8 = 3;
    pub(crate) const GET: u8 = 4;
    /// Acquires a lock; `words[1]` is which, and the number of the look for
    /// holders.
    pub(crate) const LOCK: u8 = 5;
    /// Releases a lock; not answered.
    pub(crate) const UNLOCK: u8 = 6;
    /// The sender posted; not answered.
    pub(crate) const POST: u8 = 7;
    /// The sender completed; not answered.
    pub(crate) const COMPLETE: u8 = 8;
    /// An answer: id, status, number.
    pub(crate) const ANSWER: u8 = 9;
    /// An operation of the device layer's own; the code in front of the body.
    pub(crate) const CUSTOM: u8 = 10;
    /// PUT, GET, UPDATE and FETCH of places that stand in front of the body.
    pub(crate) const SCATTER: u8 = 11;
    pub(crate) const GATHER: u8 = 12;
    pub(crate) const UPDATE_EACH: u8 = 13;
    pub(crate) const FETCH_EACH: u8 = 14;
    /// Asks for the keys of the memory; the number of the answer is the length of a packed
    /// key.
    pub(crate) const KEYS: u8 = 15;
}

/// Longest body of a request; several go at a time.
pub(super) const MAX_BODY: usize = 32 * 1024;

/// Requests under way to one peer before its answers are waited for.
pub(super) const MAX_OUTSTANDING: u32 = 64;

/// What a request says beside its place: id of the answer, elements (or bytes),
/// type and operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) id: u32,
    pub(super) count: u32,
    pub(super) ty: Type,
    pub(super) op: Op,
}

impl Meta {
    fn encode(self) -> u64 {
        u64::from(self.id) << 32
            | u64::from(self.count & 0xff_ffff) << 8
            | (self.ty as u64) << 4
            | self.op as u64
    }

    fn decode(word: u64) -> Option<Meta> {
        Some(Meta {
            id: (word >> 32) as u32,
            count: (word >> 8) as u32 & 0xff_ffff,
            ty: Type::from_number((word >> 4) as u8 & 15)?,
            op: Op::from_number(word as u8 & 15)?,
        })
    }
}

/// Requests of one access that are not answered.
#[derive(Default, Debug)]
pub(super) struct OutstandingRequests {
    /// By world rank.
    under_way: RefCell<BTreeMap<u32, u32>>,
    /// Failed requests without a waiter of their own.
    refused: RefCell<Vec<(u32, Status)>>,
}

impl OutstandingRequests {
    fn begin(&self, peer: u32) {
        *self.under_way.borrow_mut().entry(peer).or_default() += 1;
    }

    fn end(&self, peer: u32) {
        let mut under_way = self.under_way.borrow_mut();
        if let Some(n) = under_way.get_mut(&peer) {
            *n -= 1;
            if *n == 0 {
                under_way.remove(&peer);
            }
        }
    }

    /// Returns true if everything was answered and no failure is left to report.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.borrow().is_empty() && self.refused.borrow().is_empty()
    }

    pub(super) fn count(&self, peer: u32) -> u32 {
        self.under_way.borrow().get(&peer).copied().unwrap_or(0)
    }

    /// Which of `peers`, of all peers when that is empty, have not answered.
    pub(super) fn pending(&self, peers: &[u32]) -> Vec<u32> {
        let under_way = self.under_way.borrow();
        match peers {
            [] => under_way.keys().copied().collect(),
            peers => peers.iter().copied().filter(|w| under_way.contains_key(w)).collect(),
        }
    }

    /// Whether there are any of [`OutstandingRequests::pending`].
    pub(super) fn has_pending(&self, peers: &[u32]) -> bool {
        let under_way = self.under_way.borrow();
        match peers {
            [] => !under_way.is_empty(),
            peers => !under_way.is_empty() && peers.iter().any(|w| under_way.contains_key(w)),
        }
    }

    /// Keeps a failure for the flush.
    fn refuse(&self, peer: u32, status: Status) {
        let mut refused = self.refused.borrow_mut();
        // The first few are enough to report.
        if refused.len() < 64 {
            refused.push((peer, status));
        }
    }

    /// Removes the failures at `peers`, at any peer when that is empty: the first of them.
    pub(super) fn take_refused(&self, peers: &[u32]) -> Option<(u32, Status)> {
        let mut refused = self.refused.borrow_mut();
        if refused.is_empty() {
            return None;
        }
        let mut first = None;
        refused.retain(|&(peer, status)| {
            let covered = peers.is_empty() || peers.contains(&peer);
            if covered {
                first.get_or_insert((peer, status));
            }
            !covered
        });
        first
    }

    /// Nobody waits for an answer any more: a failure that came is the flush's.
    pub(super) fn leave(&self, peer: u32, answer: &Answer) {
        match answer.get() {
            None | Some((Status::Done, _)) => {}
            Some((status, _)) => self.refuse(peer, status),
        }
    }
}

/// A request's failure, by name.
#[cold]
pub(super) fn error_of(peer: u32, status: Status) -> Error {
    match status {
        Status::Dead => DeviceError::PeerDied { rank: peer }.into(),
        Status::OutOfRange => ErrorKind::NotExposed { rank: peer }.into(),
        status => ErrorKind::Refused { rank: peer, why: status.why() }.into(),
    }
}

/// The answer to a request that has a waiter of its own.
#[derive(Default, Debug)]
pub(super) struct Answer(Cell<Option<(Status, u64)>>);

impl Answer {
    pub(super) fn get(&self) -> Option<(Status, u64)> {
        self.0.get()
    }
}

/// A request that was not answered.
struct Slot {
    peer: u32,
    outstanding: Rc<OutstandingRequests>,
    /// Where the body of the answer goes; nowhere any more if it was given up.
    result: Option<*mut u8>,
    len: usize,
    into: Option<(Layout, u64)>,
    answer: Option<Rc<Answer>>,
    /// The window and mode of a lock that is asked for.
    lock: Option<(u64, u64)>,
}

impl Slot {
    fn end(self, status: Status, number: u64) {
        self.outstanding.end(self.peer);
        match self.answer {
            Some(answer) if Rc::strong_count(&answer) > 1 => answer.0.set(Some((status, number))),
            // (Here alone, so waited for no more: who did was told of a death.)
            Some(_) if status == Status::Dead => {}
            None if self.lock.is_some() => {}
            _ if status == Status::Done => {}
            _ => self.outstanding.refuse(self.peer, status),
        }
    }
}

/// A request as its origin makes it.
pub(super) struct Request<'a> {
    pub(super) opcode: u8,
    pub(super) window: u64,
    pub(super) place: u64,
    pub(super) count: usize,
    pub(super) ty: Type,
    pub(super) op: Op,
    pub(super) body: &'a [u8],
    /// Where the body of the answer goes, and its length.
    pub(super) result: (*mut u8, usize),
    /// The layout around the result's memory and the byte of its packed stream
    /// where the answer begins; without one the body goes there as it is.
    pub(super) into: Option<(Layout, u64)>,
    /// Set when the answer comes; without it a failure waits for the flush.
    pub(super) answer: Option<Rc<Answer>>,
}

/// Somebody who asked for a lock that is held.
struct Waiter {
    window: u64,
    from: u32,
    place: u64,
    id: u32,
    since: Instant,
}

/// How long a request for a lock is kept before it is answered with the
/// holder's name, whose liveness its sender then checks.
const LOCK_REPLY_DELAY: Duration = Duration::from_millis(10);

/// Handles the one-sided packets of a context.
pub(super) struct RmaHandler<N> {
    registry: Arc<Registry>,
    /// In the order in which they came; each window's first gets its lock first.
    waiting: RefCell<VecDeque<Waiter>>,
    slots: RefCell<Numbered<Slot>>,
    netmod: PhantomData<N>,
}

impl<N: Netmod> RmaHandler<N> {
    /// The context's handler, registered on first use.
    pub(super) fn of(context: &Context<N>) -> Rc<RmaHandler<N>> {
        if let Some(handler) = context.handler(Class::Rma) {
            return handler;
        }
        let handler = Rc::new(RmaHandler {
            registry: context.device().extension(),
            waiting: RefCell::default(),
            slots: RefCell::default(),
            netmod: PhantomData,
        });
        context.register_handler(Class::Rma, Rc::clone(&handler) as Rc<dyn PacketHandler<N>>);
        handler
    }

    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Sends a request; the answer is counted by `outstanding`.
    ///
    /// # Errors
    /// A peer that died or cannot be reached, a provider without messages.
    ///
    /// # Safety
    /// \[INTO\]: the result's memory stays writable until the answer came, the peer
    /// died or the answer was given up with [`RmaHandler::forget`].
    pub(super) unsafe fn request(
        &self,
        context: &Context<N>,
        peer: u32,
        outstanding: &Rc<OutstandingRequests>,
        request: Request<'_>,
    ) -> Result<(), Error> {
        let (result, len) = request.result;
        let Request { into, answer, .. } = request;
        let lock = request.opcode == opcode::LOCK;
        let lock = lock.then_some((request.window, request.place & 0xff));
        let (counted, result) = (Rc::clone(outstanding), Some(result));
        let slot = Slot { peer, outstanding: counted, result, len, into, answer, lock };
        let id = self.slots.borrow_mut().insert(slot);
        outstanding.begin(peer);
        let meta = Meta { id, count: request.count as u32, ty: request.ty, op: request.op };
        let words = [request.window, request.place, meta.encode()];
        let head = Head::new(Class::Rma, request.opcode, words);
        if let Err(e) = context.forward(peer, head, request.body) {
            if self.slots.borrow_mut().remove_if(id, |_| true).is_some() {
                outstanding.end(peer);
            }
            return Err(e.into());
        }
        Ok(())
    }

    /// Sends a packet that is not answered.
    ///
    /// # Errors
    /// As [`RmaHandler::request`].
    pub(super) fn notify(
        &self,
        context: &Context<N>,
        peer: u32,
        opcode: u8,
        window: u64,
        number: u64,
    ) -> Result<(), Error> {
        let meta = Meta { id: 0, count: 0, ty: Type::U8, op: Op::NoOp };
        let head = Head::new(Class::Rma, opcode, [window, number, meta.encode()]);
        Ok(context.forward(peer, head, &[])?)
    }

    /// Gives up an answer: its result's memory is not written any more. Where
    /// the request itself is not lost, flushes still wait for it: the peer
    /// carries it out later, and what follows a flush comes behind it.
    pub(super) fn forget(&self, context: &Context<N>, answer: &Rc<Answer>) {
        let mine = |slot: &Slot| slot.answer.as_ref().is_some_and(|a| Rc::ptr_eq(a, answer));
        let gone = self.slots.borrow_mut().remove_all(|slot| {
            if !mine(slot) {
                return true;
            }
            // (A lock that is granted goes back.)
            let comes = (slot.lock.is_some() || context.has_node_queue(slot.peer))
                && context.check_alive(slot.peer).is_ok();
            if comes {
                (slot.result, slot.answer) = (None, None);
            } else {
                slot.outstanding.end(slot.peer);
            }
            comes
        });
        drop(gone);
    }

    /// An answer came.
    fn answered(&self, context: &Context<N>, from: u32, words: [u64; 3], body: &[u8]) {
        let id = words[0] as u32;
        let slot = self.slots.borrow_mut().remove_if(id, |slot| slot.peer == from);
        let Some(slot) = slot else { return };
        if let (Some((window, mode)), None) = (slot.lock, &slot.answer)
            && words[1] == Status::Done as u64
        {
            // (Who died holds none.)
            let _ = self.notify(context, from, opcode::UNLOCK, window, mode);
        }
        let mut status = Status::from_number(words[1]);
        if status == Status::Done && body.len() != slot.len {
            status = Status::Malformed;
        } else if let (Status::Done, 1.., Some(result)) = (status, slot.len, slot.result) {
            // SAFETY: [INTO]: the result holds that much.
            unsafe {
                match &slot.into {
                    Some((layout, from)) => drop(layout.unpack_raw(result, *from, body)),
                    None => std::ptr::copy_nonoverlapping(body.as_ptr(), result, slot.len),
                }
            }
        }
        slot.end(status, words[2]);
    }

    /// Takes an answer, or carries out a request and has its answer.
    fn handle(&self, context: &Context<N>, head: &Head, body: &[u8]) -> Option<(Head, Vec<u8>)> {
        if head.kind == opcode::ANSWER {
            // (Who asked one that is dead was told so, and has its buffers again.)
            if context.check_alive(head.from).is_ok() {
                self.answered(context, head.from, head.words, body);
            }
            return None;
        }
        // A malformed packet has no meta word, and no answer.
        let meta = Meta::decode(head.words[2])?;
        let (status, number, out) = self.serve(head, meta, body)?;
        let words = [u64::from(meta.id), status as u64, number];
        Some((Head::new(Class::Rma, opcode::ANSWER, words), out))
    }

    /// Returns true if a peer waits for a lock of any window here.
    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Returns true if a peer waits for a lock on this process's region of a
    /// window.
    pub(super) fn has_waiters_for(&self, window: u64) -> bool {
        self.waiting.borrow().iter().any(|w| w.window == window)
    }

    /// Gives locks to those who wait, in their order, and answers those who have
    /// waited long.
    #[inline]
    pub(super) fn grant(&self, context: &Context<N>) {
        if self.has_waiters() {
            self.grant_waiting(context);
        }
    }

    #[cold]
    fn grant_waiting(&self, context: &Context<N>) {
        let mut held = Vec::new();
        let mut answers = Vec::new();
        self.waiting.borrow_mut().retain(|w| {
            let late = w.since.elapsed() > LOCK_REPLY_DELAY;
            if held.contains(&w.window) && !late {
                return true;
            }
            let acquired = self.registry.with(w.window, |region| try_lock(region, w.place, w.from));
            let (status, number) = acquired.unwrap_or((Status::NoWindow, 0));
            if status == Status::Busy {
                held.push(w.window);
            }
            if status == Status::Busy && !late {
                return true;
            }
            answers.push((w.from, [u64::from(w.id), status as u64, number]));
            false
        });
        for (from, words) in answers {
            // A peer that has died meanwhile needs no answer.
            let _ = context.transmit_copy(from, Head::new(Class::Rma, opcode::ANSWER, words), &[]);
        }
        if !self.waiting.borrow().is_empty() {
            context.schedule(Class::Rma);
        }
    }

    /// Carries out a request; the answer, unless there is none.
    fn serve(&self, head: &Head, meta: Meta, body: &[u8]) -> Option<(Status, u64, Vec<u8>)> {
        let [window, place, _] = head.words;
        let from = head.from;
        let mut out = Vec::new();
        let served = self.registry.with(window, |region| match head.kind {
            opcode::UPDATE | opcode::FETCH | opcode::SWAP => {
                Some((elements(region, head, meta, body, &mut out), 0))
            }
            opcode::PUT | opcode::GET => Some((bytes(region, head, meta, body, &mut out), 0)),
            opcode::SCATTER | opcode::GATHER | opcode::UPDATE_EACH | opcode::FETCH_EACH => {
                Some((scattered(region, head, meta, body, &mut out), 0))
            }
            opcode::KEYS => Some(keys(region, &mut out)),
            opcode::CUSTOM => {
                let (operator, span) = (self.registry.operator.get().copied(), meta.count as usize);
                Some((region.run_operator(operator, place, span, body, &mut out), 0))
            }
            // Behind those who came before.
            opcode::LOCK if self.has_waiters_for(window) => {
                Some((Status::Busy, u64::from(NO_RANK)))
            }
            opcode::LOCK => Some(try_lock(region, place, from)),
            opcode::UNLOCK => {
                let mode = LockMode::from_number(place).zip(requester(region, from));
                if let (Some((mode, holder)), Ok(lock)) = (mode, region.lock_handle()) {
                    lock.release(mode, holder);
                }
                None
            }
            opcode::POST => {
                region.signals().came(from, Signal::Posted);
                None
            }
            opcode::COMPLETE => {
                region.signals().came(from, Signal::Completed);
                None
            }
            _ => Some((Status::Malformed, 0)),
        });
        let silent = matches!(head.kind, opcode::UNLOCK | opcode::POST | opcode::COMPLETE);
        match served {
            Some(answer) => answer.map(|(status, number)| (status, number, out)),
            None => (!silent).then_some((Status::NoWindow, 0, out)),
        }
    }
}

/// The keys of the memory, and the length of a packed one.
fn keys(region: &ExposedRegion, out: &mut Vec<u8>) -> (Status, u64) {
    out.resize(OwnKeys::TOLD, 0);
    match region.keys().and_then(|own| own.encode(out).map(|()| own.packed.len())) {
        Some(packed) => (Status::Done, packed as u64),
        None => {
            out.clear();
            (Status::Unsupported, 0)
        }
    }
}

/// Carries out a request on elements.
fn elements(
    region: &ExposedRegion,
    head: &Head,
    meta: Meta,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Status {
    let len = meta.count as usize * meta.ty.size();
    let (kind, want) = match head.kind {
        opcode::SWAP => (Kind::Swap, 2 * len),
        opcode::FETCH if meta.op == Op::NoOp => (Kind::Fetch, 0),
        opcode::FETCH => (Kind::Fetch, len),
        _ => (Kind::Update, len),
    };
    if body.len() != want || (len > MAX_BODY && kind != Kind::Update) {
        return Status::Malformed;
    }
    if kind != Kind::Update {
        out.resize(len, 0);
    }
    let work = Work {
        kind,
        ty: meta.ty,
        op: meta.op,
        at: std::ptr::null_mut(),
        operand: body.as_ptr(),
        compare: if kind == Kind::Swap { body[len..].as_ptr() } else { body.as_ptr() },
        result: out.as_mut_ptr(),
        count: meta.count as usize,
    };
    // SAFETY: the buffers were measured just now.
    let status = unsafe { region.compute(head.words[1], work) };
    if status != Status::Done {
        out.clear();
    }
    status
}

/// Carries out a put or get of plain bytes.
fn bytes(
    region: &ExposedRegion,
    head: &Head,
    meta: Meta,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Status {
    let (place, len) = (head.words[1], meta.count as usize);
    let done = if head.kind == opcode::PUT {
        if body.len() != len {
            return Status::Malformed;
        }
        // SAFETY: in range; the body is the provider's or our own.
        region
            .with_range(place, len, |at| unsafe { at.copy_from_nonoverlapping(body.as_ptr(), len) })
    } else {
        if len > MAX_BODY {
            return Status::Malformed;
        }
        out.resize(len, 0);
        // SAFETY: in range; `out` has just been made that long.
        region.with_range(place, len, |at| unsafe {
            at.copy_to_nonoverlapping(out.as_mut_ptr(), len)
        })
    };
    if done.is_none() {
        out.clear();
        return Status::OutOfRange;
    }
    Status::Done
}

/// Carries out a request on the places in front of its body.
fn scattered(
    region: &ExposedRegion,
    head: &Head,
    meta: Meta,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Status {
    let Some((layout, operands)) = places::decode(body) else { return Status::Malformed };
    let (opcode, place, bytes) = (head.kind, head.words[1], meta.count as usize);
    let fetches = matches!(opcode, opcode::GATHER | opcode::FETCH_EACH);
    let plain = matches!(opcode, opcode::SCATTER | opcode::GATHER);
    let has_operands = opcode != opcode::GATHER && (plain || meta.op != Op::NoOp);
    let want = if has_operands { bytes } else { 0 };
    if layout.size() != bytes as u64 || bytes > MAX_BODY || operands.len() != want {
        return Status::Malformed;
    }
    out.resize(if fetches { bytes } else { 0 }, 0);
    let status = match opcode {
        opcode::SCATTER => places::copy(region, place, &layout, Stream::From(operands)),
        opcode::GATHER => places::copy(region, place, &layout, Stream::Into(out)),
        _ => places::elements(region, place, &layout, (meta.ty, meta.op), (operands, out)),
    };
    if status != Status::Done {
        out.clear();
    }
    status
}

/// The holder of a lock that a peer requested by a packet; `None` for one that may hold
/// none.
fn requester(region: &ExposedRegion, peer: u32) -> Option<Holder> {
    region.holder_of(peer).map(|peer| Holder { peer, single_writer: false })
}

/// Tries to acquire a lock for a peer.
fn try_lock(region: &ExposedRegion, place: u64, from: u32) -> (Status, u64) {
    let mode = LockMode::from_number(place & 0xff).zip(requester(region, from));
    let Some((mode, holder)) = mode else { return (Status::Malformed, 0) };
    let Ok(lock) = region.lock_handle() else { return (Status::Unsupported, 0) };
    match lock.try_acquire(mode, holder, (place >> 8) as u32) {
        Ok(()) => (Status::Done, 0),
        Err(holder) => (Status::Busy, u64::from(holder)),
    }
}

/// The answer if a packet to the peer holds it, beside `wrapping` bytes; else that
/// the request was malformed: who asks in good order asks for no more.
fn fitting<N: Netmod>(
    context: &Context<N>,
    to: u32,
    wrapping: usize,
    (mut answer, mut out): (Head, Vec<u8>),
) -> (Head, Vec<u8>) {
    let holds = |len| context.packet_limits(to).is_ok_and(|(_, all)| len + wrapping <= all);
    if !out.is_empty() && !holds(out.len()) {
        answer.words[1] = Status::Malformed as u64;
        out.clear();
    }
    (answer, out)
}

impl<N: Netmod> PacketHandler<N> for RmaHandler<N> {
    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        if let Some(answer) = self.handle(context, head, body) {
            let (answer, out) = fitting(context, head.from, 0, answer);
            if head.kind == opcode::LOCK && answer.words[1] == Status::Busy as u64 {
                let [window, place, _] = head.words;
                let (from, id, since) = (head.from, answer.words[0] as u32, Instant::now());
                self.waiting.borrow_mut().push_back(Waiter { window, from, place, id, since });
                return context.schedule(Class::Rma);
            }
            // A peer that has died meanwhile needs no answer.
            let _ = context.transmit_copy(head.from, answer, &out);
        }
    }

    fn forwarded(&self, context: &Context<N>, index: u32, head: &Head, body: &[u8]) {
        if let Some(answer) = self.handle(context, head, body) {
            let (answer, out) = fitting(context, head.from, HEAD, answer);
            context.forward_answer(head.from, index, answer, &out);
        }
    }

    fn awaited(&self, add: &mut dyn FnMut(u32)) {
        self.slots.borrow().values().for_each(|slot| add(slot.peer));
    }

    fn poll_deferred(&self, context: &Context<N>) {
        self.grant(context);
    }

    fn finished(&self, _: &Context<N>, _: u64, _: Result<(), NetError>) {
        // Bodies are copied: no operation carries a token of this class.
    }

    fn lost(&self, _: &Context<N>, peer: u32) {
        self.waiting.borrow_mut().retain(|w| w.from != peer);
        let gone = self.slots.borrow_mut().remove_all(|slot| slot.peer != peer);
        gone.into_iter().for_each(|slot| slot.end(Status::Dead, 0));
    }
}
