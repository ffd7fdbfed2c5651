//! Two ranks, each with an endpoint that knows the other's address.

use super::Opens;
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::netmod::{AGAIN, HEAD, NetError, PENDING};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything takes, shorter than the job's limit.
const PATIENCE: Duration = Duration::from_secs(40);

pub struct Pair<N: Opens> {
    pub boot: Arc<dyn Boot>,
    pub rank: u32,
    pub net: Arc<N>,
    pub endpoint: N::Endpoint,
    pub dest: u64,
    /// Packets that arrived, in their order.
    pub inbox: RefCell<VecDeque<([u8; HEAD], Vec<u8>)>>,
    /// Tokens that came back.
    pub done: RefCell<BTreeMap<u64, std::result::Result<(), NetError>>>,
    /// Polls that carried out operations of the peer.
    pub served: Cell<usize>,
}

impl<N: Opens> Pair<N> {
    pub fn open(boot: Arc<dyn Boot>) -> Result<Pair<N>> {
        let net = N::open_netmod(&*boot)?;
        let endpoint = net.open_endpoint().map_err(text)?;
        let rank = boot.rank();
        boot.put("netmod.addr", &net.address(&endpoint).map_err(text)?).map_err(text)?;
        boot.fence(&mut || {}).map_err(text)?;
        let raw = boot.get(1 - rank, "netmod.addr").map_err(text)?;
        let dest = net.insert(&endpoint, &raw).map_err(text)?;
        let (inbox, done) = (RefCell::default(), RefCell::default());
        let served = Cell::new(0);
        Ok(Pair { boot, rank, net, endpoint, dest, inbox, done, served })
    }

    /// Another endpoint of this process, that knows the same peer.
    pub fn another(&self) -> Result<Pair<N>> {
        let endpoint = self.net.open_endpoint().map_err(text)?;
        let raw = self.boot.get(1 - self.rank, "netmod.addr").map_err(text)?;
        let dest = self.net.insert(&endpoint, &raw).map_err(text)?;
        let (boot, rank, net) = (Arc::clone(&self.boot), self.rank, Arc::clone(&self.net));
        let (inbox, done) = (RefCell::default(), RefCell::default());
        let served = Cell::new(0);
        Ok(Pair { boot, rank, net, endpoint, dest, inbox, done, served })
    }

    pub fn poll(&self) -> Result {
        let done = |c: rankway::netmod::Completion| {
            let before = self.done.borrow_mut().insert(c.token, c.result);
            assert!(before.is_none(), "token {} came back twice", c.token);
        };
        let arrived = |head: &[u8; HEAD], body: &[u8]| {
            self.inbox.borrow_mut().push_back((*head, body.to_vec()))
        };
        let served = self.net.poll(&self.endpoint, done, arrived).map_err(text)?;
        self.served.set(self.served.get() + usize::from(served));
        Ok(())
    }

    /// Polls until `ready` has something.
    pub fn until<T>(&self, what: &str, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let start = Instant::now();
        let mut spins = 0_u32;
        loop {
            self.poll()?;
            if let Some(found) = ready() {
                return Ok(found);
            }
            spins += 1;
            if spins.is_multiple_of(100) {
                ensure!(start.elapsed() < PATIENCE, "waited too long for {what}");
                std::thread::yield_now();
            }
        }
    }

    /// Issues, again while there is no space.
    pub fn issue(&self, what: &str, mut call: impl FnMut() -> isize) -> Result<isize> {
        let mut rc = call();
        if rc == AGAIN {
            rc = self.until(what, || Some(call()).filter(|&rc| rc != AGAIN))?;
        }
        ensure!(rc >= 0, "{what}: {}", self.net.explain("call", rc));
        Ok(rc)
    }

    /// Waits for the token of an outstanding operation.
    pub fn wait(&self, what: &str, token: u64) -> Result {
        let result = self.until(what, || self.done.borrow_mut().remove(&token))?;
        result.map_err(|e| format!("{what}: {e}"))
    }

    /// Everything written before is in the peer's memory.
    pub fn flush(&self) -> Result {
        const TOKEN: u64 = u64::MAX;
        if !self.net.flushes() {
            return Ok(());
        }
        // SAFETY: `dest` is the peer's.
        let call = || unsafe { self.net.flush(&self.endpoint, self.dest, TOKEN) };
        if self.issue("flush", call)? == PENDING { self.wait("flush", TOKEN) } else { Ok(()) }
    }

    /// Sends a packet whose body is in `body` until it was sent.
    pub fn send(&self, head: [u8; HEAD], body: &[u8], token: u64) -> Result {
        let call = || {
            // SAFETY: `dest` is the peer's, the body stays until it is waited
            // for below, and callers keep to the packet size.
            unsafe {
                self.net.send(&self.endpoint, &head, body.as_ptr(), body.len(), self.dest, token)
            }
        };
        match self.issue("send", call)? {
            PENDING => self.wait("send", token),
            _ => Ok(()),
        }
    }

    pub fn receive(&self) -> Result<([u8; HEAD], Vec<u8>)> {
        self.until("a packet", || self.inbox.borrow_mut().pop_front())
    }

    /// Both have come here, each making progress for the other.
    pub fn meet(&self) -> Result {
        let mut failed = Ok(());
        self.boot
            .fence(&mut || {
                let polled = self.poll();
                if failed.is_ok() {
                    failed = polled;
                }
            })
            .map_err(text)?;
        failed
    }
}

/// The byte at a place of the body that `seed` has.
pub fn byte(seed: u64, at: usize) -> u8 {
    let x = (seed << 20 ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 56) as u8
}

pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(seed, at)).collect()
}
