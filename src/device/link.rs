//! The links of a context to its peers: numbers, order, and what waits for space.
//!
//! The link to each peer numbers what it sends, puts what arrives early aside,
//! and queues what the provider has no space for. Nothing is kept for a peer
//! nobody sent to or heard of, 48 bytes for one with nothing queued.
//!
//! Never looks into a body and knows nothing of messages or windows; the context
//! sends over it (`transmit.rs`) and finds where (`route.rs`).

use super::DeviceError;
use super::node::Outbox;
use super::packet::{Class, Head, Route};
use super::peers::PerPeer;
use crate::av::Transport;
use crate::boot::Boot;
use crate::netmod::{HEAD, NetError};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
    /// Packets of senders that are not known yet.
    aside: RefCell<Vec<Arrived>>,
    /// Other processes' memory may not be read.
    pub(super) no_pull: Cell<bool>,
}

/// What is known of one peer.
#[derive(Default)]
pub(super) struct Link {
    dest: Cell<u64>,
    /// What may be copied by the provider, bytes of body.
    inject: Cell<u32>,
    /// What this process is called there, of a link that was opened.
    name: Cell<u32>,
    /// Packets go to the provider at once: open, and nothing is queued.
    direct: Cell<bool>,
    local: Cell<bool>,
    /// In `Links::busy`.
    listed: Cell<bool>,
    state: Cell<State>,
    /// Number of the next packet to it.
    next: Cell<u16>,
    /// Number of the next packet from it.
    due: Cell<u16>,
    rest: RefCell<Option<Box<Rest>>>,
    /// Takes all packets to a peer whose inbox can be reached. Set by [`Link::open`], and
    /// taken by [`Link::close`].
    outbox: UnsafeCell<Option<Box<Outbox>>>,
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
    early: Vec<Arrived>,
    missing: Option<Missing>,
    why: Option<NetError>,
}

/// A packet that was sent and is not there.
#[derive(Clone, Copy)]
struct Missing {
    number: u16,
    /// How often it was missed, and when last.
    times: u32,
    last: Instant,
}

/// A packet is lost that was missed so often, so long apart: it may only be late, along another
/// path, and who was stopped meanwhile has not looked.
const TIMES: u32 = 5;
const APART: Duration = Duration::from_millis(900);

/// A packet that came: head, number, body.
type Arrived = (Head, u16, Box<[u8]>);

/// A packet that waits for space.
pub(super) struct Queued {
    pub(super) head: [u8; HEAD],
    pub(super) body: Held,
}

/// The body of a packet that waits.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// A place in [`Copies`].
    Copy(u32),
    /// The caller's.
    Kept(*const u8, usize, u64),
}

/// A packet as it is handed over.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) head: &'a [u8; HEAD],
    pub(super) start: *const u8,
    pub(super) len: usize,
    pub(super) token: u64,
}

/// Copied bodies; their memory is used again.
#[derive(Default)]
struct Copies {
    /// Whom each is for, `None` when it is free.
    places: Vec<(Option<u32>, Vec<u8>)>,
    free: Vec<u32>,
}

impl Copies {
    fn insert(&mut self, peer: u32, body: &[u8]) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((None, Vec::new()));
            self.places.len() as u32 - 1
        });
        let (owner, bytes) = &mut self.places[at as usize];
        *owner = Some(peer);
        bytes.clear();
        bytes.extend_from_slice(body);
        at
    }

    fn body(&self, at: u32) -> (*const u8, usize) {
        self.places.get(at as usize).map_or((std::ptr::null(), 0), |(_, b)| (b.as_ptr(), b.len()))
    }

    /// Returns true if a copy for this peer is in use.
    fn has(&self, peer: u32) -> bool {
        self.places.iter().any(|(owner, _)| *owner == Some(peer))
    }

    /// The peer it was for.
    fn remove(&mut self, at: u32) -> Option<u32> {
        let peer = self.places.get_mut(at as usize)?.0.take()?;
        self.free.push(at);
        Some(peer)
    }
}

impl Link {
    fn with_rest<T>(&self, f: impl FnOnce(&mut Rest) -> T) -> T {
        f(self.rest.borrow_mut().get_or_insert_default())
    }

    /// Gives back what only the first packet needed.
    pub(super) fn tidy(&self) {
        let mut rest = self.rest.borrow_mut();
        let idle = |r: &Rest| {
            r.queue.is_empty() && r.early.is_empty() && r.missing.is_none() && r.why.is_none()
        };
        if rest.as_deref().is_some_and(idle) {
            *rest = None;
        }
    }

    #[inline]
    pub(super) fn queue_is_empty(&self) -> bool {
        self.rest.borrow().as_ref().is_none_or(|rest| rest.queue.is_empty())
    }

    /// Queues a packet. Returns true if none was queued before it.
    pub(super) fn queue(&self, packet: Queued) -> bool {
        self.with_rest(|rest| {
            rest.queue.push_back(packet);
            rest.queue.len() == 1
        })
    }

    /// Returns true if a packet is queued that is not `moot`.
    pub(super) fn has_queued_but(&self, moot: impl Fn(&Head) -> bool) -> bool {
        let but = |packet: &Queued| Head::decode(&packet.head).is_none_or(|(head, _)| !moot(&head));
        self.rest.borrow().as_ref().is_some_and(|rest| rest.queue.iter().any(but))
    }

    /// Takes the first packet out of the queue.
    pub(super) fn unqueue(&self) -> Option<Queued> {
        self.with_rest(|rest| rest.queue.pop_front())
    }

    /// Puts the first packet back for which there was no space.
    pub(super) fn requeue(&self, packet: Queued) {
        self.with_rest(|rest| rest.queue.push_front(packet));
    }

    /// Number of the first packet that was not handed over; `None` where they go to an inbox.
    #[cold]
    pub(super) fn unsent(&self) -> Option<u16> {
        let queued = self.rest.borrow().as_ref().map_or(0, |rest| rest.queue.len());
        self.outbox().is_none().then(|| self.next.get().wrapping_sub(queued as u16))
    }

    /// Returns true if packets came or went that a provider may lose.
    #[cold]
    pub(super) fn may_lose(&self) -> bool {
        let came = self.due.get() != 0
            || self.rest.borrow().as_ref().is_some_and(|rest| !rest.early.is_empty());
        came || self.unsent().is_some_and(|unsent| unsent != 0)
    }

    /// The peer has handed the packets below a number over. Returns true if some of them are lost.
    #[cold]
    pub(super) fn has_gap(&self, unsent: u16, now: Instant) -> bool {
        let due = self.due.get();
        if unsent.wrapping_sub(due) as i16 <= 0 {
            if let Some(rest) = &mut *self.rest.borrow_mut() {
                rest.missing = None;
            }
            self.tidy();
            return false;
        }
        self.with_rest(|rest| {
            let new = Missing { number: due, times: 0, last: now };
            let mut missing = rest.missing.filter(|it| it.number == due).unwrap_or(new);
            if now.duration_since(missing.last) >= APART {
                (missing.times, missing.last) = (missing.times + 1, now);
            }
            rest.missing = Some(missing);
            missing.times >= TIMES
        })
    }

    /// Puts a packet aside that came before those due.
    #[cold]
    #[inline(never)]
    fn put_early(&self, head: &Head, number: u16, body: &[u8]) {
        self.with_rest(|rest| {
            // (Else those due never come.)
            if !matches!(rest.why, Some(NetError::Lost { .. })) {
                rest.early.push((*head, number, body.into()));
            }
        });
    }

    /// Why nothing goes over a broken link, if not for a death.
    pub(super) fn why(&self) -> Option<NetError> {
        self.with_rest(|rest| rest.why.clone())
    }

    /// Returns true if packets go to the provider at once.
    #[inline]
    pub(super) fn is_direct(&self) -> bool {
        self.direct.get()
    }

    /// What may be copied by the provider, bytes of body.
    #[inline]
    pub(super) fn inject(&self) -> usize {
        self.inject.get() as usize
    }

    /// What this process is called there, of a link that was opened.
    #[inline]
    pub(super) fn name(&self) -> u32 {
        self.name.get()
    }

    /// Number of the next packet.
    #[inline]
    pub(super) fn number(&self) -> u16 {
        self.next.get()
    }

    /// The packet with this number is on its way or queued.
    #[inline]
    pub(super) fn count(&self, number: u16) {
        self.next.set(number.wrapping_add(1));
    }

    #[inline]
    pub(super) fn outbox(&self) -> Option<&Outbox> {
        // SAFETY: changed by `open`, of a link that has none, and by `close`, whose caller
        // says that nobody holds this.
        unsafe { (*self.outbox.get()).as_deref() }
    }

    /// The link is as if never used.
    ///
    /// # Safety
    /// Nobody holds what [`Link::outbox`] gave.
    unsafe fn close(&self) {
        *self.rest.borrow_mut() = None;
        self.next.set(0);
        self.due.set(0);
        self.set_state(State::New);
        // SAFETY: the caller's.
        unsafe { *self.outbox.get() = None };
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.set(state);
        self.direct.set(state == State::Open && self.queue_is_empty());
    }

    /// Packets go along `route` from now on, to the peer's inbox where it can be
    /// reached; those of `inject` bytes, head included, are copied. This process is called
    /// `name` there.
    pub(super) fn open(&self, route: Route, outbox: Option<Outbox>, inject: usize, name: u32) {
        if let (Some(outbox), None) = (outbox, self.outbox()) {
            // SAFETY: there is none that somebody could hold.
            unsafe { *self.outbox.get() = Some(Box::new(outbox)) };
        }
        self.dest.set(route.dest);
        self.local.set(route.transport == Transport::Local);
        self.inject.set(inject.saturating_sub(HEAD) as u32);
        self.name.set(name);
        self.set_state(State::Open);
    }

    #[inline]
    pub(super) fn route(&self) -> Route {
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
            aside: RefCell::default(),
            no_pull: Cell::new(false),
        })
    }

    /// What this process calls itself towards a peer.
    #[inline]
    pub(super) fn name_to(&self, peer: u32) -> u32 {
        if peer < self.size { self.me } else { self.name }
    }

    /// Returns true if a packet's sender is a member of the job, who says its rank.
    #[inline]
    pub(super) fn is_member(&self, from: u32) -> bool {
        from < self.size
    }

    /// Returns true if anything was sent to a peer or came from it.
    pub(super) fn is_used(&self, peer: u32) -> bool {
        let used = |link: &Link| {
            link.state() != State::New
                || (link.next.get(), link.due.get()) != (0, 0)
                || link.rest.borrow().is_some()
        };
        self.link(peer).is_some_and(used)
    }

    /// The link to a peer whose number another process will have is as if never used.
    ///
    /// # Safety
    /// Nobody holds the outbox of the link.
    pub(super) unsafe fn forget(&self, peer: u32) {
        self.drop_peer(peer, None);
        if let Some(link) = self.link(peer) {
            // SAFETY: the caller's.
            unsafe { link.close() };
        }
    }

    #[inline]
    pub(super) fn link(&self, peer: u32) -> Option<&Link> {
        self.peers.get(peer)
    }

    /// The same, made now if need be.
    ///
    /// # Errors
    /// [`DeviceError::NoRank`].
    pub(super) fn link_or_new(&self, peer: u32) -> Result<&Link, DeviceError> {
        let none = DeviceError::NoRank { rank: peer, size: self.size };
        self.peers.get_or_new(peer).ok_or(none)
    }

    /// Peers there is a link to.
    pub(super) fn known(&self) -> Vec<u32> {
        self.peers.known()
    }

    /// Returns true if something waits for space or an address.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.borrow().is_empty()
    }

    /// The peers that something waits for.
    pub(super) fn busy(&self) -> Vec<u32> {
        self.busy.borrow().clone()
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
            return link.put_early(head, number, body);
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
                let at = rest.early.iter().position(|(_, n, _)| *n == due)?;
                Some(rest.early.swap_remove(at))
            });
            let Some((head, _, body)) = next else { return };
            link.due.set(due.wrapping_add(1));
            take(&head, &body);
        }
    }

    /// Keeps a packet of a sender that is not known yet: not more than some, as it may never be.
    #[cold]
    pub(super) fn put_aside(&self, head: &Head, number: u16, body: &[u8]) {
        const MOST: usize = 256;
        let mut aside = self.aside.borrow_mut();
        if aside.len() < MOST {
            aside.push((*head, number, body.into()));
        }
    }

    /// Takes the packets out whose sender calls itself so.
    pub(super) fn take_aside(&self, is_sender: impl Fn(u32) -> bool) -> Vec<Arrived> {
        let mut aside = self.aside.borrow_mut();
        aside.extract_if(.., |(head, ..)| is_sender(head.from)).collect()
    }

    /// Notes that packets to a peer wait.
    pub(super) fn list(&self, peer: u32, link: &Link) {
        link.direct.set(false);
        if !link.listed.replace(true) {
            self.busy.borrow_mut().push(peer);
        }
    }

    /// The peers that packets wait for, taken out, and their links.
    pub(super) fn take_listed(&self) -> impl Iterator<Item = (u32, &Link)> {
        let busy = self.busy.take();
        busy.into_iter().filter_map(|peer| {
            let link = self.peers.get(peer)?;
            link.listed.set(false);
            Some((peer, link))
        })
    }

    /// Keeps a copy of a body.
    pub(super) fn copy(&self, peer: u32, body: &[u8]) -> Held {
        Held::Copy(self.copies.borrow_mut().insert(peer, body))
    }

    /// A packet as it is handed over. A copy stays where it is until its token
    /// is given to [`Links::sent`].
    pub(super) fn outgoing<'a>(&self, head: &'a [u8; HEAD], body: Held) -> Outgoing<'a> {
        match body {
            Held::Copy(at) => {
                let (start, len) = self.copies.borrow().body(at);
                Outgoing { head, start, len, token: Class::Link.token(u64::from(at)) }
            }
            Held::Kept(start, len, token) => Outgoing { head, start, len, token },
        }
    }

    /// Gives up the copy of a body, if it is one.
    pub(super) fn drop_copy(&self, body: Held) {
        if let Held::Copy(at) = body {
            self.copies.borrow_mut().remove(at);
        }
    }

    /// A copied body was sent, or failed: then the peer it was for.
    pub(super) fn sent(&self, token: u64) -> Option<u32> {
        self.copies.borrow_mut().remove(Class::number(token) as u32)
    }

    /// The peer whose packets go along a route, of those whose link is open.
    #[cold]
    pub(super) fn at(&self, route: Route) -> Option<u32> {
        let is_it = |link: &Link| {
            let Route { transport, dest } = link.route();
            let same = transport == route.transport && dest == route.dest;
            same && link.state() == State::Open && link.outbox().is_none()
        };
        self.known().into_iter().find(|&peer| self.link(peer).is_some_and(is_it))
    }

    /// Returns true if packets to the peer are copied that have not been sent:
    /// after [`Links::drop_peer`] the provider has them.
    #[cold]
    pub(super) fn has_copies(&self, peer: u32) -> bool {
        self.copies.borrow().has(peer)
    }

    /// Forgets what is queued towards a peer that is dead or out of reach.
    /// Returns true if the link was not broken before.
    pub(super) fn drop_peer(&self, peer: u32, why: Option<NetError>) -> bool {
        let Some(link) = self.peers.get_or_new(peer) else { return false };
        let news = link.state() != State::Broken;
        link.set_state(State::Broken);
        let queue = link.with_rest(|rest| {
            rest.why = rest.why.take().or(why);
            if matches!(rest.why, Some(NetError::Lost { .. })) {
                rest.early = Vec::new();
            }
            std::mem::take(&mut rest.queue)
        });
        for packet in queue {
            self.drop_copy(packet.body);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::alone::Alone;

    fn packet(head: [u8; HEAD], body: Held) -> Queued {
        Queued { head, body }
    }

    #[test]
    fn packets_that_come_early_wait_for_those_before() {
        let links = Links::new(&Alone::new().unwrap()).unwrap();
        let came = RefCell::new(Vec::new());
        for number in [2, 1, 0, 3] {
            let head = Head::new(Class::Tagged, 0, [u64::from(number); 3]);
            links.sort(&head, number, &[], |head, _| came.borrow_mut().push(head.words[0]));
        }
        assert_eq!(came.take(), [0, 1, 2, 3]);
    }

    #[test]
    fn packets_are_lost_that_are_missed_again_and_again() {
        let links = Links::new(&Alone::new().unwrap()).unwrap();
        let link = links.link_or_new(0).unwrap();
        let head = Head::new(Class::Tagged, 0, [0; 3]);
        let mut now = Instant::now();
        // Those of the peer's say so many at a time, a second or a moment apart.
        let mut says = |unsent: u16, times: u32, apart: Duration| {
            (0..times).any(|_| {
                now += apart;
                link.has_gap(unsent, now)
            })
        };
        let [second, moment] = [1000, 10].map(Duration::from_millis);
        assert!(!link.may_lose());
        assert!(!says(0, 9, second) && link.rest.borrow().is_none());
        links.sort(&head, 1, &[], |_, _| panic!("not due"));
        assert!(link.may_lose());
        assert!(!says(2, TIMES, second), "it may be late");
        links.sort(&head, 0, &[], |_, _| ());
        assert!(!says(2, 1, second) && link.rest.borrow().is_none(), "it was");
        links.sort(&head, 3, &[], |_, _| panic!("not due"));
        assert!(!says(4, 1, moment) && !says(4, 80, moment), "not so soon");
        assert!(!says(4, 1, Duration::from_secs(100)), "not who was stopped");
        assert!(says(4, TIMES, second));
        links.drop_peer(0, Some(NetError::Lost { provider: String::new() }));
        links.sort(&head, 5, &[], |_, _| panic!("not due"));
        assert!(link.with_rest(|rest| rest.early.is_empty()));
    }

    #[test]
    fn packets_of_the_unknown_are_kept_until_they_are_known() {
        let links = Links::new(&Alone::new().unwrap()).unwrap();
        let from = |name| Head { from: name, ..Head::new(Class::Tagged, 0, [0; 3]) };
        for (name, number) in [(8, 0), (9, 0), (8, 1)] {
            links.put_aside(&from(name), number, &[number as u8]);
        }
        let numbers = |name| {
            let taken = links.take_aside(|from| from == name);
            taken.into_iter().map(|(_, number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!((numbers(8), numbers(8), numbers(9)), (vec![0, 1], vec![], vec![0]));
        (0..1000).for_each(|number| links.put_aside(&from(7), number, &[]));
        assert!(numbers(7).len() < 1000, "not for ever more");
    }

    #[test]
    fn copies_are_kept_until_sent_or_dropped_with_their_link() {
        let links = Links::new(&Alone::new().unwrap()).unwrap();
        let link = links.link_or_new(0).unwrap();
        let copy = links.copy(0, &[1, 2, 3]);
        let head = [0; HEAD];
        let outgoing = links.outgoing(&head, copy);
        assert_eq!((outgoing.len, links.sent(outgoing.token)), (3, Some(0)));
        assert!(link.queue(packet(head, links.copy(0, &[4]))));
        assert!(!link.queue(packet(head, links.copy(0, &[5]))));
        links.list(0, link);
        assert_eq!((links.queued(), links.is_busy()), (2, true));
        assert!(links.drop_peer(0, Some(NetError::Corrupt)));
        assert!(!links.drop_peer(0, None), "said once");
        assert!(link.queue_is_empty() && matches!(link.why(), Some(NetError::Corrupt)));
        assert!(links.is_used(0));
        // SAFETY: there is no outbox.
        unsafe { links.forget(0) };
        assert!(!links.is_used(0) && link.state() == State::New && link.why().is_none());
        assert_eq!(links.copies.borrow().free.len(), links.copies.borrow().places.len());
    }
}
