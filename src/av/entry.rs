//! One address-vector entry: an address and its transport in 64 bits.

use super::AvError;

/// How a peer is reached; the transport bit of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// Through the network provider.
    Network = 0,
    /// On this node: mapped windows, or the shared-memory provider.
    Local = 1,
}

/// A 64-bit address-vector entry. [`Entry::EMPTY`] (zero) means "not inserted".
///
/// Two packings exist, of which a netmod takes one; a table holds one kind only.
///
/// * **index**: `address + 1`, with the transport in bit 63, for libraries that
///   number their peers from 0; the one added keeps index 0 apart from an empty
///   entry. Taking it away again leaves the address of a
///   network peer, and a negative number for a node-local peer and for an empty
///   entry alike: two instructions for both tests and the address
///   ([`Entry::network_index`]).
/// * **handle**: a pointer, whose low three bits are zero, with the transport
///   bits in their place, for libraries whose peers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Entry(u64);

impl Entry {
    /// Not inserted yet.
    pub const EMPTY: Entry = Entry(0);
    const LOCAL: u64 = 1 << 63;
    /// The largest index an entry holds.
    pub const MAX_INDEX: u64 = (1 << 63) - 2;

    /// Packs an index.
    ///
    /// # Errors
    /// [`AvError::Index`] for one above [`Entry::MAX_INDEX`]: bit 63 in use, or
    /// the highest values, which libraries keep for "no address".
    pub const fn index(address: u64, transport: Transport) -> Result<Entry, AvError> {
        if address > Self::MAX_INDEX {
            return Err(AvError::Index(address));
        }
        Ok(Entry((transport as u64) << 63 | (address + 1)))
    }

    /// Unpacks an index; `None` when it is empty.
    #[inline(always)]
    pub const fn as_index(self) -> Option<(u64, Transport)> {
        match self.network_index() {
            Some(address) => Some((address, Transport::Network)),
            None if self.is_empty() => None,
            None => Some(((self.0 & !Self::LOCAL) - 1, Transport::Local)),
        }
    }

    /// The index of an entry if it is reached over the network; `None`
    /// for node-local peers and for an empty entry.
    #[inline(always)]
    pub const fn network_index(self) -> Option<u64> {
        let address = self.0.wrapping_sub(1);
        if address.cast_signed() < 0 { None } else { Some(address) }
    }

    /// Packs a handle with up to three transport bits.
    ///
    /// # Errors
    /// [`AvError::Handle`] for a null or misaligned handle,
    /// [`AvError::TransportBits`] for more than three bits.
    pub const fn handle(endpoint: u64, bits: u8) -> Result<Entry, AvError> {
        if endpoint == 0 || endpoint & 7 != 0 {
            return Err(AvError::Handle(endpoint));
        }
        if bits > 7 {
            return Err(AvError::TransportBits(bits));
        }
        Ok(Entry(endpoint | bits as u64))
    }

    /// Unpacks an entry into handle and transport bits; `None` when empty.
    #[inline(always)]
    pub const fn as_handle(self) -> Option<(u64, u8)> {
        if self.0 == 0 { None } else { Some((self.0 & !7, (self.0 & 7) as u8)) }
    }

    /// Returns true if nothing was inserted here yet.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits as they stand in a table.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// An entry from the bits of a table.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Entry {
        Entry(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn index_edges() {
        for addr in [0, 1, 2, u64::from(u32::MAX), Entry::MAX_INDEX] {
            for t in [Transport::Network, Transport::Local] {
                let e = Entry::index(addr, t).unwrap();
                assert!(!e.is_empty());
                assert_eq!(e.as_index(), Some((addr, t)));
                assert_eq!(e.network_index(), (t == Transport::Network).then_some(addr));
            }
        }
        for addr in [Entry::MAX_INDEX + 1, 1 << 63, u64::MAX] {
            let err = Entry::index(addr, Transport::Network).unwrap_err();
            assert_eq!(err, AvError::Index(addr));
            assert!(err.to_string().contains("63 bits"));
        }
        assert_eq!(Entry::EMPTY.as_index(), None);
        assert_eq!(Entry::EMPTY.network_index(), None);
    }

    #[test]
    fn handles_refuse_what_they_would_lose() {
        assert_eq!(Entry::handle(0, 1), Err(AvError::Handle(0)));
        assert_eq!(Entry::handle(0x1004, 0), Err(AvError::Handle(0x1004)));
        assert_eq!(Entry::handle(0x1000, 8), Err(AvError::TransportBits(8)));
        assert_eq!(Entry::EMPTY.as_handle(), None);
    }

    proptest! {
        #[test]
        fn index_loses_no_bit(addr in 0..=Entry::MAX_INDEX, local: bool) {
            let t = if local { Transport::Local } else { Transport::Network };
            prop_assert_eq!(Entry::index(addr, t).unwrap().as_index(), Some((addr, t)));
        }

        #[test]
        fn handle_loses_no_bit(ep in 1u64..1 << 61, bits in 0u8..8) {
            let ep = ep << 3;
            prop_assert_eq!(Entry::handle(ep, bits).unwrap().as_handle(), Some((ep, bits)));
        }
    }
}
