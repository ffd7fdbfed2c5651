//! The providers with which the members of a window registered their memory,
//! and their keys.
//!
//! A [`RemoteKey`] is made only here: from what the owner sent about its
//! registrations, or by a netmod from the packed key that the owner sent. The words
//! that hot code reads keys from ([`InjectTarget`], [`RemoteKeyEntry`]) are private,
//! and answer `None` where there is no key. So no operation can be handed to a
//! provider that does not know the memory.

use super::column::Column;
use crate::netmod::{NetError, Netmod};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;

/// The key of memory that its owner registered with a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteKey(u64);

impl RemoteKey {
    /// The key that a netmod makes of a packed one, for one target; `None` if it
    /// makes none.
    ///
    /// # Safety
    /// That of [`Netmod::rkey_unpack`].
    pub(super) unsafe fn unpack<N: Netmod>(
        netmod: &N,
        endpoint: &N::Endpoint,
        dest: u64,
        packed: &[u8],
    ) -> Result<Option<RemoteKey>, NetError> {
        // SAFETY: the caller's.
        let handle = unsafe { netmod.rkey_unpack(endpoint, dest, packed) }?;
        Ok((handle != 0).then_some(RemoteKey(handle)))
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// The longest put that may be handed to the provider inline, bytes; 0 where there is
/// no key for it. Comes from an [`InjectTarget`] alone.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct InjectLimit(usize);

/// Where an inline put goes, if the network knows the memory of all members alike.
/// The words are those that C reads too, in this order; they are made together.
#[repr(C)]
pub(super) struct InjectTarget<N> {
    limit: InjectLimit,
    unit: usize,
    base: u64,
    key: u64,
    /// The longest *short* put, and how many displacements it may have: one test each
    /// where range and limit would be four. What does not pass is longer, or near the
    /// end of the memory, and may be right all the same.
    short_len: usize,
    short_disps: usize,
    netmod: PhantomData<fn(&N)>,
}

impl<N: Netmod> InjectTarget<N> {
    /// Where unit, base and key stand, in bytes from the start.
    pub(super) const LAYOUT: [usize; 3] = [
        offset_of!(InjectTarget<N>, unit),
        offset_of!(InjectTarget<N>, base),
        offset_of!(InjectTarget<N>, key),
    ];

    /// Of memory that begins at a base and has a key, where it is registered with
    /// the network. `bytes`: of each member; `longest`: what the network copies at the
    /// call, no matter for `stored` puts, which do not go there. Where keys are handles,
    /// each rank has its own ([`RemoteKeyEntry`]).
    pub(super) fn new(
        unit: u64,
        bytes: u64,
        registered: Option<(u64, RemoteKey)>,
        longest: usize,
        stored: bool,
    ) -> Self {
        let known = N::KEY_HANDLES || registered.is_some();
        let (base, key) = registered.map_or((0, 0), |(base, key)| (base, key.0));
        let limit = InjectLimit(if known { longest } else { 0 });
        // No more than the last 64th of the memory is outside, nor an aligned word.
        let longest = if stored { bytes } else { limit.0 as u64 };
        let short_len = (bytes / 64).max(8).min(bytes).min(longest);
        let short_disps = displacements(bytes, unit, short_len);
        let (unit, short_len) = (unit as usize, short_len as usize);
        InjectTarget { limit, unit, base, key, short_len, short_disps, netmod: PhantomData }
    }

    /// What C may put inline, which it does only with one key for all ranks.
    pub(super) fn limit_in_c(&self) -> InjectLimit {
        if N::KEY_HANDLES { InjectLimit(0) } else { self.limit }
    }

    /// Bytes of a displacement.
    #[inline(always)]
    pub(super) fn unit(&self) -> usize {
        self.unit
    }

    /// Returns true if a put of so many bytes, not 0, may be inline.
    #[inline(always)]
    pub(super) fn takes(&self, len: usize) -> bool {
        len.wrapping_sub(1) < self.limit.0
    }

    /// The key for a put that may be inline, where one serves all ranks.
    #[inline(always)]
    pub(super) fn key_for(&self, len: usize) -> Option<RemoteKey> {
        (!N::KEY_HANDLES && self.takes(len)).then_some(RemoteKey(self.key))
    }

    /// Returns true for a short put: at a displacement from which all its bytes are in
    /// the memory. `false` says nothing of the put.
    #[inline(always)]
    pub(super) fn is_short(&self, disp: usize, len: usize) -> bool {
        disp < self.short_disps && len.wrapping_sub(1) < self.short_len
    }

    /// The key for a short put, where one serves all ranks.
    ///
    /// # Safety
    /// [`InjectTarget::is_short`], of a target whose short puts the provider takes.
    #[inline(always)]
    pub(super) unsafe fn key_of_short(&self) -> RemoteKey {
        debug_assert!(self.short_len <= self.limit.0, "there is a key for short puts");
        RemoteKey(self.key)
    }

    /// The address of this offset, where the key is one for all ranks.
    #[inline(always)]
    pub(super) fn address(&self, offset: usize) -> u64 {
        self.base.wrapping_add(offset as u64)
    }
}

/// How many displacements leave room for `len` bytes, not 0, in `bytes`.
pub(super) fn displacements(bytes: u64, unit: u64, len: u64) -> usize {
    match bytes.checked_sub(len).and_then(|last| last.checked_div(unit)) {
        Some(last) if len > 0 => (last as usize).saturating_add(1),
        _ => 0,
    }
}

/// How one rank's memory is reached, where keys are handles: not known yet, mapped
/// here, or by a key. All zeroes: not known.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct RemoteKeyEntry {
    /// 0 where the memory is mapped.
    key: Cell<u64>,
    base: Cell<u64>,
}

const _: () = assert!(size_of::<RemoteKeyEntry>() == 16);

impl RemoteKeyEntry {
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.base.get() != 0
    }

    /// The key, if the memory is reached by one.
    #[inline(always)]
    pub(super) fn key(&self) -> Option<RemoteKey> {
        let key = self.key.get();
        (key != 0).then_some(RemoteKey(key))
    }

    /// The address of this offset for the provider, where there is a key.
    #[inline(always)]
    pub(super) fn address(&self, offset: usize) -> u64 {
        self.base.get().wrapping_add(offset as u64)
    }

    /// Where the memory is mapped here, if so.
    #[inline(always)]
    pub(super) fn mapped(&self) -> Option<*mut u8> {
        let base = self.base.get();
        (self.key.get() == 0 && base != 0).then_some(base as *mut u8)
    }

    pub(super) fn set_mapped(&self, start: *mut u8) {
        self.key.set(0);
        self.base.set(start.addr() as u64);
    }

    pub(super) fn set_key(&self, base: u64, key: RemoteKey) {
        self.key.set(key.0);
        self.base.set(base);
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

/// What one member tells of its registrations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    providers: Providers,
    /// Virtual address at the target, or 0 with offset addressing.
    base: u64,
    key: u64,
    /// The key with shared-memory providers, where callers choose them.
    local_key: u64,
}

impl Registration {
    /// In words.
    pub(super) const WORDS: usize = 4;

    /// Of this process's own memory.
    pub(super) fn own(providers: Providers, base: u64, key: u64, local_key: u64) -> Registration {
        Registration { providers, base, key, local_key }
    }

    pub(super) fn words(&self) -> [u64; Registration::WORDS] {
        [u64::from(self.providers.bits()), self.base, self.key, self.local_key]
    }

    /// Of the words that the owner sent.
    pub(super) fn of_words(words: [u64; Registration::WORDS]) -> Registration {
        let [providers, base, key, local_key] = words;
        Registration { providers: Providers::of_bits(providers), base, key, local_key }
    }

    /// Where the memory begins for its network provider, and the key.
    pub(super) fn network(&self) -> Option<(u64, RemoteKey)> {
        self.providers.network.then_some((self.base, RemoteKey(self.key)))
    }

    /// The key of the memory with its shared-memory provider; addresses are
    /// offsets.
    pub(super) fn local(&self) -> Option<RemoteKey> {
        self.providers.local.then_some(RemoteKey(self.local_key))
    }

    /// Where the memory begins.
    pub(super) fn base(&self) -> u64 {
        self.base
    }
}

/// What a member tells of its memory: to all while the window is made, or to who asks.
#[derive(Debug)]
pub(super) struct OwnKeys {
    pub(super) registration: Registration,
    /// Where keys are handles.
    pub(super) packed: Box<[u8]>,
}

impl OwnKeys {
    /// The longest packed key that is told to who asks, bytes.
    pub(super) const LONGEST: usize = 256;
    const HEAD: usize = Registration::WORDS * size_of::<u64>();
    /// Bytes told to who asks, at most.
    pub(super) const TOLD: usize = OwnKeys::HEAD + OwnKeys::LONGEST;

    /// For who asks, in a buffer of [`TOLD`](Self::TOLD) zeroes; `None` for what is too long.
    pub(super) fn encode(&self, bytes: &mut [u8]) -> Option<()> {
        let (head, rest) = bytes.split_at_mut_checked(OwnKeys::HEAD)?;
        head.copy_from_slice(self.registration.words().map(u64::to_le_bytes).as_flattened());
        rest.get_mut(..self.packed.len())?.copy_from_slice(&self.packed);
        Some(())
    }

    /// What was told, of a packed key of so many bytes.
    pub(super) fn decode(bytes: &[u8], packed: usize) -> Option<OwnKeys> {
        let (head, rest) = bytes.split_at_checked(OwnKeys::HEAD)?;
        let words = head.as_chunks::<8>().0.try_into().ok()?;
        let words = <[[u8; 8]; Registration::WORDS]>::map(words, u64::from_le_bytes);
        let packed = rest.get(..packed)?.into();
        Some(OwnKeys { registration: Registration::of_words(words), packed })
    }
}

/// The registrations of all members.
#[derive(Debug)]
pub(super) enum Registrations {
    /// Words of [`Registration`], by rank.
    Told([Column; Registration::WORDS]),
    /// Each member is asked at its first use.
    Asked,
}

/// The keys of all members, where they are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UniformKeys {
    pub(super) network: Option<(u64, RemoteKey)>,
    pub(super) local: Option<RemoteKey>,
}

impl Registrations {
    /// A member's; `None` where it is asked.
    pub(super) fn get(&self, rank: u32) -> Option<Registration> {
        let Registrations::Told(columns) = self else { return None };
        Some(Registration::of_words(columns.each_ref().map(|column| column.get(rank))))
    }

    /// `None` where members differ.
    pub(super) fn uniform(&self) -> Option<UniformKeys> {
        let Registrations::Told(columns) = self else { return None };
        if columns.iter().any(|column| column.uniform().is_none()) {
            return None;
        }
        let one = self.get(0)?;
        Some(UniformKeys { network: one.network(), local: one.local() })
    }

    /// The registrations of these ranks, in this order.
    pub(super) fn pick(&self, ranks: &[u32]) -> Registrations {
        match self {
            Registrations::Told(columns) => {
                Registrations::Told(columns.each_ref().map(|column| column.pick(ranks)))
            }
            Registrations::Asked => Registrations::Asked,
        }
    }

    pub(super) fn heap(&self) -> usize {
        match self {
            Registrations::Told(columns) => columns.iter().map(Column::heap).sum(),
            Registrations::Asked => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_not_registered_has_no_key() {
        let column = |values: [u64; 4]| Column::new(values.into_iter());
        let all = [column([0, 1, 2, 3]), column([0; 4]), column([7; 4]), column([7; 4])];
        let all = Registrations::Told(all);
        let found = |rank| {
            let one = all.get(rank).unwrap();
            (one.network().is_some(), one.local().is_some())
        };
        assert_eq!(
            [0, 1, 2, 3].map(found),
            [(false, false), (true, false), (false, true), (true, true)]
        );
        assert!(all.uniform().is_none());
        let uniform = all.pick(&[0, 0]).uniform().unwrap();
        assert!(uniform.network.is_none() && uniform.local.is_none());
    }
}
