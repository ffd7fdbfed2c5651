//! Measures what nobody says: the TLB's reach, and what misses cost.
//!
//! Each figure is the least of several rounds, so that other programs on the machine
//! count little.

use super::super::kernels::{self, Level, Plan, prefetch};
use super::{Costs, Machine};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// All of it ends after so long.
const LIMIT: Duration = Duration::from_millis(800);

/// Pages of the last sweep: more than that no TLB is asked for.
const MOST: usize = 6144;

/// Sizes of sweeps, in pages.
const SWEEPS: [usize; 14] =
    [128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, MOST];

struct Clock {
    end: Instant,
}

impl Clock {
    /// Least nanoseconds of several rounds, each for `n` steps; of a step.
    fn least(&self, rounds: usize, n: usize, mut round: impl FnMut()) -> f64 {
        let mut best = f64::INFINITY;
        for i in 0..rounds {
            if i > 0 && Instant::now() >= self.end {
                break;
            }
            let start = Instant::now();
            round();
            best = best.min(start.elapsed().as_nanos() as f64);
        }
        best / n as f64
    }
}

/// Pages of the TLB and costs.
pub(super) fn measure(told: &Machine) -> (usize, Costs) {
    let clock = Clock { end: Instant::now() + LIMIT };
    let size = (2 * told.last_cache).clamp(16 << 20, 128 << 20).max(MOST * told.page);
    // Touched, so that pages are there.
    let (mut a, mut b) = (vec![1u64; size / 8], vec![2u64; size / 8]);
    let pages = tlb(&clock, &mut a, told.page / 8);
    // Several misses are under way at once, as in a copy.
    let each =
        |stride: usize| clock.least(8, 2 * MOST, || visit(&a, stride, MOST, 2 * MOST, false));
    let page = (each(told.page / 8) - each(8)).max(0.1);
    let mut costs = Costs { page, ..Costs::ASSUMED };
    let plan =
        Plan { level: Level::best(), tile: 0, along: false, streaming: false, prefetch: false };
    let mut copy = |len: usize, plan: &Plan| {
        let (from, to) = (a.as_mut_ptr().cast::<u8>(), b.as_mut_ptr().cast::<u8>());
        // SAFETY: both have `size` bytes, no less than `len`, and are two.
        unsafe { kernels::run::<true>(black_box(from), to, len, plan) };
    };
    // Copies within the first cache, and of all.
    let small = told.first_cache / 4;
    costs.byte = clock.least(200, 16 * small, || (0..16).for_each(|_| copy(small, &plan)));
    let lines = size / 64;
    let past = Plan { streaming: true, ..plan };
    let copied = clock.least(3, lines, || copy(size, &past));
    costs.run = clock.least(200, 512, || {
        let (from, to) = (black_box(&a), &mut b);
        for i in 0..512 {
            to[i] = from[2 * i];
            black_box(&mut *to);
        }
    });
    let line = |i: usize| 8 * i;
    costs.line = clock.least(3, lines, || {
        black_box((0..lines).fold(0, |sum, i| sum ^ a[line(i)]));
    });
    costs.line_past = (copied - costs.line).max(0.1);
    // Lines in an order in which none is near the one before, all of them apart from
    // each other, so that the processor has several under way.
    let near = (4 * told.first_cache / 64).min(lines);
    costs.next_line = clock.least(20, near, || visit(&a, 8, near, near, false));
    let n = lines / 8;
    let apart = clock.least(3, n, || visit(&a, 8, lines, n, false));
    let asked = clock.least(3, n, || visit(&a, 8, lines, n, true));
    costs.line_apart = (apart - page).max(costs.line);
    costs.line_asked = (asked - page).max(costs.line);
    (pages, costs)
}

/// Visits `n` of so many places, so many words apart, each far from the one before.
fn visit(memory: &[u64], stride: usize, count: usize, n: usize, ask: bool) {
    let mut places = Places { at: 1, mask: count.next_power_of_two() - 1, count, stride };
    let mut ahead = Places { ..places };
    for _ in 0..16 {
        ahead.next();
    }
    let mut sum = 0;
    for _ in 0..n {
        if ask {
            prefetch(&raw const memory[ahead.next()] as *const u8);
        }
        sum ^= memory[places.next()];
    }
    black_box(sum);
}

/// Words in an order without a stride: a generator modulo a power of
/// two, of full period (Hull and Dobell, 1962), its bits mixed.
struct Places {
    at: usize,
    mask: usize,
    count: usize,
    stride: usize,
}

impl Places {
    fn next(&mut self) -> usize {
        loop {
            self.at = (self.at.wrapping_mul(0x5DEE_CE65) + 11) & self.mask;
            let mixed = (self.at ^ self.at >> 7) & self.mask;
            if mixed < self.count {
                // (Lines of pages that lie in other sets of the caches.)
                return mixed * self.stride + if self.stride > 8 { mixed % 61 * 8 } else { 0 };
            }
        }
    }
}

/// How many pages the last level of the TLB holds.
///
/// A chain of loads through one line of each page costs more than one through as
/// many lines that are together: by the first level's misses from some tens of pages
/// on, by those of the last from the number on that is looked for.
fn tlb(clock: &Clock, memory: &mut [u64], page: usize) -> usize {
    let mut extra = |pages: usize| {
        let steps = 2 * pages.max(2048);
        let spread = chain(memory, pages, |i| i * page + i % 61 * 8);
        let apart = clock.least(4, steps, || follow(memory, spread, steps));
        let dense = chain(memory, pages, |i| i * 8);
        apart - clock.least(4, steps, || follow(memory, dense, steps))
    };
    let cost: Vec<f64> = SWEEPS.iter().map(|&pages| extra(pages)).collect();
    // Between the knees, and beyond the second.
    let (low, high) =
        (cost[..4].iter().fold(f64::INFINITY, |a, &b| a.min(b)), cost[SWEEPS.len() - 1]);
    let page = (high - low).max(0.1);
    if high < 1.5 * low.max(0.5) {
        return MOST;
    }
    let knee = cost.iter().rposition(|&ns| ns < low + page / 3.0);
    knee.map_or(SWEEPS[0], |i| SWEEPS[i])
}

/// Links the words at these places to one cycle in an order that no prefetcher
/// knows; returns the first.
fn chain(memory: &mut [u64], count: usize, place: impl Fn(usize) -> usize) -> usize {
    let mut order: Vec<usize> = (0..count).collect();
    let mut x = 88_172_645_463_325_252u64;
    for i in (1..count).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        order.swap(i, (x % (i as u64 + 1)) as usize);
    }
    for (i, &at) in order.iter().enumerate() {
        memory[place(at)] = place(order[(i + 1) % count]) as u64;
    }
    place(order[0])
}

fn follow(memory: &[u64], first: usize, steps: usize) {
    let mut at = first;
    for _ in 0..steps {
        at = memory[at] as usize;
    }
    black_box(at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it measures")]
    fn a_calibration_gives_figures_that_can_be() {
        let start = Instant::now();
        let machine = Machine::calibrate();
        assert!((SWEEPS[0]..=MOST).contains(&machine.tlb_pages), "{machine:?}");
        for (name, ns) in machine.costs.named() {
            assert!(ns > 0.0 && ns < 1e5, "{name} {ns}");
        }
        println!("{machine:?} in {:?}", start.elapsed());
    }
}
