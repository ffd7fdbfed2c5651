//! Why a netmod could not be opened, or an operation failed.

use thiserror::Error;

/// Why a network library, a provider or one of its calls failed.
#[derive(Debug, Error, Clone)]
#[non_exhaustive]
pub enum NetError {
    /// The network library could not be opened.
    #[error("{0}")]
    Library(String),
    /// No netmod has this name.
    #[error("there is no netmod '{wanted}'; netmods are {}", have.join(" and "))]
    NoNetmod {
        /// What was asked for.
        wanted: String,
        /// What there is.
        have: &'static [&'static str],
    },
    /// No provider of this name serves what is needed.
    #[error(
        "provider '{wanted}' is not there; this libfabric offers: {}; name one of them in \
         RANKWAY_PROVIDER, or unset it and FI_PROVIDER to have one chosen",
        have.join(", ")
    )]
    NoProvider {
        /// What was asked for.
        wanted: String,
        /// What the library has.
        have: Vec<String>,
    },
    /// The provider is there but has no one-sided operations.
    #[error(
        "provider '{provider}' has no RMA on reliable datagram endpoints, which windows need; \
         use another (rankway info lists them) or unset FI_PROVIDER"
    )]
    NoRma {
        /// The provider.
        provider: String,
    },
    /// Shared memory is full.
    #[error(
        "{provider}: {place} has {free} bytes free and {needed} may be needed (an endpoint takes \
         up to 16 MiB, and libfabric wants space for one a processor); remove what is left there, \
         enlarge it (mount -o remount,size=...), or use another provider (RANKWAY_PROVIDER=tcp)"
    )]
    NoSpace {
        /// The provider's name.
        provider: String,
        /// The file system.
        place: &'static str,
        /// Bytes that are free there.
        free: u64,
        /// Bytes it should have.
        needed: u64,
    },
    /// The process may not map what a peer takes.
    #[error(
        "{provider}: this process may map {left} bytes more and a peer takes up to {needed}; \
         raise `ulimit -v`"
    )]
    NoAddressSpace {
        /// The provider's name.
        provider: String,
        /// Bytes that may still be mapped.
        left: u64,
        /// Bytes it should be.
        needed: u64,
    },
    /// Memory could not be locked for the device.
    #[error(
        "{provider}: {call} failed: {text} ({code}); this process may lock {limit} bytes for \
         devices (RLIMIT_MEMLOCK), and what it registers counts: raise the limit (ulimit -l \
         unlimited; memlock in /etc/security/limits.conf; LimitMEMLOCK= of a service or batch \
         daemon) or use a provider that locks nothing (RANKWAY_PROVIDER=tcp)"
    )]
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
    #[error("{provider}: {call} failed: {text} ({code})")]
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
    #[error("{provider}: not an address of this provider: {reason}")]
    Address {
        /// The provider's name.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A peer wrote into this process's shared memory what Rankway never writes.
    #[error(
        "its queue on this node holds what no packet looks like, so nothing is taken from it any \
         more; something overwrote its memory, or the ranks are not all of one version"
    )]
    Corrupt,
    /// An operation failed after it was issued.
    #[error("{provider}: an operation failed: {text} ({code})")]
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
