//! Bytes of the control channel: greeting, answer, frames. Pure, no I/O.
//!
//! ```text
//! greeting  magic 8 | job 8 | from rank 4 | to rank 4 | call secret of the called 16
//! answer    magic 8 | answer secret of the called 16
//! frame     tag 8 | sequence 4 | kind 1 | operation 1 | round 2 | length 8 | payload
//! ```
//!
//! Little-endian. The greeting authenticates the caller's rank, so frames do
//! not repeat it. Frames from one peer are numbered, but the last, its goodbye.

/// Marks both directions; its last byte is the version.
const MAGIC: [u8; 8] = *b"rankway\x03";

pub(super) const GREETING: usize = 8 + 8 + 4 + 4 + 16;
pub(super) const ANSWER: usize = 8 + 16;
const HEADER: usize = 8 + 4 + 1 + 1 + 2 + 8;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A step of a collective.
    Data,
    /// The sender cannot take its step; the payload is a [`FailureNotice`].
    Poison,
    /// A rank has died; the payload is a [`FailureNotice`] too.
    Death,
    /// The sender closes its channel in good order.
    Bye,
}

/// The collectives, so that two ranks in different ones notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    None,
    Barrier,
    Allgather,
    Broadcast,
    Unanimous,
    Gather,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) tag: u64,
    pub(super) sequence: u32,
    pub(super) kind: Kind,
    pub(super) operation: Operation,
    pub(super) round: u16,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn bye() -> Self {
        let (kind, operation) = (Kind::Bye, Operation::None);
        Frame { tag: 0, sequence: 0, kind, operation, round: 0, payload: Vec::new() }
    }

    pub(super) fn death(notice: &FailureNotice) -> Self {
        let (kind, operation) = (Kind::Death, Operation::None);
        Frame { tag: 0, sequence: 0, kind, operation, round: 0, payload: notice.encode() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload.len());
        bytes.extend(self.tag.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.push(self.kind as u8);
        bytes.push(self.operation as u8);
        bytes.extend(self.round.to_le_bytes());
        bytes.extend((self.payload.len() as u64).to_le_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The frame at the front of `bytes` and its length; `Ok(None)` when more
    /// bytes are needed, `Err` when they can be no frame.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, &'static str> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let kind = match header[12] {
            0 => Kind::Data,
            1 => Kind::Poison,
            2 => Kind::Death,
            3 => Kind::Bye,
            _ => return Err("a frame of unknown kind"),
        };
        let operation = match header[13] {
            0 => Operation::None,
            1 => Operation::Barrier,
            2 => Operation::Allgather,
            3 => Operation::Broadcast,
            4 => Operation::Unanimous,
            5 => Operation::Gather,
            _ => return Err("a frame of an unknown operation"),
        };
        let length = usize::try_from(u64_at(header, 16)).map_err(|_| "a frame too long")?;
        let end = HEADER.checked_add(length).ok_or("a frame too long")?;
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = Frame {
            tag: u64_at(header, 0),
            sequence: u32_at(header, 8),
            kind,
            operation,
            round: u16::from_le_bytes([header[14], header[15]]),
            payload: payload.to_vec(),
        };
        Ok(Some((frame, end)))
    }
}

/// Whose fault it is, in which group, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailureNotice {
    pub(super) rank: u32,
    /// What the group is called; 0 where it has no name.
    pub(super) group: u64,
    /// It lives, and has left a collective.
    pub(super) gave_up: bool,
    /// How it died, or why it left.
    pub(super) how: String,
}

impl FailureNotice {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (rank, group) = (self.rank.to_le_bytes(), self.group.to_le_bytes());
        [&rank[..], &group, &[self.gave_up.into()], self.how.as_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, how) = bytes.split_first_chunk::<13>()?;
        let how = String::from_utf8_lossy(how).into_owned();
        let (rank, group) = (u32_at(head, 0), u64_at(head, 4));
        Some(FailureNotice { rank, group, gave_up: head[12] != 0, how })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) job: u64,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) call_secret: [u8; 16],
}

impl Greeting {
    pub(super) fn encode(&self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.from.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.to.to_le_bytes());
        bytes[24..].copy_from_slice(&self.call_secret);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; GREETING]) -> Option<Self> {
        let mut call_secret = [0; 16];
        call_secret.copy_from_slice(&bytes[24..]);
        let greeting = Greeting {
            job: u64_at(bytes, 8),
            from: u32_at(bytes, 16),
            to: u32_at(bytes, 20),
            call_secret,
        };
        (bytes[..8] == MAGIC).then_some(greeting)
    }
}

pub(super) fn answer(answer_secret: &[u8; 16]) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(answer_secret);
    bytes
}

/// Compares secrets in a time that does not depend on where they differ.
pub(super) fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Bytes off a connection: what comes out goes back in.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    if let Some(greeting) = bytes.first_chunk().and_then(Greeting::decode) {
        assert_eq!(Some(&greeting.encode()), bytes.first_chunk());
    }
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = Frame::decode(rest) {
        assert_eq!(frame.encode(), rest[..length]);
        rest = &rest[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            tag: u64, sequence: u32, round: u16, payload in proptest::collection::vec(any::<u8>(), 0..64)
        ) {
            let (kind, operation) = (Kind::Poison, Operation::Allgather);
            let frame = Frame { tag, sequence, kind, operation, round, payload };
            let bytes = frame.encode();
            for cut in 0..bytes.len() {
                prop_assert_eq!(Frame::decode(&bytes[..cut]), Ok(None));
            }
            let two = [bytes.clone(), bytes.clone()].concat();
            prop_assert_eq!(Frame::decode(&two), Ok(Some((frame, bytes.len()))));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = Frame::decode(&bytes);
        }

        #[test]
        fn failure_notices_survive(
            rank: u32, group: u64, gave_up: bool, how: String, cut in 0usize..13
        ) {
            let notice = FailureNotice { rank, group, gave_up, how };
            let bytes = notice.encode();
            prop_assert_eq!(FailureNotice::decode(&bytes[..cut]), None);
            prop_assert_eq!(FailureNotice::decode(&bytes), Some(notice));
        }

        #[test]
        fn greetings_survive(job: u64, from: u32, to: u32, call_secret: [u8; 16], flip in 0usize..8) {
            let greeting = Greeting { job, from, to, call_secret };
            let mut bytes = greeting.encode();
            prop_assert_eq!(Greeting::decode(&bytes), Some(greeting));
            bytes[flip] ^= 1;
            prop_assert_eq!(Greeting::decode(&bytes), None);
        }
    }
}
