//! Collectives that are not recorded, over the set-up channel or the caller's.

use super::words::Words;
use super::{Communicator, mix};
use crate::boot::{BootError, Group as Peers, gather_by};
use crate::netmod::Netmod;
use crate::rma::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// A communicator's allgather, of which its other collectives are made: for
/// device layers above a library that has collectives. The calls come in the
/// same order in all members.
pub trait Allgather {
    /// Collects the bytes of all members, by rank; lengths may differ.
    ///
    /// # Errors
    /// Why it failed.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;

    /// Collects the bytes of these members, in the order of `ranks`. All members call it at
    /// once, each with ranks among which it is, and those that are named together with the same.
    ///
    /// # Errors
    /// Why it failed.
    fn allgather_among(&self, ranks: &[u32], mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let all = self.allgather(mine)?;
        let of = |rank: &u32| {
            let bytes = all.get(*rank as usize).cloned();
            bytes.ok_or_else(|| format!("it gave nothing of rank {rank}"))
        };
        ranks.iter().map(of).collect()
    }

    /// Returns true if every member says so.
    ///
    /// # Errors
    /// Why it failed.
    fn unanimous(&self, mine: bool) -> Result<bool, String> {
        Ok(self.allgather(&[u8::from(mine)])?.iter().all(|said| said.as_slice() == [1]))
    }

    /// Returns true if there is an [`exchange`](Self::exchange), the same in all members: splits
    /// and windows then take O(log P) messages, short where what members say follows a formula.
    fn exchanges(&self) -> bool {
        false
    }

    /// Gives bytes to one member and takes those that another gives to this one.
    ///
    /// # Errors
    /// Why it failed.
    fn exchange(&self, _to: u32, _from: u32, _mine: &[u8]) -> Result<Vec<u8>, String> {
        Err("there is none".into())
    }
}

impl<N: Netmod> Communicator<N> {
    fn own_allgather(&self) -> Option<&dyn Allgather> {
        self.cold.get().and_then(|cold| cold.allgather.as_deref())
    }

    /// The tag of a collective of this kind, which is none where it is refused.
    ///
    /// # Errors
    /// As [`Context::check_may_wait`](crate::device::Context::check_may_wait).
    pub(super) fn collective_tag(&self, kind: u64) -> Result<u64, Error> {
        self.context.check_may_wait()?;
        Ok(mix(&[self.id, self.call(), kind]))
    }

    /// [`barrier`](Self::barrier), of which nothing is recorded.
    pub(in crate::rma) fn meet(&self) -> Result<(), Error> {
        if let Some(own) = self.own_allgather() {
            return self
                .check_collective(own.unanimous(true).map(drop).map_err(ErrorKind::Allgather));
        }
        let tag = self.collective_tag(7)?;
        let control = self.device().control();
        self.check_collective(control.barrier(&Members(self), tag, &mut self.idle()))
    }

    /// Returns true if every member says so. Collective.
    pub(in crate::rma) fn unanimous(&self, mine: bool) -> Result<bool, Error> {
        if let Some(own) = self.own_allgather() {
            return self.check_collective(own.unanimous(mine).map_err(ErrorKind::Allgather));
        }
        let tag = self.collective_tag(15)?;
        let control = self.device().control();
        self.check_collective(control.unanimous(&Members(self), tag, mine, &mut self.idle()))
    }

    /// What all members say, by rank. Collective.
    pub(in crate::rma) fn gather(&self, words: &[u64], greatest: u64) -> Result<Words, Error> {
        let tag = self.collective_tag(16)?;
        self.gather_words(tag, Words::of(words, greatest))
    }

    /// [`gather`](Self::gather) of what takes no more than so many bytes in the end.
    pub(in crate::rma) fn gather_within(
        &self,
        most: usize,
        words: &[u64],
        greatest: u64,
    ) -> Result<Words, Error> {
        let tag = self.collective_tag(18)?;
        self.gather_words(tag, Words::of(words, greatest).within(most))
    }

    pub(super) fn gather_words(&self, tag: u64, mut mine: Words) -> Result<Words, Error> {
        let place = (self.size(), self.rank);
        let Some(own) = self.own_allgather() else {
            let control = self.device().control();
            let mut all = mine.around(place);
            let done = control.gather(&Members(self), tag, &mut all, &mut self.idle());
            self.check_collective(done)?;
            return Ok(Words::by_rank(all)?);
        };
        if own.exchanges() {
            let exchange = |to, from, values: Vec<u8>| {
                let theirs = own.exchange(to, from, &values).map_err(BootError::Idle)?;
                Ok((from, theirs))
            };
            let mut all = mine.around(place);
            self.check_collective(gather_by(place, &mut all, exchange))?;
            return Ok(Words::by_rank(all)?);
        }
        let all = own.allgather(&mine.raw()).map_err(ErrorKind::Allgather);
        mine.take_all(&self.check_collective(all)?)
            .map_err(|(rank, why)| self.refused_by(rank, &format!("is in another call: {why}")))?;
        Ok(mine)
    }

    /// That a collective fails because of one member.
    #[cold]
    pub(in crate::rma) fn refused_by(&self, rank: u32, why: &str) -> Error {
        let peer = self.world_rank(rank).ok();
        ErrorKind::Member { rank, peer, why: why.into() }.into()
    }

    /// The same for want of memory.
    #[cold]
    pub(in crate::rma) fn without_memory(&self, rank: u32, why: &str) -> Error {
        let peer = self.world_rank(rank).ok();
        ErrorKind::MemberMemory { rank, peer, why: why.into() }.into()
    }

    pub(super) fn allgather_tagged(&self, tag: u64, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        if let Some(own) = self.own_allgather() {
            return self.check_collective(own.allgather(mine).map_err(ErrorKind::Allgather));
        }
        let control = self.device().control();
        self.check_collective(control.allgather(&Members(self), tag, mine, &mut self.idle()))
    }

    /// Collects the bytes of these members, this one among them, in the order of `ranks`. All
    /// members call it at once, those that are named together with the same ranks. Whoever
    /// gets an error goes on to the next collective of the communicator, where others wait.
    pub(in crate::rma) fn allgather_among(
        &self,
        ranks: &[u32],
        mine: &[u8],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if let Some(own) = self.own_allgather() {
            let all = own.allgather_among(ranks, mine).map_err(ErrorKind::Allgather);
            return self.check_collective(all);
        }
        let tag = self.collective_tag(17)?;
        let control = self.device().control();
        let some = Subset { all: Members(self), ranks };
        self.check_collective(control.allgather(&some, tag, mine, &mut self.idle()))
    }

    pub(super) fn send_to_all(&self, root: u32, value: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        if root >= self.size() {
            return Err(ErrorKind::Rank { rank: root, size: self.size() }.into());
        }
        let tag = self.collective_tag(9)?;
        if self.own_allgather().is_some() {
            let mine = value.filter(|_| root == self.rank).unwrap_or(&[]);
            let mut all = self.allgather_tagged(tag, mine)?;
            return Ok(all.swap_remove(root as usize));
        }
        let control = self.device().control();
        self.check_collective(control.broadcast(&Members(self), tag, root, value, &mut self.idle()))
    }

    /// Records a collective's failure: other members may not have seen it.
    pub(in crate::rma) fn check_collective<T, E: Into<Error>>(
        &self,
        result: Result<T, E>,
    ) -> Result<T, Error> {
        result.map_err(|e| {
            self.device().set_diverged();
            e.into()
        })
    }

    /// Progress while the set-up channel waits: the longer it does, the longer at a
    /// time, since peers may have thousands of operations here that only we can
    /// carry out, while most answers come at once.
    fn idle(&self) -> impl FnMut() -> Result<bool, String> {
        const SLICE: Duration = Duration::from_micros(500);
        const POLLS: u32 = 64;
        let begun = Instant::now();
        move || {
            let events = self.context.events();
            let start = Instant::now();
            let slice = SLICE.min(start.duration_since(begun) / 4);
            loop {
                for _ in 0..POLLS {
                    self.context.progress().map_err(|e| e.to_string())?;
                }
                self.context.run_progress_hook();
                std::thread::yield_now();
                if start.elapsed() >= slice {
                    return Ok(self.context.events() != events);
                }
            }
        }
    }
}

/// The members of a communicator, as the set-up channel sees them.
struct Members<'a, N: Netmod>(&'a Communicator<N>);

impl<N: Netmod> Peers for Members<'_, N> {
    fn len(&self) -> u32 {
        self.0.size()
    }

    fn me(&self) -> u32 {
        self.0.rank
    }

    fn world_rank(&self, rank: u32) -> u32 {
        let process = self.0.map().get(rank);
        let peer = process.and_then(|p| self.0.device().world_rank(p).ok());
        peer.unwrap_or(u32::MAX)
    }

    fn name(&self) -> Option<u64> {
        Some(self.0.id)
    }
}

/// Some of the members, by their ranks.
struct Subset<'a, N: Netmod> {
    all: Members<'a, N>,
    ranks: &'a [u32],
}

impl<N: Netmod> Peers for Subset<'_, N> {
    fn len(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn me(&self) -> u32 {
        let mine = self.all.me();
        self.ranks.iter().position(|&rank| rank == mine).unwrap_or(usize::MAX) as u32
    }

    fn world_rank(&self, rank: u32) -> u32 {
        self.ranks.get(rank as usize).map_or(u32::MAX, |&rank| self.all.world_rank(rank))
    }

    fn name(&self) -> Option<u64> {
        self.all.name()
    }
}
