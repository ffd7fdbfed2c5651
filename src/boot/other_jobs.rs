//! Processes of other jobs, for launchers that tell nothing of them: whom this process was
//! told of, and what it tells of itself.

use super::{ADDRESSES_KEY, BootError, Introduction, Introductions, ProcessId, Unmet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The most processes of other jobs that a process can number.
const MOST: u32 = 1 << 20;

/// What a [`Boot`](super::Boot) keeps of processes of other jobs.
#[derive(Debug)]
pub struct OtherJobs {
    job: u64,
    size: u32,
    rank: u32,
    /// Numbered from the job's size on.
    met: Mutex<Introductions>,
    /// This process's, for them.
    addresses: OnceLock<Vec<u8>>,
}

impl OtherJobs {
    /// Of a rank of a job of `size`; none met so far.
    pub fn new(job: u64, size: u32, rank: u32) -> OtherJobs {
        let numbers = size..size.saturating_add(MOST);
        let met = Mutex::new(Introductions::new(job, size, numbers));
        OtherJobs { job, size, rank, met, addresses: OnceLock::new() }
    }

    /// One past the largest number that a process of another job may get.
    pub fn end(&self) -> u32 {
        self.size.saturating_add(MOST)
    }

    /// Keeps what this process publishes under [`ADDRESSES_KEY`].
    ///
    /// # Errors
    /// [`BootError::Twice`].
    pub fn publish(&self, addresses: &[u8]) -> Result<(), BootError> {
        let first = self.addresses.set(addresses.to_vec());
        first.map_err(|_| BootError::Twice { key: ADDRESSES_KEY.into() })
    }

    /// What other jobs are told of this process, once it has addresses for them.
    pub fn own(&self) -> Option<Introduction> {
        Some(Introduction {
            job: self.job,
            size: self.size,
            rank: self.rank,
            process: Some(ProcessId::current()),
            addresses: self.addresses.get()?.clone(),
        })
    }

    /// What the process with a number has told of itself.
    pub fn of(&self, number: u32) -> Option<Introduction> {
        self.met().of(number).cloned()
    }

    /// [`Introductions::get`].
    pub fn get(&self, number: u32, key: &str) -> Option<Vec<u8>> {
        self.met().get(number, key)
    }

    /// [`Introductions::meet`].
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn meet(&self, introduction: &[u8]) -> Result<u32, Unmet> {
        self.met().meet(introduction)
    }

    /// What this process is called in packets to processes of other jobs.
    pub fn name(&self) -> u32 {
        self.met().name(self.rank)
    }

    /// [`Introductions::resolve_name`].
    pub fn resolve_name(&self, name: u32) -> Option<u32> {
        self.met().resolve_name(name)
    }

    /// Returns true if some process has a number that is no rank of this job.
    pub fn has_met(&self) -> bool {
        !self.met().is_empty()
    }

    /// The job of a number that is no rank of this one.
    pub fn job_of(&self, number: u32) -> Option<u64> {
        if number < self.size { None } else { self.met().job_of(number) }
    }

    /// A communicator has members in these jobs.
    pub fn hold(&self, jobs: &[u64]) {
        let mut met = self.met();
        jobs.iter().for_each(|&job| met.hold(job));
    }

    /// A communicator that had is gone.
    pub fn release(&self, jobs: &[u64]) {
        let mut met = self.met();
        jobs.iter().for_each(|&job| met.release(job));
    }

    /// Forgets the jobs in which no communicator has members any more, where `forget` agrees,
    /// given the numbers of its processes.
    pub fn forget_idle(&self, mut forget: impl FnMut(Range<u32>) -> bool) {
        let idle = self.met().idle();
        for (_, numbers) in idle {
            self.forget(numbers.start, &mut forget);
        }
    }

    /// The same of the job of a number; whether it is forgotten.
    pub fn forget(&self, number: u32, forget: impl FnOnce(Range<u32>) -> bool) -> bool {
        let Some(job) = self.job_of(number) else { return false };
        let numbers = self.met().numbers(job);
        let agreed = forget(numbers);
        if agreed {
            self.met().forget(job);
        }
        agreed
    }

    fn met(&self) -> MutexGuard<'_, Introductions> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
