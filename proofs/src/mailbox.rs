//! A mailbox: a queue and its notifier. Who waits for a message gets it.

use crate::notifier::Notifier;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Mailbox {
    messages: Mutex<VecDeque<u32>>,
    notifier: Notifier,
}

impl Mailbox {
    fn push(&self, message: u32) {
        self.messages.lock().unwrap().push_back(message);
        self.notifier.notify();
    }

    /// Loom's waits have no end: one that nobody notifies is reported.
    fn wait(&self) -> u32 {
        let end = Instant::now() + Duration::from_secs(3600);
        loop {
            let message = self.messages.lock().unwrap().pop_front();
            if let Some(message) = message {
                return message;
            }
            assert!(self.notifier.wait(|| self.messages.lock().unwrap().is_empty(), end));
        }
    }
}

#[test]
fn two_who_wait_get_a_message_each() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let waits = [(); 2].map(|()| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.wait())
        });
        mailbox.push(1);
        mailbox.push(2);
        let sum: u32 = waits.map(|wait| wait.join().unwrap()).iter().sum();
        assert_eq!(sum, 3);
    });
}
