//! Walking a map in rank order.

use core::iter::FusedIterator;

use super::affine::Piece;
use super::compact;
use super::compact::runs::Runs as Ranges;
use super::map::{Form, RankMap};
use super::process::Process;
use super::regular::Runs;
use super::several::SeveralRuns;
use super::table::View;

impl RankMap {
    /// The processes in rank order, without a lookup for each.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }
}

impl<'a> IntoIterator for &'a RankMap {
    type Item = Process;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

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
    Regular(Runs<'a>),
    /// It decodes ahead, so it is large.
    Compact(Box<compact::Iter<'a>>),
    /// The ranges of a compact set, and which is next.
    Ranges(&'a Ranges, u32),
    Lut(&'a View<u32>, u32),
    /// Boxed: as large as all others together.
    Several(Box<SeveralRuns<'a>>),
    Mlut(&'a View<u64>, u32),
}

impl<'a> Iter<'a> {
    fn new(map: &'a RankMap) -> Iter<'a> {
        let source = match &map.form {
            Form::Regular(form) => Source::Regular(form.runs()),
            Form::Compact(c) => match c.ranges() {
                Some(ranges) => Source::Ranges(ranges, 0),
                None => Source::Compact(Box::new(c.iter())),
            },
            Form::Lut(view) => Source::Lut(view, 0),
            Form::Several(several) => Source::Several(Box::new(several.runs())),
            Form::Mlut(view) => Source::Mlut(view, 0),
        };
        Iter { pg: map.pg, next: 0, step: 1, run: 0, left: map.size, source }
    }

    /// Opens the next run. Only called with ranks left and the run used up.
    #[inline]
    fn refill(&mut self) {
        match &mut self.source {
            Source::Regular(runs) => {
                let (first, step, run) = runs.next_run();
                (self.next, self.step, self.run) = (first, step, run.min(self.left));
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
            Source::Several(runs) => {
                let Piece { first, step, len } = runs.next_run();
                (self.pg, self.next) = (first.pg, first.lpid);
                (self.step, self.run) = (step, len.min(self.left));
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
