//! A job whose ranks are all in this process: each a thread of its own, or code that takes turns.
//!
//! For jobs of more ranks than a machine has room for processes. Each rank has a [`Boot`],
//! a device and contexts of its own; what they publish and the frames of the set-up channel
//! stay in memory, without a socket or a descriptor. Each rank is alone on its node.
//!
//! ```
//! use rankway::boot::{Boot, Control, World, in_process::Job};
//!
//! let job = Job::new(3, std::thread::yield_now)?;
//! std::thread::scope(|scope| {
//!     for rank in 0..3 {
//!         let boot = job.rank(rank).expect("a rank of the job, once");
//!         scope.spawn(move || {
//!             let world = World::of(&*boot);
//!             let control = Control::open(boot).expect("it opens no socket");
//!             control.barrier(&world, 1, &mut || Ok(false)).expect("all come");
//!         });
//!     }
//! });
//! # Ok::<(), rankway::boot::BootError>(())
//! ```

use super::values::Values;
use super::{Boot, BootError, Channel, Dealt, Placement, check_rank, os};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What the ranks of a job in one process have in common.
pub struct Job {
    id: u64,
    size: u32,
    /// By rank.
    published: Box<[Values]>,
    channel: Channel,
    /// Calls of fences so far, of all ranks.
    fences: AtomicU64,
    /// By rank: its view was given out.
    given: Box<[AtomicBool]>,
    pause: fn(),
}

impl Job {
    /// A job of `size` ranks. One that waits for others calls `pause`, which lets them go on:
    /// [`std::thread::yield_now`] where each is a thread.
    ///
    /// # Errors
    /// [`BootError::Options`] for a job without ranks, [`BootError::Os`] where the system has
    /// no random number.
    pub fn new(size: u32, pause: fn()) -> Result<Arc<Job>, BootError> {
        if size == 0 {
            return Err(BootError::Options("a job has at least one rank".into()));
        }
        Ok(Arc::new(Job {
            id: os::random_job()?,
            size,
            published: (0..size).map(|_| Values::default()).collect(),
            channel: Channel::new(size),
            fences: AtomicU64::new(0),
            given: (0..size).map(|_| AtomicBool::new(false)).collect(),
            pause,
        }))
    }

    /// The view of one rank, once. The rank has left when the last copy is dropped.
    ///
    /// # Errors
    /// [`BootError::Rank`] for one outside the job, [`BootError::Options`] for one that was
    /// given out before.
    pub fn rank(self: &Arc<Self>, rank: u32) -> Result<Arc<dyn Boot>, BootError> {
        check_rank(rank, self.size)?;
        if self.given[rank as usize].swap(true, Ordering::Relaxed) {
            let why = format!("rank {rank} of this job was given out before; each is one thread's");
            return Err(BootError::Options(why));
        }
        let incomplete = AtomicU64::new(COMPLETE);
        Ok(Arc::new(Rank { job: Arc::clone(self), rank, incomplete }))
    }

    /// Ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Frames of the set-up channel so far, of all ranks.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.channel.frames()
    }

    /// Bytes that members of collectives sent in them.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        self.channel.bytes()
    }
}

/// One rank's view of its job.
struct Rank {
    job: Arc<Job>,
    rank: u32,
    /// The fence that it waited for in vain; [`COMPLETE`] if there is none.
    incomplete: AtomicU64,
}

const COMPLETE: u64 = u64::MAX;

impl Drop for Rank {
    fn drop(&mut self) {
        self.job.channel.leave(self.rank);
    }
}

impl Boot for Rank {
    fn launcher(&self) -> &'static str {
        "in-process"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.job.size
    }

    fn job(&self) -> u64 {
        self.job.id
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        self.job.published[self.rank as usize].put(key, value)
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        let size = u64::from(self.job.size);
        // No rank counts twice for one fence.
        let number = match self.incomplete.swap(COMPLETE, Ordering::Relaxed) {
            COMPLETE => self.job.fences.fetch_add(1, Ordering::AcqRel) / size,
            number => number,
        };
        let complete = || self.job.fences.load(Ordering::Acquire) / size > number;
        let failed = |error| {
            self.incomplete.store(number, Ordering::Relaxed);
            Err(error)
        };
        let (start, timeout) = (Instant::now(), os::timeout());
        while !complete() {
            // (It may have completed this one before it left.)
            if let Some(left) = self.job.channel.first_left().filter(|_| !complete()) {
                return failed(left);
            }
            if start.elapsed() > timeout {
                let (what, seconds) = ("the launcher's fence".into(), timeout.as_secs());
                return failed(BootError::TimedOut { what, missing: Vec::new(), seconds });
            }
            idle();
            (self.job.pause)();
        }
        Ok(())
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, self.job.size)?;
        self.job.published[rank as usize].get(rank, key)
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, self.job.size)?;
        Ok(rank)
    }

    fn placement(&self) -> Result<Placement, BootError> {
        let dealt = Dealt::new(1, self.job.size);
        Ok(dealt.map_or(Placement::Listed, Placement::Dealt))
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(self.rank, code, reason);
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        Ok(())
    }

    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(true)
    }

    fn channel(&self) -> Option<&Channel> {
        Some(&self.job.channel)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Control, World};
    use super::*;

    /// What each rank of a job says, by rank.
    fn ranks<T: Send>(size: u32, body: impl Fn(Arc<dyn Boot>) -> T + Sync) -> Vec<T> {
        let job = Job::new(size, std::thread::yield_now).unwrap();
        std::thread::scope(|scope| {
            let start = |rank| {
                let (job, body) = (&job, &body);
                scope.spawn(move || body(job.rank(rank).unwrap()))
            };
            let all: Vec<_> = (0..size).map(start).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn collectives_need_no_socket() {
        let said = ranks(5, |boot| {
            let (rank, world) = (boot.rank(), World::of(&*boot));
            boot.put("key", &[rank as u8; 3]).unwrap();
            assert!(matches!(boot.put("key", b"again"), Err(BootError::Twice { .. })));
            boot.fence(&mut || ()).unwrap();
            let next = (rank + 1) % 5;
            assert_eq!(boot.get(next, "key").unwrap(), [next as u8; 3]);
            assert!(matches!(boot.get(next, "other"), Err(BootError::NotPublished { .. })));
            let control = Control::open(Arc::clone(&boot)).unwrap();
            let idle = &mut || Ok(false);
            control.barrier(&world, 1, idle).unwrap();
            assert!(!control.unanimous(&world, 2, rank != 3, idle).unwrap());
            let mine = vec![rank as u8; rank as usize];
            let all = control.allgather(&world, 3, &mine, idle).unwrap();
            let root = (rank == 2).then_some(&b"from 2"[..]);
            assert_eq!(control.broadcast(&world, 4, 2, root, idle).unwrap(), b"from 2");
            assert_eq!(control.connections(), 0);
            boot.fence(&mut || ()).unwrap();
            all
        });
        let all: Vec<_> = (0..5_u8).map(|rank| vec![rank; rank.into()]).collect();
        assert_eq!(said, vec![all; 5]);
    }

    #[test]
    fn who_leaves_is_named_to_those_who_wait() {
        let said = ranks(4, |boot| {
            let (rank, world) = (boot.rank(), World::of(&*boot));
            let control = Control::open(Arc::clone(&boot)).unwrap();
            // What was said before counts.
            control.barrier(&world, 1, &mut || Ok(false)).unwrap();
            if rank == 1 {
                return None;
            }
            let failed = control.barrier(&world, 2, &mut || Ok(false)).unwrap_err();
            let fence = boot.fence(&mut || ()).unwrap_err();
            // However often they come, a fence that lacks a rank is never complete.
            (0..4).for_each(|_| drop(boot.fence(&mut || ()).unwrap_err()));
            Some([failed.peer(), fence.peer()])
        });
        let told = |at: usize| said[at].map(|[barrier, _]| barrier);
        assert_eq!(
            [told(0), told(1), told(2), told(3)],
            [Some(Some(1)), None, Some(Some(1)), Some(Some(1))]
        );
        assert!(said.iter().flatten().all(|[_, fence]| fence.is_some()), "{said:?}");
    }

    #[test]
    fn jobs_and_ranks_that_cannot_be_are_refused() {
        let pause = std::thread::yield_now;
        assert!(matches!(Job::new(0, pause), Err(BootError::Options(_))));
        let job = Job::new(2, pause).unwrap();
        assert!(matches!(job.rank(2), Err(BootError::Rank { rank: 2, size: 2 })));
        let first = job.rank(0).unwrap();
        assert!(matches!(job.rank(0), Err(BootError::Options(_))));
        assert_eq!((first.size(), first.launcher(), job.size()), (2, "in-process", 2));
        assert!(matches!(first.node_of(2), Err(BootError::Rank { .. })));
        assert_eq!((job.frames(), job.frame_bytes()), (0, 0));
    }
}
