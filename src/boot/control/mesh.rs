//! Connections of the control channel.
//!
//! Nothing is connected before it is needed. All sockets are non-blocking and
//! are served only inside [`Mesh::service`], between two polls. Whoever has
//! something to send dials; a connection serves both directions, and each
//! side sends on one connection only, so that frames keep their order. Two
//! ranks that dial each other at once keep both connections.

mod deaths;
mod in_process;
mod poll_set;
mod received;

use super::acceptor::{Acceptor, no_descriptors};
use super::connection::{Connection, State};
use super::protocol::{self, FailureNotice, Frame, Greeting, Kind};
use super::socket::{self, Address, Arrival};
use crate::boot::ProcessId;
use crate::boot::contact_info::ContactInfo;
use crate::boot::contact_info::KEY as CONTACT_INFO_KEY;
use crate::boot::liveness::{self, Watch};
use crate::boot::{Boot, BootError};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deaths::process_ended;
pub(super) use deaths::read_poison;
pub(super) use poll_set::PollSet;
use poll_set::Target;
use received::Received;

/// How long one address may take to answer before the next is tried.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// A caller that has not sent its greeting by then is cut off. A peer
/// that was too slow calls again.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// Unauthenticated callers held at a time: the oldest goes when one more comes. Few,
/// since each takes a descriptor from the program.
const MAX_UNAUTHENTICATED: usize = 8;
/// Callers taken in at a time at each listener.
const MAX_ARRIVALS: usize = 1024;
/// Between two looks for machines that have stopped answering.
const SILENCE_INTERVAL: Duration = Duration::from_millis(250);
/// Before connecting again: where the backlog was full, and where the peer cut
/// the connection off unread.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
const CUT_OFF_PAUSE: Duration = Duration::from_millis(50);
/// How long to connect to one that cuts every connection off.
const CUT_OFF_TIMEOUT: Duration = Duration::from_secs(10);

/// Nothing more can come from a peer.
struct Gone {
    how: String,
    since: Instant,
}

struct Peer {
    contact_info: ContactInfo,
    /// On the loopback this process can reach.
    near: bool,
    process: Option<OwnedFd>,
    /// The connection this side sends on.
    connection: Option<u64>,
    /// Frames waiting for an authenticated connection.
    queue: VecDeque<Vec<u8>>,
    /// Addresses and how far dialing has come.
    addresses: Vec<Address>,
    next_address: usize,
    /// What became of the addresses tried in this round.
    refusals: Vec<String>,
    /// An address that was silent may answer in the next round.
    silent: bool,
    /// When to call again, if it is not to be called before.
    retry: Option<Instant>,
    /// Since when it has cut off every connection unread.
    cut_off_since: Option<Instant>,
    /// There was an authenticated connection.
    met: bool,
    /// It left in good order.
    bye: bool,
    /// Why nothing more can come from it, once all that came has been read.
    gone: Option<Gone>,
    /// Frames so far.
    sent: u32,
    received: u32,
}

impl Peer {
    /// Returns true if its process can be seen to be there.
    fn living(&self, me: &ContactInfo) -> bool {
        let process = &self.contact_info.process;
        self.process.is_some()
            || (liveness::visible(&me.process, process) && !liveness::has_ended(process))
    }
}

pub(super) struct Mesh {
    boot: Arc<dyn Boot>,
    me: ContactInfo,
    acceptor: Acceptor,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    peers: HashMap<u32, Peer>,
    received: Received,
    /// Peers seen to be gone, and how, whose last frames may be unread.
    suspected: BTreeMap<u32, String>,
    /// Ranks that died, and how, in the order this process heard of it.
    deaths: Vec<(u32, String)>,
    /// When to look again for machines that have stopped answering.
    silence_due: Instant,
    /// This side is closing.
    closing: bool,
}

impl Mesh {
    pub(super) fn open(boot: Arc<dyn Boot>) -> Result<Self, BootError> {
        let (acceptor, me) = match boot.channel() {
            Some(_) => (Acceptor::default(), in_process::contact_info()),
            None => {
                let (acceptor, at) = Acceptor::open(&*boot)?;
                (acceptor, ContactInfo::new(at.local, at.port, at.addresses)?)
            }
        };
        boot.put(CONTACT_INFO_KEY, &me.encode())?;
        Ok(Mesh {
            boot,
            me,
            acceptor,
            connections: BTreeMap::new(),
            next_connection: 0,
            peers: HashMap::new(),
            received: Received::default(),
            suspected: BTreeMap::new(),
            deaths: Vec::new(),
            silence_due: Instant::now() + SILENCE_INTERVAL,
            closing: false,
        })
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn contact_info(&mut self, rank: u32) -> Result<&ContactInfo, BootError> {
        if rank == self.boot.rank() {
            return Ok(&self.me);
        }
        self.peer(rank).map(|peer| &peer.contact_info)
    }

    /// Who `rank` is, without keeping a record of it.
    pub(super) fn process(&self, rank: u32) -> Result<ProcessId, BootError> {
        match self.peers.get(&rank) {
            Some(peer) => Ok(peer.contact_info.process),
            None if rank == self.boot.rank() => Ok(self.me.process),
            None => Ok(self.fetch(rank)?.process),
        }
    }

    fn fetch(&self, rank: u32) -> Result<ContactInfo, BootError> {
        let bytes = self.boot.get(rank, CONTACT_INFO_KEY)?;
        ContactInfo::decode(&bytes).ok_or_else(|| BootError::Protocol {
            rank,
            what: "its contact info is unreadable; do all ranks run the same version?".into(),
        })
    }

    /// The record of `rank`, made on first use: fetches its contact info and,
    /// where that works, watches its process.
    fn peer(&mut self, rank: u32) -> Result<&mut Peer, BootError> {
        crate::boot::check_rank(rank, self.boot.size())?;
        if !self.peers.contains_key(&rank) {
            let contact_info = self.fetch(rank)?;
            let process = match liveness::open(&self.me.process, &contact_info.process) {
                Ok(fd) => Some(fd),
                Err(Watch::Dead) => {
                    self.suspected.insert(rank, process_ended(&contact_info));
                    None
                }
                // A wait that drags on looks at it without a descriptor.
                Err(Watch::NoDescriptor | Watch::Unwatchable | Watch::Watched) => None,
            };
            let near = contact_info.shares_loopback(&self.me);
            let addresses = addresses(&contact_info, near);
            let peer = Peer {
                contact_info,
                near,
                process,
                connection: None,
                queue: VecDeque::new(),
                addresses,
                next_address: 0,
                refusals: Vec::new(),
                silent: false,
                retry: None,
                cut_off_since: None,
                met: false,
                bye: false,
                gone: None,
                sent: 0,
                received: 0,
            };
            self.peers.insert(rank, peer);
        }
        Ok(self.peers.get_mut(&rank).expect("inserted above when it was missing"))
    }

    /// Makes the record of `rank`, so that its end is noticed from now on.
    pub(super) fn watch(&mut self, rank: u32) -> Result<(), BootError> {
        if self.is_in_process() {
            return Ok(());
        }
        self.peer(rank).map(drop)
    }

    /// Returns true if silence from `rank` could go unexplained: neither its
    /// process nor a connection would tell of its end.
    pub(super) fn unobserved(&self, rank: u32) -> bool {
        self.peers.get(&rank).is_none_or(|peer| peer.process.is_none())
            && !self.connections.values().any(|connection| connection.peer == Some(rank))
    }

    /// Hands `frame` over for `rank`; numbers it.
    pub(super) fn send(&mut self, rank: u32, mut frame: Frame) -> Result<(), BootError> {
        if let Some(error) = self.lost(rank) {
            return Err(error);
        }
        if let Some(channel) = self.boot.channel() {
            channel.send(self.boot.rank(), rank, frame);
            return Ok(());
        }
        let peer = self.peer(rank)?;
        frame.sequence = peer.sent;
        peer.sent = peer.sent.wrapping_add(1);
        peer.queue.push_back(frame.encode());
        self.dial(rank)
    }

    /// Sees to it that there is a connection to `rank`, or one under way, and
    /// moves waiting frames onto it when it is good for them.
    pub(super) fn dial(&mut self, rank: u32) -> Result<(), BootError> {
        if self.is_in_process() {
            return Ok(());
        }
        let open = |(id, connection): (&u64, &Connection)| {
            (connection.peer == Some(rank) && connection.state == State::Open).then_some(*id)
        };
        let existing = self.connections.iter().find_map(open);
        let peer = self.peer(rank)?;
        if peer.gone.is_some() || peer.bye || self.suspected.contains_key(&rank) {
            return Ok(());
        }
        let peer = self.peer(rank)?;
        if peer.connection.is_none() {
            peer.connection = existing;
        }
        if peer.connection.is_none() && peer.retry.is_none() {
            self.dial_next_address(rank)?;
        }
        self.move_queue(rank);
        Ok(())
    }

    fn dial_next_address(&mut self, rank: u32) -> Result<(), BootError> {
        let my_rank = self.boot.rank();
        let job = self.boot.job();
        let own_namespace = self.me.network_namespace;
        loop {
            let id = self.next_connection;
            let peer = self.peer(rank)?;
            if peer.next_address == peer.addresses.len() {
                if peer.addresses.is_empty() {
                    let blind = own_namespace == 0 || peer.contact_info.network_namespace == 0;
                    return Err(BootError::Unreachable { rank, why: no_address(blind) });
                }
                if !peer.silent {
                    let how = format!("cannot be reached: {}", peer.refusals.join("; "));
                    self.suspected.insert(rank, how);
                    return Ok(());
                }
                peer.next_address = 0;
                peer.silent = false;
                peer.refusals.clear();
            }
            let address = peer.addresses[peer.next_address];
            peer.next_address += 1;
            let (stream, state) = match (socket::connect(address), address) {
                (Ok(stream), Address::Tcp(_)) => (stream, State::Connecting),
                (Ok(stream), Address::Local(_)) => (stream, State::Greeted),
                (Err(error), Address::Local(_)) if error.kind() == ErrorKind::WouldBlock => {
                    peer.next_address -= 1;
                    peer.retry = Some(Instant::now() + BUSY_PAUSE);
                    return Ok(());
                }
                (Err(error), _) if crate::ulimit::no_descriptor(&error) => {
                    peer.next_address -= 1;
                    return Err(no_descriptors(error));
                }
                (Err(error), _) => {
                    peer.refusals.push(format!("{address}: {error}"));
                    continue;
                }
            };
            let call_secret = peer.contact_info.call_secret;
            let greeting = Greeting { job, from: my_rank, to: rank, call_secret };
            peer.connection = Some(id);
            self.next_connection += 1;
            let mut connection = Connection::new(stream, state);
            connection.output.push_back(greeting.encode().to_vec());
            (connection.peer, connection.address) = (Some(rank), Some(address));
            // Failure shows at the next poll.
            let _ = connection.write();
            self.connections.insert(id, connection);
            return Ok(());
        }
    }

    /// Moves frames onto the connection once they cannot fall into wrong
    /// hands: the peer is authenticated, or it is a watched process of this
    /// machine and user.
    fn move_queue(&mut self, rank: u32) {
        let Some(peer) = self.peers.get_mut(&rank) else { return };
        let Some(connection) = peer.connection.and_then(|id| self.connections.get_mut(&id)) else {
            return;
        };
        if connection.state == State::Open || (connection.is_local() && peer.process.is_some()) {
            connection.output.append(&mut peer.queue);
            // Mostly the kernel takes it at once. Failure shows at the next poll.
            let _ = connection.write();
        }
    }

    /// Returns true if everything handed over for `rank` is in the kernel's
    /// hands.
    pub(super) fn flushed(&self, rank: u32) -> bool {
        self.peers.get(&rank).is_none_or(|peer| {
            let connection = peer.connection.and_then(|id| self.connections.get(&id));
            peer.queue.is_empty()
                && connection.is_none_or(|connection| connection.output.is_empty())
        })
    }

    /// The next frame from `rank` under `tag`.
    pub(super) fn take(&mut self, rank: u32, tag: u64) -> Option<Frame> {
        self.received.take(rank, tag)
    }

    /// Everything worth waiting for.
    pub(super) fn poll_set(&self) -> PollSet {
        let mut set = PollSet::default();
        for (at, listener) in self.acceptor.listeners().iter().enumerate() {
            set.push(Target::Listener(at), listener.fd(), libc::POLLIN);
        }
        for (id, connection) in &self.connections {
            let mut events = libc::POLLIN;
            if connection.state == State::Connecting || !connection.output.is_empty() {
                events |= libc::POLLOUT;
            }
            set.push(Target::Connection(*id), connection.stream.as_raw_fd(), events);
        }
        for (rank, peer) in &self.peers {
            if let Some(process) = &peer.process {
                set.push(Target::Process(*rank), process.as_raw_fd(), libc::POLLIN);
            }
        }
        set
    }

    /// Serves what [`PollSet::wait`] found ready; never blocks.
    pub(super) fn service(&mut self, set: &PollSet) -> Result<(), BootError> {
        for (target, fd) in set.targets.iter().zip(&set.fds) {
            match (*target, fd.revents) {
                (_, 0) => {}
                (Target::Listener(at), _) => self.accept(at)?,
                (Target::Connection(id), revents) => self.serve_connection(id, revents)?,
                (Target::Process(rank), _) => {
                    if let Some(peer) = self.peers.get_mut(&rank) {
                        peer.process = None;
                        self.suspected
                            .entry(rank)
                            .or_insert_with(|| process_ended(&peer.contact_info));
                    }
                }
            }
        }
        self.expire()?;
        self.drop_unanswered()?;
        self.retry()?;
        self.mark_failed()
    }

    /// Connects again to those whose backlog was full or that cut off the
    /// connection.
    fn retry(&mut self) -> Result<(), BootError> {
        let now = Instant::now();
        let due = |(rank, peer): (&u32, &mut Peer)| {
            peer.retry.take_if(|retry| *retry <= now).map(|_| *rank)
        };
        let due: Vec<u32> = self.peers.iter_mut().filter_map(due).collect();
        due.into_iter().try_for_each(|rank| self.dial(rank))
    }

    /// Gives up on callers that do not greet and addresses that do not answer.
    fn expire(&mut self) -> Result<(), BootError> {
        let late = |connection: &Connection| match connection.state {
            State::Accepted => connection.since.elapsed() > GREETING_TIMEOUT,
            // A near peer that is silent is stopped or busy; its pidfd tells
            // when it ends.
            State::Connecting | State::Greeted => {
                let near =
                    connection.peer.and_then(|rank| self.peers.get(&rank)).is_some_and(|p| p.near);
                !near
                    && connection.state == State::Connecting
                    && connection.since.elapsed() > ADDRESS_TIMEOUT
            }
            State::Open => false,
        };
        let expired: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| late(connection))
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            let Some(connection) = self.connections.remove(&id) else { continue };
            let Some(rank) = connection.peer else { continue };
            let peer = self.peer(rank)?;
            peer.silent = true;
            peer.connection = None;
            self.dial(rank)?;
        }
        Ok(())
    }

    /// Closes connections to machines that have stopped answering.
    fn drop_unanswered(&mut self) -> Result<(), BootError> {
        if Instant::now() < self.silence_due {
            return Ok(());
        }
        self.silence_due = Instant::now() + SILENCE_INTERVAL;
        // Those under way are given up otherwise.
        let made = self.connections.iter().filter(|(_, c)| c.state != State::Connecting);
        let unanswered = made.filter(|(_, c)| socket::is_unanswered(&c.stream));
        let unanswered: Vec<u64> = unanswered.map(|(id, _)| *id).collect();
        let why = || "its machine has acknowledged nothing for 5 s".to_owned();
        unanswered.into_iter().try_for_each(|id| self.drop_connection(id, why()))
    }

    fn unauthenticated(&self) -> impl Iterator<Item = u64> + '_ {
        let unauthenticated = |(id, connection): (&u64, &Connection)| {
            (connection.state == State::Accepted).then_some(*id)
        };
        self.connections.iter().filter_map(unauthenticated)
    }

    fn accept(&mut self, at: usize) -> Result<(), BootError> {
        for _ in 0..MAX_ARRIVALS {
            match self.acceptor.listeners()[at].accept() {
                Arrival::Caller(stream) => {
                    let oldest = self.unauthenticated().next();
                    if let Some(oldest) =
                        oldest.filter(|_| self.unauthenticated().count() >= MAX_UNAUTHENTICATED)
                    {
                        self.connections.remove(&oldest);
                    }
                    let id = self.next_connection;
                    self.next_connection += 1;
                    self.connections.insert(id, Connection::new(stream, State::Accepted));
                    self.serve_connection(id, libc::POLLIN)?;
                }
                Arrival::Stranger => {}
                Arrival::Nobody => return Ok(()),
                Arrival::Full => {
                    let callers: Vec<u64> = self.unauthenticated().collect();
                    if callers.is_empty() && !self.acceptor.reject(at)? {
                        return Ok(());
                    }
                    self.connections.retain(|id, _| !callers.contains(id));
                }
            }
        }
        Ok(())
    }

    fn serve_connection(&mut self, id: u64, revents: i16) -> Result<(), BootError> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.state == State::Connecting {
            if revents & (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) == 0 {
                return Ok(());
            }
            match connection.stream.take_error() {
                Ok(None) => connection.state = State::Greeted,
                Ok(Some(error)) | Err(error) => return self.drop_connection(id, error.to_string()),
            }
        }
        let writing = connection.write();
        let reading = connection.read();
        self.parse(id)?;
        // What was read before a failure counts; so parse came first.
        match (reading, writing) {
            (Ok(true), Ok(())) => Ok(()),
            (Ok(false), _) => {
                self.drop_connection(id, "closed the connection without a goodbye".into())
            }
            (Err(error), _) | (_, Err(error)) => self.drop_connection(id, error.to_string()),
        }
    }

    /// Takes whole messages off the input of a connection.
    fn parse(&mut self, id: u64) -> Result<(), BootError> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.state == State::Accepted {
            let Some(bytes) = connection.input.first_chunk::<{ protocol::GREETING }>() else {
                return Ok(());
            };
            let greeting = Greeting::decode(bytes).filter(|greeting| {
                protocol::same_secret(&greeting.call_secret, &self.me.call_secret)
                    && greeting.job == self.boot.job()
                    && greeting.to == self.boot.rank()
                    && greeting.from < self.boot.size()
            });
            let Some(greeting) = greeting else {
                self.connections.remove(&id);
                return Ok(());
            };
            connection.input.drain(..protocol::GREETING);
            connection.output.push_back(protocol::answer(&self.me.answer_secret).to_vec());
            connection.state = State::Open;
            connection.peer = Some(greeting.from);
            // Failure shows at the next poll.
            let _ = connection.write();
            if self.closing {
                return Ok(());
            }
            self.peer(greeting.from)?.met = true;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Some(rank) = connection.peer else { return Ok(()) };
        if connection.state == State::Greeted {
            let Some(bytes) = connection.input.first_chunk::<{ protocol::ANSWER }>() else {
                return Ok(());
            };
            let expected = protocol::answer(&self.peers[&rank].contact_info.answer_secret);
            if !protocol::same_secret(bytes, &expected) {
                let address = connection.address;
                self.connections.remove(&id);
                return self.refused(rank, id, address, "answered without the secret of the peer");
            }
            connection.input.drain(..protocol::ANSWER);
            connection.state = State::Open;
            if let Some(peer) = self.peers.get_mut(&rank) {
                (peer.met, peer.cut_off_since) = (true, None);
            }
            self.move_queue(rank);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.state != State::Open {
            return Ok(());
        }
        let mut parsed = 0;
        let mut notices = Vec::new();
        let fault = loop {
            let (frame, length) = match Frame::decode(&connection.input[parsed..]) {
                Ok(None) => break None,
                Ok(Some(decoded)) => decoded,
                Err(what) => break Some(what.to_string()),
            };
            parsed += length;
            let Some(peer) = self.peers.get_mut(&rank) else { break None };
            if frame.kind == Kind::Bye {
                peer.bye = true;
                self.suspected.entry(rank).or_default();
                continue;
            }
            if frame.sequence != peer.received {
                let (got, due) = (frame.sequence, peer.received);
                break Some(format!("message {got} came where {due} was due"));
            }
            peer.received = peer.received.wrapping_add(1);
            if frame.kind == Kind::Death {
                notices.extend(FailureNotice::decode(&frame.payload));
                continue;
            }
            self.received.push(rank, frame);
        };
        connection.input.drain(..parsed);
        if let Some(what) = fault {
            self.connections.remove(&id);
            return Err(BootError::Protocol { rank, what });
        }
        notices.into_iter().for_each(|notice| self.death_reported(notice));
        Ok(())
    }

    /// An address of `rank` leads nowhere, found by connection `id`: on to the next.
    fn refused(
        &mut self,
        rank: u32,
        id: u64,
        address: Option<Address>,
        why: &str,
    ) -> Result<(), BootError> {
        let peer = self.peer(rank)?;
        peer.connection.take_if(|connection| *connection == id);
        let address = address.map(|a| a.to_string()).unwrap_or_default();
        peer.refusals.push(format!("{address}: {why}"));
        self.dial(rank)
    }

    /// Closes a connection that failed, and draws the consequence.
    fn drop_connection(&mut self, id: u64, why: String) -> Result<(), BootError> {
        let Some(connection) = self.connections.remove(&id) else { return Ok(()) };
        let Some(rank) = connection.peer else { return Ok(()) };
        let peer = self.peer(rank)?;
        if peer.connection == Some(id) {
            peer.connection = None;
        }
        if peer.bye {
            return Ok(());
        }
        match connection.state {
            // The connection was cut off unread: the peer took this process for
            // a caller that does not greet, or had no space.
            State::Greeted if !connection.is_local() => {
                let cut_off_since = *peer.cut_off_since.get_or_insert_with(Instant::now);
                if cut_off_since.elapsed() < CUT_OFF_TIMEOUT {
                    peer.next_address = peer.next_address.saturating_sub(1);
                    peer.retry = Some(Instant::now() + CUT_OFF_PAUSE);
                    return Ok(());
                }
                let hint = "it cuts off every call; has it descriptors left (`ulimit -n`)?";
                self.refused(rank, id, connection.address, &format!("{why}; {hint}"))
            }
            State::Connecting => self.refused(rank, id, connection.address, &why),
            _ => {
                self.suspected.entry(rank).or_insert(why);
                Ok(())
            }
        }
    }
}

impl Drop for Mesh {
    /// Says goodbye on every authenticated connection, so that nobody takes this
    /// process for dead, unless it panics.
    fn drop(&mut self) {
        self.closing = true;
        for at in 0..self.acceptor.listeners().len() {
            let _ = self.accept(at);
        }
        for connection in
            self.connections.values_mut().filter(|connection| connection.state != State::Accepted)
        {
            if !std::thread::panicking() {
                connection.output.push_back(Frame::bye().encode());
            }
            let _ = connection.write();
            let _ = connection.stream.shutdown(std::net::Shutdown::Write);
            // Unread bytes would turn the close into a reset, which can
            // overtake the goodbye.
            let _ = connection.read();
        }
    }
}

/// Where the process of `contact_info` is to be called, `near` if it shares our
/// network namespace.
fn addresses(contact_info: &ContactInfo, near: bool) -> Vec<Address> {
    if near && contact_info.local != [0; 16] {
        return vec![Address::Local(contact_info.local)];
    }
    let loopback: &[IpAddr] = &[Ipv4Addr::LOCALHOST.into()];
    let ips =
        if near && contact_info.addresses.is_empty() { loopback } else { &contact_info.addresses };
    ips.iter().map(|&ip| Address::Tcp(SocketAddr::new(ip, contact_info.port))).collect()
}

/// Why a peer has none, of which one side may be `blind`.
fn no_address(blind: bool) -> &'static str {
    if blind {
        "no address of it, and no /proc, by which processes of a machine find each other: mount it \
         in all of them"
    } else {
        "it published no address: its network namespace is another, and has no interface but the \
         loopback; give it one"
    }
}
