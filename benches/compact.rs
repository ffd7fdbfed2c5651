//! Bytes and nanoseconds of every compact form of the thesis's classes A to E
//! (Mir Taheri 2011, chapter 5) on a world of one million, beside the fewest
//! bytes that could tell such a map from the others of its class.
//!
//! `cargo bench --no-default-features --bench compact -- [--class A] [--json]`
//!
//! Times are the least of many chunks, the chain's own arithmetic included, which
//! the line `the chain alone` shows: `random` is a chain of lookups in which
//! each rank depends on the lpid before, `walk` is the iterator, `rank` the
//! inverse, `build` the whole of `Compact::new` by strategy or `Compact::build`.
//! `table` is the same chain over a `u32` array of as many bytes as the form has,
//! in the same run: what the caches of this machine ask for any answer from so
//! many bytes, and so the floor of `random`.

use std::hint::black_box;
use std::time::Instant;

use rankway::rankmap::compact::{Compact, Representation, Strategy};

const WORLD: u32 = 1_000_000;
/// Lookups between two looks at the clock.
const CHUNK: u32 = 4_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}

struct Case {
    class: &'static str,
    what: String,
    radices: Vec<u32>,
    lpids: Vec<u32>,
    /// Bits of the bound, all ranks together.
    bound: f64,
}

/// log2 of n over k.
fn choose(n: f64, k: f64) -> f64 {
    let entropy = |p: f64| if p <= 0.0 || p >= 1.0 { 0.0 } else { -p * p.log2() };
    let p = k / n;
    (n * (entropy(p) + entropy(1.0 - p))
        - 0.5 * (std::f64::consts::TAU * n * p * (1.0 - p)).max(1.0).log2())
    .max(0.0)
}

/// `count` ranges that do not touch, in rising order, of half the world.
fn ranges(random: &mut Random, count: usize) -> Vec<(u32, u32)> {
    let mut cuts: Vec<u32> = Vec::new();
    while cuts.len() < 2 * count {
        cuts.push(random.below(WORLD));
        cuts.sort_unstable();
        cuts.dedup();
    }
    cuts.chunks_exact(2).map(|cut| (cut[0], cut[1])).collect()
}

fn cases() -> Vec<Case> {
    let mut random = Random(88_172_645_463_325_252);
    let world = f64::from(WORLD);
    let bits = world.log2();
    let a: Vec<u32> = (0..WORLD).filter(|_| random.below(1000) < 605).collect();
    let c = ranges(&mut random, 550);
    let mut e = ranges(&mut random, 40);
    e.reverse();
    let digit = |lpid: u32, k: u32| lpid / 10u32.pow(k) % 10;
    let planes: Vec<(u32, u32)> = (0..12).map(|k| (k % 6, random.below(10))).collect();
    let d: Vec<u32> =
        (0..WORLD).filter(|&v| planes.iter().any(|&(k, at)| digit(v, k) == at)).collect();
    let n = 1u32 << 20;
    let mut p: Vec<u32> = (0..n).collect();
    for at in (1..n).rev() {
        p.swap(at as usize, random.below(at + 1) as usize);
    }
    // Ten dimensions, the first becomes the fastest and so on.
    let turned = (0..n).map(|r| (0..10).fold(0, |sum, d| sum * 4 + (r >> (2 * d) & 3)));
    // Nodes of 32 in no order, and the ranks of each in none.
    let mut nodes: Vec<u32> = (0..n).collect();
    for node in (1..n as usize / 32).rev() {
        let other = random.below(node as u32 + 1) as usize;
        (0..32).for_each(|at| nodes.swap(node * 32 + at, other * 32 + at));
    }
    for node in nodes.chunks_exact_mut(32) {
        (1..32).rev().for_each(|at| node.swap(at, random.below(at as u32 + 1) as usize));
    }
    let all = |ranges: &[(u32, u32)]| ranges.iter().flat_map(|&(from, to)| from..to).collect();
    let case = |class, what: &str, radices: &[u32], lpids: Vec<u32>, bound| Case {
        class,
        what: what.to_owned(),
        radices: radices.to_vec(),
        lpids,
        bound,
    };
    let log2_factorial = |n: f64| {
        n * (n.log2() - std::f64::consts::LOG2_E) + 0.5 * (std::f64::consts::TAU * n).log2()
    };
    vec![
        case("A", "random 60 %", &[], a.clone(), choose(world, a.len() as f64)),
        case("B", "stride 499", &[], (123..WORLD).step_by(499).collect(), 3.0 * bits),
        case("C", "550 rising ranges", &[], all(&c), choose(world, 1100.0)),
        case("D", "12 planes of 10^6", &[10; 6], d, 12.0 * 60f64.log2()),
        case("E", "40 falling ranges", &[], all(&e), choose(world, 80.0)),
        case("P", "random permutation of 2^20", &[], p, log2_factorial(f64::from(n))),
        case("T", "transpose of 4^10", &[], turned.collect(), log2_factorial(10.0)),
        case("N", "shuffled nodes of 32, shuffled", &[], nodes, {
            let count = f64::from(n / 32);
            log2_factorial(count) + count * log2_factorial(32.0)
        }),
    ]
}

struct Times {
    random: f64,
    walk: f64,
    rank: f64,
}

/// Least nanoseconds of one of `each` in `rounds` calls.
fn least(rounds: u32, each: u32, mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(each));
    }
    best
}

/// Nanoseconds of a lookup in a chain in which each rank depends on the lpid before.
fn chain(len: u32, lookup: impl Fn(u32) -> u32) -> f64 {
    let spread = |x: u32| ((u64::from(x.wrapping_mul(0x9e37_79b1)) * u64::from(len)) >> 32) as u32;
    let (mut rank, mut salt) = (0u32, 1u32);
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    // More rounds for what is quick: caches take a while to settle.
    for round in 0..2_000 {
        if round >= 3 && begin.elapsed().as_millis() > 150 {
            break;
        }
        best = best.min(least(1, CHUNK, || {
            for _ in 0..CHUNK {
                salt = salt.wrapping_add(0x61c8_8647);
                rank = spread(lookup(rank) ^ salt);
            }
        }));
    }
    black_box(rank);
    best
}

/// Nanoseconds of the chain over an array of so many bytes.
fn floor(bytes: usize) -> f64 {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let table: Vec<u32> = (0..bytes.div_ceil(4).max(1)).map(|_| random.below(WORLD)).collect();
    chain(table.len() as u32, |rank| table[rank as usize])
}

fn times(map: &Compact, lpids: &[u32]) -> Times {
    let len = map.len();
    // Multiply-shift instead of a division to spread the next rank.
    let spread = |x: u32| ((u64::from(x.wrapping_mul(0x9e37_79b1)) * u64::from(len)) >> 32) as u32;
    let mut salt = 1u32;
    let random = chain(len, |rank| map.find(rank).unwrap_or(0));
    let mut sum = 0u32;
    let walk = least(7, len, || map.iter().for_each(|lpid| sum = sum.wrapping_add(lpid)));
    black_box(sum);
    // Not more than a second for the inverse, which some make on first use.
    let mut at = 0u32;
    map.position(lpids[0]);
    let rank = least(100, CHUNK / 4, || {
        for _ in 0..CHUNK / 4 {
            salt = salt.wrapping_add(0x61c8_8647);
            at = map.position(lpids[spread(at ^ salt) as usize]).unwrap_or(0);
        }
    });
    black_box(at);
    Times { random, walk, rank }
}

fn main() {
    let mut json = false;
    let mut class = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--class" => class = arguments.next(),
            // Cargo passes --bench.
            _ => {}
        }
    }
    let mut objects = Vec::new();
    if !json {
        println!("# the chain alone: {:.1} ns a lookup\n", chain(black_box(1 << 20), |rank| rank));
    }
    for case in cases() {
        if class.as_ref().is_some_and(|class| class != case.class) {
            continue;
        }
        let count = case.lpids.len() as f64;
        let bound = case.bound / 8.0 / count;
        if !json {
            println!("# class {}: {}, {} ranks", case.class, case.what, case.lpids.len());
            println!("# bound {bound:.6} bytes a member");
            println!(
                "{:<22}{:>14}{:>10}{:>10}{:>8}{:>8}{:>8}{:>12}{:>9}",
                "",
                "bytes/member",
                "x bound",
                "random",
                "table",
                "walk",
                "rank",
                "with rank",
                "build"
            );
        }
        let mut show = |name: &str, make: &dyn Fn() -> Option<Compact>, chosen: bool| {
            let Some(map) = make() else { return };
            assert!(map.iter().eq(case.lpids.iter().copied()), "{name} is wrong");
            let bytes = map.bytes() as f64 / count;
            let slow = map.representation() == Representation::Diagram;
            let build = least(if slow { 2 } else { 5 }, case.lpids.len() as u32, || {
                black_box(make());
            });
            let table = floor(map.bytes());
            let times = times(&map, &case.lpids);
            let with = map.bytes() as f64 / count;
            let name =
                if chosen { format!("{name} = {}", map.representation()) } else { name.to_owned() };
            if json {
                objects.push(format!(
                    "{{\"class\":\"{}\",\"form\":\"{name}\",\"bytes\":{bytes:.6},\"bound\":{bound:.6},\"random_ns\":{:.2},\"table_ns\":{table:.2},\"walk_ns\":{:.2},\"rank_ns\":{:.2},\"bytes_with_inverse\":{with:.6},\"build_ns\":{build:.2}}}",
                    case.class, times.random, times.walk, times.rank
                ));
            } else {
                println!(
                    "{name:<22}{bytes:>14.6}{:>10.2}{:>10.1}{table:>8.1}{:>8.1}{:>8.1}{with:>12.6}{build:>9.1}",
                    bytes / bound,
                    times.random,
                    times.walk,
                    times.rank
                );
            }
        };
        for one in Representation::ALL {
            let (lpids, radices) = (&case.lpids, &case.radices);
            show(
                one.name(),
                &|| Compact::build_with_radices(one, radices, lpids.iter().copied()).ok(),
                false,
            );
        }
        if !case.radices.is_empty() {
            let bits = || Compact::build(Representation::Diagram, case.lpids.iter().copied()).ok();
            show("diagram of bits", &bits, false);
        }
        for strategy in [Strategy::Space, Strategy::default(), Strategy::Time] {
            let (lpids, radices) = (&case.lpids, &case.radices);
            let name = strategy.to_string();
            let name = name.split(':').next().unwrap_or(&name);
            show(
                name,
                &|| Compact::with_radices(strategy, radices, lpids.iter().copied()).ok(),
                true,
            );
        }
        if !json {
            println!();
        }
    }
    if json {
        println!("{{\"world\":{WORLD},\"compact\":[{}]}}", objects.join(","));
    }
}
