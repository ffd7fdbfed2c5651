//! With which providers the members of a window registered their memory, and
//! the keys that follow from it.

use super::state::Column;

/// The key of memory that its owner registered with the provider in question.
/// Only what the owner told of its registrations makes one, so that no
/// operation can be handed to a provider that does not know the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteKey(u64);

impl RemoteKey {
    /// A key that [`Netmod::rkey_unpack`](crate::netmod::Netmod::rkey_unpack)
    /// made for one target; `None` where there is none.
    pub(super) fn unpacked(handle: u64) -> Option<RemoteKey> {
        (handle != 0).then_some(RemoteKey(handle))
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// The providers a member registered its memory with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct With {
    pub(super) network: bool,
    pub(super) local: bool,
}

impl With {
    pub(super) fn bits(self) -> u8 {
        u8::from(self.network) | u8::from(self.local) << 1
    }

    fn of_bits(bits: u64) -> With {
        With { network: bits & 1 != 0, local: bits & 2 != 0 }
    }
}

/// What the members told, by rank.
#[derive(Debug)]
pub(super) struct Registrations {
    with: Column,
    /// Virtual address at the target, or 0 with offset addressing.
    bases: Column,
    keys: Column,
    /// The keys with shared-memory providers, where callers choose them.
    local_keys: Column,
}

/// How all members are reached, where one word serves them all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alike {
    pub(super) network: Option<(u64, RemoteKey)>,
    pub(super) local: Option<RemoteKey>,
}

impl Registrations {
    pub(super) fn new(
        with: Column,
        bases: Column,
        keys: Column,
        local_keys: Column,
    ) -> Registrations {
        Registrations { with, bases, keys, local_keys }
    }

    /// Where a member's memory begins for its network provider, and the key.
    pub(super) fn network(&self, rank: u32) -> Option<(u64, RemoteKey)> {
        let key = RemoteKey(self.keys.get(rank));
        With::of_bits(self.with.get(rank)).network.then(|| (self.bases.get(rank), key))
    }

    /// The key of a member's memory with its shared-memory provider; addresses
    /// are offsets.
    pub(super) fn local(&self, rank: u32) -> Option<RemoteKey> {
        let key = RemoteKey(self.local_keys.get(rank));
        With::of_bits(self.with.get(rank)).local.then_some(key)
    }

    /// Where a member's memory begins, whoever knows it.
    pub(super) fn base(&self, rank: u32) -> u64 {
        self.bases.get(rank)
    }

    /// `None` where members differ.
    pub(super) fn alike(&self) -> Option<Alike> {
        let columns = [&self.with, &self.bases, &self.keys, &self.local_keys];
        let alike = columns.into_iter().all(|column| column.uniform().is_some());
        alike.then(|| Alike { network: self.network(0), local: self.local(0) })
    }

    /// Those of these ranks, in this order.
    pub(super) fn pick(&self, ranks: &[u32]) -> Registrations {
        Registrations {
            with: self.with.pick(ranks),
            bases: self.bases.pick(ranks),
            keys: self.keys.pick(ranks),
            local_keys: self.local_keys.pick(ranks),
        }
    }

    pub(super) fn heap(&self) -> usize {
        [&self.with, &self.bases, &self.keys, &self.local_keys].into_iter().map(Column::heap).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_not_registered_has_no_key() {
        let column = |values: [u64; 4]| Column::new(values.into_iter());
        let all = Registrations::new(
            column([0, 1, 2, 3]),
            column([0; 4]),
            column([7; 4]),
            column([7; 4]),
        );
        let found = |rank| (all.network(rank).is_some(), all.local(rank).is_some());
        assert_eq!(
            [0, 1, 2, 3].map(found),
            [(false, false), (true, false), (false, true), (true, true)]
        );
        assert!(all.alike().is_none());
        let alike = all.pick(&[0, 0]).alike().unwrap();
        assert!(alike.network.is_none() && alike.local.is_none());
        assert_eq!(RemoteKey::unpacked(0), None);
    }
}
