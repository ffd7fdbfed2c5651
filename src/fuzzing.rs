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

/// Colors and keys of a split's members.
pub fn combs(bytes: &[u8]) {
    let Some((&ranks, bytes)) = bytes.split_first() else { return };
    let ranks = u32::from(ranks) * 64;
    let mut detector = crate::rankmap::Detector::new();
    if detector.push_encoded(ranks, bytes).is_ok()
        && let Ok(map) = detector.finish()
    {
        assert_eq!(map.len(), ranks);
        assert!(map.iter().all(|it| it.lpid <= crate::rankmap::LPID_MAX));
    }
}

/// Lines of a PMI-1 process manager.
pub fn pmi1(lines: &[u8]) {
    crate::boot::pmi1::fuzz(lines);
}
