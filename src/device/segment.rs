//! Memory that the processes of a node share.
//!
//! An anonymous memory file (memfd_create(2)), made by one process and opened
//! by the others through `/proc/<pid>/fd`: it has no name, so nothing is left
//! behind whatever way the processes end, and it is not bound by the size of
//! `/dev/shm`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// A page; parts of a segment start on one.
pub(crate) const PAGE: usize = 4096;

/// A shared file mapped whole, or private memory.
#[derive(Debug)]
pub(crate) struct Segment {
    start: *mut u8,
    len: usize,
}

// SAFETY: a segment is an address range; who may touch which bytes is for its
// owner to say.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Makes a file, still empty; the name is for those who look into `/proc`.
pub(crate) fn create(name: &CStr) -> io::Result<File> {
    // SAFETY: a C string; the descriptor is ours alone.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Opens the file another process of this node made.
pub(crate) fn open(pid: u32, fd: i32) -> io::Result<File> {
    let path = format!("/proc/{pid}/fd/{fd}");
    File::options().read(true).write(true).open(path)
}

impl Segment {
    /// Maps a file of `len` bytes, making it that long first.
    pub(crate) fn map(file: &File, len: usize) -> io::Result<Segment> {
        file.set_len(len as u64)?;
        Segment::mmap(len, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Memory of this process alone.
    pub(crate) fn private(len: usize) -> io::Result<Segment> {
        Segment::mmap(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
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

    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by us; who hands out addresses in it holds it until it
        // is gone itself.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
