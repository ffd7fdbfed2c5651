//! What one process published, kept where its readers are in this process.

use super::BootError;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key, each published once.
#[derive(Default)]
pub(super) struct Values(Mutex<HashMap<String, Vec<u8>>>);

impl Values {
    /// [`Boot::put`](super::Boot::put).
    pub(super) fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        match self.lock().entry(key.to_owned()) {
            Entry::Occupied(_) => Err(BootError::Twice { key: key.into() }),
            Entry::Vacant(slot) => {
                slot.insert(value.to_vec());
                Ok(())
            }
        }
    }

    /// [`Boot::get`](super::Boot::get) of `rank`, whose values these are.
    pub(super) fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        let value = self.lock().get(key).cloned();
        value.ok_or_else(|| BootError::NotPublished { rank, key: key.into() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
