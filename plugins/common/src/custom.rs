//! Operations on elements that Rankway has none on: pairs, complex long doubles. The
//! target's device layer computes them.
//!
//! Elements travel at the extent of their type, so that the target's reduction
//! function works on them as they are; pairs may have gaps, which are never
//! written.

use rankway::datatype::Layout;
use rankway::netmod::Netmod;
use rankway::rma::{Custom, Error, Window};

/// The origin gets the elements as they were.
const FETCH: u64 = 1 << 62;
/// The elements stay.
const KEEP: u64 = 1 << 61;

/// Elements of a predefined type.
#[derive(Clone, Debug)]
pub struct Elements {
    one: Layout,
    size: usize,
    extent: usize,
    /// One past an element's last byte.
    end: usize,
}

/// Why an operation was not carried out.
#[derive(Debug)]
pub enum Failed {
    /// The elements are none.
    Type,
    /// Fewer operands than elements.
    Truncated,
    /// In front of the target's memory.
    Range,
    /// What the window says.
    Window(Error),
}

/// An operation on such elements.
#[derive(Clone, Copy, Debug)]
pub struct CustomOp<'a> {
    /// Type and operation, below bit 61, as the target's device layer reads them.
    pub code: u64,
    /// The type.
    pub elements: &'a Elements,
    /// `MPI_NO_OP`: they stay.
    pub keep: bool,
}

/// Elements of the target that lie at the distance of their extent.
struct Run {
    /// Bytes from the operation's place to the first.
    at: isize,
    count: usize,
}

impl Elements {
    /// Those of a type; `None` of a type without bytes.
    pub fn new(one: Layout) -> Option<Elements> {
        let (size, extent) = (one.size() as usize, usize::try_from(one.extent()).ok()?);
        let end = usize::try_from(one.true_bounds()?.1).ok()?;
        (size > 0 && extent > 0).then_some(Elements { one, size, extent, end })
    }

    fn spread(&self, count: usize) -> Result<Layout, Failed> {
        self.one.times(count as u64).map_err(|_| Failed::Type)
    }
}

impl CustomOp<'_> {
    /// Sends the operation, run by run. Operands and results are packed; with results they
    /// are there on return, without it is done after a flush.
    ///
    /// # Errors
    /// Why it was not carried out, maybe of a part.
    pub fn run<N: Netmod>(
        &self,
        window: &Window<N>,
        packed: &[u8],
        mut results: Option<&mut [u8]>,
        rank: u32,
        offset: usize,
        to: &Layout,
    ) -> Result<(), Failed> {
        let Elements { size, extent, end, .. } = *self.elements;
        let fetches = if results.is_some() { FETCH } else { 0 };
        let code = self.code | fetches | if self.keep { KEEP } else { 0 };
        let longest = window.custom_limit(rank).map_err(Failed::Window)?;
        let most = (longest / extent).max(1);
        let mut done = 0;
        for run in runs(to, size, extent) {
            let mut from = 0;
            while from < run.count {
                let count = most.min(run.count - from);
                let span = (count - 1) * extent + end;
                let spread = self.elements.spread(count)?;
                let operand = if self.keep {
                    Vec::new()
                } else {
                    let mut operand = vec![0; span];
                    let piece = packed.get(done..done + count * size).ok_or(Failed::Truncated)?;
                    // SAFETY: the span of `count` elements.
                    unsafe { spread.unpack_raw(operand.as_mut_ptr(), 0, piece) };
                    operand
                };
                let mut old = vec![0; if results.is_some() { span } else { 0 }];
                let at = offset.checked_add_signed(run.at + (from * extent) as isize);
                let at = at.ok_or(Failed::Range)?;
                let sent = window.custom(code, &operand, &mut old, rank, at, span);
                sent.map_err(Failed::Window)?;
                if let Some(results) = results.as_deref_mut()
                    && let Some(place) = results.get_mut(done..done + count * size)
                {
                    // SAFETY: the span of `count` elements.
                    unsafe { spread.pack_raw(old.as_ptr(), 0, place) };
                }
                done += count * size;
                from += count;
            }
        }
        Ok(())
    }
}

/// The elements of `size` bytes that blocks are made of, neighbours joined.
fn runs(layout: &Layout, size: usize, extent: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut packed = 0_usize;
    layout.for_each_block(|at, len| {
        let (at, len) = (at as isize, len as usize);
        // The first element that begins within the block.
        let mut byte = packed.next_multiple_of(size) - packed;
        while byte < len {
            let place = at + byte as isize;
            match runs.last_mut() {
                Some(run) if run.at + (run.count * extent) as isize == place => run.count += 1,
                _ => runs.push(Run { at: place, count: 1 }),
            }
            byte += size;
        }
        packed += len;
    });
    runs
}

/// What a target's device layer does with its elements.
#[derive(Debug)]
pub enum Change<F> {
    /// They become the operands.
    Replace,
    /// Operands, elements and their number: whether it could.
    Reduce(F),
}

/// Carries out an operation of a peer's on this process's memory, on these elements.
///
/// # Safety
/// As [`rankway::rma::Operator`]; what reduces is for these elements.
pub unsafe fn carry_out(
    custom: &Custom<'_>,
    result: &mut Vec<u8>,
    elements: &Elements,
    change: Change<impl FnOnce(*mut u8, *mut u8, usize) -> bool>,
) -> bool {
    let Elements { extent, end, .. } = *elements;
    if custom.span < end || !(custom.span - end).is_multiple_of(extent) {
        return false;
    }
    let count = (custom.span - end) / extent + 1;
    if custom.code & FETCH != 0 {
        // SAFETY: the memory holds the span.
        result.extend_from_slice(unsafe { std::slice::from_raw_parts(custom.at, custom.span) });
    }
    if custom.code & KEEP != 0 {
        return true;
    }
    if custom.operand.len() != custom.span {
        return false;
    }
    // The operand, where its elements are aligned.
    let mut operand = vec![0_u128; custom.span.div_ceil(16)];
    let from = operand.as_mut_ptr().cast::<u8>();
    // SAFETY: both hold the span.
    unsafe { std::ptr::copy_nonoverlapping(custom.operand.as_ptr(), from, custom.span) };
    match change {
        Change::Reduce(reduce) => reduce(from, custom.at, count),
        Change::Replace => {
            let Ok(spread) = elements.spread(count) else { return false };
            let mut packed = vec![0; spread.size() as usize];
            // SAFETY: both hold the span of `count` elements.
            unsafe {
                spread.pack_raw(from, 0, &mut packed);
                spread.unpack_raw(custom.at, 0, &packed);
            }
            true
        }
    }
}
