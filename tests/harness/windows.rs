//! Windows of tests, over memory of every kind.

use super::{Result, text};
use rankway::netmod::Netmod;
use rankway::rma::{Backing, Communicator, Error, Window};
use std::ops::{Deref, DerefMut};

/// Where a window's memory comes from: the window, the test, the network
/// library with its own puts or with stores.
pub const ALLOCATED: u8 = 0;
pub const CREATED: u8 = 1;
pub const PROVIDED: u8 = 2;
pub const DIRECT: u8 = 3;

/// A window and, when it was created over the test's memory, that memory, which
/// is dropped after it.
pub struct Held<N: Netmod> {
    window: Window<N>,
    _memory: Memory,
}

/// Memory of the test's own.
struct Memory {
    words: Vec<u128>,
    /// It stays when its window is gone: a member that has not heard of a death
    /// may still put to it, and the network asks for no key.
    left: bool,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.left {
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}

impl<N: Netmod> Held<N> {
    /// A window over memory of this kind. What is the test's own stays where UCX
    /// carries the puts, by the contract of `Window::create`.
    pub fn new(
        comm: &Communicator<N>,
        kind: u8,
        bytes: usize,
        unit: usize,
    ) -> std::result::Result<Held<N>, Error> {
        let backing = match kind {
            ALLOCATED => Some(Backing::Shared),
            PROVIDED => Some(Backing::Provider),
            DIRECT => Some(Backing::Direct),
            _ => None,
        };
        if let Some(backing) = backing {
            return Ok(Window::allocate_with(comm, bytes, unit, backing)?.into());
        }
        let mut memory = Memory { words: vec![0; bytes.div_ceil(16)], left: N::KEY_HANDLES };
        let start = memory.words.as_mut_ptr().cast();
        // SAFETY: the memory is dropped after the window, and touched through it.
        let window = unsafe { Window::create(comm, start, bytes, unit)? };
        Ok(Held { window, _memory: memory })
    }
}

/// A window that has its memory itself.
impl<N: Netmod> From<Window<N>> for Held<N> {
    fn from(window: Window<N>) -> Held<N> {
        Held { window, _memory: Memory { words: Vec::new(), left: false } }
    }
}

impl<N: Netmod> Deref for Held<N> {
    type Target = Window<N>;

    fn deref(&self) -> &Window<N> {
        &self.window
    }
}

impl<N: Netmod> DerefMut for Held<N> {
    fn deref_mut(&mut self) -> &mut Window<N> {
        &mut self.window
    }
}

/// A window of a kind that the scenario is instantiated for.
pub fn make<const KIND: u8, N: Netmod>(
    comm: &Communicator<N>,
    bytes: usize,
    unit: usize,
) -> std::result::Result<Held<N>, Error> {
    Held::new(comm, KIND, bytes, unit)
}

/// All of this process's own memory of a window.
pub fn own<N: Netmod>(window: &Window<N>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; window.local().map_err(text)?.1];
    window.read_local(0, &mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Fails the scenario unless an operation was refused for this reason.
#[macro_export]
macro_rules! refused {
    ($call:expr, $reason:pat $(if $guard:expr)?) => {
        match $call {
            Ok(_) => return Err(format!("{} went well ({}:{})", stringify!($call), file!(), line!())),
            Err(e) => match e.kind() {
                $reason $(if $guard)? => {}
                other => {
                    let (call, reason) = (stringify!($call), stringify!($reason));
                    return Err(format!("{call}: {other:?}, not {reason} ({}:{})", file!(), line!()));
                }
            },
        }
    };
}
