//! The name of a process: process group and lpid.

use core::fmt;

/// The largest lpid: ranks and lpids are `int` in MPI.
pub const LPID_MAX: u32 = i32::MAX as u32;
/// The largest size of a map: sizes are `int` in MPI.
pub const SIZE_MAX: u32 = i32::MAX as u32;

/// A process as the address vectors know it.
///
/// `pg` numbers a process group (an `MPI_COMM_WORLD` and everything spawned or
/// connected later gets its own), `lpid` is the index of the process in the
/// address vector of that group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Process group id (*pgid* in Guo et al. 2017).
    pub pg: u32,
    /// Local process id: the index in the group's address vector.
    pub lpid: u32,
}

impl Process {
    /// The process `lpid` of process group `pg`.
    #[inline]
    pub const fn new(pg: u32, lpid: u32) -> Process {
        Process { pg, lpid }
    }

    /// Group in the high half, lpid in the low half: the element of an mlut.
    #[inline]
    pub(super) const fn pack(self) -> u64 {
        (self.pg as u64) << 32 | self.lpid as u64
    }

    #[inline]
    pub(super) const fn unpack(packed: u64) -> Process {
        Process { pg: (packed >> 32) as u32, lpid: packed as u32 }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pg, self.lpid)
    }
}
