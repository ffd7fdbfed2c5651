//! First-in-first-out queues by key, each found in constant time.
//!
//! A node is a small number that the caller gives out; a node is in one queue
//! of an index at a time, and knows which, so that it is taken out without its
//! key. Keys whose queue ran empty stay until the next rehash, so that a tag
//! used again and again costs no memory management.

/// No node.
pub(super) const NONE: u32 = u32::MAX;
/// The head of a bin without a key.
const VACANT: u32 = u32::MAX - 1;
const SMALLEST: usize = 64;

/// What a queue holds: entries of a channel that agree in all bits that the
/// mask does not ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    channel: u64,
    bits: u64,
    ignore: u64,
}

impl Key {
    #[inline]
    pub(super) fn new(channel: u64, bits: u64, ignore: u64) -> Key {
        Key { channel, bits: bits & !ignore, ignore }
    }

    #[inline]
    fn hash(&self) -> u64 {
        let h = (self.channel ^ self.ignore).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.bits;
        (h ^ (h >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    pub(super) fn channel(&self) -> u64 {
        self.channel
    }

    /// The bits that were ignored.
    pub(super) fn ignore(&self) -> u64 {
        self.ignore
    }
}

#[derive(Clone, Copy)]
struct Bin {
    key: Key,
    head: u32,
    tail: u32,
}

const EMPTY: Bin = Bin { key: Key { channel: 0, bits: 0, ignore: 0 }, head: VACANT, tail: NONE };

/// Where a node is.
#[derive(Clone, Copy)]
struct Links {
    bin: u32,
    previous: u32,
    next: u32,
}

const NOWHERE: Links = Links { bin: NONE, previous: NONE, next: NONE };

/// Queues by key.
pub(super) struct Index {
    /// Open addressing; a power of two, or none before the first node.
    bins: Vec<Bin>,
    /// Bins with a key, their queues empty or not.
    keys: usize,
    /// By node.
    links: Vec<Links>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { bins: Vec::new(), keys: 0, links: Vec::new() }
    }

    /// The bin of a key, or the vacant one where it would be.
    #[inline]
    fn find(&self, key: &Key) -> usize {
        let mask = self.bins.len() - 1;
        let mut at = (key.hash() >> 32) as usize & mask;
        // Ends: a quarter of the bins is vacant at least.
        while self.bins[at].head != VACANT && self.bins[at].key != *key {
            at = (at + 1) & mask;
        }
        at
    }

    /// The first node of a key's queue.
    #[inline]
    pub(super) fn front(&self, key: &Key) -> Option<u32> {
        if self.keys == 0 {
            return None;
        }
        let head = self.bins[self.find(key)].head;
        (head < VACANT).then_some(head)
    }

    /// The same, taken out.
    #[inline]
    pub(super) fn pop(&mut self, key: &Key) -> Option<u32> {
        if self.keys == 0 {
            return None;
        }
        let at = self.find(key);
        let bin = &mut self.bins[at];
        let node = bin.head;
        if node >= VACANT {
            return None;
        }
        let next = self.links[node as usize].next;
        bin.head = next;
        match next {
            NONE => bin.tail = NONE,
            next => self.links[next as usize].previous = NONE,
        }
        Some(node)
    }

    /// The node behind one in its queue.
    pub(super) fn behind(&self, node: u32) -> Option<u32> {
        Some(self.links[node as usize].next).filter(|&n| n != NONE)
    }

    /// The key of the queue that a node is in.
    pub(super) fn key(&self, node: u32) -> Key {
        self.bins[self.links[node as usize].bin as usize].key
    }

    /// Appends a node that is in no queue.
    #[inline]
    pub(super) fn push(&mut self, key: &Key, node: u32) {
        if self.bins.is_empty() {
            self.rehash();
        }
        let mut at = self.find(key);
        if self.bins[at].head == VACANT {
            at = self.new_bin(key, at);
        }
        if self.links.len() <= node as usize {
            self.more_links(node);
        }
        let bin = &mut self.bins[at];
        self.links[node as usize] = Links { bin: at as u32, previous: bin.tail, next: NONE };
        match bin.tail {
            NONE => bin.head = node,
            tail => self.links[tail as usize].next = node,
        }
        bin.tail = node;
    }

    /// A bin for a key that has none: `at`, the vacant one found for it, unless
    /// bins run short.
    #[cold]
    #[inline(never)]
    fn new_bin(&mut self, key: &Key, at: usize) -> usize {
        let mut at = at;
        if (self.keys + 1) * 4 > self.bins.len() * 3 {
            self.rehash();
            at = self.find(key);
        }
        self.keys += 1;
        self.bins[at] = Bin { key: *key, head: NONE, tail: NONE };
        at
    }

    #[cold]
    #[inline(never)]
    fn more_links(&mut self, node: u32) {
        self.links.resize(node as usize + 1, NOWHERE);
    }

    /// Takes a node out of its queue.
    #[inline]
    pub(super) fn remove(&mut self, node: u32) {
        let Links { bin, previous, next } = self.links[node as usize];
        match previous {
            NONE => self.bins[bin as usize].head = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => self.bins[bin as usize].tail = previous,
            next => self.links[next as usize].previous = previous,
        }
    }

    /// Forgets keys without nodes; makes space for four times the others.
    fn rehash(&mut self) {
        let live = |bin: &&Bin| bin.head < VACANT;
        let count = self.bins.iter().filter(live).count();
        let size = ((count + 1) * 4).next_power_of_two().max(SMALLEST);
        let old = std::mem::replace(&mut self.bins, vec![EMPTY; size]);
        self.keys = count;
        for bin in old.iter().filter(live) {
            let at = self.find(&bin.key);
            self.bins[at] = *bin;
            let mut node = bin.head;
            while node != NONE {
                let links = &mut self.links[node as usize];
                links.bin = at as u32;
                node = links.next;
            }
        }
    }
}
