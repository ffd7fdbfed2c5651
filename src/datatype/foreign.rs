//! Layouts from descriptions that others keep: blocks and nested loops over them.

use super::basic::Basic;
use super::error::LayoutError;
use super::layout::{Collector, Layout};

/// One element of a foreign description, in the order of the packed stream.
///
/// Open MPI's: a data element is [`Item::Blocks`] with its `count`, `blocklen`,
/// `extent` and `disp`; `OPAL_DATATYPE_LOOP` is [`Item::Loop`] with its `loops` and
/// `extent`; `OPAL_DATATYPE_END_LOOP` is [`Item::End`]. Elements with the gaps' flag
/// alone and the last `END_LOOP`, which closes the whole description, are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `count` blocks of `length` elements of a basic type, `stride` bytes from one to
    /// the next, the first at `displacement` bytes from the origin.
    Blocks {
        /// Of all elements.
        basic: Basic,
        /// Blocks.
        count: u64,
        /// Elements of a block.
        length: u64,
        /// Bytes from a block to the next.
        stride: i64,
        /// Bytes from the origin to the first block; in loops, of their first round.
        displacement: i64,
    },
    /// All up to the [`Item::End`] that belongs to it, `count` times, `stride` bytes
    /// further each time.
    Loop {
        /// Rounds.
        count: u64,
        /// Bytes from a round to the next.
        stride: i64,
    },
    /// The end of the innermost loop.
    End,
}

impl Layout {
    /// The layout of a foreign description with these bounds (lower bound and extent).
    ///
    /// Takes some ns for each item, and nothing for what loops repeat: a description of
    /// a million single blocks is a list of as many [`Item::Blocks`] with a count of 1.
    /// Nothing recurs: loops may be as deep as memory lasts.
    ///
    /// # Errors
    /// As [`Layout::contiguous`]; a loop without an end, an end without a loop.
    pub fn from_items(items: &[Item], lb: i64, extent: i64) -> Result<Layout, LayoutError> {
        let wrong = |why, at| LayoutError::Description { why, at, words: items.len() };
        let mut open: Vec<(u64, i64, Collector)> = Vec::new();
        let mut all = Collector::new();
        for (i, item) in items.iter().enumerate() {
            match *item {
                Item::Blocks { basic, count, length, stride, displacement } => {
                    all.blocks(basic, (count, length), stride, displacement)?;
                }
                Item::Loop { count, stride } => {
                    open.push((count, stride, std::mem::replace(&mut all, Collector::new())));
                }
                Item::End => {
                    let Some((count, stride, outer)) = open.pop() else {
                        return Err(wrong("the end of no loop", i));
                    };
                    let body = std::mem::replace(&mut all, outer).done()?;
                    all.push(0, count, &body.resized(0, stride)?)?;
                }
            }
        }
        if !open.is_empty() {
            return Err(wrong("a loop without an end", items.len()));
        }
        all.done()?.resized(lb, extent)
    }
}
