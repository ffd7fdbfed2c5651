//! Keys of windows' memory, which differ within a process.
//!
//! The members of a window want one key for all of it, so that one word serves
//! all ranks. So each offers one that is free here and nobody else here will
//! offer, and the largest is taken. Where another thread agrees with its own
//! peers on the same at that moment, one of the two keeps the key it offered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keys of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    last: u64,
    taken: BTreeSet<u64>,
}

/// A key that is this process's alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Key {
    keys: Keys,
    value: u64,
}

impl Keys {
    /// Takes the smallest key that is larger than all before.
    pub(crate) fn reserve(&self) -> Key {
        let mut taken = self.lock();
        taken.last += 1;
        let value = taken.last;
        taken.taken.insert(value);
        Key { keys: self.clone(), value }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Takes the agreed key instead, if it is free here.
    pub(crate) fn adopt(&mut self, agreed: u64) {
        let mut taken = self.keys.lock();
        if agreed != self.value && taken.taken.insert(agreed) {
            taken.taken.remove(&self.value);
            taken.last = taken.last.max(agreed);
            self.value = agreed;
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.keys.lock().taken.remove(&self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same() {
        let keys = Keys::default();
        let (mut a, mut b) = (keys.reserve(), keys.reserve());
        assert_eq!((a.value(), b.value()), (1, 2));
        // Both agreed on 5 with others.
        a.adopt(5);
        b.adopt(5);
        assert_eq!((a.value(), b.value()), (5, 2));
        let c = keys.reserve();
        assert_eq!(c.value(), 6);
        drop(a);
        b.adopt(5);
        assert_eq!(b.value(), 5);
        drop((b, c));
        assert!(keys.lock().taken.is_empty());
    }
}
