//! What an endpoint publishes, and how it travels.

use crate::shm::segment::Place;

/// What an endpoint publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) table: Place,
    /// Of the same process.
    pub(super) rings: Place,
    /// Places of the rings.
    pub(super) places: u32,
    /// Where the rings are mapped in their own process.
    pub(super) start: u64,
}

impl Address {
    /// (The name of an MPI port has space for 116 bytes in all.)
    const LEN: usize = Place::LEN + Place::BESIDE + 12;

    pub(super) fn encode(&self) -> Vec<u8> {
        let Address { table, rings, places, start } = self;
        let (places, start) = (places.to_le_bytes(), start.to_le_bytes());
        [&table.encode()[..], &rings.encode_beside(), &places, &start].concat()
    }

    pub(super) fn decode(raw: &[u8]) -> Option<Address> {
        let raw: &[u8; Address::LEN] = raw.try_into().ok()?;
        let (table, rest) = raw.split_first_chunk::<{ Place::LEN }>()?;
        let (rings, rest) = rest.split_first_chunk::<{ Place::BESIDE }>()?;
        let (places, start) = rest.split_first_chunk::<4>()?;
        let table = Place::decode(table);
        Some(Address {
            table,
            rings: table.decode_beside(rings),
            places: u32::from_le_bytes(*places),
            start: u64::from_le_bytes(start.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(from: u64) -> Place {
        Place {
            pid: 7,
            fd: from as i32,
            pid_namespace: 8,
            device: from + 1,
            inode: from + 2,
            nonce: from + 3,
        }
    }

    #[test]
    fn comes_back_whole() {
        let address = Address { table: place(1 << 40), rings: place(9), places: 5, start: 6 };
        let encoded = address.encode();
        assert_eq!((Address::decode(&encoded), encoded.len()), (Some(address), Address::LEN));
        assert_eq!(Address::decode(&encoded[1..]), None);
    }
}
