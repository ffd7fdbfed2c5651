//! All ranks change the same elements at once, by all access paths.

use super::*;
use crate::ensure;

/// Sums that lose nothing, numbers that are drawn once, a lock made of
/// compare_and_swap that excludes.
pub fn hammer<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: usize = 120;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, 4096, 1)?;
    w.fence().map_err(text)?;
    let mut drawn = Vec::new();
    for round in 0..ROUNDS {
        for to in 0..n {
            w.accumulate(&[1_u64; 3], Op::Sum, to, 0).map_err(text)?;
            w.accumulate(&[1_i8; 9], Op::Sum, to, 32).map_err(text)?;
            w.accumulate(&[2_i16; 2], Op::Sum, to, 48).map_err(text)?;
            w.accumulate(&[1.0_f32], Op::Sum, to, 64).map_err(text)?;
            w.accumulate(&[1.0_f64], Op::Sum, to, 72).map_err(text)?;
            w.accumulate(&[[1.0_f32, -1.0]], Op::Sum, to, 80).map_err(text)?;
            w.accumulate(&[[1.0_f64, -1.0]], Op::Sum, to, 96).map_err(text)?;
            let bit = 1_u64 << ((round as u32 + me * 16) % 64);
            w.accumulate(&[bit], Op::Bxor, to, 112).map_err(text)?;
            w.accumulate(&[bit], Op::Bxor, to, 112).map_err(text)?;
            // Those that providers rarely have.
            w.accumulate(&[u64::from(me) + 1], Op::Max, to, 120).map_err(text)?;
            w.accumulate(&[3_u32], Op::Prod, to, 128).map_err(text)?;
        }
        // Two operations on one element: sums and swaps.
        drawn.push(w.fetch_and_op(1_u32, Op::Sum, 0, 200).map_err(text)?);
        loop {
            let old = w.fetch_and_op(0_u64, Op::NoOp, n - 1, 208).map_err(text)?;
            if w.compare_and_swap(old, old + 1, n - 1, 208).map_err(text)? == old {
                break;
            }
        }
    }
    // A lock: what it guards is read and written plainly.
    for _ in 0..20 {
        while w.compare_and_swap(0_u32, me + 1, 0, 216).map_err(text)? != 0 {
            std::thread::yield_now();
        }
        let mut count = [0; 8];
        w.get(&mut count, 0, 224).map_err(text)?;
        w.put(&(u64::from_ne_bytes(count) + 1).to_ne_bytes(), 0, 224).map_err(text)?;
        w.flush(0).map_err(text)?;
        let held = w.fetch_and_op(0_u32, Op::Replace, 0, 216).map_err(text)?;
        ensure!(held == me + 1, "the lock was {held}'s");
    }
    w.fence().map_err(text)?;
    let all = own(&w)?;
    let times = ROUNDS * n as usize;
    let word = |at: usize| u64::from_ne_bytes(all[at..at + 8].try_into().unwrap());
    for at in [0, 8, 16] {
        ensure!(word(at) == times as u64, "u64 at {at}: {}", word(at));
    }
    same("i8", &all[32..41], &[times as u8; 9])?;
    same("i16", &all[48..52], &[(2 * times as u16).to_ne_bytes(); 2].concat())?;
    same("f32", &all[64..68], &(times as f32).to_ne_bytes())?;
    same("f64", &all[72..80], &(times as f64).to_ne_bytes())?;
    same(
        "c32",
        &all[80..88],
        &[(times as f32).to_ne_bytes(), (-(times as f32)).to_ne_bytes()].concat(),
    )?;
    same(
        "c64",
        &all[96..112],
        &[(times as f64).to_ne_bytes(), (-(times as f64)).to_ne_bytes()].concat(),
    )?;
    ensure!(word(112) == 0, "bits: {:x}", word(112));
    ensure!(word(120) == u64::from(n), "max: {}", word(120));
    if me == n - 1 {
        ensure!(word(208) == times as u64, "swaps: {}", word(208));
    }
    if me == 0 {
        ensure!(word(224) == 20 * u64::from(n), "under the lock: {}", word(224));
    }
    // Each number was drawn by one rank only.
    let mine: Vec<u8> = drawn.iter().flat_map(|d| d.to_ne_bytes()).collect();
    let all = world.allgather(&mine).map_err(text)?.concat();
    let mut all: Vec<u32> =
        all.chunks(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
    all.sort_unstable();
    ensure!(all.iter().copied().eq(0..times as u32), "drawn: {all:?}");
    w.free().map_err(text)
}

/// Long and short operations on the same elements at once, alone in a target's
/// memory or one by one: no addition is lost, and what is fetched has one's own.
pub fn long_and_short<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const WORDS: usize = 5000;
    const ROUNDS: u64 = 12;
    // Around the lengths at which the way changes.
    const LENGTHS: [usize; 7] = [1, 15, 16, 1023, 1024, 1025, WORDS];
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let n = world.size();
    let mut w = make::<N, KIND>(&world, WORDS * 8, 8)?;
    let ones = vec![1_u64; WORDS];
    let mut fetched = vec![0_u64; WORDS];
    w.fence().map_err(text)?;
    for round in 0..ROUNDS {
        for to in 0..n {
            for len in LENGTHS {
                w.accumulate(&ones[..len], Op::Sum, to, WORDS - len).map_err(text)?;
            }
            w.get_accumulate(&ones, &mut fetched, Op::Sum, to, 0).map_err(text)?;
            let least = round * (LENGTHS.len() as u64 + 1) + LENGTHS.len() as u64;
            ensure!(fetched[WORDS - 1] >= least, "fetched {}", fetched[WORDS - 1]);
            // Enough of them that all are short again.
            for _ in 0..if round % 3 == 0 { 300 } else { 1 } {
                w.fetch_and_op(1_u64, Op::Sum, to, WORDS - 1).map_err(text)?;
            }
        }
    }
    w.fence().map_err(text)?;
    let all = own(&w)?;
    for (i, word) in all.chunks(8).enumerate() {
        let covered = 1 + LENGTHS.iter().filter(|&&len| i >= WORDS - len).count() as u64;
        let single = if i == WORDS - 1 { 4 * 300 + 8 } else { 0 };
        let want = u64::from(n) * (ROUNDS * covered + single);
        let got = u64::from_ne_bytes(word.try_into().unwrap());
        ensure!(got == want, "word {i}: {got}, not {want}");
    }
    w.free().map_err(text)
}

/// Operations that keep no order, on one place and by whatever path: the
/// sums are right all the same.
pub fn unordered<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    use rankway::rma::Hints;
    const TIMES: u64 = 200;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut hints = Hints::default();
    hints.set("accumulate_ordering", "none").map_err(text)?;
    hints.set("accumulate_ops", "same_op").map_err(text)?;
    let mut memory = vec![0_u128; 4];
    let mut w = match KIND {
        ALLOCATED => Window::allocate(&world, 64, 8),
        // SAFETY: the memory is dropped after the window, and touched through it.
        _ => unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 8) },
    };
    w = w.map(|w| w.with_hints(hints));
    let mut w = w.map_err(text)?;
    ensure!(w.hints().map_err(text)? == hints, "{:?}", w.hints());
    w.fence().map_err(text)?;
    for i in 0..TIMES {
        let to = (me + i as u32) % n;
        // Natively where the library can, by packets, and the two in turn.
        w.accumulate(&[1_u64], Op::Sum, to, 0).map_err(text)?;
        w.accumulate(&[[1.0_f64, 2.0]], Op::Sum, to, 2).map_err(text)?;
        w.accumulate(&[i], Op::Max, to, 4).map_err(text)?;
        w.fetch_and_op(1_u64, Op::Sum, to, 1).map_err(text)?;
    }
    w.fence().map_err(text)?;
    let bytes = own(&w)?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let told = world.allgather(&bytes).map_err(text)?;
    let sum = |at: usize| -> u64 {
        told.iter().map(|b| u64::from_ne_bytes(b[at..at + 8].try_into().unwrap())).sum()
    };
    let all = u64::from(n) * TIMES;
    ensure!((sum(0), sum(8)) == (all, all), "{} and {}, not {all}", sum(0), sum(8));
    ensure!(f64::from_bits(word(24)) == 2.0 * f64::from_bits(word(16)), "halves");
    ensure!(word(32) >= TIMES - u64::from(n), "greatest {}", word(32));
    w.free().map_err(text)
}
