//! Windows: memory that the members of a communicator may reach.
//!
//! `make` has the ways to make one, from the `memory` it takes and what the
//! members tell each other (`exchange`); `fence` ends epochs of all members and
//! the window itself.

mod exchange;
mod fence;
mod make;
mod memory;
mod on_node;

use super::access::Access;
use super::node_barrier::NodeBarrier;
use super::{Communicator, Error, ErrorKind, Hints};
use crate::netmod::Netmod;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::Ordering;

/// Where a window's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Allocated by the window, shared on the node.
    Allocated,
    /// The user's own.
    Created,
    /// Allocated on one node, the regions of all ranks contiguous.
    Shared,
    /// Attached and detached while the window lives.
    Dynamic,
}

/// Whose memory a window is allocated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Shared on the node: a put there is a store. Where it cannot be shared,
    /// [`Backing::Direct`].
    #[default]
    Shared,
    /// The network library's own memory, where it has some (UCX), put to by the
    /// library.
    Provider,
    /// The same memory, with stores where the library has a peer's mapped.
    Direct,
}

/// Memory of every member that the others may put to and get from.
///
/// Operations are those of [`Access`], to which a window dereferences. Dropping
/// a window gives its memory back, and the locks of an epoch that is open, without asking
/// the others; [`Window::free`] waits for them first.
///
/// ```
/// # use std::sync::Arc;
/// use rankway::rma::{Communicator, Window};
///
/// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
/// # let context = rankway::device::open_null(boot)?;
/// let world = Communicator::world(&context);
/// let mut window = Window::allocate(&world, 64, 8)?; // bytes, bytes of a unit
/// window.fence()?;
/// window.put(&[1, 2, 3], 0, 2)?; // bytes 16, 17 and 18 of rank 0
/// window.fence()?;
/// let mut found = [0; 3];
/// window.read_local(16, &mut found)?;
/// assert_eq!(found, [1, 2, 3]);
/// window.free()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Window<N: Netmod> {
    access: Access<N>,
    communicator: Communicator<N>,
    flavor: Flavor,
    /// Where all members are on this node and share words.
    barrier: Option<NodeBarrier>,
    /// The world ranks this process's memory was posted to.
    pub(super) exposed: RefCell<Option<Vec<u32>>>,
}

impl<N: Netmod> Deref for Window<N> {
    type Target = Access<N>;

    fn deref(&self) -> &Access<N> {
        &self.access
    }
}

impl<N: Netmod> Window<N> {
    /// Where the memory of a rank is mapped in this process: start, bytes and
    /// unit. Peers may write to it at any time within their epochs.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a rank whose memory is not mapped here: of
    /// another node, or a window that does not share its memory;
    /// [`ErrorKind::Rank`], [`ErrorKind::Freed`].
    pub fn shared_query(&self, rank: u32) -> Result<(*mut u8, usize, usize), Error> {
        let state = self.access.state()?;
        let size = self.communicator.size();
        if rank >= size {
            return Err(ErrorKind::Rank { rank, size }.into());
        }
        if state.exposed_region.is_dynamic() {
            return Err(ErrorKind::Arguments("a dynamic window shares no memory".into()).into());
        }
        let mapped = if rank == self.communicator.rank() {
            Some(state.start)
        } else {
            self.access.mapped(rank)?
        };
        let why = || format!("the memory of rank {rank} is not mapped in this process");
        let start = mapped.ok_or_else(|| ErrorKind::Arguments(why()))?;
        Ok((start, state.sizes.get(rank) as usize, state.units.get(rank) as usize))
    }

    /// The window with promises about the operations to come: for this
    /// process's accesses that are opened from now on, and its own. To be given
    /// when the window is made, as MPI has it.
    #[must_use]
    pub fn with_hints(self, hints: Hints) -> Window<N> {
        // (That of a window that was freed says so itself.)
        let _ = self.set_hints(hints);
        self
    }

    /// [`Window::with_hints`] of a window that others have, too.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn set_hints(&self, hints: Hints) -> Result<(), Error> {
        self.access.state()?.hints.store(hints.bits(), Ordering::Relaxed);
        Ok(())
    }

    /// The promises given with [`Window::with_hints`].
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn hints(&self) -> Result<Hints, Error> {
        Ok(Hints::from_bits(self.access.state()?.hints.load(Ordering::Relaxed)))
    }

    /// The window's own communicator: a duplicate of the one it was made on.
    pub fn communicator(&self) -> &Communicator<N> {
        &self.communicator
    }

    /// Where the memory comes from.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// This process's memory: start and bytes. Others may write to it at any
    /// time within their epochs.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn local(&self) -> Result<(*mut u8, usize), Error> {
        let state = self.access.state()?;
        Ok((state.start, state.bytes))
    }

    /// Copies from this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn read_local(&self, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        let at = self.local_range(offset, out.len())?;
        for (i, byte) in out.iter_mut().enumerate() {
            // SAFETY: in range; volatile because peers may be writing.
            *byte = unsafe { at.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies into this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn write_local(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let at = self.local_range(offset, bytes.len())?;
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: in range; volatile because peers may be reading.
            unsafe { at.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    fn local_range(&self, offset: usize, len: usize) -> Result<*mut u8, Error> {
        let (start, bytes) = self.local()?;
        if offset.checked_add(len).is_none_or(|end| end > bytes) {
            let (rank, bytes) = (self.communicator.rank(), bytes as u64);
            return Err(ErrorKind::OutOfBounds { rank, disp: offset, unit: 1, len, bytes }.into());
        }
        // SAFETY: within the window's memory.
        Ok(unsafe { start.add(offset) })
    }
}
