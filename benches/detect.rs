//! Nanoseconds a rank that detecting a map costs.
//!
//! `cargo bench --no-default-features --bench detect -- [--ranks N] [--json]`

use std::hint::black_box;
use std::time::Instant;

use rankway::rankmap::{Detector, Process, RankMap};

const ROUNDS: usize = 40;

fn main() {
    let mut ranks = 1u32 << 20;
    let mut json = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--ranks" => ranks = arguments.next().and_then(|v| v.parse().ok()).unwrap_or(ranks),
            // Cargo passes --bench.
            _ => {}
        }
    }
    let n = ranks;
    let side = f64::from(n).sqrt() as u32;
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut shuffled: Vec<u32> = (0..n).collect();
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, (random() % (i as u64 + 1)) as usize);
    }
    let mut flipped: Vec<u32> = (0..n).collect();
    flipped.swap(n as usize - 9, n as usize / 2);
    let maps: Vec<(&str, Vec<u32>)> = vec![
        ("direct", (0..n).collect()),
        ("offset", (0..n).map(|r| r + 12_345).collect()),
        ("stride", (0..n).map(|r| 3 * r).collect()),
        ("reversed", (0..n).rev().collect()),
        ("blocks of 2", (0..n).map(|r| r / 2 * 8 + r % 2).collect()),
        ("blocks of 16", (0..n).map(|r| r / 16 * 64 + r % 16).collect()),
        ("blocks of 16 + 5", (5..n + 5).map(|r| r / 16 * 64 + r % 16).collect()),
        ("rank to node", (0..n).map(|r| r / 128).collect()),
        ("transpose", (0..side * side).map(|r| r % side * side + r / side).collect()),
        ("box 2x2", (0..n).map(|r| r % 2 + r / 2 % 2 * 4 + r / 4 * 16).collect()),
        (
            "box 2x2x2",
            (0..n).map(|r| r % 2 + r / 2 % 2 * 4 + r / 4 % 2 * 16 + r / 8 * 64).collect(),
        ),
        ("box 8x16", (0..n).map(|r| r % 8 + r / 8 % 16 * 32 + r / 128 * 1024).collect()),
        ("tile of 48", (0..n).map(|r| r / 48 * 48 + r % 48 * 29 % 48).collect()),
        ("two swapped", flipped),
        ("runs of 1,000", (0..n).map(|r| r + (r / 1000) * (r / 1000) % 977).collect()),
        ("runs of 20", (0..n).map(|r| r + (r / 20) * (r / 20) % 977).collect()),
        ("shuffled", shuffled),
    ];
    if !json {
        println!("# detection of {n} ranks");
        println!(
            "{:<18}{:>12}{:>16}{:>12}{:>14}{:>14}{:>14}",
            "", "ns a rank", "model", "bytes", "processes ns", "pushed ns", "iterate ns"
        );
    }
    let mut objects = Vec::new();
    for (name, list) in &maps {
        let count = list.len() as f64;
        let mut detect = f64::INFINITY;
        let (mut processes, mut pushed) = (f64::INFINITY, f64::INFINITY);
        let mut iterate = f64::INFINITY;
        let mut map = RankMap::direct(0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            map = RankMap::from_lpids(0, black_box(list).iter().copied()).expect("small lpids");
            detect = detect.min(start.elapsed().as_secs_f64() * 1e9 / count);
            let start = Instant::now();
            let all = black_box(list).iter().map(|&lpid| Process { pg: 1, lpid });
            black_box(RankMap::from_processes(all).expect("small lpids"));
            processes = processes.min(start.elapsed().as_secs_f64() * 1e9 / count);
            let start = Instant::now();
            let mut detector = Detector::new();
            black_box(list).iter().for_each(|&lpid| detector.push(lpid));
            black_box(detector.finish().expect("small lpids"));
            pushed = pushed.min(start.elapsed().as_secs_f64() * 1e9 / count);
            let start = Instant::now();
            black_box(map.iter().map(|p| u64::from(p.lpid)).sum::<u64>());
            iterate = iterate.min(start.elapsed().as_secs_f64() * 1e9 / count);
        }
        let (model, bytes) = (map.model(), map.bytes());
        if json {
            objects.push(format!(
                "\"{name}\":{{\"ns_per_rank\":{detect:.3},\"model\":\"{model}\",\"bytes\":{bytes},\"processes_ns\":{processes:.3},\"pushed_ns\":{pushed:.3},\"iterate_ns\":{iterate:.3}}}"
            ));
        } else {
            println!(
                "{name:<18}{detect:>12.2}{model:>16}{bytes:>12}{processes:>14.2}{pushed:>14.2}{iterate:>14.2}"
            );
        }
    }
    if json {
        println!("{{\"ranks\":{n},\"detect\":{{{}}}}}", objects.join(","));
    }
}
