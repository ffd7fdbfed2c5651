//! Records what a process does, while it does it.
//!
//! Definitions go to the file at once (into a buffer), and stay in memory while they are
//! live. Events go into a ring of the thread that makes them; one thread in the background
//! writes all rings to the file, every tenth of a second and when an eighth of a ring is full.
//!
//! Locks: `sink` before `objects`. A thread takes them with its first event; after that
//! recording an event takes none, and no system call but the one that wakes the thread in
//! the background, once in an eighth of a ring.
//!
//! A process that was forked off writes nothing: the file is its parent's.

use super::definition::{Definition, Identity};
use super::error::TrackError;
use super::event::Event;
use super::file::{Chunk, FILE_ENDING, Header};
use super::live::LiveDefinitions;
use super::ring::{Pushed, Ring};
use super::sink::{Batch, Of, Sink, Store};
use super::{clock, sync};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// How long events wait in a ring at most.
const PERIOD: Duration = Duration::from_millis(100);
/// Events of a chunk.
const CHUNK: usize = 2048;
/// The serial number of a recorder that takes no events.
const NOT_RECORDING: usize = usize::MAX;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Events too, not definitions alone.
    pub events: bool,
    /// Events that the ring of a thread has space for (32 bytes each, made with its first
    /// event), rounded up to a power of two.
    pub ring: usize,
}

impl Default for Recording {
    /// Events, and rings of 2 MiB.
    fn default() -> Recording {
        Recording { events: true, ring: 1 << 16 }
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events that found no space, in a ring or in the file.
    pub dropped: u64,
    /// Definitions in it.
    pub definitions: u64,
    /// Records of what was made or freed that found no space in it.
    pub lost: u64,
}

/// Records what a process does.
pub struct Recorder {
    /// Names this recorder to the threads that have a ring of it; [`NOT_RECORDING`] where
    /// there are none.
    serial: sync::AtomicUsize,
    /// Space of a ring.
    ring: usize,
    writes: Option<Thread>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: Mutex<Option<Summary>>,
}

/// What the thread in the background has too.
struct Shared {
    pid: u32,
    path: PathBuf,
    root: Identity,
    stop: AtomicBool,
    /// Events that came when their thread had ended.
    late: sync::AtomicUsize,
    sink: Mutex<Output>,
    objects: Mutex<Objects>,
}

/// The side that writes.
struct Output {
    sink: Sink,
    batch: Batch,
    rings: Vec<(u32, Arc<Ring<Event>>)>,
    /// Rings that there ever were.
    threads: u32,
    /// Events that rings which are gone had no space for.
    dropped: u64,
    /// Ticks at the last look at both clocks.
    looked: u64,
}

#[derive(Default)]
struct Objects {
    live: LiveDefinitions,
    /// Numbers given so far.
    given: u32,
    sites: BTreeMap<String, u16>,
    pending: Batch,
}

thread_local! {
    /// The ring of this thread, and which recorder it is of.
    static CURRENT: Cell<(usize, *const Ring<Event>)> = const { Cell::new((0, std::ptr::null())) };
    static OWN: OwnRings = const { OwnRings(RefCell::new(Vec::new())) };
}

/// A thread's rings, by the serial number of their recorder.
struct OwnRings(RefCell<Vec<(usize, Arc<Ring<Event>>)>>);

impl Drop for OwnRings {
    fn drop(&mut self) {
        CURRENT.set((0, std::ptr::null()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Begins the file of a process, `dir/<job as 16 hexadecimal digits>-<rank>.rwt`, and
    /// the thread that writes it. Makes the directory.
    ///
    /// # Errors
    /// [`TrackError`]: the directory or the file cannot be made or written, the file is
    /// there, there can be no thread.
    pub fn open(
        dir: &Path,
        job: u64,
        rank: u32,
        size: u32,
        how: Recording,
    ) -> Result<Recorder, TrackError> {
        if rank >= size {
            return Err(TrackError::Rank { rank, size });
        }
        if let Err(why) = fs::create_dir_all(dir) {
            return Err(TrackError::Directory { path: dir.to_owned(), why });
        }
        let path = dir.join(format!("{job:016x}-{rank}{FILE_ENDING}"));
        let file = match File::create_new(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                return Err(TrackError::Exists { path });
            }
            Err(why) => return Err(TrackError::Create { path, why }),
        };
        let recorder = Recorder::over(Box::new(file), path.clone(), (job, rank, size), how);
        if recorder.is_err() {
            // Not even its header stands.
            let _ = fs::remove_file(&path);
        }
        recorder
    }

    fn over(
        store: Box<dyn Store>,
        path: PathBuf,
        (job, rank, size): (u64, u32, u32),
        how: Recording,
    ) -> Result<Recorder, TrackError> {
        static SERIAL: sync::AtomicUsize = sync::AtomicUsize::new(1);
        let (pid, nanos_per_tick) = (std::process::id(), clock::nanos_per_tick());
        let (ticks, unix_nanos) = clock::both();
        let header = Header { job, rank, size, pid, ticks, unix_nanos, nanos_per_tick };
        let output = Output {
            sink: Sink::new(store, path.clone(), &header)?,
            batch: Batch::default(),
            rings: Vec::new(),
            threads: 0,
            dropped: 0,
            looked: ticks,
        };
        let shared = Arc::new(Shared {
            pid,
            path,
            root: Identity::root(job),
            stop: AtomicBool::new(false),
            late: sync::AtomicUsize::new(0),
            sink: Mutex::new(output),
            objects: Mutex::default(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("rankway-track".into()).stack_size(256 << 10);
            thread.spawn(move || shared.write_until_stopped())
        };
        let thread = thread.map_err(|why| TrackError::Thread { why })?;
        let serial = match how.events {
            true => SERIAL.fetch_add(1, Ordering::Relaxed),
            false => NOT_RECORDING,
        };
        Ok(Recorder {
            serial: sync::AtomicUsize::new(serial),
            ring: how.ring,
            writes: Some(thread.thread().clone()),
            shared,
            thread: Mutex::new(Some(thread)),
            closed: Mutex::new(None),
        })
    }

    /// The clock of events, in ticks: the processor's time stamp counter where it is
    /// invariant, else nanoseconds.
    #[inline(always)]
    pub fn now() -> u64 {
        clock::now()
    }

    /// Writes down what was made just now, and keeps it until [`Recorder::freed`]. Returns
    /// its number, which nothing before had and nothing will have; 0 past four billion.
    pub fn define(&self, definition: Definition) -> u32 {
        let mut objects = lock(&self.shared.objects);
        let Some(id) = objects.given.checked_add(1) else { return 0 };
        objects.given = id;
        objects.live.push(id, &definition);
        self.add(objects, &Chunk::Defined { id, ticks: clock::now(), definition });
        id
    }

    /// What has this number and was not freed.
    pub fn get(&self, id: u32) -> Option<Definition> {
        lock(&self.shared.objects).live.get(id)
    }

    /// Names what is made of `parent` next: the same on all members that have made as much
    /// of it as this process. `selector` tells apart what one call makes. Returns also how
    /// many were made before.
    ///
    /// Of no parent, or of one that is not live, it is made of the job.
    pub fn child(&self, parent: u32, selector: u64) -> (Identity, u32) {
        let mut objects = lock(&self.shared.objects);
        let (of, parent) = match objects.live.get(parent) {
            Some(definition) => (definition.identity, parent),
            None => (self.shared.root, super::NO_PARENT),
        };
        let ordinal = objects.live.count_child(parent);
        (of.child(ordinal, selector), ordinal)
    }

    /// Forgets what was freed just now.
    pub fn freed(&self, id: u32) {
        let mut objects = lock(&self.shared.objects);
        if objects.live.remove(id) {
            self.add(objects, &Chunk::Freed { id, ticks: clock::now() });
        }
    }

    /// The program gave it a name.
    pub fn name(&self, id: u32, text: &str) {
        self.add(lock(&self.shared.objects), &Chunk::Name { id, text });
    }

    /// The number of a place in the program; the same text has the same. 0 past 65,535.
    pub fn site(&self, text: &str) -> u16 {
        let mut objects = lock(&self.shared.objects);
        if let Some(&site) = objects.sites.get(text) {
            return site;
        }
        let Ok(site) = u16::try_from(objects.sites.len() + 1) else { return 0 };
        objects.sites.insert(text.to_owned(), site);
        self.add(objects, &Chunk::Site { site, text });
        site
    }

    /// A fact of the process: `host`, `program`, `mpi`, `limit`. The key has no `=`.
    pub fn fact(&self, key: &str, text: &str) {
        self.add(lock(&self.shared.objects), &Chunk::Fact { key, text });
    }

    /// The facts that any process has: `host` and `program`.
    pub fn describe_process(&self) {
        if let Ok(host) = fs::read_to_string("/proc/sys/kernel/hostname") {
            self.fact("host", host.trim());
        }
        if let Ok(program) = std::env::current_exe() {
            self.fact("program", &program.display().to_string());
        }
    }

    /// Adds a chunk; where many wait they are written by who added the last.
    fn add(&self, mut objects: MutexGuard<'_, Objects>, chunk: &Chunk<'_>) {
        objects.pending.add(chunk);
        let large = objects.pending.is_large();
        drop(objects);
        if large && self.shared.is_forked() {
            lock(&self.shared.objects).pending = Batch::default();
        } else if large {
            self.shared.write_definitions(&mut lock(&self.shared.sink));
        }
    }

    /// Writes down a call of this thread. A thread's first event makes its ring; after that
    /// none waits for anything: where there is no space it is dropped, and counted.
    #[inline(always)]
    pub fn record(&self, event: Event) {
        let (serial, ring) = CURRENT.get();
        if serial != self.serial.load(Ordering::Relaxed) {
            return self.record_elsewhere(event);
        }
        // SAFETY: a ring is there as long as its thread has it in `OWN`, which sets `CURRENT`
        // back before it goes; and this thread alone pushes into it.
        let pushed = unsafe { (*ring).push(event) };
        if pushed != Pushed::In {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.writes.as_ref().inspect(|thread| thread.unpark());
    }

    /// Of a thread whose last event was not this recorder's, or of a recorder that takes
    /// none.
    #[cold]
    fn record_elsewhere(&self, event: Event) {
        let serial = self.serial.load(Ordering::Relaxed);
        if serial == NOT_RECORDING {
            return;
        }
        let found = OWN.try_with(|own| {
            // (A signal's handler that comes while this very function runs finds it
            // borrowed.)
            let mut own = own.0.try_borrow_mut().ok()?;
            let at = match own.iter().position(|(of, _)| *of == serial) {
                Some(at) => at,
                None if self.shared.is_forked() => return None,
                None => {
                    // Those of recorders that are gone.
                    own.retain(|(_, ring)| Arc::strong_count(ring) > 1);
                    let ring = Arc::new(Ring::new(self.ring));
                    let mut output = lock(&self.shared.sink);
                    output.threads += 1;
                    let number = output.threads;
                    output.rings.push((number, Arc::clone(&ring)));
                    own.push((serial, ring));
                    own.len() - 1
                }
            };
            CURRENT.set((serial, Arc::as_ptr(&own[at].1)));
            Some(())
        });
        match found {
            Ok(Some(())) => self.record(event),
            _ => drop(self.shared.late.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Writes all that was recorded so far.
    pub fn flush(&self) {
        if !self.shared.is_forked() {
            self.shared.write();
        }
    }

    /// How many definitions are live.
    pub fn live(&self) -> usize {
        lock(&self.shared.objects).live.len()
    }

    /// Bytes that live definitions take: 23 each, the index, and 8 for each of which others
    /// were made.
    pub fn bytes(&self) -> usize {
        lock(&self.shared.objects).live.bytes()
    }

    /// Writes what is left and ends the file; what comes after is not recorded. Called again
    /// it returns what was recorded. In a process that was forked off it does nothing.
    ///
    /// # Errors
    /// [`TrackError::Write`] if not even the end could be written.
    pub fn close(&self) -> Result<Summary, TrackError> {
        if self.shared.is_forked() {
            return Ok(Summary { path: self.shared.path.clone(), ..Summary::default() });
        }
        let mut closed = lock(&self.closed);
        if let Some(summary) = &*closed {
            return Ok(summary.clone());
        }
        self.serial.store(NOT_RECORDING, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        self.shared.write();
        let (summary, ended) = self.shared.end();
        *closed = Some(summary.clone());
        ended.map(|()| summary)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Shared {
    fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    fn write_until_stopped(&self) {
        while !self.stop.load(Ordering::Acquire) {
            thread::park_timeout(PERIOD);
            self.write();
        }
    }

    /// Writes definitions, then events: those of an object come behind it.
    fn write(&self) {
        let mut output = lock(&self.sink);
        self.write_definitions(&mut output);
        output.write_events();
    }

    fn write_definitions(&self, output: &mut Output) {
        std::mem::swap(&mut lock(&self.objects).pending, &mut output.batch);
        output.write_batch(Of::Definitions);
    }

    /// Ends the file.
    fn end(&self) -> (Summary, Result<(), TrackError>) {
        let output = &mut *lock(&self.sink);
        let rings: u64 = output.rings.iter().map(|(_, ring)| ring.dropped() as u64).sum();
        let late = self.late.load(Ordering::Relaxed) as u64;
        let sink = &mut output.sink;
        let dropped = output.dropped + rings + late + sink.lost_events;
        let (ticks, unix_nanos) = clock::both();
        output.batch.add(&Chunk::Clock { ticks, unix_nanos });
        output.batch.add(&Chunk::End { dropped, lost: sink.lost_definitions });
        let ended = sink.end(&output.batch);
        let summary = Summary {
            path: self.path.clone(),
            bytes: sink.written,
            events: sink.events,
            dropped,
            definitions: sink.definitions,
            lost: sink.lost_definitions,
        };
        (summary, ended)
    }
}

impl Output {
    fn write_batch(&mut self, of: Of) {
        if !self.batch.bytes.is_empty() {
            self.sink.write(&mut self.batch, of);
        }
    }

    /// Writes what is in the rings now, and the clock from time to time.
    fn write_events(&mut self) {
        let mut rings = std::mem::take(&mut self.rings);
        rings.retain(|(thread, ring)| {
            let ended = Arc::strong_count(ring) == 1;
            // Pairs with the Release decrement of the thread's count: what it pushed is seen.
            fence(Ordering::Acquire);
            // (A thread that records as fast as this writes does not hold it up.)
            for _ in 0..=ring.capacity() / CHUNK {
                let popped = self.batch.add_events(*thread, |bytes| {
                    bytes.reserve(CHUNK * Event::BYTES);
                    // SAFETY: pops are made by who has this locked.
                    unsafe { ring.pop(CHUNK, |event| bytes.extend_from_slice(&event.to_bytes())) }
                });
                if popped == 0 {
                    break;
                }
                self.write_batch(Of::Events);
                if popped < CHUNK {
                    break;
                }
            }
            if ended {
                self.dropped += ring.dropped() as u64;
            }
            !ended
        });
        self.rings = rings;
        let since = clock::now().saturating_sub(self.looked) as f64 * clock::nanos_per_tick();
        if since > 1e9 {
            let (ticks, unix_nanos) = clock::both();
            self.looked = ticks;
            self.batch.add(&Chunk::Clock { ticks, unix_nanos });
            self.write_batch(Of::Events);
        }
    }
}

#[cfg(test)]
mod tests;
