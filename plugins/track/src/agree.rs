//! What the members of a communicator tell each other of it, where they cannot know its
//! name without a message; and how processes of two jobs find out that both have this
//! library, so that one does not wait for what the other never sends.

use crate::job::Job;
use crate::mpi;
use crate::settings;
use rankway::track::Identity;
use rankway_preload::say;
use std::ffi::{c_int, c_void};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

/// The paper's key: who leads, and its counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(crate) struct Lead {
    job: u64,
    rank: u32,
    counter: u32,
}

impl Lead {
    pub(crate) fn own(job: &Job) -> Lead {
        Lead { job: job.number, rank: job.rank, counter: job.next_counter() }
    }

    pub(crate) fn identity(self) -> Identity {
        Identity::of_lead(self.job, self.rank, self.counter)
    }
}

/// A number that stands for what these say.
pub(crate) fn hash(texts: &[&[u8]]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.iter().map(|&byte| u32::from(byte)).chain([256]));
    bytes.fold(Identity(0), |name, byte| name.child(byte, 0)).0
}

/// Rank `root` tells all of a communicator; returns false where MPI does not.
///
/// # Safety
/// \[MPI\]; all members call it.
pub(crate) unsafe fn tell<T: Copy>(packed: usize, what: &mut T, root: c_int, comm: usize) -> bool {
    let place = std::ptr::from_mut(what).cast::<c_void>();
    // SAFETY: [SIG]; as many bytes as there are.
    mpi::BCAST.get().is_some_and(
        |bcast| unsafe { bcast(place, size_of::<T>() as c_int, packed, root, comm) } == 0,
    )
}

/// How long a process that has just begun waits for another that has nobody to wait for.
const LIMIT: Duration = Duration::from_secs(5);
/// A tag that every MPI has, and few programs.
const TAG: c_int = 32_766;

/// What goes up and down the tree of a world.
#[derive(Clone, Copy)]
#[repr(C)]
struct Note<T> {
    /// All below (on the way down: all) take part.
    is_all: u64,
    what: T,
}

/// Rank 0 tells all of a world, along a binomial tree and back: `None` where some do not take
/// part in time. They are sent nothing, but for one message by those below them; collectives
/// of the world would not be the program's any more.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn tell_all<T: Copy>(
    packed: usize,
    what: T,
    world: usize,
    (rank, size): (u32, u32),
) -> Option<T> {
    let (bytes, mut note) = (size_of::<Note<T>>() as c_int, Note { is_all: 1, what });
    let mut below = Vec::new();
    let levels = size.next_power_of_two().trailing_zeros();
    let height = if rank == 0 { levels } else { rank.trailing_zeros() };
    // SAFETY: [MPI], [SIG]; as many bytes as there are.
    unsafe {
        let send = |to: u32, note: &Note<T>| {
            let place = std::ptr::from_ref(note).cast::<c_void>();
            mpi::SEND.get().map(|send| send(place, bytes, packed, to as c_int, TAG, world));
        };
        for level in 0..height {
            let child = rank | 1 << level;
            if child < size {
                let from = receive_in_time::<Note<T>>(packed, child, world, level + 1);
                below.extend(from.map(|_| child));
                note.is_all &= from.map_or(0, |from| from.is_all);
            }
        }
        if rank != 0 {
            let parent = rank & (rank - 1);
            send(parent, &note);
            note = receive_in_time(packed, parent, world, levels + 1)?;
        }
        below.into_iter().for_each(|child| send(child, &note));
    }
    (note.is_all == 1).then_some(note.what)
}

/// A message of the tree, unless it does not come within so many times [`LIMIT`].
///
/// # Safety
/// \[MPI\]: all bytes make a `T`.
unsafe fn receive_in_time<T: Copy>(
    packed: usize,
    from: u32,
    world: usize,
    limits: u32,
) -> Option<T> {
    let (mut note, mut request) = (std::mem::MaybeUninit::<T>::uninit(), 0usize);
    let (mut is_over, mut status) = (0, [0u64; 8]);
    let (at, request) = (note.as_mut_ptr().cast(), (&raw mut request).cast::<c_void>());
    let status = status.as_mut_ptr().cast();
    let begun = Instant::now();
    // SAFETY: [MPI], [SIG]; as many bytes as there are, and places for a request and a
    // status of any library, which stay until the receive is over.
    unsafe {
        let (test, cancel) = (mpi::TEST.get()?, mpi::CANCEL.get()?);
        let (bytes, from) = (size_of::<T>() as c_int, from as c_int);
        if mpi::IRECV.get()?(at, bytes, packed, from, TAG, world, request) != 0 {
            return None;
        }
        let mut is_late = false;
        while test(request, &mut is_over, status) == 0 && is_over == 0 {
            if !is_late && begun.elapsed() > LIMIT * limits {
                is_late = true;
                cancel(request);
            }
            std::thread::yield_now();
        }
        // (What came at the last moment cannot be cancelled.)
        let (received, is_cancelled) = mpi::received(packed, status);
        (!is_cancelled && received == size_of::<T>() as u64).then(|| note.assume_init())
    }
}

/// The name of a communicator that its rank 0 gives it, by a message on itself.
///
/// # Safety
/// \[MPI\]; all members call it.
pub(crate) unsafe fn by_lead(job: &Job, comm: usize) -> Option<Identity> {
    let mut lead = Lead::default();
    // SAFETY: [MPI].
    unsafe {
        if mpi::number(&mpi::COMM_RANK, comm)? == 0 {
            lead = Lead::own(job);
        }
        tell(job.mpi.packed, &mut lead, 0, comm).then(|| lead.identity())
    }
}

/// The same of a communicator that was made without one of all processes: where some of its
/// members have not this library, its name is each one's own.
///
/// # Safety
/// \[MPI\]; all members that have this library call it.
pub(crate) unsafe fn by_lead_in_time(job: &Job, comm: usize) -> Option<Identity> {
    let own = Lead::own(job);
    // SAFETY: [MPI]; all bytes make a lead.
    let told = unsafe {
        let place = crate::job::place_in(comm)?;
        tell_all(job.mpi.packed, own, comm, place)
    };
    if told.is_none() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            say(&format!(
                "rankway_track: rank {}: not all of a communicator have this library; each has it \
                 alone: preload it to all, or to none\n",
                job.rank
            ));
        });
    }
    Some(told.unwrap_or(own).identity())
}

/// The name of an intercommunicator that was made of groups alone, which have no communicators:
/// all meet in one of both for a moment, whose rank 0 names it. Returns also whether this group
/// is the one behind there.
///
/// # Safety
/// \[MPI\]; all members of both groups call it.
pub(crate) unsafe fn between_groups(job: &Job, inter: usize) -> Option<(Identity, bool)> {
    let mut both = 0usize;
    let place = (&raw mut both).cast::<c_void>();
    // SAFETY: [MPI], [SIG]; a place for a handle of any library, which is given back.
    unsafe {
        let (merge, free) = (mpi::INTERCOMM_MERGE.get()?, mpi::COMM_FREE.get()?);
        if merge(inter, 0, place) != 0 {
            return None;
        }
        let comm = mpi::handle(both);
        let name = by_lead_in_time(job, comm);
        let ranks = [inter, comm].map(|comm| mpi::number(&mpi::COMM_RANK, comm));
        free(place);
        Some((name?, ranks[0] != ranks[1]))
    }
}

/// The name of an intercommunicator: that of the lower of its two leads, which exchange
/// theirs and tell their groups, in which `local` is a communicator. Returns also
/// whether this group is the other's.
///
/// # Safety
/// \[MPI\]; all members of both groups call it.
pub(crate) unsafe fn between(job: &Job, inter: usize, local: usize) -> Option<(Identity, bool)> {
    let mut leads = [Lead::default(); 2];
    // SAFETY: [MPI], [SIG]; as many bytes as there are, and a status of any library.
    unsafe {
        if mpi::number(&mpi::COMM_RANK, inter)? == 0 {
            leads[0] = Lead::own(job);
            let [mine, theirs] = &mut leads;
            let (mine, theirs) = (std::ptr::from_ref(mine), std::ptr::from_mut(theirs));
            let (bytes, packed, mut status) =
                (size_of::<Lead>() as c_int, job.mpi.packed, [0u64; 8]);
            let status = status.as_mut_ptr().cast();
            mpi::SENDRECV.get()?(
                mine.cast(),
                bytes,
                packed,
                0,
                0,
                theirs.cast(),
                bytes,
                packed,
                0,
                0,
                inter,
                status,
            );
        }
        if !tell(job.mpi.packed, &mut leads, 0, local) {
            return None;
        }
    }
    let [mine, theirs] = leads;
    Some((mine.min(theirs).identity(), (mine.job, mine.rank) > (theirs.job, theirs.rank)))
}

/// A file in the directory of traces that tells processes of another job, while the two
/// connect, that this library is here.
pub(crate) struct Marker {
    path: PathBuf,
}

const SPAWNING: &str = "spawning-";

impl Marker {
    fn new(name: &str) -> Option<Marker> {
        let path = settings::get()?.directory.join(name);
        fs::write(&path, []).ok()?;
        Some(Marker { path })
    }

    /// Of a process that spawns.
    pub(crate) fn spawns(job: &Job) -> Option<Marker> {
        let counter = job.next_counter();
        Marker::new(&format!("{SPAWNING}{:016x}-{}-{counter}", job.number, job.rank))
    }

    /// Of a process that connects at a port as one of the two sides.
    pub(crate) fn connects(port: u64, side: &str) -> Option<Marker> {
        Marker::new(&format!("{side}-{port:016x}"))
    }

    /// Returns true if the other side of a port has left its own.
    pub(crate) fn is_met_by(&self, port: u64, side: &str) -> bool {
        self.path.with_file_name(format!("{side}-{port:016x}")).exists()
    }

    /// Returns true if a process that was spawned has signed it.
    pub(crate) fn is_signed(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() > 0)
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Signs what processes that spawn just now have left; returns true if there was any.
/// Called before `MPI_Init`, without which no spawn returns.
pub(crate) fn sign() -> bool {
    let Some(settings) = settings::get() else { return false };
    let Ok(files) = fs::read_dir(&settings.directory) else { return false };
    let mut signed = false;
    for file in files.flatten() {
        if file.file_name().to_string_lossy().starts_with(SPAWNING) {
            // (Others sign it too, and who left it may have taken it away.)
            let marker = fs::OpenOptions::new().append(true).open(file.path());
            signed |= marker.is_ok_and(|mut marker| marker.write_all(b"here").is_ok());
        }
    }
    signed
}
