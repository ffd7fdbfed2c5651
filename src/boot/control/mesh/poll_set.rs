//! The descriptors that a wait on the set-up channel polls.

use crate::boot::{BootError, os};
use std::os::fd::RawFd;
use std::time::Duration;

/// What a descriptor in the poll set stands for.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Listener(usize),
    Connection(u64),
    Process(u32),
}

/// The descriptors to wait for, taken under the lock and polled without it.
#[derive(Default)]
pub(in crate::boot::control) struct PollSet {
    pub(super) targets: Vec<Target>,
    pub(super) fds: Vec<libc::pollfd>,
}

impl PollSet {
    pub(super) fn push(&mut self, target: Target, fd: RawFd, events: i16) {
        self.targets.push(target);
        self.fds.push(libc::pollfd { fd, events, revents: 0 });
    }

    pub(in crate::boot::control) fn wait(&mut self, limit: Duration) -> Result<(), BootError> {
        os::poll(&mut self.fds, limit)
            .map(drop)
            .map_err(|error| BootError::io("waiting on the control channel (poll)", error))
    }
}
