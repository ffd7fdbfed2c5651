//! A process with an MPI in it, asked over a pipe: one line of JSON a question, one
//! an answer. One that is left alone (Ctrl-C, a death) removes what it has on disk
//! and ends.

use super::library;
use super::shape::Shape;
use crate::mpirun::words;
use crate::temporary::{Launched, Temporary};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};

#[derive(Serialize, Deserialize)]
enum Question {
    /// What, and how far behind a line's begin.
    Measure(Shape, usize),
    Round,
    Enough,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Ready(String),
    /// Nanoseconds of a run, pack and unpack; none yet after the check.
    Took(Option<(f64, f64)>),
    Failed(String),
}

/// Seconds that an MPI may take to come up.
const LIMIT: u32 = 60;

/// The asking end.
pub(super) struct Peer {
    launched: Launched,
    ask: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
    /// What the library writes to stderr.
    complaints: File,
    /// Goes behind the process.
    _folder: Temporary,
    /// What the library says it is.
    pub(super) version: String,
}

impl Peer {
    /// Starts this command again with the library in it.
    pub(super) fn start(name: &str, library: &str) -> Result<Peer, String> {
        let text = |e: std::io::Error| e.to_string();
        let folder = format!("rankway-pack-{}-{name}", std::process::id());
        let folder = Temporary::new(&folder).map_err(text)?;
        let complaints = unnamed().map_err(text)?;
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        command
            .args(["pack", "--serve", library])
            // Its session, if it makes one; no launcher's; no network.
            .env("TMPDIR", folder.path())
            .envs([("OMPI_MCA_ess_singleton_isolated", "1"), ("OMPI_MCA_pml", "ob1")])
            .envs([("OMPI_MCA_btl", "self"), ("OMPI_MCA_osc", "^ucx")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone().map_err(text)?);
        for (key, _) in std::env::vars_os() {
            let launcher = ["PMI_", "PMIX_", "OMPI_COMM_", "HYDRA_"];
            if key.to_str().is_some_and(|key| launcher.iter().any(|name| key.starts_with(name))) {
                command.env_remove(key);
            }
        }
        let mut launched = Launched::spawn(&mut command).map_err(text)?;
        let ask = launched.0.stdin.take();
        let hear = launched.0.stdout.take().ok_or("no pipe")?;
        let hear = BufReader::new(hear);
        let version = String::new();
        let mut peer = Peer { launched, ask, hear, complaints, _folder: folder, version };
        match peer.answer()? {
            Answer::Ready(version) => peer.version = version,
            Answer::Failed(why) => return Err(why),
            Answer::Took(_) => return Err("it answers what was not asked".into()),
        }
        Ok(peer)
    }

    fn say(&mut self, question: &Question) -> Result<(), String> {
        let mut line = serde_json::to_vec(question).map_err(|e| e.to_string())?;
        line.push(b'\n');
        let ask = self.ask.as_mut().ok_or("it has ended")?;
        ask.write_all(&line).map_err(|_| "it has ended".to_owned())
    }

    fn answer(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        loop {
            line.clear();
            match self.hear.read_line(&mut line) {
                Ok(0) | Err(_) => {
                    let how = self.launched.0.wait().map_err(|e| e.to_string())?;
                    let mut said = String::new();
                    // Without its words how it ended is all there is to tell.
                    let _ = self.complaints.rewind();
                    let _ = self.complaints.read_to_string(&mut said);
                    let said = words(&said).map_or_else(String::new, |said| format!(": {said}"));
                    return Err(format!("its process ended with {how}{said}"));
                }
                // (A library may print something of its own.)
                Ok(_) => {
                    if let Ok(answer) = serde_json::from_str(&line) {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    fn took(&mut self) -> Result<Option<(f64, f64)>, String> {
        match self.answer()? {
            Answer::Took(took) => Ok(took),
            Answer::Failed(why) => Err(why),
            Answer::Ready(_) => Err("it answers what was not asked".into()),
        }
    }

    /// Makes the datatype there and has what it packs and unpacks compared.
    pub(super) fn prepare(&mut self, shape: &Shape, offset: usize) -> Result<(), String> {
        self.say(&Question::Measure(shape.clone(), offset))?;
        self.took().map(drop)
    }

    /// Nanoseconds of a run, pack and unpack, in one more round.
    pub(super) fn round(&mut self) -> Result<(f64, f64), String> {
        self.say(&Question::Round)?;
        self.took()?.ok_or_else(|| "it measured nothing".to_owned())
    }

    /// No more rounds of this description.
    pub(super) fn enough(&mut self) -> Result<(), String> {
        self.say(&Question::Enough)
    }
}

/// A file in memory that has no name.
fn unnamed() -> std::io::Result<File> {
    // SAFETY: a C string.
    let fd = unsafe { libc::memfd_create(c"rankway-pack".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its questions is its end.
        self.ask = None;
        // It may have ended already.
        let _ = self.launched.0.wait();
    }
}

/// The answering end: the process with the library.
pub(super) fn serve(library: &str) -> ExitCode {
    // Ctrl-C is for the one who asks; its end is the end of questions here.
    // SAFETY: a signal is ignored, no handler of ours runs.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let folder = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|folder| ours(folder));
    if let Some(folder) = &folder {
        // Without it the library says what it misses.
        let _ = std::fs::create_dir_all(folder);
    }
    let (tell, told) = channel();
    let left = folder.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
        // Nobody is there any more, whatever is being measured.
        drop(tell);
        std::thread::sleep(std::time::Duration::from_millis(500));
        remove(left.as_deref());
        // SAFETY: ends the process without the library's own handlers.
        unsafe { libc::_exit(0) };
    });
    let failed = |why: String| say(&Answer::Failed(why));
    // SAFETY: its signal ends this process alone.
    unsafe { libc::alarm(LIMIT) };
    let opened = library::open(library);
    // SAFETY: takes it back.
    unsafe { libc::alarm(0) };
    match opened {
        Err(why) => {
            failed(why);
            return ExitCode::SUCCESS;
        }
        Ok(mpi) => {
            say(&Answer::Ready(mpi.version()));
            while let Ok(line) = told.recv() {
                let Ok(Question::Measure(shape, offset)) = serde_json::from_str(&line) else {
                    continue;
                };
                let mut next = |took| {
                    say(&Answer::Took(took));
                    again(&told)
                };
                if let Err(why) = mpi.measure(&shape, offset, &mut next) {
                    failed(why);
                }
            }
            mpi.finalize();
        }
    }
    remove(folder.as_deref());
    ExitCode::SUCCESS
}

fn again(told: &Receiver<String>) -> bool {
    let line = told.recv().unwrap_or_default();
    matches!(serde_json::from_str(&line), Ok(Question::Round))
}

/// Returns true for the folder of such a process.
fn ours(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("rankway-pack-"))
}

fn remove(folder: Option<&Path>) {
    if let Some(folder) = folder {
        // The other end does so too.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn say(answer: &Answer) {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // Who does not hear has ended; the end of questions follows.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}
