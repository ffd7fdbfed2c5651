//! The simulation: calls to all ranks in turn, through communicators in turn.

use super::stream::Stream;
use rankway_cli::observe::cache::{Geometry, Hierarchy};
use rankway_cli::observe::lines::LINE;

/// Rounds of more calls than this are not simulated whole.
const LONG: u64 = 1 << 20;

/// Misses of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Misses {
    /// Of each level, the nearest first; all accesses of a call are data's.
    pub(super) levels: Vec<f64>,
    /// All calls of a round were simulated, after a round that warmed the
    /// caches. Else: those through one communicator, after others that left
    /// nothing in the last level that would not be there, see [`simulate`].
    pub(super) whole: bool,
}

/// A round is a call to every rank through the first communicator, then through
/// the next, and so on. Misses of a round after one that warms the caches.
///
/// Of long rounds, as many communicators are taken to warm as it takes to fill
/// the last level, or until one more misses next to nothing in it; then the next
/// communicator is measured alone. A line that is used again is then either still
/// there or, by least recently used first out, was gone whatever came before.
pub(super) fn simulate(stream: &Stream<'_>, communicators: u64, caches: &[Geometry]) -> Misses {
    let mut hierarchy = Hierarchy::new(caches);
    let ranks = stream.processes.len() as u32;
    let mut sweep = |communicator: u64| {
        for rank in 0..ranks {
            stream.call(communicator, rank, |address, bytes| hierarchy.access(address, bytes));
        }
        hierarchy.take_misses()
    };
    let calls = communicators * u64::from(ranks);
    let last = caches.last().map_or(0, |last| last.bytes / LINE as u64);
    let (mut filled, mut next) = (0, 0);
    while next < communicators {
        let missed = sweep(next).last().copied().unwrap_or(0);
        next += 1;
        filled += missed;
        let steady = next > 1 && missed * 1000 < u64::from(ranks);
        if calls > LONG && (filled >= last || steady) {
            break;
        }
    }
    let measured = if calls > LONG { next..next + 1 } else { 0..communicators };
    let whole = calls <= LONG || communicators == 1;
    let of = (measured.end - measured.start) * u64::from(ranks);
    let mut sums = vec![0; caches.len()];
    for communicator in measured {
        let missed = sweep(communicator % communicators);
        sums.iter_mut().zip(missed).for_each(|(sum, missed)| *sum += missed);
    }
    Misses { levels: sums.iter().map(|&sum| sum as f64 / of as f64).collect(), whole }
}

/// Misses of each level in so many calls to each rank but the first, round after round through
/// one communicator, caches empty before.
///
/// Rounds are simulated until one leaves the caches as it found them: all that follow are as it
/// was, which makes the count that of all calls.
pub(super) fn all_of(stream: &Stream<'_>, rounds: u64, caches: &[Geometry]) -> Vec<u64> {
    let mut hierarchy = Hierarchy::new(caches);
    let mut sums = vec![0; caches.len()];
    for round in 1..=rounds {
        let before = hierarchy.clone();
        for rank in 1..stream.processes.len() as u32 {
            stream.call(0, rank, |address, bytes| hierarchy.access(address, bytes));
        }
        let missed = hierarchy.take_misses();
        let unchanged = hierarchy == before;
        let alike = if unchanged { rounds - round + 1 } else { 1 };
        sums.iter_mut().zip(missed).for_each(|(sum, missed)| *sum += missed * alike);
        if unchanged {
            break;
        }
    }
    sums
}
