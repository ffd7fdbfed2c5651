//! Barriers for the threads of other processes; membarrier(2), Linux 4.16.

/// From linux/membarrier.h.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> bool {
    // Miri does not know the call.
    if cfg!(miri) {
        return false;
    }
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Has this process take part in the others' barriers. `false`: the system does
/// not let it. Takes no time where it does already.
pub(crate) fn join() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED)
}

/// Has every running thread of every process that joined pass a full barrier
/// before this returns; those that do not run have passed one.
pub(crate) fn raise() -> bool {
    membarrier(GLOBAL_EXPEDITED)
}
