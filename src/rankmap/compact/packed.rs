//! Numbers of one width, packed: the thesis's "optimized array" and the part
//! most other forms are made of.
//!
//! Read by one unaligned load of eight bytes, a shift and a mask; in rank order
//! eight at a time where the machine has AVX2, in less than half the time.
//! The bytes are little-endian on every machine, so they are also what an image
//! holds.

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

    /// The numbers from `index` on, all of which there are.
    pub(super) fn fill(&self, index: usize, out: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        let done = self.fill_lanes(index, out);
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        (index + done..).zip(&mut out[done..]).for_each(|(index, slot)| *slot = self.get(index));
    }

    /// As many of them as the processor reads side by side: how many.
    #[cfg(target_arch = "x86_64")]
    fn fill_lanes(&self, index: usize, out: &mut [u32]) -> usize {
        let whole = out.len() / simd::LANES * simd::LANES;
        if self.width > simd::WIDTH_MAX
            || whole == 0
            || index + out.len() > self.len as usize
            || cfg!(miri)
            || !std::arch::is_x86_feature_detected!("avx2")
        {
            return 0;
        }
        // SAFETY: the machine has AVX2, and the numbers are all there.
        unsafe { simd::fill(&self.bytes, self.width, index, &mut out[..whole]) };
        whole
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
        if width == 0 && len > from.size {
            return Err(Refused::Content("more numbers than ranks"));
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

/// Eight numbers at once: they take as many bytes as one has bits, so places and
/// shifts are the same for every eight.
#[cfg(target_arch = "x86_64")]
mod simd {
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_i32gather_epi32, _mm256_mullo_epi32,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_srli_epi32, _mm256_srlv_epi32,
        _mm256_storeu_si256,
    };

    pub(super) const LANES: usize = 8;
    /// Four bytes hold a number of so many bits wherever it begins.
    pub(super) const WIDTH_MAX: u32 = 25;

    /// # Safety
    /// `bytes` have the numbers `index..index + out.len()` of `width` bits, at
    /// most [`WIDTH_MAX`], and eight bytes after them; `out` is whole eights.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn fill(bytes: &[u8], width: u32, index: usize, out: &mut [u32]) {
        let bit = index * width as usize;
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let bits = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(width as i32));
        let bits = _mm256_add_epi32(bits, _mm256_set1_epi32((bit & 7) as i32));
        let places = _mm256_srli_epi32::<3>(bits);
        let shifts = _mm256_and_si256(bits, _mm256_set1_epi32(7));
        let mask = _mm256_set1_epi32(super::mask(width) as i32);
        let mut at = bit >> 3;
        for eight in out.chunks_exact_mut(LANES) {
            // SAFETY: each load begins in the first byte of a number there is, or
            // right behind the bytes if the width is 0, and the caller has eight
            // bytes more.
            let words = unsafe {
                _mm256_i32gather_epi32::<1>(bytes.as_ptr().wrapping_add(at).cast(), places)
            };
            let numbers = _mm256_and_si256(_mm256_srlv_epi32(words, shifts), mask);
            // SAFETY: `eight` is as long as a vector.
            unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast::<__m256i>(), numbers) };
            at += width as usize;
        }
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
