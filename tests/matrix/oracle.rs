//! What memory holds before a phase, and what one process alone would make of
//! it. A phase fills the places anew that its steps touch; all else keeps what
//! it held.

use super::elements::{elements, naive};
use super::program::{Act, Phase, Program, Spread, Step};
use crate::harness::Dice;
use rankway::netmod::{Op, Type};

/// Bytes or elements after which generated ones come again: at no distance that
/// operations keep.
const PERIOD: usize = 509;

fn random(dice: &mut Dice, bytes: &mut [u8]) {
    let period = bytes.len().min(PERIOD);
    for some in bytes[..period].chunks_mut(8) {
        some.copy_from_slice(&dice.next().to_ne_bytes()[..some.len()]);
    }
    repeat(bytes, period);
}

/// The first bytes again and again.
fn repeat(bytes: &mut [u8], period: usize) {
    let mut done = period;
    while done < bytes.len() {
        let more = done.min(bytes.len() - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}

/// What stands in memory from `at` on before a phase.
pub fn filled(seed: u64, window: usize, rank: u32, at: usize, len: usize) -> Vec<u8> {
    let mut period = [0; PERIOD];
    random(&mut Dice::new(seed << 8 | (rank as u64) << 1 | window as u64), &mut period);
    period.rotate_left(at % PERIOD);
    let mut bytes = vec![0; len];
    let first = len.min(PERIOD);
    bytes[..first].copy_from_slice(&period[..first]);
    repeat(&mut bytes, first);
    bytes
}

/// The bytes a step sends.
pub fn operand(step: &Step) -> Vec<u8> {
    let mut bytes = vec![0; step.len];
    send(step, &mut bytes);
    bytes
}

/// Writes the bytes that a step sends.
fn send(step: &Step, to: &mut [u8]) {
    let mut dice = Dice::new(step.seed);
    match step.act {
        Act::Put => random(&mut dice, to),
        // Whole numbers, whose sums do not depend on the order.
        _ => {
            let count = (step.len / step.ty.size()).min(PERIOD);
            let words: Vec<i64> = (0..count).map(|_| dice.below(200) as i64 - 100).collect();
            let first = elements(step.ty, &words);
            to[..first.len()].copy_from_slice(&first);
            repeat(to, first.len());
        }
    }
}

/// Returns true if a compare-and-swap is to find what it compares with.
pub fn hits(step: &Step) -> bool {
    !step.seed.is_multiple_of(4)
}

fn apply(ty: Type, op: Op, memory: &mut [u8], operands: &[u8]) {
    // A word at a time where most of the bytes are.
    let by_word: Option<fn(i64, i64) -> i64> = match op {
        _ if ty != Type::I64 => None,
        Op::Sum => Some(i64::wrapping_add),
        Op::Max => Some(i64::max),
        Op::Bxor => Some(|a, b| a ^ b),
        Op::Band => Some(|a, b| a & b),
        _ => None,
    };
    match (by_word, op) {
        (_, Op::Replace) => memory.copy_from_slice(operands),
        (_, Op::NoOp) => {}
        (Some(word_of), _) => {
            for (a, b) in memory.chunks_exact_mut(8).zip(operands.chunks_exact(8)) {
                let word = |v: &[u8]| i64::from_ne_bytes(v.try_into().unwrap());
                let new = word_of(word(a), word(b));
                a.copy_from_slice(&new.to_ne_bytes());
            }
        }
        _ => {
            for (a, b) in memory.chunks_mut(ty.size()).zip(operands.chunks(ty.size())) {
                let new = naive(ty, op, a, b);
                a.copy_from_slice(&new);
            }
        }
    }
}

/// The places in one rank's memory of a window that a phase touches, in order.
pub struct Places(Vec<(usize, Vec<u8>)>);

impl Places {
    /// These spans, and what stands in them before the phase.
    fn before(phase: &Phase, window: usize, rank: u32, mut spans: Vec<(usize, usize)>) -> Places {
        let zeros = || phase.zeros.iter().filter(|zero| (zero.0, zero.1) == (window, rank));
        spans.extend(zeros().map(|&(_, _, at, len)| (at, at + len)));
        spans.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let holding = |(from, to)| (from, filled(phase.seed, window, rank, from, to - from));
        let mut all = Places(merged.into_iter().map(holding).collect());
        zeros().for_each(|&(_, _, at, len)| all.from(at)[..len].fill(0));
        all
    }

    /// The bytes from this one on.
    fn from(&mut self, at: usize) -> &mut [u8] {
        let next = self.0.partition_point(|(from, _)| *from <= at);
        let (from, bytes) = &mut self.0[next - 1];
        &mut bytes[at - *from..]
    }

    /// Puts them where they belong in memory that begins there.
    ///
    /// # Safety
    /// All memory of the rank is there, and nobody else uses it.
    pub unsafe fn write(&self, memory: *mut u8) {
        for (at, bytes) in &self.0 {
            // SAFETY: the caller's.
            unsafe { memory.add(*at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }
}

/// What was answered to one thread: by epoch and step, what stood at the target
/// before each step that answers.
pub type Answers = Vec<Vec<Vec<u8>>>;

/// What a phase touches, as far as one rank needs it: by window, then by rank.
pub struct Touched<'a> {
    program: &'a Program,
    phase: &'a Phase,
    me: u32,
    looks: &'a [u32],
    pub places: Vec<Vec<Places>>,
}

impl<'a> Touched<'a> {
    /// For this rank, which looks at the memory of these; before the phase.
    pub fn new(program: &'a Program, phase: &'a Phase, me: u32, looks: &'a [u32]) -> Touched<'a> {
        let frame = &program.frame;
        let mut touched = Touched { program, phase, me, looks, places: Vec::new() };
        let mut spans = vec![vec![Vec::new(); frame.sizes.len()]; frame.windows()];
        for (rank, threads) in phase.work.iter().enumerate() {
            for (thread, epochs) in threads.iter().enumerate() {
                let steps = epochs.iter().flat_map(|epoch| &epoch.steps);
                for step in steps.filter(|step| touched.counts(rank, step)) {
                    let to = step.to as usize;
                    spans[frame.window_of(thread)][to].push((step.at, step.at + step.span()));
                }
            }
        }
        let of_window = |(window, ranks): (usize, Vec<_>)| {
            let all = (0..).zip(ranks);
            all.map(|(rank, spans)| Places::before(phase, window, rank, spans)).collect()
        };
        touched.places = spans.into_iter().enumerate().map(of_window).collect();
        touched
    }

    /// Returns true for a step that changes what is looked at; and for one of this
    /// rank, if any of them is answered. (A flush has no length.)
    fn counts(&self, rank: usize, step: &Step) -> bool {
        let answered = || {
            let mut epochs = self.phase.work[rank].iter().flatten();
            rank == self.me as usize && epochs.any(|e| e.steps.iter().any(|s| s.act.answers()))
        };
        step.len > 0 && (self.looks.contains(&step.to) || answered())
    }

    /// Makes of the places what they hold after the phase; by thread, what this rank's
    /// steps are answered.
    pub fn carry_out(&mut self) -> Vec<Answers> {
        let mut answers = Vec::new();
        for (rank, threads) in self.phase.work.iter().enumerate() {
            let asks = rank == self.me as usize;
            for (thread, epochs) in threads.iter().enumerate() {
                let window = self.program.frame.window_of(thread);
                let mut told = Vec::new();
                for epoch in epochs {
                    let each = epoch.steps.iter().map(|step| match self.counts(rank, step) {
                        true => carry_out(step, &mut self.places[window][step.to as usize], asks),
                        false => Vec::new(),
                    });
                    told.push(each.collect());
                }
                if asks {
                    answers.push(told);
                }
            }
        }
        answers
    }
}

/// Does to memory what a step does; what stood there, where it is answered to one who
/// asks.
fn carry_out(step: &Step, places: &mut Places, asks: bool) -> Vec<u8> {
    let memory = places.from(step.at);
    if step.spread[1] == Spread::Contiguous {
        return change(step, &mut memory[..step.len], asks);
    }
    let blocks = step.spread[1].blocks(step.len, step.ty);
    let mut place = Vec::with_capacity(step.len);
    for &(at, len) in &blocks {
        place.extend_from_slice(&memory[at..at + len]);
    }
    let old = change(step, &mut place, asks);
    let mut done = 0;
    for &(at, len) in &blocks {
        memory[at..at + len].copy_from_slice(&place[done..done + len]);
        done += len;
    }
    old
}

/// The same to bytes side by side.
fn change(step: &Step, place: &mut [u8], asks: bool) -> Vec<u8> {
    let old = if asks && step.act.answers() { place.to_vec() } else { Vec::new() };
    match step.act {
        Act::Get => {}
        Act::CompareAndSwap if !hits(step) => {}
        Act::Put | Act::CompareAndSwap => send(step, place),
        _ => apply(step.ty, step.op, place, &operand(step)),
    }
    old
}
