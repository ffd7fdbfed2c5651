//! The directory of process groups.

use super::{AvError, Entry, Table};
use crate::rankmap::Process;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many process groups can exist at one time. Ids of removed groups are
/// used again.
pub const MAX_GROUPS: u32 = 65_536;

/// The address vectors of all process groups this process knows.
///
/// Group 0 is the world the process was started in; spawned or connected
/// worlds are added later. The directory is demand-zero memory like the
/// tables, so a lookup by *(pgid, lpid)* is two loads and needs no lock.
#[derive(Debug)]
pub struct AddressVector {
    /// Slots of `AtomicPtr<AtomicU64>`, stored in a table's 64-bit words.
    directory: Table,
    /// By pgid; `None` where a group was removed.
    groups: Mutex<Vec<Option<Group>>>,
}

#[derive(Debug)]
struct Group {
    table: Table,
    /// Who has an entry, in the order of the first ones; `None` once they are more
    /// than [`LISTED`].
    listed: Option<Vec<u32>>,
}

/// So many entries of a group are listed, 16 KiB of lpids.
const LISTED: usize = 4096;

impl AddressVector {
    /// An address vector without groups.
    ///
    /// # Errors
    /// [`AvError::Memory`] when the system refuses the directory's address
    /// space.
    pub fn new() -> Result<AddressVector, AvError> {
        let directory = Table::new(MAX_GROUPS, MAX_GROUPS)?;
        Ok(AddressVector { directory, groups: Mutex::default() })
    }

    /// Adds a process group of `size` processes, able to grow to `capacity`,
    /// and returns its pgid: the smallest one free.
    ///
    /// # Errors
    /// [`AvError::TooManyGroups`], [`AvError::Memory`].
    pub fn add(&self, size: u32, capacity: u32) -> Result<u32, AvError> {
        let table = Table::new(size, capacity)?;
        let mut groups = self.lock();
        let pg = groups.iter().position(Option::is_none).unwrap_or(groups.len());
        if pg >= MAX_GROUPS as usize {
            return Err(AvError::TooManyGroups);
        }
        self.slot(pg).store(table.entries().cast_mut(), Ordering::Release);
        if pg == groups.len() {
            groups.push(None);
        }
        groups[pg] = Some(Group { table, listed: Some(Vec::new()) });
        Ok(pg as u32)
    }

    /// Adds groups of nobody until there are no more.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        let empty = || Some(Group { table: Table::new(0, 0).unwrap(), listed: None });
        self.lock().resize_with(MAX_GROUPS as usize, empty);
    }

    /// Removes a process group and gives its memory back.
    ///
    /// # Errors
    /// [`AvError::NoGroup`].
    ///
    /// # Safety
    /// No rank map or [`Lookup`](crate::rankmap::Lookup) that refers to this
    /// group may be used afterwards, in any thread.
    pub unsafe fn remove(&self, pg: u32) -> Result<(), AvError> {
        let mut groups = self.lock();
        let group = groups.get_mut(pg as usize).and_then(Option::take);
        let group = group.ok_or(AvError::NoGroup(pg))?;
        self.slot(pg as usize).store(core::ptr::null_mut(), Ordering::Release);
        drop(group);
        Ok(())
    }

    /// Grows a process group to `size` processes, in place.
    ///
    /// # Errors
    /// [`AvError::NoGroup`], [`AvError::Capacity`], [`AvError::Memory`].
    pub fn grow(&self, pg: u32, size: u32) -> Result<(), AvError> {
        self.with(pg, |group| group.table.grow(size))?
    }

    /// Number of processes of a group.
    ///
    /// # Errors
    /// [`AvError::NoGroup`].
    pub fn size(&self, pg: u32) -> Result<u32, AvError> {
        self.with(pg, |group| group.table.len())
    }

    /// The entry of a process; [`Entry::EMPTY`] when it was not inserted.
    ///
    /// # Errors
    /// [`AvError::NoGroup`], [`AvError::Lpid`].
    pub fn get(&self, p: Process) -> Result<Entry, AvError> {
        self.with(p.pg, |Group { table, .. }| {
            table.get(p.lpid).ok_or_else(|| out_of_range(p, table))
        })?
    }

    /// Stores the entry of a process, or takes it out: [`Entry::EMPTY`].
    ///
    /// # Errors
    /// [`AvError::NoGroup`], [`AvError::Lpid`].
    pub fn set(&self, p: Process, entry: Entry) -> Result<(), AvError> {
        self.with(p.pg, |Group { table, listed }| {
            let before = table.get(p.lpid).ok_or_else(|| out_of_range(p, table))?;
            if entry.is_empty() {
                listed.iter_mut().for_each(|lpids| lpids.retain(|&lpid| lpid != p.lpid));
            } else if before.is_empty() {
                match listed {
                    Some(lpids) if lpids.len() < LISTED => lpids.push(p.lpid),
                    _ => *listed = None,
                }
            }
            table.set(p.lpid, entry).ok_or_else(|| out_of_range(p, table))
        })?
    }

    /// The processes of a group that have an entry, by lpid, where they are few: `None`
    /// where more than 4096 were given one, or there is no such group. Time by their
    /// number, not by the group's size.
    pub fn inserted(&self, pg: u32) -> Option<Vec<u32>> {
        self.with(pg, |group| group.listed.clone()).ok().flatten()
    }

    /// The directory as lookups use it: for each pgid the address of its
    /// entries, or null. Valid while the address vector lives.
    #[inline(always)]
    pub fn directory(&self) -> *const AtomicPtr<AtomicU64> {
        self.directory.entries().cast()
    }

    /// The address ranges in use, for accounting: the directory's used part
    /// first, then each group's table.
    pub fn ranges(&self) -> Vec<(*const u8, usize)> {
        let groups = self.lock();
        let used = groups.len() * size_of::<AtomicPtr<AtomicU64>>();
        let directory = (self.directory.range().0, used);
        let tables = groups.iter().flatten().map(|group| group.table.range());
        std::iter::once(directory).chain(tables).collect()
    }

    fn with<R>(&self, pg: u32, f: impl FnOnce(&mut Group) -> R) -> Result<R, AvError> {
        let mut groups = self.lock();
        groups.get_mut(pg as usize).and_then(Option::as_mut).map(f).ok_or(AvError::NoGroup(pg))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Group>>> {
        // A panic in another thread leaves the list whole: each change is one
        // assignment.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, pg: usize) -> &AtomicPtr<AtomicU64> {
        debug_assert!(pg < MAX_GROUPS as usize);
        // SAFETY: pg < MAX_GROUPS, a slot is no larger than the 64-bit words
        // the directory has that many of, and zero is a null pointer.
        unsafe { &*self.directory().add(pg) }
    }
}

fn out_of_range(p: Process, t: &Table) -> AvError {
    AvError::Lpid { pg: p.pg, lpid: p.lpid, size: t.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::av::Transport;

    fn entry(addr: u64) -> Entry {
        Entry::index(addr, Transport::Network).unwrap()
    }

    #[test]
    fn groups_are_apart_and_ids_are_used_again() {
        let av = AddressVector::new().unwrap();
        for pg in 0..3 {
            assert_eq!(av.add(10, 10).unwrap(), pg);
            av.set(Process { pg, lpid: 4 }, entry(u64::from(pg))).unwrap();
        }
        for pg in 0..3 {
            assert_eq!(av.get(Process { pg, lpid: 4 }).unwrap(), entry(u64::from(pg)));
            assert_eq!(av.get(Process { pg, lpid: 5 }).unwrap(), Entry::EMPTY);
        }
        // SAFETY: no lookup refers to group 1.
        unsafe { av.remove(1) }.unwrap();
        assert_eq!(av.get(Process { pg: 1, lpid: 4 }), Err(AvError::NoGroup(1)));
        assert_eq!(av.add(2, 2).unwrap(), 1);
        assert_eq!(av.get(Process { pg: 1, lpid: 1 }).unwrap(), Entry::EMPTY);
        let past = AvError::Lpid { pg: 1, lpid: 2, size: 2 };
        assert_eq!(av.get(Process { pg: 1, lpid: 2 }), Err(past));
    }

    #[test]
    fn who_has_an_entry_is_listed_while_they_are_few() {
        let av = AddressVector::new().unwrap();
        let many = LISTED as u32 + 1;
        av.add(many, many).unwrap();
        for lpid in [7, 3, 7] {
            av.set(Process { pg: 0, lpid }, entry(1)).unwrap();
        }
        assert_eq!(av.inserted(0), Some(vec![7, 3]));
        av.set(Process { pg: 0, lpid: 7 }, Entry::EMPTY).unwrap();
        assert_eq!(av.inserted(0), Some(vec![3]));
        assert_eq!(av.inserted(1), None);
        (1..many).for_each(|lpid| av.set(Process { pg: 0, lpid }, entry(1)).unwrap());
        assert_eq!(av.inserted(0).map(|lpids| lpids.len()), Some(LISTED));
        av.set(Process { pg: 0, lpid: 0 }, entry(1)).unwrap();
        assert_eq!(av.inserted(0), None);
    }

    #[test]
    fn many_spawns_do_not_run_out() {
        let av = AddressVector::new().unwrap();
        av.add(4, 4).unwrap();
        for _ in 0..5000 {
            let pg = av.add(4, 4).unwrap();
            assert_eq!(pg, 1);
            // SAFETY: nothing refers to the group just added.
            unsafe { av.remove(pg) }.unwrap();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn lookups_go_on_while_groups_are_added() {
        let av = AddressVector::new().unwrap();
        av.add(8, 8).unwrap();
        av.set(Process { pg: 0, lpid: 3 }, entry(3)).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| (0..1000).for_each(|_| assert!(av.add(8, 8).is_ok())));
            for _ in 0..100_000 {
                // SAFETY: group 0 exists and has 8 entries.
                let e = unsafe { &*(*av.directory()).load(Ordering::Acquire).add(3) };
                assert_eq!(e.load(Ordering::Acquire), entry(3).to_bits());
            }
        });
    }
}
