//! `rankway communicators`: the catalogue's communicators in a job of many real ranks.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{json, named, number, prints, refuses, run};

/// The command ends with an error where anything that came is wrong.
#[test]
fn every_rank_makes_them_and_talks_in_them() {
    let names = ["even", "fifths", "alternate", "permuted-100k", "A", "E", "T"];
    let report = json("communicators", &[&names[..], &["--ranks", "3000"]].concat());
    assert_eq!((number(&report, "messages"), number(&report, "gathers")), (10_000.0, 10.0));
    let of = |name| named(&report, "communicators", "name", name);
    for (name, members) in [("even", 1500.0), ("fifths", 600.0), ("alternate", 1500.0)] {
        assert_eq!(number(of(name), "members"), members, "{name}");
        // A formula takes no memory beside the communicator.
        assert!(number(of(name), "heap_bytes") < 64.0, "{name}: {}", of(name));
        assert!(of(name)["thesis"]["create"].is_number(), "{name}");
    }
    for name in ["permuted-100k", "A", "E", "T"] {
        let (members, bytes) = (number(of(name), "members"), number(of(name), "heap_bytes"));
        assert!(members > 100.0 && bytes <= 4.0 * members + 256.0, "{name}: {}", of(name));
    }
    assert!(of("T")["thesis"].is_null());
}

#[test]
fn tables_and_wrong_arguments() {
    prints(
        "communicators",
        &["sevenths", "-r", "100", "--threads", "3"],
        &["100 ranks", "run by 3 threads", "15 ", "thesis", "8 machines"],
    );
    prints("communicators", &["even", "-r", "1"], &["1 ranks", "0 wrong"]);
    refuses(
        "communicators",
        &[
            (&["nothing"], "is no communicator"),
            (&["--ranks", "0"], "from 1 to 1M"),
            (&["--threads", "0"], "1..=1024"),
        ],
    );
    let output = run("communicators", &["stride-81", "-r", "100"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("none of the first 100 ranks is in 'stride-81'"), "{said}");
}
