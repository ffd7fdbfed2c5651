//! What detection writes down of an irregular map: runs, or a table once they do not pay.

use std::sync::Arc;

use super::affine::{Affine, Piece};
use super::numbering::Numbering;
use super::process::{LPID_MAX, Process, SIZE_MAX};
use super::regular::Regular;
use super::segments::{RANKS_PER_RUN, Run, Segments};

/// Runs kept in any case while the stream is still short.
const RUNS_MIN: usize = 64;

/// A form, or the entries of a table.
#[derive(Debug)]
pub(super) enum Found {
    Regular(Regular),
    Lpids(Vec<u32>),
    /// Of several process groups: the formula or segments of their numbers.
    Numbers(Numbering, Regular),
    Processes(Vec<u64>),
}

/// The irregular part: runs, or a table once they do not pay.
#[derive(Debug)]
pub(super) struct Runs {
    runs: Vec<Run>,
    /// All runs ever begun, those of the table included.
    begun: u32,
    /// The open run: its first lpid, step, length and the lpid that extends it.
    open: Run,
    len: u32,
    next: u32,
    /// Ranks so far.
    size: u32,
    table: Option<Vec<u32>>,
    capacity: usize,
}

impl Runs {
    pub(super) fn new(capacity: usize) -> Runs {
        let open = Run { start: 0, first: 0, step: 1 };
        let runs = Vec::with_capacity(RUNS_MIN / 2);
        Runs { runs, begun: 0, open, len: 0, next: 0, size: 0, table: None, capacity }
    }

    #[inline]
    pub(super) fn push(&mut self, lpid: u32) {
        if let Some(table) = &mut self.table {
            table.push(lpid);
        }
        if self.len >= 2 && lpid == self.next {
            self.len += 1;
            self.next = lpid.wrapping_add(self.open.step as u32);
        } else if self.len == 1 {
            self.open.step = (lpid as i32).wrapping_sub(self.open.first as i32);
            self.next = lpid.wrapping_add(self.open.step as u32);
            self.len = 2;
        } else {
            self.begin(lpid);
        }
        self.size += 1;
    }

    fn begin(&mut self, lpid: u32) {
        if self.len > 0 && self.table.is_none() {
            self.runs.push(self.open);
            let paying = self.size / RANKS_PER_RUN;
            if self.runs.len() > RUNS_MIN && self.runs.len() > paying as usize {
                let mut table = Vec::with_capacity(self.capacity.max(self.size as usize));
                let runs = core::mem::take(&mut self.runs);
                fill(&mut table, &runs, self.size);
                table.push(lpid);
                self.table = Some(table);
            }
        }
        self.begun += 1;
        self.open = Run { start: self.size, first: lpid, step: 1 };
        self.len = 1;
    }

    /// Lengthens the open run by up to `len` ranks if it goes on with exactly
    /// these; 0 if it does not.
    pub(super) fn extend_run(&mut self, next: u32, step: i32, len: u32) -> u32 {
        let last = i64::from(next) + i64::from(step) * (i64::from(len) - 1);
        if self.len < 2
            || next != self.next
            || step != self.open.step
            || self.table.is_some()
            || !(0..=i64::from(LPID_MAX)).contains(&last)
            || u64::from(self.size) + u64::from(len) > u64::from(SIZE_MAX)
        {
            return 0;
        }
        self.len += len;
        self.size += len;
        self.next = (last as u32).wrapping_add(step as u32);
        len
    }

    pub(super) fn push_run(&mut self, first: u32, step: i32, len: u32) {
        let mut i = 0;
        while i < len {
            let lpid = Affine { first, step }.get(i);
            let consumed = self.extend_run(lpid, step, len - i);
            if consumed == 0 {
                self.push(lpid);
            }
            i += consumed.max(1);
        }
    }

    pub(super) fn for_each(mut self, f: &mut impl FnMut(u32, i32, u32)) {
        match self.table.take() {
            Some(table) => table.iter().for_each(|&lpid| f(lpid, 1, 1)),
            None => {
                self.runs.push(self.open);
                for (k, run) in self.runs.iter().enumerate() {
                    let end = self.runs.get(k + 1).map_or(self.size, |next| next.start);
                    f(run.first, run.step, end - run.start);
                }
            }
        }
    }

    pub(super) fn finish(mut self) -> Found {
        let size = self.size;
        let few = self.begun <= size / RANKS_PER_RUN;
        match self.table.take() {
            Some(table) if few => {
                // The irregular part came first; the rest brought it under.
                let mut again = Runs::new(0);
                again.runs.reserve(self.begun as usize);
                for lpid in table {
                    again.push_unchecked(lpid);
                }
                again.runs.push(again.open);
                Found::Regular(Regular::Segments(Arc::new(Segments::new(again.runs, size))))
            }
            Some(table) => Found::Lpids(table),
            None => {
                self.runs.push(self.open);
                if few {
                    Found::Regular(Regular::Segments(Arc::new(Segments::new(self.runs, size))))
                } else {
                    let mut table = Vec::with_capacity(size as usize);
                    fill(&mut table, &self.runs, size);
                    Found::Lpids(table)
                }
            }
        }
    }

    /// `push` that never turns into a table.
    fn push_unchecked(&mut self, lpid: u32) {
        if self.len >= 2 && lpid != self.next {
            self.runs.push(self.open);
            self.begun += 1;
            self.open = Run { start: self.size, first: lpid, step: 1 };
            self.len = 1;
            self.size += 1;
        } else {
            self.push(lpid);
        }
    }
}

/// Appends the lpids of `runs` up to rank `size`.
fn fill(table: &mut Vec<u32>, runs: &[Run], size: u32) {
    for (k, run) in runs.iter().enumerate() {
        let end = runs.get(k + 1).map_or(size, |next| next.start);
        let affine = Affine { first: run.first, step: run.step };
        table.extend((0..end - run.start).map(|i| affine.get(i)));
    }
}

/// Processes of several groups: runs, or a table once they do not pay.
#[derive(Debug)]
pub(super) struct Processes {
    runs: Vec<Piece>,
    size: u32,
    table: Option<Vec<u64>>,
    capacity: usize,
}

impl Processes {
    pub(super) fn new(capacity: usize) -> Processes {
        Processes { runs: Vec::new(), size: 0, table: None, capacity }
    }

    #[inline]
    pub(super) fn push(&mut self, process: Process) {
        if let Some(table) = &mut self.table {
            table.push(process.pack());
            self.size += 1;
        } else {
            self.push_run(Piece { first: process, step: 1, len: 1 });
        }
    }

    /// Appends a run of one process group.
    pub(super) fn push_run(&mut self, piece: Piece) {
        self.size += piece.len;
        if let Some(table) = &mut self.table {
            return write_out(table, piece);
        }
        if let Some(open) = self.runs.last_mut()
            && open.first.pg == piece.first.pg
        {
            let Piece { first, step, len } = *open;
            let distance = (piece.first.lpid as i32).wrapping_sub(first.lpid as i32);
            let step = if len == 1 { distance } else { step };
            let follows = distance == step.wrapping_mul(len as i32);
            if follows && (piece.len == 1 || piece.step == step) {
                (open.step, open.len) = (step, len + piece.len);
                return;
            }
        }
        self.runs.push(piece);
        let paying = self.size / RANKS_PER_RUN;
        if self.runs.len() > RUNS_MIN && self.runs.len() > paying as usize {
            let mut table = Vec::with_capacity(self.capacity.max(self.size as usize));
            core::mem::take(&mut self.runs).into_iter().for_each(|run| write_out(&mut table, run));
            self.table = Some(table);
        }
    }

    /// The runs in rank order, or the ranks one by one.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let one = |&packed: &u64| Piece { first: Process::unpack(packed), step: 1, len: 1 };
        self.runs.iter().copied().chain(self.table.iter().flatten().map(one))
    }

    pub(super) fn into_table(self) -> Vec<u64> {
        self.table.unwrap_or_else(|| {
            let mut table = Vec::with_capacity(self.size as usize);
            self.runs.into_iter().for_each(|run| write_out(&mut table, run));
            table
        })
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.size as usize * size_of::<u64>()
    }
}

/// Appends the processes of a run.
fn write_out(table: &mut Vec<u64>, Piece { first, step, len }: Piece) {
    let run = Affine { first: first.lpid, step };
    table.extend((0..len).map(|i| Process { pg: first.pg, lpid: run.get(i) }.pack()));
}
