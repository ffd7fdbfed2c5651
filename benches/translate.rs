//! Nanoseconds a rank → address translation costs, for each model and shape.
//!
//! `cargo bench --no-default-features --bench translate -- [--ranks N] [--json]`
//!
//! Ranks come in random order, results are summed, every shape is called
//! through its own never-inlined function; the figure is the best of many
//! chunks. The last column draws from 64 communicators of mixed kinds.

use std::hint::black_box;
use std::time::Instant;

mod shapes;
use shapes::{Comm, KINDS, NAMES, Vectors};

const LOOKUPS: usize = 8192;
const CHUNKS: usize = 60;
const MIXED: usize = 64;

fn main() {
    let mut ranks = 1024;
    let mut json = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--ranks" => {
                let value = arguments.next().and_then(|v| v.parse().ok());
                ranks = value.filter(|&v: &u32| v >= 16).unwrap_or_else(|| {
                    eprintln!("--ranks takes a number from 16 on");
                    std::process::exit(2);
                });
            }
            // Cargo passes --bench.
            _ => {}
        }
    }
    let mut state = 7u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let vectors = Vectors::new(2 * ranks);
    let comms: Vec<Comm> =
        (0..MIXED).map(|i| Comm::new(&vectors, i % KINDS.len(), &mut random)).collect();
    let order: Vec<(usize, usize)> = (0..LOOKUPS)
        .map(|_| ((random() % MIXED as u64) as usize, (random() % u64::from(ranks)) as usize))
        .collect();

    let mut rows = Vec::new();
    for (shape, name) in NAMES.into_iter().enumerate() {
        let mut row = Vec::new();
        for comm in &comms[..KINDS.len()] {
            let (function, comm) = comm.shapes()[shape];
            row.push(best(|| {
                // SAFETY: `order` holds ranks below the size of every communicator.
                order.iter().map(|&(_, rank)| unsafe { function(comm, rank) }).fold(0, add)
            }));
        }
        let table: Vec<_> = comms.iter().map(|comm| comm.shapes()[shape].1).collect();
        let function = comms[0].shapes()[shape].0;
        row.push(best(|| {
            // SAFETY: as above.
            order.iter().map(|&(i, rank)| unsafe { function(table[i], rank) }).fold(0, add)
        }));
        rows.push((name, row));
    }
    // The same lookups inlined, as in this crate's put.
    let mut row = Vec::new();
    for comm in &comms[..KINDS.len()] {
        row.push(best(|| {
            // SAFETY: as above.
            order.iter().map(|&(_, rank)| unsafe { comm.lookup.entry(rank) }).fold(0, add)
        }));
    }
    row.push(best(|| {
        // SAFETY: as above.
        order.iter().map(|&(i, rank)| unsafe { comms[i].lookup.entry(rank) }).fold(0, add)
    }));
    rows.insert(1, ("rankway inlined", row));

    let columns: Vec<&str> = KINDS.iter().copied().chain(["64 mixed"]).collect();
    if json {
        let body: Vec<String> = rows
            .iter()
            .map(|(name, row)| {
                let cells: Vec<String> =
                    columns.iter().zip(row).map(|(c, ns)| format!("\"{c}\":{ns:.3}")).collect();
                format!("\"{name}\":{{{}}}", cells.join(","))
            })
            .collect();
        println!("{{\"ranks\":{ranks},\"ns_per_lookup\":{{{}}}}}", body.join(","));
        return;
    }
    println!("# ns a lookup, random ranks of {ranks}; in brackets: times rankway's");
    print!("{:<16}", "");
    columns.iter().for_each(|column| print!("{column:>16}"));
    println!();
    let ours = rows[0].1.clone();
    for (name, row) in &rows {
        print!("{name:<16}");
        for (ns, base) in row.iter().zip(&ours) {
            print!("{:>16}", format!("{ns:.2} ({:.2})", ns / base));
        }
        println!();
    }
}

fn add(sum: u64, value: u64) -> u64 {
    sum.wrapping_add(value)
}

/// The best time of many chunks, in ns a lookup.
fn best(mut chunk: impl FnMut() -> u64) -> f64 {
    black_box(chunk());
    (0..CHUNKS)
        .map(|_| {
            let start = Instant::now();
            black_box(chunk());
            start.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64
        })
        .fold(f64::INFINITY, f64::min)
}
