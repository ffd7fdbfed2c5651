//! Addresses and keys as they travel, with a mark and a checksum: UCX unpacks
//! them without a bounds check.

/// Marks a worker's address.
pub(super) const ADDRESS: u8 = 0xa7;
/// Marks the key of a memory region.
pub(super) const KEY: u8 = 0xb3;

/// A checksum (Fletcher) that a lost or changed byte changes.
fn sum(bytes: &[u8]) -> u8 {
    let step = |(a, b): (u32, u32), byte: &u8| {
        let a = (a + u32::from(*byte) + 1) % 251;
        (a, (a + b) % 251)
    };
    let (a, b) = bytes.iter().fold((1, 0), step);
    (a ^ b.rotate_left(3)) as u8
}

/// Mark, sum, bytes.
pub(super) fn wrap(mark: u8, bytes: &[u8]) -> Vec<u8> {
    [&[mark, sum(bytes)], bytes].concat()
}

/// The bytes again, or what is wrong with them.
pub(super) fn unwrap(mark: u8, framed: &[u8]) -> Result<&[u8], String> {
    match framed {
        [m, s, bytes @ ..] if *m == mark && !bytes.is_empty() && *s == sum(bytes) => Ok(bytes),
        [m, _, ..] if *m == mark => Err(format!("{} bytes whose sum is wrong", framed.len())),
        _ => Err(format!("{} bytes without the mark {mark:#04x}", framed.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_whole(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
            let framed = wrap(KEY, &bytes);
            prop_assert_eq!(unwrap(KEY, &framed), Ok(&bytes[..]));
            prop_assert!(unwrap(ADDRESS, &framed).is_err());
        }

        #[test]
        fn a_lost_byte_shows(bytes in proptest::collection::vec(any::<u8>(), 2..300)) {
            let framed = wrap(KEY, &bytes);
            let _ = unwrap(KEY, &framed[..framed.len() - 1]);
            let mut changed = framed.clone();
            changed[1] ^= 1;
            prop_assert!(unwrap(KEY, &changed).is_err());
        }
    }

    #[test]
    fn short_ones_are_refused() {
        for bytes in [&[][..], &[KEY], &[KEY, 1], &[1, 2, 3]] {
            assert!(unwrap(KEY, bytes).is_err(), "{bytes:?}");
        }
    }
}
