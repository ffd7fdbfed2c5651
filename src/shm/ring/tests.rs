//! The ring between threads, its laps, and what no sender writes.

use super::*;
use proptest::prelude::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};

const BURST: u64 = if cfg!(miri) { 12 } else { 600 };
const STEPS: usize = if cfg!(miri) { 5 } else { 60 };

struct Memory(*mut u8);

impl Memory {
    fn new() -> Memory {
        let layout = Layout::new::<Ring>();
        // SAFETY: of a size that is not 0.
        Memory(unsafe { alloc_zeroed(layout) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed` with this layout.
        unsafe { dealloc(self.0, Layout::new::<Ring>()) };
    }
}

/// Packets between two threads: fewer under Miri, which is slow.
const MANY: u64 = if cfg!(miri) { 64 } else { 20_000 };
const LONG: usize = if cfg!(miri) { 200 } else { LONGEST };

fn body(n: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
}

fn first(n: u64) -> u64 {
    (1 + n % 4) | ((n & 0xff) << 8)
}

/// Every other packet may be a short one.
fn words(n: u64) -> [u64; 3] {
    [n, n * n, if n.is_multiple_of(2) { 0 } else { !n }]
}

#[test]
fn nothing_is_lost_between_threads() {
    let memory = Memory::new();
    // SAFETY: zeroed memory of a ring with one sender and one receiver.
    let (writer, mut reader) = unsafe {
        let writer = Writer::new(memory.0, 6).unwrap();
        (writer, Reader::new(memory.0).unwrap())
    };
    assert_eq!(reader.peer(), 6);
    struct Sent(Writer);
    // SAFETY: moved to the one thread that sends.
    unsafe impl Send for Sent {}
    let sent = Sent(writer);
    // Laps of short ones, laps of all sorts.
    let lengths = |n: u64| match n / (MANY / 4) % 2 {
        0 => (n % 9) as usize,
        _ => [0, 8, 31, 32, 33, 500, LONG, 1][(n % 8) as usize],
    };
    std::thread::scope(|s| {
        s.spawn(move || {
            let sent = sent;
            for n in 0..MANY {
                let bytes = body(n, lengths(n));
                // SAFETY: `bytes` is readable.
                while !unsafe { sent.0.put(first(n), words(n), bytes.as_ptr(), bytes.len()) } {
                    std::thread::yield_now();
                }
            }
        });
        let mut due = 0;
        while due < MANY {
            let got = reader.poll(16, |got, head, bytes| {
                assert_eq!(got as u32, first(due) as u32);
                assert_eq!(head, words(due));
                assert!(bytes == body(due, lengths(due)), "packet {due}");
                due += 1;
                true
            });
            let got = got.unwrap();
            if got == 0 {
                std::thread::yield_now();
            }
        }
    });
    assert!(!reader.has_some());
}

/// Who takes the role goes on where the other left off, and answers stay in the ring
/// until they were read.
#[test]
fn receivers_take_turns_and_answers_are_held() {
    let memory = Memory::new();
    // SAFETY: zeroed memory of a ring with one sender; receivers take turns.
    let (writer, ends) = unsafe {
        let writer = Writer::new(memory.0, 6).unwrap();
        (writer, [1, 2].map(|me| SharedReader::new(memory.0, me).unwrap()))
    };
    struct End(SharedReader);
    // SAFETY: moved to the one thread that has it.
    unsafe impl Send for End {}
    let due = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|s| {
        for end in ends.map(End) {
            let due = &due;
            s.spawn(move || {
                let end = end;
                while due.load(Ordering::Relaxed) < MANY {
                    let Ok(mut role) = end.0.take() else {
                        std::thread::yield_now();
                        continue;
                    };
                    let taken = role.reader.poll_places(7, |_, [n, ..], body, len| {
                        assert_eq!(n, due.load(Ordering::Relaxed));
                        // SAFETY: the body's place; the slots are given back later.
                        unsafe {
                            body.write_bytes(n as u8, len);
                            // Some are read when they are answered, others when taken.
                            if n % 3 != 0 {
                                Asked::of(body).answer();
                            }
                        }
                        due.store(n + 1, Ordering::Relaxed);
                        true
                    });
                    taken.unwrap();
                }
            });
        }
        let mut asked = std::collections::VecDeque::new();
        let mut n = 0;
        while n < MANY || !asked.is_empty() {
            let len = [8, 0, 100, 3][n as usize % 4];
            let begin = writer.sent();
            // SAFETY: writes nothing.
            let ask = || unsafe { writer.ask(1, [n, 0, 0], len, |_| ()) };
            match (n < MANY).then(ask).flatten() {
                Some(one) => {
                    asked.push_back((n, begin, writer.sent(), one, len));
                    n += 1;
                }
                None => std::thread::yield_now(),
            }
            writer.hold(asked.front().map(|&(_, begin, ..)| begin));
            // Late, so that the ring is full in between.
            while let Some(&(m, _, end, one, len)) = asked.front()
                // SAFETY: held since.
                && let Some(answered) = unsafe { writer.answered(one, end) }
                && (asked.len() > 50 || n == MANY)
            {
                // SAFETY: as above.
                let answer = unsafe { std::slice::from_raw_parts(one.body(), len) };
                assert_eq!(answered, m % 3 != 0, "answer {m}");
                assert!(answer.iter().all(|&byte| byte == m as u8), "answer {m}");
                asked.pop_front();
            }
        }
        assert!(writer.sent_ever() >= MANY && writer.sent_ever() as u32 == writer.sent());
    });
    assert!(writer.is_drained());
}

/// Behind what is corrupt nobody goes on, and the sender is told.
#[test]
fn a_ring_that_was_shut_stays_shut() {
    let memory = Memory::new();
    // SAFETY: zeroed memory of a ring with one sender; receivers take turns.
    let (writer, ends) = unsafe {
        let writer = Writer::new(memory.0, 6).unwrap();
        (writer, [1, 2].map(|me| SharedReader::new(memory.0, me).unwrap()))
    };
    // SAFETY: writes nothing.
    let asked = unsafe { writer.ask(1, [0; 3], 8, |_| ()) };
    assert!(asked.is_some() && ends[0].has_some());
    assert!(ends.iter().all(|end| !end.is_taken() && !end.is_shut()));
    let mut role = ends[1].take().unwrap();
    assert!(ends[0].is_taken() && !ends[0].is_shut() && ends[0].take().err() == Some(2));
    assert_eq!(role.reader.poll(1, |_, _, _| false), Err(Corrupt));
    role.shut();
    drop(role);
    assert!(ends.iter().all(|end| end.is_shut() && end.is_taken() && end.take().is_err()));
    assert!(!writer.is_drained());
}

/// A ring with one packet in it, taken, and whatever is written behind it.
fn behind_a_packet(garbage: &[u64]) -> Result<u32, Corrupt> {
    let memory = Memory::new();
    // SAFETY: zeroed memory of a ring with one sender and one receiver.
    let (writer, mut reader) = unsafe {
        let writer = Writer::new(memory.0, 0).unwrap();
        (writer, Reader::new(memory.0).unwrap())
    };
    // SAFETY: `LONG` readable bytes; slots of the ring.
    unsafe {
        assert!(writer.put(first(0), words(1), body(0, LONG).as_ptr(), 9));
        let slots = slots_in(reader.ring).cast::<u64>();
        slots.add(8).copy_from_nonoverlapping(garbage.as_ptr(), garbage.len());
    }
    assert_eq!(reader.poll(1, |_, _, got| got == body(0, 9)), Ok(1));
    reader.poll(8, |first, _, _| first as u8 != 0xee)
}

#[test]
fn what_no_sender_writes_is_an_error_and_is_not_read() {
    // A body past the end of the ring, one past the longest, a short packet
    // that is long, the end of a lap where there is none, no class.
    let len = |len: usize| (len as u64) << 32 | 2;
    for word in [
        len(BYTES),
        len(LONGEST + 1),
        len((1 << 30) - 1),
        SHORT | len(9),
        SHORT | len(BYTES),
        WRAP,
        0xee,
    ] {
        assert_eq!(behind_a_packet(&[word]), Err(Corrupt), "{word:#x}");
    }
    assert_eq!(behind_a_packet(&[0]), Ok(0));
    assert_eq!(behind_a_packet(&[LAP | 2]), Ok(0));
    assert_eq!(behind_a_packet(&[len(8), 1, 2, 3, 4]), Ok(1));
}

#[test]
fn what_is_left_out_is_not_read_two_laps_later() {
    let memory = Memory::new();
    // SAFETY: zeroed memory of a ring with one sender and one receiver.
    let (writer, mut reader) = unsafe {
        let writer = Writer::new(memory.0, 0).unwrap();
        (writer, Reader::new(memory.0).unwrap())
    };
    let bytes = body(0, LONGEST);
    let mut pass = |len| {
        // SAFETY: `bytes` is readable.
        assert!(unsafe { writer.put(first(0), words(0), bytes.as_ptr(), len) });
        assert_eq!(reader.poll(9, |_, _, got| got.len() == len), Ok(1));
    };
    (1..SLOTS).for_each(|_| pass(8));
    // The second lap leaves out where the first one had packets.
    (50..SLOTS).for_each(|_| pass(8));
    pass(LONGEST);
    (0..2 * SLOTS).for_each(|_| pass(8));
}

/// A ring serves one sender after the other, each from its first slot on, however far the one
/// before came; between them nobody reads of it.
#[test]
fn serves_one_after_the_other() {
    let memory = Memory::new();
    let bytes = body(0, 700);
    for (sender, packets) in [(3, 0), (7, 1), (2, 5), (9, BURST / 2), (4, 3)] {
        // SAFETY: zeroed memory of a ring with one sender and one receiver at a time; `bytes` is
        // readable.
        unsafe {
            assert!(Reader::new(memory.0).is_none());
            let writer = Writer::new(memory.0, sender).unwrap();
            let mut reader = Reader::new(memory.0).unwrap();
            assert_eq!(reader.peer(), sender);
            for n in 0..packets {
                let len = n as usize * 37 % 700;
                assert!(writer.put(first(n), words(n), bytes.as_ptr(), len));
                assert_eq!(reader.poll(9, |_, got, _| got == words(n)), Ok(1));
            }
            assert!(!reader.has_some() && !take(memory.0, 8));
            renew(memory.0);
            assert!(Reader::new(memory.0).is_none());
            assert!(take(memory.0, 8) && !take(memory.0, 9));
            // Who takes it has signed.
            assert_eq!(super::sender(memory.0), Some(8));
            renew(memory.0);
        }
    }
}

proptest! {
    #[test]
    fn comes_out_as_a_queue(
        // The longest of a burst, how many, how many are taken behind it.
        steps in prop::collection::vec((0..6_usize, 1..BURST, 0..900_u32), 1..STEPS)
    ) {
        let memory = Memory::new();
        // SAFETY: zeroed memory of a ring with one sender and one receiver.
        let (writer, mut reader) = unsafe {
            let writer = Writer::new(memory.0, 0).unwrap();
            (writer, Reader::new(memory.0).unwrap())
        };
        let mut queue = std::collections::VecDeque::new();
        let mut n = 0;
        for (longest, many, take) in steps {
            for _ in 0..many {
                let len = (n as usize * 7919) % ([9, 9, 33, 100, 700, LONG + 1][longest]);
                let bytes = body(n, len);
                let [one, two, three] = words(n);
                // SAFETY: `bytes` is readable.
                let word = || unsafe { Word::read(bytes.as_ptr(), len) };
                let short = three == 0
                    && len <= Word::BYTES
                    && writer.put_word(first(n), [one, two], word());
                // SAFETY: `bytes` is readable.
                if !short && !unsafe { writer.put(first(n), words(n), bytes.as_ptr(), len) } {
                    prop_assert!(!queue.is_empty(), "an empty ring has space");
                    break;
                }
                queue.push_back((n, len));
                n += 1;
            }
            let polled = reader.poll(take, |_, head, got| {
                let (n, len) = queue.pop_front().unwrap();
                head == words(n) && got == body(n, len)
            });
            prop_assert!(polled.is_ok());
        }
        let mut empty = 0;
        while empty == 0 {
            let polled = reader.poll(8, |_, words, _| words[0] == queue.pop_front().unwrap().0);
            empty = u32::from(polled == Ok(0));
            prop_assert!(polled.is_ok());
        }
        prop_assert!(queue.is_empty());
    }
}
