//! What signals do in this process.

/// Has `handler` called for a signal; what it did before. `None` for one that is ignored (`nohup`):
/// it stays so.
///
/// # Safety
/// The handler is the default, or takes what these flags have it given and does only what it may
/// amidst anything.
pub(crate) unsafe fn handle(
    signal: libc::c_int,
    handler: libc::sighandler_t,
    sa_flags: libc::c_int,
) -> Option<libc::sigaction> {
    // SAFETY: all-zero is a valid sigaction; structures of ours; the handler is the caller's.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let new = libc::sigaction { sa_sigaction: handler, sa_flags, ..std::mem::zeroed() };
        libc::sigaction(signal, &new, std::ptr::null_mut());
        Some(before)
    }
}
