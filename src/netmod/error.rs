//! Why a netmod could not be opened, or an operation failed.

use std::error::Error;
use std::fmt;

/// Why a network library, a provider or one of its calls failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NetError {
    /// The network library could not be opened.
    Library(String),
    /// No netmod has this name.
    NoNetmod {
        /// What was asked for.
        wanted: String,
        /// What there is.
        have: &'static [&'static str],
    },
    /// No provider of this name serves what is needed.
    NoProvider {
        /// What was asked for.
        wanted: String,
        /// What the library has.
        have: Vec<String>,
        /// The library's name.
        library: &'static str,
        /// Its own variable that chooses one.
        variable: &'static str,
    },
    /// The provider is there but has no one-sided operations.
    NoRma {
        /// The provider.
        provider: String,
        /// The library's own variable that chooses one.
        variable: &'static str,
    },
    /// Shared memory is full.
    NoSpace {
        /// The provider's name.
        provider: String,
        /// The file system.
        place: &'static str,
        /// Bytes that are free there.
        free: u64,
        /// Bytes it should have.
        needed: u64,
        /// What takes them.
        why: &'static str,
    },
    /// The process may not map what a peer takes.
    NoAddressSpace {
        /// The provider's name.
        provider: String,
        /// Bytes that may still be mapped.
        left: u64,
        /// Bytes it should be.
        needed: u64,
    },
    /// Memory could not be locked for the device.
    LockLimit {
        /// The provider's name.
        provider: String,
        /// The function that failed.
        call: &'static str,
        /// The library's error number, negative.
        code: i64,
        /// The library's text for it.
        text: String,
        /// Bytes that may be locked.
        limit: u64,
    },
    /// A call of the library failed.
    Call {
        /// The provider's name.
        provider: String,
        /// The function that failed.
        call: &'static str,
        /// The library's error number, negative.
        code: i64,
        /// The library's text for it.
        text: String,
    },
    /// A raw address this provider cannot have made.
    Address {
        /// The provider's name.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A raw address that the provider took not in: one too many, or none of its own that looks like it.
    Full {
        /// The provider's name.
        provider: String,
        /// What was refused, and where.
        reason: String,
    },
    /// A peer wrote into this process's shared memory what Rankway never writes.
    Corrupt,
    /// A connection broke between two who live, and took packets with it.
    Lost {
        /// The provider's name.
        provider: String,
    },
    /// An operation failed after it was issued.
    Operation {
        /// The provider's name.
        provider: String,
        /// Address of the peer, where the operation carried it.
        peer: Option<u64>,
        /// The library's error number, positive.
        code: i64,
        /// The provider's own text.
        text: String,
    },
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::Library(why) => write!(f, "{why}"),
            NetError::NoNetmod { wanted, have } => {
                write!(f, "there is no netmod '{wanted}'; netmods are {}", have.join(" and "))
            }
            NetError::NoProvider { wanted, have, library, variable } => write!(
                f,
                "provider '{wanted}' is not there; this {library} offers: {}; name one of them \
                 in RANKWAY_PROVIDER, or unset it and {variable} to have one chosen",
                have.join(", ")
            ),
            NetError::NoRma { provider, variable } => write!(
                f,
                "provider '{provider}' has no RMA on reliable datagram endpoints, which windows \
                 need; use another (rankway info lists them) or unset {variable}"
            ),
            NetError::NoSpace { provider, place, free, needed, why } => write!(
                f,
                "{provider}: {place} has {free} bytes free and {needed} may be needed ({why}); \
                 remove what is left there, enlarge it (mount -o remount,size=...), or use \
                 another provider (RANKWAY_PROVIDER=tcp)"
            ),
            NetError::NoAddressSpace { provider, left, needed } => write!(
                f,
                "{provider}: this process may map {left} bytes more and a peer takes up to \
                 {needed}; raise `ulimit -v`"
            ),
            NetError::LockLimit { provider, call, code, text, limit } => write!(
                f,
                "{provider}: {call} failed: {text} ({code}); this process may lock {limit} bytes \
                 for devices (RLIMIT_MEMLOCK), and what it registers counts: raise the limit \
                 (ulimit -l unlimited; memlock in /etc/security/limits.conf; LimitMEMLOCK= of a \
                 service or batch daemon) or use a provider that locks nothing \
                 (RANKWAY_PROVIDER=tcp)"
            ),
            NetError::Call { provider, call, code, text } => {
                write!(f, "{provider}: {call} failed: {text} ({code})")
            }
            NetError::Address { provider, reason } => {
                write!(f, "{provider}: not an address of this provider: {reason}")
            }
            NetError::Full { provider, reason } => write!(
                f,
                "{provider}: {reason}; some providers reach few hundred endpoints, and contexts opened \
                 again are new ones"
            ),
            NetError::Corrupt => f.write_str(
                "its queue on this node holds what no packet looks like, so nothing is taken \
                 from it any more; something overwrote its memory, or the ranks are not all of \
                 one version",
            ),
            NetError::Lost { provider } => write!(
                f,
                "{provider}: packets between it and this process were lost, as by a connection that \
                 broke, so nothing more goes from one to the other; look for resets and errors of the \
                 network (nstat, ip -s link), and start the job again"
            ),
            NetError::Operation { provider, code, text, .. } => {
                write!(f, "{provider}: an operation failed: {text} ({code})")
            }
        }
    }
}

impl Error for NetError {}

impl NetError {
    /// Returns true if it says that there is no such process (of the node), or that the
    /// connection broke: the peer's death shows soon.
    pub(crate) fn tells_end(&self) -> bool {
        let Some((provider, code)) = self.code() else { return false };
        use libc::{ECANCELED, ECONNABORTED, ECONNRESET, ENOTCONN, EPIPE, ESRCH};
        match (provider, i32::try_from(code.abs())) {
            // Its own numbers (ucs/type/status.h): an I/O error, nothing there, cancelled, too late,
            // refused, not connected, reset; failures of links and of endpoints.
            ("ucx", Ok(code)) => matches!(code, 3 | 6 | 16 | 20 | 23..=25 | 40..=89),
            (_, Ok(code)) => {
                matches!(code, ESRCH | ECANCELED | ECONNRESET | ECONNABORTED | ENOTCONN | EPIPE)
            }
            (_, Err(_)) => false,
        }
    }

    /// Returns true if it says that the peer has no memory under a key, or not any more.
    pub(crate) fn tells_no_memory(&self) -> bool {
        let is_it = |(provider, code): (&str, i64)| {
            provider != "ucx" && code.abs() == i64::from(libc::ENOKEY)
        };
        self.code().is_some_and(is_it)
    }

    /// The provider, and the number it gave.
    fn code(&self) -> Option<(&str, i64)> {
        match self {
            NetError::Call { provider, code, .. } | NetError::Operation { provider, code, .. } => {
                Some((provider, *code))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_by_the_numbers_of_each_library() {
        let failed = |provider: &str, code: i32| {
            let (provider, text) = (provider.to_owned(), String::new());
            NetError::Operation { provider, peer: None, code: code.into(), text }.tells_end()
        };
        for (provider, ends, others) in [
            ("ucx", [3, 25, 80, -25], [1, 4, libc::EPIPE]),
            ("tcp", [libc::ESRCH, libc::ECONNRESET, libc::EPIPE, -libc::EPIPE], [1, 25, 80]),
        ] {
            assert!(ends.into_iter().all(|code| failed(provider, code)), "{provider}");
            assert!(!others.into_iter().any(|code| failed(provider, code)), "{provider}");
        }
        assert!(!NetError::Corrupt.tells_end());
    }
}
