//! What objects and processes are called in an archive.

use super::UNDEFINED;
use rankway::track::{Object, ObjectKind, Unified};
use std::cell::Cell;

/// Numbers of OTF2.
pub(super) struct Numbers {
    /// Of the communicator and of the window that an object is, by its place.
    objects: Vec<(u32, u32)>,
    /// How many communicators there are.
    comms: u32,
    /// Where the ranks of a job begin, by its place, and where all end.
    jobs: Vec<u32>,
    further: Cell<u64>,
}

impl Numbers {
    pub(super) fn new(unified: &Unified) -> Numbers {
        let (mut comms, mut windows) = (0, 0);
        let next = |count: &mut u32, is| match is {
            true => {
                *count += 1;
                *count - 1
            }
            false => UNDEFINED,
        };
        let number = |object: &Object| {
            let (comm, window) = named(object.constructor.object());
            (next(&mut comms, comm), next(&mut windows, window))
        };
        let objects = unified.objects.iter().map(number).collect();
        let mut jobs = vec![0];
        for job in &unified.jobs {
            jobs.push(jobs[jobs.len() - 1] + job.size);
        }
        let further = Cell::new(jobs[jobs.len() - 1].into());
        Numbers { objects, comms, jobs, further }
    }

    /// Of the object at a place: its communicator's and its window's, either not there.
    pub(super) fn of(&self, object: usize) -> (u32, u32) {
        self.objects[object]
    }

    /// The place of a rank in the list of all, which is the number of its location.
    pub(super) fn process(&self, unified: &Unified, job: u64, rank: u32) -> Option<u32> {
        let at = unified.job(job)? as usize;
        let process = self.jobs[at] + rank;
        (process < self.jobs[at + 1]).then_some(process)
    }

    /// A number for the location of another thread.
    pub(super) fn further_location(&self) -> u64 {
        self.further.replace(self.further.get() + 1)
    }

    /// All locations.
    pub(super) fn locations(&self) -> std::ops::Range<u64> {
        0..self.further.get()
    }

    pub(super) fn processes(&self) -> u32 {
        self.jobs[self.jobs.len() - 1]
    }

    /// How many communicators there are.
    pub(super) fn comms(&self) -> u32 {
        self.comms
    }

    /// Where the ranks of each job begin, and where all end.
    pub(super) fn jobs(&self) -> &[u32] {
        &self.jobs
    }
}

/// What is a communicator to OTF2, and what a window.
fn named(kind: ObjectKind) -> (bool, bool) {
    let comm = matches!(kind, ObjectKind::Communicator | ObjectKind::Intercommunicator);
    (comm, kind == ObjectKind::Window)
}
