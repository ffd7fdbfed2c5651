//! What memory holds before a phase, and what one process alone would make of
//! it.

use super::elements::{elements, naive};
use super::program::{Act, Phase, Program, Step};
use crate::harness::Dice;
use rankway::netmod::{Op, Type};

/// What windows hold before a phase: the same bytes again and again, at no
/// distance that operations keep.
pub fn filled(seed: u64, window: usize, rank: u32, len: usize) -> Vec<u8> {
    const PERIOD: usize = 4099;
    let mut dice = Dice::new(seed << 8 | (rank as u64) << 1 | window as u64);
    let words: Vec<u8> =
        (0..PERIOD.div_ceil(8)).flat_map(|_| dice.next().to_ne_bytes()).take(PERIOD).collect();
    let mut all = words;
    while all.len() < len {
        let more = all.len().min(len - all.len()) / PERIOD * PERIOD;
        let more = if more == 0 { len - all.len() } else { more };
        all.extend_from_within(..more);
    }
    all.truncate(len);
    all
}

/// The bytes a step sends.
pub fn operand(step: &Step) -> Vec<u8> {
    let mut dice = Dice::new(step.seed);
    match step.act {
        Act::Put => {
            let mut bytes: Vec<u8> =
                (0..step.len.div_ceil(8)).flat_map(|_| dice.next().to_ne_bytes()).collect();
            bytes.truncate(step.len);
            bytes
        }
        // Whole numbers, whose sums do not depend on the order.
        _ => {
            let count = step.len / step.ty.size();
            let words: Vec<i64> = (0..count).map(|_| dice.below(200) as i64 - 100).collect();
            elements(step.ty, &words)
        }
    }
}

/// Returns true if a compare-and-swap is to find what it compares with.
pub fn hits(step: &Step) -> bool {
    !step.seed.is_multiple_of(4)
}

fn apply(ty: Type, op: Op, memory: &mut [u8], operands: &[u8]) {
    // A word at a time where most of the bytes are.
    match (ty, op) {
        (_, Op::Replace) => memory.copy_from_slice(operands),
        (_, Op::NoOp) => {}
        (Type::U8, Op::Sum) => {
            memory.iter_mut().zip(operands).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        (Type::I64, Op::Sum) => {
            for (a, b) in memory.chunks_exact_mut(8).zip(operands.chunks_exact(8)) {
                let word = |v: &[u8]| i64::from_ne_bytes(v.try_into().unwrap());
                let sum = word(a).wrapping_add(word(b));
                a.copy_from_slice(&sum.to_ne_bytes());
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

/// All memory after a phase, as far as one rank needs it, and what its own
/// steps are answered.
pub struct Outcome {
    /// By window, then by rank; empty where it is not asked for.
    pub memory: Vec<Vec<Vec<u8>>>,
    /// What stood at the target before each of this rank's steps that answer:
    /// by thread, epoch and step.
    pub before: Vec<Vec<Vec<Vec<u8>>>>,
}

pub fn outcome(program: &Program, phase: &Phase, me: u32, others: bool) -> Outcome {
    let frame = &program.frame;
    let mut memory = before(program, phase);
    let mut answers = Vec::new();
    for (rank, threads) in phase.work.iter().enumerate() {
        for (thread, epochs) in threads.iter().enumerate() {
            let memory = &mut memory[frame.window_of(thread)];
            let mut told = Vec::new();
            for epoch in epochs {
                let mut of_epoch = Vec::new();
                for step in &epoch.steps {
                    let mine = rank == me as usize;
                    let old = match mine || others || step.to == me {
                        true => carry_out(step, &mut memory[step.to as usize]),
                        false => Vec::new(),
                    };
                    of_epoch.push(old);
                }
                told.push(of_epoch);
            }
            if rank == me as usize {
                answers.push(told);
            }
        }
    }
    Outcome { memory, before: answers }
}

/// All memory before a phase.
pub fn before(program: &Program, phase: &Phase) -> Vec<Vec<Vec<u8>>> {
    let frame = &program.frame;
    let of = |window| {
        (0..).zip(&frame.sizes).map(|(rank, &len)| filled(phase.seed, window, rank, len)).collect()
    };
    let mut memory: Vec<Vec<Vec<u8>>> = (0..frame.windows()).map(of).collect();
    for &(window, rank, at, len) in &phase.zeros {
        memory[window][rank as usize][at..at + len].fill(0);
    }
    memory
}

/// Does to memory what a step does; what stood there, where it is answered.
fn carry_out(step: &Step, memory: &mut [u8]) -> Vec<u8> {
    if matches!(step.act, Act::Flush | Act::FlushAll | Act::FlushLocal) || step.len == 0 {
        return Vec::new();
    }
    let blocks = step.spread[1].blocks(step.len, step.ty);
    let mut place = Vec::with_capacity(step.len);
    for &(at, len) in &blocks {
        place.extend_from_slice(&memory[step.at + at..step.at + at + len]);
    }
    let old = if step.act.answers() { place.clone() } else { Vec::new() };
    match step.act {
        Act::Get => {}
        Act::Put => place.copy_from_slice(&operand(step)),
        Act::CompareAndSwap if !hits(step) => {}
        Act::CompareAndSwap => place.copy_from_slice(&operand(step)),
        _ => apply(step.ty, step.op, &mut place, &operand(step)),
    }
    let mut done = 0;
    for &(at, len) in &blocks {
        memory[step.at + at..step.at + at + len].copy_from_slice(&place[done..done + len]);
        done += len;
    }
    old
}
