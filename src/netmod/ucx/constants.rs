//! Sizes and times that this netmod chooses.

use crate::netmod::Costs;
use std::time::Duration;

/// Longest put that is copied at the call: short or, out of line, through a
/// buffer of the worker's. UCX itself puts as much at once through shared memory
/// and copies as much into a tcp packet.
pub(super) const INJECT: usize = 8192;
/// Longest packet: longer bodies go by bulk messages.
pub(super) const PACKET: usize = 16 * 1024;
/// Packets up to this are copied before they are handed to UCX.
pub(super) const PACKET_INJECT: usize = 4096;
/// Operations under way at one time on a worker; one more is answered with
/// "again".
pub(super) const SLOTS: usize = 1024;
/// Of those, bulk receives: they wait for a peer, which may wait for what is sent to it.
pub(super) const RECEIVES: usize = SLOTS / 2;
/// The number of the active message that packets are.
pub(super) const PACKETS: u32 = 0;
/// How long closing a worker waits for its flush, which on a busy machine takes a while where a
/// peer is only being met.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same where somebody died, since a flush may never end then.
pub(super) const CLOSE_TIMEOUT_AFTER_DEATH: Duration = Duration::from_millis(300);
/// Failures nobody waits for that are kept until the next poll.
pub(super) const FAILURES: usize = 64;
/// What operations cost. UCX has no iov for RMA: each block is a put of its own.
pub(super) const COSTS: Costs =
    Costs { call: 450.0, origin_entry: 0.0, target_entry: 0.0, entries: 1, byte: 0.12 };
