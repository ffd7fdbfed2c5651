//! What people call calls.

use rankway::track::{CallClass, Kind};

/// What people call calls of a class; `None` for what takes no time of its own, and for
/// `MPI_Init` and `MPI_Finalize`, which are no part of what the program does.
pub(super) fn word(kind: Kind) -> Option<usize> {
    if kind.is_end() || matches!(kind, Kind::Init | Kind::Finalize) {
        return None;
    }
    Some(match kind.class() {
        CallClass::Send => 0,
        CallClass::Receive | CallClass::Post => 1,
        CallClass::Completion => 2,
        CallClass::Collective | CallClass::CollectiveStart => 3,
        CallClass::Management => 4,
        CallClass::OneSided => 5,
        CallClass::Synchronization => 6,
        CallClass::Other => 7,
    })
}

/// Words for classes, in the order of [`word`].
pub(super) const CLASSES: [&str; 8] = [
    "send",
    "receive",
    "wait",
    "collective",
    "management",
    "one_sided",
    "synchronization",
    "other",
];
