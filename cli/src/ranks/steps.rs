//! What all ranks of a job take for a step.

use super::coroutines;
use crate::HEAP;
use crate::output::text;
use rankway::boot::in_process::Job;
use rankway::device::{self, Context, Options};
use rankway::netmod::in_process::InProcess;
use rankway::rma::Communicator;
use serde::Serialize;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a step took, of all ranks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Counts {
    pub(crate) seconds: f64,
    /// Of the set-up channel.
    pub(crate) messages: u64,
    pub(crate) message_bytes: u64,
    /// On the heap, less than before where it gave some back.
    pub(crate) heap_bytes: i64,
}

/// What is looked at between steps.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    messages: u64,
    message_bytes: u64,
    heap_bytes: usize,
}

impl Reading {
    fn of(job: &Job) -> Reading {
        Reading {
            at: Instant::now(),
            messages: job.frames(),
            message_bytes: job.frame_bytes(),
            heap_bytes: HEAP.read().live,
        }
    }

    fn since(&self, before: &Reading) -> Counts {
        Counts {
            seconds: (self.at - before.at).as_secs_f64(),
            messages: self.messages - before.messages,
            message_bytes: self.message_bytes - before.message_bytes,
            heap_bytes: self.heap_bytes as i64 - before.heap_bytes as i64,
        }
    }
}

/// A job whose ranks take the same steps together.
pub(crate) struct Steps {
    job: Arc<Job>,
    readings: Mutex<Vec<Reading>>,
    ended: Box<dyn Fn(usize) + Send + Sync>,
}

impl Steps {
    /// Of so many ranks; `ended` is told how many steps have ended.
    pub(crate) fn new(
        ranks: u32,
        ended: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Steps, String> {
        let job = Job::new(ranks, coroutines::pause).map_err(text)?;
        let first = Reading::of(&job);
        Ok(Steps { job, readings: Mutex::new(vec![first]), ended: Box::new(ended) })
    }

    /// The context of a rank, which is in a coroutine.
    pub(crate) fn context(&self, rank: u32) -> Result<Rc<Context<InProcess>>, String> {
        let boot = self.job.rank(rank).map_err(text)?;
        let context = device::open_over::<InProcess>(boot, &Options::default()).map_err(text)?;
        context.set_progress_hook(coroutines::pause);
        Ok(context)
    }

    /// All ranks have come: the first reads what is there, while the others wait.
    pub(crate) fn end(&self, world: &Communicator<InProcess>) -> Result<(), String> {
        let boot = world.device().boot();
        let mut idle = || {
            let _ = world.context().progress();
        };
        boot.fence(&mut idle).map_err(text)?;
        if boot.rank() == 0 {
            let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
            readings.push(Reading::of(&self.job));
            (self.ended)(readings.len() - 1);
        }
        boot.fence(&mut idle).map_err(text)
    }

    /// What each step took and the last, which is not ended by them, once all have ended.
    pub(crate) fn counts(&self) -> Vec<Counts> {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.push(Reading::of(&self.job));
        readings.windows(2).map(|pair| pair[1].since(&pair[0])).collect()
    }
}
