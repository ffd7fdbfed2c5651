//! What a command has beside its own memory while it runs: directories among temporary files, and
//! programs that it launched. They go with it, also where a signal or want of memory ends it.

use crate::signals::handle;
use rankway_cli::observe::memory;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Signals that end a command.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How long a program that is asked to end may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A directory among temporary files that goes with this.
pub(crate) struct Temporary(PathBuf);

/// A program that is ended if this process is.
pub(crate) struct Launched(pub(crate) Child);

struct Left {
    directories: Vec<PathBuf>,
    /// Their process numbers.
    programs: Vec<u32>,
    watch: Option<Watch>,
}

/// While there is something.
struct Watch {
    /// What signals did before.
    before: [Option<libc::sigaction>; SIGNALS.len()],
    /// To the thread.
    pipe: PipeWriter,
    thread: JoinHandle<()>,
}

static LEFT: Mutex<Left> =
    Mutex::new(Left { directories: Vec::new(), programs: Vec::new(), watch: None });

/// Where the handler writes its signal.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The thread that reads it, for the system.
static THREAD: AtomicI32 = AtomicI32::new(0);

/// No signal: there is nothing left.
const END: u8 = 0;

fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Temporary {
    /// Makes the directory of this name.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(name: &str) -> io::Result<Temporary> {
        let path = std::env::temp_dir().join(name);
        let mut left = left();
        left.watch();
        left.directories.push(path.clone());
        // (It goes from the list if it cannot be made.)
        drop(left);
        let made = Temporary(path);
        fs::create_dir_all(&made.0)?;
        Ok(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = fs::remove_dir_all(&self.0);
        let mut left = left();
        let at = left.directories.iter().position(|path| *path == self.0);
        at.map(|at| left.directories.swap_remove(at));
        unwatch(left);
    }
}

impl Launched {
    /// Starts one that signals come to from here alone, in a process group of its own: a launcher
    /// that gets two at once leaves its ranks behind.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn alone(command: &mut Command) -> io::Result<Launched> {
        command.process_group(0);
        // SAFETY: prctl(2) may be called between fork and exec.
        unsafe {
            // By SIGKILL to this process nothing else would tell it.
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        Launched::spawn(command)
    }

    /// Starts one.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Launched> {
        let mut left = left();
        let child = command.spawn()?;
        left.watch();
        left.programs.push(child.id());
        Ok(Launched(child))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let mut left = left();
        left.programs.retain(|&pid| pid != self.0.id());
        unwatch(left);
    }
}

impl Left {
    fn is_empty(&self) -> bool {
        self.directories.is_empty() && self.programs.is_empty()
    }

    /// Watches for signals while there is something. (Jobs are forked at other times: by a process
    /// of one thread, without this handler.)
    #[cold]
    fn watch(&mut self) {
        if self.watch.is_some() {
            return;
        }
        // Without a descriptor or a thread a signal ends the process as it does others.
        let Ok((read, pipe)) = io::pipe() else { return };
        let Ok(thread) = thread::Builder::new().spawn(|| listen(read)) else { return };
        memory::at_refusal(refused);
        PIPE.store(pipe.as_raw_fd(), Ordering::SeqCst);
        let came = came as *const () as usize;
        // SAFETY: the handler only calls write(2).
        let before = SIGNALS.map(|signal| unsafe { handle(signal, came, libc::SA_RESTART) });
        self.watch = Some(Watch { before, pipe, thread });
    }

    /// Ends programs and removes directories.
    #[cold]
    fn clear(&self) {
        for &pid in self.programs.iter().filter(|&&pid| runs(pid)) {
            // SAFETY: a process of ours that was not waited for.
            unsafe { libc::kill(pid as i32, libc::SIGTERM) };
        }
        let start = Instant::now();
        for &pid in &self.programs {
            while runs(pid) {
                if start.elapsed() > PATIENCE {
                    // SAFETY: as above; a group of this number is its own.
                    unsafe {
                        libc::kill(-(pid as i32), libc::SIGKILL);
                        libc::kill(pid as i32, libc::SIGKILL)
                    };
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        for path in &self.directories {
            // What is left lies among temporary files.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Returns true for a process of ours that has not ended.
fn runs(pid: u32) -> bool {
    // SAFETY: all-zero is a valid siginfo_t.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a structure of ours, which the call fills; nothing is reaped.
    let known = unsafe { libc::waitid(libc::P_PID, pid, &mut ended, options) } == 0;
    // SAFETY: filled by waitid, or all zero.
    known && unsafe { ended.si_pid() } == 0
}

/// Where nothing is left signals do what they did.
#[cold]
fn unwatch(mut left: MutexGuard<'_, Left>) {
    if !left.is_empty() {
        return;
    }
    let Some(Watch { before, mut pipe, thread }) = left.watch.take() else { return };
    for (signal, before) in SIGNALS.into_iter().zip(before) {
        if let Some(action) = before {
            // SAFETY: what the system said was there.
            unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        }
    }
    // One that a signal came to takes the lock, and ends the process.
    drop(left);
    // (Its end is there for as long as it reads.)
    let _ = pipe.write_all(&[END]);
    let _ = thread.join();
    let number = THREAD.load(Ordering::SeqCst);
    // The system counts it a little longer, and forked jobs are of processes of one thread.
    let task = PathBuf::from(format!("/proc/self/task/{number}"));
    let start = Instant::now();
    while task.exists() && start.elapsed() < PATIENCE {
        thread::yield_now();
    }
}

/// Does what a handler must not.
fn listen(mut read: PipeReader) {
    // SAFETY: gettid(2) takes nothing.
    THREAD.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    let mut signal = [END];
    if read.read_exact(&mut signal).is_err() || signal == [END] {
        return;
    }
    // Held to the end: nothing new is made.
    let left = left();
    left.clear();
    // SAFETY: the default takes the handler's place, and ends the process.
    unsafe {
        libc::signal(signal[0].into(), libc::SIG_DFL);
        libc::raise(signal[0].into());
    }
}

extern "C" fn came(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: errno is the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: write(2) may be called in a handler; one byte of the stack.
    unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Before a process without memory ends.
fn refused() {
    // Who holds it may be who was refused.
    if let Ok(left) = LEFT.try_lock() {
        left.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_go_and_signals_are_as_before() {
        let name = format!("rankway-temporary-{}", std::process::id());
        let made = Temporary::new(&name).expect("made");
        let path = made.path().to_owned();
        fs::create_dir(path.join("inner")).expect("made");
        assert!(path.is_dir());
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn programs_and_directories_are_cleared() {
        let path = std::env::temp_dir().join(format!("rankway-cleared-{}", std::process::id()));
        fs::create_dir(&path).expect("made");
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().expect("runs");
        let (directories, programs) = (vec![path.clone()], vec![child.id()]);
        Left { directories, programs, watch: None }.clear();
        assert!(!path.exists() && !runs(child.id()));
        assert!(!child.wait().expect("a child").success());
    }
}
