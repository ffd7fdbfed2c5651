//! System limits that RDMA devices run into.

use super::NetError;

/// Bytes this process may lock, where that is limited (`RLIMIT_MEMLOCK`).
fn lock_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of ours, which the call fills.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (rc == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The error of a call that may have wanted to lock memory, with the limit
/// where there is one.
#[cold]
pub(super) fn out_of_memory(error: NetError) -> NetError {
    match (error, lock_limit()) {
        (NetError::Call { provider, call, code, text }, Some(limit)) => {
            NetError::LockLimit { provider, call, code, text, limit }
        }
        (error, _) => error,
    }
}
