//! Detection: from a stream of ranks' processes to the smallest map.
//!
//! One pass. While the stream is regular the state is a few words (half a
//! kilobyte while it may be a tile); when it turns irregular, what was seen so
//! far is written out from the model and the stream goes on into affine runs,
//! and from those into a table once the runs stop paying. A map of several
//! process groups goes into runs and a table likewise; once all its members are
//! known they are numbered, and their numbers are detected like lpids.

use std::sync::Arc;

use super::affine::{Affine, Piece};
use super::error::MapError;
use super::irregular::{Found, Processes, Runs};
use super::levels::{self, Level, Shape};
use super::mixed::MAX_DIGITS;
use super::numbering::Numbering;
use super::odometer::Odometer;
use super::process::{LPID_MAX, Process, SIZE_MAX};
use super::regular::{Formula, Regular};
use super::segments::RANKS_PER_RUN;
use super::tile::{Periodic, TILE_MAX};

/// Ranks of a table looked at together.
const TABLE_CHUNK: usize = 1024;
/// Most ranks a table is sized for in advance.
const RESERVE_MAX: usize = 1 << 24;

/// Incremental detection: push the ranks in order, then [`finish`](Self::finish).
///
/// Memory is constant until the sequence fits no regular model: no digits (up to
/// four) and no tile (up to 64 ranks). Errors are remembered and reported by
/// `finish`.
#[derive(Debug)]
pub struct Detector {
    pg: u32,
    count: u32,
    first: u32,
    last: u32,
    levels: [Level; MAX_DIGITS],
    sink: Sink,
    /// Ranks there will be as far as is known, to size a table once.
    expected: usize,
    error: Option<MapError>,
}

#[derive(Debug)]
enum Sink {
    Regular,
    /// No digits fit, but the differences repeat.
    Periodic(Box<Periodic>),
    Runs(Runs),
    /// Boxed: as large as all others together.
    Processes(Box<Processes>),
}

/// What a detector found; [`finish`](Detector::finish) makes a map of it.
#[derive(Debug)]
pub(super) struct Detected {
    pub(super) pg: u32,
    pub(super) size: u32,
    pub(super) form: Found,
}

impl Detected {
    /// The formula or segments, if it is no table.
    pub(super) fn formula(self) -> Option<Formula> {
        match self.form {
            Found::Regular(form) => Some(Formula { size: self.size, form }),
            Found::Lpids(_) | Found::Numbers(..) | Found::Processes(_) => None,
        }
    }
}

impl Default for Detector {
    fn default() -> Self {
        Detector::new()
    }
}

impl Detector {
    /// A detector for process group 0 or for [`push_process`](Self::push_process).
    pub fn new() -> Detector {
        Detector::with_pg(0)
    }

    /// A detector whose [`push`](Self::push) takes lpids of process group `pg`.
    pub fn with_pg(pg: u32) -> Detector {
        Detector {
            pg,
            count: 0,
            first: 0,
            last: 0,
            levels: [Level::default(); MAX_DIGITS],
            sink: Sink::Regular,
            expected: 0,
            error: None,
        }
    }

    /// Ranks pushed so far.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns true if nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// At least `more` ranks are to come. Only saves growing a table.
    pub fn expect(&mut self, more: usize) {
        // Whatever an iterator claims, no more is reserved at once.
        self.expected = self.expected.max(self.count as usize + more.min(RESERVE_MAX));
    }

    /// Returns true if everything so far fits a regular model (and no memory is
    /// used).
    pub fn is_regular(&self) -> bool {
        matches!(self.sink, Sink::Regular | Sink::Periodic(_))
    }

    /// The next rank is process `lpid` of the detector's process group.
    #[inline]
    pub fn push(&mut self, lpid: u32) {
        self.extend_lpids(core::iter::once(lpid));
    }

    /// The next rank is this process.
    pub fn push_process(&mut self, process: Process) {
        self.meet(process.pg);
        if let Sink::Processes(processes) = &mut self.sink {
            if admit(&mut self.error, self.count, process.lpid) {
                processes.push(process);
                self.count += 1;
            }
        } else {
            self.push(process.lpid);
        }
    }

    /// The next rank is of this process group.
    #[inline]
    fn meet(&mut self, pg: u32) {
        if pg == self.pg {
            return;
        }
        if self.count == 0 {
            self.pg = pg;
        } else if !matches!(self.sink, Sink::Processes(_)) {
            self.sink = Sink::Processes(Box::new(self.spill_processes()));
        }
    }

    /// Pushes lpids of the detector's process group.
    pub fn extend_lpids(&mut self, lpids: impl IntoIterator<Item = u32>) {
        let mut lpids = lpids.into_iter();
        let least = lpids.size_hint().0;
        if least > (SIZE_MAX - self.count.min(SIZE_MAX)) as usize {
            // Without a walk through all of them.
            self.error.get_or_insert(MapError::TooManyRanks { limit: SIZE_MAX });
            return;
        }
        self.expect(least);
        if self.count == 0 {
            let Some(lpid) = lpids.next() else { return };
            if !admit(&mut self.error, 0, lpid) {
                return;
            }
            (self.first, self.last, self.count) = (lpid, lpid, 1);
        }
        while let Sink::Regular = self.sink {
            let Some(lpid) = self.run_regular(&mut lpids) else { return };
            if !self.push_odd(lpid) {
                return;
            }
        }
        while let Sink::Periodic(periodic) = &mut self.sink {
            let Some(lpid) = lpids.next() else { return };
            if !admit(&mut self.error, self.count, lpid) {
                return;
            }
            if !periodic.push((lpid as i32).wrapping_sub(self.last as i32)) {
                let mut runs = self.spill_runs();
                runs.push(lpid);
                self.sink = Sink::Runs(runs);
            }
            self.last = lpid;
            self.count += 1;
        }
        match &mut self.sink {
            Sink::Runs(runs) => {
                for lpid in lpids {
                    if !admit(&mut self.error, self.count, lpid) {
                        return;
                    }
                    runs.push(lpid);
                    self.count += 1;
                }
            }
            Sink::Processes(processes) => {
                for lpid in lpids {
                    if !admit(&mut self.error, self.count, lpid) {
                        return;
                    }
                    processes.push(Process { pg: self.pg, lpid });
                    self.count += 1;
                }
            }
            Sink::Regular | Sink::Periodic(_) => {}
        }
    }

    /// Pushes processes of any groups.
    pub fn extend_processes(&mut self, processes: impl IntoIterator<Item = Process>) {
        let mut processes = processes.into_iter();
        self.expect(processes.size_hint().0);
        let mut other = None;
        while let Some(process) = other.take().or_else(|| processes.next()) {
            self.push_process(process);
            let pg = process.pg;
            if pg == self.pg {
                // As fast as lpids while the group stays the same.
                self.extend_lpids(core::iter::from_fn(|| {
                    let process = processes.next()?;
                    if process.pg != pg {
                        other = Some(process);
                        return None;
                    }
                    Some(process.lpid)
                }));
            }
        }
    }

    /// The hot loop: consumes lpids as long as the levels predict them, and
    /// returns the first they do not.
    #[inline]
    fn run_regular(&mut self, lpids: &mut impl Iterator<Item = u32>) -> Option<u32> {
        let levels = &mut self.levels;
        let (step, block, jump) = (levels[0].s as u32, levels[0].m, levels[1].s as u32);
        let (mut n, mut fast, mut turns) = (levels[0].n, levels[0].fast, levels[1].fast);
        let mut last = self.last;
        let odd = 'stream: loop {
            while fast > 0 {
                let Some(lpid) = lpids.next() else { break 'stream None };
                if lpid != last.wrapping_add(step) || lpid > LPID_MAX {
                    break 'stream Some(lpid);
                }
                last = lpid;
                fast -= 1;
            }
            let Some(lpid) = lpids.next() else { break None };
            if block == 0 || lpid > LPID_MAX || n >= SIZE_MAX - 1 {
                break Some(lpid);
            }
            if turns > 0 && lpid == last.wrapping_add(jump) {
                turns -= 1;
            } else {
                levels[1].fast = turns;
                if !levels::carry(levels, lpid.wrapping_sub(last) as i32) {
                    break Some(lpid);
                }
                turns = levels[1].fast;
            }
            last = lpid;
            fast = block - 1;
            n += block;
        };
        (levels[0].n, levels[0].fast, levels[1].fast) = (n, fast, turns);
        // One more rank than differences.
        (self.last, self.count) = (last, n - fast + 1);
        if self.count > SIZE_MAX {
            self.error.get_or_insert(MapError::TooManyRanks { limit: SIZE_MAX });
        }
        odd
    }

    /// An lpid the hot loop did not predict. `false` stops on an error.
    #[inline(never)]
    fn push_odd(&mut self, lpid: u32) -> bool {
        if !admit(&mut self.error, self.count, lpid) {
            return false;
        }
        let difference = (lpid as i32).wrapping_sub(self.last as i32);
        if !levels::feed(&mut self.levels, difference) {
            self.sink = match self.periodic(difference) {
                Some(periodic) => Sink::Periodic(periodic),
                None => {
                    let mut runs = self.spill_runs();
                    runs.push(lpid);
                    Sink::Runs(runs)
                }
            };
        }
        self.last = lpid;
        self.count += 1;
        true
    }

    /// Pushes an affine run at once; a regular run costs one step a turn.
    pub(super) fn push_piece(&mut self, piece: Piece) {
        let Piece { first, step, len } = piece;
        if len == 0 {
            return;
        }
        let last = i64::from(first.lpid) + i64::from(step) * (i64::from(len) - 1);
        if self.error.is_none()
            && first.lpid <= LPID_MAX
            && (0..=i64::from(LPID_MAX)).contains(&last)
            && u64::from(self.count) + u64::from(len) <= u64::from(SIZE_MAX)
        {
            self.meet(first.pg);
            match &mut self.sink {
                Sink::Runs(runs) => {
                    runs.push_run(first.lpid, step, len);
                    self.count += len;
                    return;
                }
                Sink::Processes(processes) => {
                    processes.push_run(piece);
                    self.count += len;
                    return;
                }
                Sink::Regular | Sink::Periodic(_) => {}
            }
        }
        self.push_process(first);
        let mut left = len - 1;
        let mut next = first.lpid.wrapping_add(step as u32);
        while left > 0 {
            if self.error.is_some() {
                return;
            }
            let take = match &mut self.sink {
                Sink::Regular if self.levels[0].s == step && self.levels[0].fast > 0 => {
                    let take = left.min(self.levels[0].fast);
                    let last = i64::from(next) + i64::from(step) * i64::from(take - 1);
                    if !(0..=i64::from(LPID_MAX)).contains(&last)
                        || u64::from(self.count) + u64::from(take) > u64::from(SIZE_MAX)
                    {
                        // Let the single pushes find the rank at fault.
                        0
                    } else {
                        self.levels[0].fast -= take;
                        self.last = last as u32;
                        take
                    }
                }
                Sink::Runs(runs) => runs.extend_run(next, step, left),
                _ => 0,
            };
            if take == 0 {
                self.push_process(Process { pg: first.pg, lpid: next });
                next = next.wrapping_add(step as u32);
                left -= 1;
            } else {
                self.count += take;
                next = next.wrapping_add((step as u32).wrapping_mul(take));
                left -= take;
            }
        }
    }

    /// Pushes `size` ranks in blocks of `block`: lpids of the detector's group from `base` on in
    /// steps of `step`, each block `pitch` from the one before; of blocks of 0 none. Once the
    /// blocks are regular they cost nothing.
    pub fn push_blockstride(&mut self, base: u32, step: i32, block: u32, pitch: i32, size: u32) {
        let first = |block: u32| Process {
            pg: self.pg,
            lpid: base.wrapping_add((pitch as u32).wrapping_mul(block)),
        };
        let (whole, rest) = (size.checked_div(block).unwrap_or(0), size.checked_rem(block));
        let (start, end) = (first(0), first(whole));
        self.push_comb(Piece { first: start, step, len: block }, pitch, whole);
        self.push_piece(Piece { first: end, step, len: rest.unwrap_or(0) });
    }

    /// Pushes an affine run `count` times, each `pitch` from the one before. Once the turns are
    /// regular they cost nothing.
    pub(super) fn push_comb(&mut self, tooth: Piece, pitch: i32, count: u32) {
        let Piece { first, step, len } = tooth;
        // Teeth of one rank, or that continue each other, are one run.
        let run = if len == 1 { Some(pitch) } else { step.checked_mul(len as i32) };
        if let Some(total) = len.checked_mul(count).filter(|_| run == Some(pitch)) {
            let step = if len == 1 { pitch } else { step };
            return self.push_piece(Piece { first, step, len: total });
        }
        let jump = pitch.wrapping_sub(step.wrapping_mul(len as i32 - 1));
        let mut at = 0;
        while at < count && self.error.is_none() {
            let lpid = first.lpid.wrapping_add((pitch as u32).wrapping_mul(at));
            let start = Process { pg: first.pg, lpid };
            if len == 2 && matches!(self.sink, Sink::Regular) {
                // Pairs may be taken by the gaps between them.
                self.push_process(start);
                let second = Process { lpid: lpid.wrapping_add(step as u32), ..start };
                let left = count - at - 1;
                if left > 0 && self.ends_tooth(jump, 2, step) {
                    self.push_comb(Piece { first: second, step: jump, len }, pitch, left);
                    let lpid = second.lpid.wrapping_add((pitch as u32).wrapping_mul(left));
                    return self.push_process(Process { lpid, ..second });
                }
                self.push_process(second);
            } else {
                self.push_piece(Piece { first: start, step, len });
            }
            at += 1;
            let regular = self.ends_tooth(step, len, jump);
            let [tooth, turn, ..] = &mut self.levels;
            let space = SIZE_MAX.saturating_sub(self.count) / len.max(1);
            let turns = turn.fast.min(count - at).min(space);
            // As in `push_piece`: single runs find the rank at fault.
            let start = i64::from(first.lpid) + i64::from(pitch) * i64::from(at + turns - 1);
            let end = start + i64::from(step) * (i64::from(len) - 1);
            let valid = [start, end].iter().all(|lpid| (0..=i64::from(LPID_MAX)).contains(lpid));
            if regular && turns > 0 && valid {
                turn.fast -= turns;
                tooth.n += turns * len;
                self.last = self.last.wrapping_add((pitch as u32).wrapping_mul(turns));
                self.count += turns * len;
                at += turns;
            }
        }
    }

    /// Returns true behind a run of `len` ranks `step` apart, of such runs `jump` from the end
    /// of one to the next.
    fn ends_tooth(&self, step: i32, len: u32, jump: i32) -> bool {
        let [tooth, turn, ..] = &self.levels;
        let is_tooth = (tooth.s, tooth.m, tooth.fast, turn.s) == (step, len, 0, jump);
        is_tooth && matches!(self.sink, Sink::Regular) && self.error.is_none()
    }

    /// The period of everything so far and of `difference`, if it has one.
    #[cold]
    fn periodic(&self, difference: i32) -> Option<Box<Periodic>> {
        if self.count > 2 * TILE_MAX as u32 && !self.levels[0].turned() {
            // A long run of one step: nothing short repeats after it.
            return None;
        }
        let mut periodic = Periodic::new();
        let mut last = None;
        let mut fits = true;
        self.for_each_run(|first, step, len| {
            // As many equal differences as the longest period make it 1.
            fits = fits && len <= TILE_MAX as u32;
            for i in 0..len {
                let lpid = Affine { first, step }.get(i);
                if let Some(last) = last.replace(lpid) {
                    fits = fits && periodic.push(lpid.wrapping_sub(last) as i32);
                }
                if !fits {
                    break;
                }
            }
        });
        (fits && periodic.push(difference)).then(|| Box::new(periodic))
    }

    /// Writes out what was seen while it was regular, as runs.
    #[cold]
    fn spill_runs(&self) -> Runs {
        let mut runs = Runs::new(self.expected);
        self.for_each_run(|first, step, len| runs.push_run(first, step, len));
        runs
    }

    #[cold]
    fn spill_processes(&mut self) -> Processes {
        let pg = self.pg;
        let mut processes = Processes::new(self.expected);
        let mut push = |first: u32, step: i32, len: u32| {
            let first = Process { pg, lpid: first };
            processes.push_run(Piece { first, step, len });
        };
        if let Sink::Runs(runs) = &mut self.sink {
            core::mem::replace(runs, Runs::new(0)).for_each(&mut push);
        } else {
            self.for_each_run(push);
        }
        processes
    }

    /// Calls `f` with the runs of everything so far, while it is a formula.
    fn for_each_run(&self, mut f: impl FnMut(u32, i32, u32)) {
        if let Sink::Periodic(periodic) = &self.sink {
            let tile = periodic.tile(self.first);
            return (0..self.count).for_each(|rank| f(tile.get(rank), 1, 1));
        }
        match levels::shape(&self.levels, self.first, self.count) {
            Shape::Mixed(mixed) => {
                let mut odometer = Odometer::new(&mixed);
                let mut left = self.count;
                while left > 0 {
                    let (first, run) = odometer.advance();
                    f(first, mixed.step[0], run.min(left));
                    left -= run.min(left);
                }
            }
            Shape::Affine { step } => f(self.first, step, self.count),
        }
    }

    /// What everything pushed is.
    ///
    /// # Errors
    /// The first rank that could not be part of a map.
    pub(super) fn detected(mut self) -> Result<Detected, MapError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let form = match core::mem::replace(&mut self.sink, Sink::Regular) {
            Sink::Regular => match levels::shape(&self.levels, self.first, self.count) {
                Shape::Affine { step } => {
                    Found::Regular(Regular::Affine(Affine { first: self.first, step }))
                }
                // Lookups take floors of 32-bit numbers. Only maps of more than
                // a thousand million ranks can come to this.
                Shape::Mixed(mixed) if mixed.phase.checked_add(self.count).is_none() => {
                    self.spill_runs().finish()
                }
                Shape::Mixed(mixed) => Found::Regular(mixed.into()),
            },
            Sink::Periodic(periodic) if periodic.pays() => {
                Found::Regular(Regular::Tile(Arc::new(periodic.tile(self.first))))
            }
            Sink::Periodic(periodic) => {
                self.sink = Sink::Periodic(periodic);
                self.spill_runs().finish()
            }
            Sink::Runs(runs) => runs.finish(),
            Sink::Processes(processes) => {
                self.pg = 0;
                numbered(*processes)?
            }
        };
        Ok(Detected { pg: self.pg, size: self.count, form })
    }
}

/// What lpids are, which become the table if they are one; all are valid.
pub(super) fn table(pg: u32, lpids: Vec<u32>) -> Result<Detected, MapError> {
    let mut detector = Detector::with_pg(pg);
    let mut done = 0;
    for chunk in lpids.chunks(TABLE_CHUNK) {
        if !detector.is_regular() {
            break;
        }
        detector.extend_lpids(chunk.iter().copied());
        done += chunk.len();
    }
    let size = lpids.len() as u32;
    if !detector.is_regular() && lpids.len() <= SIZE_MAX as usize && many_runs(&lpids) {
        return Ok(Detected { pg, size, form: Found::Lpids(lpids) });
    }
    detector.extend_lpids(lpids[done..].iter().copied());
    detector.detected()
}

/// The formula or segments of the numbers of these processes, if that is less than a table.
fn numbered(processes: Processes) -> Result<Found, MapError> {
    let Some(numbering) = Numbering::new(processes.pieces()) else {
        return Ok(Found::Processes(processes.into_table()));
    };
    let mut numbers = Detector::new();
    let table = processes.table_bytes();
    for piece in processes.pieces() {
        let first = numbering.number(piece.first).unwrap_or_default();
        numbers.push_piece(Piece { first: Process { pg: 0, lpid: first }, ..piece });
    }
    Ok(match numbers.detected()?.form {
        Found::Regular(form) if numbering.heap_bytes() + form.heap_bytes() < table => {
            Found::Numbers(numbering, form)
        }
        _ => Found::Processes(processes.into_table()),
    })
}

/// Returns true if there are surely more runs than segments may have: where a
/// run ends and the next begins, differences change at most twice.
fn many_runs(lpids: &[u32]) -> bool {
    let enough = 2 * lpids.len() / RANKS_PER_RUN as usize + 2;
    let mut changes = 0;
    for chunk in lpids.chunks(TABLE_CHUNK) {
        // Three slices of one length, so that it is done by vectors.
        let count = chunk.len().saturating_sub(2);
        let (one, two, three) =
            (&chunk[..count], &chunk[1.min(chunk.len())..], &chunk[2.min(chunk.len())..]);
        let pairs = one.iter().zip(two).zip(three);
        let change =
            |((a, b), c): ((&u32, &u32), &u32)| u32::from(b.wrapping_sub(*a) != c.wrapping_sub(*b));
        changes += pairs.map(change).sum::<u32>() as usize;
        if changes > enough {
            return true;
        }
    }
    false
}

/// Returns true if rank `index` may be `lpid`; remembers the first refusal.
#[inline]
fn admit(error: &mut Option<MapError>, index: u32, lpid: u32) -> bool {
    if lpid <= LPID_MAX && index < SIZE_MAX && error.is_none() {
        return true;
    }
    error.get_or_insert(if index >= SIZE_MAX {
        MapError::TooManyRanks { limit: SIZE_MAX }
    } else {
        MapError::LpidTooLarge { index, lpid, limit: LPID_MAX }
    });
    false
}
