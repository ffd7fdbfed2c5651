//! Who sends on which channel: the maps of the communicators that there are.

use rankway::rankmap::RankMap;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

static MAPS: Mutex<BTreeMap<u64, RankMap>> = Mutex::new(BTreeMap::new());

fn maps() -> MutexGuard<'static, BTreeMap<u64, RankMap>> {
    MAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A communicator was made.
pub(crate) fn add(channel: u64, map: &RankMap) {
    maps().insert(channel, map.clone());
}

/// It is deleted.
pub(crate) fn remove(channel: u64) {
    maps().remove(&channel);
}

/// Calls `see` with each process that sends to this one on a channel; false where there is no
/// such communicator.
pub(crate) fn of(channel: u64, see: &mut dyn FnMut(u32)) -> bool {
    let maps = maps();
    let Some(map) = maps.get(&channel) else { return false };
    map.iter().for_each(|process| see(process.lpid));
    true
}
