//! Memory that the processes of a node share.
//!
//! An anonymous memory file (memfd_create(2)), made by one process and opened
//! by the others through `/proc/<pid>/fd`: it has no name, so nothing is left
//! behind whatever way the processes end, and it is not bound by the size of
//! `/dev/shm`.
//!
//! A pid and a descriptor's number mean something else in another pid
//! namespace, or when the process is gone. So a [`Place`] also says which file
//! it means, by its inode and by random bits in the name it was made with, and
//! whoever opens it looks at these first: a file that is not meant is neither
//! opened nor changed. Its length is for the maker alone to set, once.

use crate::process::{ProcessId, random};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

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

/// A memory file that this process makes.
#[derive(Debug)]
pub(crate) struct Shared {
    file: File,
    place: Place,
}

impl Shared {
    /// Makes a file, still empty; the name is for those who look into `/proc`.
    pub(crate) fn create(name: &'static str) -> io::Result<Shared> {
        let nonce = u64::from_le_bytes(random()?);
        let name = CString::new(format!("{name}-{nonce:016x}"))?;
        // SAFETY: a C string; the descriptor is ours alone.
        let fd = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened.
        let file = unsafe { File::from_raw_fd(fd) };
        let (known, maker) = (file.metadata()?, ProcessId::current());
        let place = Place {
            pid: maker.pid,
            fd,
            pid_namespace: maker.pid_namespace,
            device: known.dev(),
            inode: known.ino(),
            nonce,
        };
        Ok(Shared { file, place })
    }

    /// Where others find it.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The descriptor that others open it by; to be kept until they have.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Maps it, giving it its length for good.
    pub(crate) fn map(&self, len: usize) -> io::Result<Segment> {
        crate::ulimit::may_have(len as u64)?;
        self.file.set_len(len as u64)?;
        // SAFETY: a descriptor of ours and a number.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, FINAL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Segment::map(&self.file, len)
    }
}

/// Seals of a file whose length is final, as are the seals.
const FINAL: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Returns true if a file has this length and will keep it, so that memory
/// mapped from it cannot vanish.
pub(crate) fn is_final(file: &File, len: usize) -> bool {
    // SAFETY: a descriptor of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & FINAL == FINAL && file.metadata().is_ok_and(|m| m.len() == len as u64)
}

/// What a peer needs to find a memory file, and to be sure of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pid: u32,
    pub(crate) fd: i32,
    pub(crate) pid_namespace: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Random bits in the file's name.
    pub(crate) nonce: u64,
}

impl Place {
    pub(crate) const LEN: usize = 40;
    pub(crate) const BESIDE: usize = 28;

    pub(crate) fn encode(&self) -> [u8; Place::LEN] {
        let mut out = [0; Place::LEN];
        out[..4].copy_from_slice(&self.pid.to_le_bytes());
        out[4..8].copy_from_slice(&self.fd.to_le_bytes());
        let words = [self.pid_namespace, self.device, self.inode, self.nonce];
        for (place, word) in out[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(b: &[u8; Place::LEN]) -> Place {
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        Place {
            pid: half(0),
            fd: half(4) as i32,
            pid_namespace: word(8),
            device: word(16),
            inode: word(24),
            nonce: word(32),
        }
    }

    /// The same of a file of a process that a place of is known.
    pub(crate) fn encode_beside(&self) -> [u8; Place::BESIDE] {
        let whole = self.encode();
        let mut out = [0; Place::BESIDE];
        out[..4].copy_from_slice(&whole[4..8]);
        out[4..].copy_from_slice(&whole[16..]);
        out
    }

    /// Reads what [`Place::encode_beside`] wrote, of the process of this place.
    pub(crate) fn decode_beside(&self, b: &[u8; Place::BESIDE]) -> Place {
        let mut whole = self.encode();
        whole[4..8].copy_from_slice(&b[..4]);
        whole[16..].copy_from_slice(&b[4..]);
        Place::decode(&whole)
    }

    /// Returns true if its pid means the same process here.
    pub(crate) fn is_near(&self) -> bool {
        self.pid_namespace != 0 && self.pid_namespace == ProcessId::current().pid_namespace
    }

    /// Opens the file. Whatever else goes by that number is left alone.
    pub(crate) fn open(&self) -> io::Result<File> {
        if !self.is_near() {
            return Err(io::Error::other("it is in another pid namespace"));
        }
        // A descriptor of the path only: nothing happens to what it names.
        let found = open_path(self.pid, self.fd)?;
        let known = found.metadata()?;
        let name = std::fs::read_link(own_path(&found))?;
        let is_meant = known.is_file()
            && (known.dev(), known.ino()) == (self.device, self.inode)
            && name_ends_with(&name, self.nonce);
        if !is_meant {
            return Err(io::Error::other("another file goes by that descriptor"));
        }
        File::options().read(true).write(true).open(own_path(&found))
    }
}

/// Opens what a process has under a descriptor, without touching it: to be
/// looked at, and opened by [`own_path`] if it is what was looked for.
pub(crate) fn open_path(pid: u32, fd: i32) -> io::Result<File> {
    let path = format!("/proc/{pid}/fd/{fd}");
    File::options().read(true).custom_flags(libc::O_PATH).open(path)
}

/// The path by which this process opens again what it has open.
pub(crate) fn own_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// `/memfd:<what>-<nonce> (deleted)`, as the kernel calls memory files.
fn name_ends_with(name: &Path, nonce: u64) -> bool {
    let name = name.to_str().and_then(|n| n.strip_suffix(" (deleted)"));
    name.is_some_and(|n| n.starts_with("/memfd:") && n.ends_with(&format!("-{nonce:016x}")))
}

impl Segment {
    /// Maps `len` bytes of a file. They may be touched once it is known to be
    /// that long ([`is_final`]).
    pub(crate) fn map(file: &File, len: usize) -> io::Result<Segment> {
        Segment::mmap(len, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Memory of this process alone.
    pub(crate) fn private(len: usize) -> io::Result<Segment> {
        Segment::mmap(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn mmap(len: usize, flags: i32, fd: i32) -> io::Result<Segment> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // (Miri knows no such flag.)
        let flags = flags | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
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

    /// Gives pages of a shared file back: they are zeros for all who have it mapped. Returns
    /// false where the system refuses. Nobody uses what is in them any more.
    pub(crate) fn clear(&self, offset: usize, len: usize) -> bool {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: within the mapping; memory stays mapped, and of no type that zeros are
        // no value of.
        unsafe { libc::madvise(self.start.add(offset).cast(), len, libc::MADV_REMOVE) == 0 }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by us; who hands out addresses in it holds it until it
        // is gone itself.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _, Write as _};

    #[test]
    fn a_file_is_found_by_its_place_and_keeps_its_length() {
        let shared = Shared::create("rankway-test").unwrap();
        let place = shared.place();
        assert_eq!(Place::decode(&place.encode()), place);
        let found = place.open().unwrap();
        // Mapped before it has its length, used after.
        let theirs = Segment::map(&found, 3 * PAGE).unwrap();
        assert!(!is_final(&found, 3 * PAGE));
        let ours = shared.map(3 * PAGE).unwrap();
        assert!(is_final(&found, 3 * PAGE) && !is_final(&found, PAGE));
        // SAFETY: both mapped, and the file is that long now.
        unsafe { ours.start().add(2 * PAGE).write(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { theirs.start().add(2 * PAGE).read() }, 7);
        assert!(found.set_len(PAGE as u64).is_err() && found.set_len(9 * PAGE as u64).is_err());
    }

    /// What a pid and a number mean in another namespace: some file of this
    /// process.
    #[test]
    fn another_file_under_the_number_is_left_alone() {
        let shared = Shared::create("rankway-test").unwrap();
        let other = Shared::create("rankway-test").unwrap();
        let path = std::env::temp_dir().join(format!("rankway-place-{}", std::process::id()));
        let mut plain = File::create_new(&path).unwrap();
        plain.write_all(b"precious").unwrap();
        let place = shared.place();
        let at = |file: &File| Place { fd: file.as_raw_fd(), ..place };
        let (theirs, number) = (other.place(), other.place().fd);
        assert!(at(&plain).open().is_err());
        assert!(at(&other.into_file()).open().is_err());
        // The kernel may give an inode's number again.
        assert!(Place { nonce: theirs.nonce ^ 1, ..theirs }.open().is_err());
        assert!(Place { fd: number + 1000, ..place }.open().is_err());
        assert!(Place { pid_namespace: place.pid_namespace ^ 1, ..place }.open().is_err());
        assert!(Place { pid_namespace: 0, ..place }.open().is_err());
        assert!(place.open().is_ok());
        let mut text = String::new();
        plain.rewind().unwrap();
        File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "precious");
        std::fs::remove_file(path).unwrap();
    }
}
