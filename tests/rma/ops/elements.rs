//! Every operation on every type, one origin at a time, against arithmetic
//! written down plainly.

use super::oracle::{elements, equal, naive};
use super::*;
use crate::{ensure, refused};
use rankway::rma::ErrorKind;

/// Words that become elements: small, large, equal and zero ones.
fn words(dice: &mut Dice, n: usize) -> Vec<i64> {
    let word = |dice: &mut Dice| match dice.below(4) {
        0 => 0,
        1 => dice.below(5) as i64 - 2,
        2 => dice.next() as i64 % 1000,
        _ => dice.next() as i64,
    };
    (0..n).map(|_| word(dice)).collect()
}

/// What one operation does to memory, element by element.
pub fn apply(ty: Type, op: Op, memory: &mut [u8], operands: &[u8]) {
    let size = ty.size();
    for (a, b) in memory.chunks_mut(size).zip(operands.chunks(size)) {
        let new = naive(ty, op, a, b);
        a.copy_from_slice(&new);
    }
}

fn near(what: &str, ty: Type, got: &[u8], want: &[u8]) -> Result {
    for (i, (g, w)) in got.chunks(ty.size()).zip(want.chunks(ty.size())).enumerate() {
        ensure!(equal(ty, w, g), "{what}, {ty:?}: element {i} is {g:02x?}, not {w:02x?}");
    }
    Ok(())
}

/// Sequences of all operations, as updates and with results, from each rank to
/// the next one and to itself.
pub fn every<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const EACH: usize = 5;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let part = 16 * EACH * Type::ALL.len();
    let mut w = make::<N, KIND>(&world, part * n as usize, 16)?;
    for to in [(me + 1) % n, me] {
        w.fence().map_err(text)?;
        let mut dice = Dice::new(u64::from(me));
        for (i, ty) in Type::ALL.into_iter().enumerate() {
            let disp = (part * me as usize + 16 * EACH * i) / 16;
            let len = EACH * ty.size();
            let mut memory = elements(ty, &words(&mut dice, EACH));
            w.put(&memory, to, disp).map_err(text)?;
            w.flush(to).map_err(text)?;
            for op in Op::ALL {
                let operands = elements(ty, &words(&mut dice, EACH));
                let mut results = vec![0x5a; len];
                // SAFETY: the buffers hold EACH elements until the flush.
                let (updated, fetched) = unsafe {
                    let (from, into) = (operands.as_ptr(), results.as_mut_ptr());
                    let updated = w.accumulate_raw(from, EACH, ty, op, to, disp);
                    let fetched = w.get_accumulate_raw(from, into, EACH, ty, op, to, disp);
                    w.flush(to).map_err(text)?;
                    (updated, fetched)
                };
                if let Err(e) = updated {
                    let none = matches!(e.kind(), ErrorKind::Operation { .. });
                    ensure!(none && fetched.is_err(), "{ty:?} {op:?}: {e}");
                    continue;
                }
                fetched.map_err(text)?;
                apply(ty, op, &mut memory, &operands);
                near(&format!("result of {op:?} to {to}"), ty, &results, &memory)?;
                apply(ty, op, &mut memory, &operands);
            }
            // Compare and swap, once in vain.
            for hit in [true, false] {
                let new = elements(ty, &words(&mut dice, 1));
                let mut compare = memory[..ty.size()].to_vec();
                compare[0] ^= u8::from(!hit);
                let mut result = vec![0; ty.size()];
                // SAFETY: one element each, until the flush.
                unsafe {
                    let (new, compare) = (new.as_ptr(), compare.as_ptr());
                    w.compare_and_swap_raw(new, compare, result.as_mut_ptr(), ty, to, disp)
                        .map_err(text)?;
                }
                w.flush(to).map_err(text)?;
                near("result of a swap", ty, &result, &memory[..ty.size()])?;
                if hit {
                    memory[..ty.size()].copy_from_slice(&new);
                }
            }
            let mut got = vec![0; len];
            w.get(&mut got, to, disp).map_err(text)?;
            near("memory", ty, &got, &memory)?;
        }
        w.fence().map_err(text)?;
    }
    // What Rust has types for.
    let to = (me + 1) % n;
    let at = part / 16 * me as usize;
    w.fence().map_err(text)?;
    w.put(&[0; 16], to, at).map_err(text)?;
    w.flush(to).map_err(text)?;
    ensure!(w.fetch_and_op(5_i64, Op::Sum, to, at).map_err(text)? == 0, "fetch_and_op");
    ensure!(w.fetch_and_op(-7_i64, Op::Min, to, at).map_err(text)? == 5, "fetch_and_op");
    ensure!(w.compare_and_swap(-7_i64, 9, to, at).map_err(text)? == -7, "compare_and_swap");
    ensure!(w.compare_and_swap(-7_i64, 3, to, at).map_err(text)? == 9, "compare_and_swap");
    ensure!(w.fetch_and_op(0_i64, Op::NoOp, to, at).map_err(text)? == 9, "fetch");
    let mut old = [[0.0_f64; 2]];
    w.accumulate(&[[1.5_f64, 2.0]], Op::Replace, to, at).map_err(text)?;
    w.get_accumulate(&[[2.0, 0.5]], &mut old, Op::Prod, to, at).map_err(text)?;
    ensure!(old == [[1.5, 2.0]], "complex: {old:?}");
    w.get_accumulate(&[], &mut old, Op::NoOp, to, at).map_err(text)?;
    ensure!(old == [[2.0, 4.75]], "complex: {old:?}");
    w.fence().map_err(text)?;
    w.free().map_err(text)
}

/// Thousands of elements at a time, longer than any packet.
pub fn long<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const COUNT: usize = 30_011;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, to) = (world.rank(), 1 - world.rank());
    let mut w = make::<N, KIND>(&world, COUNT * 16, 1)?;
    let before = |rank: u32, ty| elements(ty, &words(&mut Dice::new(u64::from(rank) + 77), COUNT));
    for ty in [Type::I32, Type::F64, Type::C64, Type::U8] {
        for op in [Op::Sum, Op::Prod, Op::Replace] {
            let mut mine = vec![0; COUNT * 16];
            mine[..COUNT * ty.size()].copy_from_slice(&before(me, ty));
            w.write_local(0, &mine).map_err(text)?;
            w.fence().map_err(text)?;
            let operands = elements(ty, &words(&mut Dice::new(u64::from(me) + 5), COUNT));
            let mut results = vec![0; COUNT * ty.size()];
            // SAFETY: COUNT elements each; the results are waited for.
            unsafe {
                w.accumulate_raw(operands.as_ptr(), COUNT, ty, op, to, 0).map_err(text)?;
                let (from, into) = (operands.as_ptr(), results.as_mut_ptr());
                let request = w.rget_accumulate(from, into, COUNT, ty, op, to, 0);
                request.map_err(text)?.wait().map_err(text)?;
            }
            let mut want = before(to, ty);
            apply(ty, op, &mut want, &operands);
            near("long results", ty, &results, &want)?;
            w.fence().map_err(text)?;
            let theirs = elements(ty, &words(&mut Dice::new(u64::from(to) + 5), COUNT));
            let mut want = before(me, ty);
            apply(ty, op, &mut want, &theirs);
            apply(ty, op, &mut want, &theirs);
            near("long", ty, &own(&w)?, &want)?;
            w.fence().map_err(text)?;
        }
    }
    w.free().map_err(text)
}

/// What is refused changes nothing.
pub fn errors<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::{Arguments, Freed, NoEpoch, NullBuffer, Operation, OutOfBounds, Rank};
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (n, to) = (world.size(), (world.rank() + 1) % world.size());
    let mut w = make::<N, KIND>(&world, 60, 8)?;
    refused!(w.accumulate(&[1_u64], Op::Sum, to, 0), NoEpoch);
    refused!(w.fetch_and_op(1_u64, Op::Sum, to, 0), NoEpoch);
    w.fence().map_err(text)?;
    refused!(w.accumulate(&[1_u64], Op::Sum, n, 0), Rank { .. });
    refused!(w.accumulate(&[1_u64], Op::Sum, to, 7), OutOfBounds { len: 8, bytes: 60, .. });
    refused!(w.accumulate(&[1_u64; 8], Op::Sum, to, 0), OutOfBounds { .. });
    refused!(w.fetch_and_op(1_u64, Op::Sum, to, 7), OutOfBounds { .. });
    refused!(w.fetch_and_op(1_u64, Op::Sum, u32::MAX, 0), Rank { .. });
    refused!(w.compare_and_swap(1_u64, 1, to, usize::MAX), OutOfBounds { .. });
    refused!(
        w.accumulate(&[1.0_f64], Op::Band, to, 0),
        Operation { ty: Type::F64, op: Op::Band, .. }
    );
    refused!(w.fetch_and_op(1.0_f64, Op::Lxor, to, 0), Operation { .. });
    refused!(w.accumulate(&[[1.0_f32; 2]], Op::Max, to, 0), Operation { .. });
    refused!(w.get_accumulate(&[1_u8], &mut [0, 0], Op::Sum, to, 0), Arguments(_));
    let null = std::ptr::null_mut::<u8>();
    let one = [1_u8; 8];
    // SAFETY: null is refused, with a count.
    unsafe {
        refused!(w.accumulate_raw(null, 1, Type::I32, Op::Sum, to, 0), NullBuffer { len: 4 });
        refused!(
            w.accumulate_raw(one.as_ptr(), usize::MAX, Type::I32, Op::Sum, to, 0),
            OutOfBounds { .. }
        );
        refused!(
            w.get_accumulate_raw(one.as_ptr(), null, 1, Type::I32, Op::Sum, to, 0),
            NullBuffer { .. }
        );
        w.accumulate_raw(null, 0, Type::I32, Op::Sum, to, 0).map_err(text)?;
        w.accumulate_raw(null, 1, Type::I32, Op::NoOp, to, 0).map_err(text)?;
    }
    w.fence().map_err(text)?;
    same("after refusals", &own(&w)?, &[0; 60])?;
    w.fence().map_err(text)?;
    w.accumulate(&[1_u32], Op::Sum, to, 7).map_err(text)?;
    w.fence().map_err(text)?;
    same("the end", &own(&w)?[56..], &1_u32.to_ne_bytes())?;
    w.free().map_err(text)?;
    refused!(w.accumulate(&[1_u64], Op::Sum, to, 0), Freed);
    refused!(w.fetch_and_op(1_u64, Op::Sum, to, 0), Freed);
    Ok(())
}

/// Elements at odd addresses, by all ranks at once: at odd displacements of
/// windows at odd addresses, the same on all of them.
pub fn skewed<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: usize = 50;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank() as usize, world.size());
    let mut memory = vec![0_u128; 16];
    let skew = [0, 3, 4, 8][me % 4];
    let start = memory.as_mut_ptr().cast::<u8>().wrapping_add(skew);
    // SAFETY: `memory` outlives the window and holds 200 bytes from there.
    let mut w = unsafe { Window::create(&world, start, 200, 1) }.map_err(text)?;
    w.fence().map_err(text)?;
    for round in 0..ROUNDS {
        for to in 0..n {
            w.accumulate(&[1_u64, 2], Op::Sum, to, 0).map_err(text)?;
            w.accumulate(&[1.0_f64], Op::Sum, to, 21).map_err(text)?;
            w.accumulate(&[[1.0_f32, 2.0]; 3], Op::Sum, to, 36).map_err(text)?;
            w.accumulate(&[3_u16], Op::Sum, to, 65).map_err(text)?;
            w.accumulate(&[[1.0_f64, 0.5]], Op::Sum, to, 83).map_err(text)?;
            if round % 10 == 0 {
                w.fetch_and_op(1_i32, Op::Sum, to, 103).map_err(text)?;
            }
        }
    }
    w.fence().map_err(text)?;
    let all = own(&w)?;
    let times = ROUNDS * n as usize;
    same("u64", &all[..8], &(times as u64).to_ne_bytes())?;
    same("u64", &all[8..16], &(2 * times as u64).to_ne_bytes())?;
    same("f64", &all[21..29], &(times as f64).to_ne_bytes())?;
    same(
        "c32",
        &all[52..60],
        &[(times as f32).to_ne_bytes(), (2.0 * times as f32).to_ne_bytes()].concat(),
    )?;
    same("u16", &all[65..67], &(3 * times as u16).to_ne_bytes())?;
    same("c64", &all[91..99], &(0.5 * times as f64).to_ne_bytes())?;
    same("i32", &all[103..107], &(times as i32 / 10).to_ne_bytes())?;
    w.free().map_err(text)
}

/// Operations on one element from one origin are done in the order of the
/// calls, whichever path each of them takes.
pub fn order<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, to) = (world.rank(), 1 - world.rank());
    let mut w = make::<N, CREATED>(&world, 64, 8)?;
    w.lock_all().map_err(text)?;
    let mut dice = Dice::new(u64::from(me));
    let mut want = 0_i64.to_ne_bytes();
    let changing: Vec<Op> = Op::ALL.into_iter().filter(|&op| op != Op::NoOp).collect();
    for _ in 0..400 {
        let op = changing[dice.below(changing.len())];
        let operand = words(&mut dice, 1)[0].to_ne_bytes();
        let value = i64::from_ne_bytes(operand);
        if dice.below(8) == 0 {
            let old = w.fetch_and_op(value, op, to, 3).map_err(text)?;
            ensure!(old.to_ne_bytes() == want, "{op:?}: {old:x}, not {want:02x?}");
        } else {
            w.accumulate(&[value], op, to, 3).map_err(text)?;
        }
        apply(Type::I64, op, &mut want, &operand);
    }
    w.flush(to).map_err(text)?;
    let mut got = [0; 8];
    w.get(&mut got, to, 3).map_err(text)?;
    same("in order", &got, &want)?;
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)
}
