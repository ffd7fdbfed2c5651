//! `rankway count-mpi` over Open MPI's own components: calls, and where their
//! instructions are.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;
#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/mpis.rs"]
mod mpis;
#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/processes.rs"]
mod processes;

use command::{array, has, json, named, number, run};
use std::process::Command;

#[test]
fn calls_are_counted_by_library() {
    let Some(compiler) = mpis::ALL[0].compiler("mpicc") else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/openmpi/bench/count.c");
    let program = mpis::scratch().join("count.so");
    let mut build = Command::new(compiler);
    build.args(["-std=gnu11", "-O2", "-shared", "-fPIC", source, "-o"]).arg(&program);
    assert!(build.status().unwrap().success());
    // (Nothing of ours is in these stacks.)
    let program = program.to_str().unwrap();
    let args = ["--program", program, "--components", "/", "--stack", "ob1+vader,osc-sm"];
    let said = json("count-mpi", &[&args[..], &["--functions"]].concat());
    for (stack, call, library) in
        [("ob1+vader", "MPI_Isend", "mca_pml_ob1"), ("osc-sm", "MPI_Put", "mca_osc_sm")]
    {
        let stack = &said["stacks"][stack];
        assert!(stack["error"].is_null(), "{stack}");
        let found = named(stack, "calls", "name", call);
        for call in array(stack, "calls") {
            let whole = number(call, "instructions");
            assert!(number(call, "components") <= whole && whole > 0.0, "{call}");
            for parts in ["libraries", "functions"] {
                let parts = call[parts].as_object().unwrap().values();
                let sum: f64 = parts.map(|n| n.as_f64().unwrap()).sum();
                assert!((sum - whole).abs() < 0.01, "{call}");
            }
        }
        assert!(number(&found["libraries"], library) > 0.0, "{found}");
        assert!(number(&found["functions"], call) > 0.0, "{found}");
    }
    let listed = ["--stack", "osc-sm", "--listing", "MPI_Put"];
    let out = run("count-mpi", &[&args[..4], &listed].concat());
    has(&String::from_utf8_lossy(&out.stdout), &["MPI_Win_lock, shared", "\nMPI_Put:\n", "+0x0"]);
}
