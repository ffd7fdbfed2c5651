//! What memory holds before a phase, and what one process alone would make of
//! it. A phase fills the places anew that its steps touch; all else keeps what
//! it held.

use super::elements::{elements, naive};
use super::program::{Act, Phase, Program, Step};
use crate::harness::Dice;
use rankway::netmod::{Op, Type};

/// Bytes or elements after which generated ones come again: at no distance that
/// operations keep.
const PERIOD: usize = 509;

/// So many bytes.
fn random(dice: &mut Dice, len: usize) -> Vec<u8> {
    let period = len.min(PERIOD);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < period {
        bytes.extend_from_slice(&dice.next().to_ne_bytes());
    }
    bytes.truncate(period);
    repeat(&mut bytes, len);
    bytes
}

/// What stands in memory from `at` on before a phase.
pub fn filled(seed: u64, window: usize, rank: u32, at: usize, len: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed << 8 | (rank as u64) << 1 | window as u64);
    let mut bytes = random(&mut dice, at % PERIOD + len);
    bytes.drain(..at % PERIOD);
    bytes
}

/// The same again until there are so many.
fn repeat<T: Copy>(all: &mut Vec<T>, len: usize) {
    let period = all.len();
    while all.len() < len {
        let whole = all.len() / period * period;
        all.extend_from_within(..whole.min(len - all.len()));
    }
}

/// The bytes a step sends.
pub fn operand(step: &Step) -> Vec<u8> {
    let mut dice = Dice::new(step.seed);
    match step.act {
        Act::Put => random(&mut dice, step.len),
        // Whole numbers, whose sums do not depend on the order.
        _ => {
            let count = (step.len / step.ty.size()).min(PERIOD);
            let words: Vec<i64> = (0..count).map(|_| dice.below(200) as i64 - 100).collect();
            let mut bytes = elements(step.ty, &words);
            repeat(&mut bytes, step.len);
            bytes
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
#[derive(Clone, Default)]
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

/// What a phase touches, as far as one rank needs it, and what its own steps are
/// answered.
pub struct Outcome {
    /// Before and after the phase: by window, then by rank; of ranks whose memory
    /// is not looked at only what this one's steps touch.
    pub before: Vec<Vec<Places>>,
    pub after: Vec<Vec<Places>>,
    /// What stood at the target before each of this rank's steps that answer:
    /// by thread, epoch and step.
    pub answers: Vec<Vec<Vec<Vec<u8>>>>,
}

/// The outcome for this rank, which looks at the memory of these.
pub fn outcome(program: &Program, phase: &Phase, me: u32, looks: &[u32]) -> Outcome {
    let frame = &program.frame;
    // A flush has no length.
    let counts = |rank: usize, step: &Step| {
        (rank == me as usize || looks.contains(&step.to)) && step.len > 0
    };
    let mut spans = vec![vec![Vec::new(); frame.sizes.len()]; frame.windows()];
    for (rank, threads) in phase.work.iter().enumerate() {
        for (thread, epochs) in threads.iter().enumerate() {
            let steps = epochs.iter().flat_map(|epoch| &epoch.steps);
            for step in steps.filter(|step| counts(rank, step)) {
                let to = step.to as usize;
                spans[frame.window_of(thread)][to].push((step.at, step.at + step.span()));
            }
        }
    }
    let of_window = |(window, ranks): (usize, Vec<_>)| {
        let all = (0..).zip(ranks);
        all.map(|(rank, spans)| Places::before(phase, window, rank, spans)).collect()
    };
    let before: Vec<Vec<Places>> = spans.into_iter().enumerate().map(of_window).collect();
    let mut after = before.clone();
    let mut answers = Vec::new();
    for (rank, threads) in phase.work.iter().enumerate() {
        for (thread, epochs) in threads.iter().enumerate() {
            let places = &mut after[frame.window_of(thread)];
            let mut told = Vec::new();
            for epoch in epochs {
                let each = epoch.steps.iter().map(|step| match counts(rank, step) {
                    true => carry_out(step, &mut places[step.to as usize]),
                    false => Vec::new(),
                });
                told.push(each.collect());
            }
            if rank == me as usize {
                answers.push(told);
            }
        }
    }
    Outcome { before, after, answers }
}

/// Does to memory what a step does; what stood there, where it is answered.
fn carry_out(step: &Step, places: &mut Places) -> Vec<u8> {
    let memory = places.from(step.at);
    let blocks = step.spread[1].blocks(step.len, step.ty);
    let mut place = Vec::with_capacity(step.len);
    for &(at, len) in &blocks {
        place.extend_from_slice(&memory[at..at + len]);
    }
    let old = if step.act.answers() { place.clone() } else { Vec::new() };
    match step.act {
        Act::Get => return old,
        Act::CompareAndSwap if !hits(step) => return old,
        Act::Put | Act::CompareAndSwap => place = operand(step),
        _ => apply(step.ty, step.op, &mut place, &operand(step)),
    }
    let mut done = 0;
    for &(at, len) in &blocks {
        memory[at..at + len].copy_from_slice(&place[done..done + len]);
        done += len;
    }
    old
}
