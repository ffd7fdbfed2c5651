//! Dense tables (lut of lpids, mlut of processes) and strided views of them.
//!
//! A table is made once and shared by every map that selects from it: a slice,
//! a stride or the reversal of a lut is a [`View`] and costs no table bytes.

use std::sync::{Arc, OnceLock};

use super::compact::bitmap::Bitmap;
use super::process::LPID_MAX;

/// Bits of a bitmap of the entries for each of them, at most: as much again as
/// their order.
const BITS_MAX: u64 = 32;
/// Most process groups that have such a bitmap.
const WINDOWS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Table<T> {
    pub(super) entries: Box<[T]>,
    /// Made on the first `rank_of`; few tables are asked.
    inverse: OnceLock<Box<Inverse>>,
}

/// Positions by entry.
#[derive(Debug)]
struct Inverse {
    /// Positions sorted by (entry, position).
    order: Box<[u32]>,
    /// Which entries there are, if they differ: how many come before an entry
    /// is its place in the order.
    members: Option<Members>,
}

/// The entries as bits.
#[derive(Debug)]
struct Members {
    windows: Box<[Window]>,
    bits: Bitmap,
}

/// The stretch of entries of one process group.
#[derive(Clone, Copy, Debug)]
struct Window {
    low: u64,
    high: u64,
    /// Bit of `low`.
    base: u32,
}

impl Members {
    /// `None` for entries that lie too far apart or of too many groups.
    fn windows<T: Copy + Into<u64>>(entries: &[T]) -> Option<Box<[Window]>> {
        let mut windows: Vec<Window> = Vec::new();
        let mut at = 0;
        for &entry in entries {
            let entry: u64 = entry.into();
            let same = |window: &Window| window.low >> 32 == entry >> 32;
            if !windows.get(at).is_some_and(same) {
                at = windows.iter().position(same).unwrap_or(windows.len());
                if at == WINDOWS_MAX {
                    return None;
                }
                if at == windows.len() {
                    windows.push(Window { low: entry, high: entry, base: 0 });
                }
            }
            windows[at].low = windows[at].low.min(entry);
            windows[at].high = windows[at].high.max(entry);
        }
        windows.sort_unstable_by_key(|window| window.low);
        let mut base = 0;
        for window in &mut windows {
            window.base = u32::try_from(base).ok()?;
            base += window.high - window.low + 1;
        }
        let most = (entries.len() as u64 * BITS_MAX).min(u64::from(LPID_MAX));
        (base <= most).then(|| windows.into_boxed_slice())
    }

    fn new<T: Copy + Into<u64>>(entries: &[T]) -> Option<Members> {
        let windows = Members::windows(entries)?;
        let last = windows.last()?;
        let last = last.base + (last.high - last.low) as u32;
        let bit = |&entry: &T| bit(&windows, entry.into()).unwrap_or(0);
        let bits = Bitmap::build(0, last, entries.iter().map(bit));
        // One bit for two entries: they do not differ.
        (bits.len() as usize == entries.len()).then_some(Members { windows, bits })
    }

    /// How many entries are below one of them.
    #[inline]
    fn rank(&self, entry: u64) -> Option<u32> {
        self.bits.rank(bit(&self.windows, entry)?)
    }
}

#[inline]
fn bit(windows: &[Window], entry: u64) -> Option<u32> {
    let at = match windows.len() {
        1 => 0,
        _ => windows.partition_point(|window| window.high < entry),
    };
    let window = windows.get(at)?;
    let inside = (window.low..=window.high).contains(&entry);
    inside.then(|| window.base + (entry - window.low) as u32)
}

/// Every `step`-th entry of a table from `start` on.
#[derive(Debug)]
pub(super) struct View<T> {
    pub(super) table: Arc<Table<T>>,
    pub(super) start: u32,
    pub(super) step: i32,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        View { table: Arc::clone(&self.table), start: self.start, step: self.step }
    }
}

impl<T: Copy + Ord + Into<u64>> View<T> {
    pub(super) fn new(entries: Vec<T>) -> View<T> {
        let table = Table { entries: entries.into_boxed_slice(), inverse: OnceLock::new() };
        View { table: Arc::new(table), start: 0, step: 1 }
    }

    /// `start + step · rank` of this view: no new table.
    pub(super) fn select(&self, start: u32, step: i32) -> View<T> {
        View {
            table: Arc::clone(&self.table),
            start: self.position(start),
            step: self.step.wrapping_mul(step),
        }
    }

    #[inline]
    pub(super) fn position(&self, rank: u32) -> u32 {
        self.start.wrapping_add((self.step as u32).wrapping_mul(rank))
    }

    #[inline]
    pub(super) fn get(&self, rank: u32) -> T {
        self.table.entries[self.position(rank) as usize]
    }

    /// The smallest rank below `size` with this entry: two loads if entries
    /// differ and lie close together, else logarithmic in the table; a view with
    /// a step of a table that repeats entries also passes over the repeats it
    /// skips.
    pub(super) fn rank_of(&self, size: u32, entry: T) -> Option<u32> {
        let entries = &self.table.entries;
        let inverse = self.table.inverse.get_or_init(|| Box::new(invert(entries)));
        let (start, step) = (i64::from(self.start), i64::from(self.step));
        let rank = |&p: &u32| {
            let distance = i64::from(p) - start;
            if step == 0 {
                return (distance == 0).then_some(0);
            }
            (distance % step == 0).then_some((distance / step) as u32)
        };
        if let Some(members) = &inverse.members {
            let position = inverse.order[members.rank(entry.into())? as usize];
            if step == 1 {
                return position.checked_sub(self.start).filter(|&rank| rank < size);
            }
            // A rank before the first wraps, past any size.
            return rank(&position).filter(|&rank| rank < size);
        }
        let order = &inverse.order;
        let last = start + step * (i64::from(size) - 1);
        let (low, high) = (start.min(last), start.max(last));
        let from = order.partition_point(|&p| (entries[p as usize], i64::from(p)) < (entry, low));
        let to = order.partition_point(|&p| (entries[p as usize], i64::from(p)) <= (entry, high));
        let mut hits = order[from..to].iter();
        if step < 0 { hits.rev().find_map(rank) } else { hits.find_map(rank) }
    }

    /// Returns true if both are the same selection of the same table.
    pub(super) fn same(&self, other: &View<T>) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
            && self.start == other.start
            && self.step == other.step
    }

    /// The table, its inverse once made, and the reference counts.
    pub(super) fn heap_bytes(&self) -> usize {
        2 * size_of::<usize>()
            + size_of::<Table<T>>()
            + size_of_val(&*self.table.entries)
            + self
                .table
                .inverse
                .get()
                .map_or(0, |inverse| size_of::<Inverse>() + inverse.heap_bytes())
    }
}

impl Inverse {
    fn heap_bytes(&self) -> usize {
        let members = self.members.as_ref();
        size_of_val(&*self.order)
            + members.map_or(0, |m| m.bits.heap_bytes() + size_of_val(&*m.windows))
    }
}

#[cold]
fn invert<T: Copy + Ord + Into<u64>>(entries: &[T]) -> Inverse {
    if let Some(members) = Members::new(entries) {
        let mut order = vec![0; entries.len()].into_boxed_slice();
        for (position, &entry) in (0..).zip(entries) {
            if let Some(place) = members.rank(entry.into()) {
                order[place as usize] = position;
            }
        }
        return Inverse { order, members: Some(members) };
    }
    let mut order: Box<[u32]> = (0..entries.len() as u32).collect();
    order.sort_unstable_by_key(|&position| (entries[position as usize], position));
    Inverse { order, members: None }
}
