//! Composition: the map of a child communicator over its parent's.
//!
//! | parent ∘ child | result | cost |
//! |---|---|---|
//! | any ∘ all ranks in order | the parent, shared | O(1) |
//! | affine ∘ affine | affine | O(1) |
//! | affine ∘ mixed radix, tile | the same digits or tile, scaled | O(runs) |
//! | affine ∘ segments | segments, or less for stride 0 | O(runs) |
//! | offset 0 ∘ lut | the child's table, shared | O(1) |
//! | mixed radix, tile, segments ∘ any | the parent's runs cut at the child's, detected again | O(runs met) |
//! | mlut of numbers ∘ any | the parent's runs likewise, numbered again | O(runs met) |
//! | lut, mlut ∘ affine | a view of the parent's table, unless it is regular or under an eighth | O(child) |
//! | compact ∘ any | detected again, compressed | O(child) |
//! | lut, mlut ∘ other | detected again | O(child) |
//!
//! What a compact parent selects is compressed again unless it is a formula or
//! segments; where the child's ranks are regular and its lpids are not, only the
//! ranks are kept, beside a reference to the parent, which then lives on when its
//! communicator is freed.
//!
//! Guo et al. (2017), Table II, gives up at a stride of a stride and at any
//! stride of a table. Detecting again never writes the child's ranks down
//! unless the result is irregular.

use std::sync::Arc;

use super::affine::{Affine, Piece};
use super::compact::{Compact, Representation, Strategy};
use super::detect::Detector;
use super::error::MapError;
use super::map::{Form, RankMap};
use super::regular::Regular;
use super::table::View;

/// A selection smaller than the table by this factor is copied out, so that it
/// does not keep a large table alive.
const COPY_BELOW: u32 = 8;

impl RankMap {
    /// The map of a child communicator: `self` is the parent's map, `child` maps
    /// each new rank to a rank of the parent.
    ///
    /// # Errors
    /// [`MapError::ChildNotRanks`] if the child is not of process group 0,
    /// [`MapError::RankOutOfParent`] at the first rank the parent does not have.
    pub fn compose(&self, child: &RankMap) -> Result<RankMap, MapError> {
        let strategy = self.is_compact().then(Strategy::default);
        self.compose_with(child, strategy)
    }

    /// [`compose`](Self::compose), with an irregular result held as `strategy`
    /// says; without one it is a table. What is selected from a compact map may
    /// keep that map alive: see the module's head.
    ///
    /// # Errors
    /// As [`compose`](Self::compose).
    pub fn compose_with(
        &self,
        child: &RankMap,
        strategy: Option<Strategy>,
    ) -> Result<RankMap, MapError> {
        let map = self.composed(child)?;
        Ok(match strategy {
            Some(strategy) => self.kept(child, map, strategy),
            None => map,
        })
    }

    fn composed(&self, child: &RankMap) -> Result<RankMap, MapError> {
        if child.pg() != Some(0) {
            return Err(MapError::ChildNotRanks { pg: child.pg() });
        }
        if let Form::Regular(Regular::Affine(ranks)) = child.form {
            self.check(0, ranks, child.size)?;
            return Ok(self.selected(ranks, child.size));
        }
        if let Form::Regular(Regular::Affine(parent)) = self.form
            && let Some(map) = self.scale(parent, child)?
        {
            return Ok(map);
        }
        let mut detector = Detector::with_pg(self.pg);
        let mut done = 0;
        let mut pieces = child.iter();
        while let Some(Piece { first, step, len }) = pieces.next_piece() {
            let ranks = Affine { first: first.lpid, step };
            self.check(done, ranks, len)?;
            self.for_each_piece(ranks, len, &mut |piece| {
                detector.push_piece(piece);
                true
            });
            done += len;
        }
        detector.finish()
    }

    /// Returns true if a strategy has compressed it.
    fn is_compact(&self) -> bool {
        match &self.form {
            Form::Compact(_) => true,
            Form::Several(_) => !self.form.is_formula(),
            Form::Regular(_) | Form::Lut(_) | Form::Mlut(_) => false,
        }
    }

    /// Whether this map has the ranks; `done` ranks of the child went before.
    fn check(&self, done: u32, ranks: Affine, len: u32) -> Result<(), MapError> {
        if len == 0 {
            return Ok(());
        }
        let size = self.size;
        let last = ranks.get(len - 1);
        if ranks.first < size && last < size {
            return Ok(());
        }
        // Monotone, so the ranks outside are the first or all from some one on.
        let inside =
            if ranks.first >= size { 0 } else { (size - 1 - ranks.first) / ranks.step as u32 + 1 };
        Err(MapError::RankOutOfParent { index: done + inside, rank: ranks.get(inside), size })
    }

    /// The ranks `ranks.get(0..len)` of this map, all of which it has.
    pub(super) fn select(&self, ranks: Affine, len: u32) -> RankMap {
        let map = self.selected(ranks, len);
        if self.is_compact() {
            let child = RankMap { pg: 0, size: len, form: Form::Regular(Regular::Affine(ranks)) };
            return self.kept(&child, map, Strategy::default());
        }
        map
    }

    fn selected(&self, ranks: Affine, len: u32) -> RankMap {
        if len == self.size && (ranks == Affine { first: 0, step: 1 }) {
            return self.clone();
        }
        if len == 0 {
            return RankMap { pg: self.pg, ..RankMap::direct(0) };
        }
        if let Form::Regular(Regular::Affine(parent)) = self.form {
            let step = if len == 1 { 1 } else { parent.step.wrapping_mul(ranks.step) };
            let form =
                Form::Regular(Regular::Affine(Affine { first: parent.get(ranks.first), step }));
            return RankMap { form, pg: self.pg, size: len };
        }
        let view = match &self.form {
            Form::Lut(view) if !copied(view, len) => {
                Some(Form::Lut(view.select(ranks.first, ranks.step)))
            }
            Form::Mlut(view) if !copied(view, len) => {
                Some(Form::Mlut(view.select(ranks.first, ranks.step)))
            }
            _ => None,
        };
        let mut detector = Detector::with_pg(self.pg);
        let whole = self.for_each_piece(ranks, len, &mut |piece| {
            detector.push_piece(piece);
            view.is_none() || detector.is_regular()
        });
        if whole && let Ok(map) = detector.finish() {
            return map;
        }
        match view {
            // An mlut view may still be of one group; those ranks need a lut.
            Some(Form::Mlut(view)) => self.one_group(view, len),
            Some(form) => RankMap { pg: self.pg, size: len, form },
            // Detection of ranks that were in a map cannot fail.
            None => RankMap { pg: self.pg, ..RankMap::direct(0) },
        }
    }

    /// An irregular `map`, which is `child`'s of this one, as `strategy` says.
    fn kept(&self, child: &RankMap, map: RankMap, strategy: Strategy) -> RankMap {
        match (&self.form, &map.form) {
            // Its table is there already.
            (Form::Lut(parent), Form::Lut(view)) if Arc::ptr_eq(&parent.table, &view.table) => map,
            (Form::Compact(parent), Form::Compact(same)) if Arc::ptr_eq(parent, same) => map,
            (Form::Mlut(parent), Form::Mlut(view)) if Arc::ptr_eq(&parent.table, &view.table) => {
                map
            }
            (_, Form::Mlut(_)) => map.compressed(strategy).unwrap_or(map),
            (_, Form::Regular(Regular::Segments(_)) | Form::Lut(_) | Form::Compact(_)) => {
                let map = map.compressed(strategy).unwrap_or(map);
                self.against(child, &map, strategy).unwrap_or(map)
            }
            _ => map,
        }
    }

    /// `child` held against this compact map, if that takes less than half of
    /// what `map`, the same by itself, does. As with tables, a small child does
    /// not keep a large parent.
    fn against(&self, child: &RankMap, map: &RankMap, strategy: Strategy) -> Option<RankMap> {
        let Form::Compact(parent) = &self.form else { return None };
        let large = u64::from(child.size) * u64::from(COPY_BELOW) >= u64::from(parent.len());
        // Two lookups for one, so not where time is all that counts.
        if !large || strategy == Strategy::Time || map.model().is_regular() {
            return None;
        }
        // A child of a child is one of its parent.
        let (parent, ranks) = match parent.as_child() {
            Some((parent, ranks)) => {
                let ranks = RankMap::from(ranks.clone());
                (parent, ranks.compose_with(child, Some(strategy)).ok()?)
            }
            None => (parent, child.clone()),
        };
        let ranks = Compact::try_from(ranks).ok()?;
        if ranks.representation() == Representation::Child || 2 * ranks.bytes() > map.heap_bytes() {
            return None;
        }
        let compact = Compact::child(parent, ranks).ok()?;
        let form = Form::Compact(Arc::new(compact));
        Some(RankMap { pg: self.pg, size: child.size, form })
    }

    fn one_group(&self, view: View<u64>, len: u32) -> RankMap {
        let map = RankMap { pg: 0, size: len, form: Form::Mlut(view) };
        let pg = map.at(0).pg;
        if map.iter().all(|process| process.pg == pg)
            && let Ok(single) = RankMap::from_processes(map.iter())
        {
            return single;
        }
        map
    }

    /// Affine parents keep the child's form: `base + stride · lpid`.
    fn scale(&self, parent: Affine, child: &RankMap) -> Result<Option<RankMap>, MapError> {
        match &child.form {
            Form::Regular(_) if child.is_below(self.size) => {}
            Form::Lut(_) => {
                let mut ranks = (0..).zip(child.iter());
                if let Some((index, process)) = ranks.find(|(_, it)| it.lpid >= self.size) {
                    let (rank, size) = (process.lpid, self.size);
                    return Err(MapError::RankOutOfParent { index, rank, size });
                }
            }
            _ => {
                let mut pieces = child.iter();
                let mut done = 0;
                while let Some(Piece { first, step, len }) = pieces.next_piece() {
                    self.check(done, Affine { first: first.lpid, step }, len)?;
                    done += len;
                }
            }
        }
        if parent.step == 0 {
            let form = Form::Regular(Regular::Affine(Affine { first: parent.first, step: 0 }));
            return Ok(Some(RankMap { pg: self.pg, size: child.size, form }));
        }
        let same = parent == Affine { first: 0, step: 1 };
        let form = match &child.form {
            form if same => form.clone(),
            Form::Regular(form) => match form.scaled(parent.first, parent.step) {
                Some(form) => Form::Regular(form),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(RankMap { pg: self.pg, size: child.size, form }))
    }

    /// Calls `f` with the affine runs of `ranks.get(0..len)` in this map, until
    /// it says `false`; returns whether it never did.
    pub(super) fn for_each_piece(
        &self,
        ranks: Affine,
        len: u32,
        f: &mut impl FnMut(Piece) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < len {
            let rank = ranks.get(done);
            // The run of this map around `rank`: step, and the ranks it spans.
            let (step, low, high) = match &self.form {
                Form::Regular(form) => form.run_around(rank, self.size),
                Form::Several(several) => several.run_around(rank, self.size),
                Form::Compact(_) | Form::Lut(_) | Form::Mlut(_) => (1, rank, rank),
            };
            let space = match ranks.step {
                0 => len,
                ahead if ahead > 0 => (high - rank) / ahead as u32 + 1,
                back => (rank - low) / back.unsigned_abs() + 1,
            };
            let take = space.min(len - done);
            if !f(Piece { first: self.at(rank), step: step.wrapping_mul(ranks.step), len: take }) {
                return false;
            }
            done += take;
        }
        true
    }
}

fn copied<T>(view: &View<T>, len: u32) -> bool {
    view.table.entries.len() as u64 > u64::from(len) * u64::from(COPY_BELOW)
}
