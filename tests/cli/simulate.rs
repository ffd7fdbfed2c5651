//! `rankway simulate`: counts of one process by the size of its job.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, chart, json, named, number, prints, refuses, refuses_chart};
use serde_json::Value;

fn counts<'a>(report: &'a Value, step: &str) -> &'a Vec<Value> {
    array(named(report, "steps", "step", step), "counts")
}

/// Counts, which do not vary; times are for people.
#[test]
fn a_process_of_a_million_does_what_one_of_a_thousand_does() {
    let report = json("simulate", &["--processes", "1M", "--splits", "20"]);
    let sizes: Vec<_> = array(&report, "processes").iter().map(Value::as_u64).collect();
    assert_eq!(sizes, [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20].map(Some));
    for (at, size) in sizes.iter().flatten().enumerate() {
        let log = f64::from(size.ilog2());
        let start = &counts(&report, "start")[at];
        assert_eq!((number(start, "questions"), number(start, "messages")), (0.0, 0.0), "{start}");
        assert!(number(start, "kept_bytes") <= 65_536.0, "{start}");
        let put = &counts(&report, "first put to a peer")[at];
        assert!(number(put, "kept_bytes") <= 1024.0 && number(put, "questions") <= 2.0, "{put}");
        for step in ["split", "split of all but one"] {
            let split = &counts(&report, step)[at];
            assert_eq!(number(split, "messages"), log, "{split}");
            assert!(number(split, "message_bytes") <= 120.0 * log, "{split}");
            assert!(number(split, "kept_bytes") <= 128.0, "{split}");
        }
        let window = &counts(&report, "window")[at];
        assert!(number(window, "message_bytes") <= 4096.0 + 160.0 * log, "{window}");
        assert!(number(window, "peak_bytes") <= 8192.0, "{window}");
    }
    for step in ["start", "split", "split of all but one", "window"] {
        let growth = &named(&report, "steps", "step", step)["growth"];
        assert_eq!(growth["kept_bytes"], "constant", "{step}");
        assert_eq!(growth["peak_bytes"], "constant", "{step}");
    }
    for step in ["split", "split of all but one", "window"] {
        assert_eq!(named(&report, "steps", "step", step)["growth"]["messages"], "logarithmic");
    }
}

#[test]
fn tables_charts_and_wrong_arguments() {
    let parts = ["microseconds", "questions to the launcher", "O(log P)", "Simulated:", "split"];
    prints("simulate", &["-p", "4k", "--splits", "2"], &parts[..2]);
    prints("simulate", &["-p", "64k", "--splits", "2"], &parts);
    // Where this process is the job's first.
    prints("simulate", &["-p", "1k", "--ppn", "1k", "--splits", "2"], &parts[..2]);
    chart("simulate", &["-p", "16k", "--splits", "2"], &["split", "processes of the job"]);
    refuses_chart("simulate", &["-p", "1k", "--splits", "2"]);
    refuses(
        "simulate",
        &[
            (&["-p", "many"], "write 786432"),
            (&["-p", "1000"], "from 1k to 16M"),
            (&["--ppn", "0"], "from 1 to 1024"),
            (&["--splits", "0"], "1..=10000"),
        ],
    );
}
