//! Compact forms: irregular maps near their entropy.
//!
//! A [`RankMap`] that is a formula costs nothing; one that is not
//! is a table of 4 bytes a rank. A [`Compact`] holds such a map in a tenth or a
//! thousandth of that, for a few nanoseconds a lookup. The framework is Mir
//! Taheri's (2011), "Scalability of Communicators in MPI": a map is a set (the
//! lpids rise) or a list, each [`Representation`] can hold some maps, and a
//! [`Strategy`] picks one.
//!
//! # Which wins when
//!
//! | map | space | hybrid | time |
//! |---|---|---|---|
//! | a formula (stride, box, transpose, tile) | formula | formula | formula |
//! | a transpose or box of more than four digits | mixed-radix | mixed-radix | mixed-radix, plain or packed where the caches hold it |
//! | few ranges, any order | segments, or runs if they rise | segments | blocks, plain when small |
//! | a few hundred ranges and more, rising | runs | runs | blocks |
//! | faces and planes of a topology | diagram by its radices | diagram | packed |
//! | random set, more than a quarter of its range | slim-bitmap | darray | packed, plain when small |
//! | random set, sparser | Elias-Fano | Elias-Fano | packed, plain when small |
//! | nearly sorted list | blocks | blocks | blocks |
//! | list of some other order: shuffled nodes, repeated odd steps | coded, if an eighth smaller than all others | packed or blocks | packed |
//! | random list or permutation | packed | packed | packed, plain when small |
//! | a permutation of few interleaved rising runs | wavelet | blocks or wavelet | blocks, plain when small |
//! | a child whose ranks are regular | child | child | as by itself |
//!
//! What small is, and where a larger form is slower than a smaller one, caches
//! decide: a table takes what its bytes take. The space-time curve of a map is in
//! `cargo bench -p rankway-cli --bench compact`.
//!
//! # What each costs
//!
//! `n` ranks in a range of `u` lpids, `k` ranges or segments. Building reads the
//! lpids twice (coded: three times): once for the estimates (8 KB), then into the
//! form.
//!
//! | representation | holds | bits | select | rank | memory while building |
//! |---|---|---|---|---|---|
//! | formula | regular maps | 0–4 KB | O(1) | O(1) | 1 KB |
//! | mixed-radix | boxes and transposes of up to 16 digits | 128 a digit above the first | O(digits) multiplications, independent | O(digits) divisions if lpids differ, else by an inverse | 0.3 KB |
//! | segments | lists | 144 a segment | O(log), mostly O(1) | O(log k), an index on first use | 4 B a rank at worst |
//! | elias-fano | sets | `n(2.5 + log u/n)` | O(1) | O(log n/64) | the result |
//! | bitmap | sets | `1.125u + n/16` | O(1), three dependent loads | O(1) | the result |
//! | slim-bitmap | sets | `1.008u` | O(log u/65,536), then ≤ 32 words | O(1), ≤ 32 words | the result |
//! | darray | sets | `1.03u + n/2` (dense) to `1.03u + 2n` (sparse) | O(1), two dependent loads | O(1) | the result |
//! | runs | sets | `k(5 + log u/k + log n/k)` | O(log k/64) | O(log k/64) | 8 B a range |
//! | gaps | sets | `n(1 + log largest gap)` | ≤ 31 steps | O(log n/32) + 31 steps | the result |
//! | diagram | sets | by structure | a search in each level | O(levels) | 8 B an edge |
//! | blocks | lists | `1.5n` + residuals | O(1) | by an inverse | the result |
//! | packed | lists | `n log u` | O(1) | by an inverse | the result |
//! | plain | lists | `32n` | O(1) | by an inverse | the result |
//! | wavelet | permuted sets of `ρ` rising runs | the set + `1.125n log ρ` | O(log ρ · log n) | O(log ρ) | 16 B a rank |
//! | coded | lists | the entropy of the steps | decodes a block of 1,024 ranks, but the last one | by an inverse with the lpids | the result and 8 KB |
//! | child | ranks of a parent | the ranks' | both maps' | both maps' | the ranks' |
//!
//! Sets answer `rank` from what they are. Lists make an inverse on the first
//! question, which counts in [`Compact::bytes`] from then on: back-pointers on
//! the cycles of a permutation (about 3/8 of a packed list more), else the ranks
//! sorted by lpid, packed, with a bitmap of the lpids unless those repeat or lie
//! far apart. It takes 8 bytes a rank while it is made.
//!
//! Words are counted and searched by popcnt and pdep, and packed numbers read
//! eight at a time by AVX2, where the machine has them, asked at run time, else
//! portably. Maps are written as images, versioned and
//! with a checksum ([`Compact::to_image`]).
//!
//! ```
//! use rankway::rankmap::compact::{Compact, Strategy};
//!
//! // Every prime below 100,000 is a member.
//! let prime = |n: &u32| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
//! let primes: Vec<u32> = (2..100_000).filter(prime).collect();
//! let map = Compact::new(Strategy::Space, primes.iter().copied())?;
//! assert!(map.bytes() < primes.len());
//! assert_eq!((map.find(3), map.position(7)), (Some(7), Some(3)));
//! let image = map.to_image();
//! assert!(Compact::from_image(&image)?.iter().eq(primes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bitmap;
mod blocks;
mod builder;
mod child;
mod coded;
mod counts;
mod cpu;
mod darray;
mod diagram;
mod elias_fano;
mod formula;
mod gaps;
mod image;
mod inverse;
mod iter;
mod mixed_radix;
mod ones;
mod packed;
mod plain;
#[cfg(test)]
mod refused;
mod runs;
mod slim;
mod stats;
mod strategy;
#[cfg(test)]
mod tests;
mod wavelet;

use core::fmt;
use core::ops::Range;
use std::sync::{Arc, OnceLock};

pub(super) use self::bitmap::Bitmap;
use self::blocks::Blocks;
use self::child::Child;
use self::coded::Coded;
use self::darray::Darray;
use self::diagram::Diagram;
use self::elias_fano::EliasFano;
use self::gaps::Gaps;
use self::inverse::Inverse;
use self::mixed_radix::MixedRadix;
use self::plain::{Offset, Plain};
pub(super) use self::runs::Runs;
use self::slim::Slim;
use self::stats::Stats;
use self::wavelet::Wavelet;
#[cfg(test)]
use super::SIZE_MAX;
use super::table::View;
use super::{LPID_MAX, MapError, Process, RankMap};

pub use self::builder::Builder;
pub use self::image::{Refused, VERSION};
pub use self::iter::Iter;
pub use self::strategy::{Estimate, Strategy, UnknownStrategy};

/// The representations a [`Compact`] map may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Representation {
    /// A stride, box or tile: [`Model::is_regular`](super::Model::is_regular).
    Formula = 0,
    /// Affine runs with a directory.
    Segments = 1,
    /// Elias-Fano.
    EliasFano = 2,
    /// A bitmap with counts.
    Bitmap = 3,
    /// Elias-Fano of the starts of ranges.
    Runs = 4,
    /// Gap encoding.
    Gaps = 5,
    /// A decision diagram with model counts.
    Diagram = 6,
    /// Affine blocks with packed residuals.
    Blocks = 7,
    /// Bit-packed lpids.
    Packed = 8,
    /// Lpids of 4 bytes.
    Plain = 9,
    /// A set, and a wavelet tree on the runs of its permutation.
    Wavelet = 10,
    /// Ranks of a parent ([`Compact::child`]); never built from lpids.
    Child = 11,
    /// A bitmap with the places of its members.
    Darray = 12,
    /// Mixed-radix digits in another order, more than a formula has.
    MixedRadix = 13,
    /// Blocks of steps, entropy-coded.
    Coded = 14,
    /// A bitmap with few counts.
    Slim = 15,
}

impl Representation {
    /// Every one, in the order of the table above.
    pub const ALL: [Representation; 16] = [
        Representation::Formula,
        Representation::MixedRadix,
        Representation::Segments,
        Representation::EliasFano,
        Representation::Bitmap,
        Representation::Slim,
        Representation::Darray,
        Representation::Runs,
        Representation::Gaps,
        Representation::Diagram,
        Representation::Blocks,
        Representation::Packed,
        Representation::Plain,
        Representation::Wavelet,
        Representation::Coded,
        Representation::Child,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Representation::Formula => "formula",
            Representation::Segments => "segments",
            Representation::EliasFano => "elias-fano",
            Representation::Bitmap => "bitmap",
            Representation::Darray => "darray",
            Representation::Runs => "runs",
            Representation::Gaps => "gaps",
            Representation::Diagram => "diagram",
            Representation::Blocks => "blocks",
            Representation::Packed => "packed",
            Representation::Plain => "plain",
            Representation::Wavelet => "wavelet",
            Representation::Child => "child",
            Representation::MixedRadix => "mixed-radix",
            Representation::Coded => "coded",
            Representation::Slim => "slim-bitmap",
        }
    }

    /// Returns true if it holds any list, and not only rising lpids.
    pub const fn is_list(self) -> bool {
        use Representation::{Bitmap, Darray, Diagram, EliasFano, Gaps, Runs, Slim};
        !matches!(self, EliasFano | Bitmap | Slim | Darray | Runs | Gaps | Diagram)
    }
}

impl fmt::Display for Representation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a compact map could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// Not a map at all.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The representation asked for cannot hold this map.
    #[error(
        "{representation} cannot hold this map of {size} ranks: {why}; ask for another or for a strategy"
    )]
    Unfit {
        /// What was asked for.
        representation: Representation,
        /// Ranks of the map.
        size: u32,
        /// What is in the way.
        why: &'static str,
    },
}

/// An immutable map from ranks `0..len` to lpids, in few bytes.
pub struct Compact {
    /// Of the form: asked before every lookup, so not looked for in it.
    len: u32,
    form: Form,
    /// Boxed: most maps are never asked.
    inverse: OnceLock<Box<Inverse>>,
}

#[derive(Clone, Debug)]
enum Form {
    /// Formulas and segments.
    Formula(RankMap),
    EliasFano(EliasFano),
    Bitmap(Bitmap),
    Slim(Slim),
    Darray(Darray),
    /// Boxed: as large as two other forms.
    Runs(Box<Runs>),
    Gaps(Gaps),
    Diagram(Diagram),
    Blocks(Blocks),
    Packed(Offset),
    Plain(Plain),
    Wavelet(Wavelet),
    Child(Child),
    MixedRadix(MixedRadix),
    Coded(Coded),
}

/// Calls a method of whichever form but the formula there is.
macro_rules! each {
    ($form:expr, $map:ident => $formula:expr, $one:ident => $other:expr) => {
        match $form {
            Form::Formula($map) => $formula,
            Form::EliasFano($one) => $other,
            Form::Bitmap($one) => $other,
            Form::Slim($one) => $other,
            Form::Darray($one) => $other,
            Form::Runs($one) => $other,
            Form::Gaps($one) => $other,
            Form::Diagram($one) => $other,
            Form::Blocks($one) => $other,
            Form::Packed($one) => $other,
            Form::Plain($one) => $other,
            Form::Wavelet($one) => $other,
            Form::Child($one) => $other,
            Form::MixedRadix($one) => $other,
            Form::Coded($one) => $other,
        }
    };
}

impl Compact {
    /// The map of these lpids in the form the strategy picks. The iterator is
    /// cloned: it is walked twice, so a map is never written down only to be
    /// compressed. [`Builder`] takes lpids that come but once.
    ///
    /// # Errors
    /// [`CompactError::Map`] if an lpid is too large or there are too many.
    pub fn new<I>(strategy: Strategy, lpids: I) -> Result<Compact, CompactError>
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Clone,
    {
        Compact::with_radices(strategy, &[], lpids)
    }

    /// The same for a map on a Cartesian topology of these radices, the slowest
    /// first: its faces and planes are small decision diagrams.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_radices<I>(
        strategy: Strategy,
        radices: &[u32],
        lpids: I,
    ) -> Result<Compact, CompactError>
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Clone,
    {
        let lpids = lpids.into_iter();
        let stats = Stats::of(lpids.clone())?;
        Ok(Compact::choose(strategy, radices, stats, lpids))
    }

    /// This representation of the lpids.
    ///
    /// # Errors
    /// [`CompactError::Map`], and [`CompactError::Unfit`] if it cannot hold them.
    pub fn build<I>(representation: Representation, lpids: I) -> Result<Compact, CompactError>
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Clone,
    {
        Compact::build_with_radices(representation, &[], lpids)
    }

    /// This representation on a topology of these radices, which matter to
    /// diagrams only; none are bits.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_with_radices<I>(
        representation: Representation,
        radices: &[u32],
        lpids: I,
    ) -> Result<Compact, CompactError>
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Clone,
    {
        let lpids = lpids.into_iter();
        let stats = Stats::of(lpids.clone())?;
        let unfit = |why| CompactError::Unfit { representation, size: stats.len, why };
        match Compact::form(representation, radices, &stats, lpids) {
            Ok(form) => Ok(Compact::of(form)),
            Err(why) => Err(unfit(why)),
        }
    }

    /// A child of `parent`: its rank `r` is the parent's rank `ranks(r)`. Only
    /// the ranks are new bytes; the parent lives as long as a child of it.
    ///
    /// # Errors
    /// [`CompactError::Map`] with [`MapError::RankOutOfParent`] at the first rank
    /// that the parent does not have.
    pub fn child(parent: &Arc<Compact>, ranks: Compact) -> Result<Compact, CompactError> {
        match Child::new(Arc::clone(parent), ranks) {
            Ok(child) => Ok(Compact::of(Form::Child(child))),
            Err((index, rank)) => {
                let size = parent.len();
                Err(MapError::RankOutOfParent { index, rank, size }.into())
            }
        }
    }

    /// What every representation would cost, decision diagrams and wavelet
    /// trees of sets with gaps excluded.
    ///
    /// # Errors
    /// [`CompactError::Map`].
    pub fn estimate(lpids: impl IntoIterator<Item = u32>) -> Result<Vec<Estimate>, CompactError> {
        Ok(Stats::of(lpids)?.estimates())
    }

    fn of(form: Form) -> Compact {
        let len = each!(&form, map => map.len(), one => one.len());
        Compact { len, form, inverse: OnceLock::new() }
    }

    fn choose(
        strategy: Strategy,
        radices: &[u32],
        stats: Stats,
        lpids: impl Iterator<Item = u32> + Clone,
    ) -> Compact {
        let ranked = stats.ranked(strategy);
        if let Some(&best) = ranked.first() {
            // A formula is as small as anything, and as fast.
            let formula = best.representation == Representation::Formula;
            if stats.rising
                && !formula
                && strategy != Strategy::Time
                && let Some(diagram) = diagram_of(strategy, radices, &stats, best, &lpids)
            {
                return Compact::of(Form::Diagram(diagram));
            }
        }
        let mut fallback = None;
        for (at, estimate) in ranked.iter().enumerate() {
            let Ok(form) = Compact::form(estimate.representation, &[], &stats, lpids.clone())
            else {
                continue;
            };
            let map = Compact::of(form);
            // Larger than thought: the next best may be better.
            let next = ranked.get(at + 1).map_or(u64::MAX, |next| next.bytes);
            if map.bytes() as u64 <= estimate.bytes.max(next) {
                return map;
            }
            fallback.get_or_insert(map);
        }
        fallback.unwrap_or_else(|| Compact::of(Form::Plain(Plain::build(0, lpids))))
    }

    fn form(
        representation: Representation,
        radices: &[u32],
        stats: &Stats,
        lpids: impl Iterator<Item = u32> + Clone,
    ) -> Result<Form, &'static str> {
        let &Stats { len, first, last, .. } = stats;
        if representation != Representation::Formula && len == 0 {
            return Err("it has no ranks");
        }
        if !representation.is_list() && !stats.rising {
            return Err("its lpids do not rise, and this holds sets only");
        }
        const LARGE: &str = "it is too large";
        Ok(match representation {
            Representation::Formula => Form::Formula(stats.formula.clone().ok_or("no formula")?),
            Representation::Segments => {
                if stats.formula.is_some() {
                    return Err("it is a formula");
                }
                if stats.segments > (len / 8).max(1) {
                    return Err("it has more than one segment for 8 ranks");
                }
                let map = RankMap::from_lpids(0, lpids).map_err(|_| LARGE)?;
                if !formula::is_formula(&map) {
                    return Err("it has more than one segment for 8 ranks");
                }
                Form::Formula(map)
            }
            Representation::EliasFano => {
                EliasFano::cost(len.into(), first, last).ok_or(LARGE)?;
                Form::EliasFano(EliasFano::build(len, first, last, lpids))
            }
            Representation::Bitmap => Form::Bitmap(Bitmap::build(first, last, lpids)),
            Representation::Slim => Form::Slim(Slim::build(first, last, lpids)),
            Representation::Darray => Form::Darray(Darray::build(first, last, lpids)),
            Representation::Runs => {
                Runs::cost(stats.ranges.into(), len, first, last).ok_or(LARGE)?;
                Form::Runs(Box::new(Runs::build(lpids)))
            }
            Representation::Gaps => Form::Gaps(Gaps::build(len, stats.most, lpids)),
            Representation::Diagram => {
                let bits = [2; 31];
                let radices = if radices.is_empty() {
                    &bits[..packed::width_of(last).max(1) as usize]
                } else {
                    radices
                };
                let most = 1 << 28;
                let diagram = Diagram::build(radices, last, most, lpids);
                Form::Diagram(diagram.ok_or("the radices do not fit or it is too large")?)
            }
            Representation::Blocks => Form::Blocks(Blocks::build(lpids)),
            Representation::Packed => Form::Packed(Offset::build(stats.min, stats.max, lpids)),
            Representation::Plain => Form::Plain(Plain::build(len as usize, lpids)),
            Representation::Wavelet => {
                if stats.rises > Wavelet::RUNS_MAX {
                    return Err("it has too many rising runs");
                }
                Form::Wavelet(Wavelet::build(lpids).ok_or("an lpid repeats")?)
            }
            Representation::MixedRadix => {
                if stats.formula.is_some() {
                    return Err("it is a formula");
                }
                Form::MixedRadix(stats.digits.clone().ok_or("it has no such digits")?)
            }
            Representation::Coded => Form::Coded(Coded::build(lpids).ok_or(LARGE)?),
            Representation::Child => return Err("it has no parent; use Compact::child"),
        })
    }

    /// As a map of process group 0. What was built in another form and is regular
    /// becomes the formula that it is.
    pub(super) fn into_map(self) -> RankMap {
        if let Form::Formula(map) = self.form {
            return map;
        }
        if formula::is_regular(self.iter())
            && let Ok(map) = RankMap::from_lpids(0, self.iter())
        {
            return map;
        }
        match self.form {
            Form::Plain(list) => {
                let (size, form) = (list.len(), super::Form::Lut(View::new(list.into_list())));
                RankMap { pg: 0, size, form }
            }
            form => {
                let (compact, size) = (Compact { form, ..self }, self.len);
                RankMap { pg: 0, size, form: super::Form::Compact(Arc::new(compact)) }
            }
        }
    }

    /// Parent and ranks, if it is held against one.
    pub(super) fn as_child(&self) -> Option<(&Arc<Compact>, &Compact)> {
        if let Form::Child(child) = &self.form { Some(child.parts()) } else { None }
    }

    /// Returns true if it is held as a set, in which no lpid repeats.
    pub(super) fn is_set(&self) -> bool {
        !self.representation().is_list()
    }

    /// Its ranges, if that is how it is held.
    pub(super) fn ranges(&self) -> Option<&Runs> {
        if let Form::Runs(runs) = &self.form { Some(runs) } else { None }
    }

    /// The lpid of bit 0 and the bits, if it is held as a bitmap.
    pub(super) fn bitmap(&self) -> Option<(u32, &[u64])> {
        match &self.form {
            Form::Bitmap(bitmap) => Some(bitmap.words()),
            Form::Slim(bitmap) => Some(bitmap.words()),
            _ => None,
        }
    }

    /// Number of ranks.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the map is held.
    pub fn representation(&self) -> Representation {
        match &self.form {
            Form::Formula(map) if map.model().is_regular() => Representation::Formula,
            Form::Formula(_) => Representation::Segments,
            Form::EliasFano(_) => Representation::EliasFano,
            Form::Bitmap(_) => Representation::Bitmap,
            Form::Slim(_) => Representation::Slim,
            Form::Darray(_) => Representation::Darray,
            Form::Runs(_) => Representation::Runs,
            Form::Gaps(_) => Representation::Gaps,
            Form::Diagram(_) => Representation::Diagram,
            Form::Blocks(_) => Representation::Blocks,
            Form::Packed(_) => Representation::Packed,
            Form::Plain(_) => Representation::Plain,
            Form::Wavelet(_) => Representation::Wavelet,
            Form::Child(_) => Representation::Child,
            Form::MixedRadix(_) => Representation::MixedRadix,
            Form::Coded(_) => Representation::Coded,
        }
    }

    /// The lpid of `rank`: SELECT. `None` from `len()` on.
    #[inline]
    pub fn find(&self, rank: u32) -> Option<u32> {
        (rank < self.len()).then(|| self.select(rank))
    }

    /// `find` of a rank known to be below the size.
    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        each!(&self.form, map => map.at(rank).lpid, one => one.select(rank))
    }

    /// The lpids of these ranks, into the first places of `out`; how many there
    /// are is returned, which is fewer than asked for where a rank is not in the
    /// map or `out` is short.
    pub fn find_block(&self, ranks: &[u32], out: &mut [u32]) -> usize {
        let known = ranks.iter().map_while(|&rank| self.find(rank));
        out.iter_mut().zip(known).map(|(slot, lpid)| *slot = lpid).count()
    }

    /// The lpids of a range of ranks, in rank order, into the first places of
    /// `out`; how many there are is returned, like [`find_block`](Self::find_block).
    /// Costs a fraction of as many [`find`](Self::find)s.
    pub fn find_range(&self, ranks: Range<u32>, out: &mut [u32]) -> usize {
        let end = ranks.end.min(self.len());
        let count = (end.saturating_sub(ranks.start) as usize).min(out.len());
        self.fill(ranks.start, &mut out[..count]);
        count
    }

    /// Lpids from `rank` on; the map has all the ranks.
    fn fill(&self, rank: u32, out: &mut [u32]) {
        each!(&self.form,
            map => (rank..).zip(out).for_each(|(rank, slot)| *slot = map.at(rank).lpid),
            one => one.fill(rank, out))
    }

    /// The rank of an lpid, the smallest if it has several: RANK.
    pub fn position(&self, lpid: u32) -> Option<u32> {
        match &self.form {
            Form::Formula(map) => map.rank_of(Process { pg: 0, lpid }),
            Form::EliasFano(one) => one.rank(lpid),
            Form::Bitmap(one) => one.rank(lpid),
            Form::Slim(one) => one.rank(lpid),
            Form::Darray(one) => one.rank(lpid),
            Form::Runs(one) => one.rank(lpid),
            Form::Gaps(one) => one.rank(lpid),
            Form::Diagram(one) => one.rank(lpid),
            Form::Blocks(one) => self.inverted(one.len(), lpid, |rank| one.select(rank)),
            Form::Packed(one) => self.inverted(one.len(), lpid, |rank| one.select(rank)),
            Form::Plain(one) => self.inverted(one.len(), lpid, |rank| one.select(rank)),
            Form::Wavelet(one) => one.rank(lpid),
            Form::Coded(one) => {
                let select = |rank| one.select(rank);
                let new = || Inverse::new(one.len(), select);
                let inverse = || Box::new(Inverse::whole(self.iter()).unwrap_or_else(new));
                self.inverse.get_or_init(inverse).rank(lpid, select)
            }
            Form::MixedRadix(one) => one
                .rank(lpid)
                .unwrap_or_else(|| self.inverted(one.len(), lpid, |rank| one.select(rank))),
            Form::Child(one) => one
                .rank(lpid)
                .unwrap_or_else(|| self.inverted(one.len(), lpid, |rank| one.select(rank))),
        }
    }

    fn inverted(&self, len: u32, lpid: u32, select: impl Fn(u32) -> u32) -> Option<u32> {
        self.inverse.get_or_init(|| Box::new(Inverse::new(len, &select))).rank(lpid, select)
    }

    /// The lpids in rank order.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }

    /// Bytes of this map: itself and everything it holds, an inverse included
    /// once it was made.
    pub fn bytes(&self) -> usize {
        let heap = each!(&self.form,
            map => map.bytes() - size_of_val(map),
            one => one.heap_bytes());
        size_of::<Compact>() + heap + self.inverse.get().map_or(0, |inverse| inverse.heap_bytes())
    }

    /// Of [`bytes`](Self::bytes), those of a parent that others hold too.
    pub fn shared_bytes(&self) -> usize {
        if let Form::Child(child) = &self.form { child.shared_bytes() } else { 0 }
    }

    /// The map as bytes that [`from_image`](Self::from_image) reads on any
    /// machine. A child stands alone in its image, in the smallest other form.
    pub fn to_image(&self) -> Vec<u8> {
        if let Form::Child(_) = &self.form
            && let Ok(alone) = Compact::new(Strategy::Space, self.iter())
        {
            return alone.to_image();
        }
        let mut payload = image::Writer::default();
        each!(&self.form,
            map => formula::write(map, &mut payload),
            one => one.write(&mut payload));
        let mut out = image::Writer::default();
        out.bytes(&image::MAGIC);
        out.bytes(&VERSION.to_le_bytes());
        out.bytes(&(self.representation() as u16).to_le_bytes());
        out.u32(self.len());
        out.u32(payload.0.len() as u32);
        out.bytes(&payload.0);
        let checksum = image::checksum(&out.0);
        out.bytes(&checksum.to_le_bytes());
        out.0
    }

    /// The map of an image.
    ///
    /// # Errors
    /// [`Refused`], for whatever bytes are not one.
    pub fn from_image(bytes: &[u8]) -> Result<Compact, Refused> {
        let short = Refused::Length { found: bytes.len(), said: image::HEADER + image::CHECKSUM };
        if !bytes.starts_with(&image::MAGIC) {
            return Err(Refused::Magic);
        }
        let header = bytes.first_chunk::<{ image::HEADER }>().ok_or(short)?;
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(Refused::Version { found: version });
        }
        let representation = u16::from_le_bytes([header[6], header[7]]);
        let size = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let payload = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
        let said = (payload as usize).saturating_add(image::HEADER + image::CHECKSUM);
        if said != bytes.len() {
            return Err(Refused::Length { found: bytes.len(), said });
        }
        let (body, sum) = bytes.split_last_chunk::<{ image::CHECKSUM }>().ok_or(short)?;
        if image::checksum(body) != u64::from_le_bytes(*sum) {
            return Err(Refused::Checksum);
        }
        let mut from = image::Reader { left: &body[image::HEADER..], size };
        let from = &mut from;
        let named = Representation::ALL.iter().find(|&&one| one as u16 == representation);
        let unknown = Refused::Representation { found: representation };
        let form = match named.ok_or(unknown)? {
            _ if size > super::SIZE_MAX => return Err(Refused::Content("too many ranks")),
            Representation::Formula | Representation::Segments => {
                Form::Formula(formula::read(size, from)?)
            }
            // The map of no ranks has one form.
            _ if size == 0 => return Err(Refused::Content("no ranks in a form for some")),
            Representation::EliasFano => Form::EliasFano(EliasFano::read(from)?),
            Representation::Bitmap => Form::Bitmap(Bitmap::read(from)?),
            Representation::Slim => Form::Slim(Slim::read(from)?),
            Representation::Darray => Form::Darray(Darray::read(from)?),
            Representation::Runs => Form::Runs(Box::new(Runs::read(from)?)),
            Representation::Gaps => Form::Gaps(Gaps::read(from)?),
            Representation::Diagram => Form::Diagram(Diagram::read(from)?),
            Representation::Blocks => Form::Blocks(Blocks::read(from)?),
            Representation::Packed => Form::Packed(Offset::read(from)?),
            Representation::Plain => Form::Plain(Plain::read(from)?),
            Representation::Wavelet => Form::Wavelet(Wavelet::read(from)?),
            Representation::MixedRadix => Form::MixedRadix(MixedRadix::read(from)?),
            Representation::Coded => Form::Coded(Coded::read(from)?),
            Representation::Child => return Err(unknown),
        };
        from.end()?;
        let map = Compact::of(form);
        if map.len() != size || map.representation() as u16 != representation {
            return Err(Refused::Content("a header that disagrees with the map"));
        }
        // Sets and formulas have checked their lpids already.
        let list =
            matches!(map.form, Form::Blocks(_) | Form::Packed(_) | Form::Plain(_) | Form::Coded(_));
        if list && map.iter().any(|lpid| lpid > LPID_MAX) {
            return Err(Refused::Content("an lpid past the last one"));
        }
        if matches!(map.form, Form::MixedRadix(_)) && formula::is_regular(map.iter()) {
            return Err(Refused::Content("digits that are a formula"));
        }
        Ok(map)
    }
}

/// The best decision diagram, if one beats `best`: of the radices of the
/// topology if they are known, else of bits.
fn diagram_of(
    strategy: Strategy,
    radices: &[u32],
    stats: &Stats,
    best: Estimate,
    lpids: &(impl Iterator<Item = u32> + Clone),
) -> Option<Diagram> {
    let bits = [2u32; 31];
    let bits = &bits[..packed::width_of(stats.last).max(1) as usize];
    let radices = if radices.is_empty() { bits } else { radices };
    // Two bytes an edge at least, once there are many.
    let most = usize::try_from(best.bytes / 2).unwrap_or(usize::MAX).max(1024);
    let diagram = Diagram::build(radices, stats.last, most, lpids.clone())?;
    let bytes = (size_of::<Compact>() + diagram.heap_bytes()) as u64;
    strategy::diagram_pays(strategy, best, bytes, radices).then_some(diagram)
}

/// Of process group 0, if it is no table.
impl TryFrom<RankMap> for Compact {
    type Error = RankMap;

    fn try_from(map: RankMap) -> Result<Compact, RankMap> {
        match map.form {
            super::Form::Lut(_) | super::Form::Mlut(_) => Err(map),
            super::Form::Compact(compact) => Ok(Arc::unwrap_or_clone(compact)),
            form => Ok(Compact::of(Form::Formula(RankMap { pg: 0, size: map.size, form }))),
        }
    }
}

impl Clone for Compact {
    /// Without the inverse, which is made again when it is needed.
    fn clone(&self) -> Compact {
        Compact::of(self.form.clone())
    }
}

impl PartialEq for Compact {
    /// Returns true if both map every rank to the same lpid, however they are
    /// held.
    fn eq(&self, other: &Compact) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Compact {}

impl fmt::Debug for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact")
            .field("representation", &self.representation())
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}

impl<'a> IntoIterator for &'a Compact {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
