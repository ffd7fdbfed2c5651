//! A handler that hands its messages to other threads.

use super::active::{Active, Call, HandlerStatus};
use super::error::MsgError;
use super::notifier::Notifier;
use crate::netmod::Netmod;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A message in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmMessage {
    /// World rank of the sender.
    pub from: u32,
    /// The header.
    pub header: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Where other threads find a handler's messages: a queue of fixed length.
/// When it is full, messages stay with the context and their senders get no
/// credit for them. Requests are answered with no reply.
#[derive(Clone, Debug)]
pub struct Mailbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: ArrayQueue<AmMessage>,
    notifier: Notifier,
}

impl Mailbox {
    /// Registers a handler that fills a mailbox of `capacity` messages, at least
    /// one.
    ///
    /// # Errors
    /// [`MsgError::HandlerTaken`].
    pub fn open<N: Netmod>(
        active: &Active<N>,
        id: u16,
        capacity: usize,
    ) -> Result<Mailbox, MsgError> {
        let queue = ArrayQueue::new(capacity.max(1));
        let mailbox = Mailbox { inner: Arc::new(Inner { queue, notifier: Notifier::default() }) };
        let inner = Arc::clone(&mailbox.inner);
        active.register(id, move |call| inner.take(call))?;
        Ok(mailbox)
    }

    /// The oldest message, if there is one.
    pub fn pop(&self) -> Option<AmMessage> {
        self.inner.queue.pop()
    }

    /// The oldest message; waits for one at most so long. The thread that owns
    /// the context must not call this: it is who brings the messages.
    pub fn wait(&self, limit: Duration) -> Option<AmMessage> {
        let end = Instant::now() + limit;
        loop {
            if let Some(message) = self.pop() {
                return Some(message);
            }
            if !self.inner.notifier.wait(|| self.inner.queue.is_empty(), end) {
                return None;
            }
        }
    }

    /// Letters in it now.
    pub fn len(&self) -> usize {
        self.inner.queue.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.queue.is_empty()
    }
}

impl Inner {
    fn take<N: Netmod>(&self, call: &mut Call<'_, N>) -> HandlerStatus {
        if self.queue.is_full() {
            return HandlerStatus::Held;
        }
        let (header, payload) = (call.header.to_vec(), call.payload.to_vec());
        // Only this context pushes: what was not full still is not.
        if self.queue.push(AmMessage { from: call.from, header, payload }).is_err() {
            return HandlerStatus::Held;
        }
        self.notifier.notify();
        HandlerStatus::Consumed
    }
}
