//! MPI's datatype constructors (MPI-4.1, chapter 5.1).

use super::basic::Basic;
use super::error::LayoutError;
use super::form::{self, Form, Placed, add, times};
use super::signature::Signature;
use super::types::{self, Types};

type Result<T> = std::result::Result<T, LayoutError>;

/// Which bytes of memory an operation takes, in which order; MPI's datatype.
///
/// A value: constructors make new ones of given ones, all in canonical form, and
/// a clone costs a counter. Two layouts that take the same bytes in the same order
/// and have the same bounds and signature are equal, however they were built (but
/// see [`Layout::takes_same_bytes`]).
///
/// Offsets, extents and bounds are in bytes and may be negative; counts have 64
/// bits. All that a layout touches lies within 2^61 bytes of its origin.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) placed: Placed,
    pub(super) lb: i64,
    pub(super) ub: i64,
    pub(super) alignment: u32,
    pub(super) types: Types,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        (self.lb, self.ub, self.alignment) == (other.lb, other.ub, other.alignment)
            && self.placed == other.placed
            && (self.types == other.types || self.signature() == other.signature())
    }
}

impl Eq for Layout {}

/// In which order an array's elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last dimension's are neighbours (`MPI_ORDER_C`).
    C,
    /// The first dimension's are neighbours (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// How a dimension of an array is dealt to processes (MPI-4.1, 5.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not dealt: the process has all of it.
    None,
    /// Blocks of so many elements, one a process; `None` is as even as it goes.
    Block(Option<u64>),
    /// Blocks of so many elements dealt in turn; `None` is 1.
    Cyclic(Option<u64>),
}

/// One dimension of [`Layout::darray`].
#[derive(Clone, Copy, Debug)]
pub struct Dealt {
    /// Elements of the whole array.
    pub size: u64,
    /// How they are dealt.
    pub distribution: Distribution,
    /// Processes of the grid along it.
    pub processes: u64,
}

/// What a constructor collects: pieces, and the bounds and types of all of them.
pub(super) struct Collector {
    pieces: form::Pieces,
    bounds: Option<(i64, i64)>,
    alignment: u32,
    types: types::Sequence,
}

impl Collector {
    pub(super) fn new() -> Collector {
        Collector {
            pieces: form::Pieces::default(),
            bounds: None,
            alignment: 1,
            types: types::Sequence::default(),
        }
    }

    /// `count` elements of `layout`, an extent apart, the first with its origin at
    /// `at`.
    pub(super) fn push(&mut self, at: i64, count: u64, layout: &Layout) -> Result<()> {
        if layout.is_contiguous() && count > 0 {
            let end = self.run(at, count, layout.extent())?;
            let (lb, ub) = self.bounds.unwrap_or((at, end));
            self.bounds = Some((lb.min(at), ub.max(end)));
            self.alignment = self.alignment.max(layout.alignment);
            self.types.push(&layout.types, count);
            return Ok(());
        }
        if !self.bound(at, count, layout)? {
            return Ok(());
        }
        if let Some((offset, form)) = &layout.placed
            && count == 1
        {
            return self.pieces.form(add(at, *offset)?, form);
        }
        if let Some((offset, form)) = form::repeat(count, layout.extent(), &layout.placed)? {
            self.pieces.form(add(at, offset)?, &form)?;
        }
        Ok(())
    }

    /// A run of `count` times `len` bytes, not 0; returns its end.
    fn run(&mut self, at: i64, count: u64, len: i64) -> Result<i64> {
        let len = times(count, len)?;
        let end = add(add(at, 0)?, len)?;
        self.pieces.run(at, len as u64);
        Ok(end)
    }

    /// `count` blocks of `length` elements of a basic type, `stride` bytes apart, that
    /// have no part in the bounds.
    pub(super) fn blocks(
        &mut self,
        basic: Basic,
        (count, length): (u64, u64),
        stride: i64,
        at: i64,
    ) -> Result<()> {
        if count == 0 || length == 0 {
            return Ok(());
        }
        self.types.push(&Types::Same(basic, length), count);
        let len = times(length, basic.size() as i64)?;
        if count == 1 || stride == len {
            return self.run(at, count, len).map(drop);
        }
        let block = Some((at, Form::run(len as u64)?));
        match form::repeat(count, stride, &block)? {
            Some((at, form)) => self.pieces.form(at, &form),
            None => Ok(()),
        }
    }

    /// Their bounds and types; returns true if there are elements.
    fn bound(&mut self, at: i64, count: u64, layout: &Layout) -> Result<bool> {
        // (No elements align nothing, as in MPICH and Open MPI.)
        if count == 0 {
            return Ok(false);
        }
        self.alignment = self.alignment.max(layout.alignment);
        let last = times(count - 1, layout.extent())?;
        let low = add(at, add(layout.lb, last.min(0))?)?;
        let high = add(at, add(layout.ub, last.max(0))?)?;
        let (lb, ub) = self.bounds.unwrap_or((low, high));
        self.bounds = Some((lb.min(low), ub.max(high)));
        self.types.push(&layout.types, count);
        Ok(true)
    }

    pub(super) fn done(self) -> Result<Layout> {
        let (lb, ub) = self.bounds.unwrap_or((0, 0));
        let (placed, types) = (self.pieces.done()?, self.types.done());
        Ok(Layout { placed, lb, ub, alignment: self.alignment, types })
    }
}

/// Pairs of two lists that must be of one length.
fn pairs<'a>(
    blocks: &'a [u64],
    displacements: &'a [i64],
) -> Result<impl ExactSizeIterator<Item = (u64, i64)> + 'a> {
    let (b, d) = (blocks.len(), displacements.len());
    if b != d {
        return Err(LayoutError::Lists { blocks: b, displacements: d });
    }
    Ok(blocks.iter().copied().zip(displacements.iter().copied()))
}

impl Layout {
    /// One element of a basic type.
    #[must_use]
    pub fn basic(basic: Basic) -> Layout {
        let size = basic.size() as u64;
        let placed = form::from_runs(&[(0, size)]);
        Layout {
            placed: placed.unwrap_or_else(|_| unreachable!("a few bytes")),
            lb: 0,
            ub: size as i64,
            alignment: basic.alignment(),
            types: Types::Same(basic, 1),
        }
    }

    /// `count` elements, an extent apart (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// What it touches, or its size, exceeds 2^61 bytes; so for all constructors.
    pub fn contiguous(count: u64, of: &Layout) -> Result<Layout> {
        if count == 1 {
            return Ok(of.clone());
        }
        let mut all = Collector::new();
        all.push(0, count, of)?;
        all.done()
    }

    /// `count` elements, an extent apart, for one operation on so many of them.
    ///
    /// Takes the bytes of [`Layout::contiguous`], in constant time whatever they are:
    /// where the last block of an element touches the first of the next they are not
    /// joined, so the form may not be the one that equal layouts have.
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn times(&self, count: u64) -> Result<Layout> {
        let mut all = Collector::new();
        if count == 1 || self.is_contiguous() {
            return Layout::contiguous(count, self);
        }
        all.bound(0, count, self)?;
        let mut made = all.done()?;
        made.placed = form::fold(count, self.extent(), &self.placed)?;
        Ok(made)
    }

    /// `count` blocks of `block` elements, `stride` extents apart
    /// (`MPI_Type_vector`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn vector(count: u64, block: u64, stride: i64, of: &Layout) -> Result<Layout> {
        Layout::hvector(
            count,
            block,
            times(stride.unsigned_abs(), of.extent())? * stride.signum(),
            of,
        )
    }

    /// `count` blocks of `block` elements, `stride` bytes apart
    /// (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn hvector(count: u64, block: u64, stride: i64, of: &Layout) -> Result<Layout> {
        let filled = block > 0;
        let block = Layout::contiguous(block, of)?;
        let mut all = Collector::new();
        all.push(0, count, &block.resized(block.lb, stride)?)?;
        // The last block ends where it ends, not a stride further.
        let mut made = all.done()?;
        (made.lb, made.ub) = (0, 0);
        if count > 0 && filled {
            let last = times(count - 1, stride)?;
            (made.lb, made.ub) = (add(block.lb, last.min(0))?, add(block.ub, last.max(0))?);
        }
        Ok(made)
    }

    /// Blocks of so many elements, each at so many extents from the origin
    /// (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`]; lists of two lengths.
    pub fn indexed(blocks: &[u64], displacements: &[i64], of: &Layout) -> Result<Layout> {
        let extent = of.extent();
        Layout::at(pairs(blocks, displacements)?.map(|(block, at)| (block, scaled(at, extent))), of)
    }

    /// The same with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// As [`Layout::indexed`].
    pub fn hindexed(blocks: &[u64], displacements: &[i64], of: &Layout) -> Result<Layout> {
        Layout::at(pairs(blocks, displacements)?.map(|(block, at)| (block, Ok(at))), of)
    }

    /// Blocks of `block` elements, each at so many extents from the origin
    /// (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn indexed_block(block: u64, displacements: &[i64], of: &Layout) -> Result<Layout> {
        let (extent, filled) = (of.extent(), block.min(1));
        let block = Layout::contiguous(block, of)?;
        Layout::at(displacements.iter().map(|&at| (filled, scaled(at, extent))), &block)
    }

    /// The same with displacements in bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn hindexed_block(block: u64, displacements: &[i64], of: &Layout) -> Result<Layout> {
        let filled = block.min(1);
        let block = Layout::contiguous(block, of)?;
        Layout::at(displacements.iter().map(|&at| (filled, Ok(at))), &block)
    }

    /// Blocks of one layout, each with its count and byte displacement.
    ///
    /// Lists are long, so bounds and types of contiguous elements are put down once.
    fn at(
        blocks: impl ExactSizeIterator<Item = (u64, Result<i64>)>,
        of: &Layout,
    ) -> Result<Layout> {
        let mut all = Collector::new();
        if !of.is_contiguous() {
            for (count, at) in blocks {
                all.push(at?, count, of)?;
            }
            return all.done();
        }
        all.pieces.reserve(blocks.len());
        let (mut total, extent) = (0u64, of.extent());
        let (mut lb, mut ub) = (i64::MAX, i64::MIN);
        for (count, at) in blocks {
            let at = at?;
            if count > 0 {
                let end = all.run(at, count, extent)?;
                (lb, ub) = (lb.min(at), ub.max(end));
                total =
                    total.checked_add(count).ok_or(LayoutError::Overflow { what: "a count" })?;
            }
        }
        if total > 0 {
            all.bounds = Some((lb, ub));
            all.alignment = of.alignment;
            all.types.push(&of.types, total);
        }
        all.done()
    }

    /// Blocks of different layouts: count, byte displacement, element
    /// (`MPI_Type_create_struct`).
    ///
    /// As C lays out structures, the extent is rounded up to a multiple of the
    /// strictest alignment of a basic type in it; [`Layout::resized`] sets another.
    /// (MPI takes the bounds of blocks that were resized for those of the whole.)
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn structure(blocks: &[(u64, i64, &Layout)]) -> Result<Layout> {
        let mut all = Collector::new();
        for (count, at, layout) in blocks {
            all.push(*at, *count, layout)?;
        }
        let mut made = all.done()?;
        let alignment = i64::from(made.alignment);
        let beyond = made.extent().rem_euclid(alignment);
        if beyond != 0 {
            made.ub = add(made.ub, alignment - beyond)?;
        }
        Ok(made)
    }

    /// The same bytes with another lower bound and extent
    /// (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// As [`Layout::contiguous`].
    pub fn resized(&self, lb: i64, extent: i64) -> Result<Layout> {
        Ok(Layout { lb: add(lb, 0)?, ub: add(lb, extent)?, ..self.clone() })
    }

    /// A part of an array: `(size, part, start)` for each dimension
    /// (`MPI_Type_create_subarray`). The extent is that of the whole array.
    ///
    /// # Errors
    /// As [`Layout::contiguous`]; a part that leaves the array.
    pub fn subarray(dimensions: &[(u64, u64, u64)], order: Order, of: &Layout) -> Result<Layout> {
        for (dimension, &(size, subsize, start)) in dimensions.iter().enumerate() {
            if start.checked_add(subsize).is_none_or(|end| end > size) {
                return Err(LayoutError::Subarray { dimension, size, subsize, start });
            }
        }
        let innermost_first: Vec<_> = match order {
            Order::C => dimensions.iter().rev().collect(),
            Order::Fortran => dimensions.iter().collect(),
        };
        let (mut part, mut step, mut offset) = (of.clone(), of.extent(), 0);
        for &&(size, subsize, start) in &innermost_first {
            part = Layout::contiguous(subsize, &part.resized(part.lb, step)?)?;
            offset = add(offset, times(start, step)?)?;
            step = times(size, step)?;
        }
        let mut made = part.moved(offset)?;
        (made.lb, made.ub) = (0, step);
        Ok(made)
    }

    /// The part of an array that a process of a grid has
    /// (`MPI_Type_create_darray`); processes are numbered with the last dimension
    /// fastest. The extent is that of the whole array.
    ///
    /// # Errors
    /// As [`Layout::contiguous`]; a distribution that does not fit.
    pub fn darray(rank: u64, dimensions: &[Dealt], order: Order, of: &Layout) -> Result<Layout> {
        let wrong = |dimension, why| LayoutError::Darray { dimension, why };
        let mut coordinates = vec![0; dimensions.len()];
        let mut left = rank;
        for (i, dealt) in dimensions.iter().enumerate().rev() {
            if dealt.processes == 0 {
                return Err(wrong(i, "no process along it"));
            }
            (coordinates[i], left) = (left % dealt.processes, left / dealt.processes);
        }
        if left != 0 {
            return Err(wrong(0, "the rank is not in the grid of processes"));
        }
        let mut inner: Vec<usize> = (0..dimensions.len()).collect();
        if order == Order::C {
            inner.reverse();
        }
        let (mut part, mut step) = (of.clone(), of.extent());
        for i in inner {
            part = dimensions[i].deal(coordinates[i], step, &part).map_err(|why| match why {
                Refused::Layout(error) => error,
                Refused::Why(why) => wrong(i, why),
            })?;
            step = times(dimensions[i].size, step)?;
        }
        (part.lb, part.ub) = (0, step);
        Ok(part)
    }

    /// The same, so many bytes further.
    fn moved(&self, by: i64) -> Result<Layout> {
        let mut made = Layout { lb: add(self.lb, by)?, ub: add(self.ub, by)?, ..self.clone() };
        if let Some((offset, form)) = &mut made.placed {
            *offset = add(*offset, by)?;
            form::check(*offset, form)?;
        }
        Ok(made)
    }

    /// Bytes of the packed stream.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.placed.as_ref().map_or(0, |(_, form)| form.size)
    }

    /// The lower bound, in bytes from the origin.
    #[must_use]
    pub fn lb(&self) -> i64 {
        self.lb
    }

    /// The upper bound, in bytes from the origin.
    #[must_use]
    pub fn ub(&self) -> i64 {
        self.ub
    }

    /// Bytes from one element to the next.
    #[must_use]
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// The first byte taken and one past the last, from the origin; `None` if it
    /// takes none.
    #[must_use]
    pub fn true_bounds(&self) -> Option<(i64, i64)> {
        self.placed.as_ref().map(|(offset, form)| (offset + form.low, offset + form.high))
    }

    /// The basic type of all elements, if they are of one.
    #[must_use]
    pub fn element(&self) -> Option<Basic> {
        match self.types {
            Types::Same(basic, _) => Some(basic),
            _ => None,
        }
    }

    /// Its sequence of basic types.
    #[must_use]
    pub fn signature(&self) -> Signature {
        self.types.signature()
    }

    /// Tells whether a message of these types may be received into this layout: they
    /// must be the first of its own (MPI-4.1, 3.3.1 and 3.2.5; the message may be
    /// shorter).
    ///
    /// # Errors
    /// The message has more elements, or others.
    pub fn accepts(&self, sent: Signature) -> Result<()> {
        if self.types.prefix(sent.elements()) == sent {
            return Ok(());
        }
        let (sent, held) = (sent.elements(), self.types.elements());
        Err(LayoutError::Signature { sent, held })
    }

    /// Returns true if consecutive elements are one stretch of memory from the
    /// origin on.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        match &self.placed {
            Some((0, form)) => form.runs == 1 && self.lb == 0 && self.ub == form.end,
            _ => false,
        }
    }

    /// How many stretches of contiguous bytes it has, as [`Layout::blocks_from`] gives
    /// them; saturates.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.placed.as_ref().map_or(0, |(_, form)| form.runs)
    }

    /// Bytes that its form and types take in memory; parts shared with other layouts
    /// count in each.
    #[must_use]
    pub fn form_bytes(&self) -> usize {
        self.placed.as_ref().map_or(0, |(_, form)| form.bytes_held()) + self.types.bytes_held()
    }

    /// Calls `each` with offset and length of every stretch, in order.
    pub fn for_each_block(&self, mut each: impl FnMut(i64, u64)) {
        if let Some((offset, form)) = &self.placed {
            form.each_run(*offset, &mut |(at, len)| each(at, len));
        }
    }

    /// Returns true if both take the same bytes in the same order.
    ///
    /// Compares forms, which are equal where the bytes are but for layouts of many
    /// thousand blocks without a common stride that were built in different ways;
    /// of those it compares the blocks.
    #[must_use]
    pub fn takes_same_bytes(&self, other: &Layout) -> bool {
        match (&self.placed, &other.placed) {
            (None, None) => true,
            (Some((a, x)), Some((b, y))) if a == b && x.size == y.size => {
                x == y || (x.is_kept() || y.is_kept()) && self.runs_equal(other)
            }
            _ => false,
        }
    }

    /// Compares the bytes, whatever blocks they come in; both have as many.
    fn runs_equal(&self, other: &Layout) -> bool {
        let (mut ours, mut theirs) = (self.blocks_from(0), other.blocks_from(0));
        while let (Some((a, x)), Some((b, y))) = (ours.peek(), theirs.peek()) {
            if a != b {
                return false;
            }
            let both = x.min(y);
            ours.pass(both);
            theirs.pass(both);
        }
        true
    }
}

fn scaled(at: i64, extent: i64) -> Result<i64> {
    at.checked_mul(extent).ok_or(LayoutError::Overflow { what: "a displacement" })
}

enum Refused {
    Layout(LayoutError),
    Why(&'static str),
}

impl From<LayoutError> for Refused {
    fn from(error: LayoutError) -> Refused {
        Refused::Layout(error)
    }
}

impl Dealt {
    /// Elements of this dimension that process `coordinate` has, `step` bytes apart.
    fn deal(
        &self,
        coordinate: u64,
        step: i64,
        of: &Layout,
    ) -> std::result::Result<Layout, Refused> {
        let (size, processes) = (self.size, self.processes);
        let of = of.resized(of.lb, step)?;
        let (block, cyclic) = match self.distribution {
            Distribution::None if processes != 1 => {
                return Err(Refused::Why("not distributed, over more than one process"));
            }
            Distribution::None => (size, false),
            Distribution::Block(None) => (size.div_ceil(processes), false),
            Distribution::Block(Some(block)) => (block, false),
            Distribution::Cyclic(block) => (block.unwrap_or(1), true),
        };
        if block == 0 && size > 0 {
            return Err(Refused::Why("blocks of no element"));
        }
        if !cyclic && u128::from(block) * u128::from(processes) < u128::from(size) {
            return Err(Refused::Why("blocks too small for the elements"));
        }
        let Some(first) = block.checked_mul(coordinate).filter(|&first| first < size) else {
            return Ok(Layout::contiguous(0, &of)?);
        };
        // Whole blocks, and what is left of one at the end.
        let round = block.saturating_mul(processes);
        let whole = if cyclic { (size - first) / round } else { 0 };
        let rest = block.min(size - first - whole * round);
        let body = Layout::contiguous(block, &of)?;
        let mut all = Collector::new();
        let far = times(round.min(size), step)?;
        all.push(times(first, step)?, whole, &body.resized(body.lb, far)?)?;
        all.push(times(first + whole * round, step)?, rest, &of)?;
        Ok(all.done()?)
    }
}
