//! What a process publishes so that peers can reach it: its raw addresses.

use super::node::Place;

/// The key it is published under.
pub(super) const KEY: &str = "rankway.addresses";
/// The same for processes of other jobs.
pub(super) const ABROAD: &str = "rankway.addresses.abroad";
const MAGIC: &[u8; 4] = b"RWa2";

/// Raw addresses by transport; empty where a provider is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) local: Vec<u8>,
    pub(super) network: Vec<u8>,
    /// For processes of the same node.
    pub(super) inbox: Option<Place>,
}

impl Card {
    /// Magic, the inbox (0 for none), then each address behind its length in
    /// two bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let Place { pid, fd } = self.inbox.unwrap_or(Place { pid: 0, fd: 0 });
        out.extend_from_slice(&pid.to_le_bytes());
        out.extend_from_slice(&fd.to_le_bytes());
        for address in [&self.local, &self.network] {
            out.extend_from_slice(&(address.len() as u16).to_le_bytes());
            out.extend_from_slice(address);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Card> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (pid, rest) = rest.split_first_chunk()?;
        let (fd, mut rest) = rest.split_first_chunk()?;
        let place = Place { pid: u32::from_le_bytes(*pid), fd: i32::from_le_bytes(*fd) };
        let inbox = Some(place).filter(|place| place.pid != 0);
        let mut take = || {
            let (len, behind) = rest.split_first_chunk::<2>()?;
            let (address, behind) =
                behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = behind;
            Some(address.to_vec())
        };
        let card = Card { local: take()?, network: take()?, inbox };
        rest.is_empty().then_some(card)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_whole(local: Vec<u8>, network: Vec<u8>, pid: u32, fd: i32) {
            let inbox = Some(Place { pid, fd }).filter(|place| place.pid != 0);
            let card = Card { local, network, inbox };
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
