//! The context: endpoints and all that is kept with them, owned by one thread,
//! and who takes what comes in on it.
//!
//! Its parts know nothing of it: [`Endpoints`], [`Completions`], [`Failures`],
//! [`Links`], [`Dispatch`]. What needs several of them is in files of its own
//! above this one: deaths in `liveness.rs`, ways in `route.rs`, packets out in
//! `transmit.rs`, all that comes in in `progress.rs`, waiting in `wait.rs`.

use super::bounce::ProbeBuffer;
use super::channels::Channels;
use super::completions::{Completions, Outcome, Token};
use super::dispatch::Dispatch;
use super::endpoints::Endpoints;
use super::failures::Failures;
use super::link::Links;
use super::node::Inbox;
use super::pace::Pace;
use super::packet::{Class, Head};
use super::progress_lock::ProgressLock;
use super::questions::Questions;
use super::streams::Streams;
use super::walks::Walks;
use super::{Device, DeviceError, WorldCalls};
use crate::av::{AddressVector, Entry, Table, Transport};
use crate::netmod::Netmod;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Endpoints and completion queues of one thread. Dropping the last clone
/// [finishes](Context::finish).
pub struct Context<N: Netmod> {
    device: Arc<Device<N>>,
    /// The device's, or this context's own ([`Netmod::own_addresses`]).
    av: Arc<AddressVector>,
    /// The same for the node's provider, by rank on the node: the peer's address
    /// there, plus one; 0 where it was not inserted.
    local_addresses: Arc<Table>,
    pub(super) endpoints: Endpoints<N>,
    /// Where packets of processes on the node arrive.
    pub(super) node_inbox: OnceCell<Inbox>,
    pub(super) pace: Pace,
    pub(super) completions: Completions,
    pub(super) failures: Failures,
    /// Made by the first loop that looks.
    pub(super) walks: OnceCell<Box<Walks>>,
    /// Made by the first that is told.
    pub(super) channels: OnceCell<Rc<Channels>>,
    pub(super) links: Links,
    /// For the peers' contexts of this one's index.
    pub(super) questions: Questions,
    /// Packets to and from contexts of another index.
    pub(super) streams: Streams,
    pub(super) dispatch: Dispatch<dyn PacketHandler<N>>,
    /// Held within [`Context::progress`].
    pub(super) progress_lock: ProgressLock,
    /// Called while this context waits: what else the process has to do.
    progress_hook: OnceCell<Box<dyn Fn()>>,
    pub(super) finished: Cell<bool>,
    /// Processes of other jobs know the address.
    pub(super) dynamic_processes: Cell<bool>,
    /// Calls of the communicator of all, whose handles are all one, and communicators of groups
    /// of it alone, by a hash.
    pub(crate) world_calls: Cell<u32>,
    pub(crate) world_groups: RefCell<BTreeMap<u64, u32>>,
    probe_buffer: ProbeBuffer,
    index: u32,
}

/// In place of a peer: whoever is still there.
pub(crate) const ANYBODY: u32 = u32::MAX;

/// Who takes packets and completions of a class. Called within
/// [`Context::progress`] and from nowhere else, so that a handler never meets
/// itself half-way through a transmit: may transmit, must not wait.
pub(crate) trait PacketHandler<N: Netmod>: Any {
    /// A packet, in the order its sender transmitted it.
    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]);
    /// A packet by [`Context::forward`]: at a first context from a peer's context
    /// of this index, elsewhere the answer of a peer's first.
    fn forwarded(&self, _context: &Context<N>, _index: u32, _head: &Head, _body: &[u8]) {}
    /// An operation with a token of this class ended.
    fn finished(&self, context: &Context<N>, token: u64, result: Outcome);
    /// A peer is dead or its link is broken; said once.
    fn lost(&self, context: &Context<N>, peer: u32);
    /// A process of another job has ended and its number is given out again: what is kept
    /// for it is as for one that was never heard of.
    fn forgotten(&self, _context: &Context<N>, _peer: u32) {}
    /// Returns true for packets that only say what may be sent here: a context that is closed
    /// need not send them any more.
    fn is_moot(&self, _kind: u8) -> bool {
        false
    }
    /// The context closes: what the user has called here may be gone, and what comes is not
    /// received any more. Said again while it waits.
    fn close(&self, _context: &Context<N>) {}
    /// Returns true if a peer has word to send of what was sent to it, or comes to have some.
    fn is_unsettled(&self, _peer: u32) -> bool {
        false
    }
    /// Adds the peers of sends that nobody waits for.
    fn sends(&self, _add: &mut dyn FnMut(u32)) {}
    /// Asks such a peer to say when all of it is there: this context is closed then.
    fn ask_to_acknowledge(&self, _context: &Context<N>, _peer: u32) {}
    /// Adds the peers that requests wait for, [`ANYBODY`] among them.
    fn awaited(&self, _add: &mut dyn FnMut(u32)) {}
    /// Does deferred work, at the end of a progress call after
    /// [`Context::schedule`].
    fn poll_deferred(&self, _context: &Context<N>) {}
    /// For [`Context::handler`].
    fn as_any(self: Rc<Self>) -> Rc<dyn Any>;
}

impl<N: Netmod> Drop for Context<N> {
    fn drop(&mut self) {
        drop((self.progress_hook.take(), self.channels.take()));
        if !std::thread::panicking() {
            let _ = self.finish();
        }
        let done = self.completions.outstanding() == 0 && self.endpoints.renewals() == 0;
        if done && !self.failures.has_lost() {
            // SAFETY: once, and all probes are over.
            unsafe { self.probe_buffer.release() };
        }
        if !done && self.index > 0 {
            self.endpoints.leave_segments();
        }
        let classes = [Class::Tagged, Class::Active];
        let had_messages = classes.into_iter().any(|class| self.dispatch.handler(class).is_some());
        let (calls, groups) = (self.world_calls.get(), self.world_groups.take());
        self.device.keep_world(self.index, WorldCalls { calls, groups });
        self.device.give_back(self.index, had_messages);
    }
}

impl<N: Netmod> std::fmt::Debug for Context<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device)
            .field("index", &self.index)
            .field("completions", &self.completions)
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> Context<N> {
    pub(super) fn open(device: &Arc<Device<N>>, index: u32) -> Result<Rc<Self>, DeviceError> {
        let providers = [Transport::Network, Transport::Local].map(|t| device.provider(t));
        let own = providers.into_iter().flatten().any(|netmod| netmod.own_addresses());
        let (av, local_addresses) = match own && index > 0 {
            true => (device.further_av()?, device.local_address_table()?),
            false => (Arc::clone(&device.av), Arc::clone(&device.local_addresses)),
        };
        // (Who is alone has one when it meets another job.)
        let inbox = if device.node_size > 1 { device.open_inbox(index)? } else { None };
        let node_inbox = inbox.map_or_else(OnceCell::new, OnceCell::from);
        let links = Links::new(&*device.boot)?;
        let endpoints = Endpoints::open(
            device.provider(Transport::Network),
            device.provider(Transport::Local),
        )?;
        // (Nothing fails from here on.)
        let world = device.take_world(index);
        Ok(Rc::new(Context {
            links,
            endpoints,
            av,
            local_addresses,
            node_inbox,
            pace: Pace::default(),
            completions: Completions::new(),
            failures: Failures::new(),
            walks: OnceCell::new(),
            channels: OnceCell::new(),
            questions: Questions::default(),
            streams: Streams::default(),
            dispatch: Dispatch::default(),
            progress_lock: ProgressLock::default(),
            progress_hook: OnceCell::new(),
            finished: Cell::new(false),
            dynamic_processes: Cell::new(false),
            world_calls: Cell::new(world.calls),
            world_groups: RefCell::new(world.groups),
            probe_buffer: ProbeBuffer::new(),
            device: Arc::clone(device),
            index,
        }))
    }

    /// The device this context belongs to.
    pub fn device(&self) -> &Arc<Device<N>> {
        &self.device
    }

    /// The address vector of this context.
    pub fn av(&self) -> &AddressVector {
        &self.av
    }

    /// The peer's address in the node's provider, by rank on the node; `None` when
    /// that provider does not reach it.
    #[inline]
    pub fn local_address(&self, node_rank: u32) -> Option<u64> {
        self.local_addresses.get(node_rank)?.to_bits().checked_sub(1)
    }

    pub(super) fn set_local_address(&self, node_rank: u32, address: u64) {
        let _ = self.local_addresses.set(node_rank, Entry::from_bits(address + 1));
    }

    /// Which of the process's contexts this is: what it sends arrives on the
    /// peers' of the same index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The endpoint and provider of a transport, if open.
    #[inline]
    pub fn endpoint(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        self.endpoints.get(transport)
    }

    /// The endpoint at which peers' packets and bulk messages arrive: the first.
    pub(crate) fn inbox(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        self.endpoints.first(transport)
    }

    /// The inject handle of the shared-memory endpoint in use. The cell changes
    /// when that endpoint is replaced.
    pub(crate) fn local_inject_handle(&self) -> Option<&Rc<Cell<N::InjectHandle>>> {
        self.endpoints.local_inject_handle()
    }

    /// How often another shared-memory endpoint was taken: completions of what
    /// was under way before may never come.
    pub(crate) fn renewals(&self) -> usize {
        self.endpoints.renewals()
    }

    /// Where a read of at most [`PROBE`](super::PROBE) bytes may end that only asks: it stays
    /// until the read is over, whatever becomes of it.
    pub(crate) fn probe_buffer(&self) -> *mut u8 {
        self.probe_buffer.start()
    }

    /// A token for an operation towards a world rank.
    pub(crate) fn token(&self, peer: u32) -> Token {
        self.completions.token(peer)
    }

    /// Counts an operation that was issued with a token; `awaited`: somebody
    /// will ask for its answer. To be called before the next poll.
    pub(crate) fn issued(&self, token: Token, awaited: bool) {
        self.completions.issued(token, awaited);
    }

    /// Tracked operations under way, those towards dead peers left out.
    pub fn outstanding(&self) -> u32 {
        self.completions.outstanding()
    }

    /// Which of `peers`, of all peers when that is empty, have tracked
    /// operations under way.
    pub(crate) fn pending(&self, peers: &[u32]) -> Vec<u32> {
        self.completions.pending(peers)
    }

    /// Whether there are any of [`Context::pending`].
    #[inline]
    pub(crate) fn has_pending(&self, peers: &[u32]) -> bool {
        self.completions.has_pending(peers)
    }

    /// Nobody waits for a token any more: how it ends, or has ended, is for the next
    /// flush to tell.
    pub(crate) fn forget(&self, token: Token) {
        if let Some((rank, error)) = self.completions.forget(token) {
            self.failures.add(rank, error);
        }
    }

    /// The result of an expected token, once.
    pub(crate) fn answer(&self, token: Token) -> Option<Outcome> {
        self.completions.answer(token)
    }

    /// Packets and completions so far; wraps.
    pub fn events(&self) -> u64 {
        self.pace.events()
    }

    /// Packets that wait for space at the provider.
    pub fn queued_packets(&self) -> usize {
        self.links.queued()
    }

    /// Hands packets and completions of a class to a handler from now on; once
    /// for each class.
    pub(crate) fn register_handler(&self, class: Class, handler: Rc<dyn PacketHandler<N>>) {
        // A peer may have been quicker.
        for (head, body) in self.dispatch.register(class, handler) {
            self.hand_out(&head, &body);
        }
    }

    /// The handler of a class, as what it is; `None` where none is registered.
    pub(crate) fn handler<R: PacketHandler<N>>(&self, class: Class) -> Option<Rc<R>> {
        Rc::clone(self.dispatch.handler(class)?).as_any().downcast().ok()
    }

    /// To the handler of a packet's class, or kept until there is one.
    #[inline(always)]
    pub(super) fn hand_out(&self, head: &Head, body: &[u8]) {
        match self.dispatch.handler(head.class) {
            Some(handler) => handler.arrived(self, head, body),
            None if head.is_introduction() => self.accept_put_aside(head.from),
            None => self.dispatch.keep(head, body),
        }
    }

    /// Tells a handler that an operation of its class ended.
    pub(super) fn tell(&self, token: u64, result: Outcome) {
        if let Some(handler) = self.dispatch.handler(Class::of_token(token)) {
            handler.finished(self, token, result);
        }
    }

    /// Has the next progress call [`PacketHandler::poll_deferred`] of a class.
    pub(crate) fn schedule(&self, class: Class) {
        self.dispatch.schedule(class);
    }

    /// Returns true within what progress calls.
    pub(crate) fn is_progressing(&self) -> bool {
        self.progress_lock.is_active()
    }

    /// A handler panicked. What called it goes on as if it had taken what it
    /// was given; this goes to whoever makes progress, at the end of it.
    #[cold]
    pub(crate) fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        self.progress_lock.keep_panic(panic);
        self.schedule(Class::Plain);
    }

    /// Calls `hook` again and again while this context waits for peers:
    /// the progress of whatever else the process does, which the same peers may
    /// be waiting for. It may make progress on this context and issue
    /// operations, but not wait. Only the first call counts.
    pub fn set_progress_hook(&self, hook: impl Fn() + 'static) {
        let _ = self.progress_hook.set(Box::new(hook));
    }

    /// Calls the progress hook once, if there is one.
    #[inline]
    pub(crate) fn run_progress_hook(&self) {
        if let Some(hook) = self.progress_hook.get() {
            hook();
        }
    }
}
