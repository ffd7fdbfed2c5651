//! An endpoint: rings that peers of the node send to, and the peers that it sends to.

use super::Node;
use super::address::Address;
use super::bulk::Receive;
use super::elements::{self, ELEMENTS};
use super::offer::{self, OFFER, Origin};
use super::peer::{self, GET, PACKET, PUT, Peer, Rings};
use super::table::Table;
use crate::netmod::compute::Work;
use crate::netmod::{Completion, HEAD, NetError};
use crate::shm::bell::Sleeper;
use crate::shm::ring::{Asked, Corrupt, Reader, SharedReader};
use crate::shm::segment::Shared;
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Packets of one sender before the others get a turn.
const BATCH: u32 = 64;
/// With fewer places left those of senders that have ended are looked for: half of what there is for
/// processes of other jobs, so that no start comes to it.
const FEW: u32 = 8;
/// Behind a longer packet others may have the lock of elements.
const AT_ONCE: usize = 1024;
/// Completions whose memory is kept for the next.
const SPARE: usize = 64;

/// Rings of a sender.
struct Incoming {
    place: u32,
    puts: SharedReader,
    packets: Reader,
    /// Whose operands are read.
    origin: Origin,
    /// Something was found that no peer writes: left alone from then on.
    shut: bool,
}

/// Rings, and peers; belongs to one thread at a time.
pub struct Endpoint {
    pub(super) owner: Arc<Node>,
    incoming: RefCell<Vec<Incoming>>,
    /// Announcements of places up to which they were looked at; wraps.
    seen: Cell<u32>,
    /// Boxes, whose addresses are those that operations take.
    #[expect(clippy::vec_box, reason = "operations take their addresses")]
    peers: RefCell<Vec<Box<Peer>>>,
    /// Peers with operations that are not known to be done.
    busy: RefCell<Vec<*const Peer>>,
    done: RefCell<Vec<Completion>>,
    /// An empty list, in whose memory the next are collected while these are handed out.
    spare: Cell<Vec<Completion>>,
    /// Bulk messages that have not come.
    receives: RefCell<Vec<Receive>>,
    /// Memory for operands that are read.
    operands: RefCell<Vec<u8>>,
    sleeper: Sleeper,
    file: Shared,
    places: u32,
    /// Behind what points into it.
    rings: Rings,
}

// SAFETY: the pointers name objects of this endpoint alone, which has one owner at a
// time, who may change.
unsafe impl Send for Endpoint {}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("peers", &self.peers.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Peers have the entries mapped, and their memory may be another's soon.
        self.receives.get_mut().drain(..).for_each(|it| self.rings.posted().take_back(&it));
        self.sleeper.leave(self.rings.bell());
        self.rings.leave();
        self.owner.kept.keep(self.peers.get_mut().drain(..));
    }
}

impl Endpoint {
    pub(super) fn open(owner: &Arc<Node>) -> Result<Endpoint, NetError> {
        let places = owner.places;
        let file =
            Shared::create("rankway-node").map_err(|why| owner.refused("memfd_create", &why))?;
        let segment = file.map(Rings::bytes(places));
        let segment = segment.map_err(|why| owner.refused("mmap", &why))?;
        // SAFETY: made here, of that length, and nobody was told of it.
        let rings = unsafe { Rings::new(segment, file.place().nonce) };
        Ok(Endpoint {
            owner: Arc::clone(owner),
            incoming: RefCell::default(),
            seen: Cell::new(0),
            peers: RefCell::default(),
            busy: RefCell::default(),
            done: RefCell::default(),
            spare: Cell::default(),
            receives: RefCell::default(),
            operands: RefCell::default(),
            sleeper: Sleeper::new(rings.bell()),
            rings,
            file,
            places,
        })
    }

    pub(super) fn address(&self) -> Address {
        Address {
            table: self.owner.table_place(),
            rings: self.file.place(),
            places: self.places,
            start: self.rings.start().expose_provenance() as u64,
        }
    }

    /// Adds a peer; the address that operations take.
    pub(super) fn add(&self, peer: Box<Peer>) -> u64 {
        let address = (&raw const *peer).expose_provenance() as u64;
        self.peers.borrow_mut().push(peer);
        address
    }

    /// Takes out a peer that nothing goes to any more.
    pub(super) fn remove(&self, address: u64) {
        let is_it = |peer: *const Peer| peer.expose_provenance() as u64 == address;
        self.busy.borrow_mut().retain(|&peer| !is_it(peer));
        let mut peers = self.peers.borrow_mut();
        let at = peers.iter().position(|peer| is_it(&raw const **peer));
        self.owner.kept.keep(at.map(|at| peers.swap_remove(at)).into_iter());
    }

    /// An operation ended within the call.
    pub(super) fn end(&self, token: u64) {
        self.done.borrow_mut().push(Completion { token, result: Ok(()) });
    }

    /// Starts an operation that a peer of its own has to be asked for later.
    pub(super) fn start(&self, peer: &Peer, operation: impl FnOnce() -> isize) -> isize {
        let was_idle = peer.is_idle();
        let rc = operation();
        if was_idle && !peer.is_idle() {
            self.busy.borrow_mut().push(peer);
        }
        rc
    }

    /// Waits for a bulk message, into memory at `start`; false where there is no space.
    pub(super) fn receive(&self, tag: u64, start: u64, len: usize, token: u64) -> bool {
        let receive = self.rings.posted().post(tag, start, len, token);
        self.receives.borrow_mut().extend(receive);
        receive.is_some()
    }

    /// Waits no more.
    pub(super) fn cancel(&self, token: u64) {
        let mut receives = self.receives.borrow_mut();
        receives.iter_mut().filter(|r| r.token == token).for_each(Receive::cancel);
    }

    /// The descriptor that is readable when a peer has rung.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.sleeper.descriptor(self.rings.bell()).ok()
    }

    /// Returns true if this thread may sleep until a peer rings. (Puts ring nobody: their
    /// origin carries them out itself.)
    pub(super) fn arm(&self) -> bool {
        self.sleeper.arm(self.rings.bell(), || !self.is_quiet()).is_some()
    }

    /// A poll, if there is nothing for it.
    #[inline]
    pub(super) fn stays_quiet(&self) -> bool {
        self.count_poll();
        !self.sleeper.is_armed() && self.is_quiet()
    }

    /// Returns true if nothing is there that a poll would take.
    #[inline]
    fn is_quiet(&self) -> bool {
        // (What another carries out, or died over, is not for this one.)
        let has_puts = |i: &Incoming| i.puts.has_some() && !i.puts.is_taken();
        let quiet = |i: &Incoming| i.shut || !(has_puts(i) || i.packets.has_some());
        self.busy.borrow().is_empty()
            && self.rings.announced().load(Ordering::Relaxed) == self.seen.get()
            && self.incoming.borrow().iter().all(quiet)
            && self.receives.borrow().iter().all(|r| !self.rings.posted().has_ended(r))
            && self.done.borrow().is_empty()
    }

    pub(super) fn poll(
        &self,
        mut done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        self.count_poll();
        if self.rings.announced().load(Ordering::Relaxed) != self.seen.get() {
            self.welcome();
        }
        if self.sleeper.is_armed() {
            self.sleeper.wake_up(self.rings.bell());
        }
        let served = self.serve(arrived);
        if !self.busy.borrow().is_empty() {
            self.advance();
        }
        if !self.receives.borrow().is_empty() {
            self.take_received();
        }
        if !self.done.borrow().is_empty() {
            let mut ended = self.done.replace(self.spare.take());
            ended.drain(..).for_each(&mut done);
            if ended.capacity() <= SPARE {
                self.spare.set(ended);
            }
        }
        served.map_err(|Corrupt| NetError::Corrupt)
    }

    /// Origins see that this process comes to what they have sent.
    #[inline]
    fn count_poll(&self) {
        // (Written by this thread alone: no other's instruction comes between.)
        let polls = self.rings.polls();
        polls.store(polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Carries out puts, and hands out packets. Returns true if there were puts.
    fn serve(&self, mut arrived: impl FnMut(&[u8; HEAD], &[u8])) -> Result<bool, Corrupt> {
        let mut result = Ok(false);
        for incoming in self.incoming.borrow_mut().iter_mut().filter(|i| !i.shut) {
            let mut served = Ok(0);
            if incoming.puts.has_some()
                && let Ok(mut role) = incoming.puts.take()
            {
                let (mut refused, mut held) = (false, None);
                let (origin, operands) = (&mut incoming.origin, &mut *self.operands.borrow_mut());
                let lock = &self.owner.element_lock;
                served = self.owner.with_regions(|table| {
                    role.reader.poll_places(BATCH, |first, words, body, len| {
                        let kind = first & 0xff;
                        let done = match kind {
                            // SAFETY: the body's place, until this returns.
                            PUT | GET => unsafe { carry_out(table, kind == PUT, words, body, len) },
                            ELEMENTS => {
                                // SAFETY: as above.
                                let Some(work) = (unsafe { elements::decode(first, body, len) })
                                else {
                                    return false;
                                };
                                held.get_or_insert_with(|| lock.lock());
                                // SAFETY: as above; the lock is held.
                                unsafe { operate(table, words, work) }
                            }
                            OFFER => {
                                held = None;
                                let find = |len| table.find(words[0], words[1], len);
                                // SAFETY: as above; regions are held.
                                let is_offer = unsafe {
                                    offer::take(
                                        (first, words[2]),
                                        (body, len),
                                        find,
                                        lock,
                                        origin,
                                        operands,
                                    )
                                };
                                return is_offer;
                            }
                            _ => return false,
                        };
                        match peer::asks(first) {
                            // SAFETY: before the slots are given back.
                            true if done => unsafe { Asked::of(body).answer() },
                            true => {}
                            false => refused |= !done,
                        }
                        if len > AT_ONCE {
                            held = None;
                        }
                        true
                    })
                });
                drop(held);
                // (That may have taken longer than origins wait: it is not absent.)
                self.count_poll();
                result = result.map(|_| true);
                if refused {
                    role.refuse();
                }
                if served.is_err() {
                    role.shut();
                }
            }
            if incoming.packets.has_some() && served.is_ok() {
                served = incoming.packets.poll(BATCH, |first, _, body| {
                    let parts = body.split_first_chunk::<HEAD>();
                    if let Some((head, body)) = parts {
                        arrived(head, body);
                    }
                    first as u8 == PACKET as u8 && parts.is_some()
                });
            }
            if served.is_err() {
                incoming.shut = true;
                result = Err(Corrupt);
            }
        }
        result
    }

    /// Finds the rings that were signed since. Where few places are left, those of senders that
    /// have ended are as new.
    #[cold]
    fn welcome(&self) {
        // What is announced from here on is looked at again.
        self.seen.set(self.rings.announced().load(Ordering::Acquire));
        let claimed = self.rings.claimed().load(Ordering::Acquire).min(self.places);
        let few = self.places - claimed < FEW;
        let me = std::process::id();
        let mut incoming = self.incoming.borrow_mut();
        if few {
            // SAFETY: its own ends, which go.
            incoming
                .retain(|i| unsafe { i.shut || !self.rings.renew(i.place, &i.puts, &i.packets) });
        }
        for place in 0..claimed {
            if incoming.iter().any(|i| i.place == place) {
                continue;
            }
            // SAFETY: rings of the map, which lives as long; this endpoint is their
            // receiver, with the sender for the puts.
            let ends = unsafe {
                let packets = Reader::new(self.rings.packets(place));
                packets.zip(SharedReader::new(self.rings.puts(place), me))
            };
            // Claimed and not signed: it is announced later, or its sender has ended before.
            let Some((packets, puts)) = ends else {
                if few {
                    self.rings.renew_unsigned(place);
                }
                continue;
            };
            let origin = Origin::default();
            incoming.push(Incoming { place, puts, packets, origin, shut: false });
        }
    }

    /// Bulk messages that have come, or never will.
    fn take_received(&self) {
        self.receives.borrow_mut().retain(|receive| {
            let Some(result) = self.rings.posted().ended(receive) else { return true };
            let result = result.map_err(|error| self.owner.failed(error));
            self.done.borrow_mut().push(Completion { token: receive.token, result });
            false
        });
    }

    /// Operations that are done, or that peers do not come to.
    fn advance(&self) {
        let mut ended = self.done.borrow_mut();
        self.busy.borrow_mut().retain(|&peer| {
            // SAFETY: of the endpoint's own boxes, which it keeps.
            let peer = unsafe { &*peer };
            peer.advance(&mut |token, result| {
                let result = result.map_err(|error| self.owner.failed(error));
                ended.push(Completion { token, result });
            });
            !peer.is_idle()
        });
    }
}

/// Carries out a put or a get; false where its region is not there (any more), or too
/// short.
///
/// # Safety
/// `body` is readable, for a get writable, for `len` bytes.
#[inline]
unsafe fn carry_out(
    table: &Table,
    is_put: bool,
    [key, offset, _]: [u64; 3],
    body: *mut u8,
    len: usize,
) -> bool {
    let Some(at) = table.find(key, offset, len) else { return false };
    let memory = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
    let (to, from) = if is_put { (memory, body) } else { (body, memory) };
    // SAFETY: within memory that is registered, which stays while regions are held.
    unsafe {
        match len {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            len => to.copy_from_nonoverlapping(from, len),
        }
    }
    true
}

/// Carries out an operation on elements; false as [`carry_out`].
///
/// # Safety
/// The body of `work` is there, and the lock of elements is held.
unsafe fn operate(table: &Table, [key, offset, _]: [u64; 3], (work, bytes): (Work, usize)) -> bool {
    let Some(at) = table.find(key, offset, bytes) else { return false };
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
    // SAFETY: [WORK]: within memory that is registered, which stays while regions are
    // held; [VALID]: `decode` looked at that; [ALONE]: the lock is held.
    unsafe { Work { at, ..work }.run_plain() };
    true
}

#[cfg(test)]
mod tests;
