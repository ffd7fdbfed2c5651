//! Sizes that this netmod chooses, and those that providers have without telling.

use super::bindings as sys;
use crate::netmod::{Costs, HEAD};

/// What errors call the library.
pub(super) const LIBRARY: &str = "libfabric";
/// The library's own variable that chooses providers.
pub(super) const PROVIDER_ENV: &str = "FI_PROVIDER";

/// The access rights that a window's memory needs.
pub(super) const REMOTE: u64 = sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;

/// Longest packet, head and body: one of two 4 KiB pages beside its head.
pub(super) const PACKET: usize = 8192 + HEAD;
/// Packets up to this are copied, and their sender's buffer is free at once,
/// where the provider itself would copy less.
pub(super) const COPIED: usize = 1024;

/// shm keeps its peers in a fixed array (`SMR_MAX_PEERS` in its source).
pub(super) const SHM_PEERS: u32 = 256;
/// What an address vector is told to expect at most: it takes more, but has memory for these at
/// once, and a million took 128 MiB.
pub(super) const EXPECTED: u32 = 64;
/// Longest address that is a string (`SMR_NAME_MAX` in shm's source).
pub(super) const MAX_NAME: usize = 256;
/// Iov entries one call takes at most, whatever the provider would.
pub(super) const MAX_IOV: usize = 16;
/// Tracked operations under way at one time on an endpoint; one more is answered
/// with [`AGAIN`](crate::netmod::AGAIN). Smaller than every provider's default
/// queue.
pub(super) const TRACKED: usize = 256;
/// Bulk receives posted at one time on an endpoint. (shm's queue of 1,024 was full with 512, the
/// packets' receives and what comes into those.)
pub(super) const BULK: usize = 384;
/// Packet receives posted on an endpoint.
pub(super) const RING: usize = 64;

/// What operations cost, by what a provider's name contains; the first that fits
/// counts.
pub(super) const COSTS: [(&str, Costs); 4] = [
    (
        "shm",
        Costs { call: 650.0, origin_entry: 350.0, target_entry: 350.0, entries: 4, byte: 0.10 },
    ),
    (
        "sockets",
        Costs { call: 9000.0, origin_entry: 300.0, target_entry: 300.0, entries: 8, byte: 0.50 },
    ),
    (
        "tcp",
        Costs { call: 4500.0, origin_entry: 300.0, target_entry: 300.0, entries: 4, byte: 0.35 },
    ),
    (
        "verbs",
        Costs { call: 250.0, origin_entry: 60.0, target_entry: 60.0, entries: 4, byte: 0.08 },
    ),
];
