//! Who holds how many communicators, where MPI has no more.

use crate::handles;
use crate::job::{self, Job};
use crate::mpi;
use crate::site;
use rankway::track::Constructor;
use rankway_preload::say;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

/// Lines of places that are told.
const PLACES: usize = 5;

/// The constructor that is under way, 0 for none: MPI may end the process in it.
static UNDER_WAY: AtomicU8 = AtomicU8::new(0);

/// A constructor is being called.
pub(crate) fn constructing(constructor: Constructor) {
    UNDER_WAY.store(constructor as u8, Ordering::Relaxed);
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
    tell(job, constructor, words_of(code).contains("Too many communicators"));
}

/// The process ends: if in a constructor, with too many, it is told who has them.
pub(crate) fn ends() {
    let Some(constructor) = Constructor::of_number(UNDER_WAY.swap(0, Ordering::Relaxed)) else {
        return;
    };
    if let Some(job) = job::get() {
        tell(job, constructor, false);
    }
}

fn tell(job: &Job, constructor: Constructor, is_said: bool) {
    let mut places = BTreeMap::<_, usize>::new();
    let mut live = 0;
    for entry in handles::all() {
        if entry.constructor.object().has_communicator() {
            live += 1;
            *places.entry((entry.constructor, entry.site)).or_default() += 1;
        }
    }
    if !is_said && live < job.limit() / 10 * 9 {
        return;
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut text = format!(
        "rankway_track: rank {}: {constructor} failed with {live} communicators, windows and files \
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
