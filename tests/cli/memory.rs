//! `rankway memory`: the figures to reach, the keys, and wrong arguments.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{chart, closed_pipe, named, number, prints, refuses, refuses_chart};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    command::json("memory", args)
}

fn kind<'a>(report: &'a Value, name: &str) -> &'a Value {
    named(report, "kinds", "kind", name)
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
        "random_half_bytes_per_member",
        "merge_of_two_jobs_bytes",
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
    let expected = [
        "direct",
        "offset",
        "stride",
        "blockstride",
        "md-blockstride",
        "segments",
        "lut",
        "lut",
        "mlut",
        "mlut",
    ];
    assert_eq!(models, expected);
    let device = &report["device"];
    assert_eq!(number(device, "av_bytes_touched") - number(device, "av_bytes_none"), 4096.0 * 8.0);
    for k in report["kinds"].as_array().expect("kinds") {
        let name = k["kind"].as_str().expect("a name");
        let (none, touched) = (number(k, "total_bytes_none"), number(k, "total_bytes_touched"));
        assert!(touched - none >= 4096.0 * 8.0, "{k}");
        let (each, ranks) = (number(k, "communicator_bytes"), number(k, "ranks"));
        match name {
            "set" | "lut" => assert!((ranks * 4.0..ranks * 4.0 + 512.0).contains(&each), "{k}"),
            "mlut" => assert!((ranks * 8.0..ranks * 8.0 + 512.0).contains(&each), "{k}"),
            "segments" => assert!(each < 3000.0, "{k}"),
            "merge" => assert!(each < 300.0, "{k}"),
            _ => assert!(each <= 128.0, "{k}"),
        }
        assert_eq!((&k["computed"], &k["vc_vcrt"]["computed"]), (&false.into(), &false.into()));
    }
}

/// Past 64 KiB a table is compressed, unless it is asked for.
#[test]
fn large_irregular_maps_are_compressed() {
    let words = ["-p", "256k", "-c", "2", "-k", "set,lut,mlut", "--touch", "none"];
    let report = json(&words);
    let each = |report: &Value, name: &str| {
        let kind = kind(report, name);
        number(kind, "communicator_bytes") / number(kind, "ranks")
    };
    assert!(each(&report, "set") <= 0.3, "{report}");
    assert!(each(&report, "lut") <= 2.6, "{report}");
    assert!(each(&report, "mlut") <= 2.6, "{report}");
    let mut tables = command::command("memory", &[&words[..], &["--json"]].concat());
    let tables = command::json_of(tables.env("RANKWAY_MAP_STRATEGY", "table"));
    assert!(each(&tables, "set") >= 4.0 && each(&tables, "lut") >= 4.0, "{tables}");
    assert!(each(&tables, "mlut") >= 8.0, "{tables}");
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
    let parts = ["VC-VCRT", "none touched", "odd/even split"];
    let text = chart("memory", &["-p", "16k", "--json"], &parts);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let sweep = command::array(&report, "sweep");
    let sizes: Vec<_> = sweep.iter().map(|p| &p["processes"]).collect();
    assert_eq!(sizes, [1024, 4096, 16_384]);
    refuses_chart("memory", &["-p", "16k"]);
}

#[test]
fn tables_for_people_and_spreadsheets() {
    let parts = ["md-blockstride", "VC-VCRT", "figure to reach", "pass", "9 MB"];
    let text = prints("memory", &["-p", "4k", "-c", "3"], &parts);
    assert!(!text.contains("MISSED"), "{text}");
    let text = prints("memory", &["-p", "4k", "-c", "3", "-k", "lut,mlut", "--csv"], &[]);
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
    refuses("memory", &cases);
    prints("memory", &["--help"], &["Examples:", "--touch", "vc_vcrt", "16M"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    closed_pipe("memory", &["-p", "1k", "-c", "1"]);
}
