//! Copies from one layout's bytes to another's, without a buffer between them.

use super::blocks::Stretch;
use super::error::LayoutError;
use super::layout::Layout;
use std::ops::Range;
use std::slice;

/// A block of so many bytes is the packed stream of the other side, where that side's
/// blocks are a quarter of it or less: kernels pack or unpack it.
const STREAM: u64 = 1024;
/// Where both sides' next stretches have fewer bytes than this, going from one to the next
/// takes longer than kernels that pack and unpack.
const SCATTERED: u64 = 128;
/// Bytes that are packed before they are unpacked: they stay in the nearest cache.
const STAGE: usize = 8192;
/// Bytes that are staged before the blocks are looked at again.
const STAGED: u64 = 8 * STAGE as u64;

impl Layout {
    /// Copies bytes `range` of this layout's packed stream, out of memory with its origin
    /// at so many bytes, to the same bytes of that of `into`; returns how many, fewer
    /// where either stream ends.
    ///
    /// Streams of different lengths and from any byte on: a message that is shorter than
    /// what it is received as, and fragments of it.
    ///
    /// # Errors
    /// One of the layouts takes bytes outside of its memory.
    pub fn copy_to(
        &self,
        (memory, origin): (&[u8], usize),
        into: &Layout,
        (target, at): (&mut [u8], usize),
        range: Range<u64>,
    ) -> Result<u64, LayoutError> {
        self.check(memory.len(), origin)?;
        into.check(target.len(), at)?;
        let (memory, target) =
            (memory.as_ptr().wrapping_add(origin), target.as_mut_ptr().wrapping_add(at));
        // SAFETY: all that the layouts take lies in what is given, as was checked, and
        // `target` is borrowed alone.
        Ok(unsafe { self.copy_to_raw(memory, into, target, range) })
    }

    /// [`Layout::copy_to`] between memory that the caller knows to hold the layouts.
    ///
    /// # Safety
    /// \[MEM\] this layout's bytes, from `memory` as its origin, can be read, and those of
    /// `into`, from `target`, written; nobody else writes the ones or uses the others
    /// meanwhile, and they are apart.
    pub unsafe fn copy_to_raw(
        &self,
        memory: *const u8,
        into: &Layout,
        target: *mut u8,
        range: Range<u64>,
    ) -> u64 {
        let end = range.end.min(self.size()).min(into.size());
        let (mut at, done) = (range.start, end.saturating_sub(range.start));
        let (mut ours, mut theirs) = (self.blocks_from(at), into.blocks_from(at));
        while at < end
            && let (Some(from), Some(to)) = (ours.stretch(), theirs.stretch())
        {
            let left = end - at;
            if (from.len * from.count).max(to.len * to.count) < SCATTERED && left >= STREAM {
                let next = at + left.min(STAGED);
                // SAFETY: [MEM].
                unsafe { self.stage(memory, into, target, at..next) };
                at = next;
                (ours, theirs) = (self.blocks_from(at), into.blocks_from(at));
                continue;
            }
            let source = memory.wrapping_offset(from.at as isize);
            let sink = target.wrapping_offset(to.at as isize);
            if from.len == to.len && from.len <= left {
                let count = from.count.min(to.count).min(left / from.len);
                // SAFETY: [MEM]: so many blocks of either lie before the end.
                unsafe { strided(source, from, sink, to, count as usize) };
                ours.pass_blocks(count);
                theirs.pass_blocks(count);
                at += count * from.len;
                continue;
            }
            let len = from.len.min(to.len).min(left);
            if from.len.min(left) >= STREAM.max(4 * to.len) {
                let len = from.len.min(left);
                // SAFETY: [MEM]: one block of ours, and apart from what is written.
                unsafe {
                    into.unpack_raw(target, at, slice::from_raw_parts(source, len as usize));
                }
                ours.pass(len);
                at += len;
                theirs = into.blocks_from(at);
            } else if to.len.min(left) >= STREAM.max(4 * from.len) {
                let len = to.len.min(left);
                // SAFETY: [MEM]: one block of theirs, and apart from what is read.
                unsafe {
                    self.pack_raw(memory, at, slice::from_raw_parts_mut(sink, len as usize));
                }
                theirs.pass(len);
                at += len;
                ours = self.blocks_from(at);
            } else {
                // SAFETY: [MEM]: both blocks have as many bytes.
                unsafe { source.copy_to_nonoverlapping(sink, len as usize) };
                ours.pass(len);
                theirs.pass(len);
                at += len;
            }
        }
        done
    }

    /// Packs and unpacks these bytes.
    ///
    /// # Safety
    /// As [`Layout::copy_to_raw`].
    #[inline(never)]
    unsafe fn stage(&self, memory: *const u8, into: &Layout, target: *mut u8, range: Range<u64>) {
        let mut stage = [0; STAGE];
        for at in range.clone().step_by(STAGE) {
            let stage = &mut stage[..(range.end - at).min(STAGE as u64) as usize];
            // SAFETY: [MEM].
            unsafe {
                self.pack_raw(memory, at, stage);
                into.unpack_raw(target, at, stage);
            }
        }
    }
}

/// Copies so many blocks of one length from one stretch to another.
///
/// # Safety
/// \[MEM\] both have as many, the one can be read, the other written.
unsafe fn strided(source: *const u8, from: Stretch, sink: *mut u8, to: Stretch, count: usize) {
    /// # Safety
    /// As above, with blocks of this type's size.
    unsafe fn words<W: Copy>(
        mut source: *const u8,
        from: isize,
        mut sink: *mut u8,
        to: isize,
        count: usize,
    ) {
        for _ in 0..count {
            // SAFETY: the caller's.
            unsafe { sink.cast::<W>().write_unaligned(source.cast::<W>().read_unaligned()) };
            source = source.wrapping_offset(from);
            sink = sink.wrapping_offset(to);
        }
    }
    let (here, there) = (from.stride as isize, to.stride as isize);
    // SAFETY: the caller's.
    unsafe {
        match from.len {
            1 => words::<u8>(source, here, sink, there, count),
            2 => words::<u16>(source, here, sink, there, count),
            4 => words::<u32>(source, here, sink, there, count),
            8 => words::<u64>(source, here, sink, there, count),
            16 => words::<[u64; 2]>(source, here, sink, there, count),
            24 => words::<[u64; 3]>(source, here, sink, there, count),
            32 => words::<[u64; 4]>(source, here, sink, there, count),
            len => {
                for i in 0..count as isize {
                    let (source, sink) =
                        (source.wrapping_offset(i * here), sink.wrapping_offset(i * there));
                    source.copy_to_nonoverlapping(sink, len as usize);
                }
            }
        }
    }
}
