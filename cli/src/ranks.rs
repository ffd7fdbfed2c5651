//! Real jobs of many ranks in this process, each of them a coroutine.

mod coroutines;
mod exchange;
mod steps;

pub(crate) use exchange::{check, exchange, word};
pub(crate) use steps::{Counts, Steps};

use crate::memory::available;
use crate::{arguments, output};

const MOST: u32 = 1 << 20;
/// Bytes of a rank that spoke to some tens of peers: a quarter each of its stack and its heap, the
/// others of its address vector (`rankway grid`).
const EACH: u64 = 80 << 10;

/// Ranks of a job, as an argument has them.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let ranks = arguments::number(text)?;
    (1..=MOST).contains(&ranks).then_some(ranks).ok_or_else(|| "from 1 to 1M ranks".into())
}

/// Who runs them.
#[derive(clap::Args)]
pub(crate) struct Threads {
    /// Threads that run them
    #[arg(long, value_name = "N", value_parser = arguments::within::<u32>(1..=1024))]
    threads: Option<u32>,
}

impl Threads {
    /// How many run so many ranks: one for each processor where nobody asks for another number.
    pub(crate) fn of(&self, ranks: u32) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        self.threads.unwrap_or(cores).min(ranks)
    }
}

/// Runs the life of each rank. Returns the bytes of their stacks that were touched.
///
/// # Errors
/// The first of a rank's; no memory for them.
pub(crate) fn run(
    ranks: u32,
    threads: u32,
    life: impl Fn(u32) -> Result<(), String> + Clone + Send + 'static,
) -> Result<usize, String> {
    fit(ranks, available())?;
    let share = |at: u32| (u64::from(ranks) * u64::from(at) / u64::from(threads)) as u32;
    std::thread::scope(|scope| {
        let start = |at| {
            let (ranks, life) = (share(at)..share(at + 1), life.clone());
            let thread = std::thread::Builder::new();
            let started = thread.spawn_scoped(scope, move || coroutines::run(ranks, life));
            started.map_err(|e| {
                format!("cannot start a thread: {e}; ask for fewer --threads, or raise `ulimit -u`")
            })
        };
        let all = (0..threads).map(start).collect::<Result<Vec<_>, String>>()?;
        let each =
            all.into_iter().map(|one| one.join().map_err(|_| "a rank panicked".to_owned())?);
        each.sum::<Result<usize, String>>()
    })
}

/// Refuses more ranks than so many bytes are free for, before the system ends the process.
fn fit(ranks: u32, free: u64) -> Result<(), String> {
    let needed = u64::from(ranks) * EACH;
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "{ranks} ranks take some {} of memory, and {} are free here; ask for fewer --ranks",
        output::bytes(needed),
        output::bytes(free)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ranks_than_fit_are_refused() {
        assert_eq!(fit(100_000, 8 << 30), Ok(()));
        let refused = fit(1 << 20, 8 << 30).expect_err("80 GiB");
        assert!(refused.contains("80 GiB of memory, and 8 GiB are free"), "{refused}");
    }
}
