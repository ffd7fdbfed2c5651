//! A process of the node, as an endpoint here reaches it.

use super::address::Address;
use super::bulk::Posted;
use super::elements::{self, Carried, ELEMENTS};
use super::offer::{self, OFFER, Offer};
use super::table::{self, Table};
use super::{Error, LATE, PATIENCE};
use crate::netmod::compute::Work;
use crate::netmod::{AGAIN, Atomic, HEAD, Iov, Kind, PENDING};
use crate::process;
use crate::shm::attach::{self, Copies, Direction};
use crate::shm::bell::Bell;
use crate::shm::element_lock::{ElementLock, Holder};
use crate::shm::ring::{self, Asked, SharedReader, Writer};
use crate::shm::segment::{self, PAGE, Place, Segment};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// "rw node2", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"rw node2");

/// What stands before an endpoint's rings. Peers can write to it.
#[repr(C)]
pub(super) struct Head {
    magic: u64,
    /// Which file it is: the same bits as in its [`Place`].
    nonce: u64,
    /// Places that somebody sends from, or will at once, or has.
    claimed: AtomicU32,
    /// How often one was announced; wraps.
    announced: AtomicU32,
    /// Not 0 where nobody reads them any more.
    left: AtomicU32,
    /// Goes on where the owner polls, and where it has carried out what it found; wraps.
    polls: Line,
    /// Rung behind packets and bulk messages.
    bell: Bell,
    posted: Posted,
}

#[repr(C, align(64))]
struct Line(AtomicU32);

/// Bytes of the head, in pages.
const HEAD_BYTES: usize = size_of::<Head>().next_multiple_of(PAGE);

/// What rings of an endpoint lie in: a page that says whose they are, then, for each
/// sender, one of puts and one of packets.
pub(super) struct Rings(Segment);

/// Rings of a sender.
const EACH: usize = 2;

impl Rings {
    pub(super) fn bytes(places: u32) -> usize {
        HEAD_BYTES + places as usize * EACH * ring::BYTES
    }

    /// # Safety
    /// The segment has the [`bytes`](Rings::bytes) of `places`, zeroed, and nobody else
    /// knows of it.
    pub(super) unsafe fn new(segment: Segment, nonce: u64) -> Rings {
        let head = segment.start().cast::<Head>();
        // SAFETY: the first words of a mapping of ours.
        unsafe {
            (*head).magic = MAGIC;
            (*head).nonce = nonce;
        }
        Rings(segment)
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.start()
    }

    fn head(&self) -> *const Head {
        self.0.start().cast()
    }

    pub(super) fn claimed(&self) -> &AtomicU32 {
        // SAFETY: mapped; only atomically changed.
        unsafe { &(*self.head()).claimed }
    }

    /// See [`places`](super::places).
    pub(super) fn announced(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.head()).announced }
    }

    /// Times that the owner has polled.
    pub(super) fn polls(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.head()).polls.0 }
    }

    /// Returns true if nobody reads them any more.
    pub(super) fn has_left(&self) -> bool {
        self.left().load(Ordering::Relaxed) != 0
    }

    fn left(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &(*self.head()).left }
    }

    /// Their endpoint goes.
    pub(super) fn leave(&self) {
        self.left().store(1, Ordering::Relaxed);
    }

    pub(super) fn bell(&self) -> &Bell {
        // SAFETY: as above.
        unsafe { &(*self.head()).bell }
    }

    /// Receives of bulk messages.
    pub(super) fn posted(&self) -> &Posted {
        // SAFETY: as above.
        unsafe { &(*self.head()).posted }
    }

    /// The ring of puts of a place; that of packets is behind it.
    pub(super) fn puts(&self, place: u32) -> *mut u8 {
        self.0.start().wrapping_add(Rings::bytes(place))
    }

    pub(super) fn packets(&self, place: u32) -> *mut u8 {
        self.puts(place).wrapping_add(ring::BYTES)
    }
}

/// What a packet is, in its first word: a put and a get, whose words are a key and an
/// offset, as those of [`ELEMENTS`] are; in the other ring a packet of the layers above.
pub(super) const PUT: u64 = 1;
pub(super) const GET: u64 = 2;
pub(super) const PACKET: u64 = 3;

/// Returns true if a packet of puts asks for something, which its body will be.
#[inline]
pub(super) fn asks(first: u64) -> bool {
    match first & 0xff {
        GET => true,
        ELEMENTS => elements::fetches(first),
        _ => false,
    }
}

/// An operation that is not known to be done: all that was sent before `end`.
pub(super) struct Awaited {
    /// Counts that do not wrap; the ring's own are their lower halves.
    begin: u64,
    end: u64,
    token: u64,
    /// Of what asks: where the answer will be in the ring, where it goes, how many bytes.
    result: Option<(Asked, *mut u8, usize)>,
}

/// Another process's endpoint, or this one's own.
pub(super) struct Peer {
    /// This process, as it takes locks of the peer's.
    me: Holder,
    pid: u32,
    /// Where its rings are.
    place: Place,
    /// It is this process, which does not poll as long as it waits for itself.
    own: bool,
    pidfd: OwnedFd,
    /// When it was last seen alive.
    seen: Cell<Instant>,
    pub(super) table: Table,
    /// Held while elements of its memory are changed.
    element_lock: ElementLock,
    pub(super) puts: Writer,
    packets: Writer,
    /// The receiving end of `puts`: what the peer has no time for is carried out here.
    pub(super) carrier: SharedReader,
    /// What is being carried out, whose lists are kept.
    carried: RefCell<Carried>,
    /// Operations that the peer refused and that were told of.
    refused: Cell<u32>,
    /// In the order of their ends.
    awaited: RefCell<VecDeque<Awaited>>,
    /// Of what was sent before this count all is known to be done, or has a token.
    pub(super) known: Cell<u64>,
    /// Its count of polls when last looked at, when that was, and when it was another.
    polls: Cell<u32>,
    looked: Cell<Instant>,
    polled: Cell<Instant>,
    /// Questions whether it polls.
    calls: Cell<u32>,
    absent: Cell<bool>,
    /// Behind what points into it.
    rings: Rings,
}

impl Peer {
    /// Maps a peer's table and rings, and makes sure that the process is the one that
    /// is meant, and lets this one, `me`, copy to and from its memory.
    pub(super) fn open(address: &Address, me: Holder) -> io::Result<Peer> {
        let Address { table, rings, places, start } = *address;
        let pid = rings.pid;
        let map = |place: Place, len: usize| {
            let file = place.open()?;
            match place.pid == pid && segment::is_final(&file, len) {
                true => Segment::map(&file, len),
                false => Err(io::Error::other("its memory files are not what they should be")),
            }
        };
        // Before its number can be another's.
        let pidfd = process::pidfd_open(pid)?;
        // SAFETY: a table's length for good, zeroed as a memory file is.
        let table = unsafe { Table::new(map(table, table::BYTES)?) };
        let rings = Rings(map(rings, Rings::bytes(places))?);
        let mut theirs = [0_u64; 2];
        // SAFETY: two words, local.
        unsafe {
            let here = theirs.as_mut_ptr().cast();
            attach::copy(Direction::Out, pid, start, here, size_of_val(&theirs))
        }
        .map_err(|why| {
            let text = format!("this process may not attach to process {pid} ({why})");
            io::Error::new(why.kind(), text)
        })?;
        if theirs != [MAGIC, address.rings.nonce] {
            return Err(io::Error::other("another process goes by that number"));
        }
        // The first touch of its page is a fault, which the first operation is not to wait for.
        let element_lock = table.element_lock(me);
        element_lock.touch();
        rings.bell().join();
        let place = rings.claim_or_wait(places, pid).ok_or_else(|| {
            io::Error::other(format!("all {places} places of its rings are taken"))
        })?;
        let sender = std::process::id();
        // SAFETY: rings of the map, which lives as long; the place is this endpoint's
        // alone, so nobody else sends there. (A ring's sender is never 0, nor a role.)
        let ends = unsafe {
            let packets = Writer::new(rings.packets(place), sender);
            let puts = Writer::new(rings.puts(place), sender);
            puts.zip(packets).zip(SharedReader::new(rings.puts(place), sender))
        };
        let ((puts, packets), carrier) = ends.ok_or_else(|| io::Error::other("no ring"))?;
        rings.announce();
        Ok(Peer {
            me,
            pid,
            place: address.rings,
            own: pid == sender,
            pidfd,
            seen: Cell::new(Instant::now()),
            table,
            element_lock,
            puts,
            packets,
            carrier,
            carried: RefCell::new(Carried::new(pid)),
            refused: Cell::new(0),
            awaited: RefCell::default(),
            known: Cell::new(0),
            polls: Cell::new(0),
            looked: Cell::new(Instant::now()),
            polled: Cell::new(Instant::now()),
            calls: Cell::new(0),
            absent: Cell::new(pid == sender),
            rings,
        })
    }

    /// Returns true if it sends to these rings.
    pub(super) fn is_at(&self, address: &Address) -> bool {
        self.place == address.rings
    }

    /// Returns true if nobody will read its rings any more.
    pub(super) fn is_gone(&self) -> bool {
        self.rings.has_left() || self.carrier.is_shut() || process::has_exited(&self.pidfd)
    }

    /// Nobody asks for what is under way any more, nor how it ends.
    pub(super) fn forget_operations(&self) {
        self.awaited.borrow_mut().clear();
        self.puts.hold(None);
        self.refused.set(self.carrier.refused());
    }

    /// A put of at most [`ring::LONGEST`] bytes, carried out by the peer, or here at a
    /// flush.
    ///
    /// # Safety
    /// \[BUF\].
    #[inline]
    pub(super) unsafe fn put(&self, key: u64, offset: u64, buf: *const u8, len: usize) -> isize {
        // SAFETY: [BUF].
        if unsafe { self.puts.put(PUT, [key, offset, 0], buf, len) } {
            return 0;
        }
        self.make_space()
    }

    /// A get of at most [`ring::LONGEST`] bytes: 0, [`AGAIN`] or an error. The token
    /// comes from [`Peer::advance`].
    pub(super) fn get(&self, key: u64, offset: u64, into: (*mut u8, usize), token: u64) -> isize {
        let begin = self.puts.sent_ever();
        // SAFETY: nothing is written; [LIMIT]: no longer than a packet.
        let asked = unsafe { self.puts.ask(GET, [key, offset, 0], into.1, |_| ()) };
        let Some(asked) = asked else { return self.make_space() };
        self.awaits(begin, token, Some((asked, into.0, into.1)));
        0
    }

    /// An operation on elements: 0 for an update, [`PENDING`] where the token will come from
    /// [`Peer::advance`], [`AGAIN`] or an error.
    ///
    /// # Safety
    /// \[BUF\]; the operation is within [`elements::limit`].
    pub(super) unsafe fn operate(&self, op: &Atomic) -> isize {
        let begin = self.puts.sent_ever();
        let (first, len) = elements::encode(op);
        if len > ring::LONGEST {
            // SAFETY: the caller's.
            return unsafe { self.offer(op) };
        }
        // SAFETY: [BUF]; a place for the body.
        let fill = |to: *mut u8| unsafe { elements::fill(op, to) };
        // SAFETY: [LIMIT]: no longer than a packet.
        let asked = unsafe { self.puts.ask(first, [op.key, op.addr, 0], len, fill) };
        let Some(asked) = asked else { return self.make_space() };
        if op.kind == Kind::Update {
            return 0;
        }
        self.awaits(begin, op.token, Some((asked, op.result, op.count * op.ty.size())));
        PENDING
    }

    /// An update too long for a packet: done on return. 0, [`AGAIN`] or an error.
    ///
    /// # Safety
    /// As [`Peer::operate`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn offer(&self, op: &Atomic) -> isize {
        let bytes = op.count * op.ty.size();
        let mut done = 0;
        if !(self.puts.is_drained() && self.is_absent()) {
            let mut body = std::ptr::null_mut::<Offer>();
            let fill = |to: *mut u8| {
                body = to.cast();
                // SAFETY: a place for it, at a multiple of 8.
                unsafe { body.write(Offer::new(bytes, self.me)) };
            };
            let first = elements::encode(op).0 & !0xff | OFFER;
            let words = [op.key, op.addr, op.operand.addr() as u64];
            // SAFETY: [LIMIT]: shorter than a packet.
            if !unsafe { self.puts.put_with(first, words, size_of::<Offer>(), fill) } {
                return self.make_space();
            }
            if let Err(error) = self.wait_until_taken() {
                return error.code();
            }
            // SAFETY: in the ring, in slots that are not used again before the next packet.
            done = unsafe { &*body }.done();
        }
        // SAFETY: [BUF].
        let rest = unsafe { self.carry_out_rest(op, done) };
        rest.map_or_else(Error::code, |()| 0)
    }

    /// Carries out what a target has not done of an update: the bytes from `done` on.
    ///
    /// # Safety
    /// As [`Peer::offer`].
    unsafe fn carry_out_rest(&self, op: &Atomic, done: usize) -> Result<(), Error> {
        let Atomic { kind, ty, op: code, operand, compare, result, count, .. } = *op;
        let at = std::ptr::null_mut();
        let work = Work { kind, ty, op: code, at, operand, compare, result, count };
        let from = done / ty.size();
        if from == count {
            return Ok(());
        }
        self.check_alive()?;
        let there = self.table.find(op.key, op.addr, count * ty.size());
        let there = there.ok_or(Error(libc::ENOKEY))? + done as u64;
        let mut carried = self.carried.borrow_mut();
        let rest = work.piece(from, count - from);
        // SAFETY: [BUF], [LIMIT].
        unsafe { offer::carry_out(&rest, (self.pid, there), &self.element_lock, carried.memory()) }
    }

    /// Waits until all that was sent was taken, by the peer or here.
    fn wait_until_taken(&self) -> Result<(), Error> {
        while !self.puts.is_drained() {
            if self.carrier.is_shut() {
                return Err(Error(libc::EPROTO));
            }
            if self.is_absent() && !self.carry_out()? {
                // It is about to, or was killed amidst it.
                self.check_alive()?;
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Held while elements of the peer's memory are changed.
    pub(super) fn element_lock(&self) -> &ElementLock {
        &self.element_lock
    }

    /// The token comes back from [`Peer::advance`] when all that was put is in the peer's
    /// memory.
    pub(super) fn flush(&self, token: u64) {
        self.awaits(self.puts.sent_ever(), token, None);
    }

    /// What was sent after the count `begin` has a token.
    fn awaits(&self, begin: u64, token: u64, result: Option<(Asked, *mut u8, usize)>) {
        let end = self.puts.sent_ever();
        if self.known.get() == begin {
            self.known.set(end);
        }
        let mut awaited = self.awaited.borrow_mut();
        if awaited.is_empty() {
            self.puts.hold(Some(begin as u32));
        }
        awaited.push_back(Awaited { begin, end, token, result });
    }

    pub(super) fn is_idle(&self) -> bool {
        self.awaited.borrow().is_empty()
    }

    /// Hands out tokens of operations that are done. What the peer does not come to is
    /// carried out here.
    pub(super) fn advance(&self, done: &mut impl FnMut(u64, Result<(), Error>)) {
        loop {
            self.take_done(done);
            let is_shut = self.carrier.is_shut();
            if self.is_idle() || !(is_shut || self.is_absent()) {
                return;
            }
            let carried = match is_shut {
                true => Err(Error(libc::EPROTO)),
                false => self.carry_out(),
            };
            let carried = match carried {
                Ok(false) if self.polled.get().elapsed() > LATE => {
                    self.check_alive().map(|()| false)
                }
                other => other,
            };
            match carried {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let awaited = std::mem::take(&mut *self.awaited.borrow_mut());
                    self.puts.hold(None);
                    // (Of a dead peer's the device knows by itself, and tells it once.)
                    if error != Error(libc::ESRCH) {
                        awaited.iter().for_each(|a| done(a.token, Err(error)));
                    }
                    return;
                }
            }
        }
    }

    /// How an operation ended, if it has.
    fn result(&self, of: &Awaited) -> Option<Result<(), Error>> {
        let refused = match of.result {
            Some((asked, to, len)) => {
                // SAFETY: held since it was asked for.
                let answered = unsafe { self.puts.answered(asked, of.end as u32) }?;
                if answered {
                    // SAFETY: [BUF]; held.
                    unsafe { to.copy_from_nonoverlapping(asked.body(), len) };
                }
                !answered
            }
            None if !self.puts.has_taken(of.end as u32) => return None,
            None => {
                self.known.set(of.end);
                let count = self.carrier.refused();
                self.refused.replace(count) != count
            }
        };
        Some(if refused { Err(Error(libc::ENOKEY)) } else { Ok(()) })
    }

    /// Hands out tokens of what was taken.
    fn take_done(&self, done: &mut impl FnMut(u64, Result<(), Error>)) {
        let mut awaited = self.awaited.borrow_mut();
        while let Some(first) = awaited.front() {
            let Some(result) = self.result(first) else { break };
            done(first.token, result);
            awaited.pop_front();
        }
        self.puts.hold(awaited.front().map(|first| first.begin as u32));
    }

    /// The ring is full: waits a moment for the peer to take some, else empties it.
    #[cold]
    fn make_space(&self) -> isize {
        if !self.is_idle() {
            // What was taken is kept for its answers: the next poll looks at those.
            return AGAIN;
        }
        let taken = self.puts.returned();
        while self.puts.returned() == taken {
            if self.carrier.is_shut() {
                return Error(libc::EPROTO).code();
            }
            if self.is_absent() {
                return self.carry_out().map_or_else(|error| error.code(), |_| AGAIN);
            }
            std::hint::spin_loop();
        }
        AGAIN
    }

    /// A packet; false where there is no space.
    ///
    /// # Safety
    /// \[BUF\].
    pub(super) unsafe fn packet(&self, head: &[u8; HEAD], body: *const u8, len: usize) -> bool {
        let fill = |to: *mut u8| {
            // SAFETY: [BUF]; the ring has place for both.
            unsafe {
                to.copy_from_nonoverlapping(head.as_ptr(), HEAD);
                to.add(HEAD).copy_from_nonoverlapping(body, len);
            }
        };
        // SAFETY: [LIMIT]: head and body are no longer than the ring's longest.
        let sent = unsafe { self.packets.put_with(PACKET, [0, 0, 1], HEAD + len, fill) };
        self.rings.bell().ring(self.pid);
        sent
    }

    /// Copies a bulk message to where the peer waits for it.
    ///
    /// # Safety
    /// \[BUF\].
    pub(super) unsafe fn fill(&self, tag: u64, buf: *const u8, len: usize) -> Result<(), Error> {
        self.check_alive()?;
        self.rings.posted().fill(tag, len, |there| {
            // SAFETY: [BUF], only read.
            unsafe { attach::copy(Direction::Into, self.pid, there, buf.cast_mut(), len) }
                .map_err(|why| Error::of(&why))
        })?;
        self.rings.bell().ring(self.pid);
        Ok(())
    }

    /// Carries out what the peer has not taken of the puts, if it is not about to: false
    /// where it is.
    pub(super) fn carry_out(&self) -> Result<bool, Error> {
        let Ok(mut role) = self.carrier.take() else { return Ok(false) };
        self.check_alive()?;
        let (mut carried, lock) = (self.carried.borrow_mut(), &self.element_lock);
        let (mut refused, mut answers) = (false, Vec::new());
        let drained = role.reader.poll_places(u32::MAX, |first, [key, offset, _], body, len| {
            let (direction, work) = match first & 0xff {
                PUT => (Direction::Into, None),
                GET => (Direction::Out, None),
                // SAFETY: [BODY]: in the ring until the role is given back.
                ELEMENTS => match unsafe { elements::decode(first, body, len) } {
                    Some(work) => (Direction::Out, Some(work)),
                    None => return false,
                },
                // Its origin waits for that, and does what is left.
                OFFER => return true,
                _ => return false,
            };
            let there = self.table.find(key, offset, work.as_ref().map_or(len, |work| work.1));
            match (there, work) {
                // SAFETY: [BODY].
                (Some(there), Some(work)) => unsafe { carried.operate(lock, work, there) },
                // SAFETY: [BODY].
                (Some(there), None) => unsafe {
                    carried.copy(lock, direction, (there, body, len));
                },
                (None, _) => refused |= !asks(first),
            }
            if asks(first) && there.is_some() {
                answers.push(Asked::of(body));
            }
            true
        });
        let done = carried.finish(lock);
        if drained.is_err() {
            role.shut();
            return Err(Error(libc::EPROTO));
        }
        done?;
        // (As where the peer does it: who asked has no answer, and a flush hears of the rest.)
        if refused {
            role.refuse();
        }
        // SAFETY: before the role is given back.
        answers.into_iter().for_each(|asked| unsafe { asked.answer() });
        Ok(true)
    }

    /// Returns true if the peer has not polled for some time: what it is asked for is
    /// done sooner without it.
    pub(super) fn is_absent(&self) -> bool {
        /// A look takes the line of the count from the peer.
        const BETWEEN_LOOKS: Duration = Duration::from_nanos(200);
        /// And the clock takes as long as a poll.
        const CALLS: u32 = 4;
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if !self.absent.get() && !calls.is_multiple_of(CALLS) {
            return false;
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.looked.get()) >= BETWEEN_LOOKS {
            self.looked.set(now);
            let polls = self.rings.polls().load(Ordering::Relaxed);
            if polls != self.polls.replace(polls) {
                self.polled.set(now);
            }
            let silence = now.saturating_duration_since(self.polled.get());
            self.absent.set(self.own || silence > PATIENCE);
        }
        self.absent.get()
    }

    /// [`Peer::is_absent`], without a look at a peer that was there the last time.
    pub(super) fn seems_absent(&self) -> bool {
        self.absent.get() && self.is_absent()
    }

    /// Copies between this process and the region of a key; `list` has offsets.
    ///
    /// # Safety
    /// \[BUF\] of each entry, to read from or to write to as the direction has it.
    pub(super) unsafe fn copy(
        &self,
        direction: Direction,
        key: u64,
        list: &[Iov],
    ) -> Result<(), Error> {
        self.check_alive()?;
        let place = |iov: &Iov| self.table.find(key, iov.addr, iov.len).ok_or(Error(libc::ENOKEY));
        if let [iov] = list {
            let there = place(iov)?;
            // SAFETY: [BUF].
            let done = unsafe { attach::copy(direction, self.pid, there, iov.buf, iov.len) };
            return done.map_err(|why| Error::of(&why));
        }
        let mut copies = Copies::new(direction, self.pid);
        for iov in list {
            // SAFETY: [BUF].
            unsafe { copies.add(place(iov)?, iov.buf, iov.len) };
        }
        copies.finish().map_err(|why| Error::of(&why))
    }

    /// Returns true if nothing is to be waited for, nor told of, but what has a token.
    pub(super) fn is_flushed(&self) -> bool {
        if self.known.get() != self.puts.sent_ever() {
            let done = self.puts.is_drained() && self.carrier.refused() == self.refused.get();
            if !done {
                return false;
            }
            self.known.set(self.puts.sent_ever());
        }
        true
    }

    /// An error if the process has ended: its number may be another's soon.
    pub(super) fn check_alive(&self) -> Result<(), Error> {
        /// Numbers are not given again as fast as that.
        const SURE: Duration = Duration::from_micros(100);
        if self.seen.get().elapsed() < SURE {
            return Ok(());
        }
        if process::has_exited(&self.pidfd) {
            return Err(Error(libc::ESRCH));
        }
        self.seen.set(Instant::now());
        Ok(())
    }
}
