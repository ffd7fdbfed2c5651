//! `MPI_Init`, and how a process ends: by `MPI_Finalize`, by `MPI_Abort`, by `exit`, or by a
//! SIGTERM that nobody handles.

use crate::agree;
use crate::census;
use crate::job::{self, Job};
use crate::launcher;
use crate::mpi;
use crate::objects;
use crate::settings;
use rankway::track::{Constructor, Event, Identity, Kind, NO_PEER, Recorder, Recording};
use rankway_preload::{say, shielded};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// What rank 0 of the world tells all.
#[derive(Clone, Copy)]
#[repr(C)]
struct Beginning {
    number: u64,
    /// A process that has this library waits for us to have been spawned.
    is_awaited: u64,
}

/// `MPI_Init`, by either name.
///
/// # Safety
/// `call` is that of the program.
pub(crate) unsafe fn init(call: impl FnOnce() -> c_int) -> c_int {
    let is_awaited = shielded(|| Some(launcher::leads() && agree::sign())).unwrap_or(false);
    let start = Recorder::now();
    let code = call();
    let end = Recorder::now();
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if code == 0 && !BEGUN.swap(true, Ordering::AcqRel) {
        // SAFETY: MPI has begun; all of the world call this.
        let _ = shielded(|| unsafe { begin(is_awaited, start, end) });
        job::records_no_calls();
    }
    code
}

/// A number that no other job has.
fn random() -> u64 {
    let mut number = 0u64;
    // SAFETY: eight bytes of ours.
    let got = unsafe { libc::getrandom((&raw mut number).cast(), 8, 0) };
    match got {
        8 => number,
        _ => Identity(Recorder::now()).child(std::process::id(), 0).0,
    }
}

/// Does work whose threads get no signals: they are the program's.
fn unsignalled<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: sets of ours, of which the second is written.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let done = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        done
    }
}

/// # Safety
/// MPI has begun; all of the world call this.
unsafe fn begin(is_awaited: bool, start: u64, end: u64) -> Option<()> {
    let Some(mpi) = mpi::get() else {
        say("rankway_track: this MPI is not known; nothing is recorded\n");
        return None;
    };
    // SAFETY: as above.
    let (rank, size) = unsafe { job::place_in(mpi.world) }?;
    let own = Beginning { number: random(), is_awaited: u64::from(is_awaited) };
    // SAFETY: as above.
    let told = unsafe { agree::tell_all(mpi.packed, own, mpi.world, (rank, size)) };
    if told.is_none() {
        say(&format!(
            "rankway_track: rank {rank}: not all of MPI_COMM_WORLD have this library, or MPI_Init \
             is not over there; it is recorded as a job of its own: preload it to all, or to none\n"
        ));
    }
    let number = told.map_or(own.number, |told| told.number);
    // (One that began by a session has its record.)
    let job = job::get().unwrap_or_else(|| open(mpi, number, (rank, size), Some(told.is_none())));
    let (world, own) = (Identity::world(number), Identity::of_lead(number, rank, 0));
    // SAFETY: [MPI], as above.
    unsafe {
        objects::from_the_start(job, mpi.world, Constructor::World, (world, false));
        objects::from_the_start(job, mpi.own, Constructor::ItSelf, (own, false));
        parent(job, told.is_some_and(|told| told.is_awaited == 1));
    }
    job.record(Event::new(Kind::Init, start, end).with(0, NO_PEER, 0));
    Some(())
}

/// Begins the process's record; `is_alone` is not known of sessions.
fn open(
    mpi: &'static mpi::Mpi,
    number: u64,
    (rank, size): (u32, u32),
    is_alone: Option<bool>,
) -> &'static Job {
    let settings = settings::get();
    let recorder = unsignalled(|| {
        settings.and_then(|settings| {
            let how = Recording { events: settings.events, ..Recording::default() };
            let opened = Recorder::open(&settings.directory, number, rank, size, how);
            let told = |error| {
                say(&format!("rankway_track: RANKWAY_TRACE: {error}; nothing is recorded\n"));
            };
            opened.map_err(told).ok()
        })
    });
    let (is_alone, is_of_sessions) = (is_alone == Some(true), is_alone.is_none());
    let counter = AtomicU32::new(0);
    let job = Job { mpi, number, rank, is_alone, is_of_sessions, recorder, counter };
    let job = job::begin(job, settings.is_some_and(|settings| settings.events));
    if let Some(recorder) = &job.recorder {
        facts(job, recorder);
        unsignalled(at_the_end);
    }
    job
}

/// `MPI_Session_init`: where MPI was not begun otherwise the record begins with the first,
/// and ends with the process.
///
/// # Safety
/// `call` is that of the program, and puts a session at `place`.
pub(crate) unsafe fn session(place: usize, call: impl FnOnce() -> c_int) -> c_int {
    let start = Recorder::now();
    let code = call();
    let end = Recorder::now();
    if code == 0 && job::get().is_none() {
        // SAFETY: [MPI]: MPI has put a session down.
        let _ = shielded(|| unsafe { begin_by_session(mpi::at(place), start, end) });
        job::records_no_calls();
    }
    code
}

/// The job's number is told by who launched it: there is no communicator of all.
///
/// # Safety
/// \[MPI\]: a session.
unsafe fn begin_by_session(session: usize, start: u64, end: u64) -> Option<()> {
    let mpi = mpi::get()?;
    let Some(number) = launcher::job().or_else(|| launcher::is_alone().then(random)) else {
        say("rankway_track: sessions alone are recorded where Hydra, PMIx, Slurm or PALS launch; \
             nothing is recorded\n");
        return None;
    };
    let (mut group, mut rank) = (0usize, 0);
    let group_at = (&raw mut group).cast::<c_void>();
    // SAFETY: [MPI], [SIG]; a place for a handle of any library, which is given back.
    let size = unsafe {
        if mpi::GROUP_FROM_PSET.get()?(session, c"mpi://WORLD".as_ptr(), group_at) != 0 {
            return None;
        }
        mpi::GROUP_RANK.get()?(group, &mut rank);
        let size = mpi::number(&mpi::GROUP_SIZE, group);
        mpi::GROUP_FREE.get()?(group_at);
        size
    };
    let job = open(mpi, number, (rank.try_into().ok()?, size?.try_into().ok()?), None);
    job.record(Event::new(Kind::Init, start, end).with(0, NO_PEER, 0));
    Some(())
}

/// The processes that spawned this one, if any did.
///
/// # Safety
/// \[MPI\]; all of the world call this.
unsafe fn parent(job: &Job, is_awaited: bool) -> Option<()> {
    let mut parent = 0usize;
    // SAFETY: [SIG]; a place for a handle of any library.
    unsafe {
        if mpi::COMM_GET_PARENT.get()?((&raw mut parent).cast()) != 0 || !job.mpi.is_comm(parent) {
            return None;
        }
        let parent = mpi::handle(parent);
        let name = match is_awaited {
            true => agree::between(job, parent, job.mpi.world)?,
            // Alone with its name.
            false => (Identity::world(job.number).child(0, u64::MAX), false),
        };
        objects::from_the_start(job, parent, Constructor::Parent, name);
    }
    Some(())
}

fn facts(job: &Job, recorder: &Recorder) {
    recorder.describe_process();
    if let Some(version) = mpi::version() {
        // (Open MPI goes on with its package, MPICH with its configuration.)
        let first = version.lines().next().unwrap_or_default().split(',').next();
        let words: Vec<_> = first.unwrap_or_default().split_whitespace().collect();
        recorder.fact("mpi", &words.join(" "));
    }
    recorder.fact("limit", &job.limit().to_string());
}

/// `MPI_Finalize`, by either name: the file is ended when MPI has, which calls what the
/// program wants called.
///
/// # Safety
/// `call` is that of the program.
pub(crate) unsafe fn finalize(call: impl FnOnce() -> c_int) -> c_int {
    let start = Recorder::now();
    let code = call();
    let end = Recorder::now();
    if let Some(job) = job::recording() {
        job.record(Event::new(Kind::Finalize, start, end).with(0, NO_PEER, 0));
    }
    job::close();
    code
}

/// `MPI_Abort`, from which nothing comes back.
///
/// # Safety
/// `call` is that of the program.
pub(crate) unsafe fn abort(comm: usize, call: impl FnOnce() -> c_int) -> c_int {
    if let Some(job) = job::recording() {
        let now = Recorder::now();
        job.record(Event::new(Kind::Abort, now, now).with(objects::id_of(comm), NO_PEER, 0));
    }
    job::close();
    call()
}

/// The process that recorded: what it forks ends nothing.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Where the handler of SIGTERM writes to.
static SIGNALLED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn exits() {
    // SAFETY: no arguments.
    if unsafe { libc::getpid() } == PROCESS.load(Ordering::Relaxed) {
        let _ = shielded(|| {
            census::ends();
            job::close();
            Some(())
        });
    }
}

/// Sends the signal again, to whom it ends.
fn die(signal: c_int) {
    // SAFETY: the default action, for a signal to this process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

extern "C" fn terminated(signal: c_int) {
    // SAFETY: no arguments.
    if unsafe { libc::getpid() } != PROCESS.load(Ordering::Relaxed) {
        return die(signal);
    }
    let byte = [0u8];
    // SAFETY: one byte of ours; write(2) may be called in a handler.
    unsafe { libc::write(SIGNALLED.load(Ordering::Relaxed), byte.as_ptr().cast::<c_void>(), 1) };
}

/// Ends the file however the process ends, but by a signal that nobody can handle.
fn at_the_end() {
    // SAFETY: no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    // SAFETY: a function that stays.
    unsafe { libc::atexit(exits) };
    // SAFETY: all-zero is a valid sigaction; structures of ours.
    let stands = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now);
        asked == 0 && now.sa_sigaction == libc::SIG_DFL
    };
    if !stands {
        return;
    }
    let mut ends = [-1; 2];
    // SAFETY: a place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [reads, writes] = ends;
    SIGNALLED.store(writes, Ordering::Relaxed);
    let waits = std::thread::Builder::new().name("rankway-term".into()).stack_size(128 << 10);
    let waits = waits.spawn(move || {
        let mut byte = [0u8];
        // SAFETY: a descriptor and a byte of ours.
        let mut read = || unsafe { libc::read(reads, byte.as_mut_ptr().cast(), 1) };
        loop {
            match read() {
                1 => break,
                // Interrupted.
                -1 => continue,
                _ => return,
            }
        }
        job::close();
        die(libc::SIGTERM);
    });
    if waits.is_err() {
        return;
    }
    // SAFETY: all-zero is a valid sigaction; a handler that calls what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = terminated as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}
