//! What the members of a window tell each other while it is made.

use crate::device::Key;
use crate::netmod::Netmod;
use crate::rma::column::Column;
use crate::rma::keys::PackedKeys;
use crate::rma::registration::{Providers, Registrations};
use crate::rma::{Communicator, Error, ErrorKind};
use crate::shm::segment::Place;

/// What each member tells the others before a window is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberInfo {
    /// The member's arguments are refused, so that all fail alike.
    invalid: bool,
    /// Address of the memory modulo 8, where it is not the window's own.
    pub(super) misalignment: u8,
    pub(super) bytes: u64,
    pub(super) unit: u64,
    pub(super) key: u64,
    /// The memory file of the node's segment, from the member that made it.
    pub(super) memory: Option<Place>,
}

impl MemberInfo {
    /// Without the place of memory.
    const LEN: usize = 25;

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.invalid) | self.misalignment << 1];
        for word in [self.bytes, self.unit, self.key] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend(self.memory.iter().flat_map(Place::encode));
        out
    }

    fn decode(bytes: &[u8]) -> Option<MemberInfo> {
        let (b, behind) = bytes.split_first_chunk::<{ MemberInfo::LEN }>()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let memory = match behind {
            [] => None,
            place => Some(Place::decode(place.try_into().ok()?)),
        };
        Some(MemberInfo {
            invalid: b[0] & 1 != 0,
            misalignment: b[0] >> 1,
            bytes: word(1),
            unit: word(9),
            key: word(17),
            memory,
        })
    }
}

/// Exchanges the members' sizes, units, keys and memory files.
pub(super) fn exchange_infos<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    unit: usize,
    memory: Option<Place>,
    misalignment: u8,
) -> Result<(Vec<MemberInfo>, Key), Error> {
    let key = communicator.device().reserve_key();
    let mine = MemberInfo {
        invalid: unit == 0,
        misalignment,
        bytes: bytes as u64,
        unit: unit as u64,
        key: key.value(),
        memory,
    };
    let all = communicator.allgather(&mine.encode())?;
    let decode = |(rank, bytes): (usize, &Vec<u8>)| {
        let why = || format!("rank {rank} is not making a window in this call");
        MemberInfo::decode(bytes).ok_or_else(|| Error::from(ErrorKind::Arguments(why())))
    };
    let infos = all.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    if let Some(rank) = infos.iter().position(|o| o.invalid) {
        let why = format!("rank {rank} gave a displacement unit of 0 or null memory");
        return Err(ErrorKind::Arguments(why).into());
    }
    Ok((infos, key))
}

/// The address and the keys of this process's memory.
pub(super) struct OwnKeys<'a> {
    pub(super) providers: Providers,
    pub(super) base: u64,
    pub(super) key: u64,
    /// The key towards peers on the node.
    pub(super) local: u64,
    /// Where keys are handles.
    pub(super) packed_key: &'a [u8],
}

/// The same of all members.
pub(super) struct MemberKeys {
    pub(super) registered: Registrations,
    pub(super) packed_keys: PackedKeys,
}

/// Exchanges the target addresses and keys of all members' memory; `None` where
/// this one has none. A member with the agreed key and addressing by offset
/// sends one byte.
pub(super) fn exchange_keys<N: Netmod>(
    communicator: &Communicator<N>,
    own_keys: Option<OwnKeys<'_>>,
    agreed: u64,
) -> Result<MemberKeys, Error> {
    let mine = match own_keys {
        None => vec![],
        Some(OwnKeys { providers, base: 0, key, local, packed_key: [] })
            if (key, local) == (agreed, agreed) =>
        {
            vec![providers.bits()]
        }
        Some(t) => {
            let words = [t.base, t.key, t.local].map(u64::to_le_bytes);
            [&[t.providers.bits()], words.as_flattened(), t.packed_key].concat()
        }
    };
    let all = communicator.allgather(&mine)?;
    if let Some(rank) = all.iter().position(Vec::is_empty) {
        let why = format!("rank {rank} has no memory for the window");
        return Err(ErrorKind::Arguments(why).into());
    }
    let word = |at: usize, usual: u64| {
        all.iter().map(move |b| {
            let bytes = b.get(at..at + 8).and_then(|s| s.try_into().ok());
            bytes.map_or(usual, u64::from_le_bytes)
        })
    };
    let providers = Column::new(all.iter().map(|b| u64::from(b[0])));
    let (bases, keys) = (Column::new(word(1, 0)), Column::new(word(9, agreed)));
    let registered = Registrations::new(providers, bases, keys, Column::new(word(17, agreed)));
    let packed_keys: Vec<Vec<u8>> =
        all.into_iter().map(|mut b| b.split_off(b.len().min(25))).collect();
    Ok(MemberKeys { registered, packed_keys: PackedKeys::new(&packed_keys) })
}
