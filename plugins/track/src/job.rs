//! The process's record, from `MPI_Init` to its end.

use crate::handles::{self, Entry};
use crate::mpi::{self, Family, Mpi};
use crate::site::Site;
use rankway::track::{Constructor, Definition, DefinitionFlags, Event, Identity, Recorder};
use rankway_preload::shielded;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// What is the same from `MPI_Init` on.
pub(crate) struct Job {
    pub(crate) mpi: &'static Mpi,
    /// A number that no other job has.
    pub(crate) number: u64,
    /// Rank in the world.
    pub(crate) rank: u32,
    /// Others of the world are without the library: none are told anything.
    pub(crate) is_alone: bool,
    /// Began by a session: others may be without the library, and nobody has asked.
    pub(crate) is_of_sessions: bool,
    /// `None` where nothing can be written: the process answers its peers all the same.
    pub(crate) recorder: Option<Recorder>,
    /// What this process has named for others.
    pub(crate) counter: AtomicU32,
}

static JOB: OnceLock<Job> = OnceLock::new();
/// Calls are being recorded: with this.
static RECORDING: AtomicPtr<Job> = AtomicPtr::new(std::ptr::null_mut());
/// What was decided: 0 nothing yet, else [`NO_CALLS`] or [`CALLS`].
static DECIDED: AtomicU8 = AtomicU8::new(0);
const NO_CALLS: u8 = 1;
const CALLS: u8 = 2;
static CLOSED: AtomicBool = AtomicBool::new(false);

/// The job; `None` before `MPI_Init`.
pub(crate) fn get() -> Option<&'static Job> {
    JOB.get()
}

/// The job and its recorder, where there is one.
pub(crate) fn recorded() -> Option<(&'static Job, &'static Recorder)> {
    let job = JOB.get()?;
    Some((job, job.recorder.as_ref()?))
}

/// The job, while calls are recorded.
#[inline(always)]
pub(crate) fn recording() -> Option<&'static Job> {
    // SAFETY: null, or the job, which stays.
    unsafe { RECORDING.load(Ordering::Relaxed).as_ref() }
}

/// Returns true if calls are recorded, or were; `None` before that is known.
pub(crate) fn records_calls() -> Option<bool> {
    match DECIDED.load(Ordering::Relaxed) {
        0 => None,
        decided => Some(decided == CALLS),
    }
}

/// No calls are recorded, now or later.
pub(crate) fn records_no_calls() {
    let _ = DECIDED.compare_exchange(0, NO_CALLS, Ordering::Relaxed, Ordering::Relaxed);
}

/// Begins; returns the job.
pub(crate) fn begin(job: Job, events: bool) -> &'static Job {
    let has_recorder = job.recorder.is_some();
    let job = JOB.get_or_init(|| job);
    if events && has_recorder {
        DECIDED.store(CALLS, Ordering::Relaxed);
        RECORDING.store(std::ptr::from_ref(job).cast_mut(), Ordering::Release);
    }
    job
}

/// Ends the file. Called again it does nothing.
pub(crate) fn close() {
    RECORDING.store(std::ptr::null_mut(), Ordering::Relaxed);
    let Some((_, recorder)) = recorded() else { return };
    if CLOSED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _ = shielded(|| {
        let mut alive = std::collections::BTreeMap::new();
        for entry in handles::all() {
            if !matches!(entry.constructor, Constructor::World | Constructor::ItSelf) {
                *alive.entry(format!("{:?}", entry.constructor.object())).or_insert(0) += 1;
            }
        }
        let alive: Vec<_> = alive.iter().map(|(what, count)| format!("{what}: {count}")).collect();
        recorder.fact("alive", &alive.join(", "));
        if let Err(error) = recorder.close() {
            rankway_preload::say(&format!("rankway_track: {error}\n"));
        }
        Some(())
    });
}

impl Job {
    /// How many communicators one process of this MPI can have.
    pub(crate) fn limit(&self) -> usize {
        match self.mpi.family {
            Family::OpenMpi => 65_532,
            Family::Mpich | Family::Abi => 2_046,
        }
    }

    /// A name that this process gives what it leads.
    pub(crate) fn next_counter(&self) -> u32 {
        self.counter.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Writes down an event.
    #[inline(always)]
    pub(crate) fn record(&self, event: Event) {
        if let Some(recorder) = &self.recorder {
            recorder.record(event);
        }
    }
}

/// Rank and size, in it or, of an intercommunicator, in its local group.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn place_in(comm: usize) -> Option<(u32, u32)> {
    // SAFETY: [MPI].
    unsafe {
        let rank = mpi::number(&mpi::COMM_RANK, comm)?;
        let size = mpi::number(&mpi::COMM_SIZE, comm)?;
        Some((rank.try_into().ok()?, size.try_into().ok()?))
    }
}

/// What is to be defined.
pub(crate) struct Made {
    pub(crate) constructor: Constructor,
    pub(crate) identity: Identity,
    pub(crate) parent: u32,
    /// Rank and size.
    pub(crate) place: (u32, u32),
    pub(crate) site: Site,
    pub(crate) flags: DefinitionFlags,
}

/// Writes down what was made, under its handle; returns its number.
pub(crate) fn define(recorder: &Recorder, handle: usize, made: Made) -> u32 {
    let flags = match made.site.is_internal {
        true => DefinitionFlags(made.flags.0 | DefinitionFlags::INTERNAL.0),
        false => made.flags,
    };
    let id = recorder.define(Definition {
        identity: made.identity,
        rank: made.place.0,
        size: made.place.1,
        parent: made.parent,
        site: made.site.number,
        constructor: made.constructor,
        flags,
    });
    let entry = Entry { id, site: made.site.number, constructor: made.constructor };
    handles::insert(handle, entry);
    id
}

/// The name of what this process alone knows: a group, a datatype, a request.
pub(crate) fn own_identity(job: &Job, recorder: &Recorder) -> Identity {
    recorder.child(rankway::track::NO_PARENT, 1 << 32 | u64::from(job.rank)).0
}
