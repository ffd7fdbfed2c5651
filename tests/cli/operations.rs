//! `rankway operations` as a user runs it: keys, figures, a wrong network.

#![cfg(target_os = "linux")]

use std::process::{Command, Output};

fn operations(arguments: &[&str]) -> Output {
    let command = env!("CARGO_BIN_EXE_rankway");
    Command::new(command).arg("operations").args(arguments).output().expect("the command runs")
}

#[test]
fn every_figure_has_its_keys() {
    let output = operations(&["--network", "shm,tcp,ucx", "--rounds", "1", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let networks = said["networks"].as_array().unwrap();
    let names: Vec<_> = networks.iter().map(|n| n["network"].as_str().unwrap()).collect();
    assert_eq!(names, ["shm", "tcp", "ucx"]);
    for network in networks {
        let rows = network["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4, "{network}");
        for row in rows {
            assert!(row["ours"].as_f64().unwrap() > 0.0, "{row}");
            let ratio = row["raw"].as_f64().map(|raw| row["ours"].as_f64().unwrap() / raw);
            assert_eq!(ratio.is_some(), row["ratio"].as_f64().is_some(), "{row}");
        }
    }
}

#[test]
fn a_network_that_is_not_there_is_named() {
    let output = operations(&["--network", "nosuch"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("'nosuch'") && said.contains("tcp;ofi_rxm"), "{said}");
}
