//! [`Compact`]: one of the representations, and what every one answers.

use core::fmt;
use core::ops::Range;
use std::sync::{Arc, OnceLock};

use super::bitmap::Bitmap;
use super::blocks::Blocks;
use super::child::Child;
use super::coded::Coded;
use super::darray::Darray;
use super::diagram::Diagram;
use super::elias_fano::EliasFano;
use super::formula;
use super::gaps::Gaps;
use super::inverse::Inverse;
use super::mixed_radix::MixedRadix;
use super::plain::{Offset, Plain};
use super::representation::Representation;
use super::runs::Runs;
use super::slim::Slim;
use super::wavelet::Wavelet;
use crate::rankmap::regular::{Formula, Regular};

/// An immutable map from ranks `0..len` to lpids, in few bytes.
pub struct Compact {
    /// Of the form: asked before every lookup, so not looked for in it.
    len: u32,
    pub(super) form: Form,
    /// Boxed: most maps are never asked.
    inverse: OnceLock<Box<Inverse>>,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    /// Formulas and segments.
    Formula(Formula),
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
pub(super) use each;

/// The simplest that a map is.
pub(in crate::rankmap) enum Simplest {
    Regular(Regular),
    Lpids(Vec<u32>),
    Compact(Compact),
}

impl Compact {
    pub(super) fn of(form: Form) -> Compact {
        let len = each!(&form, map => map.len(), one => one.len());
        Compact { len, form, inverse: OnceLock::new() }
    }

    /// A formula or segments.
    pub(in crate::rankmap) fn regular(formula: Formula) -> Compact {
        Compact::of(Form::Formula(formula))
    }

    /// What was built in another form and is regular becomes the formula that it
    /// is.
    pub(in crate::rankmap) fn simplest(self) -> Simplest {
        if let Form::Formula(formula) = self.form {
            return Simplest::Regular(formula.form);
        }
        if formula::is_regular(self.iter())
            && let Ok(Some(formula)) = formula::of(self.iter())
        {
            return Simplest::Regular(formula.form);
        }
        match self.form {
            Form::Plain(list) => Simplest::Lpids(list.into_list()),
            form => Simplest::Compact(Compact { form, ..self }),
        }
    }

    /// Parent and ranks, if it is held against one.
    pub(in crate::rankmap) fn as_child(&self) -> Option<(&Arc<Compact>, &Compact)> {
        if let Form::Child(child) = &self.form { Some(child.parts()) } else { None }
    }

    /// Returns true if it is held as a set, in which no lpid repeats.
    pub(in crate::rankmap) fn is_set(&self) -> bool {
        !self.representation().is_list()
    }

    /// Its ranges, if that is how it is held.
    pub(in crate::rankmap) fn ranges(&self) -> Option<&Runs> {
        if let Form::Runs(runs) = &self.form { Some(runs) } else { None }
    }

    /// The lpid of bit 0 and the bits, if it is held as a bitmap.
    pub(in crate::rankmap) fn bitmap(&self) -> Option<(u32, &[u64])> {
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
            Form::Formula(map) if map.form.model().is_regular() => Representation::Formula,
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
    pub(in crate::rankmap) fn select(&self, rank: u32) -> u32 {
        each!(&self.form, map => map.form.get(rank), one => one.select(rank))
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
        if count > 0 {
            self.fill(ranks.start, &mut out[..count]);
        }
        count
    }

    /// Lpids from `rank` on; the map has all the ranks.
    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        each!(&self.form,
            map => (rank..).zip(out).for_each(|(rank, slot)| *slot = map.form.get(rank)),
            one => one.fill(rank, out))
    }

    /// The rank of an lpid, the smallest if it has several: RANK.
    pub fn position(&self, lpid: u32) -> Option<u32> {
        match &self.form {
            Form::Formula(map) => map.rank_of(lpid),
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

    /// Bytes of this map: itself and everything it holds, an inverse included
    /// once it was made.
    pub fn bytes(&self) -> usize {
        let heap = each!(&self.form,
            map => map.form.heap_bytes(),
            one => one.heap_bytes());
        size_of::<Compact>() + heap + self.inverse.get().map_or(0, |inverse| inverse.heap_bytes())
    }

    /// Of [`bytes`](Self::bytes), those of a parent that others hold too.
    pub fn shared_bytes(&self) -> usize {
        if let Form::Child(child) = &self.form { child.shared_bytes() } else { 0 }
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
