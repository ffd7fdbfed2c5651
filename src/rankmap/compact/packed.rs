//! Numbers of one width, packed: the thesis's "optimized array" and the part
//! most other forms are made of.
//!
//! Read by one unaligned load of eight bytes, a shift and a mask. The bytes are
//! little-endian on every machine, so they are also what an image holds.

use super::image::{Reader, Refused, Writer};

/// Zeros after the last number, so that a load of eight bytes stays inside.
const PAD: usize = 8;

/// `len` numbers of `width` bits, at most 32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    len: u32,
    width: u32,
}

impl Packed {
    /// Heap bytes of so many numbers of this width.
    pub(super) fn cost(len: u64, width: u32) -> u64 {
        (len * u64::from(width)).div_ceil(8) + PAD as u64
    }

    pub(super) fn from_iter(width: u32, values: impl IntoIterator<Item = u32>) -> Packed {
        let values = values.into_iter();
        let mut builder = Builder::new(width, values.size_hint().0);
        values.for_each(|value| builder.push(value));
        builder.finish()
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        let bit = index * self.width as usize;
        // The width is at most 32 and the shift at most 7.
        (load(&self.bytes, bit >> 3) >> (bit & 7)) as u32 & mask(self.width)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.len);
        out.u32(self.width);
        out.bytes(&self.bytes[..self.bytes.len() - PAD]);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Packed, Refused> {
        let (len, width) = (from.u32()?, from.u32()?);
        if width > 32 {
            return Err(Refused::Content("a number wider than 32 bits"));
        }
        let used = Packed::cost(u64::from(len), width) as usize - PAD;
        let mut bytes = from.bytes(used)?.to_vec();
        bytes.extend_from_slice(&[0; PAD]);
        Ok(Packed { bytes: bytes.into_boxed_slice(), len, width })
    }
}

/// Bits that `value` needs.
#[inline]
pub(super) fn width_of(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

#[inline(always)]
pub(super) fn mask(width: u32) -> u32 {
    ((1u64 << width) - 1) as u32
}

/// Eight bytes from `at` on; zeros past the end.
#[inline(always)]
pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    }
}

/// Packs numbers one after another; the width may change between them.
#[derive(Debug)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    open: u64,
    filled: u32,
    len: u32,
    width: u32,
}

impl Builder {
    pub(super) fn new(width: u32, expected: usize) -> Builder {
        let bytes = (expected.min(1 << 28) * width as usize).div_ceil(8) + PAD;
        Builder { bytes: Vec::with_capacity(bytes), open: 0, filled: 0, len: 0, width }
    }

    #[inline]
    pub(super) fn push(&mut self, value: u32) {
        self.push_bits(value, self.width);
        self.len += 1;
    }

    /// `width` at most 32; higher bits of the value are cut.
    #[inline]
    pub(super) fn push_bits(&mut self, value: u32, width: u32) {
        self.open |= u64::from(value & mask(width)) << self.filled;
        self.filled += width;
        if self.filled >= 32 {
            self.bytes.extend_from_slice(&(self.open as u32).to_le_bytes());
            self.open >>= 32;
            self.filled -= 32;
        }
    }

    /// The bytes with the padding.
    pub(super) fn finish_bytes(mut self) -> Box<[u8]> {
        let rest = self.filled.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.open.to_le_bytes()[..rest]);
        self.bytes.extend_from_slice(&[0; PAD]);
        self.bytes.into_boxed_slice()
    }

    pub(super) fn finish(self) -> Packed {
        let (len, width) = (self.len, self.width);
        Packed { bytes: self.finish_bytes(), len, width }
    }
}
