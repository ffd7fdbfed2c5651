//! `rankway count --cache` as a user runs it: lines, misses, ratios, caches of
//! one's own, wrong arguments.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, has, number};
use serde_json::Value;
use std::process::Output;

const MODELS: [&str; 6] = ["direct", "offset", "stride", "blockstride", "lut", "mlut"];

fn run(args: &[&str]) -> Output {
    let mut command = command::command("count", &[&["--cache"], args].concat());
    // Cargo puts the null provider beside this test.
    let me = std::env::current_exe().expect("a path");
    command.env("FI_PROVIDER_PATH", me.parent().expect("a folder")).env_remove("COLUMNS");
    command.output().expect("the command runs")
}

fn json(args: &[&str]) -> Value {
    let out = run(&[args, &["--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn levels(row: &Value) -> Vec<f64> {
    row.as_array().expect("levels").iter().map(|m| m.as_f64().expect("a number")).collect()
}

#[test]
fn every_model_has_its_lines_and_misses() {
    let report = json(&["--ranks", "2,16k", "--communicators", "1,3"]);
    let lines = array(&report, "lines");
    assert_eq!(lines.len(), MODELS.len() * 3);
    for line in lines {
        assert!(number(line, "code") >= 1.0 && number(line, "read") >= 2.0, "{line}");
        // Functions begin where they like: each may lie in one line more.
        assert!(number(line, "placed") <= 2.0 * number(line, "code"), "{line}");
        let put = line["call"] != "translation";
        assert_eq!(number(line, "written") > 0.0, put, "{line}");
    }
    let of = |model: &str, call: &str, key: &str| {
        let line = lines.iter().find(|l| l["model"] == model && l["call"] == call);
        number(line.expect("a line"), key)
    };
    // A lookup and an entry; a table more; a directory more.
    let reads = MODELS.map(|model| of(model, "translation", "read"));
    assert_eq!(reads, [2.0, 2.0, 2.0, 2.0, 3.0, 4.0]);
    let rows = array(&report, "misses");
    assert_eq!(rows.len(), MODELS.len() * 4);
    for row in rows {
        let peers = row["peers"].as_object().expect("peers");
        assert_eq!(peers.len(), 5, "{row}");
        let ours = levels(&row["translation"]);
        for misses in peers.values().map(levels).chain([ours.clone(), levels(&row["put"])]) {
            assert!(misses.len() == 3 && misses.is_sorted_by(|near, far| near >= far), "{row}");
        }
        for (peer, misses) in peers {
            for (level, ratio) in array(&row["ratios"], peer).iter().enumerate() {
                let theirs = levels(misses)[level];
                assert_eq!(ratio.is_null(), theirs == 0.0, "{row}");
                if let Some(ratio) = ratio.as_f64() {
                    assert!((ratio * theirs - ours[level]).abs() < 1e-9, "{row}");
                }
            }
        }
        // 2 ranks fit into any cache.
        if row["ranks"] == 2 {
            assert_eq!((ours[0], levels(&row["put"])[1]), (0.0, 0.0), "{row}");
        }
    }
    assert_eq!(array(&report, "published").len(), 10);
    let counted = array(&report, "counted");
    assert_eq!(counted.is_empty(), report["not_counted"].is_string(), "{report}");
}

/// What is known without a simulation: 16,384 entries in order, one after the
/// other, are a line each eighth, and none where all fit.
#[test]
fn entries_in_order_miss_once_a_line() {
    let args = ["--ranks", "16k", "--communicators", "1", "--models", "direct"];
    let small = ["--d1", "32KiB/8", "--l2", "64KiB/8", "--l3", "16MiB/16"];
    let report = json(&[&args[..], &small].concat());
    assert_eq!(report["caches_from"], "options");
    let row = &array(&report, "misses")[0];
    let near = |misses: &Value, want: [f64; 3]| {
        let all = levels(misses);
        assert!(all.iter().zip(want).all(|(m, want)| (m - want).abs() < 0.001), "{row}");
    };
    near(&row["translation"], [8.0 / 64.0, 8.0 / 64.0, 0.0]);
    near(&row["put"], [8.0 / 64.0, 8.0 / 64.0, 0.0]);
    near(&row["peers"]["e32"], [0.5, 0.5, 0.0]);
    near(&row["peers"]["e72"], [1.0, 1.0, 0.0]);
    near(&row["peers"]["vc_vcrt"], [1.125, 1.125, 0.0]);
    let large = ["--d1", "512KiB/8", "--l2", "1MiB/8", "--l3", "16MiB/16"];
    near(&array(&json(&[&args[..], &large].concat()), "misses")[0]["translation"], [0.0; 3]);
}

#[test]
fn the_tables_line_up_and_name_their_source() {
    let out = run(&["--ranks", "2", "--communicators", "1", "--models", "lut"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    has(&text, &["Distinct lines", "ours/VC", "MPICH 5.1 ofi, 32 bytes", "Table IV", "120491"]);
}

/// What fits is missed once, however many puts there are.
#[test]
fn all_misses_of_what_fits_are_first_touches() {
    let few = json(&["--ranks", "16", "--communicators", "1", "--puts", "1"]);
    let many = json(&["--ranks", "16", "--communicators", "1", "--puts", "1000000"]);
    for (few, many) in array(&few, "misses").iter().zip(array(&many, "misses")) {
        let (few, many) = (&few["all"], &many["all"]);
        assert_eq!((number(few, "puts"), number(many, "puts")), (1.0, 1e6));
        for call in ["put", "translation"] {
            assert_eq!(few[call], many[call], "{call}");
            assert!(levels(&many[call]).iter().all(|misses| *misses >= 1.0), "{many}");
        }
        assert_eq!(few["peers"], many["peers"]);
    }
    let without = json(&["--ranks", "2", "--communicators", "1"]);
    assert!(array(&without, "misses").iter().all(|row| row["all"].is_null()));
}
