//! Random programs of the same steps: any windows, any epochs, operations of
//! all ranks and threads at once. A place belongs to one thread of one rank,
//! or to all that change it by one operation whose order does not matter; so
//! one outcome is right.

use super::factors::{Completion, Memory, Place, Threads};
use super::program::{Act, Enclosed, Epoch, Frame, Phase, Program, Spread, Step, Sync};
use crate::harness::Dice;
use rankway::netmod::{Op, Type};

const SLOT: usize = 256;
const SLOTS: usize = 14;
/// Two places for what is longer than any packet.
const LONG: usize = 24 << 10;

/// Bytes that operations on elements touch: six of sixteen bytes, with gaps.
const ZEROS: usize = 2 * 6 * 16;

/// What belongs together and keeps its order.
type Chain = Vec<Step>;

struct Maker {
    dice: Dice,
    place: Place,
    inject: usize,
    ranks: u32,
    /// Whether there may be several threads.
    several: bool,
}

impl Maker {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.dice.below(from.len())]
    }

    fn chance(&mut self, of: usize) -> bool {
        self.dice.below(of) == 0
    }

    fn frame(&mut self) -> Frame {
        use Memory::{Allocated, Apart, Created, Direct, Dynamic, Provided, Shared};
        let mut memories = vec![Created, Allocated, Dynamic];
        if self.place.one_node {
            memories.extend([Shared, Apart]);
        }
        if !self.place.mpi {
            memories.extend([Provided, Direct]);
        }
        let memory = self.pick(&memories);
        let threads = match self.several {
            true => self.pick(&[Threads::Multiple, Threads::Own, Threads::Same]),
            false => Threads::One,
        };
        let dynamic = memory == Dynamic;
        let unit = self.pick(&[1, 1, 2, 8]);
        let differ = self.chance(3);
        let units = (0..self.ranks)
            .map(|_| match (dynamic, differ) {
                (true, _) => 1,
                (_, true) => self.pick(&[1, 2, 4, 8, 16]),
                _ => unit,
            })
            .collect();
        let bytes = SLOT * SLOTS + 2 * LONG;
        let kind = self.dice.below(4);
        let size = |this: &mut Maker, rank: u32| match kind {
            0 => bytes + 8 * this.dice.below(100),
            1 if rank > 0 && this.chance(3) => 0,
            _ => bytes,
        };
        let sizes = (0..self.ranks).map(|rank| size(self, rank)).collect();
        let own_memory = matches!(memory, Created | Dynamic);
        let skew = if own_memory && self.chance(2) { self.dice.below(8) } else { 0 };
        Frame { memory, threads, skew, sizes, units }
    }

    fn step(&mut self, act: Act, to: u32, at: usize, len: usize) -> Step {
        Step {
            act,
            to,
            at,
            len,
            ty: Type::U8,
            op: Op::Replace,
            seed: self.dice.next(),
            request: false,
            at_once: self.chance(3),
            alone: true,
            odd_origin: self.chance(3),
            spread: [Spread::Contiguous; 2],
        }
    }

    /// How the bytes of an operation lie, mostly contiguous.
    fn spread(&mut self) -> [Spread; 2] {
        let all = [Spread::Contiguous, Spread::Strided, Spread::Backwards];
        if self.place.mpi || !self.chance(3) {
            return [Spread::Contiguous; 2];
        }
        [self.pick(&all), self.pick(&all)]
    }

    /// A length up to this one, often one where the path of a put changes.
    fn length(&mut self, most: usize) -> usize {
        let edges = [1, 8, 9, 64, self.inject.saturating_sub(1), self.inject, self.inject + 1];
        let len = if self.chance(2) { self.pick(&edges) } else { 1 + self.dice.below(most) };
        len.clamp(1, most)
    }

    /// Puts, and gets of what was put once that is done.
    fn bytes(&mut self, to: u32, at: usize, capacity: usize, unit: usize, flushes: bool) -> Chain {
        let mut chain = Vec::new();
        for _ in 0..if flushes { 1 + self.dice.below(3) } else { 1 } {
            let spread = self.spread();
            let contiguous = spread[1] == Spread::Contiguous;
            let most = if contiguous { capacity - 16 } else { (capacity - 16) / 2 - 4 };
            let len = self.length(most);
            let span = spread[1].span(len, Type::U8);
            let at = at + self.dice.below((capacity - span) / unit) * unit;
            let requests = flushes && self.chance(3);
            let acts: &[Act] = match flushes {
                true => &[Act::Put, Act::Get],
                false if self.chance(3) => &[Act::Get],
                false => &[Act::Put],
            };
            for &act in acts {
                let mut step = self.step(act, to, at, len);
                (step.request, step.spread) = (requests, spread);
                chain.push(step);
                if flushes {
                    let flush = self.flush();
                    chain.push(self.step(flush, to, 0, 0));
                }
            }
        }
        chain
    }

    fn flush(&mut self) -> Act {
        if self.chance(4) { Act::FlushAll } else { Act::Flush }
    }

    fn typed(&mut self) -> (Type, Op) {
        let mut ty = self.pick(&Type::ALL);
        while self.place.mpi && ty == Type::F80 {
            ty = self.pick(&Type::ALL);
        }
        let ops: &[Op] = match ty {
            Type::C32 | Type::C64 => &[Op::Sum],
            Type::F32 | Type::F64 | Type::F80 => &[Op::Sum, Op::Min, Op::Max],
            _ => &[Op::Sum, Op::Min, Op::Max, Op::Band, Op::Bor, Op::Bxor, Op::Prod],
        };
        (ty, self.pick(ops))
    }

    /// Changes of elements: by one thread alone, so that results are known, or by
    /// all; with requests or without.
    fn elements(&mut self, to: u32, at: usize, (ty, op): (Type, Op), own: [bool; 2]) -> Chain {
        let [alone, requests] = own;
        let mut chain = Vec::new();
        let swaps =
            alone && !matches!(ty, Type::F32 | Type::F64 | Type::F80 | Type::C32 | Type::C64);
        let swaps = swaps && self.chance(3);
        for _ in 0..self.dice.below(4) {
            let count = if self.chance(3) { 1 } else { 1 + self.dice.below(6) };
            let act = match self.dice.below(4) {
                _ if swaps => Act::CompareAndSwap,
                0 if count == 1 => Act::FetchAndOp,
                0 | 1 => Act::GetAccumulate,
                _ => Act::Accumulate,
            };
            let count = if act == Act::CompareAndSwap { 1 } else { count };
            let mut step = self.step(act, to, at, count * ty.size());
            let fetch = step.act != Act::Accumulate && self.chance(4);
            let request = matches!(act, Act::Accumulate | Act::GetAccumulate);
            step.request = request && requests && self.chance(4);
            (step.ty, step.op, step.alone) = (ty, if fetch { Op::NoOp } else { op }, alone);
            if request {
                step.spread = self.spread();
            }
            chain.push(step);
            if requests && self.chance(6) {
                chain.push(self.step(Act::FlushLocal, to, 0, 0));
            }
        }
        chain
    }

    /// All chains of one window, by rank, thread and target.
    fn chains(
        &mut self,
        frame: &Frame,
        window: usize,
        sync: Sync,
        phase: &mut Phase,
    ) -> Vec<Chain> {
        let workers: Vec<usize> =
            (0..frame.workers()).filter(|&t| frame.window_of(t) == window).collect();
        let all = self.ranks as usize * frame.workers();
        let mut chains: Vec<Chain> = vec![Vec::new(); all * self.ranks as usize];
        let flushes = !self.place.mpi || sync == Sync::Passive;
        let parity = self.dice.below(2);
        for to in (0..self.ranks).filter(|&to| frame.sizes[to as usize] > 0) {
            // Two threads on one window have targets of their own.
            let may = |t: &usize| {
                frame.threads != Threads::Same || (to as usize + t + parity).is_multiple_of(2)
            };
            let workers: Vec<usize> = workers.iter().copied().filter(may).collect();
            let unit = frame.units[to as usize];
            let mut add = |this: &mut Maker, rank: u32, thread: usize, chain: Chain| {
                let index = (rank as usize * frame.workers() + thread) * this.ranks as usize;
                // Chains of one worker and target lie one behind the other or
                // mixed, each in its order.
                let mine = &mut chains[index + to as usize];
                *mine = merged(&mut this.dice, std::mem::take(mine), chain);
            };
            for slot in 0..SLOTS + 2 {
                let long = slot >= SLOTS;
                let at = if long { SLOT * SLOTS + (slot - SLOTS) * LONG } else { slot * SLOT };
                let capacity = if long { LONG } else { SLOT };
                let owner = (self.dice.below(self.ranks as usize) as u32, self.pick(&workers));
                match self.dice.below(if long { 12 } else { 5 }) {
                    0 | 1 => {
                        let chain = self.bytes(to, at, capacity, unit, flushes);
                        add(self, owner.0, owner.1, chain);
                    }
                    2 if !long => {
                        let at = at + self.pick(&[0, 0, 0, unit]);
                        let typed = self.typed();
                        phase.zeros.push((window, to, at, ZEROS));
                        let chain = self.elements(to, at, typed, [true, flushes]);
                        add(self, owner.0, owner.1, chain);
                    }
                    3 if !long => {
                        let at = at + self.pick(&[0, 0, 0, unit]);
                        let typed = self.typed();
                        phase.zeros.push((window, to, at, ZEROS));
                        for rank in 0..self.ranks {
                            for &thread in &workers {
                                let chain = self.elements(to, at, typed, [false, flushes]);
                                add(self, rank, thread, chain);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        chains
    }

    fn epochs(&mut self, sync: Sync, by_target: &[Chain], joined: bool) -> Vec<Epoch> {
        let ranks: Vec<u32> = (0..self.ranks).collect();
        let completions: &[Completion] = match self.place.mpi && sync != Sync::Passive {
            true => &[Completion::End],
            false => Completion::ALL,
        };
        let of = |this: &mut Maker, kind: Enclosed, targets: Vec<u32>| {
            let mut steps = Vec::new();
            for &to in &targets {
                steps = merged(&mut this.dice, steps, by_target[to as usize].clone());
            }
            Epoch { kind, targets, completion: this.pick(completions), steps }
        };
        match sync {
            Sync::Fence => vec![of(self, Enclosed::Fence, ranks)],
            Sync::Group => vec![of(self, Enclosed::Start, ranks)],
            Sync::Passive if joined => vec![of(self, Enclosed::LockAll, ranks)],
            Sync::Passive => {
                let mut left: Vec<u32> =
                    ranks.into_iter().filter(|&to| !by_target[to as usize].is_empty()).collect();
                let turn = self.dice.below(left.len().max(1));
                left.rotate_left(turn);
                let mut epochs = Vec::new();
                while !left.is_empty() {
                    let mut targets = left.split_off(left.len() - 1 - self.dice.below(left.len()));
                    targets.sort_unstable();
                    let kind = self.pick(&[Enclosed::Shared, Enclosed::Exclusive]);
                    epochs.push(of(self, kind, targets));
                }
                epochs
            }
        }
    }

    fn phase(&mut self, frame: &Frame) -> Phase {
        let syncs: &[Sync] = match (self.place.mpi, frame.threads) {
            (true, _) | (_, Threads::One | Threads::Multiple) => {
                &[Sync::Fence, Sync::Group, Sync::Passive, Sync::Passive]
            }
            (_, Threads::Own) => &[Sync::Group, Sync::Passive],
            (_, Threads::Same) => &[Sync::Passive],
        };
        let sync = self.pick(syncs);
        let seed = self.dice.next() >> 1;
        let mut phase = Phase { seed, zeros: Vec::new(), sync, held: false, work: Vec::new() };
        let windows: Vec<Vec<Chain>> = (0..frame.windows())
            .map(|window| self.chains(frame, window, sync, &mut phase))
            .collect();
        for rank in 0..self.ranks as usize {
            let joined = self.chance(2);
            let mut threads = Vec::new();
            for thread in 0..frame.workers() {
                let from = (rank * frame.workers() + thread) * self.ranks as usize;
                let mine = &windows[frame.window_of(thread)][from..from + self.ranks as usize];
                threads.push(self.epochs(sync, mine, joined));
            }
            phase.work.push(threads);
        }
        phase
    }
}

/// Two sequences as one, each in its order.
fn merged(dice: &mut Dice, a: Chain, b: Chain) -> Chain {
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let first = match (a.peek(), b.peek()) {
            (Some(_), Some(_)) => dice.below(2) == 0,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return all,
        };
        all.extend(if first { a.next() } else { b.next() });
    }
}

/// The program of a seed: for a job in which threads are asked for, or not.
pub fn program(seed: u64, several: bool, ranks: u32, place: Place, inject: usize) -> Program {
    let mut maker = Maker { dice: Dice::new(seed), place, inject, ranks, several };
    let frame = maker.frame();
    let phases = (0..4).map(|_| maker.phase(&frame)).collect();
    let name = format!("random/{}/{}", frame.memory.name(), frame.threads.name());
    Program { number: seed as usize, name, frame, phases }
}
