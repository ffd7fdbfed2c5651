//! What a process publishes so that peers can reach it: its raw addresses.

use crate::shm::segment::Place;

/// The key it is published under.
pub(super) const KEY: &str = "rankway.addresses";
const MAGIC: &[u8; 4] = b"RWa3";

/// Raw addresses by transport; empty where a provider is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BusinessCard {
    pub(super) local: Vec<u8>,
    pub(super) network: Vec<u8>,
    /// For processes of this machine.
    pub(super) inbox: Option<Place>,
    /// Tells a context from those that had its index before, and maybe its addresses; 0 of a
    /// first one.
    pub(super) incarnation: u32,
}

impl BusinessCard {
    /// For processes of other jobs, which the node's provider does not reach.
    pub(super) fn of_network(network: Vec<u8>, inbox: Option<Place>) -> BusinessCard {
        BusinessCard { local: Vec::new(), network, inbox, incarnation: 0 }
    }

    /// Magic, the inbox behind the length of its place (0 for none), then each
    /// address behind its length in two bytes, and the incarnation where there is one.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        match &self.inbox {
            Some(place) => {
                out.push(Place::LEN as u8);
                out.extend_from_slice(&place.encode());
            }
            None => out.push(0),
        }
        for address in [&self.local, &self.network] {
            out.extend_from_slice(&(address.len() as u16).to_le_bytes());
            out.extend_from_slice(address);
        }
        if self.incarnation != 0 {
            out.extend_from_slice(&self.incarnation.to_le_bytes());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<BusinessCard> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (len, mut rest) = rest.split_first()?;
        let inbox = match usize::from(*len) {
            0 => None,
            Place::LEN => {
                let (place, behind) = rest.split_first_chunk()?;
                rest = behind;
                Some(Place::decode(place))
            }
            _ => return None,
        };
        let mut take = || {
            let (len, behind) = rest.split_first_chunk::<2>()?;
            let (address, behind) =
                behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = behind;
            Some(address.to_vec())
        };
        let (local, network) = (take()?, take()?);
        let incarnation = match rest {
            [] => 0,
            _ => u32::from_le_bytes(rest.try_into().ok()?),
        };
        Some(BusinessCard { local, network, inbox, incarnation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_whole(
            local: Vec<u8>,
            network: Vec<u8>,
            inbox: Option<[u8; Place::LEN]>,
            further: bool,
        ) {
            let inbox = inbox.as_ref().map(Place::decode);
            let business_card = BusinessCard { local, network, inbox, incarnation: further.into() };
            let bytes = business_card.encode();
            prop_assert_eq!(BusinessCard::decode(&bytes), Some(business_card));
            prop_assert_eq!(BusinessCard::decode(&bytes[..bytes.len() - 1]), None);
        }

        #[test]
        fn garbage_is_refused_not_read_past(bytes: Vec<u8>) {
            prop_assert!(bytes.starts_with(MAGIC) || BusinessCard::decode(&bytes).is_none());
        }
    }
}
