//! Packets between processes of one node, over shared memory of our own.
//!
//! Every context has an inbox: an anonymous memory file with a
//! [ring](crate::shm::ring) for each process of the node. A process that sends to it for
//! the first time maps the file, through `/proc/<pid>/fd`, and signs its own
//! ring; the pages of rings that nobody signed are never touched. So a peer
//! costs nothing before the first packet and 64 KiB of shared memory after it,
//! no process waits for another's lock, and nothing is left behind, however
//! the processes end.
//!
//! Behind those rings are some for guests: processes of other jobs on this machine take one
//! each, the first that is free, and sign it with the name that they have there. The head says
//! which process has it, so that the ring of one that died at any moment is for others.
//!
//! Where a memory file cannot be shared (another pid namespace, a job of one that meets no
//! other), packets take the provider; each direction goes by itself.
//! `RANKWAY_NODE_QUEUES=0` turns them off.
//!
//! Carries packets only: puts and bulk messages are for windows and netmods.

use crate::netmod::HEAD;
use crate::shm::bell::{Bell, Sleeper};
use crate::shm::element_lock::Holder;
use crate::shm::lock_word::LockWord;
use crate::shm::ring::{self, BYTES, Corrupt, Reader, Writer};
use crate::shm::segment::{self, PAGE, Place, Segment, Shared};
use crate::shm::word::Word;
use crate::ulimit;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The longest body of a packet.
pub(super) const LONGEST: usize = ring::LONGEST;
/// "rankway2", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"rankway2");
/// Processes of a node that fit in the head's bits.
const MOST: u32 = 8192;
/// Rings for guests.
const GUESTS: u32 = 64;
/// Packets of one sender before the others get a turn.
const BATCH: u32 = 32;

/// The first page of an inbox. Peers can write to it: who it is for is looked
/// at once, and nothing in it is an index or a length here.
#[repr(C)]
struct Head {
    magic: u64,
    job: u64,
    peer: u32,
    context: u32,
    places: u32,
    bell: Bell,
    /// Rings signed so far.
    signed: CachePadded<AtomicU32>,
    /// Which ones are taken, by rank on the node.
    which: [AtomicU64; MOST as usize / 64],
    /// Guests' processes ([`Holder`]), by place.
    guests: [LockWord; GUESTS as usize],
}

#[repr(C, align(64))]
struct CachePadded<T>(T);

const _: () = assert!(size_of::<Head>() <= PAGE);

/// Whose inbox it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) job: u64,
    pub(super) peer: u32,
    pub(super) context: u32,
    /// Processes of the node.
    pub(super) places: u32,
}

/// An inbox in memory: a page that says whose it is, then the rings.
struct Map(Segment);

impl Map {
    /// Rings there are beside so many places.
    fn rings(places: u32) -> u32 {
        places.saturating_add(GUESTS).min(MOST)
    }

    fn bytes(places: u32) -> usize {
        PAGE + Map::rings(places) as usize * BYTES
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: a page of zeros or a head; all that changes is atomic.
        unsafe { &*self.0.start().cast::<Head>() }
    }

    /// Whose inbox it says it is; `None` for none.
    fn owner(&self) -> Option<Owner> {
        let head = self.0.start().cast::<Head>();
        // SAFETY: within the mapped page, which others may write to: these are
        // read once, one by one.
        unsafe {
            let magic = (&raw const (*head).magic).read_volatile();
            let owner = Owner {
                job: (&raw const (*head).job).read_volatile(),
                peer: (&raw const (*head).peer).read_volatile(),
                context: (&raw const (*head).context).read_volatile(),
                places: (&raw const (*head).places).read_volatile(),
            };
            (magic == MAGIC).then_some(owner)
        }
    }

    /// The ring of a rank on the node, below the number that was mapped for.
    fn ring(&self, place: u32) -> *mut u8 {
        self.0.start().wrapping_add(PAGE + place as usize * BYTES)
    }

    /// Where the head says whether a ring is taken: word and bit.
    fn mark(&self, place: u32) -> Option<(&AtomicU64, u64)> {
        Some((self.head().which.get(place as usize / 64)?, 1 << (place % 64)))
    }

    /// Takes the ring of a rank on the node, which nobody has.
    fn claim(&self, place: u32) -> bool {
        let mark = self.mark(place);
        mark.is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::AcqRel) & bit == 0)
    }

    /// Takes a ring for guests, of those behind so many places: one that nobody has, or whose
    /// process has ended before it signed. Where others have ended the owner is told.
    fn claim_as_guest(&self, places: u32) -> Option<u32> {
        let me = Holder::current().bits();
        let words = || (places..Map::rings(places)).zip(&self.head().guests);
        let free = words().find(|(_, word)| word.try_take(me).is_ok());
        let mut signed = false;
        let found = free.or_else(|| {
            words().find(|&(place, word)| {
                let Some(holder) = word.holder().filter(has_ended) else { return false };
                // SAFETY: a ring of the map.
                let has_signed = unsafe { ring::sender(self.ring(place)) }.is_some();
                signed |= has_signed;
                !has_signed && word.take_over(holder, me).is_ok()
            })
        });
        if found.is_none() && signed {
            self.head().signed.0.fetch_add(1, Ordering::Release);
        }
        found.map(|(place, _)| place)
    }

    /// The process of the guest at a place behind so many.
    fn guest(&self, place: u32, places: u32) -> Option<&LockWord> {
        self.head().guests.get(place.checked_sub(places)? as usize)
    }

    fn is_claimed(&self, place: u32, places: u32) -> bool {
        match self.guest(place, places) {
            Some(word) => word.holder().is_some(),
            None => {
                self.mark(place).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
            }
        }
    }

    /// Signs the ring at a place that was claimed: that of `sender`.
    fn sign(&self, place: u32, sender: u32) -> Option<Writer> {
        let head = self.head();
        head.bell.join();
        // SAFETY: a ring of the map, which lives as long; who claimed its place is its only
        // sender, and nothing was sent through it yet.
        let writer = unsafe { Writer::new(self.ring(place), sender)? };
        head.signed.0.fetch_add(1, Ordering::Release);
        Some(writer)
    }
}

/// Returns true if a guest's process is no more. (Of one whose own /proc is another's the number
/// says nothing here.)
fn has_ended(&guest: &u64) -> bool {
    guest >> 32 != 0 && Holder::from_bits(guest).has_ended()
}

/// What becomes of a guest.
pub(super) enum Greeting {
    /// It has this number here.
    Known(u32),
    /// It has not said who it is.
    NotYet,
    /// It is nobody that can be spoken to.
    Refused,
}

/// Where packets of this node's processes arrive.
pub(super) struct Inbox {
    readers: RefCell<Vec<Reader>>,
    /// Those that held what no sender writes; not looked at any more.
    shut: RefCell<Vec<Reader>>,
    /// Those of guests that have not said who they are.
    unknown: RefCell<Vec<Reader>>,
    /// Processes of the node. (What the head says, peers may overwrite.)
    places: u32,
    /// Signatures seen so far; one less while somebody is unknown, to be asked again.
    signed: Cell<u32>,
    seen: Cell<u32>,
    sleeper: Sleeper,
    file: Shared,
    map: Map,
}

impl Inbox {
    /// Makes one; `None` where the environment says so, there are too many processes, or the
    /// system has no memory files.
    ///
    /// # Errors
    /// Where the process may open no more descriptors.
    pub(super) fn open(owner: Owner) -> io::Result<Option<Inbox>> {
        if owner.places > MOST || !crate::settings::NODE_QUEUES.is_on() {
            return Ok(None);
        }
        let file = ulimit::unless_full(Shared::create("rankway-inbox"))?;
        let Some(file) = file else { return Ok(None) };
        let Ok(map) = file.map(Map::bytes(owner.places)) else { return Ok(None) };
        let map = Map(map);
        // SAFETY: nobody else knows of the page yet.
        unsafe {
            let head = map.0.start().cast::<Head>();
            (*head).magic = MAGIC;
            (*head).job = owner.job;
            (*head).peer = owner.peer;
            (*head).context = owner.context;
            (*head).places = owner.places;
        }
        let sleeper = Sleeper::new(&map.head().bell);
        Ok(Some(Inbox {
            readers: RefCell::default(),
            shut: RefCell::default(),
            unknown: RefCell::default(),
            places: owner.places,
            signed: Cell::new(0),
            seen: Cell::new(0),
            sleeper,
            file,
            map,
        }))
    }

    /// For the peers.
    pub(super) fn place(&self) -> Place {
        self.file.place()
    }

    /// Hands out packets: sender, first word, the others, body. Returns true if
    /// there were any. `take` answers whether it was one; a sender in whose ring
    /// something else is found goes to `lost`, and its ring is left alone. `greet` says
    /// who a guest is.
    #[inline]
    pub(super) fn poll(
        &self,
        mut take: impl FnMut(u32, u64, [u64; 3], &[u8]) -> bool,
        lost: impl FnOnce(u32),
        greet: impl FnMut(&mut Reader) -> Greeting,
    ) -> bool {
        if self.map.head().signed.0.load(Ordering::Relaxed) != self.signed.get() {
            self.welcome(greet);
        }
        if self.sleeper.is_armed() {
            self.sleeper.wake_up(&self.map.head().bell);
        }
        let mut count = 0;
        let mut corrupt = None;
        for reader in self.readers.borrow_mut().iter_mut() {
            let peer = reader.peer();
            match reader.poll(BATCH, |first, words, body| take(peer, first, words, body)) {
                Ok(packets) => count += packets,
                Err(Corrupt) => corrupt = Some(peer),
            }
        }
        if let Some(peer) = corrupt {
            self.shut(peer);
            lost(peer);
            return true;
        }
        count > 0
    }

    /// Leaves a sender's ring alone from now on.
    #[cold]
    fn shut(&self, peer: u32) {
        let mut readers = self.readers.borrow_mut();
        if let Some(at) = readers.iter().position(|reader| reader.peer() == peer) {
            self.shut.borrow_mut().push(readers.swap_remove(at));
        }
    }

    /// Finds the rings that were signed since, and asks guests who they are.
    #[cold]
    fn welcome(&self, mut greet: impl FnMut(&mut Reader) -> Greeting) {
        let signed = self.map.head().signed.0.load(Ordering::Acquire);
        if self.seen.replace(signed) != signed {
            self.find_signed();
        }
        for mut guest in self.unknown.take() {
            match greet(&mut guest) {
                Greeting::Known(number) => {
                    guest.set_peer(number);
                    self.readers.borrow_mut().push(guest);
                }
                Greeting::NotYet => self.unknown.borrow_mut().push(guest),
                Greeting::Refused => {
                    // (Its name may be another's number.)
                    guest.set_peer(u32::MAX);
                    self.shut.borrow_mut().push(guest);
                }
            }
        }
        self.signed.set(signed.wrapping_sub(u32::from(!self.unknown.borrow().is_empty())));
    }

    fn find_signed(&self) {
        self.drop_ended();
        let (mut readers, mut unknown) = (self.readers.borrow_mut(), self.unknown.borrow_mut());
        let shut = self.shut.borrow();
        for place in
            (0..Map::rings(self.places)).filter(|&place| self.map.is_claimed(place, self.places))
        {
            let start = self.map.ring(place);
            if !readers.iter().chain(&*shut).chain(&*unknown).any(|r| r.start() == start) {
                let list = if place < self.places { &mut *readers } else { &mut *unknown };
                // SAFETY: a ring of the map, which lives as long; this inbox
                // is its receiver.
                list.extend(unsafe { Reader::new(start) });
            }
        }
    }

    /// Returns true if the process with this number is a guest.
    pub(super) fn has_guest(&self, number: u32) -> bool {
        self.readers.borrow().iter().any(|reader| self.is_guest(reader, number))
    }

    fn is_guest(&self, reader: &Reader, number: u32) -> bool {
        reader.peer() == number && reader.start() >= self.map.ring(self.places)
    }

    /// A guest's ring is free for another. Its process has ended.
    pub(super) fn forget_guest(&self, number: u32) {
        for list in [&self.readers, &self.shut] {
            self.give_back(&mut list.borrow_mut(), |reader| self.is_guest(reader, number));
        }
    }

    /// Rings of guests that nobody forgets, for nobody knows them: they were refused, or ended
    /// before they said who they are.
    fn drop_ended(&self) {
        let ended = |reader: &Reader| {
            let holder = self.word_of(reader).and_then(LockWord::holder);
            holder.is_some_and(|holder| has_ended(&holder))
        };
        self.give_back(&mut self.shut.borrow_mut(), |reader| {
            reader.peer() == u32::MAX && ended(reader)
        });
        self.give_back(&mut self.unknown.borrow_mut(), |reader| {
            ended(reader) && !reader.has_some()
        });
    }

    /// Whose a ring is, if it is a guest's.
    fn word_of(&self, reader: &Reader) -> Option<&LockWord> {
        let offset = reader.start() as usize - self.map.0.start() as usize;
        self.map.guest(((offset - PAGE) / BYTES) as u32, self.places)
    }

    fn give_back(&self, list: &mut Vec<Reader>, which: impl Fn(&Reader) -> bool) {
        for guest in list.extract_if(.., |reader| which(reader)) {
            let offset = guest.start() as usize - self.map.0.start() as usize;
            if self.map.0.clear(offset, BYTES)
                && let Some(word) = self.word_of(&guest)
            {
                word.give_back();
            }
        }
    }

    /// What this thread may sleep on now, if it may: a descriptor that
    /// becomes readable when a packet comes.
    pub(super) fn arm(&self) -> Option<RawFd> {
        let head = self.map.head();
        self.sleeper.arm(&head.bell, || {
            head.signed.0.load(Ordering::Acquire) != self.seen.get()
                || self.readers.borrow().iter().any(Reader::has_some)
                || self.unknown.borrow().iter().any(Reader::has_some)
        })
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.sleeper.leave(&self.map.head().bell);
    }
}

/// Packets to one inbox.
pub(super) struct Outbox {
    writer: Writer,
    /// The receiver's process.
    pid: u32,
    map: Map,
}

impl Outbox {
    /// Opens a peer's inbox and signs the ring of this process, rank `mine` on
    /// the node and `me` in the world. `None` where it cannot be reached or
    /// is somebody else's.
    ///
    /// # Errors
    /// Where the process may open no more descriptors.
    pub(super) fn open(at: Place, owner: &Owner, mine: u32, me: u32) -> io::Result<Option<Outbox>> {
        // A second context of this process must not write to a ring that is
        // in use.
        Outbox::sign_in(at, me, |map, its| {
            (its == *owner && mine < its.places && map.claim(mine)).then_some(mine)
        })
    }

    /// Opens the inbox of a process of another job, as a guest that is called `name` there.
    /// `None` where it cannot be reached or has no ring left.
    ///
    /// # Errors
    /// As [`Outbox::open`].
    pub(super) fn open_as_guest(at: Place, name: u32) -> io::Result<Option<Outbox>> {
        Outbox::sign_in(at, name, |map, Owner { places, .. }| {
            map.claim_as_guest(places).or_else(|| {
                map.head().bell.join();
                map.head().bell.ring(at.pid);
                None
            })
        })
    }

    /// Opens an inbox and signs, as `sender`, the ring that is claimed in it, given whose it is.
    fn sign_in(
        at: Place,
        sender: u32,
        claim: impl FnOnce(&Map, Owner) -> Option<u32>,
    ) -> io::Result<Option<Outbox>> {
        let within = |file: File| {
            // (A ring is signed with one more.)
            sender.checked_add(1)?;
            let len = usize::try_from(file.metadata().ok()?.len()).ok()?;
            if len < PAGE || !segment::is_final(&file, len) {
                return None;
            }
            let map = Map(Segment::map(&file, len).ok()?);
            let owner = map.owner()?;
            if owner.places > MOST || Map::bytes(owner.places) != len {
                return None;
            }
            let writer = map.sign(claim(&map, owner)?, sender)?;
            Some(Outbox { writer, pid: at.pid, map })
        };
        Ok(ulimit::unless_full(at.open())?.and_then(within))
    }

    /// Sends a packet; `false`: there is no space now.
    ///
    /// # Safety
    /// \[BODY\]: `body` is readable for `len` bytes, at most [`LONGEST`].
    #[inline(always)]
    pub(super) unsafe fn put(
        &self,
        first: u64,
        words: [u64; 3],
        body: *const u8,
        len: usize,
    ) -> bool {
        // SAFETY: [BODY].
        let sent = unsafe { self.writer.put(first, words, body, len) };
        self.map.head().bell.ring(self.pid);
        sent
    }

    /// Sends a packet whose body is short, if its space is known; `sent` is called before
    /// the receiver is woken.
    #[inline(always)]
    pub(super) fn put_word(
        &self,
        first: u64,
        words: [u64; 2],
        body: Word,
        sent: impl FnOnce(),
    ) -> bool {
        if !self.writer.put_word(first, words, body) {
            return false;
        }
        sent();
        self.map.head().bell.ring(self.pid);
        true
    }

    /// The same, of `len` bytes that `fill` writes into the ring.
    pub(super) fn put_with(
        &self,
        first: u64,
        words: [u64; 3],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if len > LONGEST {
            return false;
        }
        // SAFETY: `len` bytes of the ring, written once, which are this side's alone.
        let fill = |to: *mut u8| fill(unsafe { std::slice::from_raw_parts_mut(to, len) });
        // SAFETY: no longer than a slice of `len` bytes is.
        let sent = unsafe { self.writer.put_with(first, words, len, fill) };
        self.map.head().bell.ring(self.pid);
        sent
    }

    /// The same with a head as it goes to providers.
    ///
    /// # Safety
    /// \[BODY\], as [`Outbox::put`].
    #[inline]
    pub(super) unsafe fn put_encoded(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
    ) -> bool {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| head[8 * i + k]));
        // SAFETY: [BODY].
        unsafe { self.put(word(0), [word(1), word(2), word(3)], body, len) }
    }

    /// The receiver's process.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

#[cfg(test)]
mod tests;
