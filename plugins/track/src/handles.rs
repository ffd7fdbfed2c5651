//! What a handle names: the number of an object, until it is freed.
//!
//! MPI uses handles again at once, so an entry is dropped before its object is freed.
//! Groups and datatypes are counted: the same handle may be given out several times, and
//! is freed as often. A thread keeps the last few that it asked for.

use rankway::track::{Constructor, ObjectKind};
use rankway_preload::ByHandle;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

/// What a handle names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The recorder's number.
    pub(crate) id: u32,
    pub(crate) site: u16,
    pub(crate) constructor: Constructor,
}

#[derive(Default)]
struct Table {
    entries: ByHandle<Entry>,
    /// Those that were there before, of handles that are given out several times.
    earlier: ByHandle<Vec<Entry>>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);
/// Changes with the table.
static GENERATION: AtomicU32 = AtomicU32::new(1);

const SLOTS: usize = 8;
/// Datatypes whose sizes a thread keeps.
pub(crate) const TYPES: usize = 4;

/// What a thread keeps: looked for once in a call.
pub(crate) struct Local {
    generation: Cell<u32>,
    ids: [Cell<(usize, u32)>; SLOTS],
    /// A call of MPI is under way that is recorded: what it calls itself is not.
    inside: Cell<bool>,
    /// Sizes of the datatypes that it asked for last, and when that was.
    pub(crate) sizes: [Cell<(usize, u64)>; TYPES],
    pub(crate) sized: Cell<u32>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            generation: Cell::new(0),
            ids: [const { Cell::new((0, 0)) }; SLOTS],
            inside: Cell::new(false),
            sizes: [const { Cell::new((0, 0)) }; TYPES],
            sized: Cell::new(0),
        }
    };
}

/// Makes what a handle names from now on.
pub(crate) fn insert(handle: usize, entry: Entry) {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_default();
    if let Some(before) = table.entries.insert(handle, entry)
        && matches!(before.constructor.object(), ObjectKind::Group | ObjectKind::Datatype)
    {
        table.earlier.entry(handle).or_default().push(before);
    }
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Drops what a handle named.
pub(crate) fn remove(handle: usize) -> Option<Entry> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.as_mut()?;
    let entry = table.entries.remove(&handle)?;
    if let Some(earlier) = table.earlier.get_mut(&handle) {
        if let Some(before) = earlier.pop() {
            table.entries.insert(handle, before);
        }
        if earlier.is_empty() {
            table.earlier.remove(&handle);
        }
    }
    GENERATION.fetch_add(1, Ordering::Release);
    Some(entry)
}

/// What a handle names.
pub(crate) fn find(handle: usize) -> Option<Entry> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.as_ref()?.entries.get(&handle).copied()
}

/// All there are.
pub(crate) fn all() -> Vec<Entry> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(table) = table.as_ref() else { return Vec::new() };
    table.entries.values().chain(table.earlier.values().flatten()).copied().collect()
}

/// What this thread keeps.
#[inline(always)]
pub(crate) fn with<R>(work: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(work)
}

impl Local {
    /// The number of what a handle names, 0 if it is not known; `lost` is asked for what is
    /// in no table.
    #[inline]
    pub(crate) fn id_of(&self, handle: usize, lost: impl FnOnce(usize) -> u32) -> u32 {
        let generation = GENERATION.load(Ordering::Acquire);
        if self.generation.get() != generation {
            self.ids.iter().for_each(|slot| slot.set((0, 0)));
            self.generation.set(generation);
        }
        let slot = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 3);
        let slot = &self.ids[slot as usize % SLOTS];
        let (known, id) = slot.get();
        if known == handle {
            return id;
        }
        let id = find(handle).map_or_else(|| lost(handle), |entry| entry.id);
        slot.set((handle, id));
        id
    }

    /// Says that a call of MPI is under way in this thread; returns true if one was already.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        self.inside.replace(true)
    }

    /// Ends what [`Local::enter`] began, as that was before.
    #[inline]
    pub(crate) fn leave(&self, before: bool) {
        self.inside.set(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handle that is given out twice names the one, then the other; freed twice it
    /// names nothing.
    #[test]
    fn handles_are_used_again() {
        let entry = |id, constructor| Entry { id, site: 0, constructor };
        let id = |handle| with(|local| local.id_of(handle, |_| 77));
        insert(5, entry(1, Constructor::CommGroup));
        assert_eq!(id(5), 1);
        insert(5, entry(2, Constructor::CommGroup));
        assert_eq!((id(5), all().len()), (2, 2));
        assert_eq!(remove(5).map(|entry| entry.id), Some(2));
        assert_eq!((id(5), all().len()), (1, 1));
        assert_eq!(remove(5).map(|entry| entry.id), Some(1));
        assert!(remove(5).is_none());
        assert_eq!(id(5), 77);
        insert(9, entry(3, Constructor::Dup));
        insert(9, entry(4, Constructor::Dup));
        assert_eq!((id(9), all().len()), (4, 1));
        with(|local| {
            assert!(!local.enter());
            assert!(local.enter());
            local.leave(true);
            assert!(local.enter());
            local.leave(false);
            assert!(!local.enter());
            local.leave(false);
        });
    }
}
