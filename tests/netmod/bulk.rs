//! Bulk messages of all lengths, many at a time, and giving up.

use super::pair::bytes;
use super::{Opens, Pair};
use crate::ensure;
use crate::harness::Result;
use rankway::boot::Boot;
use rankway::netmod::{Bulk, HEAD, NetError, PENDING};
use std::collections::BTreeMap;
use std::sync::Arc;

impl<N: Opens> Pair<N> {
    /// # Safety
    /// \[BUF\]: the buffer stays until the token came back. \[LIMIT\]: it is no longer
    /// than `max_bulk`.
    unsafe fn post(&self, buf: &mut [u8], tag: u64, token: u64) -> Result {
        let (start, len) = (buf.as_mut_ptr(), buf.len());
        let op = Bulk { buf: start, len, dest: 0, tag, token };
        // SAFETY: [BUF], [LIMIT].
        let rc = self.issue("recv_bulk", || unsafe { self.net.recv_bulk(&self.endpoint, op) })?;
        ensure!(rc == PENDING, "recv_bulk answered {rc}");
        Ok(())
    }

    /// # Safety
    /// \[BUF\]: the buffer stays until the token came back, where the answer is true.
    /// \[LIMIT\]: it is no longer than `max_bulk`.
    unsafe fn push(&self, buf: &[u8], tag: u64, token: u64) -> Result<bool> {
        let op = Bulk { buf: buf.as_ptr(), len: buf.len(), dest: self.dest, tag, token };
        // SAFETY: [DEST]: the peer's; [BUF], [LIMIT].
        let rc = self.issue("send_bulk", || unsafe { self.net.send_bulk(&self.endpoint, op) })?;
        Ok(rc == PENDING)
    }
}

/// One after the other, the receiver first: it says so with a packet.
pub fn lengths<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let mut lengths = vec![0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 8192, 16 << 10, 16385];
    lengths.extend([65_536, 65_537, 100_003, 1 << 20, (1 << 20) + 1, 5_000_001, 64 << 20]);
    let longest = p.net.caps().max_bulk;
    ensure!(longest >= 8 << 20, "{:?}", p.net.caps());
    lengths.iter_mut().for_each(|len| *len = (*len).min(longest));
    for (n, &len) in lengths.iter().enumerate() {
        let n = n as u64;
        // The receiver is the one, then the other.
        if u64::from(p.rank) == n % 2 {
            let mut buf = vec![0xaa; len + 8];
            // SAFETY: waited for below.
            unsafe { p.post(&mut buf[..len], 1 << 40 | n, n)? };
            p.send([n as u8; HEAD], &[], 0)?;
            p.wait("recv_bulk", n)?;
            ensure!(buf[..len] == bytes(n, len), "bulk {n} of {len} differs");
            ensure!(buf[len..] == [0xaa; 8], "bulk {n} of {len} wrote behind its end");
        } else {
            let (head, _) = p.receive()?;
            ensure!(head == [n as u8; HEAD], "cleared {head:?}");
            let buf = bytes(n, len);
            // SAFETY: waited for below.
            if unsafe { p.push(&buf, 1 << 40 | n, n)? } {
                p.wait("send_bulk", n)?;
            }
        }
    }
    p.meet()?;
    ensure!(p.done.borrow().is_empty(), "tokens are left over: {:?}", p.done.borrow());
    Ok(())
}

/// Hundreds under way both ways at once, sent in another order than posted.
pub fn crowd<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const COUNT: u64 = 300;
    const SENT: u64 = 1 << 32;
    let p = Pair::<N>::open(boot)?;
    let len = |n: u64| (n as usize * 97) % 20_000;
    let mine = |n: u64| n << 1 | u64::from(p.rank);
    let theirs = |n: u64| n << 1 | u64::from(1 - p.rank);
    let mut into: Vec<Vec<u8>> = (0..COUNT).map(|n| vec![0; len(n)]).collect();
    for (n, buf) in into.iter_mut().enumerate() {
        // SAFETY: waited for below.
        unsafe { p.post(buf, n as u64, n as u64)? };
    }
    p.meet()?;
    let mut from = BTreeMap::new();
    for k in 0..COUNT {
        let n = (k * 7) % COUNT;
        let buf = from.entry(n).or_insert_with(|| bytes(mine(n), len(n)));
        // SAFETY: waited for below.
        if !unsafe { p.push(buf, n, SENT | n)? } {
            p.done.borrow_mut().insert(SENT | n, Ok(()));
        }
    }
    for n in 0..COUNT {
        p.wait("send_bulk", SENT | n)?;
        p.wait("recv_bulk", n)?;
        ensure!(into[n as usize] == bytes(theirs(n), len(n)), "bulk {n} differs");
    }
    p.meet()
}

/// A receive that nobody sends to is given up; others go on.
pub fn cancel<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let mut never = vec![0; 100_000];
    let mut other = vec![0; 1000];
    // SAFETY: waited for below, both of them.
    unsafe {
        p.post(&mut never, 1, 1)?;
        p.post(&mut other, 2, 2)?;
    }
    // Nothing has this token.
    p.net.cancel(&p.endpoint, 77);
    p.net.cancel(&p.endpoint, 1);
    let given_up = p.until("the cancelled token", || p.done.borrow_mut().remove(&1))?;
    ensure!(matches!(given_up, Err(NetError::Operation { .. })), "{given_up:?}");
    p.meet()?;
    let buf = bytes(9, 1000);
    // SAFETY: waited for below.
    if unsafe { p.push(&buf, 2, 3)? } {
        p.wait("send_bulk", 3)?;
    }
    p.wait("recv_bulk", 2)?;
    ensure!(other == buf, "the other receive differs");
    // What is over is not given up.
    p.net.cancel(&p.endpoint, 2);
    p.meet()?;
    ensure!(p.done.borrow().is_empty(), "tokens are left over: {:?}", p.done.borrow());
    Ok(())
}
