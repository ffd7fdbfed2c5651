//! Waiting: spins, then lets others have the core, then sleeps.
//!
//! A wait for something quick must not pay for sleep, and a wait for something
//! slow must not keep a core. So the first polls go back to back; then each
//! round yields; when nothing at all came in for a few milliseconds the thread
//! sleeps, on the providers' descriptors where all of them have one and what
//! is waited for comes through them, else for naps that grow with the wait, to a
//! millisecond.

use super::DeviceError;
use super::context::Context;
use super::failures::LIVENESS_INTERVAL;
use super::walks::SILENCE;
use crate::av::Transport;
use crate::netmod::{AGAIN, NetError, Netmod};
use crate::ulimit;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Polls of the providers in a wait before it lets other processes have the
/// core; those of the inbox in between take a tenth of the time.
const SPINS: u32 = 200;
/// The same where other processes wanted the core a moment ago.
const CROWDED_SPINS: u32 = 4;
/// The same behind a sleep: peers' operations that this process is only the target of show in
/// no event, and libfabric's shm carries out one at each poll.
const SLEEPY_SPINS: u32 = 32;
/// Nothing came in for this long before a wait sleeps.
const AWAKE: Duration = Duration::from_millis(3);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// A nap takes at most one in so many parts of the wait before it: what is waited for may
/// be a word in memory, whose writer wakes nobody.
const NAP_FRACTION: u32 = 16;
/// Nothing came in for this long before a wait asks whether connections are
/// missing because this process may open no more descriptors.
const STARVING: Duration = Duration::from_secs(3);
/// What a library takes at a time: libfabric's rxm 17 MiB for packets.
const POOL: u64 = 20 << 20;

/// A wait goes on for this long before it is asked whether packets are lost.
const LOSING: Duration = Duration::from_secs(4);

/// What a waiting loop found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// What was waited for is there.
    Done,
    /// Wait on.
    Waiting,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Something that peers do at once, or that shows elsewhere than in a
    /// provider: their death ends it, and sleeps are short.
    Answers,
    /// Packets, whose handler says itself what a death means.
    Packets,
    /// Packets of anybody.
    Anybody,
    /// Space in a provider for an operation.
    Space,
}

impl For {
    /// Whether the death of a peer ends the wait, which else its handler does.
    fn ends_with_peers(self) -> bool {
        matches!(self, For::Answers | For::Space)
    }
}

/// What may be slept on, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    /// The inbox's and the providers'.
    fds: [RawFd; 3],
    count: usize,
    limit: Duration,
}

impl Sleep {
    fn also(mut self, fd: RawFd) -> Option<Sleep> {
        *self.fds.get_mut(self.count)? = fd;
        self.count += 1;
        Some(self)
    }

    /// Sleeps; what wakes it is found by the next poll.
    pub(super) fn sleep(&self) {
        if self.count == 0 {
            std::thread::sleep(self.limit);
            return;
        }
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = self.fds.map(entry);
        let limit = self.limit.as_millis() as libc::c_int;
        // SAFETY: `count` is at most the length of the array. Signals and
        // errors end the sleep early, which changes nothing.
        unsafe { libc::poll(entries.as_mut_ptr(), self.count as libc::nfds_t, limit) };
    }
}

/// How long nothing has come in on a context that was looked at.
pub(super) struct Quiet {
    events: u64,
    since: Instant,
}

impl Quiet {
    pub(super) fn new<N: Netmod>(context: &Context<N>) -> Quiet {
        Quiet { events: context.pace.events(), since: Instant::now() }
    }

    /// Time in which others were let go on, who may be many, says nothing.
    fn leave_out(&mut self, elsewhere: Duration) {
        self.since += elsewhere;
    }

    /// The sleep to take now, if it is time for one. `wired`: all that is
    /// waited for comes through the providers.
    pub(super) fn sleep<N: Netmod>(&mut self, context: &Context<N>, wired: bool) -> Option<Sleep> {
        if context.pace.events() != self.events {
            *self = Quiet::new(context);
        }
        let quiet = self.since.elapsed();
        if quiet < AWAKE {
            return None;
        }
        let limit = (quiet / NAP_FRACTION).min(LONGEST_NAP);
        let nap = Sleep { fds: [-1; 3], count: 0, limit };
        Some(if wired { context.descriptors().unwrap_or(nap) } else { nap })
    }
}

impl<N: Netmod> Context<N> {
    /// Makes progress until `ready` says done. `peers` are checked when
    /// the wait drags on: a dead one ends it. A stopped process is not a dead
    /// one: the wait goes on.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`], [`DeviceError::Nested`] within a handler, and
    /// what `ready` answers.
    pub(crate) fn wait(
        &self,
        peers: &[u32],
        ready: impl FnMut() -> Result<Progress, DeviceError>,
    ) -> Result<(), DeviceError> {
        self.wait_for(For::Answers, peers, ready)
    }

    /// The same for what comes in packets, from `peer` or, if `None`, anybody:
    /// that peer is watched, but only `ready` ends the wait.
    ///
    /// # Errors
    /// What `ready` answers, and [`DeviceError::Nested`].
    pub(crate) fn wait_packets(
        &self,
        peer: Option<u32>,
        ready: impl FnMut() -> Result<Progress, DeviceError>,
    ) -> Result<(), DeviceError> {
        match peer {
            Some(peer) => self.wait_for(For::Packets, &[peer], ready),
            None => self.wait_for(For::Anybody, &[], ready),
        }
    }

    /// For calls that change something before they wait.
    ///
    /// # Errors
    /// [`DeviceError::Nested`] within a handler.
    #[inline]
    pub(crate) fn check_may_wait(&self) -> Result<(), DeviceError> {
        if self.is_progressing() { Err(DeviceError::Nested) } else { Ok(()) }
    }

    /// Issues an operation with `peer` until the provider has space for it.
    /// Returns what the provider answered, which is not [`AGAIN`].
    ///
    /// # Errors
    /// As [`Context::wait`].
    pub(crate) fn until_taken(
        &self,
        peer: u32,
        mut issue: impl FnMut() -> isize,
    ) -> Result<isize, DeviceError> {
        let mut rc = issue();
        if rc == AGAIN {
            self.wait_for(For::Space, &[peer], || {
                rc = issue();
                Ok(if rc == AGAIN { Progress::Waiting } else { Progress::Done })
            })?;
        }
        Ok(rc)
    }

    fn wait_for(
        &self,
        what: For,
        peers: &[u32],
        mut ready: impl FnMut() -> Result<Progress, DeviceError>,
    ) -> Result<(), DeviceError> {
        self.check_may_wait()?;
        let begun = self.pace.polls();
        loop {
            self.progress()?;
            if ready()? == Progress::Done {
                return Ok(());
            }
            if self.pace.polls().wrapping_sub(begun) >= self.spins() {
                return self.wait_long(what, peers, ready);
            }
        }
    }

    /// Polls of the providers before the core is given to others.
    fn spins(&self) -> u32 {
        if self.pace.is_crowded() { CROWDED_SPINS } else { SPINS }
    }

    #[cold]
    fn wait_long(
        &self,
        what: For,
        peers: &[u32],
        mut ready: impl FnMut() -> Result<Progress, DeviceError>,
    ) -> Result<(), DeviceError> {
        let begun = Instant::now();
        let mut asked = begun;
        let mut quiet = Quiet::new(self);
        ulimit::forget_refusal();
        let mut refused = false;
        loop {
            match self.check_liveness(peers) {
                // The handler tells with the next progress.
                Err(DeviceError::PeerDied { .. }) if !what.ends_with_peers() => {}
                other => other?,
            }
            if asked.elapsed() > SILENCE {
                asked = Instant::now();
                match self.check_liveness_everywhere(peers, what == For::Anybody, begun.elapsed()) {
                    Err(DeviceError::PeerDied { .. }) if !what.ends_with_peers() => {}
                    other => other?,
                }
                if begun.elapsed() > LOSING {
                    let all = what == For::Anybody || peers.is_empty();
                    self.compare_counts(peers.iter().copied(), all);
                }
                if quiet.since.elapsed() > STARVING && ulimit::starves(what == For::Space) {
                    return Err(DeviceError::NoDescriptor { peer: peers.first().copied() });
                }
                if std::mem::take(&mut refused) && quiet.since.elapsed() > STARVING {
                    self.check_memory(peers)?;
                }
                ulimit::forget_refusal();
            }
            let elsewhere = Instant::now();
            self.run_progress_hook();
            quiet.leave_out(elsewhere.elapsed());
            match quiet.sleep(self, !what.ends_with_peers()) {
                Some(sleep) => sleep.sleep(),
                None => self.pace.yield_now(),
            }
            let awake = quiet.since.elapsed() < AWAKE;
            let polls = if awake { self.spins() } else { SLEEPY_SPINS };
            let begun = self.pace.polls();
            while self.pace.polls().wrapping_sub(begun) < polls {
                self.progress()?;
                if ready()? == Progress::Done {
                    return Ok(());
                }
            }
            refused |= ulimit::was_refused();
        }
    }

    /// Nothing comes in, and the library is refused memory: it says that it has no space now, for
    /// ever.
    #[cold]
    fn check_memory(&self, peers: &[u32]) -> Result<(), DeviceError> {
        let Some(left) = ulimit::address_space().filter(|&left| left < POOL) else { return Ok(()) };
        let network = self.endpoint(Transport::Network).or(self.endpoint(Transport::Local));
        let provider = network.map(|(netmod, _)| netmod.caps().provider.clone());
        let provider = provider.unwrap_or_default();
        let error = NetError::NoAddressSpace { provider, left, needed: POOL };
        Err(match peers.first() {
            Some(&rank) => DeviceError::peer(rank, error),
            None => error.into(),
        })
    }

    /// What this thread may sleep on now: a descriptor of every open endpoint,
    /// when nothing waits for space.
    pub(super) fn descriptors(&self) -> Option<Sleep> {
        if self.has_queued() || self.dispatch.has_pending() || self.endpoints.has_retired() {
            return None;
        }
        let mut sleep = Sleep { fds: [-1; 3], count: 0, limit: LIVENESS_INTERVAL };
        for transport in [Transport::Local, Transport::Network] {
            if let Some((netmod, endpoint)) = self.endpoint(transport) {
                sleep = sleep.also(netmod.wait_fd(endpoint)?)?;
                if !netmod.arm(endpoint) {
                    return None;
                }
            }
        }
        let sleep = Some(sleep).filter(|sleep| sleep.count > 0);
        match self.node_inbox.get() {
            // Last, for it takes a while.
            Some(inbox) => sleep.and_then(|sleep| sleep.also(inbox.arm()?)),
            None => sleep,
        }
    }
}
