//! Packets out: numbered, in order, never lost for want of space.
//!
//! A packet goes to the peer's inbox on the node or to the provider at once, or
//! into its link's queue, which [`Context::progress`] sends on. A packet that
//! fails breaks its link: what follows could not be taken in order. The handlers
//! hear of it as of a death.
//!
//! # Contracts
//! - **\[KEPT\]** A body that is [`Body::Kept`] stays readable until its token came, or
//!   the handler heard that the peer is lost, and is no longer than
//!   [`Context::packet_limits`] says. Nothing is asked of one that is copied.
//! - **\[SEND\]** What [`Netmod::send`] asks for, over a link or route of this context.
//! - **\[BODY\]** That of a queue of the node (`node/ring.rs`), of at most
//!   [`node::LONGEST`] bytes.

use super::DeviceError;
use super::context::Context;
use super::link::{Held, Link, Outgoing, Queued, State};
use super::liveness::lacks_descriptor;
use super::node;
use super::packet::{Body, Head, Route, encode};
use crate::netmod::{AGAIN, NetError, Netmod, PENDING, UNSUPPORTED, WordPacket};
use crate::shm::word::Word;
use crate::ulimit;

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
    /// \[KEPT\]: a body that is [`Body::Kept`] fits a packet and stays readable until
    /// its token came, or the handler heard that the peer is lost.
    #[inline]
    pub(crate) unsafe fn transmit(
        &self,
        peer: u32,
        head: Head,
        body: Body<'_>,
    ) -> Result<bool, DeviceError> {
        if let Some(link) = self.links.link(peer).filter(|link| link.is_direct()) {
            let (start, len, token) = match body {
                Body::Copied(bytes) if bytes.len() <= link.inject() => {
                    (bytes.as_ptr(), bytes.len(), 0)
                }
                // SAFETY: [KEPT] asks nothing of a body that is copied.
                Body::Copied(_) => return unsafe { self.transmit_slowly(peer, head, body) },
                Body::Kept { start, len, token } => (start, len, token),
            };
            // SAFETY: [SEND] by [KEPT], and of one that is copied because it fits what
            // the provider copies; the link is this context's.
            let rc = unsafe { self.hand_over_next(link, head, (start, len, token)) };
            if rc >= 0 {
                return Ok(rc == 0);
            }
            if rc != AGAIN {
                return Err(self.refused(peer, link.route(), rc));
            }
        }
        // SAFETY: [KEPT].
        unsafe { self.transmit_slowly(peer, head, body) }
    }

    /// Returns true if a packet went at once, behind those before it: to the peer's inbox on
    /// the node, or to the provider, which has copied it; else nothing has happened.
    ///
    /// # Safety
    /// \[BODY\], of any length: `start` is readable for `len` bytes.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, peer: u32, head: Head, start: *const u8, len: usize) -> bool {
        let Some(link) = self.links.link(peer) else { return false };
        if !link.is_direct() {
            return false;
        }
        match link.outbox() {
            // SAFETY: [BODY]; longer ones are refused.
            Some(outbox) if len <= node::LONGEST => unsafe {
                outbox.put(head.first(), head.words, start, len)
            },
            Some(_) => false,
            // SAFETY: [BODY].
            None => unsafe { self.inject(link, &head, start, len) },
        }
    }

    /// [`Context::write`] over a link that is direct and has no inbox.
    ///
    /// # Safety
    /// \[BODY\], of any length.
    #[inline(never)]
    unsafe fn inject(&self, link: &Link, head: &Head, start: *const u8, len: usize) -> bool {
        // SAFETY: [SEND] of a body that fits what the provider copies; the link is this
        // context's.
        len <= link.inject() && unsafe { self.hand_over_next(link, *head, (start, len, 0)) >= 0 }
    }

    /// [`Context::transmit`] of a body that is copied: it is the caller's again on return.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn transmit_copy(
        &self,
        peer: u32,
        head: Head,
        body: &[u8],
    ) -> Result<(), DeviceError> {
        // SAFETY: [KEPT] asks nothing of a body that is copied.
        unsafe { self.transmit(peer, head, Body::Copied(body)) }.map(|_| ())
    }

    /// [`Context::transmit_copy`] of what its peer waits for, and nobody sends again: it is kept
    /// where a first packet finds no free descriptor.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn transmit_answer(
        &self,
        peer: u32,
        head: Head,
        body: &[u8],
    ) -> Result<(), DeviceError> {
        let sent = self.transmit_copy(peer, head, body);
        sent.or_else(|error| self.transmit_later(peer, head, body, error))
    }

    #[cold]
    #[inline(never)]
    fn transmit_later(
        &self,
        peer: u32,
        head: Head,
        body: &[u8],
        error: DeviceError,
    ) -> Result<(), DeviceError> {
        if !self.lacks_descriptor_for(peer, &error) {
            return Err(error);
        }
        let link = self.links.link_or_new(peer)?;
        self.enqueue(peer, link, head, Body::Copied(body));
        self.links.list(peer, link);
        Ok(())
    }

    /// Returns true if a peer that nothing was sent to yet is out of reach until there is a free
    /// descriptor. (To other jobs an introduction has to go first.)
    #[cold]
    fn lacks_descriptor_for(&self, peer: u32, error: &DeviceError) -> bool {
        peer < self.device().boot().size()
            && self.links.link(peer).is_some_and(|link| link.state() == State::New)
            && !matches!(error, DeviceError::PeerDied { .. })
            && (lacks_descriptor(error) || ulimit::starves(true))
    }

    /// [`Context::write`] of a head without a third word and a short body; `sent` is called
    /// when it went. `None` where no way is known yet.
    #[inline(always)]
    pub(crate) fn write_word(
        &self,
        peer: u32,
        head: Head,
        body: Word,
        sent: impl FnOnce(),
    ) -> Option<bool> {
        let [first, second, _] = head.words;
        let link = self.links.link(peer).filter(|link| link.is_direct())?;
        Some(match link.outbox() {
            Some(outbox) => outbox.put_word(head.first(), [first, second], body, sent),
            None => {
                let kind = head.first() | (body.len() as u64) << 32;
                let went = self.inject_word(first, second, link, body.bytes(), kind);
                if went {
                    sent();
                }
                went
            }
        })
    }

    /// [`Context::write_word`] over a link that is direct and has no inbox; the body's length
    /// in the upper half of `kind`. (All in registers, those of an envelope where they came.)
    #[inline(never)]
    fn inject_word(&self, second: u64, third: u64, link: &Link, body: u64, kind: u64) -> bool {
        if Word::BYTES > link.inject() {
            return false;
        }
        let number = link.number();
        let head = encode(u64::from(kind as u32), link.name(), number, [second, third, 0]);
        let packet = &WordPacket { head, body: body.to_ne_bytes() };
        let Route { transport, dest } = link.route();
        let Some((netmod, endpoint)) = self.endpoint(transport) else { return false };
        // SAFETY: [SEND] of a body that fits what the provider copies; the link is this
        // context's.
        let rc = unsafe { netmod.inject_word(endpoint, packet, (kind >> 32) as usize, dest) };
        if rc >= 0 {
            link.count(number);
        }
        rc >= 0
    }

    /// [`Context::write`] of a body of `len` bytes that `fill` writes where it goes.
    pub(crate) fn write_with(
        &self,
        peer: u32,
        head: Head,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let link = self.links.link(peer).filter(|link| link.is_direct());
        let outbox = link.and_then(|link| link.outbox());
        outbox.is_some_and(|outbox| outbox.put_with(head.first(), head.words, len, fill))
    }

    /// Transmits where the fast path cannot: resolves the route, copies, queues.
    ///
    /// # Safety
    /// \[KEPT\], as [`Context::transmit`].
    #[cold]
    #[inline(never)]
    unsafe fn transmit_slowly(
        &self,
        peer: u32,
        head: Head,
        body: Body<'_>,
    ) -> Result<bool, DeviceError> {
        self.check_alive(peer)?;
        let link = self.links.link_or_new(peer)?;
        match link.state() {
            State::New => match self.open_link(peer, link) {
                // (What a handler answers is not repeated.)
                Err(e) if self.is_progressing() && self.lacks_descriptor_for(peer, &e) => {}
                opened => opened?,
            },
            State::Broken => return self.check_open(peer).map(|()| false),
            State::Asking | State::Open => {}
        }
        let number = link.number();
        let first = self.enqueue(peer, link, head, body);
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

    /// Queues a packet, numbered. Returns true if none was queued before it.
    fn enqueue(&self, peer: u32, link: &Link, head: Head, body: Body<'_>) -> bool {
        let number = link.number();
        let head = head.encode(self.links.name_to(peer), number);
        let held = match body {
            Body::Copied(bytes) => self.links.copy(peer, bytes),
            Body::Kept { start, len, token } => Held::Kept(start, len, token),
        };
        link.count(number);
        link.queue(Queued { head, body: held })
    }

    /// Refuses peers that are dead and those whose link is broken.
    pub(crate) fn check_open(&self, peer: u32) -> Result<(), DeviceError> {
        self.check_alive(peer)?;
        match self.links.link(peer).filter(|link| link.state() == State::Broken) {
            None => Ok(()),
            Some(link) => Err(link.why().map_or(DeviceError::PeerDied { rank: peer }, |error| {
                DeviceError::peer(peer, error)
            })),
        }
    }

    /// Offers the provider the only packet of a queue. `None`: no space.
    fn try_first(&self, peer: u32, link: &Link) -> Result<Option<bool>, DeviceError> {
        let Some(packet) = link.unqueue() else { return Ok(None) };
        // SAFETY: as in `push_link`.
        let rc = unsafe { self.hand_over(link, self.links.outgoing(&packet.head, packet.body)) };
        if rc == AGAIN {
            link.requeue(packet);
            return Ok(None);
        }
        if rc != PENDING {
            self.links.drop_copy(packet.body);
        }
        if rc < 0 {
            return Err(self.refused(peer, link.route(), rc));
        }
        link.set_state(State::Open);
        Ok(Some(rc == 0))
    }

    /// Sends what the provider had no space for, or waits for a descriptor.
    pub(super) fn push_links(&self) {
        for (peer, link) in self.links.take_listed() {
            if link.state() == State::New && !link.queue_is_empty() && !ulimit::starves(true) {
                self.open_link_again(peer, link);
            }
            if link.state() == State::Open {
                self.push_link(peer, link);
            }
            if link.queue_is_empty() || link.state() == State::Broken {
                // Sets whether packets go out at once again.
                link.set_state(link.state());
            } else {
                self.links.list(peer, link);
            }
        }
    }

    /// There may be a descriptor for the first packet to a peer now.
    #[cold]
    fn open_link_again(&self, peer: u32, link: &Link) {
        let Err(error) = self.open_link(peer, link) else { return };
        if self.lacks_descriptor_for(peer, &error) {
            return;
        }
        let why = match error {
            DeviceError::Net(error) | DeviceError::Peer { error, .. } => error,
            e => NetError::Address { provider: "rankway".into(), reason: e.to_string() },
        };
        self.break_link(peer, why);
    }

    fn push_link(&self, peer: u32, link: &Link) {
        while let Some(first) = link.unqueue() {
            // SAFETY: a copy is kept until its token; a caller's body is by the
            // contract of `Body::Kept`; the link is this context's.
            let rc = unsafe { self.hand_over(link, self.links.outgoing(&first.head, first.body)) };
            if rc == AGAIN {
                return link.requeue(first);
            }
            if rc == PENDING {
                continue;
            }
            self.links.drop_copy(first.body);
            let failure = (rc != 0).then(|| self.explain(link.route(), peer, rc));
            if let Held::Kept(.., token) = first.body {
                self.tell(token, failure.clone().map_or(Ok(()), Err));
            }
            if let Some(error) = failure {
                return self.break_link(peer, error);
            }
        }
    }

    /// The provider would not take a packet.
    #[cold]
    fn refused(&self, peer: u32, route: Route, rc: isize) -> DeviceError {
        let error = self.explain(route, peer, rc);
        self.break_link(peer, error.clone());
        self.attribute_failure(peer, error)
    }

    /// Hands a packet of a head, and of start, length and token of its body, over as the
    /// link's next, and counts it if it was taken.
    ///
    /// # Safety
    /// \[SEND\], over `link`, which is direct.
    #[inline]
    unsafe fn hand_over_next(
        &self,
        link: &Link,
        head: Head,
        (start, len, token): (*const u8, usize, u64),
    ) -> isize {
        let number = link.number();
        let head = &head.encode(link.name(), number);
        // SAFETY: [SEND].
        let rc = unsafe { self.hand_over(link, Outgoing { head, start, len, token }) };
        if rc >= 0 {
            link.count(number);
        }
        rc
    }

    /// # Safety
    /// \[SEND\], over `link`.
    #[inline]
    unsafe fn hand_over(&self, link: &Link, packet: Outgoing<'_>) -> isize {
        let Outgoing { head, start, len, .. } = packet;
        match link.outbox() {
            // SAFETY: [SEND], and so [BODY]: no longer than `packet_limits` says.
            Some(outbox) if unsafe { outbox.put_encoded(head, start, len) } => 0,
            Some(_) => AGAIN,
            // SAFETY: [SEND].
            None => unsafe { self.to_provider(link.route(), packet) },
        }
    }

    /// # Safety
    /// \[SEND\], over `route`.
    #[inline]
    unsafe fn to_provider(&self, route: Route, packet: Outgoing<'_>) -> isize {
        let Outgoing { head, start, len, token } = packet;
        match self.endpoint(route.transport) {
            // SAFETY: [SEND].
            Some((netmod, endpoint)) => unsafe {
                netmod.send(endpoint, head, start, len, route.dest, token)
            },
            None => UNSUPPORTED,
        }
    }

    /// Sends a packet that is not numbered, for the link itself, as
    /// [`Netmod::send`] does; one that the provider has no space for must be
    /// repeated. A failure under way breaks the link to `peer`, if it `matters`.
    pub(super) fn send_loose(
        &self,
        (peer, matters): (u32, bool),
        route: Route,
        head: Head,
        body: &[u8],
    ) -> isize {
        let head = head.encode(self.links.name_to(peer), 0);
        let copy = self.links.copy(if matters { peer } else { u32::MAX }, body);
        // SAFETY: the copy is kept until its token; `route` is this context's.
        let rc = unsafe { self.to_provider(route, self.links.outgoing(&head, copy)) };
        if rc != PENDING {
            self.links.drop_copy(copy);
        }
        rc
    }

    #[cold]
    pub(super) fn explain(&self, route: Route, peer: u32, rc: isize) -> NetError {
        match self.endpoint(route.transport) {
            Some((netmod, _)) => netmod.explain(N::CALLS.send, rc),
            None => NetError::Address {
                provider: "none".into(),
                reason: format!("rank {peer} has no provider"),
            },
        }
    }
}
