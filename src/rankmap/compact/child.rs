//! A child stored against its parent: which ranks of the parent it has.
//!
//! Half of a communicator is a stride of its ranks, whatever its lpids are. The
//! parent lives behind a reference count, so it may be freed in any order.

use std::sync::Arc;

use super::image::Writer;
use super::map::Compact;

/// `lpid = parent(ranks(rank))`.
#[derive(Clone, Debug)]
pub(super) struct Child {
    parent: Arc<Compact>,
    ranks: Box<Compact>,
}

impl Child {
    /// The first rank that the parent does not have is the error.
    pub(super) fn new(parent: Arc<Compact>, ranks: Compact) -> Result<Child, (u32, u32)> {
        match (0..).zip(&ranks).find(|&(_, rank)| rank >= parent.len()) {
            Some(outside) => Err(outside),
            None => Ok(Child { parent, ranks: Box::new(ranks) }),
        }
    }

    pub(super) fn parts(&self) -> (&Arc<Compact>, &Compact) {
        (&self.parent, &self.ranks)
    }

    pub(super) fn len(&self) -> u32 {
        self.ranks.len()
    }

    pub(super) fn select(&self, rank: u32) -> u32 {
        self.parent.select(self.ranks.select(rank))
    }

    /// By the parent, if its lpids are known to differ; else `None`.
    pub(super) fn rank(&self, lpid: u32) -> Option<Option<u32>> {
        let rank = |at| self.ranks.position(at);
        self.parent.is_set().then(|| self.parent.position(lpid).and_then(rank))
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        self.ranks.fill(rank, out);
        out.iter_mut().for_each(|slot| *slot = self.parent.select(*slot));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ranks.bytes() + 2 * size_of::<usize>() + self.parent.bytes()
    }

    /// Never called: an image of a child is one of its lpids.
    pub(super) fn write(&self, _: &mut Writer) {}

    /// Bytes of the parent, if others hold it too.
    pub(super) fn shared_bytes(&self) -> usize {
        if Arc::strong_count(&self.parent) > 1 {
            2 * size_of::<usize>() + self.parent.bytes()
        } else {
            0
        }
    }
}
