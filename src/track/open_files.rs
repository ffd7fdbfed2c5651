//! Recorders whose files end with the process, whoever still holds them.

use super::recorder::Recorder;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};

static OPEN: Mutex<Vec<Weak<Recorder>>> = Mutex::new(Vec::new());

impl Recorder {
    /// Has [`close_all`] end its file, if nothing else did before.
    pub fn close_at_the_end(self: &Arc<Recorder>) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| one.strong_count() > 0);
        open.push(Arc::downgrade(self));
    }
}

/// Ends the files of this process's recorders: to be called where the process ends without
/// dropping what it has. What cannot be written is said on standard error.
pub fn close_all() {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for recorder in open.iter().filter_map(Weak::upgrade) {
        if let Err(error) = recorder.close() {
            let _ = io::stderr().write_all(format!("rankway: {error}\n").as_bytes());
        }
    }
}
