//! By which a process that sleeps is woken.
//!
//! A [`Bell`] lies in the memory that senders share with the receiver: the
//! [wake flag](super::wake_flag), and the pipe to write to. The receiver has a
//! [`Sleeper`] beside it. Whoever sends rings the bell behind its packet, which is one
//! look at the flag while the receiver is awake.

use super::barrier;
use super::segment;
use super::wake_flag::WakeFlag;
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Zeros are a bell of somebody who is awake.
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// The receiver sleeps: whoever sends writes to the pipe.
    wake_flag: WakeFlag,
    /// The pipe's descriptor in the receiver's process, plus one, and its inode.
    pipe: AtomicI32,
    pipe_inode: AtomicU64,
}

impl Bell {
    /// This process will send. Before its first packet.
    pub(crate) fn join(&self) {
        if !barrier::join() {
            self.demand_fences();
        }
    }

    /// All senders fence, from their next packet on.
    pub(crate) fn demand_fences(&self) {
        self.wake_flag.demand_fences();
    }

    /// Wakes the receiver, process `pid`, if it sleeps. Behind a packet.
    #[inline(always)]
    pub(crate) fn ring(&self, pid: u32) {
        if self.wake_flag.is_set() {
            self.wake(pid);
        }
    }

    /// Wakes the receiver, which may just have woken.
    #[cold]
    #[inline(never)]
    fn wake(&self, pid: u32) {
        if self.wake_flag.claim() {
            let _ = self.write_to_pipe(pid);
        }
    }

    /// Writes to the pipe that a process has under the descriptor, if it is the one
    /// that is meant: the process may be gone, and its number another's.
    fn write_to_pipe(&self, pid: u32) -> io::Result<()> {
        let found = segment::open_path(pid, self.pipe.load(Ordering::Acquire) - 1)?;
        let known = found.metadata()?;
        if known.file_type().is_fifo() && known.ino() == self.pipe_inode.load(Ordering::Relaxed) {
            // For reading too: a write behind the last reader would raise SIGPIPE.
            let mut options = File::options();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            options.open(segment::own_path(&found))?.write_all(&[1])?;
        }
        Ok(())
    }
}

/// The receiver's side of a bell.
pub(crate) struct Sleeper {
    /// All senders fence, from their first packet on.
    fenced: bool,
    /// The flag is set.
    armed: Cell<bool>,
    pipe: OnceCell<(File, OwnedFd)>,
}

impl Sleeper {
    /// Of a bell that nobody has rung yet.
    pub(crate) fn new(bell: &Bell) -> Sleeper {
        let fenced = !barrier::join() || !barrier::raise();
        if fenced {
            bell.demand_fences();
        }
        Sleeper { fenced, armed: Cell::new(false), pipe: OnceCell::new() }
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.get()
    }

    /// The descriptor that becomes readable when the bell is rung.
    pub(crate) fn descriptor(&self, bell: &Bell) -> io::Result<RawFd> {
        if self.pipe.get().is_none() {
            let (read, write) = pipe()?;
            bell.pipe_inode.store(read.metadata()?.ino(), Ordering::Relaxed);
            bell.pipe.store(read.as_raw_fd() + 1, Ordering::Release);
            let _ = self.pipe.set((read, write));
        }
        Ok(self.pipe.get().map_or(-1, |(read, _)| read.as_raw_fd()))
    }

    /// What this thread may sleep on now, if it may: there is no `news`, which is asked
    /// once every sender rings.
    pub(crate) fn arm(&self, bell: &Bell, news: impl FnOnce() -> bool) -> Option<RawFd> {
        let descriptor = self.descriptor(bell).ok()?;
        self.armed.set(true);
        let may = bell.wake_flag.set(|| self.fenced || barrier::raise());
        if news() || !may {
            self.wake_up(bell);
            return None;
        }
        Some(descriptor)
    }

    #[cold]
    pub(crate) fn wake_up(&self, bell: &Bell) {
        self.armed.set(false);
        bell.wake_flag.clear();
        if let Some((read, _)) = self.pipe.get() {
            // What is left wakes the next sleep for nothing, once.
            let _ = (&*read).read(&mut [0; 64]);
        }
    }

    /// The descriptor's number may be another file's soon: nobody rings any more.
    pub(crate) fn leave(&self, bell: &Bell) {
        bell.wake_flag.clear();
    }
}

/// A pipe whose ends do not block.
fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array holds two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, ours alone.
    Ok(unsafe { (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
