//! What is kept for each peer in use, at no cost for the others.

use crate::av::{AvError, Entry, Table};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A `T` for each peer that was asked for, by world rank: eight demand-zero
/// bytes of address space for a peer, and a box for those in use. A box stays
/// where it is until the whole is dropped.
pub(crate) struct PerPeer<T> {
    table: Table,
    known: RefCell<Vec<u32>>,
    owns: PhantomData<Box<T>>,
}

impl<T: Default> PerPeer<T> {
    pub(crate) fn new(universe: u32) -> Result<PerPeer<T>, AvError> {
        let table = Table::new(universe, universe)?;
        Ok(PerPeer { table, known: RefCell::default(), owns: PhantomData })
    }

    /// What is kept for a world rank, if anything is.
    #[inline(always)]
    pub(crate) fn get(&self, peer: u32) -> Option<&T> {
        if peer >= self.table.len() {
            return None;
        }
        // SAFETY: an entry of the table, which lives as long. A word is 0 or a box's
        // pointer, made below and freed with the table; values are only ever shared.
        unsafe {
            let word = (*self.table.entries().add(peer as usize)).load(Ordering::Acquire);
            (word as *const T).as_ref()
        }
    }

    /// The same, made now if need be; `None` for a rank that does not exist.
    #[inline(always)]
    pub(crate) fn get_or_new(&self, peer: u32) -> Option<&T> {
        match self.get(peer) {
            None => self.make(peer),
            known => known,
        }
    }

    #[cold]
    fn make(&self, peer: u32) -> Option<&T> {
        if peer >= self.table.len() {
            return None;
        }
        let value = Box::into_raw(Box::<T>::default());
        self.known.borrow_mut().push(peer);
        self.table.set(peer, Entry::from_bits(value as u64))?;
        self.get(peer)
    }

    /// The world ranks for which something is kept.
    pub(crate) fn known(&self) -> Vec<u32> {
        self.known.borrow().clone()
    }
}

impl<T> Drop for PerPeer<T> {
    fn drop(&mut self) {
        for &peer in self.known.get_mut().iter() {
            if let Some(entry) = self.table.get(peer) {
                let value = entry.to_bits() as *mut T;
                if !value.is_null() {
                    // SAFETY: made by Box::into_raw, dropped once.
                    drop(unsafe { Box::from_raw(value) });
                }
            }
        }
    }
}
