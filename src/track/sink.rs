//! The file that a process writes, in whole chunks: what does not fit is counted, and
//! what stands can be read.

use super::error::TrackError;
use super::file::{Chunk, Header};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Bytes that are collected before the file is written.
pub(super) const BUFFER: usize = 64 << 10;

/// What is written to: a file, in tests memory.
pub(super) trait Store: Write + Send {
    /// Forgets what is behind this many bytes, and goes on there.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Store for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }
}

/// Chunks, and how much is in them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) events: u64,
    pub(super) definitions: u64,
}

impl Batch {
    pub(super) fn add(&mut self, chunk: &Chunk<'_>) {
        chunk.append_to(&mut self.bytes);
        match chunk {
            Chunk::Events { bytes, .. } => {
                self.events += (bytes.len() / super::Event::BYTES) as u64
            }
            Chunk::Defined { .. } => self.definitions += 1,
            _ => (),
        }
    }

    /// A chunk of events of a thread, as bytes that `fill` puts behind those that are there;
    /// it returns how many events that were.
    pub(super) fn add_events(
        &mut self,
        thread: u32,
        fill: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize {
        let at = self.bytes.len();
        Chunk::Events { thread, bytes: &[] }.append_to(&mut self.bytes);
        let body = self.bytes.len();
        let count = fill(&mut self.bytes);
        let len = (self.bytes.len() - body) as u64;
        debug_assert_eq!(len, (count * super::Event::BYTES) as u64);
        match count {
            0 => self.bytes.truncate(at),
            _ => self.bytes[body - 8..body].copy_from_slice(&len.to_le_bytes()),
        }
        self.events += count as u64;
        count
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes.len() >= BUFFER
    }
}

/// Writes batches until one does not fit.
pub(super) struct Sink {
    store: Box<dyn Store>,
    path: PathBuf,
    /// Bytes that stand, whole chunks.
    pub(super) written: u64,
    /// Events and definitions that stand.
    pub(super) events: u64,
    pub(super) definitions: u64,
    /// Those that do not.
    pub(super) lost_events: u64,
    pub(super) lost_definitions: u64,
    /// Something did not fit, and nothing is written any more.
    full: bool,
}

impl Sink {
    /// Begins with the header.
    pub(super) fn new(
        mut store: Box<dyn Store>,
        path: PathBuf,
        header: &Header,
    ) -> Result<Sink, TrackError> {
        let header = header.to_bytes();
        if let Err(why) = store.write_all(&header) {
            return Err(TrackError::Write { path, why });
        }
        Ok(Sink {
            store,
            path,
            written: header.len() as u64,
            events: 0,
            definitions: 0,
            lost_events: 0,
            lost_definitions: 0,
            full: false,
        })
    }

    /// Writes all of a batch and empties it. The first time that it does not fit is said on
    /// standard error.
    pub(super) fn write(&mut self, batch: &mut Batch) {
        if !self.full
            && let Err(why) = self.try_write(batch)
        {
            self.full = true;
            let _ = writeln!(
                io::stderr(),
                "rankway: {}. The program goes on; its recording ends here",
                TrackError::Write { path: self.path.clone(), why }
            );
        }
        if self.full {
            self.lost_events += batch.events;
            self.lost_definitions += batch.definitions;
        }
        batch.bytes.clear();
        (batch.events, batch.definitions) = (0, 0);
    }

    fn try_write(&mut self, batch: &Batch) -> io::Result<()> {
        if let Err(why) = self.store.write_all(&batch.bytes) {
            // Back to whole chunks. (If not even that can be done, readers stop there.)
            let _ = self.store.cut(self.written);
            return Err(why);
        }
        self.written += batch.bytes.len() as u64;
        self.events += batch.events;
        self.definitions += batch.definitions;
        Ok(())
    }

    /// Writes the last chunks, also where others did not fit: they are short, and cutting
    /// back made space.
    pub(super) fn end(&mut self, batch: &Batch) -> Result<(), TrackError> {
        self.try_write(batch)
            .and_then(|()| self.store.flush())
            .map_err(|why| TrackError::Write { path: self.path.clone(), why })
    }
}
