//! Packets between processes: numbered, in order, never lost for want of room.
//!
//! A [`Head`] says which room a packet is for. The link to each peer numbers
//! what it sends, puts what arrives early aside, and queues what the provider
//! has no room for; [`Context::progress`] sends that on. Nothing is kept for a
//! peer nobody sent to or heard of.
//!
//! Never looks into a body and knows nothing of messages or windows.

use super::context::Outcome;
use super::{Context, DeviceError};
use crate::av::{Entry, Table, Transport};
use crate::netmod::{AGAIN, HEAD, Netmod, PENDING};
use crate::rankmap::Process;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

/// Whom a packet, or the completion of an operation, is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// One-sided operations that are counted or awaited; never a packet's.
    Plain,
    /// The link's own.
    Link,
    /// Tagged messages.
    Tagged,
    /// Active messages.
    Active,
    /// Accumulates, locks and epochs of windows.
    Rma,
}

impl Class {
    pub(crate) const COUNT: usize = 5;
    const SHIFT: u32 = 60;

    fn from_number(n: u8) -> Option<Class> {
        let all = [Class::Plain, Class::Link, Class::Tagged, Class::Active, Class::Rma];
        all.get(usize::from(n)).copied()
    }

    /// A token of this class; `number` is below 2^60.
    pub(crate) fn token(self, number: u64) -> u64 {
        (self as u64) << Class::SHIFT | number
    }

    pub(crate) fn of_token(token: u64) -> Class {
        Class::from_number((token >> Class::SHIFT) as u8).unwrap_or(Class::Plain)
    }

    /// The number of a token.
    #[allow(dead_code, reason = "for the rooms above")]
    pub(crate) fn number(token: u64) -> u64 {
        token & ((1 << Class::SHIFT) - 1)
    }
}

/// What a packet is, before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Who takes it.
    pub(crate) class: Class,
    /// The room's own.
    pub(crate) kind: u8,
    /// World rank of the sender; filled in by the link.
    pub(crate) from: u32,
    /// The room's own.
    pub(crate) words: [u64; 3],
}

impl Head {
    pub(crate) fn new(class: Class, kind: u8, words: [u64; 3]) -> Head {
        Head { class, kind, from: 0, words }
    }

    fn encode(&self, number: u16) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[0] = self.class as u8;
        out[1] = self.kind;
        out[2..4].copy_from_slice(&number.to_le_bytes());
        out[4..8].copy_from_slice(&self.from.to_le_bytes());
        for (i, word) in self.words.iter().enumerate() {
            out[8 + 8 * i..16 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn decode(b: &[u8; HEAD]) -> Option<(Head, u16)> {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| b[8 + 8 * i + k]));
        let head = Head {
            class: Class::from_number(b[0]).filter(|&c| c != Class::Plain)?,
            kind: b[1],
            from: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            words: std::array::from_fn(word),
        };
        Some((head, u16::from_le_bytes([b[2], b[3]])))
    }
}

/// The body of a packet to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// Copied where it cannot be sent at once.
    Copied(&'a [u8]),
    /// The caller's memory, not touched until `token` (of the caller's class)
    /// was handed to [`Room::finished`].
    Kept { start: *const u8, len: usize, token: u64 },
}

/// Who takes packets and completions of a class. Called within
/// [`Context::progress`]: may transmit, must not wait.
pub(crate) trait Room<N: Netmod> {
    /// A packet, in the order its sender transmitted it.
    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]);
    /// An operation with a token of this class ended.
    fn finished(&self, context: &Context<N>, token: u64, result: Outcome);
    /// A peer is known to be dead.
    fn lost(&self, context: &Context<N>, world: u32);
}

/// The links of a context, by world rank.
pub(super) struct Links<N> {
    /// A `Box<Link>` of each peer there is a link to; 0 for the others.
    table: Table,
    /// Peers there is a link to.
    known: RefCell<Vec<u32>>,
    /// Peers with packets queued.
    busy: RefCell<Vec<u32>>,
    /// Bodies that were copied and are still being sent, by token.
    kept: RefCell<BTreeMap<u64, Box<[u8]>>>,
    next: Cell<u64>,
    netmod: PhantomData<N>,
}

/// What is known of one peer.
#[derive(Default)]
struct Link {
    /// Number of the next packet to it.
    next: Cell<u16>,
    /// Number of the next packet from it.
    due: Cell<u16>,
    queue: RefCell<VecDeque<Queued>>,
    /// Packets that came before their turn.
    early: RefCell<Vec<(u16, Head, Box<[u8]>)>>,
}

enum Queued {
    Owned([u8; HEAD], Box<[u8]>),
    Kept([u8; HEAD], *const u8, usize, u64),
}

/// Where packets to a peer go.
struct Way {
    transport: Transport,
    dest: u64,
}

impl<N: Netmod> Links<N> {
    pub(super) fn new(world: u32) -> Result<Links<N>, DeviceError> {
        Ok(Links {
            table: Table::new(world, world)?,
            known: RefCell::default(),
            busy: RefCell::default(),
            kept: RefCell::default(),
            next: Cell::new(0),
            netmod: PhantomData,
        })
    }

    fn link(&self, world: u32) -> Option<&Link> {
        // SAFETY: a word of the table is 0 or a box's pointer, made below and
        // freed with the table; links are only ever shared.
        self.table.get(world).and_then(|e| unsafe { (e.to_bits() as *const Link).as_ref() })
    }

    fn link_or_new(&self, world: u32) -> Option<&Link> {
        if self.link(world).is_none() && world < self.table.len() {
            let link = Box::into_raw(Box::<Link>::default());
            self.table.set(world, Entry::from_bits(link as u64))?;
            self.known.borrow_mut().push(world);
        }
        self.link(world)
    }

    /// Hands packets on in their sender's order.
    pub(super) fn sort(&self, head: &[u8; HEAD], body: &[u8], mut take: impl FnMut(&Head, &[u8])) {
        // Garbage has no class, or a sender out of range.
        let Some((head, number)) = Head::decode(head) else { return };
        let Some(link) = self.link_or_new(head.from) else { return };
        if number != link.due.get() {
            link.early.borrow_mut().push((number, head, body.into()));
            return;
        }
        link.due.set(number.wrapping_add(1));
        take(&head, body);
        if link.early.borrow().is_empty() {
            return;
        }
        loop {
            let due = link.due.get();
            let at = link.early.borrow().iter().position(|(n, ..)| *n == due);
            let Some(at) = at else { return };
            let (_, head, body) = link.early.borrow_mut().swap_remove(at);
            link.due.set(due.wrapping_add(1));
            take(&head, &body);
        }
    }

    /// Sends what the provider had no room for.
    pub(super) fn push(&self, context: &Context<N>) -> Result<(), DeviceError> {
        if self.busy.borrow().is_empty() {
            return Ok(());
        }
        let busy = std::mem::take(&mut *self.busy.borrow_mut());
        for world in busy {
            let Some(link) = self.link(world) else { continue };
            let way = context.way(world)?;
            loop {
                // Not in the loop's head: the queue is borrowed below.
                let first = link.queue.borrow_mut().pop_front();
                let Some(first) = first else { break };
                if let Some(first) = self.try_queued(context, &way, world, first) {
                    link.queue.borrow_mut().push_front(first);
                    self.busy.borrow_mut().push(world);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a queued packet; gives it back when there is no room.
    fn try_queued(
        &self,
        context: &Context<N>,
        way: &Way,
        world: u32,
        packet: Queued,
    ) -> Option<Queued> {
        let (head, start, len, token) = match &packet {
            Queued::Owned(head, body) => (head, body.as_ptr(), body.len(), self.token()),
            Queued::Kept(head, start, len, token) => (head, *start, *len, *token),
        };
        // SAFETY: an owned body is kept until its token; a caller's is by the
        // contract of `Body::Kept`; `way` is this context's.
        let rc = unsafe { context.hand_over(way, head, start, len, token) };
        match (rc, packet) {
            (AGAIN, packet) => return Some(packet),
            (PENDING, Queued::Owned(_, body)) => {
                self.kept.borrow_mut().insert(token, body);
            }
            (0, Queued::Kept(.., token)) => context.tell(token, Ok(())),
            (rc, packet) if rc < 0 => {
                if let Queued::Kept(.., token) = packet {
                    context.tell(token, Err(context.explain(way, world, rc)));
                }
            }
            _ => {}
        }
        None
    }

    fn token(&self) -> u64 {
        let n = self.next.get();
        self.next.set(n.wrapping_add(1) & ((1 << Class::SHIFT) - 1));
        Class::Link.token(n)
    }

    /// A copied body was sent.
    pub(super) fn sent(&self, token: u64) {
        self.kept.borrow_mut().remove(&token);
    }

    /// Forgets what is queued towards a dead peer.
    pub(super) fn drop_peer(&self, world: u32) {
        if let Some(link) = self.link(world) {
            link.queue.borrow_mut().clear();
        }
    }
}

impl<N> Drop for Links<N> {
    fn drop(&mut self) {
        for &world in self.known.get_mut().iter() {
            if let Some(entry) = self.table.get(world) {
                // SAFETY: made by Box::into_raw, dropped once.
                drop(unsafe { Box::from_raw(entry.to_bits() as *mut Link) });
            }
        }
    }
}

impl<N: Netmod> Context<N> {
    /// Sends a packet to a world rank, in order behind those before it.
    /// `true`: the body is the caller's again; `false`: a kept body is when its
    /// token was handed to the room.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`], a peer that cannot be reached, a provider
    /// without messages or that failed.
    ///
    /// # Safety
    /// A body that is [`Body::Kept`] stays readable until its token came.
    pub(crate) unsafe fn transmit(
        &self,
        world: u32,
        mut head: Head,
        body: Body<'_>,
    ) -> Result<bool, DeviceError> {
        self.check_alive(world)?;
        let way = self.way(world)?;
        head.from = self.device().boot().rank();
        let size = self.device().boot().size();
        let no_rank = DeviceError::NoRank { rank: world, size };
        let link = self.links.link_or_new(world).ok_or(no_rank)?;
        let number = link.next.get();
        let head = head.encode(number);
        let (start, len) = match body {
            Body::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            Body::Kept { start, len, .. } => (start, len),
        };
        let queue_empty = link.queue.borrow().is_empty();
        if queue_empty {
            let inject = self.port(way.transport).map_or(0, |(n, _)| n.caps().packet_inject);
            let token = match body {
                Body::Kept { token, .. } => Some(token),
                Body::Copied(_) => (HEAD + len <= inject).then_some(0),
            };
            if let Some(token) = token {
                // SAFETY: the body is the caller's; one that is copied fits
                // what the provider copies.
                let rc = unsafe { self.hand_over(&way, &head, start, len, token) };
                if rc != AGAIN {
                    if rc < 0 {
                        return Err(self.blame(world, self.explain(&way, world, rc)));
                    }
                    link.next.set(number.wrapping_add(1));
                    return Ok(rc == 0);
                }
            }
        }
        link.next.set(number.wrapping_add(1));
        let (packet, done) = match body {
            Body::Copied(bytes) => (Queued::Owned(head, bytes.into()), true),
            Body::Kept { start, len, token } => (Queued::Kept(head, start, len, token), false),
        };
        link.queue.borrow_mut().push_back(packet);
        if queue_empty {
            self.links.busy.borrow_mut().push(world);
            self.links.push(self)?;
        }
        Ok(done)
    }

    /// Longest body of a packet to a world rank; 0 where the provider has no
    /// messages. Connects on first use.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`], a peer that cannot be reached.
    pub(crate) fn longest_body(&self, world: u32) -> Result<usize, DeviceError> {
        self.check_alive(world)?;
        let way = self.way(world)?;
        let size = self.port(way.transport).map_or(0, |(n, _)| n.caps().packet_size);
        Ok(size.saturating_sub(HEAD))
    }

    /// Where packets to a world rank go; connects on first use.
    fn way(&self, world: u32) -> Result<Way, DeviceError> {
        let process = Process { pg: 0, lpid: world };
        let mut entry = self.av().get(process)?;
        if entry.is_empty() {
            entry = self.connect(process)?;
        }
        let none = |why| DeviceError::NoTransport { rank: world, why };
        let (value, transport) = N::unpack(entry).ok_or_else(|| none("it has no address"))?;
        let dest = match transport {
            Transport::Network => value,
            Transport::Local => self
                .device()
                .local_address(value as u32)
                .ok_or_else(|| none("it is not in the shared-memory provider"))?,
        };
        Ok(Way { transport, dest })
    }

    /// # Safety
    /// As [`Netmod::send`]; `way` is this context's.
    unsafe fn hand_over(
        &self,
        way: &Way,
        head: &[u8; HEAD],
        start: *const u8,
        len: usize,
        token: u64,
    ) -> isize {
        match self.port(way.transport) {
            // SAFETY: the caller's duty.
            Some((netmod, port)) => unsafe { netmod.send(port, head, start, len, way.dest, token) },
            None => crate::netmod::UNSUPPORTED,
        }
    }

    /// Tells a room that an operation of its class ended.
    fn tell(&self, token: u64, result: Outcome) {
        if let Some(room) = self.room(Class::of_token(token)) {
            room.finished(self, token, result);
        }
    }

    fn explain(&self, way: &Way, world: u32, rc: isize) -> crate::netmod::NetError {
        match self.port(way.transport) {
            Some((netmod, _)) => netmod.explain("send", rc),
            None => crate::netmod::NetError::Address {
                provider: "none".into(),
                reason: format!("rank {world} has no provider"),
            },
        }
    }
}
