//! Whether the running Open MPI is the one whose headers were compiled in.
//!
//! Open MPI itself asks for the version of its component interface alone,
//! which is the same in 4.1 and 5.0, whose structures differ.

use crate::ffi;
use std::sync::OnceLock;

/// Major, minor and release number.
pub(crate) type Version = (u32, u32, u32);

/// That of the headers.
pub(crate) const BUILT: Version =
    (ffi::OMPI_MAJOR_VERSION, ffi::OMPI_MINOR_VERSION, ffi::OMPI_RELEASE_VERSION);

/// That of the running library.
pub(crate) fn running() -> Option<Version> {
    static RUNNING: OnceLock<Option<Version>> = OnceLock::new();
    *RUNNING.get_or_init(|| {
        let mut line = [0_u8; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut len = 0;
        // SAFETY: the line is as long as the standard says; callable at any
        // time.
        unsafe { ffi::MPI_Get_library_version(line.as_mut_ptr().cast(), &mut len) };
        parse(std::str::from_utf8(line.get(..len as usize)?).ok()?)
    })
}

/// The version in a line like `Open MPI v4.1.4, package: ...`.
fn parse(line: &str) -> Option<Version> {
    let (_, rest) = line.split_once("Open MPI v")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?, next().unwrap_or(0)))
}

/// Why the running Open MPI cannot be served, if it cannot.
pub(crate) fn mismatch() -> Option<String> {
    let (major, minor, release) = BUILT;
    match running() {
        Some((a, b, _)) if (a, b) == (major, minor) => None,
        Some((a, b, c)) => Some(format!(
            "it was built for Open MPI {major}.{minor} ({major}.{minor}.{release}) and this is \
             {a}.{b}.{c}; build it again with this one's mpicc (make openmpi)"
        )),
        None => Some("the running MPI does not say which Open MPI it is".into()),
    }
}

/// Returns true if the base of a contiguous convertor that pml/cm has not
/// prepared is the user's buffer (from 4.1.8 on), false if it has the type's
/// true lower bound added.
pub(crate) fn base_is_users() -> bool {
    running().is_some_and(|version| version >= (4, 1, 8))
}
