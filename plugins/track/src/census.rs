//! Who holds how many communicators, where MPI has no more.

use crate::handles::{self, Entry};
use crate::job::{self, Job};
use crate::mpi;
use crate::site;
use rankway::track::Constructor;
use rankway_preload::say;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Lines of places that are told.
const PLACES: usize = 5;

/// The constructor that is under way, 0 for none: MPI may end the process in it.
static UNDER_WAY: AtomicU8 = AtomicU8::new(0);

/// Not before so many objects live are communicators counted again.
static COUNTED_AT: AtomicUsize = AtomicUsize::new(0);
/// It has been told who holds as many as MPI has space for.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// A constructor is being called. Where there are as many communicators as MPI has space for it
/// is told before: MPI's own handler of errors, and the launcher that it asks to end the job,
/// leave no time for it after. What was recorded until now is written for the same reason.
pub(crate) fn constructing(constructor: Constructor) {
    UNDER_WAY.store(constructor as u8, Ordering::Relaxed);
    let Some((job, recorder)) = job::recorded() else { return };
    let live = recorder.live();
    if live < COUNTED_AT.load(Ordering::Relaxed) {
        return;
    }
    // (MPI's own two are not in the limit.)
    let is_own = |one: &Entry| matches!(one.constructor, Constructor::World | Constructor::ItSelf);
    let made = handles::all().into_iter().filter(|one| has_communicator(one) && !is_own(one));
    let communicators = made.count();
    let space = job.limit().saturating_sub(communicators);
    if space > 0 {
        COUNTED_AT.store(live + space, Ordering::Relaxed);
    } else {
        COUNTED_AT.store(usize::MAX, Ordering::Relaxed);
        tell(job, constructor, "is called");
        recorder.flush();
    }
}

fn has_communicator(entry: &Entry) -> bool {
    entry.constructor.object().has_communicator()
}

/// It has returned.
pub(crate) fn constructed() {
    UNDER_WAY.store(0, Ordering::Relaxed);
}

/// What MPI says of an error.
fn words_of(code: c_int) -> String {
    let (mut text, mut len) = ([0 as c_char; 4096], 0);
    // SAFETY: [SIG]; no library's text is longer than MPI_MAX_ERROR_STRING, 1024 in MPICH.
    let said = mpi::ERROR_STRING.get().map(|say| unsafe { say(code, text.as_mut_ptr(), &mut len) });
    text[text.len() - 1] = 0;
    // SAFETY: it ends with the 0 just written at the latest.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    if said == Some(0) { text.to_string_lossy().into_owned() } else { String::new() }
}

/// A constructor has returned an error: where there are too many it is told who has them.
pub(crate) fn failed(job: &Job, constructor: Constructor, code: c_int) {
    if words_of(code).contains("Too many communicators") || are_many(job) {
        tell(job, constructor, "failed");
    }
}

/// The process ends: if in a constructor, with too many, it is told who has them.
pub(crate) fn ends() {
    let Some(constructor) = Constructor::of_number(UNDER_WAY.swap(0, Ordering::Relaxed)) else {
        return;
    };
    if let Some(job) = job::get().filter(|job| are_many(job)) {
        tell(job, constructor, "failed");
    }
}

/// Returns true if nine tenths of what MPI has space for are live.
fn are_many(job: &Job) -> bool {
    let live = handles::all().into_iter().filter(has_communicator).count();
    live >= job.limit() / 10 * 9
}

/// Tells once what happened, and who holds them.
fn tell(job: &Job, constructor: Constructor, what: &str) {
    if IS_TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut places = BTreeMap::<_, usize>::new();
    let mut live = 0;
    for entry in handles::all().into_iter().filter(has_communicator) {
        live += 1;
        *places.entry((entry.constructor, entry.site)).or_default() += 1;
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut text = format!(
        "rankway_track: rank {}: {constructor} {what} with {live} communicators, windows and files \
         live here; {} has {} for a process. Most were made by\n",
        job.rank,
        job.mpi.name(),
        job.limit(),
    );
    for ((constructor, site), count) in places.into_iter().take(PLACES) {
        let _ = writeln!(text, "rankway_track:   {count:>6}  {constructor}  {}", site::text(site));
    }
    say(&text);
}
