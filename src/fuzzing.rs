//! What fuzz targets reach that programs do not; there with `--cfg fuzzing`
//! only. Each takes bytes as a peer, a launcher or a stranger may say them.

/// A ring of the node, and a sender that writes anything.
pub fn ring(script: &[u8]) {
    crate::shm::ring::fuzz(script);
}

/// Greetings and frames of the set-up channel.
pub fn frames(bytes: &[u8]) {
    crate::boot::fuzz_control(bytes);
}

/// Lines of a PMI-1 process manager.
pub fn pmi1(lines: &[u8]) {
    crate::boot::pmi1::fuzz(lines);
}
