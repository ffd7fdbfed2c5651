//! Connections of the control channel.
//!
//! Nothing is connected before it is needed. All sockets are non-blocking and
//! are served only inside [`Mesh::service`], between two polls. Whoever has
//! something to send dials; a connection serves both directions, and each
//! side sends on one connection only, so that frames keep their order. Two
//! ranks that dial each other at once keep both connections.

use super::read_poison;
use super::wire::{self, Frame, Greeting, Kind};
use crate::boot::ProcessId;
use crate::boot::card::{self, Card};
use crate::boot::liveness::{self, Watch};
use crate::boot::{Boot, BootError, os};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Key under which each rank publishes its card.
pub(super) const CARD_KEY: &str = "rankway-card";
/// How long one address may take to answer before the next is tried.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(3);
/// A caller that has not shown its greeting by then is a stranger.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// Unproved callers held at a time; more wait in the listener's backlog.
const MAX_STRANGERS: usize = 256;
/// Addresses published at most.
const MAX_ADDRESSES: usize = 8;

/// What a descriptor in the poll set stands for.
#[derive(Clone, Copy)]
enum Target {
    Listener,
    Link(u64),
    Process(u32),
}

/// The descriptors to wait for, taken under the lock and polled without it.
#[derive(Default)]
pub(super) struct PollSet {
    targets: Vec<Target>,
    fds: Vec<libc::pollfd>,
}

impl PollSet {
    fn push(&mut self, target: Target, fd: RawFd, events: i16) {
        self.targets.push(target);
        self.fds.push(libc::pollfd { fd, events, revents: 0 });
    }

    pub(super) fn wait(&mut self, limit: Duration) -> Result<(), BootError> {
        os::poll(&mut self.fds, limit)
            .map(drop)
            .map_err(|error| BootError::io("waiting on the control channel (poll)", error))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Dialed; the TCP handshake is under way.
    Connecting,
    /// Greeted; the peer has not answered with its sign.
    Greeted,
    /// Accepted; the caller has not greeted.
    Accepted,
    /// Both sides are proved.
    Open,
}

struct Link {
    stream: TcpStream,
    state: State,
    /// Known from the start when dialed, from the greeting when accepted.
    peer: Option<u32>,
    since: Instant,
    input: Vec<u8>,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first output already written.
    written: usize,
    /// Where it leads, for messages.
    address: Option<SocketAddr>,
}

struct Peer {
    card: Card,
    /// On the loopback this process can reach.
    near: bool,
    process: Option<OwnedFd>,
    /// The connection this side sends on.
    link: Option<u64>,
    /// Frames waiting for a proved connection.
    queue: VecDeque<Vec<u8>>,
    /// Addresses and how far dialing has come.
    addresses: Vec<SocketAddr>,
    next_address: usize,
    /// What became of the addresses tried in this round.
    refusals: Vec<String>,
    /// An address that was silent may answer in the next round.
    silent: bool,
    /// It said goodbye.
    bye: bool,
    /// Why nothing more can come from it, once all that came has been read.
    gone: Option<String>,
    sent: HashMap<u64, u32>,
    received: HashMap<u64, u32>,
}

pub(super) struct Mesh {
    boot: Arc<dyn Boot>,
    me: Card,
    listener: Option<TcpListener>,
    links: BTreeMap<u64, Link>,
    next_link: u64,
    peers: HashMap<u32, Peer>,
    inbox: HashMap<(u32, u64), VecDeque<Frame>>,
    /// Peers seen to be gone, and how, whose last words may be unread.
    doomed: BTreeMap<u32, String>,
}

impl Mesh {
    pub(super) fn open(boot: Arc<dyn Boot>) -> Result<Self, BootError> {
        let mut addresses = Vec::new();
        let listener = if boot.size() == 1 {
            None
        } else {
            let mut bind: IpAddr = Ipv4Addr::LOCALHOST.into();
            if !boot.one_machine()? {
                addresses = card::interface_addresses(MAX_ADDRESSES)?;
                let four = addresses.iter().any(IpAddr::is_ipv4);
                if four {
                    addresses.retain(IpAddr::is_ipv4);
                }
                bind = match four || addresses.is_empty() {
                    true => Ipv4Addr::UNSPECIFIED.into(),
                    false => Ipv6Addr::UNSPECIFIED.into(),
                };
            }
            Some(listen(bind).map_err(|error| {
                BootError::io(format!("opening the control channel on {bind}"), error)
            })?)
        };
        let port = match &listener {
            None => 0,
            Some(listener) => {
                let address = listener.local_addr();
                address.map_err(|error| BootError::io("reading the control port", error))?.port()
            }
        };
        let me = Card::new(port, addresses)?;
        boot.put(CARD_KEY, &me.encode())?;
        Ok(Mesh {
            boot,
            me,
            listener,
            links: BTreeMap::new(),
            next_link: 0,
            peers: HashMap::new(),
            inbox: HashMap::new(),
            doomed: BTreeMap::new(),
        })
    }

    pub(super) fn connections(&self) -> usize {
        self.links.len()
    }

    pub(super) fn card(&mut self, rank: u32) -> Result<&Card, BootError> {
        if rank == self.boot.rank() {
            return Ok(&self.me);
        }
        self.peer(rank).map(|peer| &peer.card)
    }

    /// Who `rank` is, without keeping a record of it.
    pub(super) fn process(&self, rank: u32) -> Result<ProcessId, BootError> {
        match self.peers.get(&rank) {
            Some(peer) => Ok(peer.card.process),
            None if rank == self.boot.rank() => Ok(self.me.process),
            None => Ok(self.fetch(rank)?.process),
        }
    }

    fn fetch(&self, rank: u32) -> Result<Card, BootError> {
        let bytes = self.boot.get(rank, CARD_KEY)?;
        Card::decode(&bytes).ok_or_else(|| BootError::Protocol {
            rank,
            what: "its card is unreadable; do all ranks run the same version?".into(),
        })
    }

    /// The record of `rank`, made on first use: fetches its card and, where
    /// that works, watches its process.
    fn peer(&mut self, rank: u32) -> Result<&mut Peer, BootError> {
        crate::boot::check_rank(rank, self.boot.size())?;
        if !self.peers.contains_key(&rank) {
            let card = self.fetch(rank)?;
            let process = match liveness::open(&self.me.process, &card.process) {
                Ok(fd) => Some(fd),
                Err(Watch::Dead) => {
                    self.doomed.insert(rank, process_ended(&card));
                    None
                }
                Err(_) => None,
            };
            let near = card.shares_loopback(&self.me);
            let mut addresses: Vec<IpAddr> = card.addresses.clone();
            if near {
                let six = !addresses.is_empty() && addresses.iter().all(IpAddr::is_ipv6);
                let local: IpAddr =
                    if six { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
                addresses = vec![local];
            }
            let addresses =
                addresses.into_iter().map(|ip| SocketAddr::new(ip, card.port)).collect();
            let peer = Peer {
                card,
                near,
                process,
                link: None,
                queue: VecDeque::new(),
                addresses,
                next_address: 0,
                refusals: Vec::new(),
                silent: false,
                bye: false,
                gone: None,
                sent: HashMap::new(),
                received: HashMap::new(),
            };
            self.peers.insert(rank, peer);
        }
        Ok(self.peers.get_mut(&rank).expect("inserted above when it was missing"))
    }

    /// Makes the record of `rank`, so that its end is noticed from now on.
    pub(super) fn attend(&mut self, rank: u32) -> Result<(), BootError> {
        self.peer(rank).map(drop)
    }

    /// Whether silence from `rank` could go unexplained: neither its process
    /// nor a connection would tell of its end.
    pub(super) fn unobserved(&self, rank: u32) -> bool {
        self.peers.get(&rank).is_none_or(|peer| peer.process.is_none())
            && !self.links.values().any(|link| link.peer == Some(rank))
    }

    /// Hands `frame` over for `rank`; numbers it.
    pub(super) fn send(&mut self, rank: u32, mut frame: Frame) -> Result<(), BootError> {
        let peer = self.peer(rank)?;
        let sequence = peer.sent.entry(frame.tag).or_default();
        frame.sequence = *sequence;
        *sequence = sequence.wrapping_add(1);
        peer.queue.push_back(frame.encode());
        self.dial(rank)
    }

    /// Sees to it that there is a connection to `rank`, or one under way, and
    /// moves waiting frames onto it when it is good for them.
    pub(super) fn dial(&mut self, rank: u32) -> Result<(), BootError> {
        let open = |(id, link): (&u64, &Link)| {
            (link.peer == Some(rank) && link.state == State::Open).then_some(*id)
        };
        let existing = self.links.iter().find_map(open);
        let peer = self.peer(rank)?;
        if peer.gone.is_some() || peer.bye || self.doomed.contains_key(&rank) {
            return Ok(());
        }
        let peer = self.peer(rank)?;
        if peer.link.is_none() {
            peer.link = existing;
        }
        if peer.link.is_none() {
            self.dial_next_address(rank)?;
        }
        self.move_queue(rank);
        Ok(())
    }

    fn dial_next_address(&mut self, rank: u32) -> Result<(), BootError> {
        let my_rank = self.boot.rank();
        let job = self.boot.job();
        loop {
            let id = self.next_link;
            let peer = self.peer(rank)?;
            if peer.next_address == peer.addresses.len() {
                if peer.silent {
                    peer.next_address = 0;
                    peer.silent = false;
                    peer.refusals.clear();
                } else {
                    let how = match peer.refusals.is_empty() {
                        true => "it published no address to reach it at".into(),
                        false => format!("cannot be reached: {}", peer.refusals.join("; ")),
                    };
                    self.doomed.insert(rank, how);
                    return Ok(());
                }
            }
            let address = peer.addresses[peer.next_address];
            peer.next_address += 1;
            match connect(address) {
                Ok(stream) => {
                    let door = peer.card.door;
                    let greeting = Greeting { job, from: my_rank, to: rank, door };
                    peer.link = Some(id);
                    self.next_link += 1;
                    let link = Link {
                        output: VecDeque::from([greeting.encode().to_vec()]),
                        peer: Some(rank),
                        address: Some(address),
                        ..Link::new(stream, State::Connecting)
                    };
                    self.links.insert(id, link);
                    return Ok(());
                }
                Err(error) if out_of_descriptors(&error) => return Err(descriptors(error)),
                Err(error) => peer.refusals.push(format!("{address}: {error}")),
            }
        }
    }

    /// Moves frames onto the connection once they cannot fall into wrong
    /// hands: the peer has proved itself, or it is a watched process of this
    /// machine, whose port nobody else can have while it lives.
    fn move_queue(&mut self, rank: u32) {
        let Some(peer) = self.peers.get_mut(&rank) else { return };
        let Some(link) = peer.link.and_then(|id| self.links.get_mut(&id)) else { return };
        if link.state == State::Open || (peer.near && peer.process.is_some()) {
            link.output.append(&mut peer.queue);
            // Mostly the kernel takes it at once. Failure shows at the next poll.
            let _ = link.write();
        }
    }

    /// Whether everything handed over for `rank` is in the kernel's hands.
    pub(super) fn flushed(&self, rank: u32) -> bool {
        self.peers.get(&rank).is_none_or(|peer| {
            let link = peer.link.and_then(|id| self.links.get(&id));
            peer.queue.is_empty() && link.is_none_or(|link| link.output.is_empty())
        })
    }

    /// Why nothing more can come from `rank`, if so.
    pub(super) fn lost(&self, rank: u32) -> Option<BootError> {
        let how = self.peers.get(&rank)?.gone.clone()?;
        Some(self.last_words(rank).unwrap_or(BootError::PeerDied { rank, how }))
    }

    /// The death that made `rank` give up, if it said so before it left, in
    /// whatever collective that was: it had died of it, not by itself.
    fn last_words(&self, rank: u32) -> Option<BootError> {
        let theirs = self.inbox.iter().filter(|((from, _), _)| *from == rank);
        let poison = theirs.flat_map(|(_, queue)| queue).filter(|f| f.kind == Kind::Poison);
        poison.map(|frame| read_poison(rank, &frame.payload)).find(|e| e.peer() != Some(rank))
    }

    /// The next frame from `rank` under `tag`.
    pub(super) fn take(&mut self, rank: u32, tag: u64) -> Result<Option<Frame>, BootError> {
        let Some(queue) = self.inbox.get_mut(&(rank, tag)) else { return Ok(None) };
        let Some(frame) = queue.pop_front() else { return Ok(None) };
        if queue.is_empty() {
            self.inbox.remove(&(rank, tag));
        }
        let due = self.peer(rank)?.received.entry(tag).or_default();
        let expected = *due;
        *due = due.wrapping_add(1);
        if frame.sequence != expected {
            let got = frame.sequence;
            return Err(BootError::Protocol {
                rank,
                what: format!("message {got} under tag {tag:#x} came where {expected} was due"),
            });
        }
        Ok(Some(frame))
    }

    /// Everything worth waiting for.
    pub(super) fn poll_set(&self) -> PollSet {
        let mut set = PollSet::default();
        if let Some(listener) = self.listener.as_ref().filter(|_| self.strangers() < MAX_STRANGERS)
        {
            set.push(Target::Listener, listener.as_raw_fd(), libc::POLLIN);
        }
        for (id, link) in &self.links {
            let mut events = libc::POLLIN;
            if link.state == State::Connecting || !link.output.is_empty() {
                events |= libc::POLLOUT;
            }
            set.push(Target::Link(*id), link.stream.as_raw_fd(), events);
        }
        for (rank, peer) in &self.peers {
            if let Some(process) = peer.process.as_ref().filter(|_| peer.gone.is_none()) {
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
                (Target::Listener, _) => self.accept()?,
                (Target::Link(id), revents) => self.serve_link(id, revents)?,
                (Target::Process(rank), _) => {
                    if let Some(peer) = self.peers.get_mut(&rank) {
                        peer.process = None;
                        self.doomed.entry(rank).or_insert_with(|| process_ended(&peer.card));
                    }
                }
            }
        }
        self.expire()?;
        self.bury()
    }

    /// Declares the doomed gone, after hearing their last words: connections,
    /// frames and goodbyes may still be in the sockets, since what told of
    /// the end may have overtaken them.
    fn bury(&mut self) -> Result<(), BootError> {
        if self.doomed.is_empty() {
            return Ok(());
        }
        let doomed = std::mem::take(&mut self.doomed);
        self.accept()?;
        let ids: Vec<u64> = self.links.keys().copied().collect();
        for id in ids {
            self.serve_link(id, libc::POLLIN)?;
        }
        for (rank, how) in doomed {
            self.doomed.remove(&rank);
            let peer = self.peer(rank)?;
            let left = || "left in good order: it closed its control channel".to_string();
            // The first reason is the cause, later ones follow from it.
            peer.gone.get_or_insert_with(|| if peer.bye { left() } else { how });
        }
        Ok(())
    }

    /// Gives up on strangers who do not greet and addresses that do not answer.
    fn expire(&mut self) -> Result<(), BootError> {
        let late = |link: &Link| match link.state {
            State::Accepted => link.since.elapsed() > GREETING_PATIENCE,
            // A near peer that is silent is stopped or busy; its pidfd tells
            // when it ends.
            State::Connecting | State::Greeted => {
                let near = link.peer.and_then(|rank| self.peers.get(&rank)).is_some_and(|p| p.near);
                !near && link.state == State::Connecting && link.since.elapsed() > ADDRESS_PATIENCE
            }
            State::Open => false,
        };
        let expired: Vec<u64> =
            self.links.iter().filter(|(_, link)| late(link)).map(|(id, _)| *id).collect();
        for id in expired {
            let Some(link) = self.links.remove(&id) else { continue };
            let Some(rank) = link.peer else { continue };
            let peer = self.peer(rank)?;
            peer.silent = true;
            peer.link = None;
            self.dial(rank)?;
        }
        Ok(())
    }

    fn strangers(&self) -> usize {
        self.links.values().filter(|link| link.state == State::Accepted).count()
    }

    fn accept(&mut self) -> Result<(), BootError> {
        while self.strangers() < MAX_STRANGERS {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                Ok((stream, _)) => {
                    if prepare(&stream).is_ok() {
                        let id = self.next_link;
                        self.next_link += 1;
                        self.links.insert(id, Link::new(stream, State::Accepted));
                        self.serve_link(id, libc::POLLIN)?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if out_of_descriptors(&error) => return Err(descriptors(error)),
                // A caller that gave up before it was accepted.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn serve_link(&mut self, id: u64, revents: i16) -> Result<(), BootError> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.state == State::Connecting {
            if revents & (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) == 0 {
                return Ok(());
            }
            match link.stream.take_error() {
                Ok(None) => link.state = State::Greeted,
                Ok(Some(error)) | Err(error) => return self.drop_link(id, error.to_string()),
            }
        }
        let writing = link.write();
        let reading = link.read();
        self.parse(id)?;
        // What was read before a failure counts; so parse came first.
        match (reading, writing) {
            (Ok(true), Ok(())) => Ok(()),
            (Ok(false), _) => self.drop_link(id, "closed the connection without a goodbye".into()),
            (Err(error), _) | (_, Err(error)) => self.drop_link(id, error.to_string()),
        }
    }

    /// Takes whole messages off the input of a connection.
    fn parse(&mut self, id: u64) -> Result<(), BootError> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.state == State::Accepted {
            let Some(bytes) = link.input.first_chunk::<{ wire::GREETING }>() else { return Ok(()) };
            let greeting = Greeting::decode(bytes).filter(|greeting| {
                wire::same_secret(&greeting.door, &self.me.door)
                    && greeting.job == self.boot.job()
                    && greeting.to == self.boot.rank()
                    && greeting.from < self.boot.size()
            });
            let Some(greeting) = greeting else {
                self.links.remove(&id);
                return Ok(());
            };
            link.input.drain(..wire::GREETING);
            link.output.push_back(wire::answer(&self.me.sign).to_vec());
            link.state = State::Open;
            link.peer = Some(greeting.from);
            // Failure shows at the next poll.
            let _ = link.write();
            self.peer(greeting.from)?;
        }
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let Some(rank) = link.peer else { return Ok(()) };
        if link.state == State::Greeted {
            let Some(bytes) = link.input.first_chunk::<{ wire::ANSWER }>() else { return Ok(()) };
            let expected = wire::answer(&self.peers[&rank].card.sign);
            if !wire::same_secret(bytes, &expected) {
                return self.drop_link(id, "answered by a stranger".into());
            }
            link.input.drain(..wire::ANSWER);
            link.state = State::Open;
            self.move_queue(rank);
        }
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.state != State::Open {
            return Ok(());
        }
        let mut parsed = 0;
        loop {
            match Frame::decode(&link.input[parsed..]) {
                Ok(None) => break,
                Ok(Some((frame, length))) => {
                    parsed += length;
                    if frame.kind == Kind::Bye {
                        if let Some(peer) = self.peers.get_mut(&rank) {
                            peer.bye = true;
                        }
                        self.doomed.entry(rank).or_default();
                    } else {
                        self.inbox.entry((rank, frame.tag)).or_default().push_back(frame);
                    }
                }
                Err(what) => {
                    self.links.remove(&id);
                    return Err(BootError::Protocol { rank, what: what.into() });
                }
            }
        }
        link.input.drain(..parsed);
        Ok(())
    }

    /// Closes a connection that failed, and draws the consequence.
    fn drop_link(&mut self, id: u64, why: String) -> Result<(), BootError> {
        let Some(link) = self.links.remove(&id) else { return Ok(()) };
        let Some(rank) = link.peer else { return Ok(()) };
        let peer = self.peer(rank)?;
        if peer.link == Some(id) {
            peer.link = None;
        }
        if peer.bye {
            return Ok(());
        }
        match link.state {
            State::Connecting | State::Greeted if !peer.near => {
                let address = link.address.map(|a| a.to_string()).unwrap_or_default();
                peer.refusals.push(format!("{address}: {why}"));
                self.dial(rank)
            }
            _ => {
                self.doomed.entry(rank).or_insert(why);
                Ok(())
            }
        }
    }
}

impl Drop for Mesh {
    /// Says goodbye on every proved connection, so that nobody takes this
    /// process for dead.
    fn drop(&mut self) {
        for link in self.links.values_mut().filter(|link| link.state != State::Accepted) {
            link.output.push_back(Frame::bye().encode());
            let _ = link.write();
            let _ = link.stream.shutdown(std::net::Shutdown::Write);
            // Unread bytes would turn the close into a reset, which can
            // overtake the goodbye.
            let _ = link.read();
        }
    }
}

impl Link {
    fn new(stream: TcpStream, state: State) -> Self {
        Link {
            stream,
            state,
            peer: None,
            since: Instant::now(),
            input: Vec::new(),
            output: VecDeque::new(),
            written: 0,
            address: None,
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        if self.state == State::Connecting {
            return Ok(());
        }
        while let Some(first) = self.output.front() {
            match self.stream.write(&first[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.written == first.len() {
                self.output.pop_front();
                self.written = 0;
            }
        }
        Ok(())
    }

    /// Reads what is there. `Ok(false)` at the end of the stream.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0u8; 8 << 10];
        loop {
            // A caller without a proved greeting may not fill our memory.
            let limit = match self.state {
                State::Accepted => wire::GREETING.saturating_sub(self.input.len()),
                _ => buffer.len(),
            };
            if limit == 0 {
                return Ok(true);
            }
            match self.stream.read(&mut buffer[..limit]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn process_ended(card: &Card) -> String {
    format!("its process {} has ended", card.process.pid)
}

fn out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn descriptors(error: std::io::Error) -> BootError {
    BootError::io("opening a control connection (raise `ulimit -n`)", error)
}

fn listen(ip: IpAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::new(ip, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts a connection without waiting for it.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes integers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel just handed this descriptor to us alone.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    prepare(&stream)?;
    let result = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: all-zero is a valid sockaddr_in.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            let length = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: pointer and length describe the live local `raw`.
            unsafe { libc::connect(fd, (&raw const raw).cast(), length) }
        }
        SocketAddr::V6(v6) => {
            // SAFETY: all-zero is a valid sockaddr_in6.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            let length = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: pointer and length describe the live local `raw`.
            unsafe { libc::connect(fd, (&raw const raw).cast(), length) }
        }
    };
    let error = std::io::Error::last_os_error();
    match (result, error.raw_os_error()) {
        // Interrupted connects go on in the background, like EINPROGRESS.
        (0, _) | (_, Some(libc::EINPROGRESS | libc::EINTR)) => Ok(stream),
        _ => Err(error),
    }
}

/// Non-blocking, no batching delay, and probes that find a machine that is
/// gone within about five seconds. Probes are answered by the kernel, so a
/// stopped process passes them.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
    ];
    for (level, name, value) in options {
        let value: libc::c_int = value;
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: pointer and length describe the live local `value`. A
        // refusal only costs the earlier notice.
        unsafe {
            libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), length)
        };
    }
    Ok(())
}
