//! `rankway info`: what is there, what is not and how to get it.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{closed_pipe, json_of, prints, refuses};
use serde_json::Value;
use std::process::{Command, Output};

/// Without the settings of whoever runs the tests.
fn info(args: &[&str]) -> Command {
    let mut command = command::command("info", args);
    for name in ["FI_PROVIDER", "RANKWAY_PROVIDER", "RANKWAY_UCX", "RANKWAY_PMIX"] {
        command.env_remove(name);
    }
    command
}

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    info(args).envs(env.iter().copied()).output().expect("the command runs")
}

fn json(env: &[(&str, &str)]) -> Value {
    json_of(info(&["--json"]).envs(env.iter().copied()))
}

fn missing<'a>(info: &'a Value, what: &str) -> Option<&'a Value> {
    info["missing"].as_array().expect("a list").iter().find(|m| m["what"] == what)
}

/// Says why and answers `false` where there is no libfabric.
fn have_libfabric(info: &Value) -> bool {
    let have = info["libfabric"]["found"] == true;
    if !have {
        eprintln!("skipped: {}", info["libfabric"]["error"]);
    }
    have
}

/// Lines of 40 columns, but for words that are longer, and nothing left out.
#[test]
fn narrow_terminals() {
    let text = |env: &[(&str, &str)]| {
        let out = run(&[], env);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    };
    let narrow = text(&[("COLUMNS", "40")]);
    for line in narrow.lines().filter(|line| line.chars().count() > 40) {
        let words = line.trim_start_matches(['#', ' ']);
        assert!(!words.contains(' '), "{line}");
    }
    let wide = text(&[("COLUMNS", "1000")]);
    let words = |text: &str| {
        let marks = [':', ',', '#', '-'];
        let mut words: Vec<String> =
            text.split_whitespace().map(|word| word.trim_matches(marks).to_owned()).collect();
        words.sort();
        words.dedup();
        words
    };
    let shown = words(&narrow);
    // What changes while one looks: bytes that are free.
    let there = |word: &String| shown.contains(word) || word.parse::<f64>().is_ok();
    let missing: Vec<String> = words(&wide).into_iter().filter(|word| !there(word)).collect();
    let heads = ["library", "provider", "peers", "launcher", "registration"];
    assert!(missing.iter().all(|word| heads.contains(&word.as_str())), "{missing:?}\n{narrow}");
    for odd in ["", "0", "-3", "nonsense"] {
        assert!(text(&[("COLUMNS", odd)]).lines().count() < narrow.lines().count(), "{odd}");
    }
}

#[test]
fn everything_has_its_key() {
    let info = json(&[]);
    for key in [
        "command",
        "version",
        "ok",
        "environment",
        "libfabric",
        "ucx",
        "pmix",
        "providers",
        "choice",
        "launchers",
        "machine",
        "memory",
        "costs",
        "missing",
    ] {
        assert!(!info[key].is_null(), "{key} is missing");
    }
    for key in ["processors", "open_files", "shm_bytes", "ptrace", "hardware_counters"] {
        assert!(info["machine"].get(key).is_some(), "machine.{key} is missing");
    }
    for library in ["libfabric", "ucx", "pmix"] {
        let library = &info[library];
        let field = if library["found"] == true { "path" } else { "error" };
        assert!(library[field].is_string(), "{library}");
    }
}

/// What was measured once is kept for this host, and measured anew where the file is
/// broken or it is asked for.
#[test]
fn a_calibration_is_kept() {
    let cache = std::env::temp_dir().join(format!("rankway-info-{}", std::process::id()));
    let home = cache.to_str().expect("a name");
    let look = |args: &[&str]| json_of(info(args).env("XDG_CACHE_HOME", home))["memory"].clone();
    let first = look(&["--json"]);
    assert_eq!(first["costs_from"], "measured", "{first}");
    let file = first["kept"].as_str().expect("kept").to_owned();
    let second = look(&["--json"]);
    assert!(second["kept"].is_null() && second["costs_from"] == "measured", "{second}");
    assert_eq!(second["tlb_pages"], first["tlb_pages"]);
    std::fs::write(&file, "nonsense").expect("written");
    assert_eq!(look(&["--json"])["kept"], file.as_str());
    // What operations cost over a provider, only when it is asked for.
    let costs = |args: &[&str]| json_of(info(args).env("XDG_CACHE_HOME", home))["costs"].clone();
    let of = |costs: &Value, name: &str| {
        let all = costs.as_array().expect("a list");
        let one = all.iter().find(|one| one["provider"] == name);
        one.unwrap_or_else(|| panic!("no {name} in {costs}")).clone()
    };
    let node = of(&costs(&["--json"]), "node");
    assert!(node["from"] == "assumed" && node["kept"].is_null() && node["error"].is_null());
    let again = json_of(info(&["--json", "--calibrate"]).env("XDG_CACHE_HOME", home));
    assert_eq!(again["memory"]["kept"], file.as_str());
    let measured = of(&again["costs"], "node");
    assert!(measured["from"] == "measured" && measured["kept"].is_string(), "{measured}");
    let later = of(&costs(&["--json"]), "node");
    assert!(later["from"] == "measured" && later["kept"].is_null(), "{later}");
    for cost in ["call_ns", "origin_entry_ns", "target_entry_ns", "byte_ns"] {
        let ns = later[cost].as_f64().expect("a number");
        assert!((ns - measured[cost].as_f64().expect("a number")).abs() < 1e-3, "{later}");
    }
    let call = measured["call_ns"].as_f64().expect("a number");
    assert!((10.0..1e6).contains(&call), "{measured}");
    std::fs::remove_dir_all(&cache).expect("removed");
    // A place that cannot be: it is measured and said.
    let nowhere = json_of(info(&["--json"]).env("XDG_CACHE_HOME", "/proc/nowhere"));
    assert!(nowhere["memory"]["kept_error"].is_string(), "{nowhere}");
}

#[test]
fn what_is_chosen_can_do_what_is_needed() {
    let info = json(&[]);
    if !have_libfabric(&info) {
        return;
    }
    let providers = info["providers"].as_array().expect("a list");
    for (peers, node_local) in [("node", true), ("network", false)] {
        let choice = &info["choice"][peers];
        let Some(name) = choice["provider"].as_str().filter(|&name| name != "node") else {
            continue;
        };
        let chosen = providers.iter().find(|p| p["name"] == name).expect("described");
        assert_eq!(chosen["rma"], true, "{chosen}");
        assert!(node_local || chosen["node_local"] == false, "{chosen}");
        assert!(!choice["why"].as_str().expect("a reason").is_empty());
    }
    if let Some(shm) = providers.iter().find(|p| p["name"] == "shm") {
        assert_eq!((&shm["max_peers"], &shm["node_local"]), (&256.into(), &true.into()));
    }
    for provider in providers {
        let tcp = provider["name"].as_str().is_some_and(|name| name.contains("tcp"));
        assert_eq!(provider["delivers"], tcp, "{provider}");
    }
}

#[test]
fn no_libfabric_says_what_to_install() {
    let nowhere = [("RANKWAY_LIBFABRIC", "/nonexistent")];
    let out = run(&[], &nowhere);
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for part in ["apt install libfabric1", "pip install mpich", "/nonexistent", "RANKWAY_LIBFABRIC"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(run(&["--strict"], &nowhere).status.code(), Some(1));
    let info = json(&nowhere);
    assert_eq!((&info["ok"], &info["libfabric"]["found"]), (&false.into(), &false.into()));
    let libfabric = missing(&info, "libfabric").expect("reported");
    assert_eq!((&libfabric["needed"], &libfabric["debian"]), (&true.into(), &"libfabric1".into()));
    assert_eq!(info["choice"]["network"]["provider"], Value::Null);
}

#[test]
fn settings_that_leave_nothing_are_named() {
    if !have_libfabric(&json(&[])) {
        return;
    }
    let info = json(&[("RANKWAY_PROVIDER", "carrierpigeon")]);
    assert_eq!(info["ok"], false);
    assert_eq!(info["environment"]["RANKWAY_PROVIDER"], "carrierpigeon");
    let network = missing(&info, "a network provider").expect("reported");
    assert!(network["why"].as_str().is_some_and(|why| why.contains("carrierpigeon")), "{network}");
    assert!(network["try"].as_str().is_some_and(|advice| advice.contains("unset")), "{network}");

    let info = json(&[("RANKWAY_MAP_STRATEGY", "table"), ("RANKWAY_NETMOD", "node")]);
    assert_eq!(info["environment"]["RANKWAY_MAP_STRATEGY"], "table");
    assert_eq!(info["environment"]["RANKWAY_NETMOD"], "node");

    for (set, taken) in [("", "node"), ("node,tcp", "node")] {
        let info = json(&[("RANKWAY_PROVIDER", set), ("FI_PROVIDER", "")]);
        // (A machine may forbid processes to attach to each other.)
        if set.is_empty() && info["choice"]["node"]["provider"] != taken {
            continue;
        }
        assert_eq!(info["choice"]["node"]["provider"], taken, "{set}");
    }
    assert_ne!(json(&[("FI_PROVIDER", "tcp")])["choice"]["node"]["provider"], "node");

    let info = json(&[("RANKWAY_PROVIDER", "shm")]);
    if info["choice"]["node"]["provider"] == "shm" {
        assert_eq!(
            (&info["ok"], &info["choice"]["network"]["provider"]),
            (&true.into(), &Value::Null)
        );
    }
}

#[test]
fn settings_that_do_nothing_are_told() {
    let told = |name: &str, value: &str| {
        let info = json(&[(name, value)]);
        let told = info["unusable"].as_array().expect("a list").iter().find(|s| s["name"] == name);
        told.map(|setting| {
            (setting["why"].to_string(), setting["refused"] == true, info["ok"] == true)
        })
    };
    assert_eq!(told("RANKWAY_EAGER_CREDIT", "4096"), None);
    let (why, refused, _) = told("RANKWAY_PROVIDR", "tcp").expect("misspelled");
    assert!(!refused && why.contains("RANKWAY_PROVIDER"), "{why}");
    for (name, value) in [("RANKWAY_EAGER_CREDIT", "7"), ("RANKWAY_NETMOD", "pigeon")] {
        let (why, refused, ok) = told(name, value).expect("nonsense");
        assert!(refused && !ok && why.contains("it takes"), "{why}");
    }
    let out = run(&[], &[("RANKWAY_EAGER_CREDIT", "7")]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("# RANKWAY_EAGER_CREDIT: it takes a whole number of bytes"), "{text}");
}

#[test]
fn no_ucx_and_no_pmix_is_no_disaster() {
    let info = json(&[("RANKWAY_UCX", "/nonexistent/ucp"), ("RANKWAY_PMIX", "/nonexistent/pmix")]);
    for (what, package) in [("UCX", "libucx0"), ("PMIx", "libpmix2")] {
        let entry = missing(&info, what).expect("reported");
        assert_eq!((&entry["needed"], &entry["debian"]), (&false.into(), &package.into()));
        assert!(entry["why"].as_str().is_some_and(|why| why.contains("/nonexistent")), "{entry}");
    }
}

#[test]
fn without_a_path_there_are_no_launchers() {
    let info = json(&[("PATH", "")]);
    assert_eq!(info["launchers"].as_array().map(Vec::len), Some(0));
    let launcher = missing(&info, "mpiexec.hydra").expect("reported");
    assert_eq!(launcher["debian"], "mpich");
}

#[test]
fn wrong_arguments_are_explained() {
    refuses("info", &[(&["--jsno"], "--json")]);
    prints("info", &["--help"], &["Examples:", "mr_mode"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    closed_pipe("info", &[]);
}
