//! The boot of a forked rank.

use super::arena::{Arena, FINALIZED, RUNNING};
use super::{Layout, Options};
use crate::boot::{Boot, BootError, Fate, check_rank, os, sweep};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// [`Boot`] of one rank of a forked job.
pub(super) struct Local {
    arena: Arc<Arena>,
    rank: u32,
    nodes: u32,
    layout: Layout,
    supervisor: libc::pid_t,
    /// Makes this process's threads take turns at `put`.
    putting: Mutex<()>,
    /// The last fence did not complete.
    failed: AtomicBool,
}

impl Local {
    pub(super) fn new(arena: Arc<Arena>, rank: u32, options: &Options, supervisor: i32) -> Self {
        sweep::sweep_stale();
        arena.slot(rank).state.store(RUNNING, Ordering::Release);
        let Options { nodes, layout, .. } = *options;
        Local {
            arena,
            rank,
            nodes,
            layout,
            supervisor,
            putting: Mutex::new(()),
            failed: AtomicBool::new(false),
        }
    }

    /// Ranks that have not reached fence number `fence`.
    fn missing(&self, fence: u64) -> impl Iterator<Item = u32> + '_ {
        let reached = |rank: u32| self.arena.slot(rank).fence.load(Ordering::Acquire);
        (0..self.arena.ranks()).filter(move |&rank| reached(rank) < fence)
    }
}

/// Returns true if `a` comes before `b`; a futex has 32 bits, so the numbers
/// wrap.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Boot for Local {
    fn launcher(&self) -> &'static str {
        "local"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.arena.ranks()
    }

    fn job(&self) -> u64 {
        self.arena.job
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        let _turn = self.putting.lock().unwrap_or_else(|poison| poison.into_inner());
        if self.arena.find(self.rank, key).is_some() {
            return Err(BootError::Twice { key: key.into() });
        }
        self.arena.append(self.rank, key, value)
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        const SPINS: u32 = 50;
        const NAP: Duration = Duration::from_millis(1);
        let header = self.arena.header();
        let slot = self.arena.slot(self.rank);
        if slot.state.load(Ordering::Relaxed) == FINALIZED {
            return Err(BootError::Finalized { what: "fence" });
        }
        // A fence that failed goes on where it was: no rank may count twice
        // for one fence, or the sum would come too early.
        let again = self.failed.swap(true, Ordering::Relaxed);
        let mine = slot.fence.load(Ordering::Relaxed) + u64::from(!again);
        slot.fence.store(mine, Ordering::Release);
        let arrived = header.arrived.fetch_add(u64::from(!again), Ordering::AcqRel) + 1;
        // Nobody is ahead of a fence that someone has yet to reach, so the
        // sum says when the last one comes.
        if !again && arrived == mine * u64::from(self.arena.ranks()) {
            self.failed.store(false, Ordering::Relaxed);
            header.generation.store(mine as u32, Ordering::Release);
            os::futex_wake_all(&header.generation);
            return Ok(());
        }
        let timeout = os::timeout();
        let start = Instant::now();
        let mut ended_seen = 0;
        for round in 0u32.. {
            // Read before the generation: an end noted after everyone had
            // arrived must not fail this fence.
            let ended = header.ended.load(Ordering::Acquire);
            let generation = header.generation.load(Ordering::Acquire);
            if !before(generation, mine as u32) {
                self.failed.store(false, Ordering::Relaxed);
                return Ok(());
            }
            if ended != ended_seen {
                ended_seen = ended;
                for rank in self.missing(mine) {
                    if let Some(how) = self.arena.obituary(rank) {
                        let how = format!("{how} before the fence");
                        return Err(BootError::PeerDied { rank, how });
                    }
                }
            }
            idle();
            if round < SPINS {
                std::hint::spin_loop();
                continue;
            }
            os::futex_wait(&header.generation, generation, NAP);
            if start.elapsed() > timeout {
                return Err(BootError::TimedOut {
                    what: "fence".into(),
                    missing: self.missing(mine).collect(),
                    seconds: timeout.as_secs(),
                });
            }
        }
        unreachable!("the loop above only ends by returning")
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, self.size())?;
        let value = self.arena.find(rank, key).map(<[u8]>::to_vec);
        value.ok_or_else(|| BootError::NotPublished { rank, key: key.into() })
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, self.size())?;
        Ok(self.layout.node(rank, self.size(), self.nodes))
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(self.rank, code, reason);
        let header = self.arena.header();
        let aborted = (u64::from(self.rank) + 1) << 32 | u64::from(code as u32);
        let (done, failed) = (Ordering::Release, Ordering::Relaxed);
        let _ = header.aborted.compare_exchange(0, aborted, done, failed);
        // SAFETY: getppid and kill take no memory; the parent is checked to
        // be the supervisor still, so no stranger gets the signal.
        unsafe {
            if libc::getppid() == self.supervisor {
                libc::kill(self.supervisor, libc::SIGTERM);
            }
        }
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        let state = &self.arena.slot(self.rank).state;
        if state.swap(FINALIZED, Ordering::AcqRel) != FINALIZED {
            sweep::sweep_process(std::process::id(), self.job());
        }
        Ok(())
    }

    fn fate(&self, rank: u32) -> Fate {
        if rank >= self.size() {
            return Fate::Unknown;
        }
        match self.arena.obituary(rank) {
            None => Fate::Unknown,
            Some(_) if self.arena.exited_well(rank) => Fate::Left,
            Some(how) => Fate::Died(how),
        }
    }

    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_numbers_wrap() {
        assert!(before(1, 2) && !before(2, 2) && !before(3, 2));
        assert!(before(u32::MAX, 0) && !before(0, u32::MAX));
    }
}
