//! Launchers of MPI programs: some ranks of one over a choice of Open MPI's components
//! by its mpirun, or over an MPICH by Hydra's mpiexec.

use crate::temporary::{Launched, Temporary};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A choice of Open MPI's components, or an MPICH.
pub(crate) struct Stack {
    pub(crate) name: &'static str,
    /// MCA parameters and their values; for MPICH variables of the environment.
    pub(crate) flags: &'static str,
    /// What it is for: "two"-sided calls, "one"-sided ones, or "both".
    pub(crate) half: &'static str,
    /// Takes windows over memory of the program's own.
    pub(crate) creates: bool,
    pub(crate) ours: bool,
}

pub(crate) const STACKS: [Stack; 9] = [
    Stack {
        name: "rankway",
        flags: "pml cm, mtl rankway, osc rankway",
        half: "both",
        creates: true,
        ours: true,
    },
    Stack {
        name: "rankway-ucx",
        flags: "pml cm, mtl rankway, osc rankway, mtl_rankway_netmod ucx",
        half: "both",
        creates: true,
        ours: true,
    },
    Stack {
        name: "ob1+vader",
        flags: "pml ob1, btl self+vader",
        half: "two",
        creates: false,
        ours: false,
    },
    Stack { name: "cm+ofi", flags: "pml cm, mtl ofi", half: "two", creates: false, ours: false },
    Stack { name: "ucx", flags: UCX, half: "two", creates: false, ours: false },
    Stack {
        name: "osc-rdma",
        flags: "pml ob1, btl self+vader, osc rdma",
        half: "one",
        creates: true,
        ours: false,
    },
    Stack {
        name: "osc-sm",
        flags: "pml ob1, btl self+vader, osc sm+pt2pt",
        half: "one",
        creates: false,
        ours: false,
    },
    Stack {
        name: "osc-pt2pt",
        flags: "pml ob1, btl self+vader, osc pt2pt",
        half: "one",
        creates: true,
        ours: false,
    },
    Stack { name: "osc-ucx", flags: UCX, half: "one", creates: true, ours: false },
];

/// MPICH with our netmod, by itself and over UCX, and the distribution's.
pub(crate) const MPICH: [Stack; 3] = [
    Stack { name: "netmod", flags: "", half: "both", creates: true, ours: true },
    Stack {
        name: "netmod-ucx",
        flags: "RANKWAY_NETMOD ucx",
        half: "both",
        creates: true,
        ours: true,
    },
    Stack { name: "mpich", flags: "", half: "both", creates: true, ours: false },
];

/// Without the last two Open MPI takes UCX with InfiniBand only.
const UCX: &str = "pml ucx, osc ucx, opal_common_ucx_tls any, opal_common_ucx_devices any";

/// Those of `all` with the names that the user gave; all without any.
///
/// # Errors
/// A name there is not.
pub(crate) fn chosen<'a>(
    all: impl Iterator<Item = &'a Stack> + Clone,
    names: &[String],
) -> Result<Vec<&'a Stack>, String> {
    if let Some(unknown) = names.iter().find(|name| all.clone().all(|k| k.name != **name)) {
        let there: Vec<&str> = all.map(|stack| stack.name).collect();
        return Err(format!("no stack '{unknown}'; there are {}", there.join(", ")));
    }
    Ok(all.filter(|stack| names.is_empty() || names.iter().any(|n| n == stack.name)).collect())
}

/// An mpiexec of so many ranks over an MPICH, to which the program is to be added.
pub(crate) fn mpiexec(stack: &Stack, ranks: u32) -> Command {
    let mut command = Command::new("mpiexec.hydra");
    for (name, value) in stack.flags.split(", ").filter_map(|flag| flag.split_once(' ')) {
        command.args(["-genv", name, value]);
    }
    command.args(["-n", &ranks.to_string()]);
    command
}

/// Where an mpirun keeps its session: one that ends removes what all of a user
/// share, while another makes its own in it.
pub(crate) struct Session(Temporary);

impl Session {
    /// # Errors
    /// Why there is none, for people.
    pub(crate) fn new() -> Result<Session, String> {
        let place = Temporary::new(&format!("rankway-mpi-{}", std::process::id()));
        Ok(Session(place.map_err(|e| format!("a directory for mpirun: {e}"))?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// An mpirun of so many ranks over a stack, to which the program is to be added;
    /// `components`: where ours are installed.
    pub(crate) fn mpirun(&self, stack: &Stack, components: &Path, ranks: u32) -> Command {
        let mut command = Command::new("mpirun.openmpi");
        command.env("TMPDIR", self.path()).args(["--allow-run-as-root", "--oversubscribe"]);
        command.args(["-n", &ranks.to_string()]);
        // Ours wins by priority wherever it is found.
        if stack.ours {
            let path = format!("{}:SYS_DEFAULT", components.display());
            command.args(["--mca", "mca_base_component_path", &path]);
        }
        for flag in stack.flags.split(", ") {
            let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
            command.args(["--mca", name, &value.replace('+', ",")]);
        }
        command
    }
}

/// What a run printed, and how it went.
pub(crate) struct Outcome {
    /// What it printed.
    pub(crate) out: String,
    /// Why it failed, in the MPI's own words.
    pub(crate) result: Result<(), String>,
}

/// Runs a launcher to its end, `limit` seconds at most.
pub(crate) fn run(mut command: Command, limit: u64) -> Outcome {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launched = match Launched::alone(&mut command) {
        Ok(launched) => launched,
        Err(e) => {
            let launcher = command.get_program().display();
            return Outcome { out: String::new(), result: Err(format!("{launcher}: {e}")) };
        }
    };
    let child = &mut launched.0;
    let (out, err) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() > Duration::from_secs(limit) => {
                // It takes its ranks along when it is asked to end.
                // SAFETY: a process of ours that was not waited for.
                unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                let _ = child.wait();
                break Err(format!("no end after {limit} s"));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => break Err(e.to_string()),
        }
    };
    // A thread that failed has read nothing.
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let result = match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(words(&err).unwrap_or_else(|| status.to_string())),
        Err(text) => Err(text),
    };
    Outcome { out, result }
}

/// Reads to the end meanwhile, so that nobody waits for space in a pipe.
fn listen(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A line or two less is what a run that failed has to say.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What Open MPI says went wrong, without frames and process numbers: the
/// signal, or the first paragraph.
pub(crate) fn words(text: &str) -> Option<String> {
    /// Characters that fit under a table.
    const WIDTH: usize = 160;
    // "[host:pid] text"
    let lines = text.lines().map(|line| match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(line, |(_, rest)| rest).trim(),
        None => line.trim(),
    });
    let frame = |line: &&str| line.chars().all(|c| c == '-');
    let lines: Vec<&str> = lines.skip_while(frame).collect();
    let signal = lines.iter().find_map(|line| line.strip_prefix("Signal: "));
    let words = match signal {
        Some(signal) => signal.to_owned(),
        None => {
            let paragraph = lines.into_iter().take_while(|line| !frame(line));
            paragraph.collect::<Vec<_>>().join(" ")
        }
    };
    (!words.is_empty()).then(|| words.chars().take(WIDTH).collect())
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn open_mpi_in_its_own_words() {
        let crash =
            "[vm:1] *** Process received signal ***\n[vm:1] Signal: Segmentation fault (11)\n";
        assert_eq!(words(crash).as_deref(), Some("Segmentation fault (11)"));
        let refused = "-----\nNo components were able to be opened in the pml framework.\n\nThis\n";
        let first = "No components were able to be opened in the pml framework.";
        assert_eq!(words(refused).as_deref(), Some(first));
        assert_eq!(words("\n---\n"), None);
    }
}
