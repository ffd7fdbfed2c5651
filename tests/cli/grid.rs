//! `rankway grid`: many ranks in this process, and what the simulation says of one of as many.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, json, named, number, prints, refuses};
use serde_json::Value;

fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    named(report, "steps", "step", name)
}

#[test]
fn ranks_of_one_process_say_what_a_simulated_one_says() {
    const RANKS: f64 = 1024.0;
    let grid = json("grid", &["--ranks", "1k", "--threads", "3"]);
    let dims: Vec<f64> = array(&grid, "dims").iter().filter_map(Value::as_f64).collect();
    assert_eq!(dims, [8.0, 8.0, 16.0]);
    assert_eq!(number(&grid, "threads"), 3.0);
    assert_eq!(number(&grid, "puts"), RANKS * (26.0 + 16.0));
    assert_eq!(number(&grid, "messages"), RANKS * 6.0);
    let simulated = json("simulate", &["-p", "1k", "--ppn", "1", "--splits", "1"]);
    for (real, one) in [("communicators", "split"), ("window of all", "window")] {
        let one = &array(step(&simulated, one), "counts")[0];
        for key in ["messages", "message_bytes"] {
            let each = number(step(&grid, real), key) / RANKS;
            // (Ranks whose own word is the odd one, or that meet rank 0 elsewhere, say more or less.)
            assert!((each - number(one, key)).abs() <= 0.03 * each, "{real}, {key}: {each}, {one}");
        }
    }
    // Two fences, each a barrier of log₂ steps.
    let fences = step(&grid, "puts to 26 neighbours");
    assert_eq!((number(fences, "messages"), number(fences, "message_bytes")), (RANKS * 20.0, 0.0));
    // What a rank keeps does not grow with the job.
    let small = json("grid", &["--ranks", "64"]);
    for name in ["start", "communicators", "window of all"] {
        let kept = |report, ranks| number(step(report, name), "heap_bytes") / ranks;
        let (few, many) = (kept(&small, 64.0), kept(&grid, RANKS));
        assert!(many <= few + 64.0, "{name}: {few} bytes in a job of 64, {many} in one of {RANKS}");
    }
}

#[test]
fn tables_jobs_of_any_shape_and_wrong_arguments() {
    prints("grid", &["--ranks", "1"], &["1 x 1 x 1", "27 puts", "0 wrong"]);
    prints(
        "grid",
        &["-r", "7", "--threads", "64"],
        &["7 ranks", "run by 7 threads", "bytes a rank"],
    );
    refuses(
        "grid",
        &[
            (&["--ranks", "0"], "from 1 to 1M"),
            (&["--ranks", "2M"], "from 1 to 1M"),
            (&["--ranks", "many"], "write 786432"),
            (&["--threads", "0"], "1..=1024"),
        ],
    );
}
