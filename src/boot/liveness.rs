//! Notices the death of peers on this machine.
//!
//! Shared memory says nothing when the process behind it dies: a sender sees
//! its queue fill up and then waits for ever. A pidfd (pidfd_open(2), Linux
//! 5.3) per watched peer tells. Nothing is opened for peers never watched.

use super::os;
use crate::process::ProcessId;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What became of a request to watch a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Its end will be noticed.
    Watched,
    /// It has already ended.
    Dead,
    /// It cannot be watched from here: another machine, another pid
    /// namespace, or a kernel without pidfd_open.
    Unwatchable,
    /// This process may open no more descriptors.
    NoDescriptor,
}

/// A set of watched peers.
pub struct Liveness {
    me: ProcessId,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    entries: Vec<(u32, OwnedFd)>,
    poll: Vec<libc::pollfd>,
    /// Those that had ended before they were watched, and one that [`Liveness::dead`] found.
    dead: Vec<u32>,
}

impl Watched {
    fn add_dead(&mut self, rank: u32) {
        if !self.dead.contains(&rank) {
            self.dead.push(rank);
        }
    }
}

impl Default for Liveness {
    fn default() -> Self {
        Self::new()
    }
}

impl Liveness {
    /// Watches nobody yet.
    pub fn new() -> Self {
        Liveness { me: ProcessId::current(), watched: Mutex::default() }
    }

    /// Watches `process`, known as world rank `rank`; a second call for the
    /// same rank changes nothing.
    pub fn watch(&self, rank: u32, process: &ProcessId) -> Watch {
        let mut watched = self.lock();
        if watched.entries.iter().any(|(known, _)| *known == rank) {
            return Watch::Watched;
        }
        match open(&self.me, process) {
            Ok(fd) => {
                let raw = fd.as_raw_fd();
                watched.entries.push((rank, fd));
                watched.poll.push(libc::pollfd { fd: raw, events: libc::POLLIN, revents: 0 });
                Watch::Watched
            }
            Err(Watch::Dead) => {
                watched.add_dead(rank);
                Watch::Dead
            }
            Err(other) => other,
        }
    }

    /// Stops watching `rank`, for peers that leave in good order.
    pub fn forget(&self, rank: u32) {
        let mut watched = self.lock();
        if let Some(at) = watched.entries.iter().position(|(known, _)| *known == rank) {
            watched.entries.swap_remove(at);
            watched.poll.swap_remove(at);
        }
        watched.dead.retain(|&known| known != rank);
    }

    /// A watched peer that has ended, if any: one poll(2) over all watched
    /// peers, no waiting. Meant for a slow path, not for every operation.
    pub fn dead(&self) -> Option<u32> {
        let mut watched = self.lock();
        if !watched.dead.is_empty() || watched.poll.is_empty() {
            return watched.dead.first().copied();
        }
        if os::poll(&mut watched.poll, Duration::ZERO).unwrap_or(0) == 0 {
            return None;
        }
        let at = watched.poll.iter().position(|entry| entry.revents != 0)?;
        let rank = watched.entries[at].0;
        watched.add_dead(rank);
        Some(rank)
    }

    /// All watched peers that have ended, by one poll(2).
    pub fn all_dead(&self) -> Vec<u32> {
        let mut watched = self.lock();
        let Watched { entries, poll, dead } = &mut *watched;
        let mut all = dead.clone();
        if os::poll(poll, Duration::ZERO).unwrap_or(0) > 0 {
            let ended = entries.iter().zip(poll).filter(|(_, state)| state.revents != 0);
            all.extend(ended.map(|((rank, _), _)| *rank).filter(|rank| !dead.contains(rank)));
        }
        all
    }

    /// Returns true if the watched peer `rank` has ended.
    pub fn is_dead(&self, rank: u32) -> bool {
        let mut watched = self.lock();
        if watched.dead.contains(&rank) {
            return true;
        }
        let Some(at) = watched.entries.iter().position(|(known, _)| *known == rank) else {
            return false;
        };
        let one = &mut watched.poll[at..=at];
        os::poll(one, Duration::ZERO).unwrap_or(0) > 0
    }

    /// Returns true if the watched peer `rank` has ended or is about to: its
    /// memory may be gone, which the kernel takes back some time before it
    /// tells of an end.
    pub fn is_ending(&self, rank: u32) -> bool {
        if self.is_dead(rank) {
            return true;
        }
        let watched = self.lock();
        let of = |entry: &&(u32, OwnedFd)| entry.0 == rank;
        watched.entries.iter().find(of).is_some_and(|(_, fd)| os::is_exiting(fd.as_raw_fd()))
    }

    /// Peers watched now.
    pub fn watching(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// Returns true if `me` can look at `process` by its pid.
pub(crate) fn visible(me: &ProcessId, process: &ProcessId) -> bool {
    process.machine == me.machine
        && process.pid_namespace != 0
        && process.pid_namespace == me.pid_namespace
}

/// Returns true if `process`, which is [`visible`], has ended; takes no
/// descriptor.
pub(crate) fn has_ended(process: &ProcessId) -> bool {
    let reused = match os::start_time(process.pid) {
        Some(now) => process.start_time != 0 && now != process.start_time,
        None => false,
    };
    reused || os::ended(process.pid)
}

/// Opens a pidfd on exactly `process`, as seen from `me`.
pub(crate) fn open(me: &ProcessId, process: &ProcessId) -> Result<OwnedFd, Watch> {
    if !visible(me, process) {
        return Err(Watch::Unwatchable);
    }
    let fd = os::pidfd_open(process.pid).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => Watch::Dead,
        _ if crate::ulimit::no_descriptor(&error) => Watch::NoDescriptor,
        _ => Watch::Unwatchable,
    })?;
    // Only now is the pid pinned: if its start time is another one, the pid
    // was reused and the peer is gone. A hidden /proc says nothing.
    match os::start_time(process.pid) {
        Some(now) if process.start_time != 0 && now != process.start_time => Err(Watch::Dead),
        _ => Ok(fd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_death_of_a_child_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut id = ProcessId::current();
        id.pid = child.id();
        id.start_time = os::start_time(id.pid).unwrap();
        let liveness = Liveness::new();
        assert_eq!(liveness.dead(), None);
        assert_eq!(liveness.watch(3, &id), Watch::Watched);
        assert_eq!(liveness.watch(3, &id), Watch::Watched);
        assert_eq!(liveness.watching(), 1);
        assert_eq!(liveness.dead(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(liveness.all_dead(), [3]);
        assert_eq!(liveness.dead(), Some(3));
        assert_eq!(liveness.all_dead(), [3]);
        let late = Liveness::new();
        for rank in [3, 4, 3] {
            assert_eq!(late.watch(rank, &id), Watch::Dead);
        }
        assert_eq!((late.all_dead(), late.is_dead(4)), (vec![3, 4], true));
        late.forget(3);
        assert_eq!((late.all_dead(), late.dead()), (vec![4], Some(4)));
    }

    #[test]
    fn reused_pids_are_dead_and_foreign_ones_unwatchable() {
        let mut id = ProcessId::current();
        id.start_time += 1;
        let liveness = Liveness::new();
        assert_eq!(liveness.watch(1, &id), Watch::Dead);
        assert_eq!(liveness.dead(), Some(1));
        let mut id = ProcessId::current();
        id.pid_namespace ^= 1;
        assert_eq!(Liveness::new().watch(1, &id), Watch::Unwatchable);
        let mut id = ProcessId::current();
        id.machine[0] ^= 1;
        assert_eq!(Liveness::new().watch(1, &id), Watch::Unwatchable);
    }
}
