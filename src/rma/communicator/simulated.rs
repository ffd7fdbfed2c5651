//! Members of a communicator that do not exist, for measuring what one does.

use super::Allgather;
use super::words::Words;
use crate::boot::{Around, Gathered as _};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a member says in a split: color and key, by its rank.
pub type Says = fn(u32) -> (Option<u32>, i32);

/// The other members of a communicator of one process: in a split they say what a function of
/// their rank says, in an allgather what this process says.
///
/// As in [`boot::simulated`](crate::boot::simulated), what this process does is what one of a
/// real job does; the messages are counted and not sent.
#[derive(Debug)]
pub struct SimulatedMembers {
    size: u32,
    rank: u32,
    says: Says,
    messages: Cell<u64>,
    bytes: Cell<u64>,
    elsewhere: Cell<Duration>,
}

impl SimulatedMembers {
    /// All members but `rank` of a communicator of `size`.
    pub fn new(size: u32, rank: u32, says: Says) -> SimulatedMembers {
        SimulatedMembers {
            size,
            rank,
            says,
            messages: Cell::default(),
            bytes: Cell::default(),
            elsewhere: Cell::default(),
        }
    }

    /// Messages this process sent.
    pub fn messages(&self) -> u64 {
        self.messages.get()
    }

    /// Bytes in them.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Time that the others would have taken, on their processors.
    pub fn elsewhere(&self) -> Duration {
        self.elsewhere.get()
    }

    fn sent(&self, messages: u32, bytes: usize) {
        self.messages.set(self.messages.get() + u64::from(messages));
        self.bytes.set(self.bytes.get() + bytes as u64);
    }

    /// What `count` members from one on have gathered, where this process has gathered `mine`
    /// of as many: in a split, what they say, else what it says.
    fn gathered(&self, first: u32, count: u32, mine: &[u8]) -> Result<Vec<u8>, String> {
        let (high, mine) = Around::<Words>::first_part(mine, count, (self.size, self.rank))?;
        let said = Words::first_of(high, mine)?;
        let theirs = Around::of(count, (self.size, first), |first, ranks| {
            if said.len() == Words::OF_SPLIT {
                Words::of_split((first..first + ranks).map(self.says))
            } else {
                Ok(Words::repeated(&said, 0, ranks))
            }
        });
        let theirs = theirs.map_err(|e| e.to_string())?;
        Ok(theirs.head(count))
    }

    /// Does what the others would do on their processors.
    fn elsewhere_done<T>(&self, act: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = act();
        self.elsewhere.set(self.elsewhere.get() + start.elapsed());
        done
    }

    /// Steps in which what each of so many says has reached all.
    fn steps(members: u32) -> u32 {
        members.next_power_of_two().trailing_zeros()
    }
}

impl Allgather for SimulatedMembers {
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let ranks: Vec<u32> = (0..self.size).collect();
        self.allgather_among(&ranks, mine)
    }

    fn allgather_among(&self, ranks: &[u32], mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let others = ranks.len().saturating_sub(1);
        let steps = SimulatedMembers::steps(ranks.len() as u32);
        self.sent(steps, (mine.len() + size_of::<u64>()) * others);
        Ok(self.elsewhere_done(|| vec![mine.to_vec(); ranks.len()]))
    }

    fn unanimous(&self, mine: bool) -> Result<bool, String> {
        let steps = SimulatedMembers::steps(self.size);
        self.sent(steps, steps as usize);
        Ok(mine)
    }

    fn exchanges(&self) -> bool {
        true
    }

    fn exchange(&self, _to: u32, from: u32, mine: &[u8]) -> Result<Vec<u8>, String> {
        self.sent(1, mine.len());
        let distance = (from + self.size - self.rank) % self.size;
        let count = distance.min(self.size - distance);
        self.elsewhere_done(|| self.gathered(from, count, mine))
    }
}
