//! The blocks of a layout one by one, from any byte of the packed stream.

use super::form::{Form, Kind};
use super::layout::Layout;
use super::table::Run;

/// Stretches of contiguous bytes, in the order of the packed stream: displacement
/// from the origin, and length.
///
/// Holds as much as the layout has levels around its innermost loop, nothing for
/// each block. Neighbours may touch: where a layout was folded by [`Layout::times`],
/// and where blocks of different lengths are kept as up to twice as many of one.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    /// Forms around the one that is walked, the outermost first.
    around: Vec<Frame<'a>>,
    leaf: Option<Leaf<'a>>,
}

/// A form of forms, and which of them comes next.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    form: &'a Form,
    base: i64,
    next: u64,
}

/// A form of runs alone.
#[derive(Clone, Copy, Debug)]
struct Leaf<'a> {
    form: &'a Form,
    base: i64,
    /// Which run of it, and the bytes of it that are done.
    at: u64,
    within: u64,
    /// How many there are.
    count: u64,
}

/// Runs of one length, so many bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) at: i64,
    pub(super) len: u64,
    pub(super) count: u64,
    pub(super) stride: i64,
}

impl Layout {
    /// The blocks from byte `from` of the packed stream on; the first is what is left
    /// of the one that holds it. Takes no time for the blocks before it.
    #[must_use]
    pub fn blocks_from(&self, from: u64) -> Blocks<'_> {
        let mut blocks = Blocks { around: Vec::new(), leaf: None };
        if let Some((offset, form)) = &self.placed
            && from < form.size
        {
            blocks.enter(form, *offset, from);
        }
        blocks
    }
}

/// How many runs a form of runs alone has.
fn runs_of(form: &Form) -> Option<u64> {
    match &form.kind {
        Kind::Run => Some(1),
        Kind::Loop { count, body, .. } if matches!(body.kind, Kind::Run) => Some(*count),
        Kind::Blocks { at, body } if matches!(body.kind, Kind::Run) => Some(at.len() as u64),
        Kind::Runs(runs) => Some(runs.len() as u64),
        _ => None,
    }
}

impl<'a> Frame<'a> {
    /// The form that comes next, and where it begins.
    fn next(&mut self) -> Option<(&'a Form, i64)> {
        let (form, i) = (self.form, self.next);
        self.next += 1;
        match &form.kind {
            Kind::Loop { count, stride, body } if i < *count => {
                Some((body, self.base + i as i64 * stride))
            }
            Kind::Blocks { at, body } if i < at.len() as u64 => {
                Some((body, self.base + at.get(i as usize)))
            }
            Kind::Parts(parts) => {
                parts.get(i as usize).map(|part| (&*part.form, self.base + part.offset))
            }
            _ => None,
        }
    }
}

impl Leaf<'_> {
    fn run(&self) -> Run {
        match &self.form.kind {
            Kind::Run | Kind::Parts(_) => (self.base, self.form.size),
            Kind::Loop { stride, body, .. } => (self.base + self.at as i64 * stride, body.size),
            Kind::Blocks { at, body } => (self.base + at.get(self.at as usize), body.size),
            Kind::Runs(runs) => {
                let (offset, len) = runs.get(self.at as usize);
                (self.base + offset, len)
            }
        }
    }
}

impl<'a> Blocks<'a> {
    /// Goes to byte `skip` of a form that begins at `base`; it has that byte.
    fn enter(&mut self, mut form: &'a Form, mut base: i64, mut skip: u64) {
        loop {
            let (at, rest) = match &form.kind {
                Kind::Run => (0, skip),
                Kind::Loop { body, .. } | Kind::Blocks { body, .. } => {
                    (skip / body.size, skip % body.size)
                }
                Kind::Runs(runs) => {
                    let (at, within) = runs.find(skip);
                    (at as u64, within)
                }
                Kind::Parts(parts) => {
                    let at = parts.partition_point(|part| part.start <= skip) - 1;
                    (at as u64, skip - parts[at].start)
                }
            };
            if let Some(count) = runs_of(form) {
                self.leaf = Some(Leaf { form, base, at, within: rest, count });
                return;
            }
            let mut frame = Frame { form, base, next: at };
            let Some(inner) = frame.next() else { unreachable!("the form has the byte") };
            self.around.push(frame);
            ((form, base), skip) = (inner, rest);
        }
    }

    /// What is left of the present block.
    pub(super) fn peek(&self) -> Option<Run> {
        let leaf = self.leaf.as_ref()?;
        let (offset, len) = leaf.run();
        Some((offset + leaf.within as i64, len - leaf.within))
    }

    /// Equal blocks with a common stride from the present one on; one block if it
    /// was begun.
    pub(super) fn stretch(&self) -> Option<Stretch> {
        let leaf = self.leaf.as_ref()?;
        let (offset, len) = leaf.run();
        let (count, stride) = match &leaf.form.kind {
            Kind::Loop { stride, .. } if leaf.within == 0 => (leaf.count - leaf.at, *stride),
            _ => (1, 0),
        };
        let at = offset + leaf.within as i64;
        Some(Stretch { at, len: len - leaf.within, count, stride })
    }

    /// Passes `bytes` of the present block, at most what is left of it.
    pub(super) fn pass(&mut self, bytes: u64) {
        let Some(leaf) = &mut self.leaf else { return };
        leaf.within += bytes;
        if leaf.within == leaf.run().1 {
            self.pass_blocks(1);
        }
    }

    /// Passes so many blocks of the present [`Stretch`].
    pub(super) fn pass_blocks(&mut self, count: u64) {
        let Some(leaf) = &mut self.leaf else { return };
        (leaf.at, leaf.within) = (leaf.at + count, 0);
        if leaf.at < leaf.count {
            return;
        }
        self.leaf = None;
        while let Some(frame) = self.around.last_mut() {
            if let Some((form, base)) = frame.next() {
                return self.enter(form, base, 0);
            }
            self.around.pop();
        }
    }
}

impl Iterator for Blocks<'_> {
    type Item = (i64, u64);

    fn next(&mut self) -> Option<(i64, u64)> {
        let block = self.peek()?;
        self.pass_blocks(1);
        Some(block)
    }
}
