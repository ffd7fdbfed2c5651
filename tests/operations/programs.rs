//! Random programs: every process runs its part of one that all know, and in
//! the end each looks at its memory as a single process would have left it.

use super::elements::apply;
use super::oracle::{elements, equal};
use super::*;
use crate::ensure;
use rankway::rma::{Assert, Lock};

const SLOT: usize = 256;
const SLOTS: usize = 24;
const BYTES: usize = SLOT * SLOTS;

/// One step of one rank.
#[derive(Clone, Debug)]
enum Step {
    /// Bytes into a slot that is this rank's own in this phase.
    Put {
        to: u32,
        at: usize,
        bytes: Vec<u8>,
        long: bool,
    },
    /// Elements that all ranks may change at once, with one operation.
    Accumulate {
        to: u32,
        at: usize,
        ty: Type,
        op: Op,
        words: Vec<i64>,
        fetch: bool,
    },
    /// Reads a slot that is its own and compares with what it wrote there.
    Get {
        to: u32,
        at: usize,
        len: usize,
    },
    Flush {
        to: u32,
    },
}

/// How a phase's operations are enclosed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sync {
    Fence,
    LockAll,
    Locks,
    Groups,
}

struct Phase {
    sync: Sync,
    /// By rank.
    steps: Vec<Vec<Step>>,
}

/// Who may change a slot in a phase: one rank plainly, or all by one operation
/// on one type whose order does not matter.
fn phase(dice: &mut Dice, n: u32) -> Phase {
    let sync = [Sync::Fence, Sync::LockAll, Sync::Locks, Sync::Groups][dice.below(4)];
    let mut steps = vec![Vec::new(); n as usize];
    for to in 0..n {
        for slot in 0..SLOTS {
            let at = slot * SLOT;
            match dice.below(3) {
                0 => {
                    let from = dice.below(n as usize);
                    for _ in 0..1 + dice.below(3) {
                        let len = 1 + dice.below(SLOT - 1);
                        let at = at + dice.below(SLOT - len);
                        let bytes = (0..len).map(|_| dice.next() as u8).collect();
                        steps[from].push(Step::Put { to, at, bytes, long: dice.below(2) == 0 });
                        // Puts to one place keep no order without a flush.
                        steps[from].push(Step::Flush { to });
                        if dice.below(2) == 0 {
                            steps[from].push(Step::Get { to, at, len });
                        }
                    }
                }
                1 => {
                    let ty = Type::ALL[dice.below(13)];
                    let op = match ty {
                        Type::C32 | Type::C64 => Op::Sum,
                        Type::F32 | Type::F64 | Type::F80 => {
                            [Op::Sum, Op::Min, Op::Max][dice.below(3)]
                        }
                        _ => [Op::Sum, Op::Min, Op::Max, Op::Band, Op::Bor, Op::Bxor, Op::Prod]
                            [dice.below(7)],
                    };
                    let skew = [0, 0, 0, 1][dice.below(4)];
                    for steps in &mut steps {
                        for _ in 0..dice.below(3) {
                            let count = 1 + dice.below(5);
                            // Whole numbers, so that sums do not depend on the
                            // order.
                            let words = (0..count).map(|_| dice.below(200) as i64 - 100).collect();
                            let fetch = dice.below(3) == 0;
                            steps.push(Step::Accumulate {
                                to,
                                at: at + skew,
                                ty,
                                op,
                                words,
                                fetch,
                            });
                        }
                    }
                }
                _ => {}
            }
        }
    }
    // Each rank's steps in some order that keeps those of a slot together.
    for steps in &mut steps {
        let turn = dice.below(steps.len().max(1));
        let at = (turn..steps.len())
            .find(|&i| !matches!(steps[i], Step::Flush { .. } | Step::Get { .. }));
        steps.rotate_left(at.unwrap_or(0));
    }
    Phase { sync, steps }
}

pub fn random<N: Opens, const KIND: bool>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let n = world.size();
    let first = std::env::var("RANKWAY_TEST_SEED").ok().and_then(|s| s.parse().ok());
    for seed in first.map_or(0..3, |s: u64| s..s + 1) {
        run::<N, KIND>(&world, seed).map_err(|e| format!("RANKWAY_TEST_SEED={seed}: {e}"))?;
        ensure!(world.size() == n, "size");
    }
    Ok(())
}

fn run<N: Opens, const KIND: bool>(world: &Communicator<N>, seed: u64) -> Result {
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(world, BYTES, 1)?;
    let mut dice = Dice::new(seed * 1000 + u64::from(n));
    // Small whole numbers of every type are zero bytes to begin with.
    let mut memory = vec![vec![0_u8; BYTES]; n as usize];
    for number in 0..6 {
        // Elements start from zero: what was put there may be no number.
        w.fence().map_err(text)?;
        w.write_local(0, &[0; BYTES]).map_err(text)?;
        w.fence_with(Assert::NOSUCCEED).map_err(text)?;
        memory.iter_mut().for_each(|m| m.fill(0));
        let phase = phase(&mut dice, n);
        for steps in &phase.steps {
            for step in steps {
                match step {
                    Step::Put { to, at, bytes, .. } => {
                        memory[*to as usize][*at..*at + bytes.len()].copy_from_slice(bytes);
                    }
                    Step::Accumulate { to, at, ty, op, words, .. } => {
                        let operands = elements(*ty, words);
                        let part = &mut memory[*to as usize][*at..*at + operands.len()];
                        apply(*ty, *op, part, &operands);
                    }
                    Step::Get { .. } | Step::Flush { .. } => {}
                }
            }
        }
        let steps = &phase.steps[me as usize];
        let all: Vec<u32> = (0..n).collect();
        match phase.sync {
            Sync::Fence => {
                w.fence_with(Assert::NOPRECEDE).map_err(text)?;
                enact(&w, steps, None)?;
                w.fence_with(Assert::NOSUCCEED).map_err(text)?;
            }
            Sync::LockAll => {
                w.lock_all().map_err(text)?;
                enact(&w, steps, None)?;
                w.unlock_all().map_err(text)?;
                world.barrier().map_err(text)?;
            }
            Sync::Locks => {
                for step in 0..n {
                    let to = (me + step) % n;
                    let kind = if step % 2 == 0 { Lock::Shared } else { Lock::Exclusive };
                    w.lock(kind, to, Assert::NONE).map_err(text)?;
                    enact(&w, steps, Some(to))?;
                    w.unlock(to).map_err(text)?;
                }
                world.barrier().map_err(text)?;
            }
            Sync::Groups => {
                w.post(&all, Assert::NONE).map_err(text)?;
                w.start(&all, Assert::NONE).map_err(text)?;
                enact(&w, steps, None)?;
                w.complete().map_err(text)?;
                w.wait().map_err(text)?;
            }
        }
        let got = own(&w)?;
        let want = &memory[me as usize];
        let what = format!("phase {number} ({:?})", phase.sync);
        // Zero may come out with either sign.
        let float = phase.steps.iter().flatten().find_map(|step| match step {
            Step::Accumulate {
                to,
                at,
                ty: ty @ (Type::F32 | Type::F64 | Type::F80),
                words,
                ..
            } if *to == me
                && elements(*ty, words).len() + at <= BYTES
                && !got[*at..*at + ty.size()].eq(&want[*at..*at + ty.size()])
                && equal(*ty, &want[*at..*at + ty.size()], &got[*at..*at + ty.size()]) =>
            {
                Some(())
            }
            _ => None,
        });
        ensure!(float.is_none(), "{what}: a zero of another sign");
        same(&what, &got, want)?;
        world.barrier().map_err(text)?;
    }
    w.free().map_err(text)
}

/// Carries out steps, those towards one rank only where it is named.
fn enact<N: Opens>(w: &Window<N>, steps: &[Step], only: Option<u32>) -> Result {
    let mut written: Vec<(u32, usize, Vec<u8>)> = Vec::new();
    for step in steps {
        let (Step::Put { to, .. }
        | Step::Accumulate { to, .. }
        | Step::Get { to, .. }
        | Step::Flush { to }) = step;
        if only.is_some_and(|only| only != *to) {
            continue;
        }
        match step {
            Step::Put { to, at, bytes, long } => {
                if *long {
                    // SAFETY: the steps outlive the epoch.
                    unsafe { w.put_nb(bytes.as_ptr(), bytes.len(), *to, *at) }.map_err(text)?;
                } else {
                    w.put(bytes, *to, *at).map_err(text)?;
                }
                written.push((*to, *at, bytes.clone()));
            }
            Step::Get { to, at, len } => {
                let mut got = vec![0; *len];
                w.get(&mut got, *to, *at).map_err(text)?;
                if let Some((.., bytes)) =
                    written.iter().rfind(|(t, a, b)| (t, a, b.len()) == (to, at, *len))
                {
                    same("read back", &got, bytes)?;
                }
            }
            Step::Flush { to } => w.flush(*to).map_err(text)?,
            Step::Accumulate { to, at, ty, op, words, fetch } => {
                let operands = elements(*ty, words);
                let (from, count) = (operands.as_ptr(), words.len());
                // SAFETY: the buffers hold the elements; results are waited for.
                unsafe {
                    if *fetch {
                        let mut results = vec![0; operands.len()];
                        let into = results.as_mut_ptr();
                        let request = w.rget_accumulate(from, into, count, *ty, *op, *to, *at);
                        request.map_err(text)?.wait().map_err(text)?;
                    } else {
                        w.accumulate_raw(from, count, *ty, *op, *to, *at).map_err(text)?;
                    }
                }
            }
        }
    }
    Ok(())
}
