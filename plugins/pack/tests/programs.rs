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

use processes::{OWN_SESSION, bounded, told};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One MPI of Debian's.
struct Mpi {
    name: &'static str,
    library: &'static str,
    launcher: &'static str,
}

const ALL: [Mpi; 2] = [
    Mpi { name: "openmpi", library: "libmpi.so.40", launcher: "mpirun.openmpi" },
    Mpi { name: "mpich", library: "libmpich.so.12", launcher: "mpiexec.hydra" },
];

/// Where cargo put the shared library it built for this test.
fn preloaded() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = directory.join("librankway_pack.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

impl Mpi {
    /// The compiler of a language, if it builds a program; the reason is printed
    /// where it does not.
    fn compiler(&self, kind: &str) -> Option<String> {
        let compiler = format!("{kind}.{}", self.name);
        let file = scratch().join(format!("empty.{}", if kind == "mpicc" { "c" } else { "F90" }));
        let (text, file_out) = match kind {
            "mpicc" => ("#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n", "c.out"),
            _ => ("include 'mpif.h'\nend\n", "f.out"),
        };
        let text = if kind == "mpicc" { text.into() } else { format!("program p\n{text}") };
        std::fs::write(&file, text).unwrap();
        let out = scratch().join(format!("{}.{file_out}", self.name));
        let mut command = Command::new(&compiler);
        let builds = command.arg(&file).arg("-o").arg(out).output();
        if builds.is_ok_and(|output| output.status.success()) && has(self.launcher) {
            return Some(compiler);
        }
        eprintln!("skipped: {compiler} builds nothing, or there is no {}", self.launcher);
        None
    }

    /// Builds a program of this folder.
    fn build(&self, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let program = scratch().join(format!("{name}.{}", self.name));
        let mut command = Command::new(compiler);
        command.arg("-O1").arg(format!("-DLIBMPI=\"{}\"", self.library));
        command.arg("-o").arg(&program).arg(folder().join(source)).args(flags);
        let output = command.args(["-lpthread", "-ldl"]).output().unwrap();
        assert!(output.status.success(), "{}", told(source, &output));
        program
    }

    /// What a program prints, and what the library says that it took.
    fn run(&self, ranks: u32, ours: Option<&str>, words: &[&Path]) -> (String, String) {
        let mut command = Command::new(OWN_SESSION[0]);
        command.args(&OWN_SESSION[1..]).arg(self.launcher);
        if self.name == "openmpi" {
            // (As root in a container.)
            command.args(["--allow-run-as-root", "--oversubscribe"]);
        }
        command.args(["-n", &ranks.to_string(), "env"]);
        if let Some(setting) = ours {
            command.arg(format!("LD_PRELOAD={}", preloaded().display()));
            command.arg(format!("RANKWAY_PACK={setting}")).arg("RANKWAY_PACK_STATS=1");
        }
        let output = bounded(command_with(command, words)).unwrap();
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

fn command_with(mut command: Command, words: &[&Path]) -> Command {
    command.args(words);
    command
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Each MPI with a compiler of the language.
fn each(kind: &str, test: impl Fn(&Mpi, &str)) {
    for mpi in &ALL {
        if let Some(compiler) = mpi.compiler(kind) {
            test(mpi, &compiler);
        }
    }
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
        let program = mpi.build(compiler, "messages.c", "mixed", &[]);
        let (plain, _) = mpi.run(2, None, &[&program]);
        mpi.is_left(2, &[&program], &plain);
        for with in [0, 1] {
            // Each launcher tells a process its rank.
            let text = format!(
                "#!/bin/sh\n[ \"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\" != {with} ] || \
                 export LD_PRELOAD='{}'\nexec \"$@\"\n",
                preloaded().display()
            );
            let script = scratch().join(format!("mixed-{with}.{}.sh", mpi.name));
            std::fs::write(&script, text).unwrap();
            let (mixed, _) = mpi.run(2, None, &[Path::new("sh"), &script, &program]);
            assert_eq!(plain, mixed, "{}: rank {with} with the library", mpi.name);
        }
    });
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
