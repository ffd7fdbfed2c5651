//! Walking a map in rank order.

use core::iter::FusedIterator;

use super::{
    Form, Process, RankMap, compact, odometer::Odometer, segments::Run, table::View, tile::Tile,
};

/// The processes of a map in rank order; see [`RankMap::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pg: u32,
    /// lpid of the next rank.
    next: u32,
    step: i32,
    /// Ranks left of the current affine run.
    run: u32,
    /// Ranks left in all, those of the current run included.
    left: u32,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Affine,
    Mixed(Odometer),
    /// The tile, the place in it and what the lpids there have grown by.
    Tile(&'a Tile, usize, u32),
    Segments(&'a [Run]),
    /// It decodes ahead, so it is large.
    Compact(Box<compact::Iter<'a>>),
    /// The ranges of a compact set, and which is next.
    Ranges(&'a compact::Runs, u32),
    Lut(&'a View<u32>, u32),
    Mlut(&'a View<u64>, u32),
}

/// An affine run: `len` ranks from `first` on in steps of `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) first: Process,
    pub(super) step: i32,
    pub(super) len: u32,
}

impl<'a> Iter<'a> {
    pub(super) fn new(map: &'a RankMap) -> Iter<'a> {
        let mut iter =
            Iter { pg: map.pg, next: 0, step: 1, run: 0, left: map.size, source: Source::Affine };
        match &map.form {
            Form::Affine(a) => {
                (iter.next, iter.step, iter.run) = (a.first, a.step, map.size);
            }
            Form::Block(b) => {
                iter.step = b.step;
                iter.source = Source::Mixed(Odometer::new(&b.widen()));
            }
            Form::Mixed(m) => {
                iter.step = m.step[0];
                iter.source = Source::Mixed(Odometer::new(m));
            }
            Form::Tile(tile) => iter.source = Source::Tile(tile, 0, 0),
            Form::Segments(s) => iter.source = Source::Segments(&s.runs),
            Form::Compact(c) => {
                iter.source = match c.ranges() {
                    Some(ranges) => Source::Ranges(ranges, 0),
                    None => Source::Compact(Box::new(c.iter())),
                }
            }
            Form::Lut(view) => iter.source = Source::Lut(view, 0),
            Form::Mlut(view) => iter.source = Source::Mlut(view, 0),
        }
        iter
    }

    /// Opens the next run. Only called with ranks left and the run used up.
    #[inline]
    fn refill(&mut self) {
        match &mut self.source {
            Source::Affine => {}
            Source::Mixed(odometer) => {
                let (first, run) = odometer.advance();
                self.next = first;
                self.run = run.min(self.left);
            }
            Source::Tile(tile, place, grown) => {
                self.next = tile.lpids[*place].wrapping_add(*grown);
                self.run = 1;
                *place += 1;
                if *place == tile.lpids.len() {
                    *place = 0;
                    *grown = grown.wrapping_add(tile.growth as u32);
                }
            }
            Source::Segments(runs) => {
                if let Some((run, rest)) = runs.split_first() {
                    (self.next, self.step) = (run.first, run.step);
                    self.run = rest.first().map_or(self.left, |next| next.start - run.start);
                    *runs = rest;
                }
            }
            Source::Compact(iter) => {
                if let Some(lpid) = iter.next() {
                    self.next = lpid;
                }
                self.run = 1;
            }
            Source::Ranges(ranges, range) => {
                (self.next, self.run) = ranges.range(*range);
                *range += 1;
            }
            Source::Lut(view, rank) => {
                self.next = view.get(*rank);
                self.run = 1;
                *rank += 1;
            }
            Source::Mlut(view, rank) => {
                let process = Process::unpack(view.get(*rank));
                (self.pg, self.next) = (process.pg, process.lpid);
                self.run = 1;
                *rank += 1;
            }
        }
    }

    /// The rest of the current affine run at once, or the next run.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        if self.run == 0 {
            self.refill();
        }
        let first = Process { pg: self.pg, lpid: self.next };
        let piece = Piece { first, step: self.step, len: self.run };
        self.left -= self.run;
        self.run = 0;
        Some(piece)
    }
}

impl Iterator for Iter<'_> {
    type Item = Process;

    #[inline]
    fn next(&mut self) -> Option<Process> {
        if self.run == 0 {
            if self.left == 0 {
                return None;
            }
            self.refill();
        }
        self.run -= 1;
        self.left -= 1;
        let process = Process { pg: self.pg, lpid: self.next };
        self.next = self.next.wrapping_add(self.step as u32);
        Some(process)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}
