//! System limits that RDMA devices run into.

use super::NetError;

/// The error of a call that may have wanted to lock memory, with the limit
/// where there is one.
#[cold]
pub(super) fn out_of_memory(error: NetError) -> NetError {
    match (error, crate::ulimit::limit(libc::RLIMIT_MEMLOCK)) {
        (NetError::Call { provider, call, code, text }, Some(limit)) => {
            NetError::LockLimit { provider, call, code, text, limit }
        }
        (error, _) => error,
    }
}
