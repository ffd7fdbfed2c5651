//! The providers with which the members of a window registered their memory,
//! and their keys.

use super::column::Column;

/// The key of memory that its owner registered with a provider. It is made only
/// from what the owner sent about its registrations, so that no operation can be
/// handed to a provider that does not know the memory.
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
pub(super) struct Providers {
    pub(super) network: bool,
    pub(super) local: bool,
}

impl Providers {
    pub(super) fn bits(self) -> u8 {
        u8::from(self.network) | u8::from(self.local) << 1
    }

    fn of_bits(bits: u64) -> Providers {
        Providers { network: bits & 1 != 0, local: bits & 2 != 0 }
    }
}

/// The registrations of all members, by rank.
#[derive(Debug)]
pub(super) struct Registrations {
    providers: Column,
    /// Virtual address at the target, or 0 with offset addressing.
    bases: Column,
    keys: Column,
    /// The keys with shared-memory providers, where callers choose them.
    local_keys: Column,
}

/// The keys of all members, where they are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UniformKeys {
    pub(super) network: Option<(u64, RemoteKey)>,
    pub(super) local: Option<RemoteKey>,
}

impl Registrations {
    pub(super) fn new(
        providers: Column,
        bases: Column,
        keys: Column,
        local_keys: Column,
    ) -> Registrations {
        Registrations { providers, bases, keys, local_keys }
    }

    /// Where a member's memory begins for its network provider, and the key.
    pub(super) fn network(&self, rank: u32) -> Option<(u64, RemoteKey)> {
        let key = RemoteKey(self.keys.get(rank));
        Providers::of_bits(self.providers.get(rank)).network.then(|| (self.bases.get(rank), key))
    }

    /// The key of a member's memory with its shared-memory provider; addresses
    /// are offsets.
    pub(super) fn local(&self, rank: u32) -> Option<RemoteKey> {
        let key = RemoteKey(self.local_keys.get(rank));
        Providers::of_bits(self.providers.get(rank)).local.then_some(key)
    }

    /// Where a member's memory begins.
    pub(super) fn base(&self, rank: u32) -> u64 {
        self.bases.get(rank)
    }

    /// `None` where members differ.
    pub(super) fn uniform(&self) -> Option<UniformKeys> {
        let columns = [&self.providers, &self.bases, &self.keys, &self.local_keys];
        let uniform = columns.into_iter().all(|column| column.uniform().is_some());
        uniform.then(|| UniformKeys { network: self.network(0), local: self.local(0) })
    }

    /// The registrations of these ranks, in this order.
    pub(super) fn pick(&self, ranks: &[u32]) -> Registrations {
        Registrations {
            providers: self.providers.pick(ranks),
            bases: self.bases.pick(ranks),
            keys: self.keys.pick(ranks),
            local_keys: self.local_keys.pick(ranks),
        }
    }

    pub(super) fn heap(&self) -> usize {
        [&self.providers, &self.bases, &self.keys, &self.local_keys]
            .into_iter()
            .map(Column::heap)
            .sum()
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
        assert!(all.uniform().is_none());
        let uniform = all.pick(&[0, 0]).uniform().unwrap();
        assert!(uniform.network.is_none() && uniform.local.is_none());
        assert_eq!(RemoteKey::unpacked(0), None);
    }
}
