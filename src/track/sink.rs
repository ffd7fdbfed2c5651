//! The file that a process writes, in whole chunks: what does not fit is counted, and
//! what stands can be read. Where the file system can, it keeps space for definitions and
//! the end behind what stands, which events do not get.

use super::error::TrackError;
use super::file::{Chunk, Header};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;

/// Bytes that are collected before the file is written.
pub(super) const BUFFER: usize = 64 << 10;

/// Bytes that events leave for definitions, and definitions for the end.
const FOR_DEFINITIONS: u64 = 32 << 10;
const FOR_THE_END: u64 = 128;

/// What is written to: a file, in tests memory.
pub(super) trait Store: Write + Send {
    /// Forgets what is behind this many bytes, also space that was kept, and goes on there.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Keeps the space of these bytes, which are behind what stands.
    fn keep(&mut self, bytes: Range<u64>) -> io::Result<()>;
}

impl Store for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len)).map(|_| ())
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn keep(&mut self, bytes: Range<u64>) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let off = |bytes: u64| bytes.try_into().map_err(|_| io::ErrorKind::FileTooLarge);
        let (from, len) = (off(bytes.start)?, off(bytes.end - bytes.start)?);
        // SAFETY: a descriptor that is open; the file's length and bytes stay as they are.
        match unsafe { libc::fallocate(self.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn keep(&mut self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Refuses a file for which the system ends the process (SIGXFSZ): one longer than it may have.
#[cfg(all(target_os = "linux", not(miri)))]
fn may_have(len: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: a structure of ours, which the call fills.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && len > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn may_have(_: u64) -> io::Result<()> {
    Ok(())
}

/// What a batch is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Definitions,
    /// And the clock.
    Events,
}

/// Chunks, and how much is in them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) events: u64,
    pub(super) definitions: u64,
    /// Ends of what was defined.
    pub(super) frees: u64,
}

impl Batch {
    pub(super) fn add(&mut self, chunk: &Chunk<'_>) {
        chunk.append_to(&mut self.bytes);
        match chunk {
            Chunk::Events { bytes, .. } => {
                self.events += (bytes.len() / super::Event::BYTES) as u64
            }
            Chunk::Defined { .. } => self.definitions += 1,
            Chunk::Freed { .. } => self.frees += 1,
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

/// Writes batches until one does not fit; after one of events, definitions alone.
pub(super) struct Sink {
    store: Box<dyn Store>,
    path: PathBuf,
    /// Bytes that stand, whole chunks.
    pub(super) written: u64,
    /// Events and definitions that stand.
    pub(super) events: u64,
    pub(super) definitions: u64,
    /// Those that do not; of definitions also what was freed.
    pub(super) lost_events: u64,
    pub(super) lost_definitions: u64,
    /// Up to which byte there is space for sure; `None` where that cannot be asked for.
    kept: Option<u64>,
    /// Something did not fit, and no events are written any more.
    is_full: bool,
    /// A definition did not, and they are not either.
    is_over: bool,
}

impl Sink {
    /// Begins with the header.
    pub(super) fn new(
        mut store: Box<dyn Store>,
        path: PathBuf,
        header: &Header,
    ) -> Result<Sink, TrackError> {
        let header = header.to_bytes();
        let written = header.len() as u64;
        if let Err(why) = may_have(written).and_then(|()| store.write_all(&header)) {
            return Err(TrackError::Write { path, why });
        }
        let mut sink = Sink {
            store,
            path,
            written,
            events: 0,
            definitions: 0,
            lost_events: 0,
            lost_definitions: 0,
            kept: Some(written),
            is_full: false,
            is_over: false,
        };
        // (Where there is less, batches will find out.)
        let _ = sink.keep(FOR_DEFINITIONS).or_else(|_| sink.keep(FOR_THE_END));
        Ok(sink)
    }

    /// Has space for so many bytes behind what stands, if the file system keeps any.
    fn keep(&mut self, bytes: u64) -> io::Result<()> {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let to = self.written + bytes;
        may_have(to)?;
        let Some(kept) = self.kept.filter(|&kept| kept < to) else { return Ok(()) };
        match self.store.keep(kept.max(self.written)..to) {
            Err(why) if matches!(why.kind(), QuotaExceeded | StorageFull) => return Err(why),
            // (The next batch asks again.)
            Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
            kept => self.kept = kept.ok().map(|()| to),
        }
        Ok(())
    }

    /// Writes all of a batch and empties it. The first time that it does not fit is said on
    /// standard error.
    pub(super) fn write(&mut self, batch: &mut Batch, of: Of) {
        let is_over = self.is_over || self.is_full && of == Of::Events;
        if is_over || !self.took(batch, of) {
            self.lost_events += batch.events;
            self.lost_definitions += batch.definitions + batch.frees;
        }
        batch.bytes.clear();
        (batch.events, batch.definitions, batch.frees) = (0, 0, 0);
    }

    /// Returns false if it does not fit.
    fn took(&mut self, batch: &Batch, of: Of) -> bool {
        let len = batch.bytes.len() as u64;
        let all = self.keep(len + FOR_DEFINITIONS);
        let kept = match of {
            Of::Events => all,
            Of::Definitions => all.or_else(|_| self.keep(len + FOR_THE_END)),
        };
        let is_refused = kept.is_err();
        let Err(why) = kept.and_then(|()| self.try_write(batch)) else { return true };
        if !self.is_full {
            let _ = writeln!(
                io::stderr(),
                "rankway: {}. The program goes on; its calls are not recorded from here on, and what \
                 it makes and frees while there is space",
                TrackError::Write { path: self.path.clone(), why }
            );
        }
        // (Where what was kept is no help the end needs what cutting back made.)
        (self.is_full, self.is_over) = (true, of == Of::Definitions || !is_refused);
        false
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

    /// Writes the last chunks, also where others did not fit: they are short, and space was
    /// kept for them, or cutting back made some. Gives back what is left of it.
    pub(super) fn end(&mut self, batch: &Batch) -> Result<(), TrackError> {
        let fits = may_have(self.written + batch.bytes.len() as u64);
        let ended = fits.and_then(|()| self.try_write(batch)).and_then(|()| self.store.flush());
        if self.kept.is_some_and(|kept| kept > self.written) {
            // (What cannot be given back goes with the file.)
            let _ = self.store.cut(self.written);
        }
        ended.map_err(|why| TrackError::Write { path: self.path.clone(), why })
    }
}
