//! Which representation: bytes and nanoseconds estimated from [`Stats`].
//!
//! The bytes are exact but for spilled samples of Elias-Fano; the times are a
//! model of one dependent random lookup, fitted to `cargo bench -p rankway-cli --bench compact`
//! (its chain included): what the instructions take, and what the loads add once
//! the form outgrows a cache. Only their order matters, which caches of other
//! sizes seldom change.

use super::bitmap::Bitmap;
use super::blocks::Blocks;
use super::darray::Darray;
use super::elias_fano::EliasFano;
use super::gaps::Gaps;
use super::map::Compact;
use super::mixed_radix::MixedRadix;
use super::packed::{Packed, width_of};
use super::representation::Representation;
use super::runs::Runs;
use super::slim::Slim;
use super::stats::Stats;
use super::strategy::Strategy;
use super::wavelet::Wavelet;

/// A representation a map may have, and what it is thought to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Which one.
    pub representation: Representation,
    /// Bytes of the whole, like [`Compact::bytes`].
    pub bytes: u64,
    /// Nanoseconds of one dependent random lookup.
    pub ns: f64,
}

/// Nanoseconds that `loads` dependent loads add in a form of so many bytes: what
/// does not fit a cache goes to the next one.
fn misses(bytes: u64, loads: f64) -> f64 {
    let share = |cache: f64| (cache / bytes.max(1) as f64).min(1.0);
    let (first, second, third) = (share(32e3), share(1.75e6), share(16e6));
    loads * ((second - first) * 4.0 + (third - second) * 30.0 + (1.0 - third) * 130.0)
}

impl Stats {
    /// Every representation that can hold the map, but decision diagrams, whose
    /// size only building them tells, and wavelet trees of sets with gaps.
    pub(super) fn estimates(&self) -> Vec<Estimate> {
        let own = size_of::<Compact>() as u64;
        let len = u64::from(self.len);
        let mut out = Vec::new();
        let mut add = |representation, heap: u64, ns: f64, loads: f64| {
            let bytes = own + heap;
            out.push(Estimate { representation, bytes, ns: ns + misses(bytes, loads) });
        };
        if let Some(map) = &self.formula {
            let heap = map.form.heap_bytes() as u64;
            add(Representation::Formula, heap, 3.1, 0.0);
        }
        if len == 0 {
            return out;
        }
        if let (None, Some(digits)) = (&self.formula, &self.digits) {
            let heap = MixedRadix::cost(digits.levels());
            add(Representation::MixedRadix, heap, 3.5 + 0.8 * digits.levels() as f64, 0.0);
        }
        let runs = u64::from(self.segments);
        if self.formula.is_none() && runs <= (len / 8).max(1) {
            // Runs, a directory and the counts of a shared allocation.
            let steps = (runs as f64).log2().clamp(0.0, 8.0);
            add(Representation::Segments, runs * 12 + runs * 6 + 120, 9.0 + 0.6 * steps, 1.0);
        }
        if self.rising {
            let (first, last) = (self.min, self.max);
            if let Some(heap) = EliasFano::cost(len, first, last) {
                add(Representation::EliasFano, heap, 13.5, 2.0);
            }
            add(Representation::Bitmap, Bitmap::cost(len, first, last), 15.0, 1.5);
            let steps = (f64::from(last - first) / 65_536.0).max(1.0).log2();
            add(Representation::Slim, Slim::cost(first, last), 30.0 + 1.5 * steps, 2.5);
            // Members farther apart than its window are searched.
            let dense = len > u64::from(last - first) / 6;
            let ns = if dense { 5.6 } else { 45.0 };
            add(Representation::Darray, Darray::cost(len, first, last), ns, 2.0);
            if let Some(heap) = Runs::cost(u64::from(self.ranges), self.len, first, last) {
                let steps = f64::from(self.ranges.max(2)).log2();
                add(Representation::Runs, heap, 28.0 + 2.3 * steps, 3.0);
            }
            add(Representation::Gaps, Gaps::cost(len, self.most), 22.0, 1.5);
        }
        // Lines have no residuals and are not looked for any.
        let residuals = 1.0 - Blocks::lines(len) as f64 / self.blocks.max(1) as f64;
        let ns = 5.0 + 2.0 * residuals;
        add(Representation::Blocks, self.blocks, ns, 1.0 + residuals * residuals);
        let width = width_of(self.max - self.min);
        add(Representation::Packed, Packed::cost(len, width), 5.3, 1.0);
        add(Representation::Plain, len * 4, 3.3, 1.0);
        // A lookup decodes a block.
        let bits = self.coded as f64 * 8.0 / len as f64;
        add(Representation::Coded, self.coded, 1024.0 * (4.0 + 4.0 * bits), 0.0);
        // Only where the set is a range, so that its size is known.
        let range = u64::from(self.max - self.min) + 1 == len;
        if range && !self.rising && self.rises <= Wavelet::RUNS_MAX {
            let rows = f64::from(width_of(self.rises - 1));
            let heap = Wavelet::cost(self.len, self.rises) + own;
            add(Representation::Wavelet, heap, 20.0 + 70.0 * rows, rows);
        }
        out
    }

    /// The estimates, best first.
    pub(super) fn ranked(&self, strategy: Strategy) -> Vec<Estimate> {
        let mut all = self.estimates();
        // A lookup that decodes a block has to save an eighth, or a little space
        // would cost a thousandfold.
        let bytes = |one: &Estimate| match one.representation {
            Representation::Coded => one.bytes + one.bytes / 7,
            _ => one.bytes,
        };
        let score = |one: &Estimate| strategy.score(bytes(one), one.ns);
        all.sort_by(|a, b| score(a).total_cmp(&score(b)));
        all
    }
}

/// Returns true if a diagram of so many bytes and these radices beats the best
/// of the rest.
pub(super) fn diagram_pays(
    strategy: Strategy,
    best: Estimate,
    bytes: u64,
    radices: &[u32],
) -> bool {
    let level = |&radix: &u32| 3.5 + 2.5 * f64::from(radix.max(2)).log2();
    let walk: f64 = radices.iter().map(level).sum();
    let ns = 2.0 + walk + misses(bytes, radices.len() as f64 / 2.0);
    strategy.score(bytes, ns) < strategy.score(best.bytes, best.ns)
}
