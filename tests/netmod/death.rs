//! A peer is killed under a stream of packets: whoever sends to it lives on.

use super::{Opens, Pair};
use crate::ensure;
use crate::harness::{Result, die};
use rankway::boot::Boot;
use rankway::netmod::{AGAIN, HEAD};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Short packets, which the provider copies, and long ones, which are tracked.
pub fn sender<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let p = Pair::<N>::open(boot)?;
    p.meet()?;
    let opened = Instant::now();
    let mut start = opened;
    if p.rank == 1 {
        let mut seen = 0;
        p.until("packets to die under", || {
            seen += p.inbox.take().len();
            (seen > 2000).then_some(())
        })?;
        // Between two calls of the library, which may hold locks within.
        die();
    }
    let body = vec![3; p.net.caps().packet_size - HEAD];
    let (mut sent, mut refused, mut failed, mut token) = (0_u64, 0_u64, 0_u64, 0);
    while start.elapsed() < Duration::from_millis(1500) {
        // The clock starts with the first packet out.
        if sent == 0 && opened.elapsed() < Duration::from_secs(20) {
            start = Instant::now();
        }
        for n in 0..32 {
            token += 1;
            let len = if n % 8 == 7 { body.len() } else { n };
            // SAFETY: the body outlives the endpoint.
            let rc = unsafe {
                p.net.send(&p.endpoint, &[n as u8; HEAD], body.as_ptr(), len, p.dest, token)
            };
            match rc {
                AGAIN => break,
                rc if rc < 0 => refused += 1,
                _ => sent += 1,
            }
        }
        failed += u64::from(p.poll().is_err());
        failed += p.done.take().values().filter(|result| result.is_err()).count() as u64;
    }
    ensure!(sent > 0, "nothing was sent");
    println!("outlived: {sent} sent, {refused} refused, {failed} failed");
    Ok(())
}

pub fn outlived(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outlived"), "the sender did not live on");
    ensure!(said.contains("outcome: [Code(0)"), "the sender did not end well");
    Ok(())
}
