//! Definitions of what was made and not freed, by number.
//!
//! Numbers only grow, so those that are live lie in blocks of 64 numbers, ordered: a block
//! has a bit for each number that is live and their definitions one after the other, 23
//! bytes of each. While most of a block is live the index is less than one byte more; what
//! was freed leaves nothing.

use super::definition::{Constructor, Definition};

/// Numbers of a block.
const BLOCK: u32 = u64::BITS;

/// A definition, of which the constructor's place among all and the flags are one byte.
#[derive(Clone, Copy, Debug)]
struct Packed([u8; Packed::BYTES]);

/// Bits of the flags.
const FLAGS: u32 = 2;
const _: () = assert!(Constructor::ALL.len() <= 1 << (u8::BITS - FLAGS));

impl Packed {
    const BYTES: usize = Definition::BYTES - 1;

    fn new(definition: &Definition) -> Packed {
        let bytes = definition.to_bytes();
        let mut packed = [0; Packed::BYTES];
        packed[..22].copy_from_slice(&bytes[..22]);
        let flags = definition.flags.0;
        debug_assert!(flags < 1 << FLAGS, "flags that there are");
        // (All are in the list, which is ordered.)
        let constructor = Constructor::ALL.binary_search(&definition.constructor).unwrap_or(0);
        packed[22] = (constructor as u8) << FLAGS | flags;
        Packed(packed)
    }

    fn definition(&self) -> Option<Definition> {
        let Packed(packed) = self;
        let mut bytes = [0; Definition::BYTES];
        bytes[..22].copy_from_slice(&packed[..22]);
        bytes[22] = *Constructor::ALL.get(usize::from(packed[22] >> FLAGS))? as u8;
        bytes[23] = packed[22] & ((1 << FLAGS) - 1);
        Definition::from_bytes(&bytes)
    }
}

#[derive(Debug, Default)]
struct Block {
    /// Numbers divided by [`BLOCK`].
    number: u32,
    /// Which of its numbers are live.
    live: u64,
    definitions: Vec<Packed>,
}

impl Block {
    /// How many live numbers of the block are below this one.
    fn place(&self, id: u32) -> usize {
        (self.live & ((1 << (id % BLOCK)) - 1)).count_ones() as usize
    }

    fn has(&self, id: u32) -> bool {
        self.live >> (id % BLOCK) & 1 == 1
    }

    fn remove(&mut self, id: u32) -> bool {
        if !self.has(id) {
            return false;
        }
        self.definitions.remove(self.place(id));
        self.live &= !(1 << (id % BLOCK));
        if self.definitions.capacity() > 2 * self.definitions.len() + 4 {
            self.definitions.shrink_to_fit();
        }
        true
    }
}

/// Definitions by number.
#[derive(Debug, Default)]
pub(super) struct LiveDefinitions {
    /// The block of the number that was added last, in which mostly is what is looked for.
    newest: Block,
    /// Those before, ordered by number; none is empty.
    older: Vec<Block>,
    len: usize,
    /// Parents of which something was made, ordered, and how much.
    made: Vec<(u32, u32)>,
}

/// Makes space for one more where there is none, and for an eighth of what there is.
fn reserve_one<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 8);
    }
}

impl LiveDefinitions {
    fn find(&self, id: u32) -> Option<&Block> {
        let number = id / BLOCK;
        let block = match number == self.newest.number {
            true => &self.newest,
            false => {
                let at = self.older.binary_search_by_key(&number, |block| block.number).ok()?;
                &self.older[at]
            }
        };
        block.has(id).then_some(block)
    }

    /// Adds one whose number is above all that were ever added.
    pub(super) fn push(&mut self, id: u32, definition: &Definition) {
        let number = id / BLOCK;
        if number != self.newest.number {
            debug_assert!(self.newest.number < number);
            let next = Block { number, ..Block::default() };
            let before = std::mem::replace(&mut self.newest, next);
            if before.live != 0 {
                reserve_one(&mut self.older);
                self.older.push(before);
            }
        }
        let block = &mut self.newest;
        block.live |= 1 << (id % BLOCK);
        if block.definitions.len() == block.definitions.capacity() {
            block.definitions.reserve_exact(4);
        }
        block.definitions.push(Packed::new(definition));
        self.len += 1;
    }

    pub(super) fn get(&self, id: u32) -> Option<Definition> {
        let block = self.find(id)?;
        block.definitions.get(block.place(id))?.definition()
    }

    /// Forgets one; returns false if it is not live.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let number = id / BLOCK;
        if number == self.newest.number {
            if !self.newest.remove(id) {
                return false;
            }
        } else {
            let at = self.older.binary_search_by_key(&number, |block| block.number);
            let Some(at) = at.ok().filter(|&at| self.older[at].remove(id)) else { return false };
            if self.older[at].live == 0 {
                self.older.remove(at);
                if self.older.capacity() >= 2 * self.older.len() + 16 {
                    self.older.shrink_to_fit();
                }
            }
        }
        self.len -= 1;
        if let Ok(at) = self.made.binary_search_by_key(&id, |&(parent, _)| parent) {
            self.made.remove(at);
        }
        true
    }

    /// Counts one more that is made of this, live or not; returns how many were before.
    pub(super) fn count_child(&mut self, parent: u32) -> u32 {
        let at = match self.made.binary_search_by_key(&parent, |&(parent, _)| parent) {
            Ok(at) => at,
            Err(at) => {
                reserve_one(&mut self.made);
                self.made.insert(at, (parent, 0));
                at
            }
        };
        let count = &mut self.made[at].1;
        let before = *count;
        *count = count.wrapping_add(1);
        before
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory, beside those that are there without any definition.
    pub(super) fn bytes(&self) -> usize {
        let blocks = self.older.iter().chain([&self.newest]);
        let definitions: usize = blocks.map(|block| block.definitions.capacity()).sum();
        definitions * Packed::BYTES
            + self.older.capacity() * size_of::<Block>()
            + self.made.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DefinitionFlags, Identity, NO_PARENT};
    use super::*;
    use std::collections::BTreeMap;

    /// All fields differ from one to the next.
    fn numbered(number: u32) -> Definition {
        Definition {
            identity: Identity(u64::from(number) << 33 | 1),
            rank: number * 3,
            size: u32::MAX - number,
            parent: if number.is_multiple_of(3) { NO_PARENT } else { number - 1 },
            site: number as u16,
            constructor: Constructor::ALL[number as usize % Constructor::ALL.len()],
            flags: DefinitionFlags(number as u8 % 4),
        }
    }

    /// Against a map, with frees in any order.
    #[test]
    fn it_is_a_map() {
        let (mut live, mut oracle) = (LiveDefinitions::default(), BTreeMap::new());
        let (mut next, mut state) = (1u32, 1u64);
        for round in 0..6_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pick = (state >> 33) as u32;
            // Grows, then shrinks.
            if pick % 8 < if round < 3_000 { 6 } else { 2 } {
                live.push(next, &numbered(next));
                oracle.insert(next, (numbered(next), 0));
                next += 1 + u32::from(pick.is_multiple_of(97)) * 200;
            } else if let Some((&id, _)) = oracle.range(pick % next..).next() {
                assert!(live.remove(id));
                assert!(!live.remove(id));
                oracle.remove(&id);
            }
            let id = pick % next;
            assert_eq!(live.get(id), oracle.get(&id).map(|(definition, _)| *definition));
            if let Some((_, count)) = oracle.get_mut(&id) {
                assert_eq!(live.count_child(id), *count);
                *count += 1;
            }
            assert_eq!(live.len(), oracle.len());
        }
        for &id in oracle.keys() {
            assert!(live.get(id).is_some() && live.remove(id));
        }
        assert_eq!((live.len(), live.older.len(), live.made.len()), (0, 0, 0));
    }

    #[test]
    fn it_takes_less_than_24_bytes_each_with_its_index() {
        let mut live = LiveDefinitions::default();
        (1..=5_000).for_each(|id| live.push(id, &numbered(id)));
        let each = live.bytes() as f64 / 5_000.0;
        assert!((23.0..24.0).contains(&each), "{each}");
        // One after another.
        let mut live = LiveDefinitions::default();
        let mut most = 0;
        for id in 1..=100_000 {
            live.push(id, &numbered(id));
            live.count_child(id);
            most = most.max(live.bytes());
            assert!(live.remove(id));
        }
        assert!(most < 4_096, "{most}");
    }
}
