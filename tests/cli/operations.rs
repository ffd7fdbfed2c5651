//! `rankway operations` as a user runs it: keys, figures, a wrong network.

#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;

use command::{array, json, number, run};

#[test]
fn every_figure_has_its_keys() {
    let said = json("operations", &["--network", "shm,tcp,ucx", "--rounds", "1"]);
    let networks = array(&said, "networks");
    let names: Vec<_> = networks.iter().map(|n| n["network"].as_str().unwrap()).collect();
    assert_eq!(names, ["shm", "tcp", "ucx"]);
    for network in networks {
        let rows = array(network, "rows");
        assert_eq!(rows.len(), 4, "{network}");
        for row in rows {
            assert!(number(row, "ours") > 0.0, "{row}");
            assert_eq!(row["raw"].is_number(), row["ratio"].is_number(), "{row}");
        }
    }
}

#[test]
fn a_network_that_is_not_there_is_named() {
    let output = run("operations", &["--network", "nosuch"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("'nosuch'") && said.contains("tcp;ofi_rxm"), "{said}");
}
