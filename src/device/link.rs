//! Packets between processes: numbered, in order, never lost for want of space.
//!
//! The link to each peer numbers what it sends, puts what arrives early aside,
//! and queues what the provider has no space for; [`Context::progress`] sends
//! that on. Nothing is kept for a peer nobody sent to or heard of, 40 bytes
//! for one with nothing queued.
//!
//! A packet that fails breaks its link: what follows could not be taken in
//! order. The handlers hear of it as of a death.
//!
//! Never looks into a body and knows nothing of messages or windows.

use super::business_card::BusinessCard;
use super::context::Outcome;
use super::node::{self, Outbox};
use super::packet::{Body, Class, Head, PacketHandler};
use super::peers::PerPeer;
use super::vci::Vcis;
use super::{Context, DeviceError};
use crate::av::Transport;
use crate::boot::Boot;
use crate::netmod::{AGAIN, HEAD, NetError, Netmod, PENDING, UNSUPPORTED};
use crate::rankmap::Process;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The links of a context, by world rank.
pub(super) struct Links {
    peers: PerPeer<Link>,
    /// What this process is called in its job, and by others.
    me: u32,
    name: u32,
    /// Members of the job have numbers below.
    size: u32,
    /// Peers with packets queued.
    busy: RefCell<Vec<u32>>,
    /// Bodies that were copied, by token or place in a queue.
    copies: RefCell<Copies>,
    pub(super) vcis: Vcis,
}

/// What is known of one peer.
#[derive(Default)]
pub(super) struct Link {
    dest: Cell<u64>,
    /// What may be copied by the provider, bytes of body.
    inject: Cell<usize>,
    /// Packets go to the provider at once: open, and nothing is queued.
    direct: Cell<bool>,
    local: Cell<bool>,
    /// In [`Links::busy`].
    listed: Cell<bool>,
    state: Cell<State>,
    /// Number of the next packet to it.
    next: Cell<u16>,
    /// Number of the next packet from it.
    due: Cell<u16>,
    rest: RefCell<Option<Box<Rest>>>,
    /// Takes all packets to a peer on the node whose inbox can be reached.
    outbox: OnceCell<Box<Outbox>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No packet was sent to it.
    #[default]
    New,
    /// The address of its context of our index is not known yet.
    Asking,
    Open,
    /// A packet failed, or the peer is dead.
    Broken,
}

/// What most links do not have.
#[derive(Default)]
struct Rest {
    queue: VecDeque<Queued>,
    /// Packets that came before those due.
    early: Vec<(u16, Head, Box<[u8]>)>,
    why: Option<NetError>,
}

struct Queued {
    head: [u8; HEAD],
    body: Held,
}

#[derive(Clone, Copy)]
enum Held {
    /// A place in [`Copies`].
    Copy(u32),
    /// The caller's.
    Kept(*const u8, usize, u64),
}

/// Where packets to a peer go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) transport: Transport,
    pub(super) dest: u64,
}

/// Copied bodies; their memory is used again.
#[derive(Default)]
struct Copies {
    places: Vec<(u32, Vec<u8>)>,
    free: Vec<u32>,
}

impl Copies {
    fn insert(&mut self, peer: u32, body: &[u8]) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, Vec::new()));
            self.places.len() as u32 - 1
        });
        let (owner, bytes) = &mut self.places[at as usize];
        *owner = peer;
        bytes.clear();
        bytes.extend_from_slice(body);
        at
    }

    fn body(&self, at: u32) -> (*const u8, usize) {
        self.places.get(at as usize).map_or((std::ptr::null(), 0), |(_, b)| (b.as_ptr(), b.len()))
    }

    /// The peer it was for.
    fn remove(&mut self, at: u32) -> Option<u32> {
        let peer = self.places.get(at as usize)?.0;
        self.free.push(at);
        Some(peer)
    }
}

impl Link {
    fn with_rest<T>(&self, f: impl FnOnce(&mut Rest) -> T) -> T {
        f(self.rest.borrow_mut().get_or_insert_default())
    }

    /// Gives back what only the first packet needed.
    fn tidy(&self) {
        let mut rest = self.rest.borrow_mut();
        let idle = |r: &Rest| r.queue.is_empty() && r.early.is_empty() && r.why.is_none();
        if rest.as_deref().is_some_and(idle) {
            *rest = None;
        }
    }

    #[inline]
    fn queue_is_empty(&self) -> bool {
        self.rest.borrow().as_ref().is_none_or(|rest| rest.queue.is_empty())
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.set(state);
        self.direct.set(state == State::Open && self.queue_is_empty());
    }

    pub(super) fn open(&self, route: Route, inject: usize) {
        self.dest.set(route.dest);
        self.local.set(route.transport == Transport::Local);
        self.inject.set(inject.saturating_sub(HEAD));
        self.set_state(State::Open);
    }

    #[inline]
    fn route(&self) -> Route {
        let transport = if self.local.get() { Transport::Local } else { Transport::Network };
        Route { transport, dest: self.dest.get() }
    }
}

impl Links {
    pub(super) fn new(boot: &dyn Boot) -> Result<Links, DeviceError> {
        Ok(Links {
            peers: PerPeer::new(boot.universe())?,
            me: boot.rank(),
            name: boot.name(),
            size: boot.size(),
            busy: RefCell::default(),
            copies: RefCell::default(),
            vcis: Vcis::default(),
        })
    }

    /// What this process calls itself towards a peer.
    #[inline]
    fn to(&self, peer: u32) -> u32 {
        if peer < self.size { self.me } else { self.name }
    }

    /// Who a packet's sender is here: members of the job say so themselves.
    #[inline]
    pub(super) fn sender(&self, boot: &dyn Boot, from: u32) -> Option<u32> {
        if from < self.size { Some(from) } else { boot.resolve_name(from) }
    }

    pub(super) fn link(&self, peer: u32) -> Option<&Link> {
        self.peers.get(peer)
    }

    /// Peers there is a link to.
    pub(super) fn known(&self) -> Vec<u32> {
        self.peers.known()
    }

    /// Returns true if something waits for space or an address.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.borrow().is_empty() || self.vcis.is_asking()
    }

    /// Packets that wait for space at the provider.
    pub(super) fn queued(&self) -> usize {
        let busy = self.busy.borrow();
        let queued = |&peer: &u32| {
            let link = self.peers.get(peer)?;
            Some(link.rest.borrow().as_ref()?.queue.len())
        };
        busy.iter().filter_map(queued).sum()
    }

    /// Hands a packet on, in its sender's order, and those behind it that came
    /// early.
    #[inline]
    pub(super) fn sort(&self, head: &Head, number: u16, body: &[u8], take: impl Fn(&Head, &[u8])) {
        // Garbage has a sender out of range.
        let Some(link) = self.peers.get_or_new(head.from) else { return };
        if number != link.due.get() {
            link.with_rest(|rest| rest.early.push((number, *head, body.into())));
            return;
        }
        link.due.set(number.wrapping_add(1));
        take(head, body);
        if link.rest.borrow().is_some() {
            Links::catch_up(link, take);
        }
    }

    #[cold]
    fn catch_up(link: &Link, take: impl Fn(&Head, &[u8])) {
        loop {
            let due = link.due.get();
            let next = link.with_rest(|rest| {
                let at = rest.early.iter().position(|(n, ..)| *n == due)?;
                Some(rest.early.swap_remove(at))
            });
            let Some((_, head, body)) = next else { return };
            link.due.set(due.wrapping_add(1));
            take(&head, &body);
        }
    }

    /// Sends what the provider had no space for.
    #[inline]
    pub(super) fn push<N: Netmod>(&self, context: &Context<N>) {
        if self.is_busy() {
            self.push_all(context);
        }
    }

    #[cold]
    fn push_all<N: Netmod>(&self, context: &Context<N>) {
        context.ask_for_vcis();
        let busy = std::mem::take(&mut *self.busy.borrow_mut());
        for peer in busy {
            let Some(link) = self.peers.get(peer) else { continue };
            link.listed.set(false);
            if link.state() == State::Open {
                self.push_link(context, peer, link);
            }
            if link.queue_is_empty() || link.state() == State::Broken {
                // Sets whether packets go out at once again.
                link.set_state(link.state());
            } else {
                self.list(peer, link);
            }
        }
    }

    fn list(&self, peer: u32, link: &Link) {
        link.direct.set(false);
        if !link.listed.replace(true) {
            self.busy.borrow_mut().push(peer);
        }
    }

    fn push_link<N: Netmod>(&self, context: &Context<N>, peer: u32, link: &Link) {
        let route = link.route();
        while let Some(first) = link.with_rest(|rest| rest.queue.pop_front()) {
            let (start, len, token) = match first.body {
                Held::Copy(at) => {
                    let (start, len) = self.copies.borrow().body(at);
                    (start, len, Class::Link.token(u64::from(at)))
                }
                Held::Kept(start, len, token) => (start, len, token),
            };
            // SAFETY: a copy is kept until its token; a caller's body is by the
            // contract of `Body::Kept`; `route` is this context's.
            let rc = unsafe { context.hand_over(link, &first.head, start, len, token) };
            match (rc, first.body) {
                (AGAIN, _) => {
                    link.with_rest(|rest| rest.queue.push_front(first));
                    return;
                }
                (PENDING, _) => {}
                (0, Held::Copy(at)) => drop(self.copies.borrow_mut().remove(at)),
                (0, Held::Kept(.., token)) => context.tell(token, Ok(())),
                (rc, body) => {
                    let error = context.explain(route, peer, rc);
                    match body {
                        Held::Copy(at) => drop(self.copies.borrow_mut().remove(at)),
                        Held::Kept(.., token) => context.tell(token, Err(error.clone())),
                    }
                    context.break_link(peer, error);
                    return;
                }
            }
        }
    }

    /// A copied body was sent, or failed: then the peer it was for.
    pub(super) fn sent(&self, token: u64) -> Option<u32> {
        self.copies.borrow_mut().remove(Class::number(token) as u32)
    }

    /// Forgets what is queued towards a peer that is dead or out of reach.
    /// Returns true if the link was not broken before.
    pub(super) fn drop_peer(&self, peer: u32, why: Option<NetError>) -> bool {
        let Some(link) = self.peers.get_or_new(peer) else { return false };
        let news = link.state() != State::Broken;
        link.set_state(State::Broken);
        let queue = link.with_rest(|rest| {
            rest.why = rest.why.take().or(why);
            std::mem::take(&mut rest.queue)
        });
        for packet in queue {
            if let Held::Copy(at) = packet.body {
                self.copies.borrow_mut().remove(at);
            }
        }
        news
    }
}

impl<N: Netmod> Context<N> {
    /// Sends a packet to a world rank, in order behind those before it.
    /// `true`: the body is the caller's again; `false`: a kept body is when its
    /// token was handed to the handler. Calls no handler.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`], a peer that cannot be reached, a provider
    /// without messages or that failed.
    ///
    /// # Safety
    /// A body that is [`Body::Kept`] stays readable until its token came, or
    /// the handler heard that the peer is lost.
    #[inline]
    pub(crate) unsafe fn transmit(
        &self,
        peer: u32,
        head: Head,
        body: Body<'_>,
    ) -> Result<bool, DeviceError> {
        if let Some(link) = self.links.peers.get(peer).filter(|link| link.direct.get()) {
            let (start, len, token) = match body {
                Body::Copied(bytes) if bytes.len() <= link.inject.get() => {
                    (bytes.as_ptr(), bytes.len(), 0)
                }
                // SAFETY: the caller's duty.
                Body::Copied(_) => return unsafe { self.transmit_slowly(peer, head, body) },
                Body::Kept { start, len, token } => (start, len, token),
            };
            let number = link.next.get();
            let bytes = head.encode(self.links.to(peer), number);
            // SAFETY: the body is the caller's; one that is copied fits what
            // the provider copies; `route` is this context's.
            let rc = unsafe { self.hand_over(link, &bytes, start, len, token) };
            if rc >= 0 {
                link.next.set(number.wrapping_add(1));
                return Ok(rc == 0);
            }
            if rc != AGAIN {
                return Err(self.refused(peer, link.route(), rc));
            }
        }
        // SAFETY: the caller's duty.
        unsafe { self.transmit_slowly(peer, head, body) }
    }

    /// Returns true if a packet could be written to the peer's inbox on the
    /// node at once, behind those before it; else nothing has happened.
    ///
    /// # Safety
    /// `start` is readable for `len` bytes.
    #[inline]
    pub(crate) unsafe fn write(&self, peer: u32, head: Head, start: *const u8, len: usize) -> bool {
        let Some(link) = self.links.peers.get(peer) else { return false };
        if !link.direct.get() {
            return false;
        }
        match link.outbox.get() {
            // SAFETY: the caller's duty; longer ones are refused.
            Some(outbox) if len <= node::LONGEST => unsafe {
                outbox.put(head.first(), head.words, start, len)
            },
            _ => false,
        }
    }

    /// Transmits where the fast path cannot: resolves the route, copies, queues.
    ///
    /// # Safety
    /// As [`Context::transmit`].
    #[cold]
    #[inline(never)]
    unsafe fn transmit_slowly(
        &self,
        peer: u32,
        head: Head,
        body: Body<'_>,
    ) -> Result<bool, DeviceError> {
        self.check_alive(peer)?;
        let size = self.device().boot().size();
        let no_rank = DeviceError::NoRank { rank: peer, size };
        let link = self.links.peers.get_or_new(peer).ok_or(no_rank)?;
        match link.state() {
            State::New => self.open_link(peer, link)?,
            State::Broken => return self.check_open(peer).map(|()| false),
            State::Asking | State::Open => {}
        }
        let number = link.next.get();
        let head = head.encode(self.links.to(peer), number);
        let held = match body {
            Body::Copied(bytes) => Held::Copy(self.links.copies.borrow_mut().insert(peer, bytes)),
            Body::Kept { start, len, token } => Held::Kept(start, len, token),
        };
        link.next.set(number.wrapping_add(1));
        let first = link.with_rest(|rest| {
            rest.queue.push_back(Queued { head, body: held });
            rest.queue.len() == 1
        });
        if first
            && link.state() == State::Open
            && let Some(done) = self.try_first(peer, link)?
        {
            if number == 0 {
                link.tidy();
            }
            return Ok(done || matches!(body, Body::Copied(_)));
        }
        self.links.list(peer, link);
        Ok(matches!(body, Body::Copied(_)))
    }

    /// Refuses peers that are dead and those whose link is broken.
    pub(crate) fn check_open(&self, peer: u32) -> Result<(), DeviceError> {
        self.check_alive(peer)?;
        match self.links.link(peer).filter(|link| link.state() == State::Broken) {
            None => Ok(()),
            Some(link) => {
                let why = link.with_rest(|rest| rest.why.clone());
                Err(why.map_or(DeviceError::PeerDied { rank: peer }, |error| {
                    DeviceError::peer(peer, error)
                }))
            }
        }
    }

    /// Offers the provider the only packet of a queue. `None`: no space.
    fn try_first(&self, peer: u32, link: &Link) -> Result<Option<bool>, DeviceError> {
        let Some(packet) = link.with_rest(|rest| rest.queue.pop_front()) else {
            return Ok(None);
        };
        let (start, len, token) = match packet.body {
            Held::Copy(at) => {
                let (start, len) = self.links.copies.borrow().body(at);
                (start, len, Class::Link.token(u64::from(at)))
            }
            Held::Kept(start, len, token) => (start, len, token),
        };
        // SAFETY: a copy is kept until its token; a caller's body is by the
        // contract of `Body::Kept`; `route` is this context's.
        let rc = unsafe { self.hand_over(link, &packet.head, start, len, token) };
        if rc == AGAIN {
            link.with_rest(|rest| rest.queue.push_front(packet));
            return Ok(None);
        }
        if rc != PENDING
            && let Held::Copy(at) = packet.body
        {
            self.links.copies.borrow_mut().remove(at);
        }
        if rc < 0 {
            return Err(self.refused(peer, link.route(), rc));
        }
        link.set_state(State::Open);
        Ok(Some(rc == 0))
    }

    /// The provider would not take a packet.
    #[cold]
    fn refused(&self, peer: u32, route: Route, rc: isize) -> DeviceError {
        let error = self.explain(route, peer, rc);
        self.break_link(peer, error.clone());
        self.attribute_failure(peer, error)
    }

    /// Nothing more goes over a link.
    #[cold]
    pub(super) fn break_link(&self, peer: u32, why: NetError) {
        if self.links.drop_peer(peer, Some(why)) {
            self.tell_lost(peer);
        }
    }

    /// Finds where packets go; connects on first use.
    fn open_link(&self, peer: u32, link: &Link) -> Result<(), DeviceError> {
        let route = self.first_route(peer)?;
        if self.index() > 0 {
            self.ask_for_vci(peer, link);
            return Ok(());
        }
        let business_card = self.published(peer)?;
        self.open_route(peer, link, route, &business_card);
        Ok(())
    }

    /// Packets go to this peer from now on: to its inbox if it is on the node
    /// and that can be reached, else to the provider.
    pub(super) fn open_route(
        &self,
        peer: u32,
        link: &Link,
        route: Route,
        business_card: &BusinessCard,
    ) {
        let device = self.device();
        let inbox =
            business_card.inbox.filter(|_| self.node_inbox().is_some() && device.on_node(peer));
        let owner = device.inbox_owner(peer, self.index());
        let mine = device.node_rank(device.boot().rank());
        let outbox =
            inbox.zip(mine).and_then(|(at, mine)| Outbox::open(at, &owner, mine, self.links.me));
        let inject = match outbox {
            Some(_) => node::LONGEST + HEAD,
            None => self.inject_of(route.transport),
        };
        if let Some(outbox) = outbox {
            let _ = link.outbox.set(Box::new(outbox));
        }
        link.open(route, inject);
    }

    pub(super) fn inject_of(&self, transport: Transport) -> usize {
        self.endpoint(transport).map_or(0, |(netmod, _)| netmod.caps().packet_inject)
    }

    /// The longest bodies of packets to a world rank: those that are copied at
    /// the call, and all. Both 0 where the provider has no messages.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn packet_limits(&self, peer: u32) -> Result<(usize, usize), DeviceError> {
        if self.index() == 0 {
            let size = self.device().boot().size();
            let no_rank = DeviceError::NoRank { rank: peer, size };
            let link = self.links.peers.get_or_new(peer).ok_or(no_rank)?;
            if link.state() == State::New {
                self.open_link(peer, link)?;
            }
            if link.outbox.get().is_some() {
                return Ok((node::LONGEST, node::LONGEST));
            }
        }
        let route = self.first_route(peer)?;
        let caps = self.endpoint(route.transport).map(|(netmod, _)| netmod.caps());
        Ok(caps.map_or((0, 0), |caps| {
            // The route of a further context's packets is not known yet.
            let size = caps.packet_size.saturating_sub(HEAD).min(node::LONGEST);
            (caps.packet_inject.saturating_sub(HEAD), size)
        }))
    }

    /// Returns true if packets to a world rank's first context go through a
    /// queue of the node, as they do from a first context where there is one.
    pub(crate) fn has_node_queue(&self, peer: u32) -> bool {
        self.index() == 0
            && self.packet_limits(peer).is_ok()
            && self.links.link(peer).is_some_and(|link| link.outbox.get().is_some())
    }

    /// Copies bytes out of the memory of a peer on this node, which keeps them
    /// as they are. Returns false if they must be sent instead.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(crate) unsafe fn pull(&self, peer: u32, from: u64, to: *mut u8, len: usize) -> bool {
        if self.no_pull.get() || self.packet_limits(peer).is_err() {
            return false;
        }
        let outbox = self.links.link(peer).and_then(|link| link.outbox.get());
        let Some(outbox) = outbox else { return false };
        // SAFETY: the caller's duty.
        let copied = unsafe { node::pull(outbox.pid(), from, to, len) };
        if let Err(why) = &copied {
            // Forbidden once, forbidden for ever.
            self.no_pull.set(why.raw_os_error() == Some(libc::EPERM));
        }
        // A dead one's number may be another process's.
        copied.is_ok() && !self.device().is_dead(peer)
    }

    /// The transport that packets from and to a world rank take.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn transport_of(&self, peer: u32) -> Result<Transport, DeviceError> {
        Ok(self.first_route(peer)?.transport)
    }

    /// Where the peer's first context is reached from here.
    pub(super) fn first_route(&self, peer: u32) -> Result<Route, DeviceError> {
        let process = Process { pg: 0, lpid: peer };
        let mut entry = self.av().get(process)?;
        if entry.is_empty() {
            entry = self.connect(process)?;
        }
        let none = |why| DeviceError::NoTransport { rank: peer, why };
        let (value, transport) = N::unpack(entry).ok_or_else(|| none("it has no address"))?;
        let dest = match transport {
            Transport::Network => value,
            Transport::Local => self
                .device()
                .local_address(value as u32)
                .ok_or_else(|| none("it is not in the shared-memory provider"))?,
        };
        Ok(Route { transport, dest })
    }

    /// Where bulk messages and packets to a world rank go; `None` before the
    /// first packet.
    pub(crate) fn packet_route(&self, peer: u32) -> Option<(Transport, u64)> {
        let link = self.links.link(peer).filter(|link| link.state() == State::Open)?;
        let Route { transport, dest } = link.route();
        Some((transport, dest))
    }

    /// # Safety
    /// As [`Netmod::send`]; `link` is this context's.
    #[inline]
    unsafe fn hand_over(
        &self,
        link: &Link,
        head: &[u8; HEAD],
        start: *const u8,
        len: usize,
        token: u64,
    ) -> isize {
        match link.outbox.get() {
            // SAFETY: the caller's duty; no longer than `packet_limits` says.
            Some(outbox) if unsafe { outbox.put_encoded(head, start, len) } => 0,
            Some(_) => AGAIN,
            // SAFETY: the caller's duty.
            None => unsafe { self.to_provider(link.route(), head, start, len, token) },
        }
    }

    /// # Safety
    /// As [`Netmod::send`]; `route` is this context's.
    #[inline]
    unsafe fn to_provider(
        &self,
        route: Route,
        head: &[u8; HEAD],
        start: *const u8,
        len: usize,
        token: u64,
    ) -> isize {
        match self.endpoint(route.transport) {
            // SAFETY: the caller's duty.
            Some((netmod, endpoint)) => unsafe {
                netmod.send(endpoint, head, start, len, route.dest, token)
            },
            None => UNSUPPORTED,
        }
    }

    /// Sends a packet that is not numbered, for the link itself, as
    /// [`Netmod::send`] does; one that the provider has no space for must be
    /// repeated. A failure under way breaks the link to `peer`.
    pub(super) fn send_loose(&self, peer: u32, route: Route, head: Head, body: &[u8]) -> isize {
        let bytes = head.encode(self.links.to(peer), 0);
        let at = self.links.copies.borrow_mut().insert(peer, body);
        let (start, len) = self.links.copies.borrow().body(at);
        let token = Class::Link.token(u64::from(at));
        // SAFETY: the copy is kept until its token; `route` is this context's.
        let rc = unsafe { self.to_provider(route, &bytes, start, len, token) };
        if rc != PENDING {
            self.links.copies.borrow_mut().remove(at);
        }
        rc
    }

    /// Tells a handler that an operation of its class ended.
    pub(super) fn tell(&self, token: u64, result: Outcome) {
        if let Some(handler) = self.handler_of(Class::of_token(token)) {
            handler.finished(self, token, result);
        }
    }

    #[cold]
    pub(super) fn explain(&self, route: Route, peer: u32, rc: isize) -> NetError {
        match self.endpoint(route.transport) {
            Some((netmod, _)) => netmod.explain("send", rc),
            None => NetError::Address {
                provider: "none".into(),
                reason: format!("rank {peer} has no provider"),
            },
        }
    }

    /// The handler of a class, as what it is; `None` where none is registered.
    pub(crate) fn handler<R: PacketHandler<N>>(&self, class: Class) -> Option<Rc<R>> {
        Rc::clone(self.handler_of(class)?).as_any().downcast().ok()
    }
}
