//! Messages: which send each receive had, told while calls come by.
//!
//! The k-th receive of a communicator, source, destination and tag has the k-th send of
//! them: messages of MPI do not overtake each other (MPI-4.1, 3.5). Receives count in the
//! order in which they were over; those of one tag that were under way at once and waited
//! for in another order are taken for each other. When each was posted its end says.

use super::calls::{Call, Process, Program};
use rankway::track::{CallClass, Kind};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

/// What names the messages that follow each other: object, source, destination, tag.
pub(super) type Key = (usize, usize, usize, i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Sent,
    Received,
}

/// Messages that follow each other, by what they have in common: how many were sent and
/// received, and those of which one side was seen.
pub(super) struct Sequences<K, T>(HashMap<K, Sequence<T>>);

struct Sequence<T> {
    sent: u64,
    received: u64,
    /// All sends, or all receives.
    waiting: VecDeque<T>,
}

impl<K, T> Default for Sequences<K, T> {
    fn default() -> Self {
        Sequences(HashMap::new())
    }
}

impl<K: Eq + Hash + Copy, T> Sequences<K, T> {
    /// Adds a side of a message. Returns its number, the same for both sides, and both, the
    /// send first, where the other was there before. Where all have both they are forgotten,
    /// and numbers begin again.
    pub(super) fn add(&mut self, key: K, side: Side, half: T) -> (u64, Option<(T, T)>) {
        let sequence = self.0.entry(key).or_insert_with(|| Sequence {
            sent: 0,
            received: 0,
            waiting: VecDeque::new(),
        });
        let Sequence { sent, received, waiting } = sequence;
        let (own, other) = match side {
            Side::Sent => (sent, received),
            Side::Received => (received, sent),
        };
        let number = *own;
        *own += 1;
        if *other <= number {
            waiting.push_back(half);
            return (number, None);
        }
        let other_half = waiting.pop_front();
        if own == other {
            self.0.remove(&key);
        }
        let met = other_half.map(|other| match side {
            Side::Sent => (half, other),
            Side::Received => (other, half),
        });
        (number, met)
    }

    /// Returns true if the other side of the next was there before.
    fn meets(&self, key: &K, side: Side) -> bool {
        self.0.get(key).is_some_and(|one| match side {
            Side::Sent => one.received > one.sent,
            Side::Received => one.sent > one.received,
        })
    }
}

/// A send that a process began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A receive that is over.
#[derive(Clone, Debug)]
pub(super) struct Receive {
    /// When it was posted.
    pub(super) posted: u64,
    /// When the message was there.
    pub(super) end: u64,
    /// The call that waited for it. None if no call did.
    pub(super) waited: Option<Rc<Waited>>,
}

/// A call that waited for messages.
#[derive(Debug)]
pub(super) struct Waited {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) end: u64,
    /// How long it waited for one of them, and the object and source of the one that it
    /// waited for most, as far as they are known.
    pub(super) late: Cell<(u64, usize, usize)>,
}

impl Waited {
    fn of(call: &Call) -> Rc<Waited> {
        let &Call { kind, start, end, .. } = call;
        Rc::new(Waited { kind, start, end, late: Cell::new((0, 0, 0)) })
    }
}

/// A message with both sides.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) key: Key,
    pub(super) send: Send,
    pub(super) receive: Receive,
}

/// A side that has no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmatched {
    pub(super) sends: u64,
    pub(super) receives: u64,
}

enum Half {
    Send(Send),
    Receive(Receive),
}

/// Finds the messages of calls that come in the order in which they returned. It keeps what
/// is under way: sends without receive, receives that were posted.
#[derive(Default)]
pub(super) struct Messages {
    sequences: Sequences<Key, Half>,
    /// The processes of all jobs of which more may come.
    live: HashSet<usize>,
    posts: HashMap<(usize, usize), VecDeque<Post>>,
    threads: HashMap<(usize, u32), Thread>,
    unmatched: BTreeMap<Key, Unmatched>,
}

/// A receive that was posted.
struct Post {
    start: u64,
    source: Option<u32>,
    tag: i32,
}

/// What a thread did last.
#[derive(Default)]
struct Thread {
    /// The last call in which receives end, and for whom it waited.
    call: Option<(Call, Option<Rc<Waited>>)>,
    /// Receives that ended in none of those: it is the one that comes.
    open: Vec<Call>,
}

impl Messages {
    pub(super) fn new(program: &Program<'_>) -> Messages {
        let live = program.processes.iter().map(|process| process.place).collect();
        Messages { live, ..Messages::default() }
    }

    /// Takes a call, and gives the messages that it makes whole.
    pub(super) fn call(
        &mut self,
        process: &Process<'_>,
        thread: u32,
        call: &Call,
        met: &mut impl FnMut(Message),
    ) {
        if call.kind == Kind::Completed {
            return;
        }
        match call.class {
            CallClass::Send => self.sent(process, call, met),
            CallClass::Post => {
                if let Some(object) = call.object {
                    let post = Post { start: call.start, source: call.rank, tag: call.tag };
                    self.posts.entry((process.at, object)).or_default().push_back(post);
                }
            }
            CallClass::Receive if call.kind == Kind::Received => {
                self.received(process, thread, call, met);
                return;
            }
            CallClass::Receive => {
                let (posted, end) = (call.start, call.end);
                let receive = Receive { posted, end, waited: Some(Waited::of(call)) };
                self.arrived(process, call, receive, met);
            }
            _ => (),
        }
        let of = self.threads.entry((process.at, thread)).or_default();
        let open = std::mem::take(&mut of.open);
        of.call = ends(call).then_some((*call, None));
        for one in open {
            self.ended_in(process, thread, &one, met);
        }
    }

    fn sent(&mut self, process: &Process<'_>, call: &Call, met: &mut impl FnMut(Message)) {
        let (Some(object), Some(peer), false) = (call.object, call.peer, call.failed) else {
            return;
        };
        let key = (object, process.place, peer, call.tag);
        let &Call { kind, start, end, .. } = call;
        self.add(key, Half::Send(Send { kind, start, end }), met);
    }

    /// A receive that ended in a call: the last of its thread, if that lasted until then,
    /// else the next.
    fn received(
        &mut self,
        process: &Process<'_>,
        thread: u32,
        call: &Call,
        met: &mut impl FnMut(Message),
    ) {
        let of = self.threads.entry((process.at, thread)).or_default();
        match &of.call {
            Some((last, _)) if within(last, call) => self.ended_in(process, thread, call, met),
            _ => of.open.push(*call),
        }
    }

    /// The same where the call is the last of the thread, or none.
    fn ended_in(
        &mut self,
        process: &Process<'_>,
        thread: u32,
        call: &Call,
        met: &mut impl FnMut(Message),
    ) {
        let Some(object) = call.object else { return };
        let last = self.threads.get_mut(&(process.at, thread)).and_then(|of| of.call.as_mut());
        let waited = last
            .filter(|(last, _)| within(last, call))
            .map(|(last, waited)| Rc::clone(waited.get_or_insert_with(|| Waited::of(last))));
        let posts = self.posts.get_mut(&(process.at, object));
        let posted = posts.and_then(|posts| take(posts, call));
        if call.failed {
            return;
        }
        let posted = posted.or(waited.as_ref().map(|one| one.start)).unwrap_or(call.start);
        let end = waited.as_ref().map_or(call.end, |one| one.end.max(call.end));
        self.arrived(process, call, Receive { posted, end, waited }, met);
    }

    fn arrived(
        &mut self,
        process: &Process<'_>,
        call: &Call,
        receive: Receive,
        met: &mut impl FnMut(Message),
    ) {
        let (Some(object), Some(source), false) = (call.object, call.peer, call.failed) else {
            return;
        };
        self.add((object, source, process.place, call.tag), Half::Receive(receive), met);
    }

    fn add(&mut self, key: Key, half: Half, met: &mut impl FnMut(Message)) {
        let (_, source, destination, _) = key;
        let (side, peer) = match half {
            Half::Send(_) => (Side::Sent, destination),
            Half::Receive(_) => (Side::Received, source),
        };
        // What will not come is not waited for.
        if !self.live.contains(&peer) && !self.sequences.meets(&key, side) {
            let unmatched = self.unmatched.entry(key).or_default();
            match side {
                Side::Sent => unmatched.sends += 1,
                Side::Received => unmatched.receives += 1,
            }
            return;
        }
        if let Some((Half::Send(send), Half::Receive(receive))) =
            self.sequences.add(key, side, half).1
        {
            met(Message { key, send, receive });
        }
    }

    /// No more calls of a thread of the process come.
    pub(super) fn ended(
        &mut self,
        process: &Process<'_>,
        thread: u32,
        met: &mut impl FnMut(Message),
    ) {
        let Some(of) = self.threads.get_mut(&(process.at, thread)) else { return };
        of.call = None;
        for one in std::mem::take(&mut of.open) {
            self.ended_in(process, thread, &one, met);
        }
        self.threads.remove(&(process.at, thread));
    }

    /// No more calls of the process come.
    pub(super) fn gone(&mut self, process: &Process<'_>) {
        self.live.remove(&process.place);
    }

    /// Sides that have no other.
    pub(super) fn unmatched(self) -> BTreeMap<Key, Unmatched> {
        let mut unmatched = self.unmatched;
        for (key, sequence) in self.sequences.0 {
            let Sequence { sent, received, .. } = sequence;
            let into = unmatched.entry(key).or_default();
            into.sends += sent.saturating_sub(received);
            into.receives += received.saturating_sub(sent);
        }
        unmatched
    }
}

/// Returns true if receives end in such calls.
fn ends(call: &Call) -> bool {
    call.class == CallClass::Completion
        || matches!(call.kind, Kind::Sendrecv | Kind::SendrecvReplace)
}

/// Returns true if a receive ended while the call lasted.
fn within(call: &Call, receive: &Call) -> bool {
    (call.start..=call.end).contains(&receive.end)
}

/// When the receive was posted that ended; where its end does not say, when the first was
/// that such a message fits.
fn take(posts: &mut VecDeque<Post>, call: &Call) -> Option<u64> {
    let is_it = |post: &Post| call.start < call.end && post.start == call.start;
    let fits = |post: &Post| {
        post.start <= call.end
            && (post.source.is_none() || post.source == call.rank)
            && (post.tag < 0 || post.tag == call.tag)
    };
    let first = || posts.iter().position(fits).filter(|_| !call.failed);
    let at = posts.iter().position(is_it).or_else(first)?;
    posts.remove(at).map(|post| post.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order: the k-th of a key has the k-th, and what met is forgotten.
    #[test]
    fn the_kth_send_has_the_kth_receive() {
        let mut seed = 11_u64;
        for _ in 0..300 {
            let mut sequences = Sequences::default();
            let mut naive: BTreeMap<u64, [Vec<u64>; 2]> = BTreeMap::new();
            let mut met = Vec::new();
            for time in 0..60 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (key, side) = ((seed >> 33) % 3, (seed >> 40) % 2);
                naive.entry(key).or_default()[side as usize].push(time);
                let which = if side == 0 { Side::Sent } else { Side::Received };
                met.extend(sequences.add(key, which, time).1);
            }
            let pairs = naive.values().flat_map(|[sent, received]| sent.iter().zip(received));
            let mut expected: Vec<(u64, u64)> = pairs.map(|(a, b)| (*a, *b)).collect();
            expected.sort_unstable();
            met.sort_unstable();
            assert_eq!(met, expected);
            let open = naive.values().filter(|[sent, received]| sent.len() != received.len());
            assert_eq!(sequences.0.len(), open.count());
        }
    }
}
