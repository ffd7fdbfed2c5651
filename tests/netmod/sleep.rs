//! Sleeping on the descriptor until something comes in.

use super::{Opens, Pair};
use crate::ensure;
use crate::harness::Result;
use rankway::boot::Boot;
use rankway::netmod::HEAD;
use std::sync::Arc;
use std::time::Duration;

/// Each waits for the other's packet asleep, who sends it late.
pub fn ping<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: u32 = 20;
    let p = Pair::<N>::open(boot)?;
    let Some(fd) = p.net.wait_fd(&p.endpoint) else {
        ensure!(!p.net.arm(&p.endpoint), "may sleep, but on what?");
        println!("no descriptor here");
        return p.meet();
    };
    let mut slept = 0;
    for round in 0..ROUNDS {
        if round % 2 == p.rank {
            std::thread::sleep(Duration::from_millis(2));
            p.send([round as u8; HEAD], &[], 0)?;
            continue;
        }
        let (head, _) = p.until("a packet", || {
            let found = p.inbox.borrow_mut().pop_front();
            if found.is_none() && p.net.arm(&p.endpoint) {
                let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                // SAFETY: one entry, an open descriptor.
                slept += unsafe { libc::poll(&mut poll, 1, 5000) };
            }
            found
        })?;
        ensure!(head == [round as u8; HEAD], "round {round}: {head:?}");
    }
    ensure!(slept > 0, "never slept until woken");
    println!("rank {}: woken {slept} times", p.rank);
    p.meet()
}
