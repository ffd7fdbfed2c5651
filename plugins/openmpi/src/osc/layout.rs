//! Open MPI's datatypes as iov lists.
//!
//! A datatype is a small program of loops and strided elements; here it is run
//! for `count` instances, and neighbours are joined. The order is that of the
//! type map, in which MPI pairs the bytes of origin and target.
//!
//! Never copies data but within buffers of this process.

use crate::ffi;

/// `count` instances of a datatype in memory.
#[derive(Debug, Default)]
pub(super) struct Iov {
    /// Displacement from [`Iov::low`] and bytes, in the type map's order.
    pub(super) list: Vec<(usize, usize)>,
    /// The lowest displacement from the buffer's address; may be negative.
    pub(super) low: isize,
    /// Bytes of all blocks.
    pub(super) bytes: usize,
}

impl Iov {
    /// # Safety
    /// `ty` is a datatype.
    pub(super) unsafe fn new(ty: *const ffi::ompi_datatype_t, count: usize) -> Iov {
        // SAFETY: [MPI].
        let ty = unsafe { &(*ty).super_ };
        let mut raw: Vec<(isize, usize)> = Vec::new();
        if count == 0 || ty.size == 0 {
            return Iov::default();
        }
        let extent = ty.ub - ty.lb;
        let contiguous = u32::from(ty.flags) & ffi::OPAL_DATATYPE_FLAG_CONTIGUOUS != 0;
        if contiguous && extent == ty.size as isize {
            push(&mut raw, ty.true_lb, ty.size * count);
        } else if contiguous {
            for i in 0..count as isize {
                push(&mut raw, ty.true_lb + i * extent, ty.size);
            }
        } else {
            // SAFETY: `used` descriptions, by Open MPI's own bookkeeping.
            let program = unsafe { std::slice::from_raw_parts(ty.desc.desc, ty.desc.used) };
            for i in 0..count as isize {
                run(program, i * extent, &mut raw);
            }
        }
        let low = raw.iter().map(|&(at, _)| at).min().unwrap_or(0);
        let bytes = raw.iter().map(|&(_, len)| len).sum();
        let list = raw.into_iter().map(|(at, len)| ((at - low) as usize, len)).collect();
        Iov { list, low, bytes }
    }

    /// Returns true if all bytes lie side by side.
    pub(super) fn is_one(&self) -> bool {
        self.list.len() == 1
    }

    /// The bytes at `from`, one behind the other.
    ///
    /// # Safety
    /// `from` is readable wherever a block is.
    pub(super) unsafe fn gather(&self, from: *const u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        for &(at, len) in &self.list {
            // SAFETY: [BUF].
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(from.offset(self.low).add(at), len)
            });
        }
        out
    }

    /// Puts bytes where they belong at `to`.
    ///
    /// # Safety
    /// `to` is writable wherever a block is.
    pub(super) unsafe fn scatter(&self, from: &[u8], to: *mut u8) {
        let mut rest = from;
        for &(at, len) in &self.list {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            // SAFETY: [BUF].
            unsafe {
                std::ptr::copy(piece.as_ptr(), to.offset(self.low).add(at), piece.len());
            }
        }
    }
}

fn push(list: &mut Vec<(isize, usize)>, at: isize, len: usize) {
    match list.last_mut() {
        _ if len == 0 => {}
        Some((last, before)) if *last + *before as isize == at => *before += len,
        _ => list.push((at, len)),
    }
}

/// Runs descriptions, `base` bytes from the buffer's address on.
fn run(program: &[ffi::dt_elem_desc], base: isize, out: &mut Vec<(isize, usize)>) {
    let mut at = 0;
    while let Some(step) = program.get(at) {
        // SAFETY: all variants begin with the common part.
        let common = unsafe { step.elem.common };
        match u32::from(common.type_) {
            ffi::OPAL_DATATYPE_LOOP => {
                // SAFETY: it says that it is a loop.
                let head = unsafe { step.loop_ };
                let items = head.items as usize;
                let Some(body) = program.get(at + 1..at + items) else { return };
                for i in 0..head.loops as isize {
                    run(body, base + i * head.extent, out);
                }
                at += items + 1;
            }
            ffi::OPAL_DATATYPE_END_LOOP => at += 1,
            _ if u32::from(common.flags) & ffi::OPAL_DATATYPE_FLAG_DATA != 0 => {
                // SAFETY: it says that it is data.
                let elem = unsafe { step.elem };
                let len = elem.blocklen * basic_size(common.type_);
                for i in 0..elem.count as isize {
                    push(out, base + elem.disp + i * elem.extent, len);
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Bytes of one of the types that everything is made of.
fn basic_size(id: u16) -> usize {
    // SAFETY: a table of constants; the id comes from a description.
    unsafe {
        let table = &raw const ffi::opal_datatype_basicDatatypes;
        let basic = (*table).as_ptr().add(usize::from(id)).read();
        (*basic).size
    }
}
