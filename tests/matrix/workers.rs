//! Two threads, each with a context of its own, that work on windows made by
//! the first one.

use super::perform::Perform;
use super::program::{Epoch, Frame};
use super::watch::Watch;
use crate::harness::{Opens, Result, text};
use rankway::device::{Context, Device};
use rankway::rankmap::RankMap;
use rankway::rma::{Access, WindowState};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Scope;
use std::time::Duration;

/// What one thread is to do.
pub struct Job<N: Opens> {
    pub state: Arc<WindowState<N>>,
    pub map: RankMap,
    pub frame: Frame,
    pub starts: Arc<[usize]>,
    pub epochs: Vec<Epoch>,
    pub before: Vec<Vec<Vec<u8>>>,
    /// To wait within the epoch until it is told to go on.
    pub held: bool,
}

enum Order<N: Opens> {
    Job(Box<Job<N>>),
    GoOn,
}

enum Event {
    /// Complete, within the epoch.
    Reached,
    Done(Result<Vec<String>>),
}

pub struct Workers<N: Opens> {
    orders: Vec<Sender<Order<N>>>,
    events: Receiver<Event>,
}

impl<N: Opens> Workers<N> {
    /// Starts the threads, which open their contexts when there is work.
    pub fn new<'s, 'e>(
        scope: &'s Scope<'s, 'e>,
        device: &'s Arc<Device<N>>,
        watch: &'s Watch,
    ) -> Workers<N> {
        let (tell, events) = channel();
        let start = |_| {
            let (order, orders) = channel();
            let tell = tell.clone();
            scope.spawn(move || work(device, watch, &orders, &tell));
            order
        };
        Workers { orders: (0..2).map(start).collect(), events }
    }

    pub fn start(&self, thread: usize, job: Job<N>) {
        // A thread that is gone is missed when its answer is waited for.
        let _ = self.orders[thread].send(Order::Job(Box::new(job)));
    }

    pub fn go_on(&self) {
        for order in &self.orders {
            let _ = order.send(Order::GoOn);
        }
    }

    fn next(&self, mut progress: impl FnMut() -> Result) -> Result<Event> {
        loop {
            progress()?;
            match self.events.try_recv() {
                Ok(event) => return Ok(event),
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return Err("both threads are gone".into()),
            }
        }
    }

    /// Until both wait within their epochs.
    pub fn reached(&self, mut progress: impl FnMut() -> Result) -> Result {
        for _ in &self.orders {
            if let Event::Done(done) = self.next(&mut progress)? {
                done?;
            }
        }
        Ok(())
    }

    /// Until both are done; what was wrong.
    pub fn done(&self, mut progress: impl FnMut() -> Result) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for _ in &self.orders {
            match self.next(&mut progress)? {
                Event::Done(done) => wrong.extend(done?),
                Event::Reached => return Err("a thread waits within its epoch".into()),
            }
        }
        Ok(wrong)
    }
}

/// The next order; progress until it comes.
fn next<N: Opens>(orders: &Receiver<Order<N>>, progress: impl Fn() -> Result) -> Option<Order<N>> {
    // Others want progress soon or not at all, and processors.
    let mut nap = Duration::from_micros(50);
    loop {
        match orders.recv_timeout(nap) {
            Ok(order) => return Some(order),
            // What fails here fails the next operation too, which tells.
            Err(RecvTimeoutError::Timeout) => drop(progress()),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        nap = (nap * 2).min(Duration::from_millis(1));
    }
}

fn work<N: Opens>(
    device: &Arc<Device<N>>,
    watch: &Watch,
    orders: &Receiver<Order<N>>,
    tell: &Sender<Event>,
) {
    let mut context: Option<Rc<Context<N>>> = None;
    loop {
        // What was sent last may need this context yet: progress is its owner's.
        let progress = |context: &Option<Rc<Context<N>>>| {
            context.as_ref().map_or(Ok(()), |context| context.progress().map(drop).map_err(text))
        };
        let Some(Order::Job(job)) = next(orders, || progress(&context)) else { return };
        let mut body = || -> Result<Vec<String>> {
            if context.is_none() {
                context = Some(device.context().map_err(text)?);
            }
            let context = context.as_ref().ok_or("no context")?;
            let access = Access::open(&job.state, context, &job.map).map_err(text)?;
            let wrong = RefCell::default();
            let Job { frame, starts, .. } = &*job;
            let perform = Perform { access: &access, frame, starts, watch, wrong: &wrong };
            for (epoch, before) in job.epochs.iter().zip(&job.before) {
                let between = || {
                    if job.held {
                        let _ = tell.send(Event::Reached);
                        let _ = next(orders, || context.progress().map(drop).map_err(text));
                    }
                    Ok(())
                };
                let fence = || Err("a fence is the window's".into());
                perform.epoch(epoch, before, between, fence)?;
            }
            Ok(wrong.into_inner())
        };
        let _ = tell.send(Event::Done(body()));
    }
}
