//! Which receive takes which message: the oldest that fits, both ways.
//!
//! MPI's rule (MPI-4.1, 3.5): a message goes to the receive that was posted
//! first among those it fits, a receive takes the message that came first
//! among those that fit it. The receives posted last stand in a short queue, where
//! those that are matched in their order are found at its front. The others are
//! older, and queued by their mask: an arrival looks once for each mask in use (one
//! without wildcards, four with all that MPI has), however many receives are
//! posted. Messages that found no receive are [`kept`](super::kept).
//!
//! Knows nothing of peers, buffers or packets.

use super::index::{Index, Key};
use super::kept::Kept;
use super::recent::{Found, Pattern, Recent};

/// Posted receives and messages nobody has asked for yet.
pub(super) struct Engine<U> {
    /// Bits of messages that no receive looks at.
    marks: u64,
    recent: Recent,
    /// Those posted before the recent ones.
    posted: Index,
    /// How many there are.
    tabled: usize,
    /// Of those, by request: when it was posted.
    stamps: Vec<u64>,
    /// Their masks with wildcards, and how many have each.
    masks: Vec<(u64, usize)>,
    clock: u64,
    kept: Kept<U>,
}

impl<U> Engine<U> {
    pub(super) fn new() -> Engine<U> {
        Engine {
            marks: 0,
            recent: Recent::new(),
            posted: Index::new(),
            tabled: 0,
            stamps: Vec::new(),
            masks: Vec::new(),
            clock: 0,
            kept: Kept::new(),
        }
    }

    /// No receive looks at these bits from now on, of an engine that has nothing yet.
    pub(super) fn set_marks(&mut self, marks: u64) {
        debug_assert!(self.is_open() && self.tabled == 0, "keys would change");
        self.marks = marks;
    }

    /// The key of messages and receives with these bits.
    #[inline]
    fn key(&self, channel: u64, bits: u64, ignore: u64) -> Key {
        Key::new(channel, bits & !self.marks, ignore)
    }

    /// What a receive takes.
    #[inline(always)]
    fn pattern(&self, channel: u64, bits: u64, ignore: u64) -> Pattern {
        Pattern { channel, bits, mask: !(ignore | self.marks) }
    }

    /// Posts a receive that found no message, under the number of its request,
    /// which is not posted.
    #[inline]
    pub(super) fn post(&mut self, channel: u64, bits: u64, ignore: u64, request: u32) {
        if self.recent.is_full() {
            self.file();
        }
        self.post_open(channel, bits, ignore, request);
    }

    /// The same where the engine [is open](Engine::is_open).
    #[inline(always)]
    pub(super) fn post_open(&mut self, channel: u64, bits: u64, ignore: u64, request: u32) {
        self.recent.push(self.pattern(channel, bits, ignore), request);
    }

    /// Returns true if a receive can be posted without a look at a message or a table.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.kept.is_empty() && !self.recent.is_full()
    }

    /// Moves the recent receives to the table.
    #[cold]
    #[inline(never)]
    fn file(&mut self) {
        while let Some((Pattern { channel, bits, mask }, request)) = self.recent.take_first() {
            let ignore = !(mask | self.marks);
            if ignore != 0 {
                self.note_mask(ignore);
            }
            self.clock += 1;
            match self.stamps.get_mut(request as usize) {
                Some(stamp) => *stamp = self.clock,
                None => self.more_stamps(request),
            }
            self.posted.push(&self.key(channel, bits, ignore), request);
            self.tabled += 1;
        }
    }

    fn more_stamps(&mut self, request: u32) {
        self.stamps.resize(request as usize + 1, self.clock);
    }

    fn note_mask(&mut self, ignore: u64) {
        match self.masks.iter_mut().find(|(mask, _)| *mask == ignore) {
            Some((_, count)) => *count += 1,
            None => self.masks.push((ignore, 1)),
        }
    }

    /// Takes back a posted receive.
    pub(super) fn withdraw(&mut self, request: u32) {
        if !self.recent.remove(request) {
            self.withdraw_tabled(request);
        }
    }

    /// The channel of a receive that is posted.
    pub(super) fn channel_of(&self, request: u32) -> u64 {
        let recent = self.recent.channel_of(request);
        recent.unwrap_or_else(|| self.posted.key(request).channel())
    }

    fn withdraw_tabled(&mut self, request: u32) {
        let mask = self.posted.key(request).ignore();
        self.posted.remove(request);
        self.tabled -= 1;
        self.forget_mask(mask);
    }

    fn forget_mask(&mut self, mask: u64) {
        if let Some(at) = self.masks.iter().position(|(other, _)| *other == mask) {
            self.masks[at].1 -= 1;
            if self.masks[at].1 == 0 {
                self.masks.swap_remove(at);
            }
        }
    }

    /// A message came: the request of the receive that takes it, if any.
    #[inline(always)]
    pub(super) fn arrive(&mut self, channel: u64, bits: u64) -> Option<u32> {
        let Some(request) = self.first(channel, bits) else {
            return self.arrive_slowly(channel, bits);
        };
        self.pop_first();
        Some(request)
    }

    /// The request of the oldest receive, if that takes such a message: it is posted until
    /// [`Engine::pop_first`].
    #[inline(always)]
    pub(super) fn first(&self, channel: u64, bits: u64) -> Option<u32> {
        if self.tabled == 0 { self.recent.first(&Pattern::exact(channel, bits)) } else { None }
    }

    /// Takes the oldest receive out, which [`Engine::first`] found.
    #[inline(always)]
    pub(super) fn pop_first(&mut self) {
        self.recent.pop_first();
    }

    /// The same as [`Engine::arrive`] where receives are in the table, or the first does
    /// not fit.
    #[inline(never)]
    fn arrive_slowly(&mut self, channel: u64, bits: u64) -> Option<u32> {
        if let Some(request) = self.arrive_tabled(channel, bits) {
            return Some(request);
        }
        match self.recent.find(&Pattern::exact(channel, bits)) {
            Found::At(place) => Some(self.recent.take(place)),
            Found::Nothing => None,
            Found::TooMany => {
                self.file();
                self.arrive_tabled(channel, bits)
            }
        }
    }

    fn arrive_tabled(&mut self, channel: u64, bits: u64) -> Option<u32> {
        if self.tabled == 0 {
            return None;
        }
        if !self.masks.is_empty() {
            return self.arrive_among(channel, bits);
        }
        let request = self.posted.pop(&self.key(channel, bits, 0))?;
        self.tabled -= 1;
        Some(request)
    }

    /// The same where receives with wildcards are in it.
    fn arrive_among(&mut self, channel: u64, bits: u64) -> Option<u32> {
        let mut first: Option<(u64, u32)> = None;
        let wild = self.masks.iter().map(|&(mask, _)| mask);
        for mask in wild.chain([0]) {
            let Some(request) = self.posted.front(&self.key(channel, bits, mask)) else { continue };
            let stamp = self.stamps[request as usize];
            if first.is_none_or(|(earliest, _)| stamp < earliest) {
                first = Some((stamp, request));
            }
        }
        let (_, request) = first?;
        self.withdraw_tabled(request);
        Some(request)
    }

    /// Keeps a message that no receive took.
    #[inline]
    pub(super) fn store(&mut self, channel: u64, bits: u64, what: U) {
        self.kept.push(channel, bits, self.marks, what);
    }

    /// Takes out all kept messages that `is` says they are.
    pub(super) fn take_all(&mut self, is: impl Fn(&U) -> bool) -> Vec<U> {
        self.kept.take_all(self.marks, is)
    }

    /// Drops the kept message of these bits that `is` says it is. Returns false
    /// if there is none.
    pub(super) fn discard(&mut self, channel: u64, bits: u64, is: impl Fn(&U) -> bool) -> bool {
        self.kept.discard(channel, bits, self.marks, is)
    }

    /// The first kept message that fits, and its bits.
    pub(super) fn peek(&mut self, channel: u64, bits: u64, ignore: u64) -> Option<(u64, &U)> {
        let pattern = self.pattern(channel, bits, ignore);
        self.kept.peek(&pattern, self.marks)
    }

    /// The message that came first of all, if it fits, with what `read` has of its bits and
    /// it. Where that has nothing, the message stays.
    #[inline]
    pub(super) fn take_first<R>(
        &mut self,
        channel: u64,
        bits: u64,
        ignore: u64,
        read: impl FnOnce(u64, &U) -> Option<R>,
    ) -> Option<(R, U)> {
        if self.kept.is_empty() {
            return None;
        }
        let number = self.kept.first(&self.pattern(channel, bits, ignore))?;
        let (bits, what) = self.kept.at(number)?;
        let read = read(bits, what)?;
        let (_, what) = self.kept.take_first(number)?;
        Some((read, what))
    }

    /// The first kept message that fits and its bits, taken out.
    #[inline]
    pub(super) fn take(&mut self, channel: u64, bits: u64, ignore: u64) -> Option<(u64, U)> {
        if self.kept.is_empty() {
            return None;
        }
        let pattern = self.pattern(channel, bits, ignore);
        self.kept.take(&pattern, self.marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two lists, searched from the front.
    #[derive(Default)]
    struct Naive {
        marks: u64,
        posted: Vec<(u64, u64, u64, u32)>,
        kept: Vec<(u64, u64, u32)>,
    }

    impl Naive {
        fn arrive(&mut self, channel: u64, bits: u64) -> Option<u32> {
            let marks = self.marks;
            let fits =
                |r: &(u64, u64, u64, u32)| r.0 == channel && (r.1 ^ bits) & !(r.2 | marks) == 0;
            let at = self.posted.iter().position(fits)?;
            Some(self.posted.remove(at).3)
        }

        fn find(&self, channel: u64, bits: u64, ignore: u64) -> Option<usize> {
            let ignore = ignore | self.marks;
            self.kept.iter().position(|m| m.0 == channel && (m.1 ^ bits) & !ignore == 0)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Receive { channel: u64, bits: u64, ignore: u64 },
        Message { channel: u64, bits: u64 },
        Probe { channel: u64, bits: u64, ignore: u64 },
        Cancel { which: usize },
        Discard { which: usize },
    }

    fn step(tags: u64) -> impl Strategy<Value = Step> {
        let channel = 0..3_u64;
        let bits = (0..4_u64, 0..tags).prop_map(|(source, tag)| source << 32 | tag);
        let masks = [0, 0, 0, u64::from(u32::MAX), u64::from(u32::MAX) << 32, u64::MAX, 1];
        let ignore = proptest::sample::select(masks.to_vec());
        prop_oneof![
            4 => (channel.clone(), bits.clone(), ignore.clone())
                .prop_map(|(channel, bits, ignore)| Step::Receive { channel, bits, ignore }),
            4 => (channel.clone(), bits.clone())
                .prop_map(|(channel, bits)| Step::Message { channel, bits }),
            1 => (channel, bits, ignore)
                .prop_map(|(channel, bits, ignore)| Step::Probe { channel, bits, ignore }),
            1 => (0..8_usize).prop_map(|which| Step::Cancel { which }),
            1 => (0..8_usize).prop_map(|which| Step::Discard { which }),
        ]
    }

    fn play(steps: Vec<Step>, marks: u64) {
        let mut engine = Engine::new();
        engine.set_marks(marks);
        let mut naive = Naive { marks, ..Naive::default() };
        let mut nodes = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            let n = n as u32;
            match step {
                Step::Receive { channel, bits, ignore } => {
                    let want = naive.find(channel, bits, ignore).map(|at| naive.kept.remove(at));
                    let got = engine
                        .take_first(channel, bits, ignore, |bits, &what| {
                            (what % 2 == 0).then_some(bits)
                        })
                        .or_else(|| engine.take(channel, bits, ignore));
                    assert_eq!(got, want.map(|(_, bits, what)| (bits, what)));
                    if got.is_none() {
                        engine.post(channel, bits, ignore, n);
                        nodes.push(n);
                        naive.posted.push((channel, bits, ignore, n));
                    }
                }
                Step::Message { channel, bits } => {
                    let want = naive.arrive(channel, bits);
                    assert_eq!(engine.arrive(channel, bits), want);
                    nodes.retain(|&request| Some(request) != want);
                    if want.is_none() {
                        engine.store(channel, bits, n);
                        naive.kept.push((channel, bits, n));
                    }
                }
                Step::Probe { channel, bits, ignore } => {
                    let want = naive.find(channel, bits, ignore).map(|at| naive.kept[at]);
                    let got = engine.peek(channel, bits, ignore);
                    assert_eq!(got, want.as_ref().map(|(_, bits, what)| (*bits, what)));
                }
                Step::Cancel { which } if which < nodes.len() => {
                    let request = nodes.remove(which);
                    engine.withdraw(request);
                    naive.posted.retain(|r| r.3 != request);
                }
                Step::Discard { which } if which < naive.kept.len() => {
                    let (channel, bits, what) = naive.kept.remove(which);
                    assert!(engine.discard(channel, bits, |&kept| kept == what));
                    assert!(!engine.discard(channel, bits, |&kept| kept == what));
                }
                Step::Cancel { .. } | Step::Discard { .. } => {}
            }
        }
    }

    proptest! {
        #[test]
        fn takes_what_two_lists_would(
            steps in proptest::collection::vec(step(3), 0..200),
            marks in 0..4_u64,
        ) {
            play(steps, marks);
        }

        #[test]
        fn many_tags(steps in proptest::collection::vec(step(1 << 20), 0..2000), marks in 0..4_u64) {
            play(steps, marks);
        }
    }

    /// More receives than are recent, matched in their order and against it, with
    /// one between them that takes all.
    #[test]
    fn receives_are_matched_in_their_order_from_the_table_too() {
        for backwards in [false, true] {
            let mut engine = Engine::<()>::new();
            (0..300).for_each(|n| engine.post(1, u64::from(n), 0, n));
            engine.post(1, 0, u64::MAX, 300);
            (301..350).for_each(|n| engine.post(1, u64::from(n), 0, n));
            let order = |n: u32| if backwards { 299 - n } else { n };
            for n in (0..300).map(order) {
                assert_eq!(engine.arrive(1, u64::from(n)), Some(n));
            }
            assert_eq!(engine.arrive(1, 349), Some(300), "it was posted before");
            assert_eq!((engine.arrive(1, 349), engine.arrive(1, 349)), (Some(349), None));
            engine.withdraw(301);
            assert_eq!((engine.arrive(1, 301), engine.arrive(1, 302)), (None, Some(302)));
        }
    }

    /// A long queue of one tag is in nobody else's way.
    #[test]
    fn a_flood_does_not_slow_others() {
        const MANY: u64 = 100_000;
        let mut engine = Engine::new();
        for i in 0..MANY {
            engine.store(1, 7, i as u32);
            engine.store(1, 1000 + i, i as u32);
        }
        for i in (0..MANY).rev() {
            assert_eq!(engine.take(1, 1000 + i, 0), Some((1000 + i, i as u32)));
        }
        for i in 0..MANY {
            assert_eq!(engine.take(1, 0, u64::MAX), Some((7, i as u32)));
        }
        assert_eq!(engine.take(1, 0, u64::MAX), None);
    }
}
