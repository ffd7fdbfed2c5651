//! One page shared by the tracer and its child: the child's requests and its
//! error, if it fails.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering::SeqCst};

use super::{Region, Stop};

/// How the child came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Outcome {
    Running = 0,
    Done = 1,
    Refused = 2,
    Closure = 3,
    Panicked = 4,
}

/// Plain atomics only: both processes write through a shared mapping.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Page {
    armed: AtomicU32,
    outcome: AtomicU32,
    errno: AtomicI32,
    nth: AtomicU32,
    start: AtomicUsize,
    stop_address: AtomicUsize,
    stop_is_address: AtomicU32,
    text_len: AtomicU32,
    text: [AtomicU8; 2048],
}

impl Page {
    pub(super) fn arm(&self, region: Region) {
        self.start.store(region.start, SeqCst);
        self.nth.store(region.nth.max(1), SeqCst);
        let address = match region.stop {
            Stop::Return => None,
            Stop::At(address) => Some(address),
        };
        self.stop_address.store(address.unwrap_or(0), SeqCst);
        self.stop_is_address.store(u32::from(address.is_some()), SeqCst);
        self.armed.fetch_add(1, SeqCst);
    }

    /// How many regions were armed so far.
    pub(super) fn armed(&self) -> u32 {
        self.armed.load(SeqCst)
    }

    /// The region armed last.
    pub(super) fn region(&self) -> Region {
        let stop = if self.stop_is_address.load(SeqCst) != 0 {
            Stop::At(self.stop_address.load(SeqCst))
        } else {
            Stop::Return
        };
        Region { start: self.start.load(SeqCst), stop, nth: self.nth.load(SeqCst) }
    }

    pub(super) fn finish(&self, outcome: Outcome, errno: i32, text: &str) {
        for (slot, byte) in self.text.iter().zip(text.bytes()) {
            slot.store(byte, SeqCst);
        }
        self.text_len.store(text.len().min(self.text.len()) as u32, SeqCst);
        self.errno.store(errno, SeqCst);
        self.outcome.store(outcome as u32, SeqCst);
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.outcome.load(SeqCst) {
            1 => Outcome::Done,
            2 => Outcome::Refused,
            3 => Outcome::Closure,
            4 => Outcome::Panicked,
            _ => Outcome::Running,
        }
    }

    pub(super) fn errno(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno.load(SeqCst))
    }

    pub(super) fn text(&self) -> String {
        let len = (self.text_len.load(SeqCst) as usize).min(self.text.len());
        let bytes: Vec<u8> = self.text[..len].iter().map(|b| b.load(SeqCst)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Owns the mapping of a [`Page`].
pub(super) struct SharedPage(*mut Page);

impl SharedPage {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses;
        // it aliases nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(address.cast()))
    }
}

impl Deref for SharedPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: `new` mapped a zeroed, page-aligned `Page`, for which all
        // zeroes are a valid value; it stays mapped until `drop`, and both
        // processes touch it through atomics only.
        unsafe { &*self.0 }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping with this size and nothing borrows
        // it any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<Page>()) };
    }
}
