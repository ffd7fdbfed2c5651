//! `rankway paper`: its items, the keys, pictures, the committed page, wrong arguments.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, has, json, named, prints, refuses, run};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn line<'a>(item: &'a Value, name: &str) -> &'a Vec<Value> {
    array(named(item, "lines", "name", name), "values")
}

fn numbers(item: &Value, name: &str) -> Vec<Option<f64>> {
    line(item, name).iter().map(Value::as_f64).collect()
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("rankway-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What takes no time, of every paper.
const SHORT: &str = "guo/sec-3b,guo/table-2,guo/fig-3a,guo/fig-4,goodell/table-1,goodell/fig-1,\
                     taheri/fig-4.4,taheri/fig-5,taheri/table-6.1,taheri/table-6.2,taheri/sec-6.6,\
                     geimer/fig-1,geimer/sec-5";

#[test]
fn items_have_lines_of_as_many_figures_as_columns() {
    let report = json("paper", &["--quick", "--only", SHORT]);
    assert_eq!((&report["command"], &report["quick"]), (&"paper".into(), &true.into()));
    let items = array(&report, "items");
    assert_eq!(items.len(), SHORT.split(',').count());
    let mut worse = 0;
    for item in items {
        let columns = array(item, "columns").len();
        for line in array(item, "lines") {
            assert_eq!(array(line, "values").len(), columns, "{item}");
            let marks = array(line, "worse");
            assert!(marks.is_empty() || marks.len() == columns, "{line}");
            worse += marks.iter().filter(|mark| **mark == true).count();
            let how = line["how"].as_str().expect("a word");
            assert!(["paper", "measured", "counted", "simulated", "computed"].contains(&how));
        }
        assert!(item["not_had"].is_null() == (item["item"] != "fig-1" || columns > 0), "{item}");
    }
    assert_eq!(array(&report, "worse").len(), worse);
    let of = |paper: &str, item: &str| {
        let found = items.iter().find(|one| one["paper"] == paper && one["item"] == item);
        found.unwrap_or_else(|| panic!("no {paper}/{item}"))
    };
    // Figures that the papers' own sentences bind to one another.
    assert_eq!(numbers(of("guo", "sec-3b"), "ours")[1], Some(8.0));
    let vc = numbers(of("guo", "fig-4"), "VC-VCRT");
    assert_eq!(vc, [250.0, 250.0, 244.0, 244.0].map(Some));
    let peers = array(of("guo", "fig-4"), "lines").iter().find(|line| line["how"] == "simulated");
    let simulated = array(peers.expect("ours"), "values")[2].as_f64().expect("a number");
    assert!((simulated - 244.0).abs() < 0.1, "{simulated}");
    assert!(numbers(of("guo", "fig-3a"), "ours, all peers, 100")[5].is_some_and(|mib| mib < 9.0));
    let ranks = line(of("taheri", "table-6.1"), "ranks");
    assert_eq!((ranks.len(), &ranks[5]), (14, &40_001.0.into()));
    let create = numbers(of("taheri", "table-6.2"), "create: canonical");
    assert_eq!((create[0], create[13]), (Some(2.967774), Some(6.748847)));
    let original = line(of("geimer", "sec-5"), "original Scalasca");
    assert_eq!(original[0], ">1400");
    // (Bitstrings of 48k processes "exceeded 1.4 GB".)
    assert!(numbers(of("geimer", "sec-5"), "bitstrings")[0].is_some_and(|mb| mb > 1400.0));
}

/// Instructions and accesses of this build, which need not be those of a release.
#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_and_misses_stay_below_the_paper_s() {
    let mut command = command::command("paper", &["--json", "--only", "guo/table-3,guo/table-4"]);
    // Cargo puts the null provider beside this test.
    let me = std::env::current_exe().expect("a path");
    command.env("FI_PROVIDER_PATH", me.parent().expect("a folder"));
    let report = command::json_of(&mut command);
    let items = array(&report, "items");
    let models = array(&items[0], "columns");
    assert_eq!(models[1..], ["direct", "offset", "stride", "lut", "mlut"].map(Value::from));
    assert_eq!(numbers(&items[0], "AV-Rankmap"), [7.0, 9.0, 11.0, 13.0, 11.0, 15.0].map(Some));
    assert_eq!(
        numbers(&items[1], "L1D, 8 processes, Blues"),
        [120_491.0, 103.0, 168.0, 141.0, 98.0, 192.0].map(Some)
    );
    let ours = array(&items[1], "lines").iter().filter(|line| line["how"] == "simulated");
    let mut lines = 0;
    for line in ours {
        lines += 1;
        // (No put touches nothing.)
        let values = array(line, "values").iter().map(|value| value.as_f64().expect("a number"));
        assert!(values.into_iter().all(|misses| misses >= 3.0), "{line}");
        assert!(array(line, "worse").iter().all(|worse| *worse == false), "{line}");
    }
    assert!(lines >= 2);
}

#[test]
fn a_picture_for_each_figure() {
    let folder = Folder::new("paper-svg");
    let items = "guo/fig-3a,guo/fig-3b,guo/fig-3c,guo/fig-4,goodell/fig-1,taheri/fig-5,\
                 taheri/table-6.1,taheri/table-6.2,taheri/sec-6.6,geimer/fig-2,guo/table-2";
    prints("paper", &["--quick", "--only", items, "--svg", folder.text()], &["Fig. 3a", "sec-6.6"]);
    let mut names: Vec<String> = std::fs::read_dir(&folder.0)
        .expect("it is there")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    // (A table of words has no picture.)
    let mut wanted: Vec<String> = items
        .split(',')
        .filter(|item| *item != "guo/table-2")
        .map(|item| format!("{}.svg", item.replace('/', "-")))
        .collect();
    wanted.sort();
    assert_eq!(names, wanted);
    for name in names {
        let svg = std::fs::read_to_string(folder.0.join(&name)).expect("text");
        has(&svg, &["<svg", "</svg>"]);
    }
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/papers.md")
}

/// Of what is the same in each build: bytes. `ci/measure/papers.sh --check` has the rest.
#[test]
fn the_committed_page_is_what_is_written() {
    let page = committed();
    let page = page.to_str().expect("a plain path");
    prints("paper", &["--quick", "--only", SHORT, "--check", page], &["as it would be written"]);
    let text = std::fs::read_to_string(page).expect("the page");
    assert!(text.len() <= 8000, "{} bytes", text.len());
    // One byte of a figure is told.
    let folder = Folder::new("paper-page");
    let changed = folder.0.join("page");
    assert!(text.contains("|480|12"));
    std::fs::write(&changed, text.replace("|480|12", "|480|13")).expect("written");
    let out = run("paper", &["--only", "guo/sec-3b", "--check", changed.to_str().expect("plain")]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    has(&said, &["III-B", "|paper|p|480|12", "make papers"]);
}

/// Every paper and item is there, and every one can be asked for.
#[test]
fn names() {
    let text = prints("paper", &["--list"], &["guo/table-4", "Table IV", "taheri/table-6.2"]);
    for paper in ["guo", "goodell", "taheri", "geimer", "byna"] {
        assert!(text.lines().filter(|line| line.starts_with(paper)).count() > 1, "{paper}");
    }
}

#[test]
fn census_of_nothing_and_wrong_arguments() {
    let report = json("paper", &["--only", "guo/table-1"]);
    let item = &array(&report, "items")[0];
    assert_eq!(
        numbers(item, "applications of 24")[..6],
        [18.0, 14.0, 7.0, 1.0, 2.0, 1.0].map(Some)
    );
    assert!(item["not_had"].as_str().is_some_and(|why| why.contains("trace record")), "{item}");
    let empty = Folder::new("no-traces");
    for (traces, why) in [
        ("/nonexistent", "No such file"),
        ("/dev/null", "is a file"),
        (empty.text(), "has no traces"),
    ] {
        let out = run("paper", &["--only", "guo/table-1", "--traces", traces]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("--traces") && said.contains(traces) && said.contains(why), "{said}");
        assert!(out.stdout.is_empty());
    }
    refuses(
        "paper",
        &[
            (&["--only", "nonsense"], "rankway paper --list"),
            (&["--only", "guo/table-9"], "guo/table-9"),
            (&["--only", ""], "rankway paper --list"),
            (&["--svg", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--json", "--markdown"], "--markdown"),
            (&["--list", "--json"], "--json"),
        ],
    );
    let out = run("paper", &["--only", "guo/sec-3b", "--check", "/nonexistent/page"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nonexistent/page"));
}
