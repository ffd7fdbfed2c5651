//! What ranks do in a case, as a list of steps that any player carries out,
//! and how a cell of the matrix becomes one.

use super::factors::{Align, Case, Completion, Epoch as Kind, Layout, Length, Memory, Operation};
use super::factors::{Sizes, Threads, Units};
use crate::harness::Dice;
use rankway::netmod::{Op, Type};
use std::fmt::Write as _;

/// The windows of a program: one, or one for each of two threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub memory: Memory,
    pub threads: Threads,
    /// Of the window's first address, modulo 8.
    pub skew: usize,
    /// By rank.
    pub sizes: Vec<usize>,
    pub units: Vec<usize>,
}

impl Frame {
    pub fn windows(&self) -> usize {
        if self.threads == Threads::Own { 2 } else { 1 }
    }

    pub fn workers(&self) -> usize {
        if matches!(self.threads, Threads::One | Threads::Multiple) { 1 } else { 2 }
    }

    /// Whose window a thread works on.
    pub fn window_of(&self, thread: usize) -> usize {
        if self.threads == Threads::Own { thread } else { 0 }
    }
}

/// What all ranks do alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Fence,
    Group,
    Passive,
}

/// What encloses a thread's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enclosed {
    Fence,
    Start,
    Shared,
    Exclusive,
    LockAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    Flush,
    FlushLocal,
    FlushAll,
}

impl Act {
    /// Returns true if the origin gets something back.
    pub fn answers(self) -> bool {
        use Act::{CompareAndSwap, FetchAndOp, Get, GetAccumulate};
        matches!(self, Get | GetAccumulate | FetchAndOp | CompareAndSwap)
    }
}

/// How the bytes of a step lie at one end: in blocks of some elements, with gaps of
/// as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Contiguous,
    Strided,
    /// The last block first.
    Backwards,
}

impl Spread {
    /// Bytes of a block: three elements, more where there would be too many of them.
    fn block(len: usize, ty: Type) -> usize {
        ty.size() * if len > LONG { 51 } else { 3 }
    }

    /// Bytes from the lowest to behind the highest, and of the gap there.
    pub fn span(self, len: usize, ty: Type) -> usize {
        let block = Spread::block(len, ty);
        if self == Spread::Contiguous { len } else { len.div_ceil(block) * 2 * block }
    }

    /// Place from the lowest byte and length of each block, in the order in which they
    /// are taken.
    pub fn blocks(self, len: usize, ty: Type) -> Vec<(usize, usize)> {
        let block = Spread::block(len, ty);
        let count = len.div_ceil(block);
        let each = (0..count).map(|i| match self {
            Spread::Backwards => (count - 1 - i) * 2 * block,
            _ => i * 2 * block,
        });
        match self {
            Spread::Contiguous => vec![(0, len)],
            _ => each.enumerate().map(|(i, at)| (at, block.min(len - i * block))).collect(),
        }
    }

    /// Packed bytes where they lie, among others of this value.
    pub fn unpacked(self, packed: Vec<u8>, ty: Type, between: u8) -> Vec<u8> {
        if self == Spread::Contiguous {
            return packed;
        }
        let mut all = vec![between; self.span(packed.len(), ty)];
        let mut done = 0;
        for (at, len) in self.blocks(packed.len(), ty) {
            all[at..at + len].copy_from_slice(&packed[done..done + len]);
            done += len;
        }
        all
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub act: Act,
    pub to: u32,
    /// Bytes from the start of the target's memory.
    pub at: usize,
    pub len: usize,
    pub ty: Type,
    pub op: Op,
    /// Of the bytes that are sent.
    pub seed: u64,
    /// With a request of its own.
    pub request: bool,
    /// Completed at once: the call that returns when all is there, or the
    /// request waited for before the next step.
    pub at_once: bool,
    /// Nobody else changes that place, so what is answered is known.
    pub alone: bool,
    pub odd_origin: bool,
    /// How the bytes lie at the origin, and at the target from `at` on.
    pub spread: [Spread; 2],
}

impl Step {
    pub fn name(&self) -> String {
        let Step { act, to, at, len, ty, op, .. } = self;
        let [here, there] = self.spread;
        format!(
            "{act:?} of {len} bytes ({ty:?}, {op:?}, {here:?}) to {to} at byte {at} ({there:?})"
        )
    }

    /// Bytes at the target from the first one to behind the last one.
    pub fn span(&self) -> usize {
        self.spread[1].span(self.len, self.ty)
    }

    /// Returns true if a layout is at either end.
    pub fn laid(&self) -> bool {
        self.spread != [Spread::Contiguous; 2]
    }
}

#[derive(Clone, Debug)]
pub struct Epoch {
    pub kind: Enclosed,
    pub targets: Vec<u32>,
    pub completion: Completion,
    pub steps: Vec<Step>,
}

/// Between two comparisons of all memory.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Of what stands in all memory before.
    pub seed: u64,
    /// Zero before: window, rank, place and length.
    pub zeros: Vec<(usize, u32, usize, usize)>,
    pub sync: Sync,
    /// Compared before the epochs end, too.
    pub held: bool,
    /// By rank, then by thread.
    pub work: Vec<Vec<Vec<Epoch>>>,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub number: usize,
    pub name: String,
    pub frame: Frame,
    pub phases: Vec<Phase>,
}

/// The places of a case's operations in the memory of each target: some for
/// each origin alone, one for all.
struct Places {
    stride: usize,
    each: usize,
    origins: usize,
    /// Into each place.
    shift: bool,
}

impl Places {
    fn at(&self, origin: usize, i: usize, unit: usize) -> usize {
        let shift = if self.shift { unit } else { 0 };
        (origin * self.each + i) * self.stride + shift
    }

    fn common(&self, unit: usize) -> usize {
        self.at(self.origins, 0, unit)
    }

    /// Whole pages, so that lengths that are nearly the same share a window, and some
    /// more, so that contiguous regions begin in the middle of a page.
    fn bytes(&self) -> usize {
        ((self.origins * self.each + 1) * self.stride).next_multiple_of(4096) + 72
    }
}

/// The longest of which there are two in a row to a target.
const LONG: usize = 128 << 10;

fn length(length: Length, inject: usize) -> usize {
    match length {
        Length::None => 0,
        Length::One => 1,
        Length::Eight => 8,
        Length::Inject => inject,
        Length::Longer => inject + 1,
        Length::Long => 64 << 10,
        Length::Longest => 1 << 20,
    }
}

fn frame(case: &Case, places: &Places, ranks: u32) -> Frame {
    let units = match case.units {
        Units::Same if case.align == Align::Target => vec![1; ranks as usize],
        Units::Same if case.memory == Memory::Dynamic => vec![1; ranks as usize],
        Units::Same => vec![8; ranks as usize],
        Units::Differ => (0..ranks as usize).map(|rank| [4, 16, 2, 1][rank % 4]).collect(),
    };
    let empty: &[u32] = if case.units == Units::Same { &[0, 2] } else { &[3] };
    let size = |rank: u32| match case.sizes {
        Sizes::Zero if empty.contains(&rank) => 0,
        Sizes::Differ => places.bytes() + 40 * rank as usize,
        _ => places.bytes(),
    };
    let skew = if case.align == Align::Base { 3 } else { 0 };
    let sizes = (0..ranks).map(size).collect();
    Frame { memory: case.memory, threads: case.threads, skew, sizes, units }
}

/// Whom a thread works on: ranks one after the other, those of two threads on
/// one window apart.
fn targets(case: &Case, frame: &Frame, len: usize, first: u32, thread: usize) -> Vec<u32> {
    let ranks = frame.sizes.len() as u32;
    let round = |rank: u32| rank % ranks;
    let fits = |rank: &u32| len == 0 || frame.sizes[*rank as usize] > 0;
    let same = case.threads == Threads::Same;
    match case.epoch {
        Kind::Lock | Kind::Start => {
            let mut some = (0..ranks).map(|i| round(first + i)).filter(fits);
            let nth = if same { thread } else { 0 };
            some.nth(nth).into_iter().collect()
        }
        _ if same => (0..2).map(|i| round(first + 2 * thread as u32 + i)).collect(),
        // Two are several, where each of them takes as long as a thousand others.
        _ if len > LONG => (0..2).map(|i| round(first + thread as u32 + i)).collect(),
        Kind::Locks | Kind::Starts => (0..3).map(|i| round(first + thread as u32 + i)).collect(),
        Kind::Fence | Kind::LockAll => (0..ranks).map(|i| round(first + i)).collect(),
    }
}

/// One type for each length: bytes where it is no multiple of eight.
fn typed(len: usize) -> Type {
    if len.is_multiple_of(8) { Type::I64 } else { Type::U8 }
}

fn spread(case: &Case) -> [Spread; 2] {
    match case.layout {
        Layout::Contiguous => [Spread::Contiguous; 2],
        Layout::Origin => [Spread::Strided, Spread::Contiguous],
        Layout::Target => [Spread::Contiguous, Spread::Strided],
        Layout::Both => [Spread::Strided, Spread::Backwards],
    }
}

fn steps(case: &Case, frame: &Frame, places: &Places, len: usize, me: (u32, usize)) -> Vec<Step> {
    let (rank, thread) = me;
    // Two threads of one rank have targets or windows of their own.
    let origin = rank as usize;
    let mut dice = Dice::new(case.number as u64 * 64 + origin as u64 * 2 + thread as u64);
    let first = (rank + 1 + (case.number / 7) as u32) % frame.sizes.len() as u32;
    let targets = targets(case, frame, len, first, thread);
    let (act, ops): (Act, &[Op]) = match case.operation {
        Operation::Put => (Act::Put, &[Op::Replace]),
        Operation::Get => (Act::Get, &[Op::NoOp]),
        Operation::Accumulate => (Act::Accumulate, &[Op::Sum, Op::Bxor, Op::Replace, Op::Max]),
        Operation::GetAccumulate => (Act::GetAccumulate, &[Op::Sum, Op::NoOp, Op::Band]),
        Operation::FetchAndOp => (Act::FetchAndOp, &[Op::Sum, Op::Replace, Op::NoOp, Op::Bor]),
        Operation::CompareAndSwap => (Act::CompareAndSwap, &[Op::Replace]),
    };
    let mut step = |to: u32, at: usize, op: Op, alone: bool| {
        let len = if frame.sizes[to as usize] == 0 { 0 } else { len };
        let request = case.completion == Completion::Request;
        // Nothing lies in an empty region.
        let at = if frame.sizes[to as usize] == 0 { 0 } else { at };
        let at_once = dice.below(4) == 0;
        let odd_origin = case.align == Align::Origin;
        let (ty, seed) = (typed(len), dice.next());
        let spread = spread(case);
        Step { act, to, at, len, ty, op, seed, request, at_once, alone, odd_origin, spread }
    };
    let mut steps = Vec::new();
    for i in 0..places.each {
        for &to in &targets {
            let at = places.at(origin, i, frame.units[to as usize]);
            steps.push(step(
                to,
                at,
                ops[(case.number / Operation::ALL.len() + i) % ops.len()],
                true,
            ));
        }
    }
    if matches!(act, Act::Accumulate | Act::GetAccumulate | Act::FetchAndOp) {
        for &to in &targets {
            steps.push(step(to, places.common(frame.units[to as usize]), Op::Sum, false));
        }
    }
    // One element has no empty form.
    if matches!(act, Act::FetchAndOp | Act::CompareAndSwap) {
        steps.retain(|step| step.len > 0);
    }
    steps
}

/// A case of the matrix, over a network with this inject size.
pub fn of_case(case: &Case, ranks: u32, inject: usize) -> Program {
    let len = length(case.length, inject);
    let each = [3, 2, 1][usize::from(len > 16 << 10) + usize::from(len > LONG)];
    let shift = case.align == Align::Target;
    let span = spread(case)[1].span(len, typed(len));
    let places =
        Places { stride: (span + 32).next_multiple_of(64), each, origins: ranks as usize, shift };
    let frame = frame(case, &places, ranks);
    let held = matches!(case.completion, Completion::Flush | Completion::FlushAll);
    let kind = match case.epoch {
        Kind::Fence => Enclosed::Fence,
        Kind::Start | Kind::Starts => Enclosed::Start,
        Kind::LockAll => Enclosed::LockAll,
        // Who compares within the epoch waits for the others there.
        Kind::Lock | Kind::Locks if held || (case.number / 5).is_multiple_of(2) => Enclosed::Shared,
        Kind::Lock | Kind::Locks => Enclosed::Exclusive,
    };
    let sync = match kind {
        Enclosed::Fence => Sync::Fence,
        Enclosed::Start => Sync::Group,
        _ => Sync::Passive,
    };
    let epoch = |rank: u32, thread: usize| {
        let first = (rank + 1 + (case.number / 7) as u32) % ranks;
        let mut targets = targets(case, &frame, len, first, thread);
        // Locks of several ranks at once are taken in one order by all.
        targets.sort_unstable();
        let steps = steps(case, &frame, &places, len, (rank, thread));
        vec![Epoch { kind, targets, completion: case.completion, steps }]
    };
    let workers = frame.workers();
    let work = (0..ranks).map(|rank| (0..workers).map(|t| epoch(rank, t)).collect()).collect();
    let phase = Phase { seed: case.number as u64, zeros: Vec::new(), sync, held, work };
    Program { number: case.number, name: case.name(), frame, phases: vec![phase] }
}

impl Program {
    /// The program as a text of one line for each thing, for a player that is
    /// not written in Rust.
    pub fn write(&self, out: &mut String) {
        // Writing into a String does not fail.
        let _ = self.lines(out);
    }

    fn lines(&self, out: &mut String) -> std::fmt::Result {
        let f = &self.frame;
        write!(out, "window {} {} {}", f.memory.name(), f.threads as u8, f.skew)?;
        f.sizes.iter().chain(&f.units).try_for_each(|n| write!(out, " {n}"))?;
        writeln!(out, "\ncase {} {}", self.number, self.name)?;
        for phase in &self.phases {
            writeln!(out, "phase {:?} {} {}", phase.sync, phase.seed, u8::from(phase.held))?;
            for (window, rank, at, len) in &phase.zeros {
                writeln!(out, "zero {window} {rank} {at} {len}")?;
            }
            for (rank, threads) in phase.work.iter().enumerate() {
                for (thread, epoch) in
                    threads.iter().enumerate().flat_map(|(t, es)| es.iter().map(move |e| (t, e)))
                {
                    write!(out, "epoch {rank} {thread} {:?} {:?}", epoch.kind, epoch.completion)?;
                    epoch.targets.iter().try_for_each(|to| write!(out, " {to}"))?;
                    writeln!(out)?;
                    epoch.steps.iter().try_for_each(|step| step.line(out))?;
                }
            }
        }
        writeln!(out, "end")
    }
}

impl Step {
    fn line(&self, out: &mut String) -> std::fmt::Result {
        let flags = [self.request, self.at_once, self.alone, self.odd_origin];
        let flags = flags.iter().rev().fold(0, |all, &flag| all << 1 | u8::from(flag));
        let (ty, op) = (self.ty, self.op);
        let Step { act, to, at, len, seed, .. } = self;
        writeln!(out, "step {act:?} {to} {at} {len} {ty:?} {op:?} {seed} {flags}")
    }
}
