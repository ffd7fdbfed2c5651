//! A process nobody launched: a job of one rank.

use super::values::Values;
use super::{Boot, BootError, check_rank, os, sweep};

/// The [`Boot`] of a job of size 1.
pub struct Alone {
    job: u64,
    values: Values,
}

impl Alone {
    /// A job of one rank with a fresh random id.
    pub fn new() -> Result<Self, BootError> {
        Ok(Alone { job: os::random_job()?, values: Values::default() })
    }
}

impl Boot for Alone {
    fn launcher(&self) -> &'static str {
        "alone"
    }

    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn job(&self) -> u64 {
        self.job
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        self.values.put(key, value)
    }

    fn fence(&self, _idle: &mut dyn FnMut()) -> Result<(), BootError> {
        Ok(())
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, 1)?;
        self.values.get(rank, key)
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, 1)?;
        Ok(0)
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(0, code, reason);
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        sweep::sweep(&[], self.job);
        sweep::sweep_process(std::process::id(), self.job);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_talks_to_itself() {
        let boot = Alone::new().unwrap();
        boot.put("key", b"value").unwrap();
        assert!(matches!(boot.put("key", b"other"), Err(BootError::Twice { .. })));
        boot.fence(&mut || ()).unwrap();
        assert_eq!(boot.get(0, "key").unwrap(), b"value");
        assert!(matches!(boot.get(0, "none"), Err(BootError::NotPublished { .. })));
        assert!(matches!(boot.get(1, "key"), Err(BootError::Rank { rank: 1, size: 1 })));
        assert_eq!(boot.local_ranks().unwrap(), [0]);
        assert!(boot.one_machine().unwrap());
    }
}
