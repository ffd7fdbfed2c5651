//! The memory that this process exposes in each window, as packets from peers
//! find it.
//!
//! A [`Registry`] is one table for the process: whichever context a packet
//! comes in on finds the window by its id. A region is entered before any peer
//! knows that the window exists, and taken out before its memory goes.

use super::element_gate::ElementGate;
use super::locks::{LockHandle, LockWords, NO_RANK};
use super::node_words::Signal;
use super::registration::OwnKeys;
use super::types::{Custom, Operator, Status};
use super::{Error, ErrorKind};
use crate::netmod::compute::{Work, is_atomic, refusal};
use crate::netmod::{ElementLock, Kind};
use crate::rankmap::{Process, RankMap};
use crate::shm::segment::Segment;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of the code in front of an operand.
pub(super) const CODE: usize = 8;
/// Exposed regions by the id of their window.
#[derive(Default)]
pub(super) struct Registry {
    regions: Mutex<BTreeMap<u64, Arc<ExposedRegion>>>,
    /// Runs operations of the device layer's own.
    pub(super) operator: OnceLock<Operator>,
}

impl Registry {
    fn regions(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ExposedRegion>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` on a region, which stays registered meanwhile.
    pub(super) fn with<R>(&self, id: u64, act: impl FnOnce(&ExposedRegion) -> R) -> Option<R> {
        self.regions().get(&id).map(|region| act(region))
    }
}

/// A region in the registry; dropping it takes it out, unless another has its id by then.
pub(super) struct RegistryEntry {
    registry: Arc<Registry>,
    region: Arc<ExposedRegion>,
}

impl RegistryEntry {
    pub(super) fn new(registry: Arc<Registry>, region: ExposedRegion) -> RegistryEntry {
        let region = Arc::new(region);
        registry.regions().insert(region.id, Arc::clone(&region));
        RegistryEntry { registry, region }
    }
}

impl Deref for RegistryEntry {
    type Target = ExposedRegion;

    fn deref(&self) -> &ExposedRegion {
        &self.region
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let mut regions = self.registry.regions();
        if regions.get(&self.region.id).is_some_and(|it| Arc::ptr_eq(it, &self.region)) {
            regions.remove(&self.region.id);
        }
    }
}

/// Signals that came by packets or from this process, less those that were taken,
/// by world rank: with those in the node's words, how many wait to be taken. All by
/// wrapping.
#[derive(Default, Debug)]
pub(super) struct Signals([BTreeMap<u32, u32>; 2]);

impl Signals {
    /// A signal came.
    pub(super) fn came(&mut self, from: u32, signal: Signal) {
        self.change(from, signal, 1);
    }

    fn change(&mut self, from: u32, signal: Signal, by: u32) {
        let counts = &mut self.0[signal as usize];
        let count = counts.entry(from).or_default();
        *count = count.wrapping_add(by);
        if *count == 0 {
            counts.remove(&from);
        }
    }

    /// Takes one signal from each of `peers`, when all have sent one; `shared` says how
    /// many of a peer's are in the node's words.
    pub(super) fn take_all(
        &mut self,
        signal: Signal,
        peers: &[u32],
        shared: impl Fn(u32) -> u32,
    ) -> bool {
        let counts = &self.0[signal as usize];
        let own = |peer| counts.get(peer).copied().unwrap_or(0);
        // (Less than none: one is [given up](Signals::give_up).)
        let came = |peer| own(peer).wrapping_add(shared(*peer)).cast_signed();
        let all = peers.iter().all(|peer| came(peer) > 0);
        if all {
            peers.iter().for_each(|&peer| self.give_up(peer, signal));
        }
        all
    }

    /// Nobody waits any more for the next signal of a peer, which came or will come.
    pub(super) fn give_up(&mut self, peer: u32, signal: Signal) {
        self.change(peer, signal, u32::MAX);
    }
}

/// How elements of a region are changed without disturbing others who change them.
pub(super) enum Elements {
    /// By the processor's atomics; what these do not take, by this process alone, under a
    /// lock.
    Own(Mutex<()>),
    /// By this process alone, all under the lock.
    Alone(Mutex<()>),
    /// Under a lock that peers take, too, who change them by copying.
    Locked(ElementLock),
    /// The same where peers have the memory mapped: only what the processor's atomics do
    /// not take.
    LockedUnlessAtomic(ElementLock),
}

impl Elements {
    /// Those of memory that peers have mapped, or that they change by a netmod with this
    /// lock, or one whose atomics are the processor's.
    pub(super) fn new(lock: Option<ElementLock>, mapped: bool, cpu_atomics: bool) -> Elements {
        match lock {
            Some(lock) if mapped => Elements::LockedUnlessAtomic(lock),
            Some(lock) => Elements::Locked(lock),
            None if mapped || cpu_atomics => Elements::Own(Mutex::default()),
            None => Elements::Alone(Mutex::default()),
        }
    }

    /// Runs `act` under the lock.
    fn exclusively<R>(&self, act: impl FnOnce() -> R) -> R {
        match self {
            Elements::Own(lock) | Elements::Alone(lock) => {
                let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                act()
            }
            Elements::Locked(lock) | Elements::LockedUnlessAtomic(lock) => {
                let _held = lock.lock();
                act()
            }
        }
    }

    /// # Safety
    /// \[WORK\], \[VALID\] (`compute`); others change the elements as this says.
    unsafe fn run(&self, work: &Work) {
        let atomic = is_atomic(work.ty, work.at.addr());
        let all_locked = matches!(self, Elements::Locked(_) | Elements::Alone(_));
        // SAFETY: [WORK], [VALID], [SHARED]; [CELL]: tested just now; [ALONE]: under the lock.
        unsafe {
            match atomic {
                true if all_locked => self.exclusively(|| work.run_alone()),
                true => work.run_atomic(),
                false => self.exclusively(|| work.run_plain()),
            }
        }
    }
}

/// Memory attached to a dynamic window.
#[derive(Default)]
struct Attached {
    /// Start and bytes.
    regions: BTreeMap<usize, usize>,
    /// Addresses at which no bytes are.
    empty: Vec<usize>,
}

/// The memory this process exposes in a window.
pub(super) struct ExposedRegion {
    pub(super) id: u64,
    start: *mut u8,
    bytes: usize,
    /// What is attached; `None` where the window has memory of its own.
    attached: Option<Mutex<Attached>>,
    elements: Elements,
    /// By which those with an atomic instruction are changed, where others have the memory
    /// mapped.
    element_gate: Option<Arc<ElementGate>>,
    signals: Mutex<Signals>,
    shared_lock: Option<LockHandle>,
    /// Lock words of a window that nobody else has mapped.
    private_lock: OnceLock<Option<Segment>>,
    /// How many may hold a lock: the job's processes, or the window's members.
    holders: u32,
    /// Of a window with members in other jobs, whose numbers are each process's own:
    /// locks are held by ranks in the window.
    members: Option<RankMap>,
    /// What peers are told who ask by what keys the memory is reached.
    keys: OnceLock<OwnKeys>,
}

// SAFETY: the memory lives as long as the region is registered; what is done
// there goes through atomics or the locks here.
unsafe impl Send for ExposedRegion {}
// SAFETY: as above.
unsafe impl Sync for ExposedRegion {}

impl ExposedRegion {
    /// The lock words and the gate of the elements are those mapped for the node;
    /// `holders`: how many processes may hold a lock. `members`: by process number, where
    /// some are of other jobs.
    pub(super) fn new(
        id: u64,
        (start, bytes): (*mut u8, usize),
        dynamic: bool,
        elements: Elements,
        (shared_lock, element_gate): (Option<LockHandle>, Option<Arc<ElementGate>>),
        (holders, members): (u32, Option<RankMap>),
    ) -> ExposedRegion {
        ExposedRegion {
            id,
            start,
            bytes,
            attached: dynamic.then(Mutex::default),
            elements,
            element_gate,
            signals: Mutex::default(),
            shared_lock,
            private_lock: OnceLock::new(),
            holders,
            members,
            keys: OnceLock::new(),
        }
    }

    /// Memory comes and goes, and is named by its address.
    pub(super) fn is_dynamic(&self) -> bool {
        self.attached.is_some()
    }

    /// The window has members in other jobs.
    pub(super) fn is_across_jobs(&self) -> bool {
        self.members.is_some()
    }

    /// By what number a process holds locks of this window; `None` for one that is no
    /// member.
    #[inline]
    pub(super) fn holder_of(&self, peer: u32) -> Option<u32> {
        match &self.members {
            None => Some(peer),
            Some(members) => members.rank_of(Process { pg: 0, lpid: peer }),
        }
    }

    /// The process that holds locks by a number; [`NO_RANK`] for none.
    pub(super) fn peer_of_holder(&self, holder: u32) -> u32 {
        match &self.members {
            None => holder,
            Some(members) => members.get(holder).map_or(NO_RANK, |process| process.lpid),
        }
    }

    /// Has peers told these keys, the first that are given.
    pub(super) fn tell_keys(&self, keys: OwnKeys) -> &OwnKeys {
        self.keys.get_or_init(|| keys)
    }

    /// The keys of the memory, once it is registered.
    pub(super) fn keys(&self) -> Option<&OwnKeys> {
        self.keys.get()
    }

    pub(super) fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock words of this region.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`].
    pub(super) fn lock_handle(&self) -> Result<LockHandle, Error> {
        if let Some(shared) = self.shared_lock {
            return Ok(shared);
        }
        let private_lock =
            self.private_lock.get_or_init(|| Segment::private(LockWords::bytes(self.holders)).ok());
        let segment = private_lock.as_ref().ok_or_else(|| ErrorKind::Memory {
            what: "the lock words of a window".into(),
            source: std::io::Error::from_raw_os_error(libc::ENOMEM),
        })?;
        // SAFETY: zeroed memory of that size, kept with the region.
        Ok(unsafe { LockHandle::at(segment.start(), self.holders) })
    }

    /// Runs `act` on `len` bytes at `offset`, which stay attached meanwhile;
    /// with a dynamic window an offset is an address.
    pub(super) fn with_range<R>(
        &self,
        offset: u64,
        len: usize,
        act: impl FnOnce(*mut u8) -> R,
    ) -> Option<R> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        let Some(attached) = &self.attached else {
            // SAFETY: within the window's memory.
            return (end <= self.bytes).then(|| act(unsafe { self.start.add(offset) }));
        };
        let attached = attached.lock().unwrap_or_else(PoisonError::into_inner);
        let attached = &attached.regions;
        let (start, bytes) = attached.range(..=offset).next_back()?;
        let mut attached_end = start + bytes;
        // To a peer, what was attached in pieces that touch is one piece.
        while attached_end < end {
            attached_end += attached.get(&attached_end)?;
        }
        // The address was exposed by `attach`.
        Some(act(std::ptr::with_exposed_provenance_mut(offset)))
    }

    /// Runs `act` on a range under the region's lock, which this function and
    /// changes of elements without an atomic instruction take.
    pub(super) fn with_exclusive_range<R>(
        &self,
        offset: u64,
        len: usize,
        act: impl FnOnce(*mut u8) -> R,
    ) -> Option<R> {
        self.with_range(offset, len, |at| self.elements.exclusively(|| act(at)))
    }

    /// Carries out an operation on elements at `offset`. `work` has everything
    /// but their address.
    ///
    /// # Safety
    /// \[WORK\] (`compute`) but for the place: the buffers hold its elements.
    pub(super) unsafe fn compute(&self, offset: u64, work: Work) -> Status {
        if work.kind != Kind::Swap && refusal(work.ty, work.op).is_some() {
            return Status::Unsupported;
        }
        let Some(len) = work.count.checked_mul(work.ty.size()) else { return Status::OutOfRange };
        let done = self.with_range(offset, len, |at| {
            let work = Work { at, ..work };
            let atomic = is_atomic(work.ty, at.addr());
            let gate = self.element_gate.as_ref().filter(|gate| atomic && gate.is_usable());
            // SAFETY: [WORK], with a place in range; [VALID]: asked above; [CELL]: asked
            // for the gate; [SHARED]: all have it, or none.
            unsafe {
                match gate {
                    Some(gate) => gate.run(&work, None, &Cell::new(0)),
                    None => self.elements.run(&work),
                }
            }
        });
        if done.is_some() { Status::Done } else { Status::OutOfRange }
    }

    /// Runs a custom operation on a range; the code stands in front of its
    /// operand.
    pub(super) fn run_operator(
        &self,
        operator: Option<Operator>,
        place: u64,
        span: usize,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Status {
        let Some((code, operand)) = body.split_first_chunk::<CODE>() else {
            return Status::Malformed;
        };
        let Some(operator) = operator else { return Status::NoOperator };
        let code = u64::from_le_bytes(*code);
        let done = self.with_exclusive_range(place, span, |at| {
            // SAFETY: in range, and under the region's lock.
            unsafe { operator(&Custom { code, at, span, operand }, out) }
        });
        match done {
            Some(true) => Status::Done,
            Some(false) => Status::ByOperator,
            None => Status::OutOfRange,
        }
    }

    /// Attaches memory of the process to a dynamic window; its address.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a window that is not dynamic, a null address, or
    /// memory that overlaps with what is attached, [`ErrorKind::Length`].
    pub(super) fn attach(&self, start: *mut u8, bytes: usize) -> Result<usize, Error> {
        let mut attached = self.attached()?;
        let at = start.expose_provenance();
        let refuse = |why: &str| Err(ErrorKind::Arguments(why.into()).into());
        if bytes > isize::MAX as usize {
            return Err(ErrorKind::Length { len: bytes }.into());
        }
        if bytes == 0 {
            attached.empty.push(at);
            return Ok(at);
        }
        let end = at.checked_add(bytes);
        let Some(end) = end.filter(|_| !start.is_null()) else {
            return refuse("attach: there is no memory at this address");
        };
        let before = attached.regions.range(..end).next_back();
        if before.is_some_and(|(s, b)| s + b > at) {
            return refuse("attach: the memory overlaps with memory that is attached already");
        }
        attached.regions.insert(at, bytes);
        Ok(at)
    }

    /// Takes memory out of a dynamic window.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for an address that attach did not get.
    pub(super) fn detach(&self, start: usize) -> Result<(), Error> {
        let mut attached = self.attached()?;
        let none = || ErrorKind::Arguments("detach: no memory is attached at this address".into());
        if attached.regions.remove(&start).is_some() {
            return Ok(());
        }
        let at = attached.empty.iter().position(|&at| at == start).ok_or_else(none)?;
        attached.empty.swap_remove(at);
        Ok(())
    }

    fn attached(&self) -> Result<MutexGuard<'_, Attached>, Error> {
        let why = "this window has memory of its own; only dynamic ones take more";
        let attached = self.attached.as_ref().ok_or_else(|| ErrorKind::Arguments(why.into()))?;
        Ok(attached.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::super::locks::{Holder, LockMode};
    use super::*;

    #[test]
    fn members_of_other_jobs_hold_locks_by_their_rank_in_the_window() {
        let members = RankMap::from_lpids(0, [7, 3, 65_540]).unwrap();
        let memory = (std::ptr::null_mut(), 0);
        let elements = Elements::new(None, false, false);
        let holders = (members.len(), Some(members));
        let region = ExposedRegion::new(1, memory, false, elements, (None, None), holders);
        assert!(region.is_across_jobs() && !region.is_dynamic());
        let lock = region.lock_handle().unwrap();
        let holder = |peer| Holder { peer: region.holder_of(peer).unwrap(), single_writer: false };
        assert_eq!(lock.try_acquire(LockMode::Exclusive, holder(65_540), 0), Ok(()));
        let held = lock.try_acquire(LockMode::Exclusive, holder(7), 0).unwrap_err();
        assert_eq!(region.peer_of_holder(held), 65_540);
        // Nobody holds a lock that no holder is known of, nor one who is no member.
        assert_eq!(region.peer_of_holder(NO_RANK), NO_RANK);
        assert_eq!(region.holder_of(5), None);
    }

    #[test]
    fn no_bytes_are_attached_and_detached_as_others_are() {
        let memory = (std::ptr::null_mut(), usize::MAX);
        let elements = Elements::new(None, false, false);
        let region = ExposedRegion::new(1, memory, true, elements, (None, None), (1, None));
        let mut bytes = [0_u8; 16];
        let start = bytes.as_mut_ptr();
        for len in [0, 16, 0] {
            assert_eq!(region.attach(start, len).unwrap(), start.addr());
        }
        assert!(region.attach(start, 1).is_err());
        for _ in 0..3 {
            region.detach(start.addr()).unwrap();
        }
        assert!(region.detach(start.addr()).is_err());
    }
}
