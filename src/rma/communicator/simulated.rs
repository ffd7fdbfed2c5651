//! Members of a communicator that do not exist, for measuring what one does.

use super::Allgather;
use super::colors::Colors;
use crate::boot::Gathered as _;
use crate::rankmap::{Detector, MapError};
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

    /// What `count` members from one on have gathered.
    fn gathered(&self, first: u32, count: u32) -> Result<Vec<u8>, MapError> {
        let ranks = || (0..count).map(|at| (first + at) % self.size);
        let (mut colors, mut keys) = (Detector::new(), Detector::new());
        for rank in ranks() {
            let (color, key) = (self.says)(rank);
            Colors::push(&mut colors, &mut keys, color, key);
        }
        Ok(Colors::from_maps(colors.finish()?, keys.finish()?).head(count))
    }
}

impl Allgather for SimulatedMembers {
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let steps = self.size.next_power_of_two().trailing_zeros();
        self.sent(steps, (mine.len() + size_of::<u64>()) * (self.size as usize - 1));
        let start = Instant::now();
        let all = vec![mine.to_vec(); self.size as usize];
        self.elsewhere.set(self.elsewhere.get() + start.elapsed());
        Ok(all)
    }

    fn exchanges(&self) -> bool {
        true
    }

    fn exchange(&self, _to: u32, from: u32, mine: &[u8]) -> Result<Vec<u8>, String> {
        self.sent(1, mine.len());
        let start = Instant::now();
        let distance = (from + self.size - self.rank) % self.size;
        let theirs = self.gathered(from, distance.min(self.size - distance));
        self.elsewhere.set(self.elsewhere.get() + start.elapsed());
        theirs.map_err(|e| e.to_string())
    }
}
