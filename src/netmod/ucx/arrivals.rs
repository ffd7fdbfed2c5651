//! Packets from UCX's callback until the poll hands them on.
//!
//! Nothing is handed on from within the callback: what takes a packet may open
//! an endpoint to its sender, and over tcp UCX 1.13 then moves the connection
//! away under the loop that is reading it, which ends the process.

use crate::netmod::HEAD;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Packets in the order they came in.
#[derive(Default)]
pub(super) struct Arrivals {
    list: RefCell<List>,
}

#[derive(Default)]
struct List {
    /// Heads, and how long the bodies are.
    heads: VecDeque<([u8; HEAD], usize)>,
    /// The bodies, one after the other.
    bodies: Vec<u8>,
}

/// More than this is given back when all has been handed on.
const KEPT: usize = 1 << 20;

impl Arrivals {
    pub(super) fn is_empty(&self) -> bool {
        self.list.borrow().heads.is_empty()
    }

    /// Keeps a copy of a packet.
    pub(super) fn push(&self, head: &[u8; HEAD], body: &[u8]) {
        let list = &mut *self.list.borrow_mut();
        list.heads.push_back((*head, body.len()));
        list.bodies.extend_from_slice(body);
    }

    /// Hands on all that is here. After a panic of `arrived` the rest stays.
    pub(super) fn hand_on(&self, mut arrived: impl FnMut(&[u8; HEAD], &[u8])) {
        if self.is_empty() {
            return;
        }
        let mut rest = Rest { list: self.list.take(), taken: 0, home: self };
        while let Some((head, len)) = rest.list.heads.pop_front() {
            let begin = rest.taken;
            rest.taken += len;
            arrived(&head, &rest.list.bodies[begin..rest.taken]);
        }
    }
}

/// Packets on their way; back to where they came from, before what came since.
struct Rest<'a> {
    list: List,
    /// Bytes of the bodies that were handed on.
    taken: usize,
    home: &'a Arrivals,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        let List { heads, bodies } = &mut self.list;
        bodies.drain(..self.taken);
        bodies.shrink_to(KEPT);
        let home = &mut *self.home.list.borrow_mut();
        heads.append(&mut home.heads);
        bodies.append(&mut home.bodies);
        *home = std::mem::take(&mut self.list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn head(number: u8) -> [u8; HEAD] {
        [number; HEAD]
    }

    #[test]
    fn in_order_and_after_a_panic_the_rest() {
        let arrivals = Arrivals::default();
        for number in 0..5 {
            arrivals.push(&head(number), &vec![number; usize::from(number) * 3]);
        }
        let mut seen = Vec::new();
        let call = AssertUnwindSafe(|| {
            arrivals.hand_on(|head, body| {
                assert_eq!(body, vec![head[0]; usize::from(head[0]) * 3]);
                seen.push(head[0]);
                if head[0] == 1 {
                    // What comes meanwhile comes after what is here.
                    arrivals.push(&[9; HEAD], &[9; 27]);
                }
                assert_ne!(head[0], 2, "as one that takes packets may");
            });
        });
        assert!(catch_unwind(call).is_err());
        assert!(!arrivals.is_empty());
        arrivals.hand_on(|head, body| {
            assert_eq!(body, vec![head[0]; usize::from(head[0]) * 3]);
            seen.push(head[0]);
        });
        assert_eq!(seen, [0, 1, 2, 3, 4, 9]);
        assert!(arrivals.is_empty());
        arrivals.hand_on(|_, _| unreachable!("nothing is handed on twice"));
    }
}
