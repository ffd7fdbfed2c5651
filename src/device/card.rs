//! What a process publishes so that peers can reach it: its raw addresses.

/// The key it is published under.
pub(super) const KEY: &str = "rankway.addresses";
/// The same for processes of other jobs.
pub(super) const ABROAD: &str = "rankway.addresses.abroad";
const MAGIC: &[u8; 4] = b"RWa1";

/// Raw addresses by transport; empty where a provider is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) local: Vec<u8>,
    pub(super) network: Vec<u8>,
}

impl Card {
    /// Magic, then each address behind its length in two bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for address in [&self.local, &self.network] {
            out.extend_from_slice(&(address.len() as u16).to_le_bytes());
            out.extend_from_slice(address);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Card> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut take = || {
            let (len, behind) = rest.split_first_chunk::<2>()?;
            let (address, behind) =
                behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = behind;
            Some(address.to_vec())
        };
        let card = Card { local: take()?, network: take()? };
        rest.is_empty().then_some(card)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_whole(local: Vec<u8>, network: Vec<u8>) {
            let card = Card { local, network };
            let bytes = card.encode();
            prop_assert_eq!(Card::decode(&bytes), Some(card));
            prop_assert_eq!(Card::decode(&bytes[..bytes.len() - 1]), None);
        }

        #[test]
        fn garbage_is_refused_not_read_past(bytes: Vec<u8>) {
            prop_assert!(bytes.starts_with(MAGIC) || Card::decode(&bytes).is_none());
        }
    }
}
