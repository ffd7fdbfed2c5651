//! The netmod that moves nothing: every operation completes at once.
//!
//! For a process that is alone, for simulated worlds whose tables are
//! measured, and for tests of the layers above. To measure a whole network
//! path at infinite speed, use the libfabric provider in
//! `plugins/null-provider`, which also pays for the library's calls.
//!
//! It is also the template of a netmod: all that [`Netmod`] has no default for.
//! What a library has beyond it (packets, atomics, iov lists, bulk messages, a
//! flush, a descriptor to sleep on) is the trait's other methods.
//!
//! ```
//! use rankway::netmod::{Netmod, null::Null};
//!
//! let netmod = Null::open();
//! let endpoint = netmod.open_endpoint()?;
//! let peer = netmod.insert(&endpoint, &netmod.address(&endpoint)?)?;
//! assert!(netmod.caps().inject_size >= 8);
//! // SAFETY: the buffer is readable, and this netmod moves nothing.
//! let rc = unsafe { Null::inject(Null::inject_handle(&endpoint), [0; 8].as_ptr(), 8, peer, 0, 0) };
//! assert_eq!(rc, 0);
//! # Ok::<(), rankway::netmod::NetError>(())
//! ```

use super::{Caps, Completion, HEAD, NetError, Netmod, OpenParams, Providers, Transfer};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Accepts every operation and forgets it.
#[derive(Debug)]
pub struct Null {
    caps: Caps,
    inserted: AtomicU64,
}

impl Null {
    /// Opens it.
    #[must_use]
    pub fn open() -> Arc<Null> {
        let caps = Caps { inject_size: 4096, ..Caps::none("null") };
        Arc::new(Null { caps, inserted: AtomicU64::new(0) })
    }
}

/// Tokens waiting to be handed back.
#[derive(Debug, Default)]
pub struct Endpoint {
    done: RefCell<Vec<u64>>,
}

impl Netmod for Null {
    type Endpoint = Endpoint;
    type InjectHandle = ();
    type Region = u64;

    const NAME: &'static str = "null";

    fn open_providers(_: &OpenParams) -> Result<Providers<Self>, NetError> {
        Ok(Providers { network: Some(Null::open()), node: None })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        Ok(Endpoint::default())
    }

    fn address(&self, _: &Endpoint) -> Result<Vec<u8>, NetError> {
        Ok(b"null".to_vec())
    }

    fn insert(&self, _: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        if raw != b"null" {
            let reason = format!("{raw:02x?} is not 'null'");
            return Err(NetError::Address { provider: "null".into(), reason });
        }
        Ok(self.inserted.fetch_add(1, Ordering::Relaxed))
    }

    unsafe fn register(
        self: &Arc<Self>,
        _: &Endpoint,
        _: *mut u8,
        _: usize,
        key: u64,
    ) -> Result<u64, NetError> {
        Ok(key)
    }

    fn key(&self, region: &u64) -> u64 {
        *region
    }

    fn inject_handle(_: &Endpoint) {}

    #[inline(always)]
    unsafe fn inject(_: (), buf: *const u8, len: usize, dest: u64, addr: u64, key: u64) -> isize {
        // Keeps the caller's work alive in measurements.
        std::hint::black_box((buf, len, dest, addr, key));
        0
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        endpoint.done.borrow_mut().push(op.token);
        0
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        endpoint.done.borrow_mut().push(op.token);
        0
    }

    fn poll(
        &self,
        endpoint: &Endpoint,
        mut done: impl FnMut(Completion),
        _: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        let tokens = std::mem::take(&mut *endpoint.done.borrow_mut());
        tokens.into_iter().for_each(|token| done(Completion { token, result: Ok(()) }));
        Ok(false)
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        let text = "the null netmod never fails".to_owned();
        NetError::Call { provider: "null".into(), call, code: code as i64, text }
    }
}
