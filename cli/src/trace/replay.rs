//! Calls of all processes, as they came: files are read side by side, a piece at a time, so
//! that memory is that of the pieces and of what is under way.

use super::calls::{Call, Process, Program};
use super::messages::{Key, Message, Messages, Unmatched};
use crate::output::progress;
use rankway::track::{Event, ThreadEvents};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// What looks at calls.
pub(super) trait Visitor {
    /// A call; those of a thread come in the order in which they returned, and so do those of
    /// all as far as their clocks agree.
    fn call(&mut self, program: &Program<'_>, process: &Process<'_>, call: &Call);

    /// A message that has both sides.
    fn message(&mut self, _: &Message) {}

    /// All calls of the process have come.
    fn gone(&mut self, _: &Program<'_>, _: &Process<'_>) {}
}

/// Bytes of all pieces together, and of each at least and at most.
const PIECES: usize = 64 << 20;
const PIECE: (usize, usize) = (4 << 10, 1 << 20);

/// A file that is opened for each piece: there may be more of them than a process may open.
struct Reopened {
    path: PathBuf,
    at: u64,
}

impl Read for Reopened {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.at))?;
        let count = file.read(into)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reopened {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => self.at = at,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(self.at)
    }
}

/// A thread's calls.
struct Cursor {
    /// Of [`Program::processes`].
    process: usize,
    thread: u32,
    events: ThreadEvents<Reopened>,
    /// The next, and when it returned.
    next: Event,
    end: u64,
}

impl Cursor {
    /// Goes on to the next event; false behind the last.
    fn advance(&mut self, program: &Program<'_>) -> Result<bool, String> {
        let process = &program.processes[self.process];
        let next = self.events.next();
        let next = next.map_err(|e| format!("{}: {e}", process.file.path.display()))?;
        if let Some(event) = next {
            (self.next, self.end) = (event, process.nanos(event.end()));
        }
        Ok(next.is_some())
    }
}

/// Shows all calls to the visitors, and where `messages` says so messages. Returns the sides
/// of messages that have no other.
///
/// # Errors
/// A file cannot be read any more.
pub(super) fn replay(
    program: &Program<'_>,
    messages: bool,
    visitors: &mut [&mut dyn Visitor],
) -> Result<BTreeMap<Key, Unmatched>, String> {
    let threads: usize = program.processes.iter().map(|one| one.file.threads.len()).sum();
    let piece = (PIECES / threads.max(1)).clamp(PIECE.0, PIECE.1);
    let mut cursors = Vec::with_capacity(threads);
    let mut heap = BinaryHeap::with_capacity(threads);
    // Threads that have calls still.
    let mut left: Vec<usize> = Vec::with_capacity(program.processes.len());
    for process in &program.processes {
        let file = process.file;
        left.push(file.threads.len());
        if file.threads.is_empty() {
            visitors.iter_mut().for_each(|visitor| visitor.gone(program, process));
        }
        for &thread in &file.threads {
            let from = Reopened { path: file.path.clone(), at: 0 };
            let events = ThreadEvents::new(from, file.len, thread, piece);
            let next = Event::from_bytes(&[0; Event::BYTES]);
            let mut cursor = Cursor { process: process.at, thread, events, next, end: 0 };
            if cursor.advance(program)? {
                heap.push(Reverse((cursor.end, cursors.len())));
                cursors.push(cursor);
            }
        }
    }
    let mut finder = messages.then(|| Messages::new(program));
    let total: u64 = program.processes.iter().map(|one| one.file.events).sum();
    let bar = progress(total, "looking at calls".to_owned());
    let mut done = 0_u64;
    while let Some(Reverse((_, at))) = heap.pop() {
        let cursor = &mut cursors[at];
        let process = &program.processes[cursor.process];
        let until = heap.peek().map_or(u64::MAX, |Reverse((end, _))| *end);
        let more = loop {
            if let Some(call) = program.call(process, &cursor.next) {
                visitors.iter_mut().for_each(|visitor| visitor.call(program, process, &call));
                if let Some(finder) = &mut finder {
                    finder.call(process, cursor.thread, &call, &mut |message| {
                        visitors.iter_mut().for_each(|visitor| visitor.message(&message));
                    });
                }
            }
            done += 1;
            if done.is_multiple_of(1 << 16) {
                bar.set_position(done);
            }
            if !cursor.advance(program)? {
                break false;
            }
            if cursor.end > until {
                break true;
            }
        };
        if more {
            heap.push(Reverse((cursor.end, at)));
            continue;
        }
        if let Some(finder) = &mut finder {
            finder.ended(process, cursor.thread, &mut |message| {
                visitors.iter_mut().for_each(|visitor| visitor.message(&message));
            });
        }
        left[cursor.process] -= 1;
        if left[cursor.process] == 0 {
            visitors.iter_mut().for_each(|visitor| visitor.gone(program, process));
            if let Some(finder) = &mut finder {
                finder.gone(process);
            }
        }
    }
    bar.finish_and_clear();
    Ok(finder.map(Messages::unmatched).unwrap_or_default())
}
