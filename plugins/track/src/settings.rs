//! What the environment asks for.

use rankway::track::Asked;
use rankway_preload::say;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Where what is recorded goes, and what is.
pub(crate) struct Settings {
    pub(crate) directory: PathBuf,
    /// Calls too, not communicators alone.
    pub(crate) events: bool,
}

/// Of this process, read once; `None` where it says what cannot be, which is told: the
/// program is not ours to end.
pub(crate) fn get() -> Option<&'static Settings> {
    static SETTINGS: LazyLock<Option<Settings>> = LazyLock::new(read);
    SETTINGS.as_ref()
}

fn read() -> Option<Settings> {
    match Asked::from_environment() {
        Ok(Asked { directory, events }) => {
            let directory = directory.unwrap_or_else(|| "rankway-trace".into());
            Some(Settings { directory, events })
        }
        Err(error) => {
            say(&format!("rankway_track: {error}; nothing is recorded\n"));
            None
        }
    }
}
