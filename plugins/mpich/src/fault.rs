//! Errors as answers, of which the C half makes MPI's codes.

use crate::boot::Pmi;
use crate::log::text;
use rankway::device::DeviceError;
use rankway::msg::MsgError;
use rankway::rma::{Error, ErrorKind};
use rankway_plugin::Class;
use rankway_plugin::custom::Failed;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// What a call answers; `enum rkw_answer` has the same. Below 0 is a code of MPICH's own,
/// negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Answer {
    Done = 0,
    Range,
    Rank,
    Sync,
    Type,
    Op,
    Truncated,
    Argument,
    Buffer,
    Window,
    Memory,
    Attach,
    Shared,
    Group,
    Port,
    /// A process died.
    Died,
    /// Anything else below.
    Failed,
}

/// A call that is refused, and why.
pub(crate) struct Refusal(pub(crate) Answer, pub(crate) String);

/// Why the last call was refused.
static WHY: Mutex<Option<CString>> = Mutex::new(None);

/// Why the last call was refused, until the next is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rkw_why() -> *const c_char {
    let why = WHY.lock().unwrap_or_else(PoisonError::into_inner);
    why.as_ref().map_or(c"".as_ptr(), |why| why.as_ptr())
}

impl From<Error> for Refusal {
    #[cold]
    fn from(error: Error) -> Refusal {
        let answer = match Class::of(&error) {
            Some(Class::Rank) => Answer::Rank,
            Some(Class::Range) => Answer::Range,
            Some(Class::Buffer) => Answer::Buffer,
            Some(Class::Sync) => Answer::Sync,
            Some(Class::Operation) => Answer::Op,
            Some(Class::Window) => Answer::Window,
            Some(Class::Memory) => Answer::Memory,
            Some(Class::Argument) => Answer::Argument,
            None if matches!(error.kind(), ErrorKind::Device(e) if is_death(e)) => Answer::Died,
            None => Answer::Failed,
        };
        let why = told(&error, error.peer());
        Refusal(answer, why)
    }
}

impl From<MsgError> for Refusal {
    #[cold]
    fn from(error: MsgError) -> Refusal {
        let answer = if has_died(&error) { Answer::Died } else { Answer::Failed };
        let why = told(&error, error.peer());
        Refusal(answer, why)
    }
}

/// What an error says, and who its peer is where that is no rank of this job: its number here is
/// nothing to a user.
#[cold]
fn told(error: &dyn Display, peer: Option<u32>) -> String {
    let elsewhere = |peer| {
        let launcher = Pmi::current()?;
        let others = &launcher.other_jobs;
        others.job_of(peer).and_then(|_| others.of(peer))
    };
    match peer.and_then(elsewhere) {
        Some(who) => format!("rankway: {error} (it is rank {} of another job)", who.rank),
        None => format!("rankway: {error}"),
    }
}

/// Returns true for a message that failed since a process died.
pub(crate) fn has_died(error: &MsgError) -> bool {
    match error {
        MsgError::NobodyLeft { .. } => true,
        MsgError::Device(e) => is_death(e),
        _ => false,
    }
}

fn is_death(error: &DeviceError) -> bool {
    matches!(error, DeviceError::PeerDied { .. })
}

impl From<Failed> for Refusal {
    #[cold]
    fn from(failed: Failed) -> Refusal {
        match failed {
            Failed::Type => Refusal(Answer::Type, "no layout has these elements".into()),
            Failed::Truncated => Refusal(Answer::Truncated, "fewer operands than elements".into()),
            Failed::Range => Refusal::range(),
            Failed::Window(error) => error.into(),
        }
    }
}

impl Refusal {
    #[cold]
    pub(crate) fn range() -> Refusal {
        Refusal(Answer::Range, "in front of the target's memory".into())
    }

    /// The answer, with why kept.
    #[cold]
    pub(crate) fn kept(self) -> c_int {
        let Refusal(answer, why) = self;
        *WHY.lock().unwrap_or_else(PoisonError::into_inner) = Some(text(&why));
        answer as c_int
    }
}

/// A result as an answer.
#[inline]
pub(crate) fn answer<E: Into<Refusal>>(result: Result<(), E>) -> c_int {
    match result {
        Ok(()) => Answer::Done as c_int,
        Err(why) => why.into().kept(),
    }
}
