//! Launchers in PATH: who they are and how Rankway meets its peers under them.

use serde::Serialize;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that starts the ranks of a job.
#[derive(Serialize)]
pub(super) struct Launcher {
    pub(super) name: String,
    pub(super) path: String,
    /// Whose it is, where it says so.
    pub(super) product: Option<&'static str>,
    pub(super) version: Option<String>,
    /// The interface peers are met through: `pmix` or `pmi1`.
    pub(super) interface: Option<&'static str>,
}

/// The specific names first: `mpirun` and `mpiexec` are often other names of
/// the same file.
const NAMES: [&str; 6] =
    ["mpirun.openmpi", "prterun", "mpiexec.hydra", "srun", "mpirun", "mpiexec"];
/// How long a launcher may take to say its version.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn find() -> Vec<Launcher> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for name in NAMES {
        let Some(path) = in_path(name) else { continue };
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let said = ask(&path).unwrap_or_default();
        // Some need help files to say their version; a name of one product only
        // tells as well.
        let (product, interface) = match identify(&said) {
            (None, _) => identify(by_name(name)),
            known => known,
        };
        found.push(Launcher {
            name: name.to_owned(),
            path: path.display().to_string(),
            product,
            version: product.and(version(&said)),
            interface,
        });
    }
    found
}

fn identify(said: &str) -> (Option<&'static str>, Option<&'static str>) {
    let lower = said.to_lowercase();
    if lower.contains("prrte") || lower.contains("prterun") {
        (Some("PRRTE"), Some("pmix"))
    } else if ["open mpi", "openrte", "open-mpi.org"].iter().any(|name| lower.contains(name)) {
        (Some("Open MPI"), Some("pmix"))
    } else if lower.contains("hydra") {
        (Some("MPICH Hydra"), Some("pmi1"))
    } else if lower.starts_with("slurm") {
        (Some("Slurm"), Some("pmix"))
    } else {
        (None, None)
    }
}

/// What only one product calls so.
fn by_name(name: &str) -> &'static str {
    match name {
        "mpirun.openmpi" => "open mpi",
        "prterun" => "prterun",
        "mpiexec.hydra" => "hydra",
        "srun" => "slurm",
        _ => "",
    }
}

/// The first word that begins like `4.1`.
fn version(said: &str) -> Option<String> {
    let word = said.split_whitespace().find(|word| {
        let (major, rest) = word.split_once('.').unwrap_or_default();
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        digits(major) && rest.starts_with(|c: char| c.is_ascii_digit())
    })?;
    Some(word.trim_end_matches([',', ')']).to_owned())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

/// What `--version` prints; its few lines fit into a pipe.
fn ask(program: &Path) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + TIMEOUT;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = child.wait_with_output().ok()?.stdout;
    Some(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_who_they_are() {
        let cases = [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs", "Open MPI", "4.1.4"),
            (
                "HYDRA build details:\n    Version:    4.0.2\n    Release Date:",
                "MPICH Hydra",
                "4.0.2",
            ),
            ("prterun (PRRTE) 3.0.9\n", "PRRTE", "3.0.9"),
            ("slurm 22.05.8\n", "Slurm", "22.05.8"),
        ];
        for (said, product, number) in cases {
            assert_eq!(identify(said).0, Some(product));
            assert_eq!(version(said).as_deref(), Some(number));
        }
        assert_eq!(identify("something else 1.2"), (None, None));
        assert_eq!(identify(by_name("prterun")), (Some("PRRTE"), Some("pmix")));
        assert_eq!(identify(by_name("mpirun")), (None, None));
        assert_eq!(version("no number 12 .5 a.b"), None);
    }
}
