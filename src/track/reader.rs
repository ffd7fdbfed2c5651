//! A file's chunks, read a piece at a time: memory is what a piece takes, however long the
//! file is.

use super::event::Event;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

/// Of the form.
pub(super) const VERSION: u8 = 1;
/// The most processes of a job: many answers have something for each that a header tells of.
pub(super) const JOB_MAX: u32 = 1 << 24;
/// Bytes of a file's header, and of a chunk's head.
pub(super) const HEADER: usize = 64;
const HEAD: usize = 16;
/// Sort of a chunk of events.
pub(super) const EVENTS: u32 = 1;

/// The number that begins at a byte; 0 past the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes.get(at + i).copied().unwrap_or(0)))
}

pub(super) fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin as such files do.
    NoHeader,
    /// It is of another version.
    Version(u8),
    /// Its header says what cannot be.
    Header,
    /// Its header says a job of this many processes, more than are read.
    Size(u32),
    /// A chunk says what cannot be; the byte where it begins.
    Chunk(usize),
    /// Definitions that were put together ([`Partial`](super::Partial)) say what cannot be
    /// before this byte.
    Definitions(usize),
    /// The system does not give it.
    Read(io::ErrorKind),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NoHeader => f.write_str("this is not a trace of Rankway"),
            Damage::Version(version) => {
                write!(f, "a trace of version {version}; this program reads version {}", VERSION)
            }
            Damage::Header => f.write_str("its header says what cannot be: it is damaged"),
            Damage::Size(size) => {
                write!(f, "its header says a job of {size} processes; at most {JOB_MAX} are read")
            }
            Damage::Chunk(at) => write!(f, "it is damaged at byte {at}"),
            Damage::Read(why) => write!(f, "it cannot be read: {why}"),
            Damage::Definitions(at) => write!(f, "its definitions are damaged before byte {at}"),
        }
    }
}

impl std::error::Error for Damage {}

/// The most bytes of a body that is not of events.
const MOST: u64 = 1 << 20;

/// Where a chunk is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) sort: u32,
    pub(super) thread: u32,
    /// Where it begins.
    pub(super) at: u64,
    /// Bytes of its body.
    pub(super) len: u64,
}

impl Head {
    pub(super) fn damage(&self) -> Damage {
        Damage::Chunk(usize::try_from(self.at).unwrap_or(usize::MAX))
    }
}

/// Whole chunks, one after the other.
#[derive(Debug)]
pub(super) struct Chunks<R> {
    from: R,
    /// Bytes of the file that count.
    len: u64,
    /// Where the next begins.
    next: u64,
    /// What was read last, and where it begins.
    window: Vec<u8>,
    base: u64,
    /// Bytes that are read at once.
    piece: usize,
}

impl<R: Read + Seek> Chunks<R> {
    pub(super) fn new(from: R, len: u64, piece: usize) -> Chunks<R> {
        let piece = piece.max(HEADER);
        Chunks { from, len, next: HEADER as u64, window: Vec::new(), base: 0, piece }
    }

    /// The bytes of the header that are there.
    pub(super) fn header(&mut self) -> Result<&[u8], Damage> {
        let there = self.len.min(HEADER as u64) as usize;
        self.bytes(0, there)?.ok_or(Damage::NoHeader)
    }

    /// The next whole chunk; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Head>, Damage> {
        let at = self.next;
        let Some(head) = self.bytes(at, HEAD)? else { return Ok(None) };
        let head = Head { sort: half(head, 0), thread: half(head, 4), at, len: word(head, 8) };
        let end = (at + HEAD as u64).checked_add(head.len);
        let Some(end) = end.filter(|&end| end <= u64::MAX - 8) else { return Err(head.damage()) };
        if end > self.len {
            return Ok(None);
        }
        self.next = end.next_multiple_of(8);
        Ok(Some(head))
    }

    /// The body of a chunk that is no events.
    pub(super) fn body(&mut self, head: Head) -> Result<&[u8], Damage> {
        let len = usize::try_from(head.len.min(MOST + 1)).unwrap_or(usize::MAX);
        if len as u64 > MOST {
            return Err(head.damage());
        }
        self.bytes(head.at + HEAD as u64, len)?.ok_or(head.damage())
    }

    /// The `n`-th event of a chunk of events; `None` behind the last, or where the file was
    /// cut meanwhile.
    #[inline]
    pub(super) fn event(&mut self, head: Head, n: u64) -> Result<Option<Event>, Damage> {
        const BYTES: u64 = Event::BYTES as u64;
        if n >= head.len / BYTES {
            return Ok(None);
        }
        let bytes = self.bytes(head.at + HEAD as u64 + n * BYTES, Event::BYTES)?;
        Ok(bytes.and_then(|bytes| bytes.first_chunk()).map(Event::from_bytes))
    }

    /// So many bytes from `at`; `None` where there are fewer.
    #[inline]
    fn bytes(&mut self, at: u64, count: usize) -> Result<Option<&[u8]>, Damage> {
        let there = |at: u64, base: u64, window: &[u8]| {
            let begin = usize::try_from(at.checked_sub(base)?).ok()?;
            let end = begin.checked_add(count)?;
            (end <= window.len()).then_some((begin, end))
        };
        let place = match there(at, self.base, &self.window) {
            None => {
                self.read(at, count).map_err(|why| Damage::Read(why.kind()))?;
                there(at, self.base, &self.window)
            }
            place => place,
        };
        Ok(place.map(|(begin, end)| &self.window[begin..end]))
    }

    /// Reads a piece from `at`, and at least so many bytes where they are there.
    #[cold]
    fn read(&mut self, at: u64, count: usize) -> io::Result<()> {
        let rest = self.len.saturating_sub(at).min(self.piece.max(count) as u64);
        self.window.resize(rest as usize, 0);
        self.base = self.from.seek(SeekFrom::Start(at))?;
        let mut there = 0;
        while there < self.window.len() {
            match self.from.read(&mut self.window[there..]) {
                Ok(0) => break,
                Ok(more) => there += more,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => {
                    self.window.clear();
                    return Err(why);
                }
            }
        }
        self.window.truncate(there);
        Ok(())
    }
}

/// The events of a thread of a file, in the order in which the calls returned, read a piece
/// at a time.
///
/// ```
/// use rankway::track::{Chunk, Event, Header, Kind, ThreadEvents, Writer};
/// use std::io::Cursor;
///
/// let header = Header { job: 1, rank: 0, size: 1, pid: 1, ticks: 0, unix_nanos: 0, nanos_per_tick: 1.0 };
/// let mut writer = Writer::new(Vec::new(), &header)?;
/// for (thread, start) in [(7, 1), (8, 2), (7, 3)] {
///     let bytes = Event::new(Kind::Barrier, start, start + 1).to_bytes();
///     writer.add(&Chunk::Events { thread, bytes: &bytes })?;
/// }
/// let file = std::mem::take(writer.get_mut());
/// let len = file.len() as u64;
/// let mut events = ThreadEvents::new(Cursor::new(file), len, 7, 4096);
/// let mut starts = Vec::new();
/// while let Some(event) = events.next()? {
///     starts.push(event.start);
/// }
/// assert_eq!(starts, [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ThreadEvents<R> {
    chunks: Chunks<R>,
    thread: u32,
    /// The chunk, and how many of it were given.
    chunk: Option<(Head, u64)>,
}

impl<R: Read + Seek> ThreadEvents<R> {
    /// Of thread `thread`, in the first `len` bytes of a file; it is read `piece` bytes at a
    /// time.
    pub fn new(file: R, len: u64, thread: u32, piece: usize) -> ThreadEvents<R> {
        ThreadEvents { chunks: Chunks::new(file, len, piece), thread, chunk: None }
    }

    /// The next; `None` behind the last.
    ///
    /// # Errors
    /// [`Damage`]: of a file that [`ProcessTrace::read`](super::ProcessTrace::read) took, only
    /// that it cannot be read any more.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an error ends it")]
    pub fn next(&mut self) -> Result<Option<Event>, Damage> {
        loop {
            if let Some((head, given)) = &mut self.chunk
                && let Some(event) = self.chunks.event(*head, *given)?
            {
                *given += 1;
                return Ok(Some(event));
            }
            let Some(head) = self.chunks.next()? else { return Ok(None) };
            let ours = head.sort == EVENTS && head.thread == self.thread;
            self.chunk = ours.then_some((head, 0));
        }
    }
}
