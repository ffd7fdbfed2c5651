//! What a process recorded, as a file: a header of 64 bytes, then chunks, each a head of
//! 16 bytes and a body whose length is a multiple of 8. Numbers are little-endian.
//!
//! ```text
//! header   magic 8, job 8, world rank 4, world size 4, pid 4, 0 4,
//!          ticks at the start 8, ns since 1970 then 8, ns a tick (f64) 8, 0 8
//! head     sort 4, thread 4, bytes of the body without padding 8
//! ```
//!
//! Chunks are only ever added, so what a killed process left behind can be read up to the
//! last whole chunk.

use super::definition::Definition;
use super::event::Event;
use super::reader::{Chunks, Damage, EVENTS, HEADER, JOB_MAX, VERSION, half, word};
use crate::rankmap::SIZE_MAX;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, Write};

/// How names of files end.
pub const FILE_ENDING: &str = ".rwt";

const MAGIC: [u8; 8] = *b"RWTRACE\x01";
const _: () = assert!(MAGIC[7] == VERSION);
/// Bytes of a file that are read at once.
const PIECE: usize = 1 << 16;

/// Which process a file is of, and its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// A number that no other job has.
    pub job: u64,
    /// Rank in the job's world, and its size.
    pub rank: u32,
    /// Processes of the world.
    pub size: u32,
    /// Process number.
    pub pid: u32,
    /// The clock's ticks when this was written.
    pub ticks: u64,
    /// Nanoseconds since 1970 then.
    pub unix_nanos: u64,
    /// Nanoseconds a tick.
    pub nanos_per_tick: f64,
}

impl Header {
    /// Nanoseconds since 1970.
    pub fn nanos(&self, ticks: u64) -> u64 {
        // (In 64 bits where they are enough: it is done for each event.)
        if ticks.abs_diff(self.ticks) < 1 << 62 {
            let since = ticks.wrapping_sub(self.ticks) as i64;
            let nanos = (since as f64 * self.nanos_per_tick) as i64;
            if nanos.unsigned_abs() < 1 << 62 {
                return self.unix_nanos.saturating_add_signed(nanos);
            }
        }
        let since = ticks as i128 - i128::from(self.ticks);
        let nanos = i128::from(self.unix_nanos) + (since as f64 * self.nanos_per_tick) as i128;
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rank.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.size.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.pid.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.ticks.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.unix_nanos.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.nanos_per_tick.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Header, Damage> {
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or(Damage::NoHeader)?;
        if header[..7] != MAGIC[..7] {
            return Err(Damage::NoHeader);
        }
        if header[7] != MAGIC[7] {
            return Err(Damage::Version(header[7]));
        }
        let (half, word) = (|at| half(header, at), |at| word(header, at));
        let nanos_per_tick = f64::from_bits(word(48));
        let (rank, size) = (half(16), half(20));
        if !(nanos_per_tick > 0.0 && nanos_per_tick < 1e9) || rank >= size || size > SIZE_MAX {
            return Err(Damage::Header);
        }
        if size > JOB_MAX {
            return Err(Damage::Size(size));
        }
        Ok(Header {
            job: word(8),
            rank,
            size,
            pid: half(24),
            ticks: word(32),
            unix_nanos: word(40),
            nanos_per_tick,
        })
    }
}

/// Something that was recorded.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'a> {
    /// Events of a thread, as [`Event::to_bytes`] has them, in the order in which the calls
    /// returned.
    Events {
        /// Number of the thread.
        thread: u32,
        /// A multiple of [`Event::BYTES`].
        bytes: &'a [u8],
    },
    /// An object was made.
    Defined {
        /// The number that this process gave it, which none before it had; not 0.
        id: u32,
        /// When, in ticks.
        ticks: u64,
        /// What it is.
        definition: Definition,
    },
    /// An object was freed.
    Freed {
        /// Its number.
        id: u32,
        /// When, in ticks.
        ticks: u64,
    },
    /// A place in the program: the module's file and the offset in it, or the name of a
    /// source file and a line.
    Site {
        /// The number that definitions have for it; not 0.
        site: u16,
        /// What it is called.
        text: &'a str,
    },
    /// The program gave an object a name.
    Name {
        /// The object's number.
        id: u32,
        /// The name.
        text: &'a str,
    },
    /// A fact of the process: `host`, `program`, `mpi`, `limit`.
    Fact {
        /// What is said.
        key: &'a str,
        /// The fact.
        text: &'a str,
    },
    /// Ticks, and nanoseconds since 1970 then.
    Clock {
        /// The clock's.
        ticks: u64,
        /// Since 1970.
        unix_nanos: u64,
    },
    /// The process has said all there was.
    End {
        /// Events that found no space.
        dropped: u64,
        /// Records of what was made or freed that found no space in the file.
        lost: u64,
    },
}

impl Chunk<'_> {
    /// Appends it as it stands in a file.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        let number = |id: u32, text: &str| {
            let mut body = id.to_le_bytes().to_vec();
            body.extend_from_slice(text.as_bytes());
            body
        };
        match *self {
            Chunk::Events { thread, bytes } => put(to, EVENTS, thread, bytes),
            Chunk::Defined { id, ticks, definition } => {
                let mut body = [0; 16 + Definition::BYTES];
                body[..4].copy_from_slice(&id.to_le_bytes());
                body[8..16].copy_from_slice(&ticks.to_le_bytes());
                body[16..].copy_from_slice(&definition.to_bytes());
                put(to, DEFINED, 0, &body);
            }
            Chunk::Freed { id, ticks } => put(to, FREED, 0, &pair(u64::from(id), ticks)),
            Chunk::Site { site, text } => put(to, SITE, 0, &number(site.into(), text)),
            Chunk::Name { id, text } => put(to, NAME, 0, &number(id, text)),
            Chunk::Fact { key, text } => put(to, FACT, 0, format!("{key}={text}").as_bytes()),
            Chunk::Clock { ticks, unix_nanos } => put(to, CLOCK, 0, &pair(ticks, unix_nanos)),
            Chunk::End { dropped, lost } => put(to, END, 0, &pair(dropped, lost)),
        }
    }
}

fn put(to: &mut Vec<u8>, sort: u32, thread: u32, body: &[u8]) {
    to.extend_from_slice(&sort.to_le_bytes());
    to.extend_from_slice(&thread.to_le_bytes());
    to.extend_from_slice(&(body.len() as u64).to_le_bytes());
    to.extend_from_slice(body);
    to.resize(to.len() + body.len().next_multiple_of(8) - body.len(), 0);
}

fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

const DEFINED: u32 = 2;
const FREED: u32 = 3;
const SITE: u32 = 4;
const NAME: u32 = 5;
const FACT: u32 = 6;
const CLOCK: u32 = 7;
const END: u32 = 8;

/// Writes the file of a process.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// What the file's writer returns.
    pub fn new(mut to: W, header: &Header) -> io::Result<Writer<W>> {
        to.write_all(&header.to_bytes())?;
        Ok(Writer { to, written: HEADER as u64 })
    }

    /// Adds a chunk.
    ///
    /// # Errors
    /// What the file's writer returns.
    pub fn add(&mut self, chunk: &Chunk<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        chunk.append_to(&mut bytes);
        self.to.write_all(&bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
}

/// An object of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defined {
    /// The number that the process gave it.
    pub id: u32,
    /// When it was made, in ticks.
    pub made: u64,
    /// When it was freed, in ticks; `None` if it never was.
    pub freed: Option<u64>,
    /// What it is.
    pub definition: Definition,
}

/// What a process recorded.
#[derive(Clone, Debug)]
pub struct ProcessTrace {
    /// Which process it is of.
    pub header: Header,
    /// Its objects, in the order in which they were made.
    pub definitions: Vec<Defined>,
    /// Places in the program by number.
    pub sites: BTreeMap<u16, String>,
    /// Names that the program gave, by the object's number.
    pub names: BTreeMap<u32, String>,
    /// Facts of the process.
    pub facts: BTreeMap<String, String>,
    /// Events by thread, in the order in which the calls returned.
    pub events: BTreeMap<u32, Vec<Event>>,
    /// Events that found no space.
    pub dropped: u64,
    /// Records of what was made or freed that found no space in the file: what of its objects
    /// has no end may have had one.
    pub lost: u64,
    /// The process has said all there was; not so for one that was killed.
    pub ended: bool,
    /// Ticks and nanoseconds since 1970 at the last look at both clocks.
    clock: Option<(u64, u64)>,
}

impl ProcessTrace {
    /// Reads a file. One that ends within a chunk is read up to there.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn from_bytes(bytes: &[u8]) -> Result<ProcessTrace, Damage> {
        ProcessTrace::with_events(Cursor::new(bytes), bytes.len() as u64)
    }

    /// Reads the first `len` bytes of a file, and keeps the events.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn with_events(file: impl Read + Seek, len: u64) -> Result<ProcessTrace, Damage> {
        let mut events: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        let each = |thread, event| events.entry(thread).or_default().push(event);
        let trace = ProcessTrace::read(file, len, each)?;
        Ok(ProcessTrace { events, ..trace })
    }

    /// Reads the first `len` bytes of a file a piece at a time and calls `each` with the
    /// events and their threads as they stand there; it keeps none.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn read(
        file: impl Read + Seek,
        len: u64,
        mut each: impl FnMut(u32, Event),
    ) -> Result<ProcessTrace, Damage> {
        let mut chunks = Chunks::new(file, len, PIECE);
        let mut trace = ProcessTrace {
            header: Header::from_bytes(chunks.header()?)?,
            definitions: Vec::new(),
            sites: BTreeMap::new(),
            names: BTreeMap::new(),
            facts: BTreeMap::new(),
            events: BTreeMap::new(),
            dropped: 0,
            lost: 0,
            ended: false,
            clock: None,
        };
        let mut live = BTreeMap::new();
        while let Some(head) = chunks.next()? {
            match head.sort {
                EVENTS if !head.len.is_multiple_of(Event::BYTES as u64) => {
                    return Err(head.damage());
                }
                EVENTS => {
                    let mut given = 0;
                    while let Some(event) = chunks.event(head, given)? {
                        each(head.thread, event);
                        given += 1;
                    }
                }
                DEFINED..=END => {
                    let taken = trace.chunk(head.sort, chunks.body(head)?, &mut live);
                    taken.ok_or(head.damage())?;
                }
                // Of a later version.
                _ => (),
            }
        }
        Ok(trace)
    }

    /// Takes a chunk; `None` if it says what cannot be. `live` has places of definitions by
    /// number.
    fn chunk(&mut self, sort: u32, body: &[u8], live: &mut BTreeMap<u32, usize>) -> Option<()> {
        let numbered = || Some((half(body.get(..4)?, 0), str::from_utf8(&body[4..]).ok()?));
        match sort {
            DEFINED => {
                let body: &[u8; 16 + Definition::BYTES] = body.try_into().ok()?;
                let definition = Definition::from_bytes(body.last_chunk()?)?;
                let id = half(body, 0);
                let Definition { rank, size, constructor, .. } = definition;
                // (Groups may be empty, and datatypes are of nobody.)
                let least = u32::from(!constructor.object().is_of_one());
                (id != 0 && rank < size.max(1) && (least..=SIZE_MAX).contains(&size))
                    .then_some(())?;
                live.insert(id, self.definitions.len());
                let made = word(body, 8);
                self.definitions.push(Defined { id, made, freed: None, definition });
            }
            FREED => {
                (body.len() == 16).then_some(())?;
                if let Some(at) = live.remove(&half(body, 0)) {
                    self.definitions[at].freed = Some(word(body, 8));
                }
            }
            SITE => {
                let (site, text) = numbered()?;
                self.sites.insert(u16::try_from(site).ok()?, text.to_owned());
            }
            NAME => {
                let (id, text) = numbered()?;
                // MPI's name of what has none.
                match text.is_empty() {
                    true => self.names.remove(&id),
                    false => self.names.insert(id, text.to_owned()),
                };
            }
            FACT => {
                let (key, text) = str::from_utf8(body).ok()?.split_once('=')?;
                self.facts.insert(key.to_owned(), text.to_owned());
            }
            CLOCK => {
                (body.len() == 16).then_some(())?;
                self.clock = Some((word(body, 0), word(body, 8)));
            }
            END => {
                (body.len() == 16).then_some(())?;
                (self.dropped, self.lost) = (word(body, 0), word(body, 8));
                self.ended = true;
            }
            _ => (),
        }
        Some(())
    }

    /// Nanoseconds since 1970: by the two looks at both clocks, at the start and last.
    pub fn nanos(&self, ticks: u64) -> u64 {
        self.clock().nanos(ticks)
    }

    /// The header with the rate of both looks: its [`Header::nanos`] is [`ProcessTrace::nanos`].
    pub fn clock(&self) -> Header {
        let begin = &self.header;
        let nanos_per_tick = match self.clock {
            Some((then, nanos)) if then > begin.ticks && nanos > begin.unix_nanos => {
                (nanos - begin.unix_nanos) as f64 / (then - begin.ticks) as f64
            }
            _ => begin.nanos_per_tick,
        };
        Header { nanos_per_tick, ..*begin }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Constructor, DefinitionFlags, Identity, Kind, NO_PARENT};
    use super::*;

    const HEADER_OF_TEST: Header = Header {
        job: 9,
        rank: 1,
        size: 4,
        pid: 77,
        ticks: 1000,
        unix_nanos: 5_000_000,
        nanos_per_tick: 0.5,
    };

    fn written() -> Vec<u8> {
        let definition = Definition {
            identity: Identity::world(9),
            rank: 1,
            size: 4,
            parent: NO_PARENT,
            site: 1,
            constructor: Constructor::World,
            flags: DefinitionFlags::NONE,
        };
        let event = Event::new(Kind::Send, 1100, 1200).with(1, 2, 3).of_bytes(64);
        let mut writer = Writer::new(Vec::new(), &HEADER_OF_TEST).unwrap();
        for chunk in [
            Chunk::Fact { key: "mpi", text: "Open MPI = 4" },
            Chunk::Defined { id: 1, ticks: 1001, definition },
            Chunk::Site { site: 1, text: "program+0x12" },
            Chunk::Name { id: 1, text: "world" },
            Chunk::Events { thread: 2, bytes: &event.to_bytes() },
            Chunk::Freed { id: 1, ticks: 1300 },
            Chunk::Clock { ticks: 2000, unix_nanos: 5_000_600 },
            Chunk::End { dropped: 5, lost: 2 },
        ] {
            writer.add(&chunk).unwrap();
        }
        let written = writer.written();
        let bytes = std::mem::take(writer.get_mut());
        assert_eq!(bytes.len() as u64, written);
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let trace = ProcessTrace::from_bytes(&written()).unwrap();
        assert_eq!(trace.header, HEADER_OF_TEST);
        assert_eq!(trace.facts["mpi"], "Open MPI = 4");
        let [defined] = trace.definitions[..] else { panic!("{trace:?}") };
        assert_eq!((defined.id, defined.made, defined.freed), (1, 1001, Some(1300)));
        assert_eq!((trace.sites[&1].as_str(), trace.names[&1].as_str()), ("program+0x12", "world"));
        assert_eq!(trace.events[&2][0].bytes(), 64);
        assert_eq!((trace.dropped, trace.lost, trace.ended), (5, 2, true));
        assert_eq!((trace.nanos(1000), trace.nanos(2000)), (5_000_000, 5_000_600));
    }

    /// A file of a header alone makes nobody keep something for two billion processes.
    #[test]
    fn jobs_that_are_too_large_are_refused() {
        for (size, refused) in [
            (JOB_MAX, None),
            (JOB_MAX + 1, Some(Damage::Size(JOB_MAX + 1))),
            (SIZE_MAX, Some(Damage::Size(SIZE_MAX))),
            (SIZE_MAX + 1, Some(Damage::Header)),
            (1, Some(Damage::Header)),
        ] {
            let header = Header { size, ..HEADER_OF_TEST };
            assert_eq!(ProcessTrace::from_bytes(&header.to_bytes()).err(), refused, "{size}");
        }
    }

    /// Communicators have members; groups may have none.
    #[test]
    fn a_communicator_of_nobody_is_refused() {
        for (constructor, is_read) in [
            (Constructor::World, false),
            (Constructor::Dup, false),
            (Constructor::WinCreate, false),
            (Constructor::GroupIncl, true),
        ] {
            let mut writer = Writer::new(Vec::new(), &HEADER_OF_TEST).unwrap();
            let definition = Definition {
                identity: Identity(5),
                rank: 0,
                size: 0,
                parent: 0,
                site: 0,
                constructor,
                flags: DefinitionFlags::NONE,
            };
            writer.add(&Chunk::Defined { id: 1, ticks: 1001, definition }).unwrap();
            let read = ProcessTrace::from_bytes(writer.get_mut());
            assert_eq!(read.is_ok(), is_read, "{constructor}");
        }
    }

    /// Cut off anywhere it is read up to the last whole chunk; with any byte changed it is
    /// read or refused.
    #[test]
    fn damaged_files_are_read_or_refused() {
        let whole = written();
        let mut longest = 0;
        for len in (0..whole.len()).step_by(if cfg!(miri) { 11 } else { 1 }) {
            match ProcessTrace::from_bytes(&whole[..len]) {
                Ok(trace) => {
                    assert!(len >= HEADER);
                    let count = trace.definitions.len() + trace.events.len();
                    assert!(count >= longest);
                    longest = count;
                }
                Err(damage) => assert!(len < HEADER, "{damage} at {len}"),
            }
        }
        assert_eq!(longest, 2);
        for at in (0..whole.len()).step_by(if cfg!(miri) { 11 } else { 1 }) {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let _ = ProcessTrace::from_bytes(&bytes);
            }
        }
    }
}
