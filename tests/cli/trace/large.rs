//! Long recordings, many processes: memory is that of pieces, and so are pages.

use crate::command::{array, chart, command, has, number, refuses_chart, run};
use crate::halo::{took, written};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Chunk, Kind};

/// Ten times the events take no more memory, in whatever is told of them.
#[test]
fn memory_does_not_grow_with_events() {
    const RANKS: u32 = 4;
    const STEPS: u64 = 10_000;
    let (short, long) = (Directory::new(), Directory::new());
    let events = written(short.path(), RANKS, STEPS);
    let all = written(long.path(), RANKS, 15 * STEPS);
    assert_eq!(all, 15 * events);
    let more = 32 * (all - events);
    let drawing = long.path().join("drawing");
    let drawing = drawing.to_str().expect("a plain path");
    for args in [
        &["matrix"][..],
        &["comms"],
        &["leaks"],
        &["timeline"],
        &["timeline", "--svg", drawing],
        &["waits"],
        &["report", "-o", drawing],
    ] {
        let peak = |directory: &Directory| {
            let args = [&args[..1], &[directory.text()], &args[1..]].concat();
            took(&mut command("trace", &args)).peak
        };
        let (few, many) = (peak(&short), peak(&long));
        let grew = many.saturating_sub(few);
        assert!(grew < more / 10, "{args:?}: {few} bytes, then {many}; {more} more in files");
    }
    let waits = long.json("waits", &[]);
    assert_eq!(number(&waits, "messages"), 15.0 * STEPS as f64 * f64::from(RANKS));
    assert_eq!(number(&waits, "collectives"), 15.0 * STEPS as f64 / 4.0);
    assert_eq!(waits["unmatched"], serde_json::json!([]));
    assert_eq!(waits["unmatched_collectives"], 0);
}

/// All that is told of traces, each by a good end; bytes that it takes.
fn told(directory: &Directory) -> Vec<(String, u64)> {
    let out = Directory::new();
    let place = |name: &str| out.path().join(name).to_str().expect("a plain path").to_owned();
    let (svg, png, page) = (place("a.svg"), place("a.png"), place("a.html"));
    let mut all = Vec::new();
    for args in [
        &["comms"][..],
        &["leaks"],
        &["matrix"],
        &["matrix", "--svg", &svg],
        &["matrix", "--png", &png],
        &["timeline"],
        &["timeline", "--svg", &svg],
        &["waits"],
        &["report", "-o", &page],
    ] {
        let ran = run("trace", &[&args[..1], &[directory.text()], &args[1..]].concat());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.is_empty(), "{args:?}: {said}");
        let file = args.get(2).and_then(|file| std::fs::metadata(file).ok());
        let bytes = ran.stdout.len() as u64 + file.map_or(0, |file| file.len());
        all.push((args.join(" "), bytes));
    }
    all
}

/// What is told of ten thousand processes is no longer than people read.
#[test]
fn answers_on_many_processes_are_short() {
    let directory = Directory::new();
    written(directory.path(), 10_000, 2);
    for (what, bytes) in told(&directory) {
        assert!(bytes > 100 && bytes < 1 << 20, "{what}: {bytes} bytes");
    }
}

/// Files that end anywhere, of two jobs, of hosts whose clocks are apart, without a call.
#[test]
fn whatever_is_there_is_told() {
    let directory = Directory::new();
    written(directory.path(), 5, 5000);
    for (rank, share) in [(1, 0.5), (2, 0.3), (4, 0.0)] {
        let path = directory.path().join(format!("3.{rank}.rwt"));
        let file = std::fs::File::options().write(true).open(&path).expect("written");
        let len = file.metadata().expect("a file").len();
        // (Of the last the header alone.)
        file.set_len(64 + ((len - 64) as f64 * share) as u64 / 3 * 3).expect("cut");
    }
    for rank in 0..3 {
        let mut process = Process::with_clock(9, rank, 4, 2_000_000_000 * u64::from(rank));
        process.add(Chunk::Fact { key: "host", text: ["a", "b", "c"][rank as usize] });
        if rank > 0 {
            process.call(Kind::Isend, (10, 20), WORLD, 3 - rank, 5);
            process.call(Kind::Recv, (30, 60), WORLD, 3 - rank, 5);
            // Nobody is there.
            process.call(Kind::Send, (70, 80), WORLD, 3, 5);
        }
        process.end(&directory);
    }
    told(&directory);
    let waits = directory.json("waits", &["--job", "9"]);
    assert_eq!(number(&waits, "messages"), 2.0);
    let unmatched = array(&waits, "unmatched");
    assert_eq!(unmatched.len(), 2, "{waits}");
    assert!(unmatched.iter().all(|one| one["destination"] == "3" && one["sends"] == 1));
    // Those that are cut off have lost calls, which is said.
    let waits = directory.json("waits", &["--job", "3"]);
    let sides = number(&waits, "messages");
    assert!(sides > 0.0 && sides < 25_000.0, "{waits}");
    let open = |key: &str| array(&waits, "unmatched").iter().map(|one| number(one, key)).sum();
    let (sends, receives): (f64, f64) = (open("sends"), open("receives"));
    let calls = directory.json("matrix", &["--job", "3"]);
    let sent: f64 = array(&calls, "pairs").iter().map(|pair| number(pair, "messages")).sum();
    assert_eq!(sides + sends, sent, "{receives}");
    assert!(number(&waits, "unmatched_collectives") > 0.0);
}

/// The paper's figures, ours and the paper's: bytes and seconds by processes.
#[test]
fn definitions_are_drawn_by_processes() {
    let directory = Directory::new();
    let place = directory.path().join("seconds.svg");
    let seconds = place.to_str().expect("a plain path");
    let args = ["simulate", "--processes", "2,64,512", "--svg-seconds", seconds];
    let parts = ["Definitions of 24 communicators", "bitstrings", "Geimer", "rank maps"];
    chart("trace", &args, &parts);
    let drawing = std::fs::read_to_string(&place).expect("written");
    has(&drawing, &["Putting together 24", "Geimer", "rank maps", "lists", "seconds"]);
    refuses_chart("trace", &args[..3]);
}
