//! What an endpoint publishes, and how it travels.

use crate::shm::segment::Place;

/// What an endpoint publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) table: Place,
    pub(super) rings: Place,
    /// Places of the rings.
    pub(super) places: u32,
    /// Where the rings are mapped in their own process.
    pub(super) start: u64,
}

impl Address {
    const LEN: usize = 2 * Place::LEN + 12;

    pub(super) fn encode(&self) -> Vec<u8> {
        let Address { table, rings, places, start } = self;
        let (places, start) = (places.to_le_bytes(), start.to_le_bytes());
        [&table.encode()[..], &rings.encode(), &places, &start].concat()
    }

    pub(super) fn decode(raw: &[u8]) -> Option<Address> {
        let raw: &[u8; Address::LEN] = raw.try_into().ok()?;
        let (table, rest) = raw.split_first_chunk::<{ Place::LEN }>()?;
        let (rings, rest) = rest.split_first_chunk::<{ Place::LEN }>()?;
        let (places, start) = rest.split_first_chunk::<4>()?;
        Some(Address {
            table: Place::decode(table),
            rings: Place::decode(rings),
            places: u32::from_le_bytes(*places),
            start: u64::from_le_bytes(start.try_into().ok()?),
        })
    }
}
