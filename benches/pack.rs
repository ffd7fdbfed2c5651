//! Packing and unpacking beside memcpy and a plain loop over blocks, in one run.
//!
//! `cargo bench --no-default-features --bench pack`
//!
//! Processor time of the best of many rounds, for each double of the packed stream.

use rankway::datatype::{Basic, Layout, LayoutError, Order};
use std::hint::black_box;

/// Processor time of this thread, in ns: neighbours on the machine do not count.
fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn best(reps: usize, mut f: impl FnMut()) -> f64 {
    (0..reps)
        .map(|_| {
            let start = now();
            f();
            now() - start
        })
        .min()
        .unwrap_or(0) as f64
}

fn measure(name: &str, layout: &Layout) -> Result<(), LayoutError> {
    let Some((low, high)) = layout.true_bounds() else { return Ok(()) };
    let origin = (-low).max(0) as usize;
    let mut memory: Vec<u8> = (0..(high as usize + origin)).map(|i| i as u8).collect();
    let size = layout.size() as usize;
    let mut out = vec![1u8; size];
    let plain: Vec<u8> = vec![2u8; size];
    let reps = ((1usize << 28) / size).clamp(3, 2000);
    let copy = best(reps, || out.copy_from_slice(black_box(&plain)));
    let mut blocks = Vec::new();
    if layout.blocks() < 1 << 20 {
        layout.for_each_block(|at, len| blocks.push((at, len as usize)));
    }
    let pack = best(reps, || {
        let _ = black_box(layout.pack(black_box(&memory), origin, 0, &mut out));
    });
    let naive = best(reps.min(10), || {
        let mut to = 0;
        for &(at, len) in &blocks {
            let at = (origin as i64 + at) as usize;
            out[to..to + len].copy_from_slice(&memory[at..at + len]);
            to += len;
        }
        black_box(&out);
    });
    let unpack = best(reps, || {
        let _ = black_box(layout.unpack(black_box(&mut memory), origin, 0, &out));
    });
    let n = (size / 8) as f64;
    // (A list of very many blocks would measure itself.)
    let naive = if blocks.is_empty() { "-".into() } else { format!("{:.3}", naive / n) };
    println!(
        "{name:<28} memcpy {:6.3}  blocks {naive:>7}  pack {:6.3}  unpack {:6.3} ns a double   pack/memcpy speed {:5.2}  unpack {:5.2}",
        copy / n,
        pack / n,
        unpack / n,
        copy / pack,
        copy / unpack
    );
    Ok(())
}

fn main() -> Result<(), LayoutError> {
    let d = Layout::basic(Basic::F64);
    for n in [512i64, 1024, 2048, 4096, 8192] {
        let column = Layout::vector(n as u64, 1, n, &d)?;
        let all = Layout::hvector(n as u64, 1, 8, &column)?;
        measure(&format!("transpose {n}"), &all)?;
    }
    let big = 4 << 20; // doubles
    let v = |block: u64, stride: i64| Layout::vector(big / block, block, stride, &d);
    measure("vector 1 of 2", &v(1, 2)?)?;
    measure("vector 2 of 4", &v(2, 4)?)?;
    measure("vector 8 of 16", &v(8, 16)?)?;
    measure("vector 64 of 128", &v(64, 128)?)?;
    measure("vector 1, page stride", &Layout::hvector(1 << 14, 1, 4096, &d)?)?;
    let sorted: Vec<i64> = (0..20_000).map(|i| i * 3 + i % 2).collect();
    measure("indexed_block 1 in cache", &Layout::indexed_block(1, &sorted, &d)?)?;
    let sorted: Vec<i64> = (0..big as i64 / 8).map(|i| i * 17 + i % 5).collect();
    measure("indexed_block 8", &Layout::indexed_block(8, &sorted, &d)?)?;
    let mut x = 1u64;
    let random: Vec<i64> = (0..1 << 20)
        .map(|_| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 40) as i64 % (1 << 20)
        })
        .collect();
    measure("random gather 1M", &Layout::indexed_block(1, &random, &d)?)?;
    let part = [(512, 510, 1); 3];
    measure("512^3 interior", &Layout::subarray(&part, Order::C, &d)?)?;
    let b = Layout::basic(Basic::U8);
    let body = Layout::structure(&[(24, 0, &b), (32, 40, &b)])?.resized(0, 72)?;
    measure("structs 72 to 56, cached", &Layout::contiguous(2000, &body)?)?;
    measure("structs 72 to 56, large", &Layout::contiguous(500_000, &body)?)?;
    Ok(())
}
