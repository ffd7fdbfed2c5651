//! One endpoint and completion queue for each provider, owned by one thread.

use super::business_card;
use super::link::Links;
use super::node::Inbox;
use super::packet::{Class, Head, PacketHandler};
use super::progress::ProgressLock;
use super::segment::Place;
use super::{Device, DeviceError};
use crate::av::{AddressVector, Transport};
use crate::netmod::{Completion, HEAD, NetError, Netmod};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a wait goes on before it asks whether the peer still lives.
pub(super) const LIVENESS_INTERVAL: Duration = Duration::from_millis(20);
/// How long the death of a peer may take to show after the network's error: a
/// process closes its sockets before it is seen to have ended.
const DEATH_SHOWS: Duration = Duration::from_millis(200);
/// How long a wait goes on before peers on other nodes are asked whether they
/// are still there: a network may try for ever to reach those that are not.
pub(super) const SILENCE: Duration = Duration::from_millis(250);
/// Polls of the providers in a wait before it lets other processes have the
/// core; those of the inbox in between take a tenth of the time.
pub(super) const SPINS: u32 = 200;

/// Bytes of the longest read that only asks whether puts are done.
pub(crate) const PROBE: usize = 8;

/// What a waiting loop found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// What was waited for is there.
    Done,
    /// Wait on.
    Waiting,
}

/// Endpoints and completion queues of one thread.
pub struct Context<N: Netmod> {
    device: Arc<Device<N>>,
    /// The device's, or this context's own ([`Netmod::OWN_ADDRESSES`]).
    av: Arc<AddressVector>,
    net: OnceCell<N::Endpoint>,
    local: Option<Local<N>>,
    /// Where packets of processes on the node arrive.
    inbox: Option<Inbox>,
    /// Other processes' memory may not be read.
    pub(super) no_pull: Cell<bool>,
    /// Polls of the providers; wraps.
    polls: Cell<u32>,
    /// Those that found nothing, in a row.
    empty_polls: Cell<u32>,
    /// Polls in a row that left the providers out.
    skipped: Cell<u32>,
    last_poll: Cell<u64>,
    /// Tracked operations under way, by world rank of the peer.
    under_way: RefCell<BTreeMap<u32, u32>>,
    /// Peers whose liveness is checked.
    watched: RefCell<BTreeSet<u32>>,
    /// Peers known to be dead. What is under way towards them is not waited
    /// for: shared memory would never complete it.
    lost: RefCell<Vec<u32>>,
    /// Those of them for whose death another endpoint was taken.
    renewed: RefCell<Vec<u32>>,
    renewals: Cell<usize>,
    /// All peers on the node are watched.
    node_watched: Cell<bool>,
    next_token: Cell<u64>,
    /// Tokens somebody waits for, with the result once it is there.
    awaited: RefCell<BTreeMap<u64, Option<Outcome>>>,
    /// Failures of operations nobody waits for, for the next flush.
    failures: RefCell<Vec<(u32, NetError)>>,
    last_liveness_check: Cell<Instant>,
    index: u32,
    pub(super) links: Links,
    /// Who takes packets and completions, by class.
    handlers: [OnceCell<Rc<dyn PacketHandler<N>>>; Class::COUNT],
    /// Held within [`Context::progress`].
    progress_lock: ProgressLock,
    /// Handlers with deferred work, a bit for each class.
    pending_handlers: Cell<u32>,
    /// Lost peers that the handlers are to be told of.
    to_tell: RefCell<Vec<u32>>,
    /// Packets of classes without a handler so far.
    unclaimed: RefCell<Vec<(Head, Box<[u8]>)>>,
    /// Packets and completions so far.
    pub(super) events: Cell<u64>,
    /// Called while this context waits: what else the process has to do.
    progress_hook: OnceCell<Box<dyn Fn()>>,
    /// Processes of other jobs know the address.
    dynamic_processes: Cell<bool>,
    /// Where reads end whose bytes nobody looks at. After the endpoints: they
    /// may write to it while they are there.
    probe_buffer: ProbeBuffer,
}

/// Leaked where a read was given up: the peer may carry it out later.
struct ProbeBuffer(ManuallyDrop<Box<UnsafeCell<[u8; PROBE]>>>);

impl ProbeBuffer {
    fn new() -> ProbeBuffer {
        ProbeBuffer(ManuallyDrop::new(Box::default()))
    }
}

impl<N: Netmod> Drop for Context<N> {
    fn drop(&mut self) {
        if self.lost.borrow().is_empty() && self.renewals.get() == 0 && self.outstanding() == 0 {
            // SAFETY: once, and all probes are over.
            unsafe { ManuallyDrop::drop(&mut self.probe_buffer.0) };
        }
        self.device.give_back(self.index);
    }
}

impl<N: Netmod> std::fmt::Debug for Context<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device)
            .field("index", &self.index)
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

/// A tracked operation; the world rank it is for travels in the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    const NUMBERS: u64 = (1 << 28) - 1;

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn rank(self) -> u32 {
        self.0 as u32
    }
}

/// A cell that holds the value, if there is one.
fn cell<T>(value: Option<T>) -> OnceCell<T> {
    value.map_or_else(OnceCell::new, OnceCell::from)
}

/// How a tracked operation ended.
pub(crate) type Outcome = Result<(), NetError>;

/// A failure without a known peer.
const NOBODY: u32 = u32::MAX;

impl<N: Netmod> Context<N> {
    pub(super) fn open(device: &Arc<Device<N>>, index: u32) -> Result<Rc<Self>, DeviceError> {
        let av = if N::OWN_ADDRESSES && index > 0 {
            device.further_av()?
        } else {
            Arc::clone(&device.av)
        };
        let inbox =
            Inbox::open(device.inbox_owner(device.boot.rank(), index)).map_err(|source| {
                let what = "opening the inbox for packets of this node (raise `ulimit -n`)".into();
                crate::boot::BootError::Os { what, source }
            })?;
        Ok(Rc::new(Context {
            links: Links::new(&*device.boot)?,
            handlers: Default::default(),
            progress_lock: ProgressLock::default(),
            pending_handlers: Cell::new(0),
            to_tell: RefCell::default(),
            unclaimed: RefCell::default(),
            events: Cell::new(0),
            progress_hook: OnceCell::new(),
            av,
            net: cell(device.net.get().map(Netmod::open_endpoint).transpose()?),
            local: device.local.as_ref().map(Netmod::open_endpoint).transpose()?.map(Local::new),
            inbox,
            no_pull: Cell::new(false),
            polls: Cell::new(0),
            empty_polls: Cell::new(0),
            skipped: Cell::new(0),
            last_poll: Cell::new(0),
            device: Arc::clone(device),
            under_way: RefCell::default(),
            watched: RefCell::default(),
            lost: RefCell::default(),
            renewed: RefCell::default(),
            renewals: Cell::new(0),
            node_watched: Cell::new(false),
            next_token: Cell::new(1),
            awaited: RefCell::default(),
            failures: RefCell::default(),
            last_liveness_check: Cell::new(Instant::now()),
            dynamic_processes: Cell::new(false),
            probe_buffer: ProbeBuffer::new(),
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

    /// Which of the process's contexts this is: what it sends arrives on the
    /// peers' of the same index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Hands packets and completions of a class to a handler from now on; once
    /// for each class.
    pub(crate) fn register_handler(&self, class: Class, handler: Rc<dyn PacketHandler<N>>) {
        let _ = self.handlers[class as usize].set(handler);
        // A peer may have been quicker.
        let early = self.unclaimed.take();
        for (head, body) in early {
            self.hand_out(&head, &body);
        }
    }

    /// To the handler of a packet's class, or kept until there is one: not more
    /// than the handlers' own credit lets peers send.
    #[inline]
    fn hand_out(&self, head: &Head, body: &[u8]) {
        match self.handler_of(head.class) {
            Some(handler) => handler.arrived(self, head, body),
            None => self.unclaimed.borrow_mut().push((*head, body.into())),
        }
    }

    /// Has the next progress call [`PacketHandler::poll_deferred`] of a class.
    pub(crate) fn schedule(&self, class: Class) {
        self.pending_handlers.set(self.pending_handlers.get() | 1 << class as u32);
    }

    #[inline]
    pub(super) fn has_pending_handlers(&self) -> bool {
        self.pending_handlers.get() != 0 || !self.to_tell.borrow().is_empty()
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

    /// Packets that wait for space at the provider.
    pub fn queued_packets(&self) -> usize {
        self.links.queued()
    }

    /// The handler of a class, if one is registered.
    #[inline]
    pub(super) fn handler_of(&self, class: Class) -> Option<&Rc<dyn PacketHandler<N>>> {
        self.handlers[class as usize].get()
    }

    /// The endpoint and provider of a transport, if open.
    #[inline]
    pub fn endpoint(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        let endpoint = match transport {
            Transport::Network => self.net.get(),
            Transport::Local => self.local.as_ref().map(|local| local.endpoints.last()),
        };
        self.device.provider(transport).zip(endpoint)
    }

    /// Where a read of at most [`PROBE`] bytes may end that only asks: it stays
    /// until the read is over, whatever becomes of it.
    pub(crate) fn probe_buffer(&self) -> *mut u8 {
        self.probe_buffer.0.get().cast()
    }

    /// The inject handle of the shared-memory endpoint in use. The cell changes
    /// when that endpoint is replaced.
    pub(crate) fn local_inject_handle(&self) -> Option<&Rc<Cell<N::InjectHandle>>> {
        self.local.as_ref().map(|local| &local.inject_handle)
    }

    pub(super) fn has_retired(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.endpoints.next.get().is_some())
    }

    /// The endpoint at which peers' packets and bulk messages arrive: the first.
    pub(crate) fn inbox(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        let endpoint = match transport {
            Transport::Network => self.net.get(),
            Transport::Local => self.local.as_ref().map(|local| &local.endpoints.endpoint),
        };
        self.device.provider(transport).zip(endpoint)
    }

    /// The shared-memory endpoints that were given up, which peers still send
    /// to.
    fn retired(&self) -> impl Iterator<Item = (&Arc<N>, &N::Endpoint)> {
        let all = self.device.provider(Transport::Local).zip(self.local.as_ref());
        all.into_iter().flat_map(|(netmod, local)| {
            local.endpoints.retired().map(move |endpoint| (netmod, endpoint))
        })
    }

    /// This context's raw address on a transport; empty where none is open.
    pub(super) fn address_of(&self, transport: Transport) -> Result<Vec<u8>, DeviceError> {
        match self.endpoint(transport) {
            Some((netmod, endpoint)) => Ok(netmod.address(endpoint)?),
            None => Ok(Vec::new()),
        }
    }

    /// Drives both providers once, for operations of this process and for
    /// those that target it. Does nothing when called by what it calls.
    ///
    /// # Errors
    /// None of the operations': those come out of a flush. Only what breaks
    /// the completion queue itself; [`DeviceError::Poisoned`].
    ///
    /// # Panics
    /// A handler's panic goes on here, once everything is as it must be: the
    /// next call goes on with what is behind it.
    #[inline]
    pub fn progress(&self) -> Result<(), DeviceError> {
        let Some(guard) = self.progress_lock.try_enter() else {
            return self.progress_lock.refused();
        };
        let served = self.inbox_served();
        let result = if served && !self.links.is_busy() && !self.has_pending_handlers() {
            Ok(())
        } else {
            self.progress_all(served)
        };
        guard.leave();
        result
    }

    /// What is left to do, without the providers if they can do without.
    #[inline(never)]
    fn progress_all(&self, served: bool) -> Result<(), DeviceError> {
        if !served {
            self.poll_providers()?;
        }
        self.links.push(self);
        if self.has_pending_handlers() {
            self.run_deferred();
        }
        Ok(())
    }

    /// Takes in packets of the node. Returns true if the providers can do without
    /// a poll this time: packets came, or the providers have been quiet and were
    /// polled a moment ago. A poll of a provider takes ten times as long as
    /// that of an inbox, which a waiting packet should not have to wait for.
    #[inline]
    fn inbox_served(&self) -> bool {
        /// Providers with something under way are polled every time.
        const QUIET: u32 = 64;
        /// Polls with packets between two of the providers.
        const SKIPS: u32 = 16;
        /// Ticks of the processor's clock, about 0.2 us.
        const MOMENT: u64 = 500;
        let Some(inbox) = &self.inbox else { return false };
        let take = |from, first, words, body: &[u8]| {
            self.count_event();
            let head = Head::of_words(from, first, words);
            if let Some(head) = &head {
                self.hand_out(head, body);
            }
            head.is_some()
        };
        let came = inbox.poll(take, |from| self.break_link(from, NetError::Corrupt));
        let skip = if came {
            self.skipped.get() < SKIPS
        } else {
            self.empty_polls.get() >= QUIET && ticks().wrapping_sub(self.last_poll.get()) < MOMENT
        };
        self.skipped.set(if skip && came { self.skipped.get() + 1 } else { 0 });
        skip
    }

    /// Polls of the providers so far; wraps.
    #[inline]
    pub(super) fn polls(&self) -> u32 {
        self.polls.get()
    }

    fn poll_providers(&self) -> Result<(), DeviceError> {
        self.polls.set(self.polls.get().wrapping_add(1));
        let events = self.events.get();
        let arrived = |head: &[u8; HEAD], body: &[u8]| self.arrived(head, body);
        for transport in [Transport::Local, Transport::Network] {
            let Some((netmod, endpoint)) = self.endpoint(transport) else { continue };
            match netmod.poll(endpoint, |c| self.complete(c), arrived) {
                Err(e @ NetError::Operation { .. }) => self.fail(NOBODY, e),
                other => other?,
            }
        }
        if self.has_retired() {
            self.poll_retired();
        }
        if self.inbox.is_some() {
            let empty = self.events.get() == events;
            self.empty_polls.set(if empty { self.empty_polls.get().saturating_add(1) } else { 0 });
            self.last_poll.set(ticks());
        }
        Ok(())
    }

    /// Enables dynamic processes: makes this process known to those of other jobs,
    /// so that they and this one may [connect](Context::connect). `open` opens a network where
    /// there is none yet, as where shared memory reaches all of the job. For a
    /// process's first context; calls after the first do nothing.
    ///
    /// # Errors
    /// What `open`, the provider or the launcher refuse.
    pub fn enable_dynamic_processes(
        &self,
        open: impl FnOnce() -> Result<Arc<N>, DeviceError>,
    ) -> Result<(), DeviceError> {
        if self.dynamic_processes.replace(true) {
            return Ok(());
        }
        if self.net.get().is_none() {
            let net = open()?;
            let _ = self.net.set(net.open_endpoint()?);
            let _ = self.device.net.set(net);
        }
        let boot = self.device.boot();
        boot.put(business_card::DYNAMIC_KEY, &self.business_card()?.encode())?;
        // What others may fetch is committed; there is nobody to wait for.
        Ok(boot.commit()?)
    }

    #[cold]
    fn poll_retired(&self) {
        for (netmod, endpoint) in self.retired() {
            // One-sided operations that began there are written off, errors
            // too; bulk messages still arrive there.
            let done = |c: Completion| {
                if Class::of_token(c.token) != Class::Plain {
                    self.complete(c);
                }
            };
            let _ = netmod.poll(endpoint, done, |head, body| self.arrived(head, body));
        }
    }

    #[cold]
    fn run_deferred(&self) {
        for peer in self.to_tell.take() {
            for handler in self.handlers.iter().filter_map(OnceCell::get) {
                handler.lost(self, peer);
            }
        }
        let pending = self.pending_handlers.take();
        for (class, handler) in self.handlers.iter().enumerate() {
            if pending & 1 << class != 0
                && let Some(handler) = handler.get()
            {
                handler.poll_deferred(self);
            }
        }
        self.progress_lock.resume_panic();
    }

    /// Handlers are told of a loss by the next progress, never at once: it
    /// may be noticed amidst a handler's own work.
    pub(super) fn tell_lost(&self, peer: u32) {
        self.to_tell.borrow_mut().push(peer);
    }

    /// Where peers on the node send packets to.
    pub(super) fn inbox_place(&self) -> Option<Place> {
        self.inbox.as_ref().map(Inbox::place)
    }

    /// The inbox.
    pub(super) fn node_inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref()
    }

    /// A packet came in: to its handler, in the sender's order.
    #[inline]
    fn arrived(&self, head: &[u8; HEAD], body: &[u8]) {
        self.count_event();
        let Some((mut head, number)) = Head::decode(head) else { return };
        // Garbage is nobody's.
        let Some(from) = self.links.sender(&*self.device.boot, head.from) else { return };
        head.from = from;
        if head.class == Class::Link {
            self.vci_packet(&head, body);
            return;
        }
        self.links.sort(&head, number, body, |head, body| self.hand_out(head, body));
    }

    fn complete(&self, c: Completion) {
        self.count_event();
        let class = Class::of_token(c.token);
        if class == Class::Link {
            let peer = self.links.sent(c.token);
            if let (Some(peer), Err(why)) = (peer, c.result) {
                self.break_link(peer, why);
            }
            return;
        }
        if class != Class::Plain {
            if let Some(handler) = self.handler_of(class) {
                handler.finished(self, c.token, c.result);
            }
            return;
        }
        let token = Token(c.token);
        if let Some(count) = self.under_way.borrow_mut().get_mut(&token.rank()) {
            *count = count.saturating_sub(1);
        }
        let mut awaited = self.awaited.borrow_mut();
        if let Some(result) = awaited.get_mut(&c.token) {
            *result = Some(c.result);
        } else if let Err(e) = c.result {
            drop(awaited);
            self.fail(token.rank(), e);
        }
    }

    fn fail(&self, rank: u32, error: NetError) {
        let lost = self.lost.borrow();
        // What a dead peer leaves behind was reported with its death.
        if lost.contains(&rank) || (rank == NOBODY && !lost.is_empty()) {
            return;
        }
        let mut failures = self.failures.borrow_mut();
        // The first few tell the story; a dead peer can produce thousands.
        if failures.len() < 64 {
            failures.push((rank, error));
        }
    }

    /// A token for an operation towards a world rank.
    pub(crate) fn token(&self, peer: u32) -> Token {
        let n = self.next_token.get();
        self.next_token.set(n.wrapping_add(1));
        // The upper bits are those of the class, 0 here.
        Token((n & Token::NUMBERS) << 32 | u64::from(peer))
    }

    /// Counts an operation that was issued with a token; `awaited`: somebody
    /// will ask for its answer. To be called before the next poll.
    pub(crate) fn issued(&self, token: Token, awaited: bool) {
        if awaited {
            self.awaited.borrow_mut().insert(token.0, None);
        }
        *self.under_way.borrow_mut().entry(token.rank()).or_default() += 1;
    }

    /// Tracked operations under way, those towards dead peers left out.
    pub fn outstanding(&self) -> u32 {
        self.under_way.borrow().values().sum()
    }

    /// Which of `peers`, of all peers when that is empty, have tracked
    /// operations under way.
    pub(crate) fn pending(&self, peers: &[u32]) -> Vec<u32> {
        let under_way = self.under_way.borrow();
        let busy = |rank: &u32| under_way.get(rank).is_some_and(|&count| count > 0);
        match peers {
            [] => under_way.keys().copied().filter(busy).collect(),
            peers => peers.iter().copied().filter(busy).collect(),
        }
    }

    /// Nobody waits for a token any more.
    pub(crate) fn forget(&self, token: Token) {
        self.awaited.borrow_mut().remove(&token.0);
    }

    /// The result of an expected token, once.
    pub(crate) fn answer(&self, token: Token) -> Option<Outcome> {
        let mut awaited = self.awaited.borrow_mut();
        awaited.get(&token.0)?.as_ref()?;
        awaited.remove(&token.0).flatten()
    }

    /// A failure of a tracked operation towards `peer` that nobody waited
    /// for, taken out.
    pub(crate) fn take_failure_of(&self, peer: u32) -> Option<DeviceError> {
        let mut failures = self.failures.borrow_mut();
        let at = failures.iter().position(|(rank, _)| *rank == peer)?;
        let (rank, error) = failures.swap_remove(at);
        drop(failures);
        Some(self.attribute_failure(rank, error))
    }

    /// A failure of any operation nobody waited for, taken out. Injected puts
    /// fail without an address: a death explains them where there is one.
    pub(crate) fn take_failure(&self) -> Option<DeviceError> {
        let first = self.failures.borrow().first().cloned();
        let (rank, error) = first?;
        if rank != NOBODY {
            return self.take_failure_of(rank);
        }
        let start = Instant::now();
        while start.elapsed() < DEATH_SHOWS {
            if let Some(&rank) = self.device.dead_peers().first() {
                self.mark_failed(rank);
                return Some(DeviceError::PeerDied { rank });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.failures.borrow_mut().retain(|(rank, _)| *rank != NOBODY);
        Some(DeviceError::Net(error))
    }

    /// An operation's error, attributed to the death of the peer where that is
    /// the cause.
    pub(crate) fn attribute_failure(&self, rank: u32, error: NetError) -> DeviceError {
        // Injected puts that failed at the same time failed for this.
        self.failures.borrow_mut().retain(|(rank, _)| *rank != NOBODY);
        if self.device.is_dead(rank) {
            self.mark_failed(rank);
            DeviceError::PeerDied { rank }
        } else {
            DeviceError::peer(rank, error)
        }
    }

    /// Gives up what is under way towards a dead peer. Returns true if that took
    /// another endpoint.
    fn mark_failed(&self, rank: u32) -> bool {
        let mut lost = self.lost.borrow_mut();
        if lost.contains(&rank) {
            return false;
        }
        lost.push(rank);
        drop(lost);
        if self.links.drop_peer(rank, None) {
            self.tell_lost(rank);
        }
        let stuck = self.under_way.borrow_mut().remove(&rank).unwrap_or(0);
        self.failures.borrow_mut().retain(|(about, _)| ![rank, NOBODY].contains(about));
        stuck > 0 && self.renew_for(rank)
    }

    /// Goes on with another shared-memory endpoint if something is under way
    /// there towards a dead peer, once for each death.
    pub(crate) fn renew_for(&self, rank: u32) -> bool {
        let renew = self.over_shared_memory(rank) && !self.renewed.borrow().contains(&rank);
        if renew {
            self.renewed.borrow_mut().push(rank);
            self.renew();
        }
        renew
    }

    /// How often another shared-memory endpoint was taken: completions of what
    /// was under way before may never come.
    pub(crate) fn renewals(&self) -> usize {
        self.renewals.get()
    }

    pub(crate) fn over_shared_memory(&self, rank: u32) -> bool {
        let device = &self.device;
        let node_rank = device.node_rank(rank).filter(|_| device.on_node(rank));
        self.local.is_some() && node_rank.is_some_and(|n| device.local_address(n).is_some())
    }

    /// Goes on with another shared-memory endpoint. libfabric's shm hands out
    /// completions in the order of the operations, so that one towards a dead
    /// peer, which never completes, holds back all behind it. What else was
    /// under way there has failed, as far as anybody will ever know.
    fn renew(&self) {
        let Some((netmod, local)) = self.device.local.as_ref().zip(self.local.as_ref()) else {
            return;
        };
        // Without another endpoint the old one has to do.
        let Ok(endpoint) = netmod.open_endpoint() else { return };
        local.renew(endpoint);
        self.renewals.set(self.renewals.get() + 1);
        let held_back = || NetError::Operation {
            provider: netmod.caps().provider.clone(),
            peer: None,
            code: i64::from(libc::ECANCELED),
            text: "its completion is held back by a peer that died; repeat it".into(),
        };
        // Those somebody waits for, by rank: told once, not by a flush again.
        let mut told: BTreeMap<u32, u32> = BTreeMap::new();
        for (token, result) in self.awaited.borrow_mut().iter_mut() {
            let rank = Token(*token).rank();
            if result.is_none() && self.over_shared_memory(rank) {
                *result = Some(Err(held_back()));
                *told.entry(rank).or_default() += 1;
            }
        }
        let mut failed = Vec::new();
        for (&rank, count) in self.under_way.borrow_mut().iter_mut() {
            if *count > 0 && self.over_shared_memory(rank) {
                let untold = *count > told.get(&rank).copied().unwrap_or(0);
                *count = 0;
                failed.extend(untold.then_some(rank));
            }
        }
        failed.into_iter().for_each(|rank| self.fail(rank, held_back()));
    }

    /// Refuses peers known to be dead.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`].
    pub(crate) fn check_alive(&self, rank: u32) -> Result<(), DeviceError> {
        if self.lost.borrow().contains(&rank) {
            return Err(DeviceError::PeerDied { rank });
        }
        Ok(())
    }

    /// Checks the liveness of peers: of all that were ever checked, at most every
    /// [`LIVENESS_INTERVAL`], so that no call is always too early.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`].
    pub(crate) fn check_liveness(&self, peers: &[u32]) -> Result<(), DeviceError> {
        for &rank in peers {
            if self.watched.borrow_mut().insert(rank) {
                match self.device.watch(rank) {
                    Err(DeviceError::PeerDied { rank }) => {
                        self.mark_failed(rank);
                    }
                    other => other?,
                }
            }
        }
        let now = Instant::now();
        if now.duration_since(self.last_liveness_check.get()) >= LIVENESS_INTERVAL {
            self.last_liveness_check.set(now);
            for rank in self.device.dead_peers() {
                self.mark_failed(rank);
            }
        }
        if self.lost.borrow().is_empty() {
            return Ok(());
        }
        peers.iter().try_for_each(|&rank| self.check_alive(rank))
    }

    /// What a wait that drags on checks: whether peers on other nodes are still
    /// there, and whether anybody on this node has died. A process that is
    /// killed while it writes into this one's shared-memory queue takes the
    /// queue's lock with it, and nothing that goes through there ever ends;
    /// likewise in the queue of a living peer, hence `hopeless`.
    /// `anybody`: the wait is for whoever is still there.
    pub(super) fn check_liveness_everywhere(
        &self,
        peers: &[u32],
        anybody: bool,
        hopeless: bool,
    ) -> Result<(), DeviceError> {
        let far = if anybody { self.links.known() } else { Vec::new() };
        for &rank in peers.iter().chain(&far) {
            if self.device.has_left(rank)? {
                self.mark_failed(rank);
                return Err(DeviceError::PeerDied { rank });
            }
        }
        let queues = self.device.net.get().is_some_and(|net| net.caps().node_queues);
        let within = |rank| queues && self.device.on_node(rank);
        let shared = |&rank: &u32| self.over_shared_memory(rank) || within(rank);
        if !anybody && !peers.iter().any(shared) {
            return Ok(());
        }
        if hopeless && let Some(&rank) = self.lost.borrow().first() {
            return Err(DeviceError::PeerDied { rank });
        }
        if !self.node_watched.replace(true) {
            for rank in 0..self.device.boot().size() {
                match self.device.watch(rank) {
                    Err(DeviceError::PeerDied { .. }) => {}
                    other => other?,
                }
            }
        }
        let new = |rank: &u32| !self.lost.borrow().contains(rank);
        if let Some(rank) = self.device.dead_peers().into_iter().find(new) {
            if !self.mark_failed(rank) {
                self.renew_for(rank);
            }
            return Err(DeviceError::PeerDied { rank });
        }
        Ok(())
    }
}

/// The processor's clock; 0 where there is none to read at once.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The shared-memory endpoints of a context.
struct Local<N: Netmod> {
    endpoints: Chain<N::Endpoint>,
    /// The handle of the endpoint in use, shared by all accesses that inject
    /// themselves, so that none keeps the handle of an endpoint that was given
    /// up.
    inject_handle: Rc<Cell<N::InjectHandle>>,
}

impl<N: Netmod> Local<N> {
    fn new(endpoint: N::Endpoint) -> Local<N> {
        let inject_handle = Rc::new(Cell::new(N::inject_handle(&endpoint)));
        Local { endpoints: Chain::new(endpoint), inject_handle }
    }

    /// Goes on with another endpoint.
    fn renew(&self, endpoint: N::Endpoint) {
        self.endpoints.append(endpoint);
        self.inject_handle.set(N::inject_handle(self.endpoints.last()));
    }
}

/// An endpoint and those that took its place, the last of which is in use. None
/// is closed before the others: peers have the first one's address.
struct Chain<P> {
    endpoint: P,
    next: OnceCell<Box<Chain<P>>>,
}

impl<P> Chain<P> {
    fn new(endpoint: P) -> Chain<P> {
        Chain { endpoint, next: OnceCell::new() }
    }

    fn links(&self) -> impl Iterator<Item = &Chain<P>> {
        std::iter::successors(Some(self), |link| link.next.get().map(|next| &**next))
    }

    #[inline]
    fn last(&self) -> &P {
        if self.next.get().is_none() {
            return &self.endpoint;
        }
        self.links().last().map_or(&self.endpoint, |link| &link.endpoint)
    }

    fn retired(&self) -> impl Iterator<Item = &P> {
        self.links().filter(|link| link.next.get().is_some()).map(|link| &link.endpoint)
    }

    fn append(&self, endpoint: P) {
        if let Some(link) = self.links().last() {
            let _ = link.next.set(Box::new(Chain::new(endpoint)));
        }
    }
}
