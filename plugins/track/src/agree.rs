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
use std::sync::atomic::{AtomicBool, Ordering};
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

/// How long a process waits for another that has nobody to wait for.
const LIMIT: Duration = Duration::from_secs(5);
/// Some of a communicator have not this library: nothing is told or waited for any more, but by
/// those who do not know it yet. What is sent to who never takes it is left in MPI.
static SOME_ARE_MISSING: AtomicBool = AtomicBool::new(false);
/// A tag that every MPI has, and few programs.
const TAG: c_int = 32_766;

/// What goes up and down a tree.
#[derive(Clone, Copy)]
#[repr(C)]
struct Note<T> {
    /// All below (on the way down: all) take part.
    is_all: u64,
    what: T,
}

/// A process's place in the tree along which all of a communicator tell each other: a binomial
/// tree. Of an intercommunicator, where messages go to the other group alone, it is two whose
/// levels take turns between the groups, and whose roots meet.
#[derive(Clone, Copy, Debug)]
struct Tree {
    rank: u32,
    size: u32,
    /// Size of the group that messages go to; another than the process's own, or not.
    there: u32,
    is_between: bool,
}

impl Tree {
    fn levels(self) -> u32 {
        self.size.max(self.there).next_power_of_two().trailing_zeros() + u32::from(self.is_between)
    }

    /// The rank above; `None` of a root.
    fn above(self) -> Option<u32> {
        let above = |rank: u32| rank & (rank - 1);
        // (A smaller group has no such rank: its rank 0 stands for it.)
        (self.rank != 0)
            .then(|| Some(above(self.rank)).filter(|&rank| rank < self.there).unwrap_or(0))
    }

    /// The ranks below, with the levels from there down.
    fn below(self) -> Vec<(u32, u32)> {
        let height = if self.rank == 0 { self.levels() } else { self.rank.trailing_zeros() };
        let own = (0..height).map(|level| (self.rank | 1 << level, level + 1));
        let stands_for =
            if self.rank == 0 && self.size < self.there { 1..self.there } else { 0..0 };
        let strays = stands_for.filter(|rank| rank & (rank - 1) >= self.size);
        let strays = strays.map(|rank| (rank, rank.trailing_zeros() + 1));
        own.filter(|&(rank, _)| rank < self.there).chain(strays).collect()
    }
}

/// All of a communicator are told what `top` makes of what its root says, and each hands on what
/// `heard` makes of what it hears: `None` where some do not take part in time. They are sent
/// nothing, but for one message by those below them; collectives of the communicator would not
/// be the program's any more.
///
/// # Safety
/// \[MPI\]
unsafe fn tell_along<T: Copy>(
    packed: usize,
    what: T,
    comm: usize,
    tree: Tree,
    top: impl FnOnce(&mut Note<T>),
    heard: impl FnOnce(T) -> T,
) -> Option<T> {
    let mut note = Note { is_all: 1, what };
    let mut below = Vec::new();
    // SAFETY: [MPI].
    unsafe {
        for (child, levels) in tree.below() {
            let from = receive_in_time::<Note<T>>(packed, child, comm, levels);
            below.extend(from.map(|_| child));
            note.is_all &= from.map_or(0, |from| from.is_all);
        }
        match tree.above() {
            Some(above) => {
                send(packed, &note, above, comm);
                note = receive_in_time(packed, above, comm, tree.levels() + 1)?;
                note.what = heard(note.what);
            }
            None => top(&mut note),
        }
        below.into_iter().for_each(|child| send(packed, &note, child, comm));
    }
    (note.is_all == 1).then_some(note.what)
}

/// Rank 0 tells all of a communicator, as [`tell_along`] does.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn tell_all<T: Copy>(
    packed: usize,
    what: T,
    comm: usize,
    (rank, size): (u32, u32),
) -> Option<T> {
    let tree = Tree { rank, size, there: size, is_between: false };
    // SAFETY: [MPI].
    unsafe { tell_along(packed, what, comm, tree, |_| (), |what| what) }
}

/// # Safety
/// \[MPI\]
unsafe fn send<T: Copy>(packed: usize, note: &T, to: u32, comm: usize) {
    let place = std::ptr::from_ref(note).cast::<c_void>();
    // SAFETY: [MPI], [SIG]; as many bytes as there are.
    mpi::SEND.get().map(|send| unsafe {
        send(place, size_of::<T>() as c_int, packed, to as c_int, TAG, comm)
    });
}

/// A message of the tree, unless it does not come within so many times [`LIMIT`].
///
/// # Safety
/// \[MPI\]: all bytes make a `T`.
unsafe fn receive_in_time<T: Copy>(
    packed: usize,
    from: u32,
    comm: usize,
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
        if mpi::IRECV.get()?(at, bytes, packed, from, TAG, comm, request) != 0 {
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
    if SOME_ARE_MISSING.load(Ordering::Relaxed) {
        return Some(own.identity());
    }
    // SAFETY: [MPI]; all bytes make a lead.
    let told = unsafe {
        let place = crate::job::place_in(comm)?;
        tell_all(job.mpi.packed, own, comm, place)
    };
    if told.is_none() {
        some_are_missing(job);
    }
    Some(told.unwrap_or(own).identity())
}

fn some_are_missing(job: &Job) {
    if !SOME_ARE_MISSING.swap(true, Ordering::Relaxed) {
        say(&format!(
            "rankway_track: rank {}: not all of a communicator have this library; each has it \
             alone: preload it to all, or to none\n",
            job.rank
        ));
    }
}

/// The name of an intercommunicator as [`between`] makes it, without a collective: where some
/// have not this library it is each one's own.
///
/// # Safety
/// \[MPI\]; all members of both groups that have this library call it.
pub(crate) unsafe fn between_in_time(job: &Job, inter: usize) -> Option<(Identity, bool)> {
    let own = Lead::own(job);
    if SOME_ARE_MISSING.load(Ordering::Relaxed) {
        return Some((own.identity(), false));
    }
    // SAFETY: [MPI]; all bytes make leads.
    let told = unsafe {
        let (rank, size) = crate::job::place_in(inter)?;
        let there = mpi::number(&mpi::COMM_REMOTE_SIZE, inter)?.try_into().ok()?;
        let tree = Tree { rank, size, there, is_between: true };
        let meet = |note: &mut Note<[Lead; 2]>| {
            send(job.mpi.packed, note, 0, inter);
            let other = receive_in_time::<Note<[Lead; 2]>>(job.mpi.packed, 0, inter, tree.levels());
            note.is_all &= other.map_or(0, |other| other.is_all);
            note.what[1] = other.map_or(own, |other| other.what[0]);
        };
        // Who is above is of the other group.
        let turned = |[theirs, mine]: [Lead; 2]| [mine, theirs];
        tell_along(job.mpi.packed, [own; 2], inter, tree, meet, turned)
    };
    let Some([mine, theirs]) = told else {
        some_are_missing(job);
        return Some((own.identity(), false));
    };
    Some((mine.min(theirs).identity(), mine > theirs))
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

    /// Of a process that connects at a port as one of the two sides: several may at once.
    pub(crate) fn connects(job: &Job, port: u64, side: &str) -> Option<Marker> {
        let counter = job.next_counter();
        Marker::new(&format!("{side}-{port:016x}-{:016x}-{}-{counter}", job.number, job.rank))
    }

    /// Returns true if somebody on the other side of a port has left one.
    pub(crate) fn is_met_by(&self, port: u64, side: &str) -> bool {
        let prefix = format!("{side}-{port:016x}-");
        let files = self.path.parent().and_then(|directory| fs::read_dir(directory).ok());
        files
            .into_iter()
            .flatten()
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with(&prefix))
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

#[cfg(test)]
mod tests {
    use super::{Marker, Tree};
    use std::collections::BTreeSet;
    use std::fs;

    /// One of several that wait at a port takes its own file with it, and leaves the others'.
    #[test]
    fn each_at_a_port_has_a_file_of_its_own() {
        let directory = std::env::temp_dir().join(format!("rankway-port-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("made");
        let marker = |name: &str| {
            let path = directory.join(name);
            fs::write(&path, []).expect("written");
            Marker { path }
        };
        let own = marker("accepting-0000000000000005-0000000000000009-0-0");
        let of_another_port = marker("connecting-0000000000000006-0000000000000009-1-0");
        let [first, second] =
            [1, 2].map(|rank| marker(&format!("connecting-{:016x}-{:016x}-{rank}-0", 5, 9)));
        assert!(own.is_met_by(5, "connecting") && first.is_met_by(5, "accepting"));
        drop(first);
        assert!(own.is_met_by(5, "connecting"));
        drop(second);
        assert!(!own.is_met_by(5, "connecting"));
        drop((own, of_another_port));
        fs::remove_dir(&directory).expect("empty");
    }

    /// Whoever is above a process knows it as one below, and each is reached from a root once.
    #[test]
    fn trees_reach_all() {
        let trees = |size: u32, there: u32, is_between: bool| {
            (0..size).map(move |rank| Tree { rank, size, there, is_between })
        };
        let sizes =
            |size: u32| (1..40).map(move |there| (size, there, true)).chain([(size, size, false)]);
        for (size, there, is_between) in (1..40).flat_map(sizes) {
            let mut reached = BTreeSet::new();
            for tree in trees(size, there, is_between) {
                for (rank, levels) in tree.below() {
                    let below = Tree { rank, size: there, there: size, is_between };
                    assert_eq!(below.above(), Some(tree.rank), "{tree:?}, {rank}");
                    assert!(levels <= tree.levels() && reached.insert(rank), "{tree:?}, {rank}");
                }
            }
            assert_eq!(reached, (1..there).collect(), "{size} {there} {is_between}");
        }
    }
}
