//! What the ranks of the job do.

use crate::output::text;
use crate::ranks::{Steps, check, exchange, word};
use crate::stencil::{Direction, NEIGHBOURS, directions};
use rankway::msg::Messenger;
use rankway::netmod::Netmod;
use rankway::netmod::in_process::InProcess;
use rankway::rma::{Communicator, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The steps, in the order in which they are taken.
pub(super) const STEPS: [&str; 7] = [
    "start",
    "communicators",
    "window of all",
    "puts to 26 neighbours",
    "windows of lines",
    "messages to 6 faces",
    "end",
];

/// A job on a periodic grid.
pub(super) struct Grid {
    pub(super) steps: Steps,
    pub(super) dims: [u32; 3],
    pub(super) puts: AtomicU64,
    pub(super) messages: AtomicU64,
}

impl Grid {
    /// Of so many ranks; `ended` is told of each step.
    pub(super) fn new(
        ranks: u32,
        ended: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Arc<Grid>, String> {
        Ok(Arc::new(Grid {
            steps: Steps::new(ranks, ended)?,
            dims: dims(ranks),
            puts: AtomicU64::new(0),
            messages: AtomicU64::new(0),
        }))
    }

    fn neighbour(&self, rank: u32, by: Direction) -> u32 {
        let [_, y, z] = self.dims;
        let at = [rank / (y * z), rank / z % y, rank % z];
        let step = |d: usize| (at[d] as i32 + by[d]).rem_euclid(self.dims[d] as i32) as u32;
        (step(0) * y + step(1)) * z + step(2)
    }

    /// The life of one rank.
    pub(super) fn rank(&self, rank: u32) -> Result<(), String> {
        let context = self.steps.context(rank)?;
        let world = Communicator::world(&context);
        self.steps.end(&world)?;

        let all = world.dup();
        let reversed = world.reversed().map_err(text)?;
        let half = world.split(Some(rank % 2), 0).map_err(text)?.ok_or("it is in no half")?;
        let layer = world.cart_sub(&self.dims, &[false, true, true]).map_err(text)?;
        let line = world.cart_sub(&self.dims, &[false, false, true]).map_err(text)?;
        check(half.world_rank(half.rank()).map_err(text)? == rank, "half")?;
        check(reversed.rank() == world.size() - 1 - rank, "reverse")?;
        check(layer.rank() == rank % layer.size(), "layer")?;
        self.steps.end(&world)?;

        let mut memory = Memory::new(NEIGHBOURS);
        let window = memory.window(&all)?;
        self.steps.end(&world)?;

        window.fence().map_err(text)?;
        for (slot, by) in (0..).zip(directions()) {
            let to = self.neighbour(rank, by);
            window.put(&word(rank, slot).to_ne_bytes(), to, slot as usize).map_err(text)?;
        }
        window.fence().map_err(text)?;
        for (slot, by) in (0..).zip(directions()) {
            let from = self.neighbour(rank, by.map(|step| -step));
            memory.expect(slot as usize, word(from, slot))?;
        }
        self.puts.fetch_add(NEIGHBOURS as u64, Ordering::Relaxed);
        self.steps.end(&world)?;

        let mut lines = Memory::new(line.size() as usize);
        let mut along = lines.window(&line)?;
        along.fence().map_err(text)?;
        for to in 0..line.size() {
            let at = line.rank() as usize;
            along.put(&word(rank, to).to_ne_bytes(), to, at).map_err(text)?;
        }
        along.fence().map_err(text)?;
        for from in 0..line.size() {
            let sender = line.world_rank(from).map_err(text)?;
            lines.expect(from as usize, word(sender, line.rank()))?;
        }
        along.free().map_err(text)?;
        self.puts.fetch_add(u64::from(line.size()), Ordering::Relaxed);
        self.steps.end(&world)?;

        self.messages(&world)?;
        self.steps.end(&world)?;
        drop(along);
        drop(window);
        Ok(())
    }

    /// A word to and from each face.
    fn messages(&self, world: &Communicator<InProcess>) -> Result<(), String> {
        let rank = world.rank();
        let messenger = Messenger::open(world).map_err(text)?;
        let faces: [Direction; 6] =
            [[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];
        let places = (0..).zip(faces);
        let received = places.clone().map(|(tag, by)| {
            let from = self.neighbour(rank, by.map(|it| -it));
            (from, tag, word(from, tag))
        });
        let sent = places.map(|(tag, by)| (self.neighbour(rank, by), tag, word(rank, tag)));
        exchange(&messenger, received, sent)?;
        self.messages.fetch_add(6, Ordering::Relaxed);
        Ok(())
    }
}

/// Three factors of a number, the largest last, as near to a cube as its divisors allow.
fn dims(ranks: u32) -> [u32; 3] {
    let below = |n: u32, most: f64| {
        let most = (most + 1e-9) as u32;
        (1..=most.max(1)).rev().find(|&d| n.is_multiple_of(d)).unwrap_or(1)
    };
    let first = below(ranks, f64::from(ranks).cbrt());
    let second = below(ranks / first, f64::from(ranks / first).sqrt());
    [first, second, ranks / first / second]
}

/// Words of a window. They outlive it: it was made after them.
struct Memory(Box<[std::cell::UnsafeCell<u64>]>);

impl Memory {
    fn new(words: usize) -> Memory {
        Memory((0..words).map(|_| std::cell::UnsafeCell::new(0)).collect())
    }

    fn window<N: Netmod>(&mut self, comm: &Communicator<N>) -> Result<Window<N>, String> {
        let (start, bytes) = (self.0.as_mut_ptr().cast(), size_of_val(&*self.0));
        // SAFETY: the memory is dropped after the window, and read between epochs alone.
        unsafe { Window::create(comm, start, bytes, size_of::<u64>()) }.map_err(text)
    }

    /// A word that was put, behind a fence.
    fn expect(&self, at: usize, word: u64) -> Result<(), String> {
        // SAFETY: nobody puts before the next fence.
        let is = unsafe { *self.0[at].get() };
        let why = || format!("word {at} is {is:x} where {word:x} was put");
        (is == word).then_some(()).ok_or_else(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_near_to_cubes_and_their_neighbours_differ() {
        assert_eq!(dims(100_000), [40, 50, 50]);
        assert_eq!((dims(1), dims(7), dims(64)), ([1, 1, 1], [1, 1, 7], [4, 4, 4]));
        let grid = Grid::new(60, |_| ()).expect("a job");
        assert_eq!(grid.dims, [3, 4, 5]);
        let mut all: Vec<u32> = directions().map(|by| grid.neighbour(0, by)).collect();
        assert_eq!((all.len(), all.iter().max()), (26, Some(&(2 * 20 + 3 * 5 + 4))));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 26);
    }
}
