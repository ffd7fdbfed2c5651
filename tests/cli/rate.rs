//! `rankway rate` as a user runs it: models, generations of splits, many
//! communicators at once, windows of puts.

#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, json, named, number, prints, refuses};
use serde_json::Value;

/// One short measurement of each figure.
const SHORT: [&str; 4] = ["--iterations", "2000", "--rounds", "1"];

fn rate(args: &[&str]) -> Value {
    json("rate", &[&SHORT, args].concat())
}

#[test]
fn each_model_has_a_row_and_the_mixed_ones_a_peer() {
    let said = rate(&["--network", "mapped"]);
    let network = &array(&said, "networks")[0];
    let rows = array(network, "rows");
    let models: Vec<_> = rows.iter().map(|row| row["model"].as_str().unwrap()).collect();
    let formulas = ["direct", "offset", "stride", "blockstride"];
    let tables = ["lut", "mlut"];
    let generations = ["gen1", "gen2", "gen3", "gen4"];
    assert_eq!(models, [&formulas[..], &tables, &generations, &["mixed"]].concat());
    for row in rows {
        assert!(number(row, "unchecked") > 0.0 && number(row, "checked") > 0.0, "{row}");
    }
    // However often it was split: a formula.
    let bytes = |model: &str| number(named(network, "rows", "model", model), "map_bytes");
    formulas.iter().chain(&generations).for_each(|model| assert_eq!(bytes(model), 32.0, "{model}"));
    // 64 communicators: ten of each model, and one more of the first four.
    let tables: f64 = tables.map(bytes).iter().sum();
    assert_eq!(bytes("mixed"), 44.0 * 32.0 + 10.0 * tables);
    assert!(number(network, "vc_vcrt_mixed") > 0.0, "{network}");
    assert!(network["window"].is_null(), "{network}");
}

#[test]
fn each_window_is_measured_where_the_network_needs_one() {
    let said = rate(&["--network", "shm,mapped", "--models", "gen2", "--window", "1,16"]);
    let networks = array(&said, "networks");
    let each: Vec<_> =
        networks.iter().map(|n| (n["network"].as_str(), n["window"].as_u64())).collect();
    assert_eq!(each, [(Some("shm"), Some(1)), (Some("shm"), Some(16)), (Some("mapped"), None)]);
    let args = [&SHORT[..], &["--network", "shm", "--models", "gen1", "--window", "16"]].concat();
    prints("rate", &args, &["a flush every 16 puts", "gen1", "89.65", "7.57"]);
}

#[test]
fn mixed_alone_is_refused_where_loops_flush() {
    refuses("rate", &[(&["--window", "0"], "--window"), (&["--window", "1,,2"], "--window")]);
    let output = command::run("rate", &["--network", "shm", "--models", "mixed"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("mixed") && said.contains("null"), "{said}");
    // Where they do not, it needs no other.
    let said = rate(&["--network", "mapped", "--models", "mixed"]);
    assert_eq!(array(&array(&said, "networks")[0], "rows").len(), 1);
}

/// Sizes and windows of one network in one job: a job meets once.
#[test]
fn a_launcher_s_job_measures_all_of_one_network() {
    let launched = |args: &[&str]| {
        let rate = command::command("rate", &[&SHORT, args].concat());
        let mut launcher = std::process::Command::new("mpiexec.hydra");
        launcher.args(["-n", "2"]).arg(rate.get_program()).args(rate.get_args()).output()
    };
    let sizes = ["--size", "8,64", "--window", "4,8", "--models", "direct", "--csv"];
    let Ok(out) = launched(&[&["--network", "shm"], &sizes[..]].concat()) else {
        return eprintln!("skipped: there is no mpiexec.hydra (Debian: mpich)");
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let rows: Vec<_> = said.lines().skip(1).map(|row| row.split(",direct").next()).collect();
    let each = ["shm,8,4", "shm,8,8", "shm,64,4", "shm,64,8"];
    assert_eq!(rows, each.map(Some), "{out:?}");
    let out = launched(&[&["--network", "shm,tcp"], &sizes[..]].concat()).expect("is there");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("one --network"), "{said}");
}
