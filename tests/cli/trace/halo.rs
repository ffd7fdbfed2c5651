//! A long recording of a ring that exchanges, and what reading it costs.

use rankway::track::{
    Chunk, Constructor, Definition, DefinitionFlags, Event, FILE_ENDING, Header, Identity, Kind,
    NO_PARENT, NO_PEER, Writer,
};
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Events of a step: a receive posted, a send, a wait, the ends of both; of every fourth an
/// allreduce.
pub const STEP: u64 = 5;
const REDUCES: u64 = 4;
/// Events of a chunk.
const CHUNK: u64 = 4096;

/// Writes what `ranks` processes of a job record in so many steps: each sends 100 bytes to the
/// next and waits for those of the one before. Returns the events of all.
pub fn written(directory: &Path, ranks: u32, steps: u64) -> u64 {
    let mut events = 0;
    for rank in 0..ranks {
        let header = Header {
            job: 3,
            rank,
            size: ranks,
            pid: 1000 + rank,
            ticks: 0,
            unix_nanos: 1_700_000_000_000_000_000,
            nanos_per_tick: 1.0,
        };
        let file = File::create(directory.join(format!("3.{rank}{FILE_ENDING}")));
        let file = BufWriter::new(file.expect("the directory can be written"));
        let mut writer = Writer::new(file, &header).expect("there is space");
        let definition = Definition {
            identity: Identity::world(3),
            rank,
            size: ranks,
            parent: NO_PARENT,
            site: 0,
            constructor: Constructor::World,
            flags: DefinitionFlags::NONE,
        };
        let mut add = |chunk: Chunk<'_>| writer.add(&chunk).expect("there is space");
        add(Chunk::Fact { key: "host", text: "node1" });
        add(Chunk::Defined { id: 1, ticks: 0, definition });
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let mut bytes = Vec::new();
        for step in 0..steps {
            // Ranks take turns in being late.
            let late = if step % u64::from(ranks) == u64::from(rank) { 300 } else { 0 };
            let at = |ns: u64| 1 + 1000 * step + late + ns;
            let tag = (step % 5) as i32;
            let mut event = |kind, start, end, peer, moved| {
                let event = Event::new(kind, start, end).with(1, peer, tag).of_bytes(moved);
                bytes.extend_from_slice(&event.to_bytes());
                events += 1;
            };
            event(Kind::Irecv, at(0), at(10), last, 0);
            event(Kind::Isend, at(20), at(40), next, 100);
            event(Kind::Waitall, at(50), at(500), NO_PEER, 0);
            event(Kind::Completed, at(20), at(500), NO_PEER, 0);
            event(Kind::Received, at(0), at(500), last, 100);
            if step % REDUCES == 0 {
                event(Kind::Allreduce, at(510), at(600), NO_PEER, 8);
            }
            if bytes.len() as u64 >= CHUNK * Event::BYTES as u64 {
                add(Chunk::Events { thread: 0, bytes: &bytes });
                bytes.clear();
            }
        }
        add(Chunk::Events { thread: 0, bytes: &bytes });
        add(Chunk::End { dropped: 0, lost: 0 });
    }
    events
}

/// What a command took.
pub struct Took {
    /// Seconds of the processor.
    pub seconds: f64,
    /// Most bytes in memory at once.
    pub peak: u64,
}

/// Runs a command to its end, which has to be a good one.
#[allow(clippy::zombie_processes, reason = "wait4(2) waits, and tells what it took")]
pub fn took(command: &mut Command) -> Took {
    let child = command.stdout(Stdio::null()).spawn().expect("the command starts");
    let mut status = 0;
    // SAFETY: a zeroed rusage is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let id = libc::pid_t::try_from(child.id()).expect("a process number");
    // SAFETY: a child of ours that nobody else waits for; wait4(2) fills what it is given.
    let ended = unsafe { libc::wait4(id, &mut status, 0, &mut usage) };
    assert_eq!(ended, id, "{}", std::io::Error::last_os_error());
    assert!(ExitStatus::from_raw(status).success(), "{command:?}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Took {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak: usage.ru_maxrss as u64 * 1024,
    }
}
