//! Passive epochs: locks of one rank and of all, and what they reach.

use super::access::Access;
use super::am_fallback::{Answer, Request, opcode};
use super::cold::{Held, LockTarget, ShortLock};
use super::locks::{Blocker, Holder, LockHandle, LockMode, NO_RANK};
use super::state::WindowState;
use super::types::{Assert, Epoch, Lock, Status};
use super::{Error, ErrorKind};
use crate::device::DeviceError;
use crate::netmod::{Netmod, Op, Type};
use crate::track::Kind;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// How long a wait for a lock goes on before the liveness of peers on other
/// nodes is checked, and again.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(250);

impl<N: Netmod> Access<N> {
    /// Opens an access epoch to one rank. Not collective; several ranks may be
    /// locked at a time.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] when another epoch is open or the rank is locked
    /// already, [`ErrorKind::Rank`], [`ErrorKind::Freed`]; a holder or target
    /// that died, by name. (A target whose memory is mapped here can be locked until
    /// its death is noticed: in a loop of these, of gets or of operations that fetch,
    /// by [`Access::unlock`] or them, or by a flush.)
    #[inline]
    pub fn lock(&self, kind: Lock, rank: u32, assert: Assert) -> Result<(), Error> {
        if assert == Assert::NONE && self.lock_at_once(kind, rank) {
            return Ok(());
        }
        self.lock_by_all_means(kind, rank, assert)
    }

    #[inline(never)]
    fn lock_by_all_means(&self, kind: Lock, rank: u32, assert: Assert) -> Result<(), Error> {
        self.recorded(Kind::Lock, rank, 0, || self.open_lock(kind, rank, assert))
    }

    /// For device layers: locks the rank that was locked last, if its lock is free, where
    /// that is a change of words of the node and nothing else is to be looked at. False,
    /// and nothing is done, where that is not so: [`Access::lock`] is for all cases.
    #[inline(always)]
    pub fn lock_at_once(&self, kind: Lock, rank: u32) -> bool {
        let Some(short) = self.short_lock(rank) else { return false };
        if self.epoch() != Epoch::Closed || self.context().has_lost() {
            return false;
        }
        let acquired = match kind {
            Lock::Exclusive => short.locks.try_exclusive(short.words, short.holder, 0),
            Lock::Shared => short.words.try_acquire(LockMode::Shared, short.holder, 0),
        };
        if acquired.is_ok() {
            self.cold.only.set(Some(kind));
            self.set_closed_epoch(Epoch::Locks);
        }
        acquired.is_ok()
    }

    /// For device layers: releases the only lock, of this rank, where
    /// [`Access::lock_at_once`] took it and nothing is to be waited for. False, and
    /// nothing is done, where that is not so: [`Access::unlock`] is for all cases. Makes
    /// no progress.
    #[inline(always)]
    pub fn unlock_at_once(&self, rank: u32) -> bool {
        let Some(kind) = self.cold.only.get() else { return false };
        let Some(short) = self.short_lock(rank) else { return false };
        if !self.has_only_stores_to(rank) {
            return false;
        }
        // There were only stores.
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        match kind {
            Lock::Exclusive => short.locks.release_exclusive(short.words, short.holder),
            Lock::Shared => short.words.release(LockMode::Shared, short.holder),
        }
        self.cold.only.set(None);
        self.unmark_rank(rank);
        self.set_closed_epoch(Epoch::Closed);
        true
    }

    /// What the short path needs to lock this rank, while no other access of this process
    /// counts locks too.
    #[inline(always)]
    fn short_lock(&self, rank: u32) -> Option<&ShortLock<N>> {
        // SAFETY: changed by the long path alone, which no short one calls.
        let short = unsafe { &*self.cold.short.as_ptr() }.as_ref()?;
        if short.rank != rank {
            return None;
        }
        // SAFETY: the access's own, which it has until the window is freed; that takes
        // what is here along.
        let state = ManuallyDrop::new(unsafe { Arc::from_raw(short.state) });
        let only = Arc::strong_count(&state) == 1;
        // Makes visible what accesses that were dropped have done.
        fence(Ordering::Acquire);
        only.then_some(short)
    }

    /// Moves the lock that the short path took to the others.
    fn list_only(&self) {
        if let (Some(kind), Some(short)) = (self.cold.only.take(), &*self.cold.short.borrow()) {
            self.cold.locks.borrow_mut().push(Held { rank: short.rank, kind, acquired: true });
        }
    }

    fn open_lock(&self, kind: Lock, rank: u32, assert: Assert) -> Result<(), Error> {
        self.may_open("lock", self.epoch() == Epoch::Locks)?;
        self.list_only();
        let target = self.lock_target(rank)?;
        if self.held(rank).is_ok() {
            let remedy = "unlock it first";
            return Err(
                ErrorKind::Epoch { call: "lock", open: "this rank is locked", remedy }.into()
            );
        }
        self.context().check_alive(target.peer)?;
        let acquired = !assert.contains(Assert::NOCHECK);
        if acquired {
            self.acquire_lock(kind, &target)?;
            self.prepare_short(&target)?;
        }
        // Progress may have changed the list.
        let (Ok(at) | Err(at)) = self.held(rank);
        self.cold.locks.borrow_mut().insert(at, Held { rank, kind, acquired });
        self.set_epoch(Epoch::Locks);
        Ok(())
    }

    /// Where a rank's lock is among those held, or would be.
    fn held(&self, rank: u32) -> Result<usize, usize> {
        self.list_only();
        self.cold.locks.borrow().binary_search_by_key(&rank, |held| held.rank)
    }

    fn is_held(&self, rank: u32) -> bool {
        match (self.cold.only.get(), &*self.cold.short.borrow()) {
            (Some(_), Some(short)) => short.rank == rank,
            _ => self.held(rank).is_ok(),
        }
    }

    fn acquire_lock(&self, kind: Lock, target: &LockTarget) -> Result<(), Error> {
        match kind {
            Lock::Shared => self.acquire(target, LockMode::Shared),
            // One word where the members are all on this node.
            Lock::Exclusive if self.state()?.node_locks.is_some() => {
                self.acquire(target, LockMode::Exclusive)
            }
            Lock::Exclusive => {
                let first = self.first()?;
                self.acquire(&first, LockMode::GlobalExclusive)?;
                let given_back = GivenBack(self, first);
                self.acquire(target, LockMode::Exclusive)?;
                std::mem::forget(given_back);
                Ok(())
            }
        }
    }

    /// Keeps what the short path needs to lock this target again.
    fn prepare_short(&self, target: &LockTarget) -> Result<(), Error> {
        // Another thread may have taken that path while this one waited.
        self.list_only();
        let state = self.state()?;
        let usual = !self.is_recorded() && !state.is_derived();
        let holder = Holder { peer: self.context().device().boot().rank(), single_writer: true };
        let short = target.words.zip(state.node_locks).filter(|_| usual);
        let short = short.map(|(words, locks)| ShortLock {
            rank: target.rank,
            words,
            locks,
            holder,
            state: Arc::as_ptr(&state),
        });
        *self.cold.short.borrow_mut() = short;
        Ok(())
    }

    /// Closes the epoch that [`Access::lock`] opened; everything issued to the
    /// rank is done there on return.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] without a lock, [`ErrorKind::Freed`]; a peer that
    /// died or an operation that failed, after which the lock is given back
    /// too.
    #[inline]
    pub fn unlock(&self, rank: u32) -> Result<(), Error> {
        if self.unlock_at_once(rank) {
            // A process that locks again and again must still make progress.
            return self.count_mapped_call(rank);
        }
        self.unlock_by_all_means(rank)
    }

    #[inline(never)]
    fn unlock_by_all_means(&self, rank: u32) -> Result<(), Error> {
        self.recorded(Kind::Unlock, rank, 0, || self.close_lock(rank))
    }

    fn close_lock(&self, rank: u32) -> Result<(), Error> {
        if self.epoch() == Epoch::Freed {
            return Err(ErrorKind::Freed.into());
        }
        let Ok(at) = self.held(rank) else {
            self.process(rank)?;
            let (open, remedy) = ("this rank is not locked", "call lock first");
            return Err(ErrorKind::Epoch { call: "unlock", open, remedy }.into());
        };
        self.context().check_may_wait()?;
        let held = self.cold.locks.borrow()[at];
        let flushed = if self.has_only_stores() {
            // There were only stores, which on x86 the release of the lock
            // orders.
            if !(held.acquired && cfg!(target_arch = "x86_64")) {
                fence(Ordering::SeqCst);
            }
            // A process that locks again and again must still make progress.
            self.count_mapped_call(rank)
        } else {
            self.flush_marked(rank)
        };
        let released = if held.acquired { self.release_lock(held.kind, rank) } else { Ok(()) };
        let at = self.held(rank);
        let mut locks = self.cold.locks.borrow_mut();
        if let Ok(at) = at {
            locks.remove(at);
        }
        if locks.is_empty() {
            // Every rank there are marks of was flushed with its lock.
            self.unmark();
            self.set_epoch(Epoch::Closed);
        }
        drop(locks);
        flushed.and(released)
    }

    fn release_lock(&self, kind: Lock, rank: u32) -> Result<(), Error> {
        let target = self.lock_target(rank)?;
        match kind {
            Lock::Shared => self.release(&target, LockMode::Shared),
            Lock::Exclusive if self.state()?.node_locks.is_some() => {
                self.release(&target, LockMode::Exclusive)
            }
            Lock::Exclusive => {
                let released = self.release(&target, LockMode::Exclusive);
                released.and(self.release(&self.first()?, LockMode::GlobalExclusive))
            }
        }
    }

    /// Opens a passive access epoch to all ranks: shared locks. Not
    /// collective.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] when one is open with operations in it,
    /// [`ErrorKind::Freed`]; a peer that died while it held an exclusive lock;
    /// [`ErrorKind::Arguments`] where the first member cannot be asked, since its
    /// provider has no messages: others could lock exclusively meanwhile. With
    /// [`Assert::NOCHECK`] nobody is asked.
    pub fn lock_all(&self) -> Result<(), Error> {
        self.lock_all_with(Assert::NONE)
    }

    /// [`Access::lock_all`] with promises.
    ///
    /// # Errors
    /// As [`Access::lock_all`].
    pub fn lock_all_with(&self, assert: Assert) -> Result<(), Error> {
        self.recorded_all(Kind::LockAll, || self.open_all(assert))
    }

    fn open_all(&self, assert: Assert) -> Result<(), Error> {
        self.may_open("lock_all", false)?;
        let lock_word = !assert.contains(Assert::NOCHECK);
        if lock_word {
            self.acquire(&self.first()?, LockMode::GlobalShared)?;
        }
        self.cold.all.set(lock_word);
        self.set_epoch(Epoch::LockAll);
        Ok(())
    }

    /// Closes the epoch that lock_all opened; everything issued in it is done
    /// at the targets on return.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] without lock_all, [`ErrorKind::Freed`]; a peer that
    /// died or an operation that failed, after which the epoch is closed too.
    pub fn unlock_all(&self) -> Result<(), Error> {
        self.recorded_all(Kind::UnlockAll, || self.close_all())
    }

    fn close_all(&self) -> Result<(), Error> {
        match self.epoch() {
            Epoch::Freed => Err(ErrorKind::Freed.into()),
            Epoch::LockAll => {
                self.context().check_may_wait()?;
                let flushed = self.flush_dirty();
                let first = self.first()?;
                let released = if self.cold.all.take() {
                    self.release(&first, LockMode::GlobalShared)
                } else {
                    Ok(())
                };
                self.set_epoch(Epoch::Closed);
                flushed.and(released)
            }
            Epoch::Closed | Epoch::Fence | Epoch::Locks | Epoch::Start => {
                let (open, remedy) = ("no lock_all epoch is open", "call lock_all first");
                Err(ErrorKind::Epoch { call: "unlock_all", open, remedy }.into())
            }
        }
    }

    /// Makes this process's own stores to its memory and those of peers into
    /// it visible to each other (MPI_Win_sync).
    ///
    /// # Errors
    /// [`ErrorKind::Freed`]; what breaks the completion queue.
    pub fn sync(&self) -> Result<(), Error> {
        self.recorded_all(Kind::Sync, || {
            self.state()?;
            fence(Ordering::SeqCst);
            self.context().progress()?;
            fence(Ordering::SeqCst);
            Ok(())
        })
    }

    /// Refuses to open an epoch within another, unless that is `allowed`.
    pub(super) fn may_open(&self, call: &'static str, allowed: bool) -> Result<(), Error> {
        let (open, remedy) = match self.epoch() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::Closed => return Ok(()),
            Epoch::Fence if self.dirty() => {
                ("a fence epoch with operations in it", "close it with fence first")
            }
            Epoch::Fence => return Ok(()),
            _ if allowed => return Ok(()),
            Epoch::LockAll => ("lock_all", "call unlock_all first"),
            Epoch::Locks => ("ranks are locked", "unlock them first"),
            Epoch::Start => ("a start epoch is open", "call complete first"),
        };
        Err(ErrorKind::Epoch { call, open, remedy }.into())
    }

    /// Whether the open epoch of single ranks reaches a rank.
    #[cold]
    pub(super) fn check_in_epoch(&self, rank: u32) -> Result<(), Error> {
        let (there, remedy) = match self.epoch() {
            Epoch::Start => {
                (self.cold.group.borrow().binary_search(&rank).is_ok(), "name it in start")
            }
            _ => (self.is_held(rank), "lock it, or call lock_all"),
        };
        if there { Ok(()) } else { Err(ErrorKind::NotInEpoch { rank, remedy }.into()) }
    }

    /// The process that keeps the lock word of a rank.
    #[inline]
    fn lock_target(&self, rank: u32) -> Result<LockTarget, Error> {
        match self.cold.lock_targets[0].get() {
            Some(target) if target.rank == rank => Ok(target),
            _ => self.find_lock_target(0, rank, self.world_rank(rank)?),
        }
    }

    /// The first member, which keeps the word for locks on all ranks.
    #[inline]
    fn first(&self) -> Result<LockTarget, Error> {
        match self.cold.lock_targets[1].get() {
            Some(target) => Ok(target),
            None => self.find_lock_target(1, NO_RANK, self.state()?.master),
        }
    }

    #[cold]
    fn find_lock_target(&self, place: usize, rank: u32, peer: u32) -> Result<LockTarget, Error> {
        let target = LockTarget { rank, peer, words: self.words(peer)? };
        self.cold.lock_targets[place].set(Some(target));
        Ok(target)
    }

    /// The lock words of a world rank's region, where they are mapped.
    fn words(&self, peer: u32) -> Result<Option<LockHandle>, Error> {
        let state = self.state()?;
        let device = self.context().device();
        if peer == device.boot().rank() {
            return Ok(Some(state.exposed_region.lock_handle()?));
        }
        let node_rank = device.node_rank(peer).filter(|_| device.on_node(peer));
        Ok(state.node_words.zip(node_rank).map(|(words, n)| words.lock(n)))
    }

    #[inline]
    fn is_own(&self, peer: u32) -> bool {
        peer == self.context().device().boot().rank()
    }

    /// This process as a holder of locks.
    #[inline]
    fn holder(&self) -> Holder {
        // Every access of this process holds the state. Others are made from
        // this one only, so none appears meanwhile; the fence makes visible what
        // those that were dropped have done.
        let only =
            |state: &Arc<WindowState<N>>| Arc::strong_count(state) == 1 && !state.is_derived();
        let state = self.state.borrow();
        let single_writer = state.as_ref().is_some_and(only);
        fence(Ordering::Acquire);
        let own = self.context().device().boot().rank();
        let peer = state.as_ref().and_then(|state| state.exposed_region.holder_of(own));
        Holder { peer: peer.unwrap_or(NO_RANK), single_writer }
    }

    /// Takes a lock; waits for it as long as its holder lives.
    #[inline]
    fn acquire(&self, target: &LockTarget, mode: LockMode) -> Result<(), Error> {
        let context = self.context();
        context.check_alive(target.peer)?;
        let me = self.holder();
        // Requests that came by packets are served first.
        let waits = self.is_own(target.peer) && self.cold.rma_handler.has_waiters();
        if let Some(lock) = target.words.filter(|_| !waits)
            && self.try_words(lock, mode, me, 0)?.is_ok()
        {
            return Ok(());
        }
        self.acquire_slowly(target, mode)
    }

    #[cold]
    #[inline(never)]
    fn acquire_slowly(
        &self,
        &LockTarget { peer, words, .. }: &LockTarget,
        mode: LockMode,
    ) -> Result<(), Error> {
        let context = self.context();
        // (One that is asked for by a packet would be granted to nobody.)
        context.check_may_wait()?;
        let me = self.holder();
        let (mut round, mut looks) = (0_u32, 0);
        let begun = Instant::now();
        let mut checked = begun;
        loop {
            context.check_alive(peer)?;
            let due = checked.elapsed() > LIVENESS_INTERVAL;
            let look = due || round % 16 == 15;
            looks += u32::from(look);
            let look = if look { looks } else { 0 };
            let waits = self.is_own(peer)
                && self.cold.rma_handler.has_waiters_for(self.borrowed_state()?.exposed_region.id);
            let acquired = match &words {
                // Requests that came by packets are served first.
                Some(_) if waits && look == 0 => Err(NO_RANK),
                Some(lock) => self.try_words(*lock, mode, me, look)?,
                None => self.acquire_by_packet(peer, mode, look)?,
            };
            let Err(holder) = acquired else { return Ok(()) };
            let holder = self.borrowed_state()?.exposed_region.peer_of_holder(holder);
            let about = [peer, if holder == NO_RANK { peer } else { holder }];
            context.check_liveness(&about)?;
            if due {
                checked = Instant::now();
                for rank in about {
                    if context.has_left(rank, begun.elapsed())? {
                        return Err(DeviceError::PeerDied { rank }.into());
                    }
                }
            }
            // Exponential backoff, so that many waiters do not slow the holder
            // down.
            for _ in 0..1_u32 << round.min(6) {
                context.progress()?;
            }
            context.run_progress_hook();
            if round > 4 {
                std::thread::yield_now();
            }
            if round > 64 {
                std::thread::sleep(Duration::from_micros(20));
            }
            round = round.wrapping_add(1);
        }
    }

    /// Takes a lock by its words, or returns a holder: [`NO_RANK`] where none is known.
    #[inline]
    fn try_words(
        &self,
        lock: LockHandle,
        mode: LockMode,
        me: Holder,
        look: u32,
    ) -> Result<Result<(), u32>, Error> {
        let state = self.state()?;
        Ok(match (mode, state.node_locks) {
            (LockMode::Exclusive, Some(locks)) => locks.try_exclusive(lock, me, look),
            (LockMode::GlobalShared, Some(locks)) => {
                locks.try_all(me, look).map_err(|blocker| match blocker {
                    Blocker::Peer(peer) => peer,
                    Blocker::OnNode(rank) => self.peer_of_node_rank(rank),
                })
            }
            _ => lock.try_acquire(mode, me, look),
        })
    }

    /// The rank in the job of another process of this node; [`NO_RANK`] for none.
    #[cold]
    fn peer_of_node_rank(&self, rank: u32) -> u32 {
        let device = self.context().device();
        let is =
            |peer: &u32| *peer != device.boot().rank() && device.node_rank(*peer) == Some(rank);
        device.node_peers().iter().map(|it| it.lpid).find(is).unwrap_or(NO_RANK)
    }

    fn acquire_by_packet(
        &self,
        peer: u32,
        mode: LockMode,
        look: u32,
    ) -> Result<Result<(), u32>, Error> {
        let answer = Rc::new(Answer::default());
        let place = mode as u64 | u64::from(look) << 8;
        // SAFETY: no result.
        unsafe { self.request_lock(peer, opcode::LOCK, place, &answer)? };
        match self.await_answer(peer, &answer)? {
            (Status::Done, _) => Ok(Ok(())),
            (Status::Busy, holder) => Ok(Err(holder as u32)),
            (status, _) => Err(self.refused(peer, status)),
        }
    }

    /// # Safety
    /// None: there is no result, of which alone [`RmaHandler::request`] speaks.
    unsafe fn request_lock(
        &self,
        peer: u32,
        opcode: u8,
        place: u64,
        answer: &Rc<Answer>,
    ) -> Result<(), Error> {
        self.request_limit(peer)?;
        let request = Request {
            opcode,
            window: self.borrowed_state()?.exposed_region.id,
            place,
            count: 0,
            ty: Type::U8,
            op: Op::NoOp,
            body: &[],
            result: (std::ptr::null_mut(), 0),
            into: None,
            answer: Some(Rc::clone(answer)),
        };
        // SAFETY: no result, of which alone [INTO] speaks.
        unsafe {
            self.cold.rma_handler.request(self.context(), peer, &self.cold.outstanding, request)
        }
    }

    /// Gives a lock back.
    #[inline]
    fn release(&self, target: &LockTarget, mode: LockMode) -> Result<(), Error> {
        let context = self.context();
        if let Some(lock) = target.words {
            match (mode, self.state()?.node_locks) {
                (LockMode::Exclusive, Some(locks)) => locks.release_exclusive(lock, self.holder()),
                _ => lock.release(mode, self.holder()),
            }
            self.cold.rma_handler.grant(context);
            return Ok(());
        }
        self.cold.rma_handler.notify(
            context,
            target.peer,
            opcode::UNLOCK,
            self.borrowed_state()?.exposed_region.id,
            mode as u64,
        )
    }

    /// Gives all locks back without a flush.
    #[cold]
    fn give_back_locks(&self) {
        fence(Ordering::SeqCst);
        self.list_only();
        // (An error is of a peer that died, and waits for nothing.)
        for held in self.cold.locks.take().into_iter().filter(|held| held.acquired) {
            let _ = self.release_lock(held.kind, held.rank);
        }
        if self.cold.all.take() {
            let _ = self.first().and_then(|first| self.release(&first, LockMode::GlobalShared));
        }
    }
}

/// The first member's word, which goes back where the target's is not had, also for a handler's panic.
struct GivenBack<'a, N: Netmod>(&'a Access<N>, LockTarget);

impl<N: Netmod> Drop for GivenBack<'_, N> {
    fn drop(&mut self) {
        let _ = self.0.release(&self.1, LockMode::GlobalExclusive);
    }
}

impl<N: Netmod> Drop for Access<N> {
    /// Gives back the locks of an epoch that is still open: others wait for them while this
    /// process lives.
    fn drop(&mut self) {
        if matches!(self.epoch(), Epoch::Locks | Epoch::LockAll) {
            self.give_back_locks();
        }
    }
}
