//! A ring of the node with its wake flag and pipe: nothing is lost, nothing is read
//! half written, and nobody sleeps while something is there.

use crate::wake_flag::WakeFlag;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const SLOTS: u32 = 2;
const LAP: u64 = 1 << 63;

/// Two slots, as `ring.rs` has them.
#[derive(Default)]
struct Ring {
    first: [AtomicU64; SLOTS as usize],
    body: [UnsafeCell<u32>; SLOTS as usize],
    taken: AtomicU32,
}

// SAFETY: bodies are under test: loom says where they are not one side's.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

fn place(n: u32) -> (usize, u64) {
    ((n % SLOTS) as usize, if n / SLOTS % 2 == 0 { 0 } else { LAP })
}

impl Ring {
    fn put(&self, n: u32) {
        while n.wrapping_sub(self.taken.load(Ordering::Acquire)) >= SLOTS {
            thread::yield_now();
        }
        let (at, lap) = place(n);
        // SAFETY: the receiver gave the slot back.
        self.body[at].with_mut(|body| unsafe { *body = n });
        self.first[at].store(1 | lap, Ordering::Release);
    }

    fn take(&self, n: u32) -> bool {
        let (at, lap) = place(n);
        if ((self.first[at].load(Ordering::Acquire) ^ lap) as i64) <= 0 {
            return false;
        }
        // SAFETY: the sender wrote the flag behind it.
        assert_eq!(self.body[at].with(|body| unsafe { *body }), n);
        self.taken.store(n + 1, Ordering::Release);
        true
    }
}

#[derive(Default)]
struct Pipe {
    bytes: Mutex<u32>,
    readable: Condvar,
}

impl Pipe {
    fn write(&self) {
        *self.bytes.lock().unwrap() += 1;
        self.readable.notify_one();
    }

    /// Loom says so where nobody ever writes.
    fn wait(&self) {
        let mut bytes = self.bytes.lock().unwrap();
        while *bytes == 0 {
            bytes = self.readable.wait(bytes).unwrap();
        }
    }

    fn drain(&self) {
        *self.bytes.lock().unwrap() = 0;
    }
}

#[derive(Default)]
struct Inbox {
    rings: [Ring; 2],
    wake_flag: WakeFlag,
    pipe: Pipe,
}

fn send(inbox: &Inbox, from: usize, packets: u32) {
    for n in 0..packets {
        inbox.rings[from].put(n);
        if inbox.wake_flag.is_set() && inbox.wake_flag.claim() {
            inbox.pipe.write();
        }
    }
}

fn receive(inbox: &Inbox, mut due: [u32; 2], packets: [u32; 2]) {
    let look = |due: &mut [u32; 2]| {
        let before = *due;
        for (ring, due) in inbox.rings.iter().zip(due.iter_mut()) {
            *due += u32::from(ring.take(*due));
        }
        before != *due
    };
    while due != packets {
        if look(&mut due) {
            continue;
        }
        assert!(inbox.wake_flag.set(|| true));
        if !look(&mut due) {
            inbox.pipe.wait();
        }
        inbox.wake_flag.clear();
        inbox.pipe.drain();
    }
}

#[test]
fn one_sender() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let theirs = Arc::clone(&inbox);
        let sender = thread::spawn(move || send(&theirs, 0, 3));
        receive(&inbox, [0, 0], [3, 0]);
        sender.join().unwrap();
    });
}

/// Two senders, one of which fences by itself and says so first.
#[test]
fn two_senders_one_without_barriers() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::default());
        let senders = [0, 1].map(|from| {
            let theirs = Arc::clone(&inbox);
            thread::spawn(move || {
                if from == 1 {
                    theirs.wake_flag.demand_fences();
                }
                send(&theirs, from, 1);
            })
        });
        receive(&inbox, [0, 0], [1, 1]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Without a fence between packet and look, the receiver sleeps for ever: what
/// the pause of 50 us hoped to make unlikely.
#[test]
#[should_panic(expected = "deadlock")]
fn a_look_that_overtakes_its_packet_is_found() {
    loom::model(|| {
        let flag = Arc::new((AtomicU32::new(0), AtomicU32::new(0), Pipe::default()));
        let theirs = Arc::clone(&flag);
        let sender = thread::spawn(move || {
            let (packet, asleep, pipe) = &*theirs;
            packet.store(1, Ordering::Release);
            if asleep.load(Ordering::Relaxed) != 0 {
                pipe.write();
            }
        });
        let (packet, asleep, pipe) = &*flag;
        asleep.store(1, Ordering::Release);
        loom::sync::atomic::fence(Ordering::SeqCst);
        if packet.load(Ordering::Acquire) == 0 {
            pipe.wait();
        }
        sender.join().unwrap();
    });
}
