//! What recording costs: nanoseconds of an event, apart from the clock, and its
//! instructions; of a put, recorded or not; of a communicator that is made and freed; and of a rank's translation in
//! communicators of a million, as they come out of all processes' definitions.
//!
//! `cargo bench -p rankway-cli --bench track`
//!
//! Processor time of the thread that records, the least of many rounds. `the clock alone` is
//! the same loop without the event, in the same run. Translations are chains in which each
//! rank depends on the process before; `table` is the same chain over an array of as many
//! bytes, `less chain` ours without what the chain alone takes, `scan` what
//! MPI_Group_translate_ranks of Open MPI does: it looks for the process from the front.

#[path = "../../benches/clock/mod.rs"]
mod clock;

use rankway::boot::alone::Alone;
use rankway::device::open_null;
use rankway::rma::Communicator;
use rankway::track::{
    Constructor, Defined, Definition, DefinitionFlags, Event, Group, Identity, Kind, NO_PARENT,
    Partial, Recorder, Recording,
};
use rankway_cli::observe::maps::clock as chains;
use rankway_cli::observe::step::Region;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const RING: usize = 1 << 16;
const ROUNDS: usize = 60;
const MEMBERS: u32 = 1_000_000;
const BUDGET: Duration = Duration::from_millis(300);

/// A send, as a wrapper of MPI_Send records it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn rankway_record_send(
    recorder: &Recorder,
    start: u64,
    end: u64,
    peer: u32,
    bytes: u64,
) {
    recorder.record(Event::new(Kind::Send, start, end).with(1, peer, 7).of_bytes(bytes));
}

/// Least nanoseconds of one of `count` that `run` makes; `between` is not counted.
fn least(count: usize, mut run: impl FnMut(usize), between: impl Fn()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        between();
        let start = clock::now();
        run(count);
        best = best.min((clock::now() - start) * 1e9 / count as f64);
    }
    best
}

fn main() {
    let directory =
        std::env::temp_dir().join(format!("rankway-bench-track-{}", std::process::id()));
    let opened = Recorder::open(&directory, 1, 0, 1, Recording { events: true, ring: RING });
    let recorder = match opened {
        Ok(recorder) => recorder,
        Err(why) => {
            eprintln!("track: {why}");
            std::process::exit(1);
        }
    };
    if std::env::args().any(|word| word == PUTS) {
        drop(recorder);
        let _ = std::fs::remove_dir_all(directory);
        return println!("{:.2}", put());
    }
    events(&recorder);
    definitions(&recorder);
    translations();
    drop(recorder);
    match puts(&directory) {
        Ok(recorded) => {
            let put = put();
            println!("\n# a put of 8 bytes into a mapped window, ns\n");
            println!("{:<44}{put:>8.2}", "of a program that is not recorded");
            println!("{:<44}{recorded:>8.2}", "of one that is (RANKWAY_TRACE), clock and all");
        }
        Err(why) => println!("puts could not be recorded: {why}"),
    }
    let _ = std::fs::remove_dir_all(directory);
}

/// Has this program measure puts alone.
const PUTS: &str = "--puts-alone";

/// Nanoseconds of a put in a process that is recorded.
fn puts(directory: &Path) -> Result<f64, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(me).arg(PUTS).env("RANKWAY_TRACE", directory).output();
    let output = output.map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    said.parse().map_err(|_| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Nanoseconds of a put in this process.
fn put() -> f64 {
    let put = || -> Result<f64, Box<dyn std::error::Error>> {
        let context = open_null(Arc::new(Alone::new()?))?;
        let window = Communicator::world(&context).window::<u64>().len(64).allocate()?;
        window.lock_all()?;
        let mut best = f64::INFINITY;
        for _ in 0..12 {
            // The ring is emptied each tenth of a second.
            std::thread::sleep(Duration::from_millis(250));
            let (count, start) = (RING / 4, clock::now());
            for i in 0..count {
                window.put_slice(black_box(&[i as u64]), 0, i % 64)?;
            }
            best = best.min((clock::now() - start) * 1e9 / count as f64);
        }
        window.unlock_all()?;
        Ok(best)
    };
    put().unwrap_or(f64::NAN)
}

fn events(recorder: &Recorder) {
    let count = RING * 3 / 4;
    let empty = || recorder.flush();
    let alone = least(
        count,
        |count| {
            for _ in 0..count {
                let start = Recorder::now();
                black_box((start, Recorder::now()));
            }
        },
        empty,
    );
    let with = least(
        count,
        |count| {
            for i in 0..count as u32 {
                let start = Recorder::now();
                let end = Recorder::now();
                rankway_record_send(recorder, start, end, i, 8);
            }
        },
        empty,
    );
    let without = least(
        count,
        |count| {
            for i in 0..count as u32 {
                rankway_record_send(recorder, black_box(1_000), black_box(1_007), i, 8);
            }
        },
        empty,
    );
    println!("# an event, ns\n");
    println!("{:<44}{with:>8.2}", "with both looks at the clock");
    println!("{:<44}{alone:>8.2}", "the clock alone");
    println!(
        "{:<44}{:>8.2}  (the processor does much of it meanwhile)",
        "beside the clock",
        with - alone
    );
    println!("{:<44}{without:>8.2}  (asked for: at most 10)", "with times that are there already");
    match Region::function(rankway_record_send as *const () as usize).nth(3).trace(|| {
        (0..4).for_each(|i| rankway_record_send(recorder, 1_000, 1_007, i, 8));
    }) {
        Ok(trace) => println!("{:<44}{:>8}", "instructions, apart from the clock", trace.count),
        Err(why) => println!("instructions could not be counted: {why}"),
    }
}

fn definitions(recorder: &Recorder) {
    let definition = |identity| Definition {
        identity,
        rank: 0,
        size: MEMBERS,
        parent: NO_PARENT,
        site: 0,
        constructor: Constructor::Dup,
        flags: DefinitionFlags::NONE,
    };
    let one_after_another = |count| {
        for _ in 0..count {
            let (identity, _) = recorder.child(NO_PARENT, 0);
            recorder.freed(recorder.define(definition(identity)));
        }
    };
    let alone = least(10_000, one_after_another, || recorder.flush());
    let live: Vec<u32> = (0..5_000).map(|i| recorder.define(definition(Identity(i)))).collect();
    let many = least(10_000, one_after_another, || recorder.flush());
    let each = recorder.bytes() as f64 / recorder.live() as f64;
    live.into_iter().for_each(|id| recorder.freed(id));
    println!("\n# a communicator made and freed, ns\n");
    println!("{:<44}{alone:>8.0}", "alone");
    println!("{:<44}{many:>8.0}", "beside 5,000 that are live");
    println!("{:<44}{each:>8.2}", "bytes each of these");
}

/// Communicators of a million members by the processes' own definitions.
fn translations() {
    let mut shuffled: Vec<u32> = (0..MEMBERS).collect();
    let mut state = 88_172_645_463_325_252u64;
    for at in (1..MEMBERS as usize).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        shuffled.swap(at, (state % (at as u64 + 1)) as usize);
    }
    let (half, n) = (MEMBERS / 2, MEMBERS);
    let blocks = n / 24 * 12 + (n % 24).min(12);
    // Name, size, and the rank of a process, if it is in.
    type Rank<'a> = &'a dyn Fn(u32) -> Option<u32>;
    let kinds: [(&str, u32, Rank<'_>); 9] = [
        ("MPI_COMM_WORLD", n, &|p| Some(p)),
        ("reversed", n, &|p| Some(n - 1 - p)),
        ("every second", half, &|p| p.is_multiple_of(2).then_some(p / 2)),
        ("12 of every 24", blocks, &|p| (p % 24 < 12).then(|| p / 24 * 12 + p % 24)),
        ("by node, 64 a node", n, &|p| Some(p % 15_625 * 64 + p / 15_625)),
        ("transposed cube", n, &|p| Some(p / 10_000 + p / 100 % 100 * 100 + p % 100 * 10_000)),
        ("of four dimensions", n, &|p| {
            let [a, b, c, d] = [p % 10, p / 10 % 100, p / 1_000 % 10, p / 10_000];
            Some(d + 100 * (c + 10 * (b + 100 * a)))
        }),
        ("nodes of any order", n, &|p| Some(p / 64 * 64 + p % 64 * (p % 64 + 1) / 2 % 64)),
        ("in random order", n, &|p| Some(shuffled[p as usize])),
    ];
    println!("\n# rank to process, ns, {MEMBERS} processes\n");
    let alone = chains::random(BUDGET, n, |rank| rank);
    println!("{:<40}{:>12}{alone:>8.1}", "the chain alone", "");
    println!(
        "{:<24}{:<16}{:>12}{:>8}{:>12}{:>8}{:>12}",
        "", "model", "bytes", "ours", "less chain", "table", "scan"
    );
    for (name, size, rank) in kinds {
        let definition = |rank| Definition {
            identity: Identity(7),
            rank,
            size,
            parent: NO_PARENT,
            site: 0,
            constructor: Constructor::Split,
            flags: DefinitionFlags::NONE,
        };
        let of = |process| {
            let defined = rank(process).map(|rank| Defined {
                id: 1,
                made: 0,
                freed: None,
                definition: definition(rank),
            });
            Partial::of_definitions(1, process, n, defined.as_slice())
        };
        let unified = Partial::merge_all((0..n).map(of)).finish();
        let group: &Group = &unified.groups[0];
        let ours = chains::random(BUDGET, group.size(), |rank| {
            group.get(rank).map_or(0, |process| process.lpid)
        });
        let table = chains::floor(BUDGET, group.bytes() as u64);
        let list: Vec<u64> = group.map().iter().map(|process| process.lpid.into()).collect();
        let looked = list[list.len() - 1];
        let scan = clock::least(20, || {
            black_box(list.iter().position(|process| *process == black_box(looked)));
        });
        let (model, bytes) = (group.map().model().to_string(), group.bytes());
        let less = ours - alone;
        println!("{name:<24}{model:<16}{bytes:>12}{ours:>8.1}{less:>12.1}{table:>8.1}{scan:>12.0}");
    }
}
