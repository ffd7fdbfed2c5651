//! The flush: waiting until what was issued is done.

use super::{Access, INJECTED, MARKS, PROBED, TRACKED, path};
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

    /// While this lasts whoever else flushes probes the marked ranks too.
    fn probe_marks(&self) -> Probing<'_, N> {
        let flushes = &self.cold.probing_flushes;
        flushes.set(flushes.get() + 1);
        let marked = self.marks.iter().filter(|mark| mark.get() != 0);
        marked.for_each(|mark| mark.set(PROBED));
        Probing(self)
    }

    /// Reads back from every rank that was put to: the answer comes behind the
    /// puts. All reads are in flight together, and after a failure the others
    /// are still waited for.
    fn flush_ranks(&self, ranks: &[MarkedRank]) -> Result<(), Error> {
        // Stores into mapped regions are visible to every process that learns of
        // this flush.
        fence(Ordering::SeqCst);
        let probing = self.probe_marks();
        // The only early return: below, all probes are waited for.
        let peers =
            ranks.iter().map(|&(rank, _)| self.world_rank(rank)).collect::<Result<Vec<_>, _>>()?;
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
        drop(probing);
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
        unsafe { self.transfer_unmarked(&remote, &probe, false, true) }.map(Some)
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
        self.cold.unstage(peers, result.is_ok(), |peer| context.has_pending(&[peer]));
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

/// A flush whose probes are being issued.
struct Probing<'a, N: Netmod>(&'a Access<N>);

impl<N: Netmod> Drop for Probing<'_, N> {
    fn drop(&mut self) {
        let flushes = &self.0.cold.probing_flushes;
        flushes.set(flushes.get() - 1);
        if flushes.get() == 0 {
            self.0.marks.iter().for_each(|mark| mark.set(mark.get() & !PROBED));
        }
    }
}

#[cfg(test)]
mod tests;
