//! Values in a launcher's key-value space that holds short text: as hex digits, in as
//! many pieces as they need. Asks no launcher itself: `pmi1` and plug-ins under an
//! MPI library that has met the launcher bring their own calls.

use super::os;

/// Key and value lengths of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key, with the zero that ends it.
    pub key: usize,
    /// Bytes of a piece of a value.
    pub piece: usize,
}

/// A number for the job whose space has this name, as
/// [`Boot::job`](super::Boot::job) asks. Not 0.
pub fn job_of(space: &str) -> u64 {
    os::fnv1a(space.as_bytes()).max(1)
}

impl Limits {
    /// Name of piece `piece` of `rank`'s `key`, such as any key-value space
    /// takes: plain characters, short.
    fn name(&self, rank: u32, key: &str, piece: usize) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = format!("{rank}.{piece}.{key}");
        if key.chars().all(plain) && !key.starts_with('_') && name.len() < self.key {
            return name;
        }
        format!("{rank}.{piece}._{:016x}{:x}", os::fnv1a(key.as_bytes()), key.len())
    }

    /// Stores a value: calls `put` with the name and the text of each piece.
    ///
    /// # Errors
    /// Those of `put`, at the first.
    pub fn put<E>(
        &self,
        rank: u32,
        key: &str,
        value: &[u8],
        mut put: impl FnMut(&str, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // The first piece tells the length of the whole.
        let text = format!("{}.{hex}", value.len());
        for (index, piece) in text.as_bytes().chunks(self.piece.max(1)).enumerate() {
            put(&self.name(rank, key, index), &String::from_utf8_lossy(piece))?;
        }
        Ok(())
    }

    /// The value that was stored so: calls `get` with the name of each piece.
    ///
    /// # Errors
    /// Those of `get`, at the first; what `wrong` makes of text that was not stored so.
    pub fn get<E>(
        &self,
        rank: u32,
        key: &str,
        mut get: impl FnMut(&str) -> Result<String, E>,
        wrong: impl Fn(&str) -> E,
    ) -> Result<Vec<u8>, E> {
        /// Digits of the longest length there can be.
        const LENGTH: usize = 20;
        let mut text = String::new();
        let mut whole: Option<(usize, usize)> = None;
        for index in 0.. {
            let piece = get(&self.name(rank, key, index))?;
            text.push_str(&piece);
            if whole.is_none() {
                let length = text.split_once('.').map(|(n, _)| (n.len(), n));
                whole = length.and_then(|(at, n)| Some((at + 1, n.parse().ok()?)));
            }
            let Some((at, length)) = whole else {
                // Short pieces may hold digits of it alone.
                let digits = text.bytes().all(|c| c.is_ascii_digit()) && text.len() < LENGTH;
                if digits && !piece.is_empty() {
                    continue;
                }
                return Err(wrong("a value without a length"));
            };
            let end = length.checked_mul(2).and_then(|digits| digits.checked_add(at));
            let end = end.ok_or_else(|| wrong("a value longer than memory"))?;
            if text.len() >= end {
                let value = from_hex(&text.as_bytes()[at..]);
                return value.ok_or_else(|| wrong("a value that is not hexadecimal"));
            }
            if piece.is_empty() {
                return Err(wrong("a value that ends before its length"));
            }
        }
        unreachable!("the loop above only ends by returning")
    }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    let pairs = text.chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn hex_survives(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(from_hex(hex.as_bytes()), Some(bytes));
            if !hex.is_empty() {
                prop_assert_eq!(from_hex(&hex.as_bytes()[1..]), None);
            }
        }

        #[test]
        fn values_come_back_whole(
            value in proptest::collection::vec(any::<u8>(), 0..200), key in ".{0,90}", piece in 1..80_usize
        ) {
            let (limits, mut space) = (Limits { key: 64, piece }, HashMap::new());
            let stored: Result<(), ()> = limits.put(7, &key, &value, |name, text| {
                assert!(name.len() < 64 && !name.contains([' ', '=']) && text.len() <= piece);
                assert!(space.insert(name.to_owned(), text.to_owned()).is_none());
                Ok(())
            });
            prop_assert_eq!(stored, Ok(()));
            let get = |name: &str| space.get(name).cloned().ok_or(());
            prop_assert_eq!(limits.get(7, &key, get, |_| ()), Ok(value));
            prop_assert!(limits.get(8, &key, get, |_| ()).is_err());
        }
    }
}
