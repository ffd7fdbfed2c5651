//! A simulation of data caches: set-associative, least recently used first out,
//! no prefetching, one core, physical addresses as virtual ones.
//!
//! A miss in one level is looked up in the next and filled into both. Evictions
//! from an outer level do not evict from an inner one, and written lines are
//! looked up as read ones are.

use std::path::Path;

use super::lines::LINE;

/// A cache's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Geometry {
    /// All of it; a multiple of a set's bytes.
    pub bytes: u64,
    /// Lines of a set.
    pub associativity: u64,
}

impl Geometry {
    /// A cache of `bytes` in sets of `associativity` lines of [`LINE`] bytes.
    ///
    /// # Errors
    /// What is wrong, where these are no whole sets.
    pub fn new(bytes: u64, associativity: u64) -> Result<Geometry, String> {
        /// A cache of a set alone: more than any has.
        const MOST: u64 = 1 << 12;
        let set = associativity.min(MOST) * LINE as u64;
        if !(1..=MOST).contains(&associativity) || bytes == 0 || !bytes.is_multiple_of(set) {
            return Err(format!(
                "{bytes} bytes are not whole sets of {associativity} lines of {LINE} bytes"
            ));
        }
        Ok(Geometry { bytes, associativity })
    }

    fn sets(self) -> u64 {
        self.bytes / (self.associativity * LINE as u64)
    }

    /// The data caches of this machine's first processor, from the nearest on,
    /// as Linux has them under `/sys/devices/system/cpu`; empty where it says
    /// nothing. A virtual machine's are what its host tells it.
    pub fn of_this_machine() -> Vec<Geometry> {
        Self::below(Path::new("/sys/devices/system/cpu/cpu0/cache"))
    }

    /// The same of a folder in the form of sysfs.
    pub fn below(folder: &Path) -> Vec<Geometry> {
        let mut found: Vec<(u32, Geometry)> = (0..8)
            .filter_map(|index| {
                let file = |name: &str| {
                    let path = folder.join(format!("index{index}/{name}"));
                    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
                };
                if file("type")? == "Instruction" {
                    return None;
                }
                let kib: u64 = file("size")?.strip_suffix('K')?.parse().ok()?;
                let lines = file("ways_of_associativity")?.parse().ok()?;
                Some((file("level")?.parse().ok()?, Geometry::new(kib << 10, lines).ok()?))
            })
            .collect();
        found.sort_by_key(|(level, _)| *level);
        found.into_iter().map(|(_, geometry)| geometry).collect()
    }
}

/// Never the number of a line: lines are addresses divided by [`LINE`].
const EMPTY: u64 = u64::MAX;

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    sets: u64,
    associativity: usize,
    /// Sets one after the other, the line used last first.
    lines: Vec<u64>,
}

impl Cache {
    /// An empty one.
    pub fn new(geometry: Geometry) -> Cache {
        let associativity = geometry.associativity as usize;
        let sets = geometry.sets();
        Cache { sets, associativity, lines: vec![EMPTY; sets as usize * associativity] }
    }

    /// Uses a line; returns true if it was there.
    #[inline]
    pub fn hits(&mut self, line: u64) -> bool {
        let set =
            if self.sets.is_power_of_two() { line & (self.sets - 1) } else { line % self.sets };
        let start = set as usize * self.associativity;
        let set = &mut self.lines[start..start + self.associativity];
        if set[0] == line {
            return true;
        }
        let found = set.iter().position(|&there| there == line);
        let last = found.unwrap_or(self.associativity - 1);
        set.copy_within(..last, 1);
        set[0] = line;
        found.is_some()
    }
}

/// Caches of several levels, the nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    levels: Vec<Cache>,
    misses: Vec<u64>,
}

impl Hierarchy {
    /// Empty ones.
    pub fn new(levels: &[Geometry]) -> Hierarchy {
        let caches = levels.iter().map(|&geometry| Cache::new(geometry)).collect();
        Hierarchy { levels: caches, misses: vec![0; levels.len()] }
    }

    /// Reads or writes `bytes` from `address` on: every line of it is used.
    #[inline]
    pub fn access(&mut self, address: u64, bytes: u64) {
        let last = (address + bytes.max(1) - 1) / LINE as u64;
        for line in address / LINE as u64..=last {
            for (level, misses) in self.levels.iter_mut().zip(&mut self.misses) {
                if level.hits(line) {
                    break;
                }
                *misses += 1;
            }
        }
    }

    /// Misses of each level since the last call, or the beginning.
    pub fn take_misses(&mut self) -> Vec<u64> {
        let none = vec![0; self.misses.len()];
        std::mem::replace(&mut self.misses, none)
    }
}
