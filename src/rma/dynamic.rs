//! Dynamic windows: memory is attached and detached while the window lives.
//!
//! Peers name memory by its address at the target, which the program has to
//! tell them, as with MPI. All operations go as packets (`packets.rs`) and are
//! checked against what is attached at that time: an address that was detached gives
//! an error, and nothing is registered with a provider.

use super::Error;
#[allow(unused_imports, reason = "for the documentation")]
use super::ErrorKind;
use super::window::Window;
use crate::netmod::Netmod;

impl<N: Netmod> Window<N> {
    /// Attaches memory of this process to a dynamic window. The answer is
    /// the displacement by which peers name its first byte.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a window that has memory of its own, a null
    /// address, or memory that overlaps with what is attached;
    /// [`ErrorKind::Freed`].
    ///
    /// # Safety
    /// \[MEM\]: `start..start + bytes` stays mapped, and is touched by the process
    /// only as MPI's rules for windows allow, until it is detached or the window
    /// is freed or dropped.
    pub unsafe fn attach(&self, start: *mut u8, bytes: usize) -> Result<usize, Error> {
        self.state()?.exposed_region.attach(start, bytes)
    }

    /// Takes attached memory out of the window: what peers ask for from now on
    /// is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for memory that is not attached,
    /// [`ErrorKind::Freed`].
    pub fn detach(&self, start: *const u8) -> Result<(), Error> {
        self.state()?.exposed_region.detach(start.addr())
    }
}
