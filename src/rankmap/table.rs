//! Dense tables (lut of lpids, mlut of processes) and strided views of them.
//!
//! A table is made once and shared by every map that selects from it: a slice,
//! a stride or the reversal of a lut is a [`View`] and costs no table bytes.

use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(super) struct Table<T> {
    pub(super) entries: Box<[T]>,
    /// Positions sorted by (entry, position); made on the first `rank_of`.
    inverse: OnceLock<Box<[u32]>>,
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

impl<T: Copy + Ord> View<T> {
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

    /// The smallest rank below `size` with this entry. Logarithmic in the
    /// table; a view with a step of a table that repeats entries also passes
    /// over the repeats it skips.
    pub(super) fn rank_of(&self, size: u32, entry: T) -> Option<u32> {
        let entries = &self.table.entries;
        let order = self.table.inverse.get_or_init(|| invert(entries));
        let (start, step) = (i64::from(self.start), i64::from(self.step));
        let last = start + step * (i64::from(size) - 1);
        let (low, high) = (start.min(last), start.max(last));
        let from = order.partition_point(|&p| (entries[p as usize], i64::from(p)) < (entry, low));
        let to = order.partition_point(|&p| (entries[p as usize], i64::from(p)) <= (entry, high));
        let rank = |&p: &u32| {
            let distance = i64::from(p) - start;
            if step == 0 {
                return (distance == 0).then_some(0);
            }
            (distance % step == 0).then_some((distance / step) as u32)
        };
        let mut hits = order[from..to].iter();
        if step < 0 { hits.rev().find_map(rank) } else { hits.find_map(rank) }
    }

    /// Whether both are the same selection of the same table.
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
            + self.table.inverse.get().map_or(0, |order| size_of_val(&**order))
    }
}

#[cold]
fn invert<T: Copy + Ord>(entries: &[T]) -> Box<[u32]> {
    let mut order: Box<[u32]> = (0..entries.len() as u32).collect();
    order.sort_unstable_by_key(|&position| (entries[position as usize], position));
    order
}
