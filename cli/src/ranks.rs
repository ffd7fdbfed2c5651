//! Real jobs of many ranks in this process, each of them a coroutine.

mod coroutines;
mod steps;

pub(crate) use steps::{Counts, Steps};

use crate::arguments;

const MOST: u32 = 1 << 20;

/// Ranks of a job, as an argument has them.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let ranks = arguments::number(text)?;
    (1..=MOST).contains(&ranks).then_some(ranks).ok_or_else(|| "from 1 to 1M ranks".into())
}

/// Threads that run so many ranks where nobody asks for other than one for each processor.
pub(crate) fn threads(ranks: u32, asked: Option<u32>) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    asked.unwrap_or(cores).min(ranks)
}

/// Runs the life of each rank. Returns the bytes of their stacks that were touched.
///
/// # Errors
/// The first of a rank's; no memory for the stacks.
pub(crate) fn run(
    ranks: u32,
    threads: u32,
    life: impl Fn(u32) -> Result<(), String> + Clone + Send + 'static,
) -> Result<usize, String> {
    let share = |at: u32| (u64::from(ranks) * u64::from(at) / u64::from(threads)) as u32;
    std::thread::scope(|scope| {
        let start = |at| {
            let (ranks, life) = (share(at)..share(at + 1), life.clone());
            scope.spawn(move || coroutines::run(ranks, life))
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        let each =
            all.into_iter().map(|one| one.join().map_err(|_| "a rank panicked".to_owned())?);
        each.sum::<Result<usize, String>>()
    })
}
