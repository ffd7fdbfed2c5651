//! MPI programs with the library preloaded and without, under Open MPI and MPICH:
//! what they print is the same. The library counts what it took, so that a test in
//! which it did nothing fails.
//!
//! A compiler or a launcher that is missing is reported and skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../tests/harness/processes.rs"]
#[allow(dead_code, unreachable_pub)]
mod processes;

#[path = "../../../tests/harness/mpis.rs"]
#[allow(dead_code, unreachable_pub)]
mod mpis;

use mpis::{Mpi, each, scratch};
use processes::told;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo put the shared library it built for this test.
fn preloaded() -> PathBuf {
    mpis::preloaded("librankway_pack.so")
}

/// What the tests ask of an MPI.
trait Packing {
    fn run(&self, ranks: u32, ours: Option<&str>, words: &[&Path]) -> (String, String);
    fn same(&self, ranks: u32, words: &[&Path], functions: &[&str]);
    fn is_left(&self, ranks: u32, words: &[&Path], plain: &str);
}

impl Packing for Mpi {
    /// What a program prints, and what the library says that it took.
    fn run(&self, ranks: u32, ours: Option<&str>, words: &[&Path]) -> (String, String) {
        let variables = ours.map_or(Vec::new(), |setting| {
            let library = format!("LD_PRELOAD={}", preloaded().display());
            vec![library, format!("RANKWAY_PACK={setting}"), "RANKWAY_PACK_STATS=1".to_owned()]
        });
        let output = self.launch(ranks, &variables, words);
        let name = format!("{} {:?}, {:?}", self.name, words, ours);
        assert!(output.status.success(), "{}", told(&name, &output));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// The program prints the same with the library and without; of each of these
    /// functions it took calls in some rank.
    fn same(&self, ranks: u32, words: &[&Path], functions: &[&str]) {
        let (plain, _) = self.run(ranks, None, words);
        assert!(plain.lines().count() > 0);
        for setting in ["on", "all"] {
            let (with, told) = self.run(ranks, Some(setting), words);
            assert_eq!(plain, with, "{}, {setting}: {words:?}", self.name);
            for function in functions {
                assert!(takes(&told, function), "{} was not taken: {told}", function);
            }
        }
    }

    /// It prints this when the library is there and takes nothing.
    fn is_left(&self, ranks: u32, words: &[&Path], plain: &str) {
        let (off, told) = self.run(ranks, Some("off"), words);
        assert_eq!(plain, off);
        assert!(!told.lines().any(|line| takes(line, "")), "taken though it is off: {told}");
    }
}

/// Whether the counts have calls of a function that were taken.
fn takes(told: &str, function: &str) -> bool {
    told.lines().any(|line| {
        line.split_once(" taken").is_some_and(|(before, _)| {
            let (name, count) = before.rsplit_once(": ").unwrap_or_default();
            name.ends_with(function) && count != "0"
        })
    })
}

/// Against the MPI's own pack of the same process.
#[test]
fn random_types_pack_and_unpack_as_mpi_does() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "random.c", "random", &[]);
        mpi.same(1, &[&program, Path::new("1500")], &["MPI_Pack", "MPI_Unpack"]);
    });
}

#[test]
fn messages_arrive_as_they_do_without() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "messages.c", "messages", &[]);
        let sends = ["MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Isend", "MPI_Issend"];
        let functions = [&sends[..], &["MPI_Recv", "MPI_Irecv", "MPI_Sendrecv"]].concat();
        mpi.same(2, &[&program], &functions);
    });
}

/// One rank with the library, the other without: what is on the wire is the same.
#[test]
fn a_peer_without_it_is_none_the_wiser() {
    each("mpicc", |mpi, compiler| {
        for name in ["messages", "fragments"] {
            let output = format!("{name}-mixed");
            let program = mpi.build(compiler, &format!("{name}.c"), &output, &[]);
            let (plain, _) = mpi.run(2, None, &[&program]);
            mpi.is_left(2, &[&program], &plain);
            for with in [0, 1] {
                // Each launcher tells a process its rank.
                let text = format!(
                    "#!/bin/sh\n[ \"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\" != {with} ] || \
                     export LD_PRELOAD='{}'\nexec \"$@\"\n",
                    preloaded().display()
                );
                let script = scratch().join(format!("{output}-{with}.{}.sh", mpi.name));
                std::fs::write(&script, text).unwrap();
                let (mixed, _) = mpi.run(2, None, &[Path::new("sh"), &script, &program]);
                assert_eq!(plain, mixed, "{}: rank {with} with the library", mpi.name);
            }
        }
    });
}

/// Elements of many sizes, over fragments that end within them; received by MPI's own
/// calls too.
#[test]
fn fragments_cut_no_element() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "fragments.c", "fragments", &[]);
        mpi.same(2, &[&program], &["MPI_Send", "MPI_Recv", "MPI_Irecv"]);
    });
}

/// MPI uses a request again, in another thread, before the call that completed it is over.
#[test]
fn requests_that_are_used_again_are_others() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "reused.c", "reused", &["-Wno-stringop-overflow"]);
        mpi.same(2, &[&program], &["MPI_Isend", "MPI_Irecv"]);
    });
}

/// A fault of the program stays an error, and writes nowhere.
#[test]
fn a_receive_of_nothing_changes_no_memory() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "nothing.c", "nothing", &[]);
        mpi.same(2, &[&program], &["MPI_Send"]);
    });
}

/// Without any MPI a call is an error code and a word on standard error; where that
/// is a pipe that nobody reads, the error code alone.
#[test]
fn a_library_without_an_mpi_ends_no_program() {
    let client = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "client_without_mpi", "--ignored", "--nocapture"]);
        command
    };
    let heard = client().output().unwrap();
    let named = String::from_utf8_lossy(&heard.stderr).contains("has no MPI_Finalize");
    assert!(heard.status.success() && named, "{}", told("heard", &heard));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unheard = client().stderr(writer).output().unwrap();
    assert!(unheard.status.success(), "{}", told("unheard", &unheard));
}

#[test]
#[ignore = "played by the test above"]
fn client_without_mpi() {
    let path = std::ffi::CString::new(preloaded().to_str().unwrap()).unwrap();
    // SAFETY: C strings.
    let finalize = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        libc::dlsym(library, c"MPI_Finalize".as_ptr())
    };
    assert!(!finalize.is_null());
    // SAFETY: MPI_Finalize has this type.
    let finalize: extern "C" fn() -> std::ffi::c_int = unsafe { std::mem::transmute(finalize) };
    assert_ne!(finalize(), 0);
}

/// MPI that only one module of the program sees, as under Python.
#[test]
fn mpi_that_was_opened_locally_is_found() {
    each("mpicc", |mpi, compiler| {
        let loader = mpi.build(compiler, "opens.c", "opens", &[]);
        // (The loader is no MPI program: what the compiler adds is not needed by it.)
        let flags = ["-shared", "-fPIC", "-Wl,--as-needed"];
        let module = mpi.build(compiler, "random.c", "module", &flags);
        mpi.same(1, &[&loader, &module, Path::new("300")], &["MPI_Pack", "MPI_Unpack"]);
    });
}

#[test]
fn fortran_comes_by_its_own_names() {
    each("mpifort", |mpi, compiler| {
        let old = mpi.build(compiler, "column.F90", "mpif", &["-w", "-fallow-argument-mismatch"]);
        mpi.same(2, &[&old], &["MPI_Pack", "MPI_Unpack", "MPI_Send", "MPI_Recv", "MPI_Isend"]);
        let new = mpi.build(compiler, "column.F90", "f08", &["-w", "-DF08"]);
        mpi.same(2, &[&new], &["MPI_Pack", "MPI_Unpack", "MPI_Send", "MPI_Recv", "MPI_Isend"]);
    });
}
