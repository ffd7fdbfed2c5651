//! Constructors and frees.

use crate::agree::{self, Lead, Marker};
use crate::census;
use crate::handles::{self, Local};
use crate::job::{self, Job, Made};
use crate::mpi::{self, Mpi};
use crate::site;
use rankway::track::{
    Constructor, DefinitionFlags, Event, Identity, Kind, NO_PARENT, ObjectKind, Recorder,
};
use rankway_preload::shielded;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What tells apart the communicators that one call makes, and how their members know.
#[derive(Clone, Copy)]
pub(crate) enum Selector {
    /// There is one.
    Single,
    /// The colour.
    Color(c_int),
    /// The rank in the parent of its rank 0.
    Lead,
    /// Not all of the parent call: its rank 0 tells a name.
    Told,
    /// The same where a session may be all that there is: some may be without this library.
    ToldInTime,
    /// An intercommunicator of which this is the local group's communicator: the leads
    /// exchange names.
    Between(usize),
    /// The same where some may be without this library.
    BetweenInTime,
}

impl Selector {
    /// Members hear the name by a message.
    fn is_told(self) -> bool {
        use Selector::{Between, BetweenInTime, Told, ToldInTime};
        matches!(self, Told | ToldInTime | Between(_) | BetweenInTime)
    }
}

/// A call that makes or frees objects, as an event of its own; `done` is given when it
/// began, and only while calls are recorded.
fn managed(call: impl FnOnce() -> c_int, done: impl FnOnce(c_int, u64, u64)) -> c_int {
    let start = Recorder::now();
    let before = handles::with(Local::enter);
    let code = call();
    handles::with(|local| local.leave(before));
    let end = Recorder::now();
    let _ = shielded(|| {
        done(code, start, end);
        Some(())
    });
    code
}

/// A constructor; `made` is given when it began and ended, where MPI has made something.
fn constructs(
    constructor: Constructor,
    call: impl FnOnce() -> c_int,
    made: impl FnOnce(&'static Job, u64, u64),
) -> c_int {
    census::constructing(constructor);
    managed(call, |code, start, end| {
        census::constructed();
        let Some(job) = job::get() else { return };
        match code {
            0 => made(job, start, end),
            // (Without a recorder nobody has counted.)
            _ if job.recorder.is_none() => (),
            _ => census::failed(job, constructor, code),
        }
    })
}

fn event(kind: Kind, start: u64, end: u64, id: u32) {
    if let Some(job) = job::recording() {
        let peer = rankway::track::NO_PEER;
        job.record(Event::new(kind, start, end).with(id, peer, 0));
    }
}

/// The number of what a handle names; looks whether a duplicate that was under way is it.
#[inline]
pub(crate) fn id_of(word: usize) -> u32 {
    handles::with(|local| id_in(local, word))
}

/// The same, by what this thread keeps.
#[inline(always)]
pub(crate) fn id_in(local: &Local, word: usize) -> u32 {
    local.id_of(mpi::handle(word), |handle| {
        if !duplicates_wait() {
            return 0;
        }
        define_duplicates();
        handles::find(handle).map_or(0, |entry| entry.id)
    })
}

/// What a constructor is called where its parent is an intercommunicator.
fn of_inter(constructor: Constructor) -> Constructor {
    use Constructor::*;
    match constructor {
        Dup | DupWithInfo | Idup | IdupWithInfo => IntercommDup,
        Split | SplitType => IntercommSplit,
        Create => IntercommCreateOf,
        other => other,
    }
}

/// `constructor` and flags of what is made of a parent.
fn inherited(
    recorder: &Recorder,
    constructor: Constructor,
    parent: u32,
) -> (Constructor, DefinitionFlags, bool) {
    let of = recorder.get(parent);
    match of.filter(|of| of.constructor.object() == ObjectKind::Intercommunicator) {
        Some(of) => {
            let constructor = of_inter(constructor);
            let second = match constructor.object() {
                ObjectKind::Intercommunicator => of.flags.0 & DefinitionFlags::SECOND_GROUP.0,
                _ => 0,
            };
            (constructor, DefinitionFlags(second), true)
        }
        None => (constructor, DefinitionFlags::NONE, false),
    }
}

/// The rank in a communicator's group of another's rank 0.
///
/// # Safety
/// \[MPI\]
unsafe fn rank_of_lead(comm: usize, parent: usize) -> Option<u32> {
    let (mut group, mut among) = (0usize, 0usize);
    let (group_at, among_at) = ((&raw mut group).cast::<c_void>(), (&raw mut among).cast());
    let (zero, mut rank) = (0, -1);
    // SAFETY: [MPI], [SIG]; places for a handle of any library, and what is asked for is
    // given back.
    unsafe {
        let (group_of, free) = (mpi::COMM_GROUP.get()?, mpi::GROUP_FREE.get()?);
        if group_of(comm, group_at) != 0 || group_of(parent, among_at) != 0 {
            return None;
        }
        mpi::GROUP_TRANSLATE.get()?(group, 1, &zero, among, &mut rank);
        free(group_at);
        free(among_at);
    }
    rank.try_into().ok()
}

/// A constructor of a communicator of `parent`, which it puts at `place`.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn comm(
    constructor: Constructor,
    parent: usize,
    place: usize,
    selector: Selector,
    call: impl FnOnce() -> c_int,
) -> c_int {
    constructs(constructor, call, |job, start, end| {
        // SAFETY: [MPI].
        let id = unsafe { made(job, constructor, parent, place as *const c_void, selector) };
        event(Kind::CommConstruct, start, end, id.unwrap_or(0));
    })
}

/// # Safety
/// \[MPI\]: MPI has put a communicator at `place`.
unsafe fn made(
    job: &Job,
    constructor: Constructor,
    parent_word: usize,
    place: *const c_void,
    selector: Selector,
) -> Option<u32> {
    // SAFETY: [MPI].
    unsafe {
        let handle = job.mpi.read(place, 0);
        let is_member = job.mpi.is_comm(handle);
        // (All that are to answer do, whether they can write or not.)
        let told = match selector {
            _ if !is_member || !selector.is_told() => None,
            _ if job.is_alone => Some((Lead::own(job).identity(), false)),
            Selector::ToldInTime => Some((agree::by_lead_in_time(job, handle)?, false)),
            Selector::BetweenInTime => Some(agree::between_in_time(job, handle)?),
            // Nobody has asked yet who is without the library.
            Selector::Told if job.is_of_sessions => {
                Some((agree::by_lead_in_time(job, handle)?, false))
            }
            Selector::Between(_)
                if job.is_of_sessions && constructor == Constructor::IntercommCreate =>
            {
                Some(agree::between_in_time(job, handle)?)
            }
            Selector::Between(local) => Some(agree::between(job, handle, local)?),
            _ => Some((agree::by_lead(job, handle)?, false)),
        };
        let recorder = job.recorder.as_ref()?;
        let parent = id_of(parent_word);
        let (constructor, mut flags, is_inter) = inherited(recorder, constructor, parent);
        let identity = match told {
            Some((identity, is_second)) => {
                if is_second {
                    flags = DefinitionFlags::SECOND_GROUP;
                }
                Some(identity)
            }
            // (All of the parent have called, and count: also who got none.)
            None if selector.is_told() => None,
            None => {
                let selector = match selector {
                    Selector::Color(color) => u64::from(color as u32),
                    Selector::Lead if is_member && !is_inter => {
                        rank_of_lead(handle, parent_word).map_or(u64::MAX, u64::from)
                    }
                    _ => 0,
                };
                Some(recorder.child(parent, selector).0)
            }
        };
        if !is_member {
            return None;
        }
        let place = job::place_in(handle)?;
        let site = site::caller(recorder);
        let identity = identity?;
        Some(job::define(
            recorder,
            handle,
            Made { constructor, identity, parent, place, site, flags },
        ))
    }
}

/// Defines what is there from the start.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn from_the_start(
    job: &Job,
    handle: usize,
    constructor: Constructor,
    (identity, is_second): (Identity, bool),
) {
    let Some(recorder) = &job.recorder else { return };
    // SAFETY: [MPI].
    let Some(place) = (unsafe { job::place_in(handle) }) else { return };
    let (site, parent) = (site::Site::default(), NO_PARENT);
    let flags = match is_second {
        true => DefinitionFlags::SECOND_GROUP,
        false => DefinitionFlags::NONE,
    };
    job::define(recorder, handle, Made { constructor, identity, parent, place, site, flags });
}

/// A duplicate that MPI has not put down yet.
struct Pending {
    place: usize,
    made: Made,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
static PENDING_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns true if there are duplicates under way.
#[inline(always)]
pub(crate) fn duplicates_wait() -> bool {
    PENDING_COUNT.load(Ordering::Relaxed) != 0
}

/// Defines the duplicates that MPI has put down: after each call that completes requests,
/// while the program still has the places.
#[cold]
pub(crate) fn define_duplicates() {
    let Some((job, recorder)) = job::recorded() else { return };
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut i = 0;
    while i < pending.len() {
        // SAFETY: the place is the program's until it hears that the duplicate is there,
        // which it does by a call that comes here.
        let handle = unsafe { job.mpi.read(pending[i].place as *const c_void, 0) };
        if job.mpi.is_comm(handle) {
            job::define(recorder, handle, pending.swap_remove(i).made);
        } else {
            i += 1;
        }
    }
    PENDING_COUNT.store(pending.len(), Ordering::Relaxed);
}

/// `MPI_Comm_idup`: named now, when all call it in the same order, and defined when its
/// handle is there.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn idup(
    constructor: Constructor,
    parent: usize,
    place: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let at = place as *mut c_void;
    if let (Some(mpi), false) = (mpi::get(), at.is_null()) {
        // SAFETY: [MPI]: nobody reads the place before the duplicate is there.
        unsafe { mpi.clear_comm(at) };
    }
    constructs(constructor, call, |job, start, end| {
        let Some(recorder) = &job.recorder else { return };
        let parent_id = id_of(parent);
        let (constructor, flags, _) = inherited(recorder, constructor, parent_id);
        let identity = recorder.child(parent_id, 0).0;
        // SAFETY: [MPI]: the parent's group is the duplicate's.
        let Some(place_in) = (unsafe { job::place_in(parent) }) else { return };
        let site = site::caller(recorder);
        let made = Made { constructor, identity, parent: parent_id, place: place_in, site, flags };
        let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
        pending.push(Pending { place, made });
        PENDING_COUNT.store(pending.len(), Ordering::Relaxed);
        drop(pending);
        define_duplicates();
        event(Kind::CommConstruct, start, end, 0);
    })
}

/// `MPI_Comm_spawn` and its kin: names are exchanged with the children if they have this
/// library too. `root` is who starts them.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn spawn(
    constructor: Constructor,
    root: usize,
    local: usize,
    place: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let own = job::get().and_then(|job| {
        // SAFETY: [MPI].
        let rank = unsafe { mpi::number(&mpi::COMM_RANK, local)? };
        (rank == root as c_int).then(|| Marker::spawns(job))?
    });
    let meets = || own.as_ref().is_some_and(Marker::is_signed);
    // SAFETY: [MPI].
    unsafe { connected(constructor, root, local, place, call, meets) }
}

/// `MPI_Comm_accept` and `MPI_Comm_connect`, at a port whose name only `root` has.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn connect(
    constructor: Constructor,
    port: usize,
    root: usize,
    local: usize,
    place: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let (mine, theirs) = match constructor {
        Constructor::Accept => ("accepting", "connecting"),
        _ => ("connecting", "accepting"),
    };
    let own = job::get().and_then(|job| {
        // SAFETY: [MPI]: the root's port is a C string.
        unsafe {
            if mpi::number(&mpi::COMM_RANK, local)? != root as c_int || port == 0 {
                return None;
            }
            let name = CStr::from_ptr(port as *const c_char).to_bytes();
            let port = agree::hash(&[name]);
            Some((port, Marker::connects(job, port, mine)?))
        }
    });
    let meets = || own.as_ref().is_some_and(|(port, marker)| marker.is_met_by(*port, theirs));
    // SAFETY: [MPI].
    unsafe { connected(constructor, root, local, place, call, meets) }
}

/// # Safety
/// \[MPI\]; `call` is that of the program.
unsafe fn connected(
    constructor: Constructor,
    root: usize,
    local: usize,
    place: usize,
    call: impl FnOnce() -> c_int,
    meets: impl FnOnce() -> bool,
) -> c_int {
    let call = || {
        let code = call();
        if code == 0 && job::get().is_some() {
            let _ = shielded(|| {
                // SAFETY: [MPI].
                unsafe { named(constructor, root, local, place, meets) }
            });
        }
        code
    };
    managed(call, |_, start, end| {
        let place = place as *const c_void;
        // SAFETY: [MPI].
        let handle = mpi::get().map(|mpi: &Mpi| unsafe { mpi.read(place, 0) });
        event(Kind::CommConstruct, start, end, handle.map_or(0, id_of));
    })
}

/// # Safety
/// \[MPI\]: MPI has put an intercommunicator at `place`.
unsafe fn named(
    constructor: Constructor,
    root: usize,
    local: usize,
    place: usize,
    meets: impl FnOnce() -> bool,
) -> Option<()> {
    let job = job::get()?;
    let mut is_met = u64::from(meets());
    // SAFETY: [MPI]; all of the local communicator are here.
    unsafe {
        if job.is_alone {
            is_met = 0;
        } else if !agree::tell(job.mpi.packed, &mut is_met, root as c_int, local) {
            return None;
        }
        let selector = match constructor {
            _ if is_met == 0 => Selector::Single,
            // (The file may be of another that waits at the port.)
            Constructor::Accept | Constructor::Connect => Selector::BetweenInTime,
            _ => Selector::Between(local),
        };
        made(job, constructor, local, place as *const c_void, selector);
    }
    Some(())
}

/// A window or a file of a communicator; a file's handle is always an address.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn on_comm(
    constructor: Constructor,
    parent: usize,
    place: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    constructs(constructor, call, |job, start, end| {
        let Some(recorder) = &job.recorder else { return };
        let parent_id = id_of(parent);
        let identity = recorder.child(parent_id, 0).0;
        let (kind, handle) = match constructor {
            // SAFETY: [MPI].
            Constructor::FileOpen => (Kind::FileOpen, unsafe { *(place as *const usize) }),
            // SAFETY: [MPI].
            _ => (Kind::WinConstruct, unsafe { job.mpi.read(place as *const c_void, 0) }),
        };
        // SAFETY: [MPI].
        let Some(place) = (unsafe { job::place_in(parent) }) else { return };
        let (site, flags) = (site::caller(recorder), DefinitionFlags::NONE);
        let made = Made { constructor, identity, parent: parent_id, place, site, flags };
        event(kind, start, end, job::define(recorder, handle, made));
    })
}

/// A group, a datatype or a request: this process's alone. Of what it is made, if of
/// anything that has a number.
///
/// # Safety
/// \[MPI\]: MPI has put a handle at `place`.
pub(crate) unsafe fn own(constructor: Constructor, parent: Option<usize>, place: usize) {
    let _ = shielded(|| {
        let (job, recorder) = job::recorded()?;
        // SAFETY: [MPI].
        let handle = unsafe { job.mpi.read(place as *const c_void, 0) };
        let mut size = 0;
        if constructor.object() == ObjectKind::Group {
            if handle == job.mpi.empty_group {
                return None;
            }
            // SAFETY: [MPI].
            size = unsafe { mpi::number(&mpi::GROUP_SIZE, handle) }?;
        }
        let made = Made {
            constructor,
            identity: job::own_identity(job, recorder),
            parent: parent.map_or(NO_PARENT, id_of),
            place: (0, u32::try_from(size).unwrap_or(0)),
            site: site::caller(recorder),
            flags: DefinitionFlags::NONE,
        };
        job::define(recorder, handle, made);
        Some(())
    });
}

/// A call that frees what is at `place`: its handle may be another's as soon as MPI has it
/// back.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
pub(crate) unsafe fn free(kind: Option<Kind>, place: usize, call: impl FnOnce() -> c_int) -> c_int {
    let found = shielded(|| {
        let (job, _) = job::recorded().filter(|_| place != 0)?;
        let handle = match kind {
            // SAFETY: [MPI].
            Some(Kind::FileClose) => unsafe { *(place as *const usize) },
            // SAFETY: [MPI].
            _ => unsafe { job.mpi.read(place as *const c_void, 0) },
        };
        if duplicates_wait() {
            define_duplicates();
        }
        Some((handle, handles::remove(handle)?))
    });
    managed(call, |code, start, end| {
        let (Some((_, recorder)), Some((handle, entry))) = (job::recorded(), found) else { return };
        if code == 0 {
            recorder.freed(entry.id);
        } else {
            handles::insert(handle, entry);
        }
        if let Some(kind) = kind {
            event(kind, start, end, entry.id);
        }
    })
}

/// The program gives an object a name.
///
/// # Safety
/// \[MPI\]: a C string.
pub(crate) unsafe fn name(object: usize, text: usize) {
    let _ = shielded(|| {
        let (_, recorder) = job::recorded().filter(|_| text != 0)?;
        let id = id_of(object);
        if id != 0 {
            // SAFETY: [MPI].
            let text = unsafe { CStr::from_ptr(text as *const c_char) };
            recorder.name(id, &text.to_string_lossy());
        }
        Some(())
    });
}
