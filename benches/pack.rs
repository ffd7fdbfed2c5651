//! Packing and unpacking beside memcpy and the loops that one writes by hand, in one
//! run: transposes, and ten patterns.
//!
//! `cargo bench --no-default-features --bench pack -- [--level avx512|avx2|portable]
//! [--huge] [--plan PLAN] [--only NAME]`
//!
//! Processor time of the best of many rounds, in nanoseconds for each double of the
//! packed stream; ratios are of speeds. Pages are those that the system gives, of
//! 4 KiB unless it gives huge ones to all; `--huge` asks for huge pages. `--plan` is
//! as `RANKWAY_DATATYPE_PLAN` has it. Each copy is compared with the loop's.

mod clock;

use self::clock::least;
use rankway::datatype::{Basic, Candidate, Direction, Layout, Order};
use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

/// What is asked for on the command line.
#[derive(Default)]
struct Options {
    plan: Option<String>,
    only: Option<String>,
    huge: bool,
}

/// A loop over doubles: memory, and the packed stream.
type ByHand<'a> = &'a dyn Fn(&[f64], &mut [f64]);

/// So many doubles, each touched; in huge pages if that is asked for.
fn doubles(len: usize, huge: bool) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    if huge {
        let at = (all.as_ptr() as usize).next_multiple_of(1 << 21);
        let end = all.as_ptr() as usize + 8 * len;
        if at < end {
            // SAFETY: advice on memory that the vector has.
            unsafe { libc::madvise(at as *mut _, end - at, libc::MADV_HUGEPAGE) };
        }
    }
    let _ = huge;
    all.extend((0..len).map(|i| i as f64));
    all
}

fn bytes(of: &[f64]) -> &[u8] {
    // SAFETY: doubles are bytes.
    unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), size_of_val(of)) }
}

fn bytes_mut(of: &mut [f64]) -> &mut [u8] {
    // SAFETY: doubles are bytes, any of which make doubles.
    unsafe { std::slice::from_raw_parts_mut(of.as_mut_ptr().cast(), size_of_val(of)) }
}

fn measure(
    options: &Options,
    name: &str,
    layout: &Layout,
    by_hand: ByHand,
) -> Result<(), Box<dyn Error>> {
    if options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
        return Ok(());
    }
    let Some((_, high)) = layout.true_bounds() else { return Ok(()) };
    let (size, span) = (layout.size() as usize / 8, high as usize / 8);
    let mut memory = doubles(span, options.huge);
    let mut out = doubles(size, options.huge);
    let plain = doubles(size, options.huge);
    let plan = |direction| -> Result<_, Box<dyn Error>> {
        let chosen: Candidate = layout.plans(direction)[0];
        Ok(match &options.plan {
            Some(text) => chosen.plan.with(text)?,
            None => chosen.plan,
        })
    };
    let (packing, unpacking) = (plan(Direction::Pack)?, plan(Direction::Unpack)?);
    let rounds = ((1usize << 27) / (8 * size)).clamp(5, 50) as u32;
    let copy = least(rounds, || out.copy_from_slice(black_box(&plain)));
    let loops = least(rounds.min(10), || by_hand(black_box(&memory), &mut out));
    let want = out.clone();
    out.fill(0.0);
    let pack = least(rounds, || {
        let packed = layout.pack_by(&packing, bytes(black_box(&memory)), 0, 0, bytes_mut(&mut out));
        let _ = black_box(packed);
    });
    assert!(out == want, "{name}: packed what the loop does not");
    let before = memory.clone();
    let unpack = least(rounds, || {
        let memory = bytes_mut(black_box(&mut memory));
        let _ = black_box(layout.unpack_by(&unpacking, memory, 0, 0, bytes(&out)));
    });
    assert!(memory == before, "{name}: unpacked elsewhere");
    let n = size as f64;
    println!(
        "{name:<26} {:7.3} {:7.3} {:7.3} {:7.3}   {:9.2} {:9.2} {:9.2} {:9.2}",
        copy / n,
        loops / n,
        pack / n,
        unpack / n,
        copy / pack,
        copy / unpack,
        loops / pack,
        loops / unpack,
    );
    // (The time of others.)
    std::thread::sleep(Duration::from_millis(1));
    Ok(())
}

fn transposes(options: &Options, d: &Layout) -> Result<(), Box<dyn Error>> {
    for n in [512usize, 1024, 2048, 4096, 8192] {
        let column = Layout::vector(n as u64, 1, n as i64, d)?;
        let all = Layout::hvector(n as u64, 1, 8, &column)?;
        // The best of its kind in plain code: squares of eight.
        let by_hand = |from: &[f64], to: &mut [f64]| {
            for row in (0..n).step_by(8) {
                for column in (0..n).step_by(8) {
                    for c in column..column + 8 {
                        for r in row..row + 8 {
                            to[c * n + r] = from[r * n + c];
                        }
                    }
                }
            }
        };
        measure(options, &format!("transpose {n}"), &all, &by_hand)?;
    }
    Ok(())
}

/// Blocks of doubles, so many apart.
fn vector(
    options: &Options,
    name: &str,
    layout: &Layout,
    (block, stride): (usize, usize),
) -> Result<(), Box<dyn Error>> {
    let by_hand = |from: &[f64], to: &mut [f64]| match block {
        1 => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(stride)) {
                *to = *from;
            }
        }
        2 => {
            for (to, from) in to.chunks_exact_mut(2).zip(from.chunks(stride)) {
                (to[0], to[1]) = (from[0], from[1]);
            }
        }
        8 => {
            for (to, from) in to.chunks_exact_mut(8).zip(from.chunks(stride)) {
                to.copy_from_slice(&from[..8]);
            }
        }
        _ => {
            for (to, from) in to.chunks_exact_mut(block).zip(from.chunks(stride)) {
                to.copy_from_slice(&from[..block]);
            }
        }
    };
    measure(options, name, layout, &by_hand)
}

fn indexed(
    options: &Options,
    name: &str,
    block: usize,
    at: &[i64],
    d: &Layout,
) -> Result<(), Box<dyn Error>> {
    let by_hand = |from: &[f64], to: &mut [f64]| match block {
        1 => {
            for (to, &at) in to.iter_mut().zip(at) {
                *to = from[at as usize];
            }
        }
        _ => {
            for (to, &at) in to.chunks_exact_mut(block).zip(at) {
                to.copy_from_slice(&from[block * at as usize..][..block]);
            }
        }
    };
    let block_of = Layout::contiguous(block as u64, d)?;
    measure(options, name, &Layout::indexed_block(1, at, &block_of)?, &by_hand)
}

fn patterns(options: &Options, d: &Layout) -> Result<(), Box<dyn Error>> {
    let big = 4usize << 20; // doubles
    for (block, stride) in [(1, 2), (2, 4), (8, 16), (64, 128)] {
        let layout = Layout::vector((big / block) as u64, block as u64, stride as i64, d)?;
        vector(options, &format!("vector {block} of {stride}"), &layout, (block, stride))?;
    }
    let pages = Layout::hvector(1 << 14, 1, 4096, d)?;
    vector(options, "vector 1, page stride", &pages, (1, 512))?;
    let sorted: Vec<i64> = (0..20_000).map(|i| i * 3 + i % 2).collect();
    indexed(options, "indexed_block 1, cached", 1, &sorted, d)?;
    let sorted: Vec<i64> = (0..big as i64 / 8).map(|i| i * 2 + i % 5 / 4).collect();
    indexed(options, "indexed_block 8", 8, &sorted, d)?;
    let mut x = 1u64;
    let mut random: Vec<i64> = (0..1 << 20).collect();
    for i in (1..random.len()).rev() {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random.swap(i, (x >> 33) as usize % (i + 1));
    }
    indexed(options, "random gather 1M", 1, &random, d)?;
    interior(options, d)?;
    for (name, count) in [("structs 72 to 56, cached", 2000), ("structs 72 to 56, large", 500_000)]
    {
        let b = Layout::basic(Basic::U8);
        let body = Layout::structure(&[(24, 0, &b), (32, 40, &b)])?.resized(0, 72)?;
        let by_hand = |from: &[f64], to: &mut [f64]| {
            for (to, from) in to.chunks_exact_mut(7).zip(from.chunks_exact(9)) {
                to[..3].copy_from_slice(&from[..3]);
                to[3..].copy_from_slice(&from[5..]);
            }
        };
        measure(options, name, &Layout::contiguous(count, &body)?, &by_hand)?;
    }
    Ok(())
}

fn interior(options: &Options, d: &Layout) -> Result<(), Box<dyn Error>> {
    let n = 512;
    let layout = Layout::subarray(&[(n as u64, n as u64 - 2, 1); 3], Order::C, d)?;
    let by_hand = |from: &[f64], to: &mut [f64]| {
        let mut rows = to.chunks_exact_mut(n - 2);
        for x in 1..n - 1 {
            for (y, row) in (1..n - 1).zip(&mut rows) {
                row.copy_from_slice(&from[(x * n + y) * n + 1..][..n - 2]);
            }
        }
    };
    measure(options, "512^3 interior", &layout, &by_hand)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} takes a value"));
        match word.as_str() {
            "--level" => options.plan = Some(format!("level={}", value()?)),
            "--plan" => options.plan = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--huge" => options.huge = true,
            "--bench" => {}
            other => return Err(format!("{other} is no option of this").into()),
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    println!(
        "{:<26} {:>31}   {:>19} {:>19}\n{:<26} {:>7} {:>7} {:>7} {:>7}   {:>9} {:>9} {:>9} {:>9}",
        "",
        "ns a double",
        "speed to memcpy",
        "speed to loop",
        "",
        "memcpy",
        "loop",
        "pack",
        "unpack",
        "pack",
        "unpack",
        "pack",
        "unpack",
    );
    let d = Layout::basic(Basic::F64);
    transposes(&options, &d)?;
    patterns(&options, &d)
}
