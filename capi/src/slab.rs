//! Objects behind numbers with a generation, so that the number of a freed
//! object does not find another one.

/// Bits of a place in a slab.
pub(crate) const PLACES: u32 = 24;
/// Bits of a generation.
pub(crate) const GENERATIONS: u32 = 20;

/// Objects of one kind. A place that is used again gets another generation, so
/// that the number of a freed object finds nothing (for a million frees of the
/// same place).
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Places that are free, the last freed first.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
    /// The number is in use; the value may be taken out for a call.
    used: bool,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    /// Keeps an object; `None` when all places are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<u64> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.slots.len()).ok().filter(|&at| at < 1 << PLACES)?;
                self.slots.push(Slot { generation: 0, value: None, used: false });
                at
            }
        };
        let slot = &mut self.slots[at as usize];
        // Generations begin at 1: no number is 0.
        slot.generation = slot.generation % ((1 << GENERATIONS) - 1) + 1;
        slot.value = Some(value);
        slot.used = true;
        Some(u64::from(slot.generation) << PLACES | u64::from(at))
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot<T>> {
        let at = (number & ((1 << PLACES) - 1)) as usize;
        let generation = (number >> PLACES) as u32 & ((1 << GENERATIONS) - 1);
        self.slots.get_mut(at).filter(|slot| slot.used && slot.generation == generation)
    }

    pub(crate) fn get(&mut self, number: u64) -> Option<&mut T> {
        self.slot(number)?.value.as_mut()
    }

    /// Takes an object out for a call; its number stays its own.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        self.slot(number)?.value.take()
    }

    /// Puts back what [`Slab::take`] took.
    pub(crate) fn restore(&mut self, number: u64, value: T) {
        if let Some(slot) = self.slot(number) {
            slot.value = Some(value);
        }
    }

    /// Frees a number; returns the object if it is not taken out.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let slot = self.slot(number)?;
        slot.used = false;
        let value = slot.value.take();
        self.free.push((number & ((1 << PLACES) - 1)) as u32);
        value
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_finds_nothing() {
        let mut slab = Slab::new();
        let a = slab.insert("a").unwrap();
        assert_eq!(slab.get(a), Some(&mut "a"));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        let b = slab.insert("b").unwrap();
        assert_ne!(a, b);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.take(b), Some("b"));
        assert_eq!(slab.get(b), None);
        slab.restore(b, "c");
        assert_eq!(slab.get(b), Some(&mut "c"));
        assert_eq!(slab.iter().count(), 1);
        assert_eq!(slab.get(0), None);
        assert_eq!(slab.get(u64::MAX), None);
    }

    #[test]
    fn generations_go_round_without_zero() {
        let mut slab = Slab::new();
        let first = slab.insert(0).unwrap();
        slab.remove(first);
        for _ in 0..(1 << GENERATIONS) - 2 {
            let n = slab.insert(1).unwrap();
            assert_ne!(n >> PLACES, 0);
            assert_ne!(n, first);
            slab.remove(n);
        }
        assert_eq!(slab.insert(2), Some(first));
    }
}
