//! Buffers that were handed to calls that failed, watched for late writes.

use super::Result;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// What such buffers are filled with.
pub const CANARY: u8 = 0xc5;

/// A call, and the buffer it was handed.
type Handed = (&'static str, Box<[u8]>);

/// They are the caller's again: nobody writes to them, nor reads what is in them.
#[derive(Default)]
pub struct Watched(RefCell<Vec<Handed>>);

impl Watched {
    /// Watches the buffer of a call from now on.
    pub fn keep(&self, call: &'static str, buf: impl Into<Box<[u8]>>) {
        let mut buf = buf.into();
        buf.fill(CANARY);
        self.0.borrow_mut().push((call, buf));
    }

    /// The result of a call into a fresh buffer of so many bytes, which is watched
    /// where it failed.
    pub fn filling<T, E>(
        &self,
        what: &'static str,
        len: usize,
        call: impl FnOnce(&mut [u8]) -> std::result::Result<T, E>,
    ) -> std::result::Result<Box<[u8]>, E> {
        let mut buf = vec![0; len].into_boxed_slice();
        match call(&mut buf) {
            Ok(_) => Ok(buf),
            Err(e) => {
                self.keep(what, buf);
                Err(e)
            }
        }
    }

    /// The same for a call that reads a buffer: what would come of it now is not
    /// what was put.
    pub fn reading<T, E>(
        &self,
        what: &'static str,
        buf: Vec<u8>,
        call: impl FnOnce(&[u8]) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        call(&buf).inspect_err(|_| self.keep(what, buf))
    }

    /// Fails if one of them was written to within this time, `idle` making progress.
    /// They stay allocated for whoever still has them.
    pub fn unwritten(&self, time: Duration, idle: &mut dyn FnMut()) -> Result {
        let start = Instant::now();
        while start.elapsed() < time && !self.0.borrow().is_empty() {
            idle();
            std::thread::yield_now();
        }
        for (what, buf) in self.0.take() {
            let buf: &[u8] = Box::leak(buf);
            // SAFETY: a live buffer; a late write would be seen.
            let seen = |b: &u8| unsafe { std::ptr::from_ref(b).read_volatile() };
            if let Some(at) = buf.iter().position(|b| seen(b) != CANARY) {
                let len = buf.len();
                return Err(format!("write: byte {at} of {len} after a failed {what}"));
            }
        }
        Ok(())
    }
}
