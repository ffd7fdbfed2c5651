//! Streams: packets to and from contexts of another index, in order.

use super::packet::{Class, Head, Route};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

/// Packets that came before those due, of which no sender has many.
const EARLY: usize = 1 << 15;

/// The streams of a context: by world rank and, at a first context, the index
/// of the one that asks; 0 elsewhere.
pub(super) struct Streams {
    pub(super) by_asker: RefCell<BTreeMap<(u32, u32), Stream>>,
    /// Something waits for space.
    pub(super) busy: Cell<bool>,
    /// Tells a context from those that had its index before.
    pub(super) incarnation: u32,
}

/// The packets between a context and one of another index.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) incarnation: u32,
    pub(super) route: Option<Route>,
    /// Number of the next packet out, and of the next in.
    next: u16,
    due: u16,
    pub(super) queue: VecDeque<(Head, Box<[u8]>)>,
    early: BTreeMap<u16, (u8, Box<[u8]>)>,
}

impl Default for Streams {
    fn default() -> Streams {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let incarnation = NEXT.fetch_add(1, Ordering::Relaxed);
        Streams { by_asker: RefCell::default(), busy: Cell::new(false), incarnation }
    }
}

impl Streams {
    /// Those of a further context, to first ones: to whom, along which route, and whether
    /// something waits for space.
    pub(super) fn to_firsts(&self) -> Vec<(u32, Option<Route>, bool)> {
        let of = |(&(peer, index), stream): (&(u32, u32), &Stream)| {
            (index == 0).then_some((peer, stream.route, !stream.queue.is_empty()))
        };
        self.by_asker.borrow().iter().filter_map(of).collect()
    }

    /// Returns true if a further context has spoken to a peer's first one.
    pub(super) fn is_used(&self, peer: u32) -> bool {
        self.by_asker.borrow().contains_key(&(peer, 0))
    }

    /// Returns true if something waits for space.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.busy.get()
    }
}

impl Stream {
    /// Queues a packet.
    pub(super) fn push(&mut self, kind: u8, index: u32, body: Box<[u8]>) {
        let words = [u64::from(index), u64::from(self.incarnation), u64::from(self.next)];
        self.queue.push_back((Head::new(Class::Link, kind, words), body));
        self.next = self.next.wrapping_add(1);
    }

    /// An empty stream of an incarnation.
    pub(super) fn of(incarnation: u32) -> Stream {
        Stream { incarnation, ..Stream::default() }
    }

    /// Keeps a packet until it is due.
    pub(super) fn sort(&mut self, number: u16, kind: u8, body: &[u8]) {
        if self.early.len() < EARLY {
            self.early.insert(number, (kind, body.into()));
        }
    }

    /// The packet that is due, taken out.
    pub(super) fn take(&mut self) -> Option<(u8, Box<[u8]>)> {
        let next = self.early.remove(&self.due)?;
        self.due = self.due.wrapping_add(1);
        Some(next)
    }

    /// Puts back the packet that was taken last.
    pub(super) fn put_back(&mut self, kind: u8, body: Box<[u8]>) {
        self.due = self.due.wrapping_sub(1);
        self.early.insert(self.due, (kind, body));
    }

    /// Returns true if a packet is due.
    pub(super) fn has_due(&self) -> bool {
        self.early.contains_key(&self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_in_order_and_one_put_back_is_due_again() {
        let mut stream = Stream::of(7);
        for number in [2, 0, 1] {
            stream.sort(number, number as u8, &[]);
        }
        for due in 0..3 {
            assert!(stream.has_due());
            let (kind, body) = stream.take().unwrap();
            assert_eq!(kind, due);
            stream.put_back(kind, body);
            assert_eq!(stream.take().unwrap().0, due);
        }
        assert!(!stream.has_due() && stream.take().is_none());
    }
}
