//! The flush: waiting until what was issued is done.

use super::{ASKED, Access, INJECTED, MARKS, TRACKED, path};
use crate::device::{DeviceError, PROBE, Progress, Token};
use crate::netmod::{Iov, Netmod, PENDING};
use crate::rankmap::{Model, Process};
use crate::rma::Error;
use crate::rma::types::{Remote, Target};
use crate::track::Kind;
use std::collections::HashSet;
use std::sync::atomic::{Ordering, fence};

/// A rank and its mark.
type MarkedRank = (u32, u8);

impl<N: Netmod> Access<N> {
    /// Waits until everything put or got on this access with `rank` is done at
    /// the target.
    ///
    /// # Errors
    /// A peer that died or an operation that failed, by name.
    pub fn flush(&self, rank: u32) -> Result<(), Error> {
        self.recorded(Kind::Flush, rank, 0, || self.flush_rank(rank))
    }

    /// [`Access::flush`], of which nothing is recorded.
    pub(in crate::rma) fn flush_rank(&self, rank: u32) -> Result<(), Error> {
        self.check_rank(rank)?;
        self.flush_one(self.marked_rank(rank))
    }

    /// [`Access::flush_rank`] that asks the target only if something was issued to it.
    pub(in crate::rma) fn flush_marked(&self, rank: u32) -> Result<(), Error> {
        if self.marked_rank(rank).1 != 0 {
            return self.flush_rank(rank);
        }
        fence(Ordering::SeqCst);
        self.drain(&[self.world_rank(rank)?])
    }

    /// Waits until everything issued on this access is done at the targets.
    ///
    /// # Errors
    /// As [`Access::flush`]. Where the map has more than 256 ranks, the peer
    /// named may be one that died and was not put to since the last flush, but was
    /// spoken to before: ranks that are equal modulo 256 share a mark.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.recorded_all(Kind::FlushAll, || {
            self.check_open()?;
            self.flush_dirty()
        })
    }

    /// Waits until the buffers of operations with `rank` may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local(&self, rank: u32) -> Result<(), Error> {
        self.recorded(Kind::FlushLocal, rank, 0, || {
            self.check_rank(rank)?;
            let peer = self.world_rank(rank)?;
            self.finish_flush(&[peer], Ok(false))
        })
    }

    /// Waits until the buffers of all operations may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local_all(&self) -> Result<(), Error> {
        self.recorded_all(Kind::FlushLocalAll, || {
            self.check_open()?;
            self.drain(&[])
        })
    }

    pub(in crate::rma) fn flush_dirty(&self) -> Result<(), Error> {
        self.context.check_may_wait()?;
        let ranks = self.marked();
        self.flush_ranks(&ranks)?;
        self.drain(&[])
    }

    /// The ranks that may have been issued to since the last flush: those of all marks;
    /// where ranks share marks, of those the ranks that have an entry, if these can be told.
    fn marked(&self) -> Vec<MarkedRank> {
        let with_mark = |rank| self.marked_rank(rank);
        let shared = self.ranks as usize > MARKS;
        if let Some(inserted) = shared.then(|| self.inserted()).flatten() {
            return inserted.map(with_mark).filter(|(_, mark)| *mark != 0).collect();
        }
        let marks = 0..self.ranks.min(MARKS as u32);
        let marked = marks.map(with_mark).filter(|(_, mark)| *mark != 0);
        marked
            .flat_map(|(first, mark)| {
                (first..self.ranks).step_by(MARKS).map(move |rank| (rank, mark))
            })
            .collect()
    }

    /// A rank with its mark. Views leave none: with them any rank may have been put to.
    fn marked_rank(&self, rank: u32) -> MarkedRank {
        (rank, if self.viewed.get() { INJECTED } else { self.mark_of(rank).get() })
    }

    /// The ranks that have an entry; nothing was issued to the others. `None` where not
    /// all that is issued needs one, or where to find ranks by process takes an index.
    fn inserted(&self) -> Option<impl Iterator<Item = u32> + use<'_, N>> {
        let stored = self.own_path == path::MAPPED
            || self.borrowed_state().ok()?.mapped.is_some_and(|m| m.all || N::KEY_HANDLES);
        // (A packet makes an entry of the world's, as `first_route` has it.)
        let pg = self.map.pg().filter(|&pg| pg == 0 && !stored)?;
        let formula = self.map.model() < Model::Segments;
        let distinct = || *self.cold.distinct.get_or_init(|| self.map.duplicate().is_none());
        let lpids = (formula && distinct()).then(|| self.context.av().inserted(pg))??;
        Some(lpids.into_iter().filter_map(move |lpid| self.map.rank_of(Process { pg, lpid })))
    }

    /// [`Access::flush_dirty`] where only these ranks could be put to.
    pub(in crate::rma) fn flush_group(&self, group: &[u32]) -> Result<(), Error> {
        let ranks = group.iter().map(|&rank| self.marked_rank(rank));
        let ranks: Vec<_> = ranks.filter(|(_, mark)| *mark != 0).collect();
        self.flush_ranks(&ranks)?;
        self.drain(&[])
    }

    /// [`Access::flush_ranks`] of one, whose mark stays where that fails.
    fn flush_one(&self, marked: MarkedRank) -> Result<(), Error> {
        fence(Ordering::SeqCst);
        let (rank, mark) = marked;
        let peer = self.world_rank(rank)?;
        let token = self.probe_completion(marked, None);
        // What is put from now on, by the progress hook or another thread, is not behind the probe.
        let unmarks = token.is_ok() && self.ranks as usize <= MARKS && !self.viewed.get();
        if unmarks {
            self.unmark_rank(rank);
        }
        let answered = match token {
            Ok(Some(token)) => self.await_token(token, peer).map(|()| true),
            Ok(None) => Ok(false),
            Err(e) => Err(e),
        };
        let flushed = self.finish_flush(&[peer], answered);
        if unmarks && flushed.is_err() {
            let again = self.mark_of(rank);
            again.set(again.get() | mark);
        }
        flushed
    }

    /// Until [`Access::marks_are_asked`] whoever else flushes asks the marked ranks too.
    fn ask_marks(&self) {
        let flushes = &self.cold.flushes_that_ask;
        flushes.set(flushes.get() + 1);
        let marked = self.marks.iter().filter(|mark| mark.get() != 0);
        marked.for_each(|mark| mark.set(ASKED));
    }

    fn marks_are_asked(&self) {
        let flushes = &self.cold.flushes_that_ask;
        flushes.set(flushes.get() - 1);
        if flushes.get() == 0 {
            self.marks.iter().for_each(|mark| mark.set(mark.get() & !ASKED));
        }
    }

    /// Reads back from every rank that was put to: the answer comes behind the
    /// puts. All reads are in flight together, and after a failure the others
    /// are still waited for.
    fn flush_ranks(&self, ranks: &[MarkedRank]) -> Result<(), Error> {
        // Stores into mapped regions are visible to every process that learns of
        // this flush.
        fence(Ordering::SeqCst);
        self.ask_marks();
        let peers = ranks.iter().map(|&(rank, _)| self.world_rank(rank)).collect();
        // The only early return: below, all probes are waited for.
        let peers: Vec<u32> = match peers {
            Ok(peers) => peers,
            Err(e) => {
                self.marks_are_asked();
                return Err(e);
            }
        };
        let mut probes = Vec::new();
        let mut answered = Ok(false);
        // Ranks of one process need one probe; ranks of a window that is not
        // uniform are all different processes.
        let mut seen = HashSet::new();
        for (&marked, &peer) in ranks.iter().zip(&peers) {
            match self.probe_completion(marked, Some(&mut seen)) {
                Ok(token) => probes.extend(token.map(|token| (token, peer))),
                Err(e) => answered = answered.and(Err(e)),
            }
        }
        self.marks_are_asked();
        for (token, peer) in probes {
            let answer = self.await_token(token, peer).map(|()| true);
            answered = answered.and(answer);
        }
        self.finish_flush(&peers, answered)
    }

    /// The end of a flush, all of whose probes were waited for: whether any was `answered`,
    /// or the first error.
    fn finish_flush(&self, peers: &[u32], answered: Result<bool, Error>) -> Result<(), Error> {
        let elsewhere = |e: &Error| e.peer().is_some_and(|dead| !peers.contains(&dead));
        let drained = match &answered {
            // A death holds back what goes to the living, and so the rest of it.
            Err(e) if elsewhere(e) => self.end_drain(peers, None, true),
            answered => self.drain_more(peers, matches!(answered, Ok(true))),
        };
        // (The only one, that has just answered, is alive.)
        let waited = peers.len() == 1 && matches!((&answered, &drained), (Ok(_), Ok(true)));
        let alive = waited && self.context.device().dead_are_silent();
        if !alive && let Err(e) = self.context.check_liveness(peers) {
            // The death of a peer may have caused the other errors.
            return Err(e.into());
        }
        answered.and(drained).map(drop)
    }

    /// Issues an operation that completes when all earlier ones to a rank are
    /// done there; `None` where there is nothing to wait for, also since the process was
    /// `seen` before.
    fn probe_completion(
        &self,
        (rank, mark): MarkedRank,
        seen: Option<&mut HashSet<(u8, u64)>>,
    ) -> Result<Option<Token>, Error> {
        // On some paths there were only stores, or packets.
        if mark == 0 || matches!(self.own_path, path::MAPPED | path::PACKETS) {
            return Ok(None);
        }
        let remote = match self.target_again(rank, 0) {
            Some(remote) => remote,
            None if !self.is_used(rank) => return Ok(None),
            None => match self.target_at(rank, 0, self.process(rank)?)? {
                Target::Provider(remote) => remote,
                _ => return Ok(None),
            },
        };
        let netmod = self.endpoint(&remote)?.0;
        if mark == TRACKED && netmod.caps().delivers {
            return Ok(None);
        }
        if seen.is_some_and(|seen| !seen.insert((remote.transport as u8, remote.dest))) {
            return Ok(None);
        }
        if netmod.flushes() {
            return self.probe_by_flush(&remote);
        }
        let len = self.borrowed_state()?.sizes.get(rank).min(PROBE as u64) as usize;
        let probe = [Iov { buf: self.context.probe_buffer(), len, addr: remote.addr }];
        // SAFETY: the buffer stays if an answer does not come.
        unsafe { self.transfer(&remote, &probe, false, true) }.map(Some)
    }

    /// Returns false for a rank to which nothing was ever issued through a provider.
    fn is_used(&self, rank: u32) -> bool {
        if N::KEY_HANDLES {
            self.remote_key(rank).key().is_some()
        } else {
            !self.entry(rank).is_empty()
        }
    }

    /// Probes by the netmod's own flush.
    fn probe_by_flush(&self, remote: &Remote) -> Result<Option<Token>, Error> {
        let token = self.context.token(remote.peer);
        let mut pending = false;
        self.issue_with_retry(remote, N::CALLS.flush, |netmod, endpoint| {
            // SAFETY: `dest` is of this context's own address vector.
            let rc = unsafe { netmod.flush(endpoint, remote.dest, token.bits()) };
            pending = rc == PENDING;
            if pending { 0 } else { rc }
        })?;
        if pending {
            self.context.issued(token, true);
        }
        Ok(pending.then_some(token))
    }

    /// Waits for tracked operations and reports those that failed: towards
    /// `peers`, or anybody when that is empty. A peer that dies meanwhile
    /// does not end the wait for the others.
    pub(in crate::rma) fn drain(&self, peers: &[u32]) -> Result<(), Error> {
        self.drain_more(peers, false).map(drop)
    }

    /// [`Access::drain`], which makes progress in any case, but where the caller has just
    /// waited (`waited`). Returns whether either has.
    fn drain_more(&self, peers: &[u32], waited: bool) -> Result<bool, Error> {
        let busy = self.is_busy(peers);
        let died = if busy { self.wait_for(peers)? } else { None };
        let waited = waited || busy;
        if !waited {
            self.context.progress()?;
        }
        self.end_drain(peers, died, waited)
    }

    /// Returns `waited`, or what failed meanwhile.
    fn end_drain(
        &self,
        peers: &[u32],
        died: Option<DeviceError>,
        waited: bool,
    ) -> Result<bool, Error> {
        let (context, outstanding) = (&*self.context, &self.cold.outstanding);
        let listener = self.cold.failure_listener;
        let failure = died.or_else(|| match peers {
            [] => context.take_failure(listener, |peer| self.is_member(peer)),
            peers => peers.iter().find_map(|&w| context.take_failure_of(listener, w)),
        });
        let refused = outstanding.take_refused(peers);
        let refused = refused.map(|(peer, status)| self.refused(peer, status));
        let result = failure.map(|e| self.failed(e)).or(refused).map_or(Ok(waited), Err);
        self.cold.unstage(result.is_ok(), |peer| context.has_pending(&[peer]));
        result
    }

    /// Returns true if operations towards `peers`, anybody when that is empty, are under way.
    #[inline]
    fn is_busy(&self, peers: &[u32]) -> bool {
        self.context.has_pending(peers) || self.cold.outstanding.has_pending(peers)
    }

    /// Waits for what is under way towards `peers`. Returns the first death among the members:
    /// operations towards that one are not waited for any more.
    #[inline(never)]
    fn wait_for(&self, peers: &[u32]) -> Result<Option<DeviceError>, Error> {
        let mut died = None;
        loop {
            let mut all = Vec::new();
            let pending = match peers {
                [_] => peers,
                _ => {
                    all.extend(self.context.pending(peers));
                    all.extend(self.cold.outstanding.pending(peers));
                    &all[..]
                }
            };
            let ended = self.context.wait(pending, || {
                Ok(if self.is_busy(pending) { Progress::Waiting } else { Progress::Done })
            });
            match ended {
                Ok(()) => {}
                Err(DeviceError::PeerDied { rank }) if pending.contains(&rank) => {
                    // (Of another window's what is under way on the context is waited for, too.)
                    if self.is_member(rank) {
                        died.get_or_insert(DeviceError::PeerDied { rank });
                    }
                }
                Err(e) => return Err(e.into()),
            }
            if !self.is_busy(peers) {
                return Ok(died);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::alone::Alone;
    use crate::boot::simulated::Simulated;
    use crate::datatype::{Basic, Layout};
    use crate::device::{Context, Device, FRAGMENT};
    use crate::netmod::null::Null;
    use crate::netmod::{Caps, Completion, HEAD, NetError, OpenParams, Providers, Transfer};
    use crate::rankmap::RankMap;
    use crate::rma::{Assert, Communicator, Window};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::atomic::AtomicU32;
    use std::sync::{Arc, Mutex};

    /// A network that holds reads back and fails whoever asks for their end, or, without
    /// a place to note them, fails the second operation.
    struct Held {
        caps: Caps,
        reads: Option<Reads>,
        /// Polls before the others end.
        polls: AtomicU32,
        /// Tokens of what is not held back, and how many have ended.
        others: Mutex<(Vec<u64>, u32)>,
    }

    /// Where held reads may write, and how much.
    type Reads = Arc<Mutex<Vec<(usize, usize)>>>;

    impl Held {
        fn open(reads: Option<Reads>) -> Rc<Context<Held>> {
            Held::open_late(reads, 0)
        }

        fn open_late(reads: Option<Reads>, polls: u32) -> Rc<Context<Held>> {
            let caps = Caps { inject_size: 64, delivers: true, ..Caps::none("held") };
            let held = Held { caps, reads, polls: polls.into(), others: Mutex::default() };
            let boot = Arc::new(Alone::new().unwrap());
            Device::open(boot, Some(Arc::new(held)), None, false).unwrap()
        }

        fn error(&self, call: &'static str, text: &str) -> NetError {
            NetError::Call { provider: "held".into(), call, code: -5, text: text.to_owned() }
        }
    }

    impl Netmod for Held {
        type Endpoint = ();
        type InjectHandle = ();
        type Region = u64;

        const NAME: &'static str = "held";

        fn open_providers(_: &OpenParams) -> Result<Providers<Self>, NetError> {
            Err(NetError::Library("made by the test".to_owned()))
        }

        fn caps(&self) -> &Caps {
            &self.caps
        }

        fn open_endpoint(self: &Arc<Self>) -> Result<(), NetError> {
            Ok(())
        }

        fn address(&self, (): &()) -> Result<Vec<u8>, NetError> {
            Ok(b"held".to_vec())
        }

        fn insert(&self, (): &(), _: &[u8]) -> Result<u64, NetError> {
            Ok(0)
        }

        unsafe fn register(
            self: &Arc<Self>,
            (): &(),
            _: *mut u8,
            _: usize,
            key: u64,
        ) -> Result<u64, NetError> {
            Ok(key)
        }

        fn key(&self, region: &u64) -> u64 {
            *region
        }

        fn inject_handle((): &()) {}

        unsafe fn inject((): (), _: *const u8, _: usize, _: u64, _: u64, _: u64) -> isize {
            0
        }

        unsafe fn write(&self, (): &(), op: Transfer<*const u8>) -> isize {
            self.others.lock().unwrap().0.push(op.token);
            0
        }

        unsafe fn read(&self, (): &(), op: Transfer<*mut u8>) -> isize {
            match &self.reads {
                Some(reads) => reads.lock().unwrap().push((op.buf.expose_provenance(), op.len)),
                None => self.others.lock().unwrap().0.push(op.token),
            }
            0
        }

        fn poll(
            &self,
            (): &(),
            mut complete: impl FnMut(Completion),
            _: impl FnMut(&[u8; HEAD], &[u8]),
        ) -> Result<bool, NetError> {
            let (tokens, ended) = &mut *self.others.lock().unwrap();
            let polls = self.polls.load(Ordering::Relaxed);
            if polls > 0 && !tokens.is_empty() {
                self.polls.store(polls - 1, Ordering::Relaxed);
                return Ok(false);
            }
            for token in tokens.drain(..) {
                *ended += 1;
                let failed = (*ended == 2).then(|| self.error("write", "it failed"));
                complete(Completion { token, result: failed.map_or(Ok(()), Err) });
            }
            match &self.reads {
                Some(reads) if !reads.lock().unwrap().is_empty() => Err(self.explain("poll", -5)),
                _ => Ok(false),
            }
        }

        fn explain(&self, call: &'static str, _: isize) -> NetError {
            self.error(call, "a read is held back")
        }
    }

    /// A flush that fails while its probes are under way leaves what they read
    /// into where it is, and so do the ends of the window and of the context.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_flush_that_fails_leaves_the_memory_of_its_probes() {
        let reads = Reads::default();
        let context = Held::open(Some(Arc::clone(&reads)));
        let world = Communicator::world(&context);
        let mut memory = [0_u64; 8];
        // SAFETY: the memory outlives the window.
        let window = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 1) }.unwrap();
        window.lock_all().unwrap();
        window.put(&[1; 8], 0, 0).unwrap();
        let error = window.flush_all().unwrap_err();
        assert!(error.to_string().contains("held back"), "{error}");
        drop(window);
        drop((world, context));
        let reads = std::mem::take(&mut *reads.lock().unwrap());
        assert!(!reads.is_empty(), "no probe was sent");
        for (at, len) in reads {
            let others: Vec<_> = (0..256).map(|_| Box::new([0_u8; crate::device::PROBE])).collect();
            for other in &others {
                let start = other.as_ptr().addr();
                assert!(start + other.len() <= at || at + len <= start, "it was given away");
            }
            // SAFETY: what is under test: a read may end late. (AddressSanitizer
            // would say what the addresses do not.)
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0xa5, len) };
            drop(others);
        }
    }

    /// A put that completes is not asked for where the provider delivers; one that gives
    /// no completion is, also beside it.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_flush_asks_for_what_does_not_complete() {
        let reads = Reads::default();
        let context = Held::open(Some(Arc::clone(&reads)));
        let world = Communicator::world(&context);
        let mut memory = [0_u64; 64];
        // SAFETY: the memory outlives the window.
        let window = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 512, 1) }.unwrap();
        window.lock_all().unwrap();
        window.put(&[1; 65], 0, 0).unwrap();
        assert_eq!(window.marked(), [(0, TRACKED)]);
        window.flush(0).unwrap();
        assert!(reads.lock().unwrap().is_empty());
        window.mark(0);
        window.put(&[1; 8], 0, 0).unwrap();
        assert_eq!(window.marked(), [(0, INJECTED)]);
        window.flush(0).unwrap_err();
        assert_eq!(reads.lock().unwrap().len(), 1);
        assert_eq!(window.marked(), [(0, INJECTED)], "a flush that failed took it away");
    }

    /// What one rank's flush has told, the next need not ask; where ranks share a mark it
    /// may be another's.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_flush_of_a_rank_takes_its_own_mark_away() {
        let put_and_flush = |ranks: u32, rank: u32| {
            let access = of_many(&RankMap::direct(ranks));
            access.lock_all_with(Assert::NOCHECK).unwrap();
            access.put(&[1; 8], rank, 0).unwrap();
            access.put(&[1; 8], 7, 0).unwrap();
            access.flush(rank).unwrap();
            access.marked().into_iter().map(|(rank, _)| rank).collect::<HashSet<_>>()
        };
        assert_eq!(put_and_flush(256, 255), HashSet::from([7]));
        assert_eq!(put_and_flush(257, 256), HashSet::from([7, 256]));
    }

    /// One process of a job of 100,000 that never speaks to anybody: the window is its
    /// own, and seen as one of all.
    fn of_many(map: &RankMap) -> Access<Null> {
        let boot = Arc::new(Simulated::new(100_000, 9, 16).unwrap());
        let context = Device::open(boot, Some(Null::open()), None, false).unwrap();
        let own = RankMap::affine(0, 9, 1, 1).unwrap();
        let own = Communicator::with_id(&context, own, 0, 5);
        let memory = Box::leak(Box::new([0_u64; 8]));
        // SAFETY: the memory stays.
        let window = unsafe { Window::create(&own, memory.as_mut_ptr().cast(), 64, 8) }.unwrap();
        Access::open(&window.state().unwrap(), &context, map).unwrap()
    }

    /// Of the ranks that share a mark with one that was put to, a flush of all asks
    /// those that this process ever spoke to, whatever the map's formula.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_flush_of_all_asks_nobody_it_never_spoke_to() {
        let in_eights = (0..50_000_u32).map(|r| r / 8 * 16 + r % 8);
        for map in [
            RankMap::direct(100_000),
            RankMap::affine(0, 99_999, -2, 50_000).unwrap(),
            RankMap::from_lpids(0, in_eights).unwrap(),
        ] {
            let access = of_many(&map);
            access.lock_all_with(Assert::NOCHECK).unwrap();
            let put =
                |ranks: &[u32]| ranks.iter().for_each(|&r| access.put(&[1; 8], r, 0).unwrap());
            let marked = || access.marked().into_iter().map(|(rank, _)| rank).collect::<Vec<_>>();
            put(&[5, 40_000, 261, 1_000]);
            assert_eq!(marked(), [5, 40_000, 261, 1_000]);
            access.flush_all().unwrap();
            put(&[261]);
            assert_eq!(marked(), [5, 261], "{:?}", map.model());
            access.flush_all().unwrap();
            assert!(access.marked().is_empty());
        }
        // Ranks of one process, and maps whose inverse takes an index: all of the mark.
        for map in [
            RankMap::affine(0, 7, 0, 600).unwrap(),
            RankMap::from_lpids(0, (0..600).map(|r| r * r % 601)).unwrap(),
        ] {
            let access = of_many(&map);
            access.lock_all_with(Assert::NOCHECK).unwrap();
            access.put(&[1; 8], 300, 0).unwrap();
            let marked = access.marked();
            assert_eq!(marked, [44, 300, 556].map(|r| (r, INJECTED)), "{:?}", map.model());
        }
    }

    /// An operation that failed before anybody asked, and whose answer nobody asks
    /// for any more, fails the flush.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn what_failed_unasked_fails_the_flush() {
        const LONG: usize = 6 * FRAGMENT;
        let put = |start: &dyn Fn(&Access<Held>)| {
            let context = Held::open(None);
            let world = Communicator::world(&context);
            let mut memory = vec![0_u64; LONG / 8];
            let memory = memory.as_mut_ptr().cast();
            // SAFETY: the memory outlives the window.
            let window = unsafe { Window::create(&world, memory, LONG, 1) }.unwrap();
            window.lock_all().unwrap();
            start(&window);
            let error = window.flush_all().unwrap_err();
            assert!(error.to_string().contains("it failed"), "{error}");
        };
        let bytes = [7_u8; 256];
        put(&|access| {
            // SAFETY: the network of this test never reads.
            let [first, second] =
                [0, 1].map(|_| unsafe { access.rput(bytes.as_ptr(), 256, 0, 0) }.unwrap());
            access.context().progress().unwrap();
            first.wait().unwrap();
            drop(second);
        });
        // The first fragment is waited for, to make space for the fourth; the second has
        // failed by then.
        let (element, count) = (Layout::basic(Basic::F64), 4 * FRAGMENT as u64 / 8);
        let from = Layout::vector(count, 1, 2, &element).unwrap();
        let to = Layout::contiguous(count, &element).unwrap();
        let memory = vec![7_u8; 2 * LONG];
        put(&|access| access.put_layout(&memory, 0, &from, 0, 0, &to).unwrap());
    }
    /// What the progress hook puts while a flush waits, or another thread: the next flush asks for it.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn what_is_put_while_a_flush_waits_is_asked_for_by_the_next() {
        for all in [false, true] {
            let context = Held::open_late(None, 2000);
            let world = Communicator::world(&context);
            let mut memory = [0_u64; 8];
            // SAFETY: the memory outlives the window.
            let window =
                unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 1) }.unwrap();
            let window = Rc::new(window);
            let (other, once) = (Rc::clone(&window), Cell::new(true));
            context.set_progress_hook(move || {
                if once.take() {
                    other.put(&[2; 8], 0, 8).unwrap();
                }
            });
            window.lock_all().unwrap();
            window.put(&[1; 8], 0, 0).unwrap();
            if all {
                window.flush_all().unwrap()
            } else {
                window.flush(0).unwrap()
            };
            assert_eq!(window.marked(), [(0, INJECTED)], "{all}");
        }
    }

    /// Which window an operation was of is not known: each that was there is told.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn what_failed_fails_the_flush_of_the_window_that_it_was_of() {
        let context = Held::open(None);
        let world = Communicator::world(&context);
        let mut memory = [[0_u64; 64]; 3];
        let mut memory = memory.iter_mut().map(|it| it.as_mut_ptr().cast());
        // SAFETY: the memory outlives the windows.
        let mut make = || unsafe {
            let window = Window::create(&world, memory.next().unwrap(), 512, 1).unwrap();
            window.lock_all().unwrap();
            window
        };
        let (of, other) = (make(), make());
        let bytes = [7_u8; 256];
        for _ in 0..2 {
            // SAFETY: the network of this test never reads.
            unsafe { of.put_nb(bytes.as_ptr(), 256, 0, 0).unwrap() };
        }
        context.progress().unwrap();
        other.flush_all().unwrap_err();
        let error = of.flush(0).unwrap_err();
        assert!(error.to_string().contains("it failed"), "{error}");
        make().flush_all().unwrap();
        of.flush_all().unwrap();
    }
}
