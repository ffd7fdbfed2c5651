//! What has come over the set-up channel.

use super::super::protocol::{FailureNotice, Frame, Kind};
use std::collections::{HashMap, VecDeque};

/// Frames of collectives that have come and were not asked for yet.
#[derive(Default)]
pub(super) struct Received {
    /// By sender and tag.
    frames: HashMap<(u32, u64), VecDeque<Frame>>,
    /// Groups of which somebody gave up a collective, by name.
    pub(super) broken: HashMap<u64, FailureNotice>,
}

impl Received {
    pub(super) fn push(&mut self, rank: u32, frame: Frame) {
        if frame.kind == Kind::Poison {
            FailureNotice::decode(&frame.payload).into_iter().for_each(|it| self.note_broken(it));
        }
        self.frames.entry((rank, frame.tag)).or_default().push_back(frame);
    }

    pub(super) fn take(&mut self, rank: u32, tag: u64) -> Option<Frame> {
        let queue = self.frames.get_mut(&(rank, tag))?;
        let frame = queue.pop_front();
        if queue.is_empty() {
            self.frames.remove(&(rank, tag));
        }
        frame
    }

    /// Frames of one sender.
    pub(super) fn of(&self, rank: u32) -> impl Iterator<Item = &Frame> {
        let theirs = self.frames.iter().filter(move |((from, _), _)| *from == rank);
        theirs.flat_map(|(_, queue)| queue)
    }

    /// Notes that a collective of the group in `notice` was given up, if it has a name.
    pub(super) fn note_broken(&mut self, notice: FailureNotice) {
        if notice.group != 0 {
            self.broken.entry(notice.group).or_insert(notice);
        }
    }
}
