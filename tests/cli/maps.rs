//! `rankway maps`: what is picked, beside the thesis's; input, keys, charts.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, chart, closed_pipe, named, number, prints, refuses, refuses_chart};
use serde_json::Value;
use std::io::Write;
use std::process::{Output, Stdio};

fn rankway(args: &[&str]) -> Output {
    command::run("maps", args)
}

fn json(args: &[&str]) -> Value {
    command::json("maps", args)
}

fn map<'a>(report: &'a Value, name: &str) -> &'a Value {
    named(report, "maps", "name", name)
}

fn chosen<'a>(map: &'a Value, strategy: &str) -> &'a Value {
    named(map, "chosen", "strategy", strategy)
}

/// Without times, so a test of bytes alone.
fn no_worse_than_the_thesis(args: &[&str]) {
    let report = json(args);
    for map in array(&report, "maps") {
        let name = map["name"].as_str().expect("a name");
        let chosen = chosen(map, "space");
        assert!(number(chosen, "thesis_ratio") <= 1.0, "{name}: {chosen}");
        assert_eq!(chosen["no_larger_than_thesis"], true, "{name}: {chosen}");
        // Nothing is below what information theory lets it be.
        assert!(number(chosen, "bytes") >= number(&map["bound"], "bytes"), "{chosen}");
    }
}

#[test]
fn no_class_is_worse_than_the_thesis() {
    no_worse_than_the_thesis(&[]);
}

#[test]
fn no_communicator_of_table_6_1_is_worse_than_the_thesis() {
    no_worse_than_the_thesis(&["table6.1"]);
}

#[test]
fn the_classes_reach_the_figures() {
    let report = json(&[]);
    let names: Vec<_> = array(&report, "maps").iter().map(|map| &map["name"]).collect();
    assert_eq!(names, ["A", "B", "C", "D", "E", "P", "T", "N"]);
    let goals: Vec<&Value> =
        array(&report, "figures").iter().filter(|f| f["unit"] == "bytes a member").collect();
    assert_eq!(goals.len(), 5, "{goals:?}");
    for goal in goals {
        assert_eq!(goal["pass"], true, "{goal}");
    }
    assert_eq!(chosen(map(&report, "B"), "space")["representation"], "formula");
    // No times were asked for, nor every representation.
    for map in array(&report, "maps") {
        assert!(array(map, "representations").is_empty(), "{map}");
    }
}

#[test]
fn every_shape_is_weighed() {
    let report = json(&["shapes", "--universe", "20000"]);
    let maps = array(&report, "maps");
    assert!(maps.len() > 15);
    for name in ["row", "column", "transpose", "plane", "box", "node-leaders", "without-thirds"] {
        let chosen = chosen(map(&report, name), "space");
        assert_eq!(chosen["representation"], "formula", "{name}");
    }
    for (name, ranks) in [("row", 141), ("transpose", 141 * 141), ("hypercube-face", 1 << 11)] {
        assert_eq!(map(&report, name)["ranks"], ranks, "{name}");
    }
}

#[test]
fn the_keys_of_one_map() {
    let report = json(&["A", "--universe", "3000", "--seed", "5"]);
    assert_eq!((&report["command"], array(&report, "maps").len()), (&"maps".into(), 1));
    assert!(number(&report, "head_bytes") > 0.0 && !array(&report, "published").is_empty());
    let a = map(&report, "A");
    assert_eq!(
        (&a["universe"], &a["set"], &a["group"]),
        (&3000.into(), &true.into(), &"classes".into())
    );
    assert_eq!(a["bound"]["what"], "sets of this size");
    let rows = array(a, "representations");
    assert!(rows.len() + array(a, "unfit").len() >= 12, "{a}");
    let times = ["random_ns", "table_ns", "sequential_ns", "inverse_ns", "build_ns"];
    for row in rows {
        for key in times {
            assert!(number(row, key) > 0.0, "{row}");
        }
        let ratio = number(row, "bytes") * 8.0 / a["bound"]["bits"].as_f64().expect("bits");
        assert!((number(row, "ratio") / ratio - 1.0).abs() < 1e-9, "{row}");
        let bits = number(row, "bytes") * 8.0 / number(a, "ranks");
        assert!((number(row, "bits_per_member") / bits - 1.0).abs() < 1e-9, "{row}");
        assert!(number(row, "bytes_with_inverse") >= number(row, "bytes"), "{row}");
    }
    // Every strategy picks one, which is among the rows.
    let picked: usize = rows.iter().map(|row| array(row, "chosen_by").len()).sum();
    assert_eq!(picked, 3, "{a}");
    let names: Vec<_> = rows.iter().filter_map(|row| row["representation"].as_str()).collect();
    for name in ["elias-fano", "bitmap", "gaps", "packed", "plain", "diagram"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let theirs = array(a, "thesis");
    assert_eq!(theirs[0], a["thesis_best"]);
    let names: Vec<_> = theirs.iter().filter_map(|one| one["representation"].as_str()).collect();
    for name in ["canonical", "optimized canonical", "gap encoding", "bitmap", "BDD"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // Bytes alone have no times.
    let report = json(&["A", "--universe", "3000", "--bytes"]);
    let row = &array(map(&report, "A"), "representations")[0];
    assert_eq!(row["random_ns"], Value::Null, "{row}");
}

#[test]
fn ranks_of_your_own() {
    let report = json(&["--ranks", "0,4,8-15,20-40:4", "--universe", "64", "--bytes"]);
    let own = map(&report, "--ranks");
    assert_eq!(
        (&own["ranks"], &own["universe"], &own["set"]),
        (&16.into(), &64.into(), &true.into())
    );
    assert!(array(&report, "figures").is_empty());
    // One diagram by the radices is enough for a face.
    let faces: Vec<String> =
        (0..4096).filter(|v| v / 64 % 8 == 3 || v % 8 == 5).map(|v: u32| v.to_string()).collect();
    let list = faces.join(",");
    let report = json(&["--ranks", &list, "--radices", "8x8x8x8", "--bytes"]);
    let own = map(&report, "--ranks");
    assert_eq!(own["radices"], serde_json::json!([8, 8, 8, 8]));
    let diagram = array(own, "representations").iter().find(|r| r["representation"] == "diagram");
    assert!(number(diagram.expect("one"), "bytes") < 1000.0, "{own}");
    // Falling and single ranks are communicators too.
    let report = json(&["--ranks", "9-0", "--universe", "10", "--bytes"]);
    assert_eq!(chosen(map(&report, "--ranks"), "space")["representation"], "formula");
    json(&["--ranks", "7", "--universe", "8"]);
}

#[test]
fn files_and_stdin() {
    let path = std::env::temp_dir().join(format!("rankway-maps-{}.txt", std::process::id()));
    let file = path.to_str().expect("a plain path");
    std::fs::write(&path, "# a communicator\n3 1\n4\n\n10-20:5 # and more\n").expect("written");
    let report = json(&["--file", file, "--bytes"]);
    let own = map(&report, file);
    assert_eq!((&own["ranks"], &own["set"]), (&6.into(), &false.into()));
    for (text, hint) in [
        ("1\n2\nbanana\n", "line 3: 'banana' is neither"),
        ("1\n\n\n2 3 1\n", "line 4: 1 is there twice, as rank 0 and as rank 3"),
        ("1\n9-1000000\n", "line 2: rank 1000000 is not in the universe of 1000000"),
        ("", "there are no ranks"),
    ] {
        std::fs::write(&path, text).expect("written");
        let out = rankway(&["--file", file]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(hint) && said.contains(file), "{said}");
        assert!(out.stdout.is_empty());
    }
    let _ = std::fs::remove_file(&path);
    let out = rankway(&["--file", file]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("cannot read"));

    let mut child = command::command("maps", &["--file", "-", "--json", "--bytes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("piped").write_all(b"5 6 7 9\n").expect("taken");
    let out = child.wait_with_output().expect("ends");
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(map(&report, "stdin")["ranks"], 4);
}

#[test]
fn tables_for_people() {
    let out = rankway(&[]);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    let parts = ["falling ranges", "thesis's", "segments", "diagram", "figure to reach", "pass"];
    command::has(&String::from_utf8(out.stdout).expect("text"), &parts);
    let parts = ["bits a", "wavelet", "space", "canonical", "bitmap cannot hold it", "a list"];
    prints("maps", &["E", "--universe", "5000"], &parts);
    let parts = ["classes", "table6.1", "ranges-10k", "hypercube-face", "random-graph"];
    prints("maps", &["--list"], &parts);
}

#[test]
fn bytes_against_time_as_a_chart() {
    let parts = ["C: rising ranges", "E: falling ranges", "gap encoding", "bound", "plain"];
    chart("maps", &["C", "E", "--universe", "8000"], &parts);
    refuses_chart("maps", &["--ranks", "1,2,4"]);
}

#[test]
fn wrong_arguments_are_explained() {
    let cases: [(&[&str], &str); 17] = [
        (&["banana"], "--list"),
        (&["A", "--universe", "few"], "write 786432"),
        (&["A", "--universe", "0"], "at least 1"),
        (&["A", "--universe", "99"], "'A' takes a universe of 100"),
        (&["A", "--universe", "128M"], "at most --universe"),
        (&["A", "--strategy", "luck"], "hybrid:ALPHA"),
        (&["A", "--seed", "x"], "--seed"),
        (&["--ranks", ""], "no ranks"),
        (&["--ranks", "5,x"], "'x' is neither"),
        (&["--ranks", "5,5"], "5 is there twice"),
        (&["--ranks", "1000000"], "not in the universe of 1000000"),
        (&["--ranks", "1,100", "--radices", "10x10"], "not in the grid"),
        (&["--ranks", "1,2", "--radices", "10x1"], "100x100x100"),
        (
            &["--radices", "99999x99999x99999"],
            "999970000299999 ranks, more than the universe of 1000000",
        ),
        (
            &["--ranks", "1,2", "--radices", "10x11", "--universe", "100"],
            "110 ranks, more than the universe of 100; give --universe 110",
        ),
        (&["A", "--bytes", "--times"], "cannot be used with"),
        (&["A", "--list"], "cannot be used with"),
    ];
    refuses("maps", &cases);
    prints("maps", &["--help"], &["Examples:", "--ranks", "thesis_best", "8-15"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    closed_pipe("maps", &["B", "--bytes"]);
}
