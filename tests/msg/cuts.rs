//! A connection that breaks between two who live.

use super::{Opens, pattern, same};
use crate::ensure;
use crate::harness::{Result, pids, text};
use rankway::boot::Boot;
use rankway::device::DeviceError;
use rankway::msg::{Messenger, MsgError};
use rankway::rma::Communicator;
use std::fs;
use std::sync::Arc;

const MESSAGES: u32 = 20;
/// What a process is called that has been told.
const TOLD: &str = "told";

/// Ends the connections of this process. Returns how many there were.
fn cut() -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir("/proc/self/fd").map_err(text)? {
        let name = entry.map_err(text)?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: zeroes are an address, of a length that is enough for any.
        let (mut address, mut len): (libc::sockaddr_storage, _) =
            unsafe { (std::mem::zeroed(), size_of::<libc::sockaddr_storage>() as u32) };
        // SAFETY: `address` has space for `len` bytes.
        let rc = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &mut len) };
        if rc == 0 && matches!(i32::from(address.ss_family), libc::AF_INET | libc::AF_INET6) {
            // SAFETY: a descriptor, which stays open.
            count += usize::from(unsafe { libc::shutdown(fd, libc::SHUT_RDWR) } == 0);
        }
    }
    Ok(count)
}

/// All that was sent after the connection was cut arrives, or both sides are told that it broke, by
/// each other's name: of messages of `LEN` bytes, which are received by waits, or by a loop of tests
/// if `TESTS`.
pub fn connection<N: Opens, const LEN: usize, const TESTS: bool>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let (me, peer) = (world.rank(), 1 - world.rank());
    let theirs = pids(&world)?[peer as usize];
    let mut buf = vec![0; LEN];
    let mut recv = |tag| -> std::result::Result<(), MsgError> {
        if TESTS {
            while m.iprobe(peer, tag)?.is_none() {
                context.progress_and_check()?;
            }
        }
        m.recv(&mut buf, peer, tag).map(drop)?;
        assert_eq!(same("it", &buf, &pattern(tag, LEN)), Ok(()));
        Ok(())
    };
    let send = |tag| m.send(&pattern(tag, LEN), peer, tag);
    // (The connections of what was before may be others.)
    for tag in 0..3 {
        if me == 0 {
            send(tag).and_then(|()| recv(tag))
        } else {
            recv(tag).and_then(|()| send(tag))
        }
        .map_err(text)?;
    }
    let all = 100..100 + MESSAGES;
    let result = if me == 0 {
        ensure!(cut()? > 0, "no connection");
        all.clone().try_for_each(send).and_then(|()| recv(all.end))
    } else {
        all.clone().try_for_each(recv).and_then(|()| send(all.end))
    };
    match &result {
        Ok(()) => {}
        Err(e @ MsgError::Device(DeviceError::Peer { .. })) if e.peer() == Some(peer) => {}
        Err(e) => return Err(format!("not about the connection to rank {peer}: {e}")),
    }
    // Who leaves at once would be told of as dead.
    fs::write("/proc/self/comm", TOLD).map_err(text)?;
    let is_told = || {
        let name = fs::read_to_string(format!("/proc/{theirs}/comm"));
        name.map_or(true, |name| name.trim_end() == TOLD)
    };
    while !is_told() {
        context.progress_and_check().map_err(text)?;
        std::thread::yield_now();
    }
    Ok(())
}
