//! Where packets to a peer go: its inbox on the node or a provider, found on
//! first use.

use super::DeviceError;
use super::business_card::BusinessCard;
use super::context::Context;
use super::link::{Link, State};
use super::node::{self, Outbox};
use super::packet::Route;
use crate::av::{Entry, Transport};
use crate::boot::BootError;
use crate::netmod::{HEAD, Netmod};
use crate::rankmap::Process;
use crate::shm::attach::{self, Copies, Direction};

impl<N: Netmod> Context<N> {
    /// Finds where packets go; connects on first use.
    pub(super) fn open_link(&self, peer: u32, link: &Link) -> Result<(), DeviceError> {
        let route = self.first_route(peer)?;
        if self.index() > 0 {
            link.set_state(State::Asking);
            self.questions.ask(peer);
            return Ok(());
        }
        let business_card = self.published(peer)?;
        self.open_route(peer, link, route, &business_card)?;
        self.send_introduction(peer, link);
        Ok(())
    }

    /// Packets go to this peer from now on: to its inbox if it is on the node
    /// and that can be reached, else to the provider.
    ///
    /// # Errors
    /// [`DeviceError::Boot`] where the process may open no more descriptors.
    pub(super) fn open_route(
        &self,
        peer: u32,
        link: &Link,
        route: Route,
        business_card: &BusinessCard,
    ) -> Result<(), DeviceError> {
        let outbox = self.outbox_to(peer, business_card)?;
        let inject = match outbox {
            Some(_) => node::LONGEST + HEAD,
            None => self.inject_of(route.transport),
        };
        link.open(route, outbox, inject, self.links.name_to(peer));
        Ok(())
    }

    /// The inbox of a peer of this machine, opened; `None` where it cannot be reached.
    fn outbox_to(
        &self,
        peer: u32,
        business_card: &BusinessCard,
    ) -> Result<Option<Outbox>, DeviceError> {
        let device = self.device();
        let Some(at) = business_card.inbox.filter(|_| self.node_inbox.get().is_some()) else {
            return Ok(None);
        };
        let me = device.boot().rank();
        let outbox = if peer >= device.boot().size() {
            if self.index() > 0 {
                return Ok(None);
            }
            Outbox::open_as_guest(at, device.boot().name())
        } else if let (true, Some(mine)) = (device.on_node(peer), device.node_rank(me)) {
            Outbox::open(at, &device.inbox_owner(peer, self.index()), mine, me)
        } else {
            return Ok(None);
        };
        match outbox {
            // (Of what a handler answers nobody would hear.)
            Err(_) if self.is_progressing() => Ok(None),
            Err(e) => Err(BootError::io(format!("opening the inbox of rank {peer}"), e).into()),
            opened => Ok(opened.unwrap_or_default()),
        }
    }

    fn inject_of(&self, transport: Transport) -> usize {
        self.endpoint(transport).map_or(0, |(netmod, _)| netmod.caps().packet_inject)
    }

    /// The longest bodies of packets to a world rank: those that are copied at
    /// the call, and all. Both 0 where the provider has no messages.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn packet_limits(&self, peer: u32) -> Result<(usize, usize), DeviceError> {
        if self.index() == 0 {
            let link = self.links.link_or_new(peer)?;
            if link.state() == State::New {
                self.open_link(peer, link)?;
            }
            if link.outbox().is_some() {
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
            && self.links.link(peer).is_some_and(|link| link.outbox().is_some())
    }

    /// The process of a peer on this node whose memory may be copied from.
    fn pid_to_pull_from(&self, peer: u32) -> Option<u32> {
        if self.links.no_pull.get() || self.packet_limits(peer).is_err() {
            return None;
        }
        Some(self.links.link(peer)?.outbox()?.pid())
    }

    /// Copies bytes out of the memory of a peer on this node, which keeps them
    /// as they are. Returns false if they must be sent instead.
    ///
    /// # Safety
    /// \[INTO\]: `to` is writable for `len` bytes.
    pub(crate) unsafe fn pull(&self, peer: u32, from: u64, to: *mut u8, len: usize) -> bool {
        let Some(pid) = self.pid_to_pull_from(peer) else { return false };
        // SAFETY: [INTO].
        let copied = unsafe { attach::copy(Direction::Out, pid, from, to, len) };
        self.pulled(peer, copied)
    }

    /// The same while a word of the peer's has a value; false where it is another behind the copy:
    /// the bytes may be others then.
    ///
    /// # Safety
    /// \[INTO\].
    pub(crate) unsafe fn pull_while(
        &self,
        peer: u32,
        from: u64,
        (to, len): (*mut u8, usize),
        (word, value): (u64, u64),
    ) -> bool {
        let Some(pid) = self.pid_to_pull_from(peer) else { return false };
        // SAFETY: [INTO].
        let copied = unsafe { attach::copy_and_read(pid, from, to, len, word) };
        let as_it_was = copied.as_ref().is_ok_and(|&said| said == value);
        self.pulled(peer, copied.map(drop)) && as_it_was
    }

    /// [`Context::pull`] of many stretches: `list` says of each where it is in the peer's
    /// memory, where it goes, and its length.
    ///
    /// # Safety
    /// \[INTO\]: what `list` names is writable.
    pub(crate) unsafe fn pull_blocks(
        &self,
        peer: u32,
        list: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize)),
    ) -> bool {
        let Some(pid) = self.pid_to_pull_from(peer) else { return false };
        let mut gather = Copies::new(Direction::Out, pid);
        // SAFETY: [INTO].
        list(&mut |from, to, len| unsafe { gather.add(from, to, len) });
        let copied = gather.finish();
        self.pulled(peer, copied)
    }

    /// Returns true if a copy out of a peer's memory is what it should be.
    fn pulled(&self, peer: u32, copied: std::io::Result<()>) -> bool {
        if let Err(why) = &copied {
            // Forbidden once, forbidden for ever.
            self.links.no_pull.set(why.raw_os_error() == Some(libc::EPERM));
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
        N::unpack(entry).ok_or_else(|| none("it has no address"))?;
        let dest = self.dest_of(entry);
        let (transport, dest) =
            dest.ok_or_else(|| none("it is not in the shared-memory provider"))?;
        Ok(Route { transport, dest })
    }

    /// The address that operations take by an entry of this context's address vector.
    pub(crate) fn dest_of(&self, entry: Entry) -> Option<(Transport, u64)> {
        let (value, transport) = N::unpack(entry)?;
        let dest = match transport {
            Transport::Network => value,
            Transport::Local => self.local_address(value as u32)?,
        };
        Some((transport, dest))
    }

    /// Where bulk messages and packets to a world rank go; `None` before the
    /// first packet.
    pub(crate) fn packet_route(&self, peer: u32) -> Option<(Transport, u64)> {
        let link = self.links.link(peer).filter(|link| link.state() == State::Open)?;
        let Route { transport, dest } = link.route();
        Some((transport, dest))
    }
}
