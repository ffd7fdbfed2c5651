//! Packets of all sizes, and more of them than fit anywhere.

use super::pair::{byte, bytes};
use super::{Opens, Pair};
use crate::ensure;
use crate::harness::Result;
use rankway::boot::Boot;
use rankway::netmod::{AGAIN, HEAD, PENDING};
use std::sync::Arc;

fn head(n: u64, len: usize) -> [u8; HEAD] {
    let mut head = [0x5a; HEAD];
    head[..8].copy_from_slice(&n.to_le_bytes());
    head[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    head
}

fn check(what: &str, n: u64, (got, body): &([u8; HEAD], Vec<u8>), len: usize) -> Result {
    ensure!(*got == head(n, len), "{what} {n} of {len}: head {got:02x?}");
    ensure!(body.len() == len, "{what} {n}: {} bytes of {len}", body.len());
    let bad = body.iter().enumerate().find(|&(at, &b)| b != byte(n, at));
    ensure!(bad.is_none(), "{what} {n} of {len}: byte {bad:?}");
    Ok(())
}

/// There and back, every size that is special and some that are not.
pub fn sizes<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    let caps = p.net.caps().clone();
    ensure!(caps.packet_size >= 1024, "{caps:?}");
    ensure!(caps.packet_inject <= caps.packet_size, "{caps:?}");
    let most = caps.packet_size - HEAD;
    let inject = caps.packet_inject.saturating_sub(HEAD);
    let mut sizes: Vec<usize> = (0..20).collect();
    for edge in [32, 64, 256, 1024, 4096, inject, most] {
        sizes.extend(edge.saturating_sub(2)..=edge + 2);
    }
    sizes.extend((0..64).map(|i| i * most / 63));
    sizes.retain(|&len| len <= most);
    for (n, &len) in sizes.iter().enumerate() {
        let n = n as u64;
        let mut body = bytes(n, len);
        if p.rank == 1 {
            check("ping", n, &p.receive()?, len)?;
        }
        // SAFETY: the body is not touched until it is ours again.
        let call =
            || unsafe { p.net.send(&p.endpoint, &head(n, len), body.as_ptr(), len, p.dest, n) };
        let rc = p.issue("send", call)?;
        ensure!(rc == 0 || HEAD + len > caps.packet_inject, "{len} bytes were not copied");
        if rc == PENDING {
            p.wait("send", n)?;
        }
        body.fill(0xff);
        if p.rank == 0 {
            check("pong", n, &p.receive()?, len)?;
        }
    }
    p.meet()?;
    ensure!(p.inbox.borrow().is_empty() && p.done.borrow().is_empty(), "something is left over");
    Ok(())
}

/// Both send as fast as they may, the one slow to receive at first, and nothing
/// is lost, doubled or out of order.
pub fn flood<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const COUNT: u64 = 10_000;
    let p = Pair::<N>::open(boot)?;
    let most = p.net.caps().packet_size - HEAD;
    // Mostly short, now and then long.
    let len = |n: u64| match n % 16 {
        0 => most,
        7 => (n as usize * 37) % most,
        _ => n as usize % 24,
    };
    if p.rank == 1 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let (mut sent, mut seen, mut pushed_back) = (0, 0, 0_u64);
    let mut bodies = std::collections::BTreeMap::new();
    p.until("the flood", || {
        while sent < COUNT {
            let (n, len) = (sent, len(sent));
            let body = bytes(n, len);
            // SAFETY: the body is kept until its token came back.
            let rc =
                unsafe { p.net.send(&p.endpoint, &head(n, len), body.as_ptr(), len, p.dest, n) };
            match rc {
                0 => {}
                PENDING => {
                    bodies.insert(n, body);
                }
                AGAIN => {
                    pushed_back += 1;
                    break;
                }
                rc => return Some(Err(p.net.explain("send", rc).to_string())),
            }
            sent += 1;
        }
        for (token, result) in std::mem::take(&mut *p.done.borrow_mut()) {
            if bodies.remove(&token).is_none() || result.is_err() {
                return Some(Err(format!("packet {token}: {result:?}")));
            }
        }
        for packet in std::mem::take(&mut *p.inbox.borrow_mut()) {
            if let Err(why) = check("flood", seen, &packet, len(seen)) {
                return Some(Err(why));
            }
            seen += 1;
        }
        (sent == COUNT && seen == COUNT && bodies.is_empty()).then_some(Ok(()))
    })??;
    println!("rank {}: pushed back {pushed_back} times", p.rank);
    p.meet()
}
