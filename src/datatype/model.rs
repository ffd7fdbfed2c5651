//! What a plan should cost: hits and misses of caches and TLB, each at the machine's
//! price (memory-LogP, after Cameron and Sun; Byna et al., 2004).
//!
//! A plan is a nest of loops, each with a stride in memory and one in the stream. A
//! loop meets again what the round before brought if that is still there: if what
//! one round touches on both sides fits. What fits as a whole is taken to be there
//! at the beginning.

use super::form::{Form, Kind};
use super::kernels::{self, BAND, Level, Plan};
use super::layout::Layout;
use super::machine::Machine;
use super::plan::{self, Direction};

/// How often what was wanted was there, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accesses {
    /// It was there.
    pub hits: u64,
    /// It was fetched from the next level.
    pub misses: u64,
}

/// What a copy of all of a layout should cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlanCost {
    /// Nanoseconds for each byte of the packed stream.
    pub ns_per_byte: f64,
    /// Lines wanted of the first data cache.
    pub first_cache: Accesses,
    /// Those that it did not have, wanted of the last cache; lines that are written
    /// past the caches count as misses of both.
    pub last_cache: Accesses,
    /// Pages wanted of the last level of the TLB.
    pub tlb: Accesses,
}

/// A plan that a layout can be copied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The plan; `Layout::pack_by` takes it.
    pub plan: Plan,
    /// Layouts are copied by this one.
    pub chosen: bool,
    /// What it should cost.
    pub cost: PlanCost,
}

impl Layout {
    /// Plans that all of this layout can be copied by, the chosen one first, each
    /// with what it should cost on this machine; none for no bytes.
    #[must_use]
    pub fn plans(&self, direction: Direction) -> Vec<Candidate> {
        let Some((_, form)) = &self.placed else { return Vec::new() };
        let plans = plan::candidates(form, direction);
        let chosen = plans[0];
        let of = |plan: Plan| {
            let cost = cost(form, &plan, direction, Machine::get());
            Candidate { plan, chosen: plan == chosen, cost }
        };
        plans.into_iter().map(of).collect()
    }
}

/// Bytes of a line of the cache.
const LINE: f64 = kernels::LINE as f64;

/// A loop: how often, and how far apart in memory and in the stream.
#[derive(Clone, Copy, Debug)]
struct Round {
    count: f64,
    memory: f64,
    stream: f64,
}

/// Loops over runs of `len` bytes, the outermost first.
#[derive(Clone, Debug)]
struct Nest {
    len: f64,
    rounds: Vec<Round>,
    /// The loop along the columns of a matrix to transpose.
    columns: Option<usize>,
}

impl Nest {
    /// The loops of a form that is loops down to a run.
    fn of(form: &Form) -> Option<Nest> {
        let (mut rounds, mut inner) = (Vec::new(), form);
        while let Kind::Loop { count, stride, body } = &inner.kind {
            let (memory, stream) = (*stride as f64, body.size as f64);
            rounds.push(Round { count: *count as f64, memory, stream });
            inner = body;
        }
        let len = inner.size as f64;
        let columns = form.matrix();
        matches!(inner.kind, Kind::Run).then_some(Nest { len, rounds, columns })
    }

    /// Runs of a table, as far apart as they are on average.
    fn estimate(form: &Form) -> Nest {
        let (count, size) = (form.runs as f64, form.size as f64);
        let apart = (form.high - form.low) as f64 / count;
        let round = Round { count, memory: apart, stream: size / count };
        Nest { len: size / count, rounds: vec![round], columns: None }
    }

    /// The same in the plan's tiles or bands, squares of a line's elements within.
    fn squares(&self, plan: &Plan) -> Option<Nest> {
        let unit = self.columns?;
        let mut rounds = self.rounds.clone();
        let columns = rounds.remove(unit);
        let inner = rounds.pop()?;
        let n = (LINE / self.len).max(1.0);
        let split = |round: Round, by: f64| {
            let by = by.min(round.count).max(1.0);
            let outer = Round {
                count: (round.count / by).ceil(),
                memory: round.memory * by,
                stream: round.stream * by,
            };
            (outer, Round { count: by, ..round })
        };
        let together = plan.streaming && plan.level < Level::Avx512;
        let (rows, wide) = match (plan.along, together) {
            (false, _) => (plan.tile as f64, BAND as f64 * n),
            (true, false) => (f64::INFINITY, kernels::columns(self.len as usize) as f64),
            (true, true) => {
                (kernels::TOGETHER as f64 * n, kernels::columns(self.len as usize) as f64)
            }
        };
        let (tiles, inner) = split(inner, rows);
        let (bands, columns) = split(columns, wide);
        let (lines, inner) = split(inner, n);
        let (squares, columns) = split(columns, n);
        rounds.extend(if plan.along { [bands, tiles] } else { [tiles, bands] });
        rounds.extend([lines, squares, columns, inner]);
        Some(Nest { len: self.len, rounds, columns: None })
    }

    /// For the run and after each loop from the innermost outwards: how many
    /// distinct grains of so many bytes one side touches.
    fn distinct(&self, grain: f64, stride: impl Fn(&Round) -> f64) -> Vec<f64> {
        let (mut pieces, mut piece) = (1.0, self.len);
        let grains = |pieces: f64, piece: f64| pieces * (1.0 + (piece - 1.0) / grain).floor();
        let mut all = vec![grains(pieces, piece)];
        for round in self.rounds.iter().rev() {
            let stride = stride(round).abs();
            if stride <= piece.max(grain) {
                piece += (round.count - 1.0) * stride;
            } else {
                pieces *= round.count;
            }
            all.push(grains(pieces, piece));
        }
        all
    }

    /// Fetches of grains on each side where so many fit.
    fn fetches(&self, grain: f64, fit: f64) -> (f64, f64) {
        let memory = self.distinct(grain, |round| round.memory);
        let stream = self.distinct(grain, |round| round.stream);
        let (mut a, mut b) = (memory[0], stream[0]);
        for (i, round) in self.rounds.iter().rev().enumerate() {
            let stays = memory[i] + stream[i] <= fit;
            let next = |before: f64, all: f64| if stays { all } else { before * round.count };
            (a, b) = (next(a, memory[i + 1]), next(b, stream[i + 1]));
        }
        let last = self.rounds.len();
        if memory[last] + stream[last] <= fit { (0.0, 0.0) } else { (a, b) }
    }

    fn runs(&self) -> f64 {
        self.rounds.iter().map(|round| round.count).product()
    }
}

/// What a plan should cost for all of a form.
fn cost(form: &Form, plan: &Plan, direction: Direction, machine: &Machine) -> PlanCost {
    let costs = &machine.costs;
    let plain = Nest::of(form).unwrap_or_else(|| Nest::estimate(form));
    let squares = if plan.tile > 0 { plain.squares(plan) } else { None };
    let in_squares = squares.is_some();
    let nest = squares.unwrap_or(plain);
    let lines = |fit: usize| nest.fetches(LINE, fit as f64 / LINE);
    let first = lines(machine.first_cache);
    let last = lines(machine.last_cache);
    let pages = nest.fetches(machine.page as f64, machine.tlb_pages as f64);
    let (read, written) = match direction {
        Direction::Pack => (last.0, last.1),
        Direction::Unpack => (last.1, last.0),
    };
    // Whole lines are written past the caches, so that they are not read first.
    let contiguous = in_squares || direction == Direction::Pack || nest.len >= 1024.0;
    let past = plan.streaming && contiguous;
    let whole = nest.distinct(LINE, |round| match direction {
        Direction::Pack => round.stream,
        Direction::Unpack => round.memory,
    });
    let past_lines = whole[nest.rounds.len()];
    let runs = nest.runs();
    let lanes = match (in_squares, plan.level) {
        (true, Level::Avx512) => 8.0,
        (true, Level::Avx2) => 4.0,
        _ => 1.0,
    };
    let followed = in_squares && plan.along;
    let regular = followed || nest.rounds.last().is_none_or(|round| round.memory.abs() < 1024.0);
    let price = if regular {
        costs.line
    } else if plan.prefetch {
        costs.line_asked
    } else {
        costs.line_apart
    };
    let memory_lines = if direction == Direction::Pack { read } else { written };
    let stream_lines = if direction == Direction::Pack { written } else { read };
    let mut ns = runs * costs.run / lanes + form.size as f64 * costs.byte;
    ns += (first.0 + first.1) * costs.next_line;
    ns += memory_lines * price + stream_lines * costs.line;
    ns += if past {
        past_lines * costs.line_past - written * costs.line
    } else {
        written * costs.line
    };
    ns += (pages.0 + pages.1) * costs.page;
    let wanted = 2.0 * (form.size as f64 / LINE).max(runs);
    let accesses = |wanted: f64, misses: f64| {
        let (wanted, misses) = (wanted as u64, misses as u64);
        Accesses { hits: wanted.saturating_sub(misses), misses }
    };
    PlanCost {
        ns_per_byte: ns.max(0.0) / form.size as f64,
        first_cache: accesses(wanted, first.0 + first.1),
        last_cache: accesses(first.0 + first.1, last.0 + last.1),
        tlb: accesses(wanted, pages.0 + pages.1),
    }
}
