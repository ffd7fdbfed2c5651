//! The barrier of a fence where all members are on one node and share its words: nobody
//! is asked, and nobody answers.
//!
//! Each member counts its steps in a word of its own and, in the step of number k, waits
//! for the member 2^k before it to have come as far: after log2(n) steps all have come
//! (Hensgen, Finkel and Manber 1988, *Two Algorithms for Barrier Synchronization*). Words
//! only grow (and wrap), so nothing is set back between two barriers.

use super::Error;
use super::node_words::NodeWords;
use crate::device::{Context, DeviceError, Progress};
use crate::netmod::Netmod;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// A member's side of it.
#[derive(Debug)]
pub(super) struct NodeBarrier {
    words: NodeWords,
    /// This process's rank.
    me: u32,
    /// World ranks of the other members, the one behind this process first.
    others: Box<[u32]>,
    /// Steps that this process took in barriers that ended well.
    steps: Cell<u32>,
}

impl NodeBarrier {
    /// To be made once by each member, of words that all of them share and whose steps
    /// nobody else counts.
    pub(super) fn new(words: NodeWords, me: u32, others: Box<[u32]>) -> NodeBarrier {
        NodeBarrier { words, me, others, steps: Cell::new(0) }
    }

    /// Returns when all members have come, with what they did before.
    ///
    /// # Errors
    /// The death of a member that has not come; the next one fails alike.
    pub(super) fn meet<N: Netmod>(&self, context: &Context<N>) -> Result<(), Error> {
        let begin = self.steps.get();
        let end = begin.wrapping_add(self.rounds());
        for round in 0..self.rounds() {
            let (from, step) = self.enter(begin, round);
            self.wait(context, end, || self.has_taken(from, step))?;
        }
        self.steps.set(end);
        Ok(())
    }

    fn size(&self) -> u32 {
        self.others.len() as u32 + 1
    }

    fn rounds(&self) -> u32 {
        self.size().next_power_of_two().trailing_zeros()
    }

    /// Takes a step; who is to be waited for, and up to which step.
    fn enter(&self, begin: u32, round: u32) -> (u32, u32) {
        let (n, distance) = (self.size(), 1 << round);
        let step = begin.wrapping_add(round + 1);
        // The other side: `has_taken`.
        self.words.steps(self.me).taken.store(step, Ordering::Release);
        let from = if self.me >= distance { self.me } else { self.me + n };
        (from - distance, step)
    }

    fn has_taken(&self, rank: u32, step: u32) -> bool {
        step.wrapping_sub(self.words.steps(rank).taken.load(Ordering::Acquire)) as i32 <= 0
    }

    /// Waits; a member that has taken all of its steps may go, and die.
    fn wait<N: Netmod>(
        &self,
        context: &Context<N>,
        end: u32,
        has_come: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let mut watched = Cow::Borrowed(&*self.others);
        loop {
            let waited = context
                .wait(&watched, || Ok(if has_come() { Progress::Done } else { Progress::Waiting }));
            match waited {
                Err(DeviceError::PeerDied { rank }) => {
                    let missing = self.missing(end);
                    if missing.contains(&rank) {
                        context.device().set_diverged();
                        return Err(self.first_lost(rank).into());
                    }
                    watched = Cow::Owned(missing);
                }
                other => return Ok(other?),
            }
        }
    }

    /// World ranks of those that have not taken all steps to an end.
    #[cold]
    fn missing(&self, end: u32) -> Vec<u32> {
        let ranks = (self.me + 1..self.size()).chain(0..self.me);
        let missing = ranks.zip(&self.others).filter(|&(rank, _)| !self.has_taken(rank, end));
        missing.map(|(_, &peer)| peer).collect()
    }

    /// The death of a world rank or, where another left a barrier for the death of a member
    /// and may have ended since, of that one. The others are told.
    #[cold]
    fn first_lost(&self, peer: u32) -> DeviceError {
        let lost = |rank| self.words.steps(rank).lost.load(Ordering::Acquire).checked_sub(1);
        let told = (0..self.size()).filter_map(lost).find(|lost| self.others.contains(lost));
        let rank = told.unwrap_or(peer);
        self.words.steps(self.me).lost.store(rank + 1, Ordering::Release);
        DeviceError::PeerDied { rank }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Any number of members, each with the words as it has them: who is out of a barrier
    /// finds that all came, and none is further than the next one.
    #[test]
    fn nobody_leaves_before_all_have_come() {
        const BARRIERS: u32 = if cfg!(miri) { 4 } else { 500 };
        for n in 1..=7 {
            let bytes = NodeWords::bytes(n, n).unwrap();
            let mut memory = vec![0_u128; bytes / 16 + 4];
            let start = memory.as_mut_ptr().cast::<u8>();
            // SAFETY: zeroed, with 64 bytes more than are used.
            let words = unsafe { NodeWords::at(start.add(start.align_offset(64)), n, n) };
            // Near the end of the numbers.
            let first = u32::MAX - 10;
            (0..n).for_each(|rank| words.steps(rank).taken.store(first, Ordering::Relaxed));
            let came: Vec<_> = (0..n).map(|_| AtomicU32::new(0)).collect();
            let member = |me: u32| {
                let own = NodeBarrier::new(words, me, vec![0; n as usize - 1].into());
                own.steps.set(first);
                for barrier in 1..=BARRIERS {
                    came[me as usize].store(barrier, Ordering::Relaxed);
                    let begin = own.steps.get();
                    for round in 0..own.rounds() {
                        let (from, step) = own.enter(begin, round);
                        while !own.has_taken(from, step) {
                            std::thread::yield_now();
                        }
                    }
                    own.steps.set(begin.wrapping_add(own.rounds()));
                    for other in &came {
                        let there = other.load(Ordering::Relaxed);
                        assert!((barrier..=barrier + 1).contains(&there), "{there} in {barrier}");
                    }
                }
            };
            std::thread::scope(|scope| {
                (0..n).for_each(|me| drop(scope.spawn(move || member(me))));
            });
        }
    }
}
