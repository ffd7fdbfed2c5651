//! Bytes of any lengths, by a library's allgather of equal ones.

/// Collects the members' bytes, by rank: their lengths first, then all padded to the longest.
/// `equal` collects as many bytes of each, one after the other.
///
/// # Errors
/// Those of `equal`.
pub fn gather_padded<E>(
    mine: &[u8],
    mut equal: impl FnMut(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<Vec<u8>>, E> {
    let lengths = equal(&(mine.len() as u64).to_le_bytes())?;
    let lengths = lengths.as_chunks::<8>().0.iter().map(|&it| u64::from_le_bytes(it) as usize);
    let lengths: Vec<usize> = lengths.collect();
    let most = lengths.iter().copied().max().unwrap_or(0);
    let mut padded = mine.to_vec();
    padded.resize(most, 0);
    let all = equal(&padded)?;
    let piece = |(i, &len): (usize, &usize)| all[i * most..i * most + len].to_vec();
    Ok(lengths.iter().enumerate().map(piece).collect())
}
