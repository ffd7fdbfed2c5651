//! MPI libraries of a distribution, whose programs are built and run with a library
//! preloaded and without. A compiler or a launcher that is missing is reported and skipped.

use super::processes::{OWN_SESSION, bounded, told};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// One MPI.
pub struct Mpi {
    pub name: &'static str,
    pub library: &'static str,
    pub launcher: &'static str,
}

/// Words before Open MPI's launcher: it names files of windows alike in all jobs of a user,
/// so that those of two jobs at once meet.
const OWN_WINDOWS: [&str; 3] = [
    "sh",
    "-c",
    "OMPI_MCA_osc_sm_backing_directory=$TMPDIR OMPI_MCA_osc_rdma_backing_directory=$TMPDIR \
     exec \"$0\" \"$@\"",
];

/// Debian's.
pub const ALL: [Mpi; 2] = [
    Mpi { name: "openmpi", library: "libmpi.so.40", launcher: "mpirun.openmpi" },
    Mpi { name: "mpich", library: "libmpich.so.12", launcher: "mpiexec.hydra" },
];

/// Where cargo put the shared library it built for this test.
pub fn preloaded(name: &str) -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = directory.join(name);
    assert!(library.exists(), "{} is not there", library.display());
    library
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

pub fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

impl Mpi {
    /// The compiler of a language, if it builds a program; the reason is printed
    /// where it does not.
    pub fn compiler(&self, kind: &str) -> Option<String> {
        // Tests of a program run at once, and write the same files here.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Builds a program of the crate's tests.
    pub fn build(&self, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let program = scratch().join(format!("{name}.{}", self.name));
        let mut command = Command::new(compiler);
        command.arg("-O1").arg(format!("-DLIBMPI=\"{}\"", self.library));
        command.arg("-o").arg(&program).arg(folder.join(source)).args(flags);
        let output = command.args(["-lpthread", "-ldl", "-lm"]).output().unwrap();
        assert!(output.status.success(), "{}", told(source, &output));
        program
    }

    /// The same with the variables in the environment of all that the launcher starts,
    /// also later.
    pub fn launch_all(&self, ranks: u32, variables: &[String], words: &[&Path]) -> Output {
        let mut command = self.command(&[], ranks);
        for variable in variables {
            let (name, value) = variable.split_once('=').unwrap();
            match self.name {
                "openmpi" => command.env(name, value).args(["-x", name]),
                _ => command.args(["-genv", name, value]),
            };
        }
        command.args(words);
        bounded(command).unwrap()
    }

    /// Runs a program to its end, with these variables in its environment.
    pub fn launch(&self, ranks: u32, variables: &[String], words: &[&Path]) -> Output {
        self.launch_by(&[], ranks, variables, words)
    }

    /// The same, with words before the launcher.
    pub fn launch_by(
        &self,
        before: &[&Path],
        ranks: u32,
        variables: &[String],
        words: &[&Path],
    ) -> Output {
        let run = || {
            let mut command = self.command(before, ranks);
            command.arg("env").args(variables).args(words);
            bounded(command)
        };
        let first = match run() {
            Ok(output) if output.status.success() || !variables.is_empty() => return output,
            Ok(output) => told("failed", &output),
            Err(hang) => hang,
        };
        // Nothing of ours is in a run without variables: MPI itself fails now and then, as
        // MPICH 5.0.2 does in a second session.
        assert!(variables.is_empty(), "{first}");
        eprintln!("{} alone is run once more: {first}", self.name);
        run().unwrap()
    }

    fn command(&self, before: &[&Path], ranks: u32) -> Command {
        let mut command = Command::new(OWN_SESSION[0]);
        command.args(&OWN_SESSION[1..]).args(before);
        if self.name == "openmpi" {
            command.args(OWN_WINDOWS);
        }
        command.arg(self.launcher);
        if self.name == "openmpi" {
            // (As root in a container.)
            command.args(["--allow-run-as-root", "--oversubscribe"]);
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }
}

/// Each MPI with a compiler of the language.
pub fn each(kind: &str, test: impl Fn(&Mpi, &str)) {
    for mpi in &ALL {
        if let Some(compiler) = mpi.compiler(kind) {
            test(mpi, &compiler);
        }
    }
}
