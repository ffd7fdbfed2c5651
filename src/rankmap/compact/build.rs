//! Maps are made: by a strategy, or in the representation asked for.

use std::sync::Arc;

use super::bitmap::Bitmap;
use super::blocks::Blocks;
use super::child::Child;
use super::coded::Coded;
use super::darray::Darray;
use super::diagram::Diagram;
use super::elias_fano::EliasFano;
use super::error::CompactError;
use super::estimate::{Estimate, diagram_pays};
use super::gaps::Gaps;
use super::map::{Compact, Form};
use super::plain::{Offset, Plain};
use super::representation::Representation;
use super::runs::Runs;
use super::slim::Slim;
use super::stats::Stats;
use super::strategy::Strategy;
use super::wavelet::Wavelet;
use super::{formula, packed};
use crate::rankmap::error::MapError;

impl Compact {
    /// The map of these lpids in the form the strategy picks. The iterator is
    /// cloned: it is walked twice, so a map is never written down only to be
    /// compressed. [`super::Builder`] takes lpids that come but once.
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

    pub(super) fn choose(
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
                let formula = formula::of(lpids).map_err(|_| LARGE)?;
                Form::Formula(formula.ok_or("it has more than one segment for 8 ranks")?)
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
    diagram_pays(strategy, best, bytes, radices).then_some(diagram)
}
