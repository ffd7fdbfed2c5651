//! What the environment asks for.

use super::error::TrackError;
use std::path::PathBuf;

/// What `RANKWAY_TRACE` and `RANKWAY_TRACE_EVENTS` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The directory of the traces; `None` where none is named.
    pub directory: Option<PathBuf>,
    /// Calls too, not communicators alone.
    pub events: bool,
}

impl Asked {
    /// Of this process.
    ///
    /// # Errors
    /// [`TrackError::Setting`] for a variable whose value cannot be used.
    pub fn from_environment() -> Result<Asked, TrackError> {
        let events = std::env::var(TrackError::EVENTS).unwrap_or_default();
        let events = match events.trim() {
            "" | "on" | "1" | "yes" => true,
            "off" | "0" | "no" => false,
            other => {
                return Err(TrackError::Setting {
                    name: TrackError::EVENTS,
                    value: other.to_owned(),
                    takes: "on, 1 or yes, or off, 0 or no",
                });
            }
        };
        let directory = std::env::var_os(TrackError::DIRECTORY).filter(|value| !value.is_empty());
        let directory = directory.map(PathBuf::from);
        if let Some(file) = directory.as_ref().filter(|path| path.exists() && !path.is_dir()) {
            return Err(TrackError::Setting {
                name: TrackError::DIRECTORY,
                value: file.display().to_string(),
                takes: "a directory, or where one is to be made",
            });
        }
        Ok(Asked { directory, events })
    }
}
