//! Remote keys that are handles: packed as the members sent them, and unpacked
//! for the endpoints of one access.
//!
//! Two stores, both of netmods with [`Netmod::KEY_HANDLES`] only. A window
//! keeps every member's packed key, the bytes they share once. An access keeps
//! a demand-zero table of 16 bytes a rank, filled on first use: a rank nobody
//! puts to costs no memory.

use super::Error;
use super::registration::{RemoteKey, RemoteKeyEntry};
use crate::av::Table;
use crate::device::DeviceError;
use crate::netmod::Netmod;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The packed keys of a window's members.
#[derive(Debug)]
pub(super) enum PackedKeys {
    /// All of one length, or nothing at all.
    EqualLength(EqualLength),
    /// Of several lengths.
    Ragged(Box<[Box<[u8]>]>),
}

/// Keys of one length: the bytes that all share once, the others by rank.
#[derive(Debug)]
pub(super) struct EqualLength {
    /// How many ranks there are.
    ranks: usize,
    common: Box<[u8]>,
    /// Places of the bytes that differ.
    places: Box<[u16]>,
    /// Those bytes, rank after rank.
    differing: Box<[u8]>,
    /// A bit for each rank without a key; empty when there is none.
    absent: Box<[u64]>,
}

impl PackedKeys {
    pub(super) fn new(keys: &[Vec<u8>]) -> PackedKeys {
        let some = || keys.iter().filter(|k| !k.is_empty());
        let Some(first) = some().next() else {
            return PackedKeys::Ragged(Box::default());
        };
        let len = first.len();
        if len > usize::from(u16::MAX) || some().any(|k| k.len() != len) {
            return PackedKeys::Ragged(keys.iter().map(|k| k.clone().into()).collect());
        }
        let differs = |at: &u16| some().any(|k| k[usize::from(*at)] != first[usize::from(*at)]);
        let places: Box<[u16]> = (0..len as u16).filter(differs).collect();
        let byte = |k: &Vec<u8>, at: u16| k.get(usize::from(at)).copied().unwrap_or(0);
        let differing =
            keys.iter().flat_map(|k| places.iter().map(move |&at| byte(k, at))).collect();
        let mut absent = Vec::new();
        if some().count() < keys.len() {
            absent.resize(keys.len().div_ceil(64), 0_u64);
            for at in (0..keys.len()).filter(|&at| keys[at].is_empty()) {
                absent[at / 64] |= 1 << (at % 64);
            }
        }
        let common = first.clone().into();
        PackedKeys::EqualLength(EqualLength {
            ranks: keys.len(),
            common,
            places,
            differing,
            absent: absent.into(),
        })
    }

    /// The packed key of a rank; `None` where it has none.
    pub(super) fn get(&self, rank: u32) -> Option<Vec<u8>> {
        let at = rank as usize;
        match self {
            PackedKeys::Ragged(all) => all.get(at).filter(|k| !k.is_empty()).map(|k| k.to_vec()),
            PackedKeys::EqualLength(keys) => {
                let absent = keys.absent.get(at / 64).is_some_and(|w| w >> (at % 64) & 1 != 0);
                if absent || at >= keys.ranks {
                    return None;
                }
                let mut key = keys.common.to_vec();
                let width = keys.places.len();
                let differing = keys.differing.get(at * width..(at + 1) * width)?;
                for (&place, &byte) in keys.places.iter().zip(differing) {
                    key[usize::from(place)] = byte;
                }
                Some(key)
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap(&self) -> usize {
        match self {
            PackedKeys::Ragged(all) => all.iter().map(|k| size_of_val(k) + k.len()).sum(),
            PackedKeys::EqualLength(a) => {
                a.common.len()
                    + size_of_val(&*a.places)
                    + a.differing.len()
                    + size_of_val(&*a.absent)
            }
        }
    }
}

/// The unpacked keys of one access.
pub(super) struct UnpackedKeys<N: Netmod> {
    /// Two words a rank; absent where keys are no handles.
    table: Option<Table>,
    /// Every handle, by the window's rank: ranks of an access may name one
    /// process several times.
    unpacked: RefCell<BTreeMap<u32, RemoteKey>>,
    netmod: Arc<N>,
}

impl<N: Netmod> UnpackedKeys<N> {
    pub(super) fn new(netmod: &Arc<N>, ranks: u32) -> Result<UnpackedKeys<N>, Error> {
        let words = ranks.saturating_mul(2);
        let table = N::KEY_HANDLES.then(|| Table::new(words, words)).transpose();
        Ok(UnpackedKeys {
            table: table.map_err(DeviceError::from)?,
            unpacked: RefCell::default(),
            netmod: Arc::clone(netmod),
        })
    }

    /// The table, a [`RemoteKeyEntry`] for each rank; null where keys are no
    /// handles.
    pub(super) fn start(&self) -> *const RemoteKeyEntry {
        self.table.as_ref().map_or(std::ptr::null(), |t| t.entries().cast())
    }

    /// The handle of a window's rank, made by `unpack` the first time.
    pub(super) fn get_or_unpack(
        &self,
        rank: u32,
        unpack: impl FnOnce() -> Result<RemoteKey, Error>,
    ) -> Result<RemoteKey, Error> {
        if let Some(&key) = self.unpacked.borrow().get(&rank) {
            return Ok(key);
        }
        let key = unpack()?;
        self.unpacked.borrow_mut().insert(rank, key);
        Ok(key)
    }

    /// Gives every handle back; no operation follows.
    pub(super) fn destroy(&self) {
        for key in self.unpacked.take().into_values() {
            // SAFETY: it came from `unpack`, and the window's end forbids
            // further use.
            unsafe { self.netmod.rkey_destroy(key.bits()) };
        }
    }
}

impl<N: Netmod> Drop for UnpackedKeys<N> {
    fn drop(&mut self) {
        self.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_published_comes_back(
            base in proptest::collection::vec(any::<u8>(), 1..40),
            changes in proptest::collection::vec(
                (any::<bool>(), any::<prop::sample::Index>(), any::<u8>()), 1..90),
            ragged: bool,
        ) {
            let mut keys: Vec<Vec<u8>> = changes.iter().map(|(absent, at, byte)| {
                let mut key = base.clone();
                key[at.index(base.len())] = *byte;
                if *absent { Vec::new() } else { key }
            }).collect();
            if ragged {
                keys[0].push(7);
            }
            let packed = PackedKeys::new(&keys);
            for (rank, key) in (0..).zip(&keys) {
                prop_assert_eq!(packed.get(rank).unwrap_or_default(), key.clone());
            }
            prop_assert_eq!(packed.get(keys.len() as u32), None);
        }
    }

    #[test]
    fn a_thousand_keys_of_one_kind_are_a_few_bytes_each() {
        let key = |rank: u32| [&[7; 30][..], &rank.to_le_bytes()].concat();
        let keys: Vec<_> = (0..1000).map(key).collect();
        assert!(PackedKeys::new(&keys).heap() < 2100);
    }
}
