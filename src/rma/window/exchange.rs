//! What the members of a window tell each other while it is made.

use crate::device::Key;
use crate::netmod::Netmod;
use crate::rma::column::Column;
use crate::rma::keys::PackedKeys;
use crate::rma::registration::{OwnKeys, Registration, Registrations};
use crate::rma::{Communicator, Error, ErrorKind};
use crate::settings::WINDOW_KEYS;

/// What a member says of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnMemory {
    pub(super) bytes: usize,
    pub(super) unit: usize,
    /// Of the address modulo 8, where it is not the window's own.
    pub(super) misalignment: u8,
}

/// In the place of a misalignment, beside a unit of 0: memory that was refused for this.
const NULL_MEMORY: u8 = 8;
const TOO_LONG: u8 = 9;

impl OwnMemory {
    /// Refused where no memory is as long.
    pub(super) fn possible(self) -> Result<OwnMemory, ErrorKind> {
        let OwnMemory { bytes: len, .. } = self;
        if len > isize::MAX as usize { Err(ErrorKind::Length { len }) } else { Ok(self) }
    }
}

/// The memory of all members, by rank.
pub(super) struct MemberInfos {
    pub(super) bytes: Column,
    pub(super) units: Column,
    pub(super) misalignments: Column,
    /// The greatest of their keys, which is free in all of them.
    pub(super) agreed: u64,
    /// This process's, until it takes that one.
    pub(super) key: Key,
}

/// Exchanges the members' sizes and units, and agrees on a key. Where the arguments of one are
/// refused all fail, that one for its own reason.
pub(super) fn exchange_infos<N: Netmod>(
    communicator: &Communicator<N>,
    own: Result<OwnMemory, ErrorKind>,
) -> Result<MemberInfos, Error> {
    // A unit of 0 is refused by all; behind it stands what else was wrong.
    let refused = |misalignment| OwnMemory { bytes: 0, unit: 0, misalignment };
    let (OwnMemory { bytes, unit, misalignment }, why) = match own {
        Ok(own) => (own, None),
        Err(why @ ErrorKind::NullBuffer { .. }) => (refused(NULL_MEMORY), Some(why)),
        Err(why) => (refused(TOO_LONG), Some(why)),
    };
    let key = communicator.device().reserve_key();
    let said = [bytes as u64, unit as u64, u64::from(misalignment)];
    let words = communicator.gather(&said, key.value());
    if let Some(why) = why {
        return Err(why.into());
    }
    let words = words?;
    if let Some(refused) = words.column(1).ranks_of(0)?.get(0) {
        let why = match words.column(2).get(refused.lpid) as u8 {
            NULL_MEMORY => "gave null memory with a length: give memory, or 0 bytes",
            TOO_LONG => "gave a length that no memory has: it is in bytes, whatever the unit",
            _ => "gave a displacement unit below 1: give the bytes of an element, or 1",
        };
        return Err(communicator.refused_by(refused.lpid, why));
    }
    Ok(MemberInfos {
        bytes: Column::of(words.column(0))?,
        units: Column::of(words.column(1))?,
        misalignments: Column::of(words.column(2))?,
        agreed: words.greatest(),
        key,
    })
}

/// The keys of all members.
pub(super) struct MemberKeys {
    pub(super) registered: Registrations,
    /// Where keys are handles, unless they are asked for.
    pub(super) packed_keys: Option<PackedKeys>,
}

/// Keys that differ between members take so many bytes at most, unless the variable says
/// otherwise; else each member is asked for its own at its first use.
const KEYS: usize = 64 << 10;

/// Of packed keys: they are to be asked for; there is one too long for that. Above both: a
/// member has no memory, the first of them.
const ASKS: u64 = 1;
const LONG: u64 = 2;
const NO_MEMORY: u64 = 1 << 32;

/// Exchanges the target addresses and keys of all members' memory; `None` where
/// this one has none.
pub(super) fn exchange_keys<N: Netmod>(
    communicator: &Communicator<N>,
    own: Option<&OwnKeys>,
) -> Result<MemberKeys, Error> {
    let most = WINDOW_KEYS.get().map_or(KEYS, |bytes| bytes as usize);
    let size = communicator.size() as usize;
    let says = match own.map(|own| own.packed.len()) {
        None => NO_MEMORY + u64::from(u32::MAX - communicator.rank()),
        Some(len) if len > OwnKeys::LONGEST => LONG,
        Some(len) if len.saturating_mul(size) > most => ASKS,
        Some(_) => 0,
    };
    let said = own.map_or([0; Registration::WORDS], |own| own.registration.words());
    // (With handles their length decides, not these few words.)
    let most = if N::KEY_HANDLES { usize::MAX } else { most };
    let words = communicator.gather_within(most, &said, says)?;
    let says = words.greatest();
    if says >= NO_MEMORY {
        let rank = u64::from(u32::MAX) - (says - NO_MEMORY);
        let why = "has no memory for the window; its limits there say why (ulimit -a, /dev/shm)";
        return Err(communicator.without_memory(rank as u32, why));
    }
    let Some([providers, bases, keys, local]) = words.columns().filter(|_| says != ASKS) else {
        return Ok(MemberKeys { registered: Registrations::Asked, packed_keys: None });
    };
    let columns =
        [Column::of(providers)?, Column::of(bases)?, Column::of(keys)?, Column::of(local)?];
    let packed_keys = match own {
        Some(own) if N::KEY_HANDLES => Some(PackedKeys::new(&communicator.allgather(&own.packed)?)),
        _ => None,
    };
    Ok(MemberKeys { registered: Registrations::Told(columns), packed_keys })
}
