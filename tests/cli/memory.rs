//! `rankway memory`: the figures to reach, the keys, and wrong arguments.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};

fn rankway(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.arg("memory").args(args).output().expect("the command runs")
}

fn json(args: &[&str]) -> Value {
    let out = rankway(&[args, &["--json"]].concat());
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

fn kind<'a>(report: &'a Value, name: &str) -> &'a Value {
    let kinds = report["kinds"].as_array().expect("kinds");
    kinds.iter().find(|k| k["kind"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn the_job_of_the_paper_reaches_the_figures() {
    let report = json(&["--kind", "stride,blockstride"]);
    let figures = report["figures"].as_array().expect("figures");
    let names: Vec<_> = figures.iter().filter_map(|f| f["name"].as_str()).collect();
    let expected = [
        "av_bytes_per_inserted_peer",
        "av_bytes_per_untouched_peer",
        "split_100_bytes_all_touched",
        "split_100_bytes_none_touched",
        "regular_communicator_bytes",
    ];
    assert_eq!(names, expected);
    for figure in figures {
        assert_eq!(figure["pass"], true, "{figure}");
        assert!(number(figure, "value") <= number(figure, "at_most"), "{figure}");
    }
    assert_eq!(number(&figures[0], "value"), 8.0);
    // What cannot be below: eight bytes a peer, a struct a communicator.
    let split = kind(&report, "stride");
    assert!(number(split, "total_bytes_touched") >= 786_432.0 * 8.0, "{split}");
    let structs = 100.0 * number(&report["sizes"], "communicator");
    assert!(number(split, "communicators_bytes") >= structs, "{split}");
    assert_eq!((&split["ranks"], &split["communicators_built"]), (&393_216.into(), &100.into()));
    // VC-VCRT: 480 bytes a peer, 8 a rank of each communicator and the world.
    let vc = 786_432 * 488 + 100 * 393_216 * 8;
    assert_eq!(split["vc_vcrt"]["bytes"], vc);
    assert!(report["published"].as_array().is_some_and(|all| all.len() == 3));
}

#[test]
fn every_kind_is_weighed() {
    let report = json(&["--processes", "4k", "--communicators", "7"]);
    assert_eq!((&report["processes"], &report["rank"]), (&4096.into(), &4095.into()));
    let models: Vec<_> =
        report["kinds"].as_array().expect("kinds").iter().map(|k| &k["model"]).collect();
    let expected =
        ["direct", "offset", "stride", "blockstride", "md-blockstride", "segments", "lut", "mlut"];
    assert_eq!(models, expected);
    let device = &report["device"];
    assert_eq!(number(device, "av_bytes_touched") - number(device, "av_bytes_none"), 4096.0 * 8.0);
    for k in report["kinds"].as_array().expect("kinds") {
        let name = k["kind"].as_str().expect("a name");
        let (none, touched) = (number(k, "total_bytes_none"), number(k, "total_bytes_touched"));
        assert!(touched - none >= 4096.0 * 8.0, "{k}");
        let (each, ranks) = (number(k, "communicator_bytes"), number(k, "ranks"));
        match name {
            "lut" => assert!((ranks * 4.0..ranks * 4.0 + 512.0).contains(&each), "{k}"),
            "mlut" => assert!((ranks * 8.0..ranks * 8.0 + 512.0).contains(&each), "{k}"),
            "segments" => assert!(each < 3000.0, "{k}"),
            _ => assert!(each <= 128.0, "{k}"),
        }
        assert_eq!((&k["computed"], &k["vc_vcrt"]["computed"]), (&false.into(), &false.into()));
    }
}

#[test]
fn peers_that_are_not_touched_cost_nothing() {
    let none = json(&["-p", "1M", "-k", "direct", "--touch", "none"]);
    let device = &none["device"];
    assert_eq!((&device["touched_peers"], &device["av_bytes_touched"]), (&0.into(), &Value::Null));
    assert!(number(kind(&none, "direct"), "total_bytes_none") < 64_000.0);
    // A thousand peers far apart: at most a page each.
    let some = json(&["-p", "1M", "-k", "direct", "--touch", "1000"]);
    let device = &some["device"];
    let pages = number(device, "av_bytes_touched") - number(device, "av_bytes_none");
    assert!((8000.0..=1000.0 * 4096.0).contains(&pages), "{device}");
}

#[test]
fn what_does_not_fit_is_computed() {
    // 2000 tables of 2 MiB are above the limit of what is made.
    let report = json(&["-p", "1M", "-c", "2000", "-k", "lut", "--touch", "none"]);
    let lut = kind(&report, "lut");
    assert_eq!(lut["computed"], true, "{lut}");
    assert!(number(lut, "communicators_built") >= 1.0);
    let all = 2000.0 * number(lut, "communicator_bytes");
    assert!((number(lut, "communicators_bytes") / all - 1.0).abs() < 1e-6, "{lut}");
    assert_eq!(lut["vc_vcrt"]["computed"], true, "{lut}");
}

#[test]
fn the_sweep_is_a_table_and_a_chart() {
    let path = std::env::temp_dir().join(format!("rankway-memory-{}.svg", std::process::id()));
    let file = path.to_str().expect("a plain path");
    let report = json(&["-p", "16k", "--svg", file]);
    let sizes: Vec<_> =
        report["sweep"].as_array().expect("points").iter().map(|p| &p["processes"]).collect();
    assert_eq!(sizes, [1024, 4096, 16_384]);
    let svg = std::fs::read_to_string(&path).expect("written");
    let _ = std::fs::remove_file(&path);
    for part in ["<svg", "VC-VCRT", "none touched", "odd/even split"] {
        assert!(svg.contains(part), "{part}");
    }
    let out = rankway(&["-p", "16k", "--svg", "/nonexistent/chart.svg"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nonexistent/chart.svg"));
}

#[test]
fn tables_for_people_and_spreadsheets() {
    let out = rankway(&["-p", "4k", "-c", "3"]);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    for part in ["md-blockstride", "VC-VCRT", "figure to reach", "pass", "9 MB"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("MISSED"), "{text}");
    let out = rankway(&["-p", "4k", "-c", "3", "-k", "lut,mlut", "--csv"]);
    let text = String::from_utf8(out.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("kind,model,ranks,"), "{text}");
    assert!(lines[1].starts_with("lut,lut,2048,") && lines[2].starts_with("mlut,mlut,4096,"));
}

#[test]
fn wrong_arguments_are_explained() {
    let cases: [(&[&str], &str); 9] = [
        (&["-p", "many"], "write 786432"),
        (&["-p", "1"], "at least 2"),
        (&["-p", "3000000000"], "int in MPI"),
        (&["-c", "0"], "at least 1"),
        (&["--ppn", "0"], "at least 1"),
        (&["-k", "banana"], "blockstride"),
        (&["--touch", "few"], "none nor all"),
        (&["-p", "1k", "--touch", "1M"], "more than the 1024 processes"),
        (&["--json", "--csv"], "cannot be used with"),
    ];
    for (args, hint) in cases {
        let out = rankway(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(hint) && said.contains("--help"), "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    let help = rankway(&["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    for part in ["Examples:", "--touch", "vc_vcrt", "16M"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rankway"))
        .args(["memory", "-p", "1k", "-c", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("ends").success() && said.is_empty(), "{said}");
}
