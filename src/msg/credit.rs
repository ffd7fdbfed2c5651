//! How much a sender may have lying unread at a peer.
//!
//! A sender counts what it sent to a peer, the peer what was consumed of it,
//! and tells it now and then. All counts run on and wrap, so that a report is
//! good by itself. The peer reports when a quarter of the limit was consumed,
//! hence what is unreported never exhausts it. Where a receive waits for what is
//! behind all that lies there, it reports more than was consumed. All processes of a
//! job must have the same limits.

use crate::settings::{EAGER_CREDIT, EAGER_MESSAGES};
use std::cell::Cell;

/// Limits for each peer and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) bytes: u32,
    pub(super) heads: u32,
    /// Of each, what may be consumed before it is told.
    untold_bytes: u32,
    untold_heads: u32,
}

/// Bytes of a word, and messages of one for which credit is spent ahead.
const WORD: u32 = 8;
const WORDS_AHEAD: u32 = 64;

impl Limits {
    /// From the environment: `RANKWAY_EAGER_CREDIT` in bytes, 1 MiB without it,
    /// and `RANKWAY_EAGER_MESSAGES`, 65,536.
    pub(super) fn from_env() -> Limits {
        let bytes = EAGER_CREDIT.get().map_or(1 << 20, |n| n as u32);
        Limits::new(bytes, EAGER_MESSAGES.get().map_or(65_536, |n| n as u32))
    }

    fn new(bytes: u32, heads: u32) -> Limits {
        Limits { bytes, heads, untold_bytes: bytes / 4, untold_heads: heads / 4 }
    }
}

/// Both directions between this process and a peer.
#[derive(Default)]
pub(super) struct Credit {
    sent_bytes: Cell<u32>,
    sent_heads: Cell<u32>,
    /// Messages of at most a word that may go without a look: they are among those sent, as
    /// if each were a whole one.
    words: Cell<u32>,
    /// Of those, consumed there as far as is known.
    back_bytes: Cell<u32>,
    back_heads: Cell<u32>,
    /// From there, consumed here: as told, and since.
    told_bytes: Cell<u32>,
    told_heads: Cell<u32>,
    used_bytes: Cell<u32>,
    used_heads: Cell<u32>,
    /// How often the peer was asked for more than it had consumed, which what is back may hold.
    asked: Cell<u32>,
}

#[inline]
fn add(cell: &Cell<u32>, n: u32) {
    cell.set(cell.get().wrapping_add(n));
}

/// What was sent and is not back; less than nothing where more was [granted](Credit::grant).
#[inline]
fn out(sent: &Cell<u32>, back: &Cell<u32>) -> i64 {
    i64::from(sent.get().wrapping_sub(back.get()).cast_signed())
}

/// What goes over the network of two counts.
fn counts(bytes: &Cell<u32>, heads: &Cell<u32>) -> u64 {
    u64::from(bytes.get()) << 32 | u64::from(heads.get())
}

impl Credit {
    /// Returns true if another header may go.
    #[inline]
    pub(super) fn has_heads(&self, limits: &Limits) -> bool {
        out(&self.sent_heads, &self.back_heads) < i64::from(limits.heads)
    }

    /// Returns true if so many bytes may go with it.
    #[inline]
    pub(super) fn has_bytes(&self, limits: &Limits, len: usize) -> bool {
        let out = self.sent_bytes.get().wrapping_sub(self.back_bytes.get());
        out as usize + len <= limits.bytes as usize
    }

    /// Both.
    #[inline]
    pub(super) fn has(&self, limits: &Limits, len: usize) -> bool {
        self.has_heads(limits) && self.has_bytes(limits, len)
    }

    /// A header and so many bytes went.
    #[inline]
    pub(super) fn spend(&self, len: usize) {
        add(&self.sent_heads, 1);
        add(&self.sent_bytes, len as u32);
    }

    /// Returns true if a message of at most a word may go, as one of those that
    /// [`Credit::spend_ahead`] counted.
    #[inline(always)]
    pub(super) fn has_word(&self) -> bool {
        self.words.get() > 0
    }

    /// It went, with so many bytes.
    #[inline(always)]
    pub(super) fn spend_word(&self, len: usize) {
        self.words.set(self.words.get() - 1);
        if len as u32 != WORD {
            add(&self.sent_bytes, (len as u32).wrapping_sub(WORD));
        }
    }

    /// Spends for messages of at most a word that are to come, of what is left a quarter at most.
    pub(super) fn spend_ahead(&self, limits: &Limits) {
        let left = |limit: u32, sent: &Cell<u32>, back: &Cell<u32>| {
            (i64::from(limit) - out(sent, back)).clamp(0, i64::from(limit)) as u32
        };
        let bytes = left(limits.bytes, &self.sent_bytes, &self.back_bytes);
        let heads = left(limits.heads, &self.sent_heads, &self.back_heads);
        let more = (heads / 4).min(bytes / (4 * WORD)).min(WORDS_AHEAD);
        let more = more.saturating_sub(self.words.get());
        add(&self.sent_heads, more);
        add(&self.sent_bytes, more * WORD);
        add(&self.words, more);
    }

    /// Takes back what was spent ahead.
    pub(super) fn take_back(&self) {
        let words = self.words.take();
        add(&self.sent_heads, words.wrapping_neg());
        add(&self.sent_bytes, (words * WORD).wrapping_neg());
    }

    /// As towards a peer that was never heard of.
    pub(super) fn reset(&self) {
        let Credit { sent_bytes, sent_heads, words, back_bytes, back_heads, .. } = self;
        let Credit { told_bytes, told_heads, used_bytes, used_heads, .. } = self;
        let sent = [sent_bytes, sent_heads, words, back_bytes, back_heads];
        let consumed = [told_bytes, told_heads, used_bytes, used_heads];
        sent.into_iter().chain(consumed).chain([&self.asked]).for_each(|count| count.set(0));
    }

    /// A header and so many bytes from there were consumed here. Returns true if
    /// it is time to tell.
    #[inline(always)]
    pub(super) fn consume(&self, limits: &Limits, len: usize) -> bool {
        add(&self.used_heads, 1);
        add(&self.used_bytes, len as u32);
        self.used_bytes.get() >= limits.untold_bytes || self.used_heads.get() >= limits.untold_heads
    }

    /// Lets the peer have more headers lying here, from the next report on: a quarter of
    /// the limit more.
    pub(super) fn grant(&self, limits: &Limits) {
        add(&self.told_heads, limits.untold_heads.max(1));
    }

    /// The peer is asked to [grant](Credit::grant) more.
    pub(super) fn ask(&self) {
        add(&self.asked, 1);
    }

    /// What to tell the peer: consumed so far.
    pub(super) fn tell(&self) -> u64 {
        add(&self.told_bytes, self.used_bytes.take());
        add(&self.told_heads, self.used_heads.take());
        counts(&self.told_bytes, &self.told_heads)
    }

    /// Returns true if the peer has word to send of what it consumes, or comes to have some.
    pub(super) fn is_unsettled(&self, limits: &Limits) -> bool {
        let granted = i64::from(self.asked.get()) * i64::from(limits.untold_heads.max(1));
        let reaches = |untold: u32, out: i64| out >= i64::from(untold.max(1));
        reaches(limits.untold_bytes, out(&self.sent_bytes, &self.back_bytes))
            || reaches(limits.untold_heads, out(&self.sent_heads, &self.back_heads) + granted)
    }

    /// What a peer that leaves says: sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.take_back();
        counts(&self.sent_bytes, &self.sent_heads)
    }

    /// A peer leaves that sent so much, all of which is here. Returns what to tell it: that all of
    /// it is consumed, and never less.
    pub(super) fn acknowledge(&self, sent: u64) -> u64 {
        self.told_bytes.set((sent >> 32) as u32);
        self.told_heads.set(sent as u32);
        sent
    }

    /// The peer told.
    pub(super) fn told(&self, word: u64) {
        self.back_bytes.set((word >> 32) as u32);
        self.back_heads.set(word as u32);
        // (Of all that was sent, as who leaves is answered, nothing is granted.)
        if self.asked.get() != 0 && word == counts(&self.sent_bytes, &self.sent_heads) {
            self.asked.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unreported_never_exhausts_the_limit() {
        let limits = Limits::new(100, 16);
        let (sender, receiver) = (Credit::default(), Credit::default());
        sender.sent_bytes.set(u32::MAX - 50);
        sender.back_bytes.set(u32::MAX - 50);
        receiver.told_bytes.set(u32::MAX - 50);
        for round in 0..1000 {
            let len = round % 26;
            if round % 3 == 0 {
                sender.spend_ahead(&limits);
                sender.take_back();
            }
            assert!(sender.has_heads(&limits) && sender.has_bytes(&limits, len));
            sender.spend(len);
            if receiver.consume(&limits, len) {
                sender.told(receiver.tell());
            }
        }
        let mut sent = 0;
        while sender.has_heads(&limits) && sender.has_bytes(&limits, 10) {
            sender.spend(10);
            sent += 1;
        }
        assert!((1..=10).contains(&sent));
        sender.spend_ahead(&limits);
        assert!(!sender.has_word(), "of what is left, a quarter");
    }

    #[test]
    fn what_is_granted_is_more_for_good() {
        let limits = Limits::new(1 << 20, 16);
        let (sender, receiver) = (Credit::default(), Credit::default());
        for grants in 0..4 {
            let mut sent = 0;
            while sender.has_heads(&limits) {
                sender.spend(1);
                sent += 1;
            }
            assert_eq!(sent, 16 + 4 * grants);
            sender.spend_ahead(&limits);
            assert!(!sender.has_word());
            (0..sent).for_each(|_| _ = receiver.consume(&limits, 1));
            receiver.grant(&limits);
            sender.told(receiver.tell());
            sender.spend_ahead(&limits);
            assert!(sender.has_word());
            sender.take_back();
        }
    }

    #[test]
    fn who_leaves_waits_where_word_may_come_of_what_was_granted() {
        let limits = Limits::new(1 << 20, 16);
        let (sender, receiver) = (Credit::default(), Credit::default());
        while sender.has_heads(&limits) {
            sender.spend(1);
        }
        sender.ask();
        (0..16).for_each(|_| _ = receiver.consume(&limits, 1));
        receiver.grant(&limits);
        sender.told(receiver.tell());
        (0..4).for_each(|_| sender.spend(1));
        let tells = (0..4).any(|_| receiver.consume(&limits, 1));
        assert!(tells && sender.is_unsettled(&limits));
        let leaves = sender.sent();
        assert!(sender.is_unsettled(&limits));
        sender.told(receiver.acknowledge(leaves));
        assert!(!sender.is_unsettled(&limits));
    }

    #[test]
    fn who_leaves_waits_where_word_may_come_and_until_all_is_there() {
        for (bytes, heads) in [(100, 16), (3, 1000), (1000, 3)] {
            let limits = Limits::new(bytes, heads);
            let (sender, receiver) = (Credit::default(), Credit::default());
            let mut under_way = 0;
            while sender.has(&limits, 1) {
                sender.spend(1);
                under_way += 1;
                // What is unsettled is what consuming all of it would tell of.
                let told = Credit::default();
                let tells = (0..under_way).any(|_| told.consume(&limits, 1));
                assert_eq!(sender.is_unsettled(&limits), tells);
            }
            sender.told(receiver.acknowledge(sender.sent()));
            assert!(!sender.is_unsettled(&limits));
            for _ in 0..under_way {
                if receiver.consume(&limits, 1) {
                    sender.told(receiver.tell());
                }
                assert!(!sender.is_unsettled(&limits), "word of what was settled");
            }
        }
    }

    #[test]
    fn words_ahead_are_a_quarter_of_what_is_left_and_come_back() {
        let limits = Limits::new(4096, 40);
        let credit = Credit::default();
        credit.spend_ahead(&limits);
        let mut words = 0;
        while credit.has_word() {
            credit.spend_word(words % 9);
            words += 1;
        }
        let bytes = (0..9).sum::<usize>() as u32;
        assert_eq!((words, credit.sent_heads.get(), credit.sent_bytes.get()), (10, 10, bytes));
        credit.spend_ahead(&limits);
        credit.take_back();
        assert_eq!((credit.sent_heads.get(), credit.has_word()), (10, false));
    }
}
