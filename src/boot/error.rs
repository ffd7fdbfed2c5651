//! What can go wrong while finding and meeting the peers.

use crate::settings::BadSetting;
use std::error::Error;
use std::{fmt, io};

/// Errors of the [`boot`](crate::boot) module.
///
/// Every variant names the object and, where there is one, the peer by its
/// world rank. After [`PeerDied`](BootError::PeerDied) or
/// [`TimedOut`](BootError::TimedOut) other ranks may have failed elsewhere:
/// repeat nothing, tear down.
#[derive(Debug)]
#[non_exhaustive]
pub enum BootError {
    /// A peer ended before it took part.
    PeerDied {
        /// World rank of the peer.
        rank: u32,
        /// What was seen: the signal, the exit code, the closed connection.
        how: String,
    },
    /// Nothing leads to a peer, which may well be alive.
    Unreachable {
        /// World rank of the peer.
        rank: u32,
        /// What is missing and what to do.
        why: &'static str,
    },
    /// A peer lives and has left a collective.
    GaveUp {
        /// World rank of the peer.
        rank: u32,
        /// Its own error.
        why: String,
    },
    /// Peers are silent, as far as one can tell alive.
    TimedOut {
        /// The operation that was waiting.
        what: String,
        /// World ranks that had not answered.
        missing: Vec<u32>,
        /// The limit that was reached.
        seconds: u64,
    },
    /// A rank outside the job or the group.
    Rank {
        /// The rank asked for.
        rank: u32,
        /// Ranks in the job or group.
        size: u32,
    },
    /// The peer has not published that key.
    NotPublished {
        /// World rank of the publisher.
        rank: u32,
        /// The key asked for.
        key: String,
    },
    /// A key was published a second time; launchers keep the first value.
    Twice {
        /// The key.
        key: String,
    },
    /// A key or value does not fit what the launcher stores.
    TooLarge {
        /// The key.
        key: String,
        /// Length of the value in bytes.
        bytes: usize,
        /// The limit and how to raise it.
        limit: String,
    },
    /// Ranks cannot be forked from a process that has threads.
    Threads {
        /// Threads alive in the calling process.
        count: usize,
    },
    /// An environment variable with a value that cannot be used.
    Setting(BadSetting),
    /// Options that make no job.
    Options(String),
    /// The boot was finalized.
    Finalized {
        /// The call refused.
        what: &'static str,
    },
    /// A launcher's own refusal.
    Launcher {
        /// Which launcher interface.
        launcher: &'static str,
        /// The call or command.
        call: String,
        /// The launcher's own words.
        why: String,
        /// What to try.
        hint: String,
    },
    /// The operating system refused.
    Os {
        /// What was tried, and the remedy where one is known.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A peer speaks, but not as agreed: usually collectives called in a
    /// different order on two ranks.
    Protocol {
        /// World rank of the peer.
        rank: u32,
        /// What arrived against what was due.
        what: String,
    },
    /// The caller's idle function gave up.
    Idle(String),
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::PeerDied { rank, how } => write!(f, "rank {rank} died: {how}"),
            BootError::Unreachable { rank, why } => {
                write!(f, "rank {rank} cannot be reached: {why}")
            }
            BootError::GaveUp { rank, why } => write!(f, "rank {rank} gave up: {why}"),
            BootError::TimedOut { what, missing, seconds } => write!(
                f,
                "{what}: nothing from {} within {seconds} s; they may be stopped or stuck \
                 elsewhere (RANKWAY_TIMEOUT=seconds sets the limit)",
                name_ranks(missing)
            ),
            BootError::Rank { rank, size } => write!(
                f,
                "rank {rank} is out of range: there are {size} ranks, 0 to {}",
                size.wrapping_sub(1)
            ),
            BootError::NotPublished { rank, key } => write!(
                f,
                "rank {rank} has published no value for key `{key}`: it must `put` it before the \
                 `fence` both take part in"
            ),
            BootError::Twice { key } => write!(
                f,
                "key `{key}` was already published by this process; use a new key for a new value"
            ),
            BootError::TooLarge { key, bytes, limit } => {
                write!(f, "key `{key}` with {bytes} bytes does not fit: {limit}")
            }
            BootError::Threads { count } => write!(
                f,
                "cannot fork ranks: this process has {count} threads and a forked child would \
                 keep only one of them; call `boot::local::run` before any thread is started"
            ),
            BootError::Setting(error) => write!(f, "{error}"),
            BootError::Options(why) => write!(f, "{why}"),
            BootError::Finalized { what } => write!(f, "{what} after finalize"),
            BootError::Launcher { launcher, call, why, hint } => {
                write!(f, "{launcher}: {call} failed: {why}; {hint}")
            }
            BootError::Os { what, source } => write!(f, "{what}: {source}"),
            BootError::Protocol { rank, what } => {
                write!(f, "rank {rank} broke the set-up protocol: {what}")
            }
            BootError::Idle(why) => write!(f, "gave up while waiting for peers: {why}"),
        }
    }
}

impl Error for BootError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BootError::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<BadSetting> for BootError {
    fn from(error: BadSetting) -> BootError {
        BootError::Setting(error)
    }
}

impl BootError {
    pub(crate) fn os(what: impl Into<String>) -> Self {
        BootError::io(what, io::Error::last_os_error())
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        let mut what = what.into();
        if source.raw_os_error() == Some(libc::ENOMEM) {
            what = crate::ulimit::explained(what);
        } else if crate::ulimit::no_descriptor(&source) {
            what += " (raise `ulimit -n`)";
        }
        BootError::Os { what, source }
    }

    /// The peer this error is about, if it is about one.
    pub fn peer(&self) -> Option<u32> {
        match self {
            BootError::PeerDied { rank, .. }
            | BootError::Unreachable { rank, .. }
            | BootError::GaveUp { rank, .. }
            | BootError::Protocol { rank, .. } => Some(*rank),
            BootError::TimedOut { missing, .. } => missing.first().copied(),
            _ => None,
        }
    }
}

/// `rank 3`, `ranks 1, 2, 5`, `ranks 0, 1, … (900 in all)`.
fn name_ranks(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let names: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    match ranks.len() {
        0 => "the launcher".to_string(),
        1 => format!("rank {}", names[0]),
        n if n <= SHOWN => format!("ranks {}", names.join(", ")),
        n => format!("ranks {}, … ({n} in all)", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_peers() {
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(name_ranks(&[]), "the launcher");
        assert_eq!(name_ranks(&[7]), "rank 7");
        assert_eq!(name_ranks(&[1, 2]), "ranks 1, 2");
        assert!(name_ranks(&many).ends_with("15, … (100 in all)"));
        let error = BootError::Rank { rank: 9, size: 4 };
        assert_eq!(error.to_string(), "rank 9 is out of range: there are 4 ranks, 0 to 3");
    }
}
