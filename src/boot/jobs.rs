//! Numbers for the processes of other jobs: those of a job have consecutive ones, rank by
//! rank, so that a job met takes some bytes whatever its size and a group of its processes is
//! a formula.

use std::ops::Range;

/// The jobs that this process has met. A job's numbers are given out again once it was
/// [forgotten](Jobs::forget).
#[derive(Debug)]
pub struct Jobs {
    /// What numbers there are.
    numbers: Range<u32>,
    /// By their first number, rising.
    met: Vec<Job>,
}

#[derive(Debug)]
struct Job {
    /// The launcher's number.
    id: u64,
    first: u32,
    size: u32,
    /// Communicators with members in it; `None` before the first.
    users: Option<u32>,
}

impl Job {
    fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.size
    }
}

impl Jobs {
    /// None met so far; processes get numbers out of `numbers`.
    pub fn new(numbers: Range<u32>) -> Jobs {
        Jobs { numbers, met: Vec::new() }
    }

    /// The number of the first process of a job of `size`, which is met now if it was not:
    /// the lowest from which so many are free. `None` where there are not so many.
    pub fn meet(&mut self, id: u64, size: u32) -> Option<u32> {
        if let Some(job) = self.find(id) {
            return Some(job.first);
        }
        let mut first = self.numbers.start;
        let behind = |job: &Job, first: u32| job.first - first >= size;
        let at = self.met.iter().position(|job| {
            let fits = behind(job, first);
            first = if fits { first } else { job.numbers().end };
            fits
        });
        if size == 0 || size > self.numbers.end - first {
            return None;
        }
        let job = Job { id, first, size, users: None };
        self.met.insert(at.unwrap_or(self.met.len()), job);
        Some(first)
    }

    /// Returns true if a job was met, and is not forgotten.
    pub fn knows(&self, id: u64) -> bool {
        self.find(id).is_some()
    }

    /// The jobs that were met and not forgotten, with their sizes.
    pub fn met(&self) -> impl Iterator<Item = (u64, u32)> {
        self.met.iter().map(|job| (job.id, job.size))
    }

    /// The number of a rank of a job that was met.
    pub fn number(&self, id: u64, rank: u32) -> Option<u32> {
        let job = self.find(id).filter(|job| rank < job.size)?;
        Some(job.first + rank)
    }

    /// The numbers of a job's processes; none of one that was not met.
    pub fn numbers(&self, id: u64) -> Range<u32> {
        self.find(id).map_or(0..0, Job::numbers)
    }

    /// Job and rank of the process with a number.
    pub fn process(&self, number: u32) -> Option<(u64, u32)> {
        let at = self.met.partition_point(|job| job.first <= number).checked_sub(1)?;
        let job = self.met.get(at).filter(|job| job.numbers().contains(&number))?;
        Some((job.id, number - job.first))
    }

    /// Another communicator has members in a job that was met.
    pub fn hold(&mut self, id: u64) {
        if let Some(job) = self.met.iter_mut().find(|job| job.id == id) {
            job.users = Some(job.users.unwrap_or(0) + 1);
        }
    }

    /// A communicator that had is gone.
    pub fn release(&mut self, id: u64) {
        if let Some(job) = self.met.iter_mut().find(|job| job.id == id) {
            job.users = job.users.map(|users| users.saturating_sub(1));
        }
    }

    /// The jobs in which no communicator has members any more, and their processes' numbers.
    pub fn idle(&self) -> Vec<(u64, Range<u32>)> {
        let idle = self.met.iter().filter(|job| job.users == Some(0));
        idle.map(|job| (job.id, job.numbers())).collect()
    }

    /// Gives a job's numbers back. Nobody may use them for its processes any more.
    pub fn forget(&mut self, id: u64) {
        self.met.retain(|job| job.id != id);
    }

    fn find(&self, id: u64) -> Option<&Job> {
        self.met.iter().find(|job| job.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rankmap::{Model, RankMap};

    #[test]
    fn processes_have_consecutive_numbers_and_two_jobs_are_two_segments() {
        let mut jobs = Jobs::new(8..100);
        assert_eq!(
            (jobs.meet(7, 40), jobs.meet(3, 30), jobs.meet(7, 40)),
            (Some(8), Some(48), Some(8))
        );
        assert_eq!(
            (jobs.number(3, 29), jobs.number(3, 30), jobs.number(4, 0)),
            (Some(77), None, None)
        );
        assert_eq!(
            (jobs.process(47), jobs.process(77), jobs.process(78)),
            (Some((7, 39)), Some((3, 29)), None)
        );
        assert_eq!(jobs.process(7), None);
        // More than are left, or none.
        assert_eq!((jobs.meet(5, 23), jobs.meet(5, 0), jobs.knows(5)), (None, None, false));
        let of =
            |id, count| (0..count).filter_map(|rank| jobs.number(id, rank)).collect::<Vec<_>>();
        let merged = RankMap::from_lpids(0, [of(7, 40), of(3, 30)].concat()).unwrap();
        assert_ne!(merged.model(), Model::Lut);
        // One behind the other even in numbers, or two segments.
        assert!(merged.bytes() <= 100, "{merged:?}");
        let other = RankMap::from_lpids(0, [of(3, 30), of(7, 40)].concat()).unwrap();
        assert!(other.bytes() <= 100 && other.model() != Model::Lut, "{other:?}");
    }

    #[test]
    fn ten_thousand_jobs_take_no_more_than_the_most_at_a_time() {
        let mut jobs = Jobs::new(4..4 + 12);
        let long_lived = jobs.meet(1, 2);
        jobs.hold(1);
        for id in 2..10_002 {
            let first = jobs.meet(id, 5).unwrap();
            assert_eq!(first, 6);
            assert_eq!(jobs.idle(), [], "it is about to be used");
            jobs.hold(id);
            assert_eq!(jobs.idle(), []);
            jobs.release(id);
            assert_eq!(jobs.idle(), [(id, 6..11)]);
            jobs.forget(id);
            assert!(!jobs.knows(id) && jobs.process(first).is_none());
        }
        assert_eq!((long_lived, jobs.met.len()), (Some(4), 1));
        assert!(jobs.met.capacity() <= 4);
    }
}
