//! Numbers of windows.

use rankway::boot::Boot;
use std::sync::atomic::{AtomicU32, Ordering};

/// A number that no other window has, for the first member to tell the others: different
/// within a job, and scattered between jobs that have windows in common.
pub fn next_window_id(boot: &dyn Boot) -> u64 {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let own = u64::from(boot.rank()) << 32 | u64::from(MADE.fetch_add(1, Ordering::Relaxed));
    own ^ boot.job().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
