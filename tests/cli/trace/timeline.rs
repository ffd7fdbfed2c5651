//! `rankway trace timeline`: shares of time, and the picture.

use crate::command::{array, chart, number, prints, run};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Kind, NO_PEER};

fn written(directory: &Directory) {
    for rank in 0..2 {
        let mut process = Process::new(4, rank, 2);
        process.call(Kind::Init, (0, 100), 0, NO_PEER, 0);
        let kind = if rank == 0 { Kind::Send } else { Kind::Recv };
        process.call(kind, (200, 500), WORLD, 1 - rank, 8);
        process.call(Kind::Barrier, (600, 700), WORLD, NO_PEER, 0);
        process.call(Kind::Finalize, (900, 1000), 0, NO_PEER, 0);
        process.end(directory);
    }
}

#[test]
fn shares_are_those_of_the_calls() {
    let directory = Directory::new();
    written(&directory);
    let check = |args: &[&str], seconds: f64, expected: &[(&str, f64)]| {
        let report = directory.json("timeline", args);
        for (rank, one) in array(&report, "shares").iter().enumerate() {
            assert!((number(one, "seconds") - seconds).abs() < 1e-12, "{report}");
            for &(key, share) in expected {
                let key = if rank == 1 && key == "send" { "receive" } else { key };
                assert!((number(one, key) - share).abs() < 1e-9, "{key}: {one}");
            }
        }
    };
    check(&[], 5e-7, &[("send", 0.6), ("collective", 0.2), ("other", 0.0), ("outside", 0.2)]);
    check(
        &["--from", "0.0000002", "--to", "0.0000005"],
        3e-7,
        &[("send", 1.0 / 3.0), ("collective", 1.0 / 3.0), ("outside", 1.0 / 3.0)],
    );
    prints("trace", &["timeline", directory.text()], &["outside", "60.0", "20.0"]);
    for args in [["--from", "1"], ["--to", "0"]] {
        let out = run("trace", &[&["timeline", directory.text()], &args[..]].concat());
        assert_eq!(out.status.code(), Some(1), "{args:?}: {out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("nothing is there"), "{out:?}");
    }
    for wrong in ["nan", "-1", "inf", "x"] {
        let out = run("trace", &["timeline", directory.text(), "--from", wrong]);
        assert_eq!(out.status.code(), Some(2), "{wrong}: {out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("no seconds"), "{out:?}");
    }
}

#[test]
fn the_picture_has_calls_and_messages() {
    let directory = Directory::new();
    written(&directory);
    chart(
        "trace",
        &["timeline", directory.text()],
        &["Calls by rank", "collective", "<line", "ns since"],
    );
    let quiet = Directory::new();
    Process::new(1, 0, 1).end(&quiet);
    chart("trace", &["timeline", quiet.text()], &["Calls by rank"]);
}
