//! Maps of several process groups without a table of them: a map of numbers, each of
//! which names a process.

use super::affine::Piece;
use super::compact::{self, Compact};
use super::numbering::Numbering;
use super::process::Process;
use super::regular::{Regular, Runs};

#[derive(Debug)]
pub(super) struct Several {
    pub(super) numbering: Numbering,
    pub(super) numbers: Numbers,
}

/// Rank → number.
#[derive(Debug)]
pub(super) enum Numbers {
    Regular(Regular),
    /// Boxed: several times as large as a formula.
    Compact(Box<Compact>),
}

impl Several {
    /// The process of a rank known to be below the size.
    #[inline]
    pub(super) fn get(&self, rank: u32) -> Process {
        self.numbering.process(match &self.numbers {
            Numbers::Regular(form) => form.get(rank),
            Numbers::Compact(compact) => compact.select(rank),
        })
    }

    /// The smallest rank of a process, in a map of so many ranks.
    pub(super) fn rank_of(&self, size: u32, process: Process) -> Option<u32> {
        let number = self.numbering.number(process)?;
        match &self.numbers {
            Numbers::Regular(form) => form.rank_of(size, number),
            Numbers::Compact(compact) => compact.position(number),
        }
    }

    /// Returns true if it is plain that no process of so many ranks is named twice: different
    /// numbers are different processes.
    pub(super) fn is_apart(&self, size: u32) -> bool {
        match &self.numbers {
            Numbers::Regular(form) => form.is_apart(size),
            Numbers::Compact(compact) => compact.is_set(),
        }
    }

    /// The affine run that a rank of a map of so many is in, as
    /// [`Regular::run_around`].
    pub(super) fn run_around(&self, rank: u32, size: u32) -> (i32, u32, u32) {
        let Numbers::Regular(form) = &self.numbers else { return (1, rank, rank) };
        let (step, low, high) = form.run_around(rank, size);
        let number = form.get(rank);
        let ahead = self.numbering.cut(number, step, high.min(size - 1) - rank + 1).len - 1;
        let behind = self.numbering.cut(number, step.wrapping_neg(), rank - low + 1).len - 1;
        (step, rank - behind, rank + ahead)
    }

    /// At least so many runs a map of so many ranks has, told in constant time.
    pub(super) fn least_runs(&self, ranks: usize) -> usize {
        match &self.numbers {
            Numbers::Regular(form) => form.least_runs(ranks).max(self.numbering.groups()),
            Numbers::Compact(_) => self.numbering.groups(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Regular(form) => form.heap_bytes(),
            Numbers::Compact(compact) => compact.bytes(),
        };
        2 * size_of::<usize>() + size_of::<Several>() + self.numbering.heap_bytes() + numbers
    }

    /// Its affine runs in rank order and without end, each of one process group.
    pub(super) fn runs(&self) -> SeveralRuns<'_> {
        let source = match &self.numbers {
            Numbers::Regular(form) => Source::Regular(form.runs()),
            Numbers::Compact(compact) => Source::Compact(Box::new(compact.iter())),
        };
        SeveralRuns { numbering: &self.numbering, source, number: 0, step: 1, left: 0 }
    }
}

impl PartialEq for Several {
    /// Of the same members they are the same; of compact numbers only the same one is.
    fn eq(&self, other: &Several) -> bool {
        match (&self.numbers, &other.numbers) {
            (Numbers::Regular(one), Numbers::Regular(two)) => {
                self.numbering == other.numbering && one == two
            }
            _ => core::ptr::eq(self, other),
        }
    }
}

/// See [`Several::runs`].
#[derive(Clone, Debug)]
pub(super) struct SeveralRuns<'a> {
    numbering: &'a Numbering,
    source: Source<'a>,
    /// The next number of the run of the source, its step and how many are left of it.
    number: u32,
    step: i32,
    left: u32,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Regular(Runs<'a>),
    /// It decodes ahead, so it is large.
    Compact(Box<compact::Iter<'a>>),
}

impl SeveralRuns<'_> {
    #[inline]
    pub(super) fn next_run(&mut self) -> Piece {
        if self.left == 0 {
            (self.number, self.step, self.left) = match &mut self.source {
                Source::Regular(runs) => runs.next_run(),
                Source::Compact(numbers) => (numbers.next().unwrap_or(0), 1, 1),
            };
        }
        let piece = self.numbering.cut(self.number, self.step, self.left);
        self.number = self.number.wrapping_add((self.step as u32).wrapping_mul(piece.len));
        self.left -= piece.len;
        piece
    }
}
