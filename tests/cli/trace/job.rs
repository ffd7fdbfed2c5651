//! Traces of a job that never ran: what each process would have recorded.

use crate::command;
use rankway::track::{
    Chunk, Constructor, Definition, DefinitionFlags, Event, FILE_ENDING, Header, Identity, Kind,
    NO_PARENT, Writer,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes with this.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rankway-trace-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("temporary directories can be made");
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    /// `rankway trace WHAT DIRECTORY args --json`.
    pub(crate) fn json(&self, what: &str, args: &[&str]) -> Value {
        command::json("trace", &[&[what, self.text()], args].concat())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number that processes give their world.
pub(crate) const WORLD: u32 = 1;

/// A process; a tick is a nanosecond.
pub(crate) struct Process {
    pub(crate) header: Header,
    writer: Writer<Vec<u8>>,
    events: Vec<u8>,
}

impl Process {
    /// Of a world of `size`, which it has defined.
    pub(crate) fn new(job: u64, rank: u32, size: u32) -> Process {
        Process::with_clock(job, rank, size, 0)
    }

    /// One that thinks it is so many nanoseconds later.
    pub(crate) fn with_clock(job: u64, rank: u32, size: u32, later: u64) -> Process {
        let header = Header {
            job,
            rank,
            size,
            pid: 1000 + rank,
            ticks: 0,
            unix_nanos: 1_700_000_000_000_000_000 + job + later,
            nanos_per_tick: 1.0,
        };
        let writer = Writer::new(Vec::new(), &header).expect("a Vec takes all");
        let mut process = Process { header, writer, events: Vec::new() };
        process.add(Chunk::Fact { key: "host", text: "node1" });
        let of = Constructor::World;
        process.define(WORLD, 0, Identity::world(job), (rank, size), NO_PARENT, 0, of);
        process
    }

    pub(crate) fn add(&mut self, chunk: Chunk<'_>) {
        self.writer.add(&chunk).expect("a Vec takes all");
    }

    #[allow(clippy::too_many_arguments, reason = "what a definition has")]
    pub(crate) fn define(
        &mut self,
        id: u32,
        ticks: u64,
        identity: Identity,
        (rank, size): (u32, u32),
        parent: u32,
        site: u16,
        constructor: Constructor,
    ) {
        let flags = DefinitionFlags::NONE;
        let definition = Definition { identity, rank, size, parent, site, constructor, flags };
        self.add(Chunk::Defined { id, ticks, definition });
    }

    /// A call in a communicator or window.
    pub(crate) fn call(&mut self, kind: Kind, times: (u64, u64), comm: u32, peer: u32, bytes: u64) {
        self.event(Event::new(kind, times.0, times.1).with(comm, peer, 7).of_bytes(bytes));
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.extend_from_slice(&event.to_bytes());
    }

    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.events);
        if !bytes.is_empty() {
            self.add(Chunk::Events { thread: 0, bytes: &bytes });
        }
    }

    /// Its file, in which it has come to its end.
    pub(crate) fn end(self, directory: &Directory) {
        self.end_without(0, directory);
    }

    /// The same, where so many records of what it made or freed found no space.
    pub(crate) fn end_without(mut self, lost: u64, directory: &Directory) {
        self.flush();
        self.add(Chunk::End { dropped: 0, lost });
        self.killed(directory);
    }

    /// Its file, without an end.
    pub(crate) fn killed(mut self, directory: &Directory) {
        self.flush();
        let name = format!("{:x}.{}{FILE_ENDING}", self.header.job, self.header.rank);
        let written = std::fs::write(directory.path().join(name), self.writer.get_mut());
        written.expect("the directory can be written");
    }
}
