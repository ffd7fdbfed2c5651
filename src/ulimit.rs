//! What the limits of this process leave it, and what to say where they end.
//!
//! Libraries answer the system's refusals with codes of their own, or crash, so
//! their errors are looked at in the light of what can still be had.

use std::fs::File;
use std::io;

/// Returns true if the system refused a descriptor.
pub(crate) fn no_descriptor(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// What was opened, if it could be.
///
/// # Errors
/// Where the process may open no more descriptors.
pub(crate) fn unless_full<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if no_descriptor(&error) => Err(error),
        other => Ok(other.ok()),
    }
}

/// The text of an error, with the remedy where a limit has been reached: a
/// library may have given a little back by the time its error is looked at.
pub(crate) fn explained(text: String) -> String {
    /// Libraries ask for their queues and pools at once.
    const LITTLE: u64 = 128 << 20;
    const FEW: usize = 4;
    /// A process's part of the node's shared memory is some of these.
    const SCANTY: u64 = 4 << 20;
    if lacks_descriptors::<FEW>() {
        return format!("{text}; this process may open no more descriptors; raise `ulimit -n`");
    }
    if let Some(most) = files_end_before(SCANTY) {
        return format!("{text}; files of this process end at {most} bytes; raise `ulimit -f`");
    }
    match (memory(), shared_memory()) {
        (Some((left, option)), _) if left < LITTLE => {
            format!("{text}; this process may map {left} bytes more; raise `ulimit -{option}`")
        }
        (_, Some(left)) if left < SCANTY => {
            format!("{text}; /dev/shm has space for {left} bytes more; make it larger, or empty")
        }
        _ => text,
    }
}

/// Whether this process may make names in the node's shared memory.
///
/// # Errors
/// It is not there, read-only, or another's.
pub(crate) fn check_shared_memory() -> std::io::Result<()> {
    // SAFETY: a C string.
    match unsafe { libc::access(c"/dev/shm".as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Bytes that there is space for in the node's shared memory, none without a name to give;
/// `None` where that cannot be asked for.
pub(crate) fn shared_memory() -> Option<u64> {
    // SAFETY: all-zero is a valid statvfs, which the call fills.
    let mut fs: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string and a structure of ours.
    let known = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut fs) } == 0;
    let named = fs.f_files == 0 || fs.f_favail > 0;
    known.then(|| if named { fs.f_bavail as u64 * fs.f_frsize as u64 } else { 0 })
}

/// Returns true if connections are held up for want of descriptors: there is none
/// left, and either one is asked for (`asked`) or somebody calls at a socket of
/// this process.
#[cold]
pub(crate) fn starves(asked: bool) -> bool {
    lacks_descriptors::<1>() && (asked || is_called())
}

/// Returns true if a connection waits at a socket of this process to be accepted.
fn is_called() -> bool {
    /// Sockets are among the first descriptors, in any process of some use.
    const MOST: libc::c_int = 4096;
    let calls = |fd: libc::c_int| {
        let mut listens: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        let place = (&raw mut listens).cast();
        // SAFETY: a number and its length, both local; what is no socket is refused.
        let rc = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, place, &raw mut len)
        };
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, local.
        rc == 0 && listens != 0 && unsafe { libc::poll(&raw mut entry, 1, 0) } == 1
    };
    (0..MOST).any(calls)
}

/// Returns true if this process may not open `N` descriptors more.
pub(crate) fn lacks_descriptors<const N: usize>() -> bool {
    let mut spare: [Option<File>; N] = std::array::from_fn(|_| None);
    for place in &mut spare {
        match File::open("/dev/null") {
            Ok(file) => *place = Some(file),
            Err(error) => return no_descriptor(&error),
        }
    }
    false
}

/// The bytes that a file of this process may have, where those are fewer than so many: a process
/// that makes one longer is ended by SIGXFSZ.
pub(crate) fn files_end_before(bytes: u64) -> Option<u64> {
    limit(libc::RLIMIT_FSIZE).filter(|&most| most < bytes)
}

/// Refuses a file of so many bytes where it may not be as long.
pub(crate) fn may_have(bytes: u64) -> io::Result<()> {
    match files_end_before(bytes) {
        Some(_) => Err(io::Error::from_raw_os_error(libc::EFBIG)),
        None => Ok(()),
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// What a resource of this process is limited to; `None` where it is not, or that cannot be read.
pub(crate) fn limit(of: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: a structure of ours, which the call fills.
    let known = unsafe { libc::getrlimit(of, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Processes that there can be at most, of this user or at all; `None` where no limit can be
/// read.
pub(crate) fn processes() -> Option<u64> {
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    let all = ["/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"].into_iter();
    let own = limit(libc::RLIMIT_NPROC).filter(|_| is_bound());
    all.filter_map(number).chain(own).min()
}

/// Returns true if the limit on a user's processes binds this one: not where it has the
/// system's leave (CAP_SYS_ADMIN, CAP_SYS_RESOURCE), or that cannot be read.
fn is_bound() -> bool {
    const EXEMPT: u64 = 1 << 21 | 1 << 24;
    // SAFETY: has no arguments and cannot fail.
    let is_root = unsafe { libc::getuid() } == 0;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    !is_root && capabilities.is_some_and(|bits| bits & EXEMPT == 0)
}

/// Returns true if the system has refused this thread memory since [`forget_refusal`], by the last
/// call that failed: libraries say that they have no space now, and try again.
pub(crate) fn was_refused() -> bool {
    io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM)
}

/// What was refused until now does not count.
pub(crate) fn forget_refusal() {
    if was_refused() {
        // SAFETY: no descriptor; that it fails is what it is called for.
        unsafe { libc::close(-1) };
    }
}

/// Bytes that this process may still map; `None` where there is no limit, or
/// none that can be read.
pub(crate) fn address_space() -> Option<u64> {
    below(libc::RLIMIT_AS, 0)
}

/// The same of private memory, too, and the option of `ulimit` by which there is no more.
fn memory() -> Option<(u64, char)> {
    let mapped = address_space().map(|left| (left, 'v'));
    let private = below(libc::RLIMIT_DATA, 5).map(|left| (left, 'd'));
    mapped.into_iter().chain(private).min()
}

/// What a limit leaves, of which so much is used as a field of /proc/self/statm says.
fn below(of: Resource, field: usize) -> Option<u64> {
    let most = limit(of)?;
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(field)?.parse().ok()?;
    // SAFETY: asks for a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some(most.saturating_sub(pages * page))
}
