//! Memory of another process, copied by the system: process_vm_readv(2) and
//! process_vm_writev(2).
//!
//! # Contracts
//! - **\[SIDE\]** This process's side of a copy is readable for `len` bytes, writable
//!   where bytes come in. (The system checks the other side.)

use std::io;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Out of the other process's memory.
    Out,
    /// Into it.
    Into,
}

impl Direction {
    /// Bytes copied between lists of stretches, or a negative answer.
    ///
    /// # Safety
    /// \[SIDE\] for each stretch of `local`.
    unsafe fn copy(self, pid: u32, local: &[libc::iovec], remote: &[libc::iovec]) -> isize {
        let (l, r) = (local.len() as u64, remote.len() as u64);
        let (pid, local, remote) = (pid as i32, local.as_ptr(), remote.as_ptr());
        // SAFETY: [SIDE]; both lists are as long as said.
        unsafe {
            match self {
                Direction::Out => libc::process_vm_readv(pid, local, l, remote, r, 0),
                Direction::Into => libc::process_vm_writev(pid, local, l, remote, r, 0),
            }
        }
    }
}

/// A number that processes of a machine share if they may attach to each other, as far
/// as this one can tell: its user, namespaces and capabilities (ptrace(2), "Ptrace
/// access mode checking"); `None` where nobody may, this one may not ask, or what else
/// the module for the node needs of the system is not there.
pub(crate) fn domain() -> Option<u64> {
    const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    let scope = std::fs::read_to_string(SCOPE).unwrap_or_default();
    // SAFETY: it answers a number.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 1;
    if matches!(scope.trim(), "2" | "3") || !dumpable {
        return None;
    }
    // A filter of system calls may forbid it.
    let (from, mut to) = (1_u64, 0_u64);
    let there = (&raw const from).expose_provenance() as u64;
    let here = (&raw mut to).cast();
    // SAFETY: two words of this process's own.
    unsafe { copy(Direction::Out, std::process::id(), there, here, size_of_val(&from)) }.ok()?;
    // Before Linux 5.3, under valgrind and in some containers there is none.
    crate::process::pidfd_open(std::process::id()).ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let me = crate::process::ProcessId::current();
    let mut known = me.machine.to_vec();
    // (Unknown where /proc is another namespace's, and with it peers' memory files.)
    for namespace in [me.pid_namespace, crate::process::namespace("user")] {
        known.extend((namespace != 0).then_some(namespace)?.to_le_bytes());
    }
    for line in status.lines() {
        if ["Uid:", "Gid:", "CapPrm:"].iter().any(|key| line.starts_with(key)) {
            known.extend(line.bytes());
        }
    }
    Some(crate::process::fnv1a(&known).max(1))
}

/// Copies between `here` and the memory of another process at `there`.
///
/// # Errors
/// What the system refuses: it may be forbidden (ptrace_scope), the process
/// may be gone, or `there` not its memory. Part may have been copied.
///
/// # Safety
/// \[SIDE\].
pub(crate) unsafe fn copy(
    direction: Direction,
    pid: u32,
    there: u64,
    here: *mut u8,
    len: usize,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let stretch = |start: *mut u8| libc::iovec {
            iov_base: start.wrapping_add(done).cast(),
            iov_len: len - done,
        };
        let remote = stretch(there as usize as *mut u8);
        // SAFETY: [SIDE].
        match unsafe { direction.copy(pid, &[stretch(here)], &[remote]) } {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n < 0 => return Err(io::Error::last_os_error()),
            n => done += n as usize,
        }
    }
    Ok(())
}

/// Copies out of another process's memory at `there`, and behind it a word at `word`, which is as
/// it was when all had been copied.
///
/// # Errors
/// As [`copy`].
///
/// # Safety
/// \[SIDE\].
pub(crate) unsafe fn copy_and_read(
    pid: u32,
    there: u64,
    here: *mut u8,
    len: usize,
    word: u64,
) -> io::Result<u64> {
    let mut said = 0_u64;
    let to = (&raw mut said).cast::<u8>();
    let stretch =
        |start: *mut u8, len| libc::iovec { iov_base: start.cast::<libc::c_void>(), iov_len: len };
    if len <= AT_ONCE {
        let local = [stretch(here, len), stretch(to, 8)];
        let remote =
            [stretch(there as usize as *mut u8, len), stretch(word as usize as *mut u8, 8)];
        // SAFETY: [SIDE]; a word of this process's own.
        match unsafe { Direction::Out.copy(pid, &local, &remote) } {
            n if n < 0 => return Err(io::Error::last_os_error()),
            n if n as usize == len + 8 => return Ok(said),
            _ => {}
        }
    }
    // SAFETY: as above.
    unsafe {
        copy(Direction::Out, pid, there, here, len)?;
        copy(Direction::Out, pid, word, to, 8)?;
    }
    Ok(said)
}

/// Stretches of another process's memory, and those here that they go with. Kept, so that
/// its lists are allocated once.
pub(crate) struct Copies {
    direction: Direction,
    pid: u32,
    local: Vec<libc::iovec>,
    remote: Vec<libc::iovec>,
    bytes: usize,
    /// The first copy that was refused; nothing was done behind it.
    result: io::Result<()>,
}

/// Stretches that the system takes at a call (`UIO_MAXIOV`), and bytes that it
/// surely copies at one.
const STRETCHES: usize = 1024;
const AT_ONCE: usize = 1 << 30;

impl Copies {
    pub(crate) fn new(direction: Direction, pid: u32) -> Copies {
        Copies { direction, pid, local: Vec::new(), remote: Vec::new(), bytes: 0, result: Ok(()) }
    }

    /// Goes on in this direction, behind what was added in another.
    pub(crate) fn set_direction(&mut self, direction: Direction) {
        if direction != self.direction {
            self.copy_all();
            self.direction = direction;
        }
    }

    /// Copies a stretch, with others or later.
    ///
    /// # Safety
    /// \[SIDE\] until [`Copies::copy_all`] or [`Copies::finish`].
    pub(crate) unsafe fn add(&mut self, mut there: u64, mut here: *mut u8, mut len: usize) {
        while len > 0 && self.result.is_ok() {
            let full = self.local.len() >= STRETCHES || self.remote.len() >= STRETCHES;
            if full || self.bytes >= AT_ONCE {
                self.copy_all();
                continue;
            }
            let some = len.min(AT_ONCE - self.bytes);
            extend(&mut self.remote, there as usize as *mut u8, some);
            extend(&mut self.local, here, some);
            self.bytes += some;
            (there, here, len) = (there + some as u64, here.wrapping_add(some), len - some);
        }
    }

    /// Copies what is left, and begins anew. Part may have been copied where it fails.
    ///
    /// # Errors
    /// As [`copy`].
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.copy_all();
        std::mem::replace(&mut self.result, Ok(()))
    }

    /// Returns true if a copy was refused since the last [`Copies::finish`].
    pub(crate) fn has_failed(&self) -> bool {
        self.result.is_err()
    }

    /// Copies what was added, unless something before was refused.
    pub(crate) fn copy_all(&mut self) {
        if self.bytes > 0 && self.result.is_ok() {
            self.copy();
        }
        self.local.clear();
        self.remote.clear();
        self.bytes = 0;
    }

    fn copy(&mut self) {
        // SAFETY: [SIDE], as `add` has it.
        let n = unsafe { self.direction.copy(self.pid, &self.local, &self.remote) };
        if n < 0 {
            self.result = Err(io::Error::last_os_error());
        } else if n as usize != self.bytes {
            self.result = Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Appends a stretch, or makes the last one longer.
fn extend(list: &mut Vec<libc::iovec>, start: *mut u8, len: usize) {
    match list.last_mut() {
        Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == start.cast() => {
            last.iov_len += len;
        }
        _ => list.push(libc::iovec { iov_base: start.cast(), iov_len: len }),
    }
}
