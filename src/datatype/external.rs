//! External32: packed bytes that every machine reads alike (MPI-4.1, 14.5.2).

use super::basic::Basic;
use super::error::LayoutError;
use super::layout::Layout;

/// Bytes of packed elements that are converted at once.
const CHUNK: usize = 4096;

/// The largest element.
const LARGEST: usize = 16;

impl Layout {
    /// Bytes of the packed stream in external32 (`MPI_Pack_external_size`); saturates.
    #[must_use]
    pub fn pack_external_size(&self) -> u64 {
        self.types.external()
    }

    /// Copies bytes `from..` of the packed stream in external32 into `out`, until either
    /// ends; returns how many (`MPI_Pack_external`).
    ///
    /// Big endian, in the sizes of [`Basic::external_size`]; wide characters keep their
    /// lower 16 bits.
    ///
    /// # Errors
    /// As [`Layout::pack`].
    pub fn pack_external(
        &self,
        memory: &[u8],
        origin: usize,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        // SAFETY: as in `Layout::pack`.
        Ok(unsafe { self.pack_external_raw(memory.as_ptr().wrapping_add(origin), from, out) })
    }

    /// Copies `data`, which is in external32, to where bytes `from..` of that stream
    /// belong, until either ends; returns how many (`MPI_Unpack_external`).
    ///
    /// # Errors
    /// As [`Layout::pack`].
    pub fn unpack_external(
        &self,
        memory: &mut [u8],
        origin: usize,
        from: u64,
        data: &[u8],
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        // SAFETY: as in `Layout::unpack`.
        Ok(unsafe {
            self.unpack_external_raw(memory.as_mut_ptr().wrapping_add(origin), from, data)
        })
    }

    /// [`Layout::pack_external`] from memory that the caller knows to hold the layout.
    ///
    /// # Safety
    /// \[MEM\] as [`Layout::pack_raw`].
    pub unsafe fn pack_external_raw(&self, memory: *const u8, from: u64, out: &mut [u8]) -> usize {
        let mut chunk = [0; CHUNK];
        let (mut begin, mut end) = (0, 0);
        self.elements(from, out.len(), |basic, count, native, within, at| {
            let (size, external) = (basic.size(), basic.external_size());
            if within > 0 || out.len() - at < external {
                let (mut one, mut converted) = ([0; LARGEST], [0; LARGEST]);
                // SAFETY: [MEM].
                unsafe { self.pack_raw(memory, native, &mut one[..size]) };
                convert::<true>(basic, &one[..size], &mut converted[..external]);
                let part = (external - within).min(out.len() - at);
                out[at..at + part].copy_from_slice(&converted[within..within + part]);
                (begin, end) = (0, 0);
                return (1, part);
            }
            if end - begin < size {
                let wanted = (2 * (out.len() - at)).clamp(LARGEST, CHUNK);
                // SAFETY: [MEM].
                (begin, end) = (0, unsafe { self.pack_raw(memory, native, &mut chunk[..wanted]) });
            }
            let n = ((end - begin) / size).min((out.len() - at) / external).min(count);
            let whole = &mut out[at..at + n * external];
            convert::<true>(basic, &chunk[begin..begin + n * size], whole);
            begin += n * size;
            (n, n * external)
        })
    }

    /// [`Layout::unpack_external`] into memory that the caller knows to hold the layout.
    ///
    /// # Safety
    /// \[MEM\] as [`Layout::unpack_raw`]; an element of which `data` has a part is read
    /// too.
    pub unsafe fn unpack_external_raw(&self, memory: *mut u8, from: u64, data: &[u8]) -> usize {
        let mut chunk = [0; CHUNK];
        // Where in the packed stream the chunk belongs, and its bytes.
        let (mut start, mut end) = (0, 0);
        let done = self.elements(from, data.len(), |basic, count, native, within, at| {
            let (size, external) = (basic.size(), basic.external_size());
            let split = within > 0 || data.len() - at < external;
            if split || CHUNK - end < size {
                // SAFETY: [MEM].
                unsafe { self.unpack_raw(memory, start, &chunk[..end]) };
                end = 0;
            }
            if split {
                let (mut one, mut converted) = ([0; LARGEST], [0; LARGEST]);
                // SAFETY: [MEM].
                unsafe { self.pack_raw(memory, native, &mut one[..size]) };
                convert::<true>(basic, &one[..size], &mut converted[..external]);
                let part = (external - within).min(data.len() - at);
                converted[within..within + part].copy_from_slice(&data[at..at + part]);
                convert::<false>(basic, &converted[..external], &mut one[..size]);
                // SAFETY: [MEM].
                unsafe { self.unpack_raw(memory, native, &one[..size]) };
                return (1, part);
            }
            if end == 0 {
                start = native;
            }
            let n = ((CHUNK - end) / size).min((data.len() - at) / external).min(count);
            let whole = &data[at..at + n * external];
            convert::<false>(basic, whole, &mut chunk[end..end + n * size]);
            end += n * size;
            (n, n * external)
        });
        // SAFETY: [MEM].
        unsafe { self.unpack_raw(memory, start, &chunk[..end]) };
        done
    }

    /// Goes over `len` bytes from `from` on of the stream in external32, until either
    /// ends; returns how many.
    ///
    /// `each` gets the type, how many of it there are, where the first begins in the
    /// packed stream, the bytes of it that are passed, and the bytes done; it returns
    /// how many elements and bytes it did, and may do a part of one.
    fn elements(
        &self,
        from: u64,
        len: usize,
        mut each: impl FnMut(Basic, usize, u64, usize, usize) -> (usize, usize),
    ) -> usize {
        let Some(left) = self.types.external().checked_sub(from) else { return 0 };
        let left = left.min(len as u64) as usize;
        if left == 0 {
            return 0;
        }
        let place = self.types.find(from);
        let (mut native, mut within, mut done) = (place.native, place.within as usize, 0);
        self.types.walk(place.elements, &mut |basic, mut count| {
            while count > 0 && done < left {
                let (elements, bytes) = each(basic, count as usize, native, within, done);
                (count, within, done) = (count - elements as u64, 0, done + bytes);
                native += (elements * basic.size()) as u64;
            }
            done < left
        });
        done
    }
}

/// Converts elements to external32, or from it.
fn convert<const TO: bool>(basic: Basic, from: &[u8], to: &mut [u8]) {
    match basic {
        Basic::WideChar if TO => {
            for (from, to) in from.as_chunks::<4>().0.iter().zip(to.as_chunks_mut::<2>().0) {
                *to = (u32::from_ne_bytes(*from) as u16).to_be_bytes();
            }
        }
        Basic::WideChar => {
            for (from, to) in from.as_chunks::<2>().0.iter().zip(to.as_chunks_mut::<4>().0) {
                *to = u32::from(u16::from_be_bytes(*from)).to_ne_bytes();
            }
        }
        Basic::LongDouble => {
            for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
                *to = if TO {
                    quad(u128::from_ne_bytes(*from)).to_be_bytes()
                } else {
                    long_double(u128::from_be_bytes(*from)).to_ne_bytes()
                };
            }
        }
        Basic::Byte | Basic::Char | Basic::Bool | Basic::I8 | Basic::U8 => to.copy_from_slice(from),
        Basic::I16 | Basic::U16 => swap::<2>(from, to),
        Basic::I32 | Basic::U32 | Basic::F32 | Basic::C32 => swap::<4>(from, to),
        Basic::I64 | Basic::U64 | Basic::F64 | Basic::C64 => swap::<8>(from, to),
    }
}

/// Turns words of so many bytes where this machine is little endian.
fn swap<const BYTES: usize>(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.as_chunks::<BYTES>().0.iter().zip(to.as_chunks_mut::<BYTES>().0) {
        *to = *from;
        if cfg!(target_endian = "little") {
            to.reverse();
        }
    }
}

/// A `long double` as IEEE's binary128, which most machines have; x86's has the same
/// exponent, its leading bit written out, and 63 bits behind it.
fn quad(native: u128) -> u128 {
    if !cfg!(target_arch = "x86_64") {
        return native;
    }
    let sign_and_exponent = native >> 64 & 0xffff;
    let fraction = native & (u128::from(u64::MAX) >> 1);
    sign_and_exponent << 112 | fraction << 49
}

/// The other way; bits that x86's has no place for are dropped, and a NaN stays one.
fn long_double(quad: u128) -> u128 {
    if !cfg!(target_arch = "x86_64") {
        return quad;
    }
    let (sign_and_exponent, all) = (quad >> 112, quad & ((1 << 112) - 1));
    let exponent = sign_and_exponent & 0x7fff;
    let mut fraction = all >> 49;
    if exponent == 0x7fff && all != 0 && fraction == 0 {
        fraction = 1 << 62;
    }
    sign_and_exponent << 64 | u128::from(exponent != 0) << 63 | fraction
}
