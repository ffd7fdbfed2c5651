//! Window memory that the processes of a node share.
//!
//! One anonymous memory file (memfd_create(2)) for each node, made by its
//! first member and opened by the others through `/proc/<pid>/fd`: it has no
//! name, so nothing is left behind whatever way the processes end, and it is
//! not bound by the size of `/dev/shm`.

use super::{Error, ErrorKind};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// A page; parts of a segment start on one.
pub(super) const PAGE: usize = 4096;

/// Memory for a window: a node's shared file mapped whole, or private.
#[derive(Debug)]
pub(super) struct Segment {
    start: *mut u8,
    len: usize,
}

// SAFETY: a segment is an address range; who may touch which bytes is for the
// window to say.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Makes the file of a node's segment, still empty.
pub(super) fn create() -> io::Result<File> {
    // SAFETY: a static C string; the descriptor is ours alone.
    let fd = unsafe { libc::memfd_create(c"rankway-window".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Opens the file another process of this node made.
pub(super) fn open(pid: u32, fd: i32) -> io::Result<File> {
    let path = format!("/proc/{pid}/fd/{fd}");
    File::options().read(true).write(true).open(path)
}

impl Segment {
    /// Maps a file of `len` bytes, making it that long first.
    pub(super) fn map(file: &File, len: usize) -> io::Result<Segment> {
        file.set_len(len as u64)?;
        Segment::mmap(len, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Memory of this process alone.
    pub(super) fn private(len: usize) -> Result<Segment, Error> {
        Segment::mmap(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
            .map_err(|source| ErrorKind::Memory { what: format!("{len} bytes"), source }.into())
    }

    fn mmap(len: usize, flags: i32, fd: i32) -> io::Result<Segment> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), len.max(PAGE), prot, flags, fd, 0) };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Segment { start: p.cast(), len: len.max(PAGE) })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by us; the window that hands out addresses in it holds
        // it until it is gone itself.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
