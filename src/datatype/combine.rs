//! Unpacking with an operation on the way: accumulate.

use super::error::LayoutError;
use super::layout::Layout;

/// What a fragment ended within: the begin of an element, kept for the next.
///
/// ```
/// use rankway::datatype::{Basic, Carry, Layout};
///
/// // Every other number of eight, and a message that comes in pieces of any length.
/// let layout = Layout::vector(4, 1, 2, &Layout::basic(Basic::U32))?;
/// let mut memory = [10u32; 8];
/// let message: Vec<u8> = [1u32, 2, 3, 4].iter().flat_map(|n| n.to_ne_bytes()).collect();
/// let add = |into: *mut u8, from: *const u8, elements: usize| {
///     for i in 0..elements {
///         // SAFETY: so many elements are at either place.
///         unsafe {
///             let (into, from) = (into.cast::<u32>().add(i), from.cast::<u32>().add(i));
///             into.write_unaligned(into.read_unaligned() + from.read_unaligned());
///         }
///     }
/// };
/// let mut carry = Carry::default();
/// for piece in message.chunks(7) {
///     // SAFETY: `memory` holds the layout.
///     unsafe { layout.combine_next(memory.as_mut_ptr().cast(), &mut carry, piece, add)? };
/// }
/// assert_eq!(memory, [11, 10, 12, 10, 13, 10, 14, 10]);
/// # Ok::<(), rankway::datatype::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Carry {
    /// Bytes of the packed stream that are combined: whole elements.
    done: u64,
    /// The begin of the element behind them.
    bytes: [u8; 16],
    have: usize,
}

impl Carry {
    /// Bytes of the packed stream that came so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.done + self.have as u64
    }
}

impl Layout {
    /// Combines `data` with the elements from byte `from` of the packed stream on, until
    /// either ends; returns how many bytes of `data` were used: whole elements.
    ///
    /// `from` is the begin of an element. `operation` gets elements of the layout's
    /// basic type (see [`Layout::element`]), as many of memory as of the data; their
    /// addresses may be any.
    ///
    /// # Errors
    /// As [`Layout::pack`]; [`LayoutError::Mixed`] if the layout is of several basic types.
    pub fn combine(
        &self,
        memory: &mut [u8],
        origin: usize,
        from: u64,
        data: &[u8],
        mut operation: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        let size = self.element().map_or(1, |basic| basic.size());
        let memory = memory.as_mut_ptr().wrapping_add(origin);
        // SAFETY: all that the layout takes lies in `memory`, as was checked, which is
        // borrowed alone; so do the slices, one at a time.
        unsafe {
            self.combine_raw(memory, from, data, |into, from, elements| {
                let len = elements * size;
                let into = std::slice::from_raw_parts_mut(into, len);
                operation(into, std::slice::from_raw_parts(from, len));
            })
        }
    }

    /// [`Layout::combine`] into memory that the caller knows to hold the layout:
    /// `operation(into, from, elements)`.
    ///
    /// # Errors
    /// As [`Layout::combine`].
    ///
    /// # Safety
    /// \[MEM\] the layout's bytes, from `memory` as its origin, are the operation's to read
    /// and write, and `data` is apart from them.
    pub unsafe fn combine_raw(
        &self,
        memory: *mut u8,
        from: u64,
        data: &[u8],
        mut operation: impl FnMut(*mut u8, *const u8, usize),
    ) -> Result<usize, LayoutError> {
        let Some(basic) = self.element() else {
            return if self.size() == 0 { Ok(0) } else { Err(LayoutError::Mixed) };
        };
        let size = basic.size();
        let mut left = data.len() / size * size;
        let mut data = data.as_ptr();
        let mut used = 0;
        // An element lies within one block, so whole elements do.
        for (at, len) in self.blocks_from(from) {
            let len = (left as u64).min(len) as usize;
            if len == 0 {
                break;
            }
            operation(memory.wrapping_offset(at as isize), data, len / size);
            (data, left, used) = (data.wrapping_add(len), left - len, used + len);
        }
        Ok(used)
    }

    /// Combines the next fragment of a message, of any length: an element that it ends
    /// within is kept in `carry` until the rest comes. What goes beyond the layout is
    /// left out.
    ///
    /// # Errors
    /// As [`Layout::combine`].
    ///
    /// # Safety
    /// As [`Layout::combine_raw`]; `carry` was used for this layout alone, from its
    /// default on.
    pub unsafe fn combine_next(
        &self,
        memory: *mut u8,
        carry: &mut Carry,
        mut data: &[u8],
        mut operation: impl FnMut(*mut u8, *const u8, usize),
    ) -> Result<(), LayoutError> {
        let size = self.element().map_or(1, |basic| basic.size());
        if carry.have > 0 {
            let more = (size - carry.have).min(data.len());
            carry.bytes[carry.have..carry.have + more].copy_from_slice(&data[..more]);
            (carry.have, data) = (carry.have + more, &data[more..]);
            if carry.have < size {
                return Ok(());
            }
            // SAFETY: [MEM].
            unsafe { self.combine_raw(memory, carry.done, &carry.bytes[..size], &mut operation)? };
            (carry.done, carry.have) = (carry.done + size as u64, 0);
        }
        // SAFETY: [MEM].
        let used = unsafe { self.combine_raw(memory, carry.done, data, operation)? };
        carry.done += used as u64;
        let rest = &data[used..];
        if rest.len() < size {
            carry.bytes[..rest.len()].copy_from_slice(rest);
            carry.have = rest.len();
        }
        Ok(())
    }
}
