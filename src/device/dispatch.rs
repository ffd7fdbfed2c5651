//! Who takes packets and completions, by class, and what is to be told to them.
//!
//! Keeps the handlers and what they are to be called for; never calls one.

use super::packet::{Class, Head};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The handlers of a context.
pub(super) struct Dispatch<H: ?Sized> {
    handlers: [OnceCell<Rc<H>>; Class::COUNT],
    /// Handlers with deferred work, a bit for each class.
    pending: Cell<u32>,
    lost: RefCell<Option<Box<Lost>>>,
    /// Packets of classes without a handler so far.
    unclaimed: RefCell<Vec<(Head, Box<[u8]>)>>,
}

/// Lost peers that the handlers are to be told of, behind what these sent before.
struct Lost {
    peers: Vec<u32>,
    /// When the first of them was added.
    since: Instant,
    /// What had come in at the last look, looks in a row that found nothing more, and since when.
    events: u64,
    quiet: u32,
    quiet_since: Instant,
}

/// Looks that find nothing until nothing more is taken to come of the lost, and the least
/// time that they take: looks of a wait that sleeps come many at a time.
const QUIET: u32 = 64;
const QUIET_TIME: Duration = Duration::from_millis(30);
/// The longest time for which a loss is not told because something comes in, of whomever.
const LONGEST: Duration = Duration::from_secs(1);

impl<H: ?Sized> Default for Dispatch<H> {
    fn default() -> Dispatch<H> {
        Dispatch {
            handlers: Default::default(),
            pending: Cell::new(0),
            lost: RefCell::default(),
            unclaimed: RefCell::default(),
        }
    }
}

impl<H: ?Sized> Dispatch<H> {
    /// Sets the handler of a class, once. Returns the packets that came too
    /// early for some class.
    pub(super) fn register(&self, class: Class, handler: Rc<H>) -> Vec<(Head, Box<[u8]>)> {
        let _ = self.handlers[class as usize].set(handler);
        self.unclaimed.take()
    }

    /// The handler of a class, if one is registered.
    #[inline]
    pub(super) fn handler(&self, class: Class) -> Option<&Rc<H>> {
        self.handlers[class as usize].get()
    }

    /// All that are registered.
    pub(super) fn handlers(&self) -> impl Iterator<Item = &Rc<H>> {
        self.handlers.iter().filter_map(OnceCell::get)
    }

    /// Keeps a packet until its class has a handler: not more than the handlers'
    /// own credit lets peers send.
    pub(super) fn keep(&self, head: &Head, body: &[u8]) {
        self.unclaimed.borrow_mut().push((*head, body.into()));
    }

    /// Has the handler of a class called for its deferred work.
    #[inline]
    pub(super) fn schedule(&self, class: Class) {
        self.pending.set(self.pending.get() | 1 << class as u32);
    }

    /// Has all handlers told of a loss.
    pub(super) fn add_lost(&self, peer: u32) {
        let mut lost = self.lost.borrow_mut();
        let lost = lost.get_or_insert_with(|| {
            let now = Instant::now();
            Box::new(Lost { peers: vec![], since: now, events: 0, quiet: 0, quiet_since: now })
        });
        lost.peers.push(peer);
        (lost.quiet, lost.quiet_since) = (0, Instant::now());
    }

    /// Nobody is told of the loss of a peer whose number another process will have.
    pub(super) fn forget_lost(&self, peer: u32) {
        if let Some(lost) = &mut *self.lost.borrow_mut() {
            lost.peers.retain(|&lost| lost != peer);
        }
    }

    /// Returns true if a handler is to be called.
    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        self.pending.get() != 0 || self.has_lost()
    }

    /// Returns true if the handlers are to be told of losses.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// The losses that the handlers are to be told of now, taken out: once nothing comes in any
    /// more, of which there were `events` so far. Asked after each poll.
    pub(super) fn take_lost(&self, events: u64) -> Vec<u32> {
        let mut slot = self.lost.borrow_mut();
        let Some(lost) = &mut *slot else { return Vec::new() };
        lost.quiet += 1;
        if lost.events != events {
            (lost.events, lost.quiet, lost.quiet_since) = (events, 0, Instant::now());
        }
        let quiet = lost.quiet >= QUIET && lost.quiet_since.elapsed() >= QUIET_TIME;
        let waits = !quiet && lost.since.elapsed() < LONGEST;
        if waits { Vec::new() } else { slot.take().map_or_else(Vec::new, |lost| lost.peers) }
    }

    /// The handlers with deferred work, taken out.
    pub(super) fn take_pending(&self) -> impl Iterator<Item = &Rc<H>> {
        let pending = self.pending.take();
        let scheduled = self.handlers.iter().enumerate();
        let scheduled = scheduled.filter(move |(class, _)| pending & 1 << class != 0);
        scheduled.filter_map(|(_, handler)| handler.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_its_handler_is_kept_and_what_is_scheduled_is_called_once() {
        let dispatch = Dispatch::<str>::default();
        let head = Head::new(Class::Rma, 1, [0; 3]);
        dispatch.keep(&head, &[5]);
        dispatch.schedule(Class::Rma);
        dispatch.schedule(Class::Active);
        assert!(dispatch.register(Class::Tagged, "tagged".into()).len() == 1);
        assert!(dispatch.register(Class::Rma, "rma".into()).is_empty(), "handed out once");
        assert_eq!(dispatch.handler(Class::Rma).map(|h| &**h), Some("rma"));
        assert!(dispatch.has_pending());
        let called: Vec<_> = dispatch.take_pending().map(|handler| &**handler).collect();
        assert_eq!(called, ["rma"]);
        assert!(!dispatch.has_pending());
        dispatch.add_lost(3);
        for events in 1..100 {
            assert_eq!(dispatch.take_lost(events), [0; 0], "something comes in");
        }
        assert!(dispatch.has_pending());
        let quiet = Instant::now();
        let told = std::iter::repeat_with(|| dispatch.take_lost(99).pop()).find_map(|told| told);
        assert!(quiet.elapsed() >= QUIET_TIME, "at once");
        assert_eq!((told, dispatch.has_pending()), (Some(3), false));
    }
}
