//! What keeps a process from recording.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What keeps a process from recording, with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrackError {
    /// A variable of the environment has a value that cannot be used.
    Setting {
        /// The variable.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// The directory cannot be made.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The file is there already.
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made.
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The file cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The thread that writes cannot be started.
    Thread {
        /// What the system said.
        why: io::Error,
    },
    /// The rank is not below the size of the world.
    Rank {
        /// The rank.
        rank: u32,
        /// Processes of the world.
        size: u32,
    },
}

impl TrackError {
    /// The variable that names the directory of the traces.
    pub(super) const DIRECTORY: &'static str = "RANKWAY_TRACE";
    /// The variable that says whether calls are recorded.
    pub(super) const EVENTS: &'static str = "RANKWAY_TRACE_EVENTS";
}

/// What helps against an error of the file system.
fn remedy(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the file system is full: make space, or choose a directory on another"
        }
        io::ErrorKind::FileTooLarge => "raise the limit of files (ulimit -f)",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that this user may write to"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "there is a file of that name: choose another directory"
        }
        _ => "choose another directory",
    }
}

impl fmt::Display for TrackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrackError::Setting { name, value, takes } => {
                write!(f, "{name} is '{value}'; it takes {takes}")
            }
            TrackError::Directory { path, why } => {
                let path = path.display();
                write!(
                    f,
                    "the directory for traces, {path}, cannot be made: {why}; {}",
                    remedy(why)
                )
            }
            TrackError::Exists { path } => write!(
                f,
                "{} is there already: another process of the same job and rank records there, or \
                 did; remove it or choose another directory",
                path.display()
            ),
            TrackError::Create { path, why } => {
                write!(f, "the trace {} cannot be made: {why}; {}", path.display(), remedy(why))
            }
            TrackError::Write { path, why } => {
                write!(f, "the trace {} cannot be written: {why}; {}", path.display(), remedy(why))
            }
            TrackError::Thread { why } => write!(
                f,
                "the thread that writes the trace cannot be started: {why}; raise the limit of \
                 processes (ulimit -u)"
            ),
            TrackError::Rank { rank, size } => {
                write!(f, "rank {rank} is not of a world of {size}")
            }
        }
    }
}

impl std::error::Error for TrackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TrackError::Directory { why, .. }
            | TrackError::Create { why, .. }
            | TrackError::Write { why, .. }
            | TrackError::Thread { why } => Some(why),
            TrackError::Setting { .. } | TrackError::Exists { .. } | TrackError::Rank { .. } => {
                None
            }
        }
    }
}
