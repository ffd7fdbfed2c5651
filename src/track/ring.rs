//! A ring between a thread that records and the one that writes: neither waits for the
//! other. `proofs/` tries it under every interleaving.
//!
//! `head` counts what was ever pushed, `tail` what was ever popped; both wrap. The slots
//! from `tail` to `head` are the consumer's, the others the producer's: each side gives
//! slots away by storing its own count (Release), and takes them by loading the other's
//! (Acquire).

use super::sync::{AtomicUsize, Ordering, Slot};

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is in the ring.
    In,
    /// It is in the ring, and an eighth of one has been pushed since this was last returned:
    /// early enough for who pops to be late by most of a ring.
    Share,
    /// It found no space and was dropped.
    Dropped,
}

#[repr(align(64))]
struct Producer {
    head: AtomicUsize,
    /// `tail` as it was seen last, the producer's alone.
    seen: Slot<usize>,
    dropped: AtomicUsize,
    /// An eighth of the ring, less one.
    share: usize,
}

#[repr(align(64))]
struct Consumer {
    tail: AtomicUsize,
}

pub(super) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    producer: Producer,
    consumer: Consumer,
}

impl<T: Copy> Ring<T> {
    /// With space for at least so many, two at least.
    pub(super) fn new(capacity: usize) -> Ring<T> {
        let capacity = capacity.clamp(2, 1 << 30).next_power_of_two();
        let seen = Slot::empty();
        // SAFETY: nobody else has it yet.
        unsafe { seen.write(0) };
        Ring {
            slots: (0..capacity).map(|_| Slot::empty()).collect(),
            producer: Producer {
                head: AtomicUsize::new(0),
                seen,
                dropped: AtomicUsize::new(0),
                share: (capacity / 8).max(1) - 1,
            },
            consumer: Consumer { tail: AtomicUsize::new(0) },
        }
    }

    #[inline(always)]
    fn slot(&self, count: usize) -> &Slot<T> {
        // SAFETY: the number of slots is a power of two, and what is left by one less than
        // that is below it.
        unsafe { self.slots.get_unchecked(count & (self.slots.len() - 1)) }
    }

    /// Puts a value in, if there is space.
    ///
    /// # Safety
    /// One thread alone pushes.
    #[inline(always)]
    pub(super) unsafe fn push(&self, value: T) -> Pushed {
        let head = self.producer.head.load(Ordering::Relaxed);
        // SAFETY: written when the ring was made; since then the producer's alone.
        let seen = unsafe { self.producer.seen.read() };
        if head.wrapping_sub(seen) >= self.slots.len() && !self.look_for_space(head) {
            return Pushed::Dropped;
        }
        // SAFETY: from `head` on slots are the producer's while there are fewer than all
        // between `tail` and `head`; `seen` is a `tail` of before, which only grew.
        unsafe { self.slot(head).write(value) };
        let head = head.wrapping_add(1);
        // Pairs with the Acquire load in `pop`: who sees the count sees the value.
        self.producer.head.store(head, Ordering::Release);
        if head & self.producer.share == 0 { Pushed::Share } else { Pushed::In }
    }

    /// Returns true if there is space behind the consumer's last count; else counts a drop.
    #[cold]
    fn look_for_space(&self, head: usize) -> bool {
        // Pairs with the Release store in `pop`: the consumer has read what was there.
        let tail = self.consumer.tail.load(Ordering::Acquire);
        // SAFETY: the producer's alone, which this is.
        unsafe { self.producer.seen.write(tail) };
        let space = head.wrapping_sub(tail) < self.slots.len();
        if !space {
            let dropped = self.producer.dropped.load(Ordering::Relaxed);
            self.producer.dropped.store(dropped.wrapping_add(1), Ordering::Relaxed);
        }
        space
    }

    /// Takes out up to `most`, oldest first; returns how many there were.
    ///
    /// # Safety
    /// One thread at a time pops.
    pub(super) unsafe fn pop(&self, most: usize, mut each: impl FnMut(T)) -> usize {
        let tail = self.consumer.tail.load(Ordering::Relaxed);
        // Pairs with the Release store in `push`.
        let head = self.producer.head.load(Ordering::Acquire);
        let count = head.wrapping_sub(tail).min(most);
        for at in 0..count {
            // SAFETY: between `tail` and `head` values were written, and are the consumer's.
            each(unsafe { self.slot(tail.wrapping_add(at)).read() });
        }
        // Pairs with the Acquire load in `look_for_space`.
        self.consumer.tail.store(tail.wrapping_add(count), Ordering::Release);
        count
    }

    /// How many there is space for.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Values that found no space so far.
    pub(super) fn dropped(&self) -> usize {
        self.producer.dropped.load(Ordering::Relaxed)
    }
}
