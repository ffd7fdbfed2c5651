//! Places in the target's memory as a request carries them: strided stretches of
//! equal blocks, in front of the bytes.
//!
//! What comes from a peer is not trusted: every number is checked before memory is
//! touched.

use super::exposed_region::ExposedRegion;
use crate::datatype::Layout;

/// `count` blocks of `len` bytes, `stride` apart, the first at `at`: bytes from
/// the place of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    at: i64,
    stride: i64,
    len: u32,
    count: u32,
}

/// Bytes of the number of stretches, and of each.
const HEAD: usize = 8;
const EACH: usize = 24;

/// Stretches of one request, and the bytes that they take.
pub(super) struct Places {
    list: Vec<Stretch>,
    pub(super) bytes: usize,
}

impl Places {
    /// Those from byte `from` of a layout's packed stream on: as many as fit into
    /// `longest` bytes of a request with `operands` bytes for each of theirs, and
    /// into an answer of as many. Nothing ends within an element of `size` bytes.
    pub(super) fn cut(
        layout: &Layout,
        from: u64,
        longest: usize,
        operands: usize,
        size: usize,
    ) -> Places {
        let mut places = Places { list: Vec::new(), bytes: 0 };
        for (at, len) in layout.blocks_from(from) {
            // A block may need a stretch of its own.
            let used = HEAD + (places.list.len() + 1) * EACH + operands * places.bytes;
            let left = longest.saturating_sub(used) / operands.max(1);
            let left = left.min(longest - places.bytes) / size * size;
            let taken = len.min(left.min(u32::MAX as usize / 2) as u64) as u32;
            if taken == 0 {
                break;
            }
            places.push(at, taken);
            places.bytes += taken as usize;
            if u64::from(taken) < len {
                break;
            }
        }
        places
    }

    fn push(&mut self, at: i64, len: u32) {
        if let Some(last) = self.list.last_mut()
            && last.len == len
            && last.count < u32::MAX
        {
            if last.count == 1 {
                last.stride = at - last.at;
            }
            if last.at + last.stride * i64::from(last.count) == at {
                last.count += 1;
                return;
            }
        }
        self.list.push(Stretch { at, stride: 0, len, count: 1 });
    }

    /// What goes in front of the bytes of a request.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.list.len() * EACH);
        out.extend_from_slice(&(self.list.len() as u64).to_le_bytes());
        for stretch in &self.list {
            out.extend_from_slice(&stretch.at.to_le_bytes());
            out.extend_from_slice(&stretch.stride.to_le_bytes());
            out.extend_from_slice(&stretch.len.to_le_bytes());
            out.extend_from_slice(&stretch.count.to_le_bytes());
        }
        out
    }

    /// Takes the places off a request's body; `None` where they are not well
    /// formed, or take more than `most` bytes.
    pub(super) fn decode(body: &[u8], most: usize) -> Option<(Places, &[u8])> {
        let (count, rest) = body.split_first_chunk::<HEAD>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (list, rest) = rest.split_at_checked(count.checked_mul(EACH)?)?;
        let mut places = Places { list: Vec::with_capacity(count), bytes: 0 };
        for mut each in list.chunks_exact(EACH) {
            let stretch = Stretch {
                at: i64::from_le_bytes(*take(&mut each)?),
                stride: i64::from_le_bytes(*take(&mut each)?),
                len: u32::from_le_bytes(*take(&mut each)?),
                count: u32::from_le_bytes(*take(&mut each)?),
            };
            let bytes = (stretch.len as usize).checked_mul(stretch.count as usize)?;
            places.bytes = places.bytes.checked_add(bytes).filter(|&all| all <= most)?;
            if stretch.len == 0 || stretch.count == 0 {
                return None;
            }
            places.list.push(stretch);
        }
        Some((places, rest))
    }

    /// Calls `act` with the place in the region, the packed bytes before it and the
    /// length of each block, all of which are within the region when the first call
    /// comes. `None` where some are not; then nothing was done, unless memory was
    /// detached meanwhile.
    pub(super) fn each_block(
        &self,
        region: &ExposedRegion,
        place: u64,
        mut act: impl FnMut(*mut u8, usize, usize),
    ) -> Option<()> {
        self.within(region, place)?;
        let mut before = 0;
        self.list.iter().try_for_each(|stretch| {
            stretch.walk(region, place, &mut |at, len| {
                act(at, before, len);
                before += len;
            })
        })
    }

    /// Whether all blocks are within the region.
    pub(super) fn within(&self, region: &ExposedRegion, place: u64) -> Option<()> {
        self.list.iter().try_for_each(|stretch| stretch.walk(region, place, &mut |_, _| ()))
    }

    /// The offset of each block in the region, the packed bytes before it and its
    /// length; nothing is known of the region's bounds.
    pub(super) fn offsets(&self, place: u64) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
        let runs = self.list.iter().flat_map(|s| (0..s.count).map(move |i| (s, i)));
        runs.scan(0, move |before, (stretch, i)| {
            let (at, len) = (*before, stretch.len as usize);
            *before += len;
            let step = stretch.stride.wrapping_mul(i64::from(i));
            Some((place.wrapping_add_signed(stretch.at.wrapping_add(step)), at, len))
        })
    }

    /// Whether all blocks are whole elements of `size` bytes.
    pub(super) fn holds_elements(&self, size: usize) -> bool {
        self.list.iter().all(|stretch| (stretch.len as usize).is_multiple_of(size))
    }
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

impl Stretch {
    fn walk(
        &self,
        region: &ExposedRegion,
        place: u64,
        act: &mut dyn FnMut(*mut u8, usize),
    ) -> Option<()> {
        let len = self.len as usize;
        let last = self.stride.checked_mul(i64::from(self.count) - 1)?;
        let low = place.checked_add_signed(self.at)?.checked_add_signed(last.min(0))?;
        let span = usize::try_from(last.unsigned_abs()).ok()?.checked_add(len)?;
        let whole = region.with_range(low, span, |start| {
            let first = start.wrapping_add(last.min(0).unsigned_abs() as usize);
            for i in 0..i64::from(self.count) {
                act(first.wrapping_offset((self.stride * i) as isize), len);
            }
        });
        if whole.is_some() {
            return whole;
        }
        // Pieces of memory were attached, each block in one of them perhaps.
        let first = place.checked_add_signed(self.at)?;
        (0..i64::from(self.count)).try_for_each(|i| {
            let offset = first.checked_add_signed(self.stride.checked_mul(i)?)?;
            region.with_range(offset, len, |at| act(at, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;
    use proptest::prelude::*;

    fn region(memory: &mut [u8]) -> ExposedRegion {
        ExposedRegion::new(1, (memory.as_mut_ptr(), memory.len()), false, None, 1)
    }

    proptest! {
        /// Whatever the pieces, the blocks are the layout's.
        #[test]
        fn pieces_are_the_layouts_runs(
            runs in prop::collection::vec((0_i64..60, 1_u64..9), 1..40),
            longest in 64_usize..200, operands in 0_usize..3,
        ) {
            let (lengths, places): (Vec<u64>, Vec<i64>) =
                runs.iter().map(|&(at, len)| (8 * len, 9 * at)).unzip();
            let byte = Layout::basic(Basic::U8);
            let layout = Layout::hindexed(&lengths, &places, &byte).unwrap();
            let mut want = Vec::new();
            layout.for_each_block(|at, len| want.extend(at..at + len as i64));
            let (mut got, mut from) = (Vec::new(), 0);
            while from < layout.size() {
                let cut = Places::cut(&layout, from, longest, operands, 8);
                prop_assert!(cut.bytes > 0 && cut.bytes <= longest && cut.bytes.is_multiple_of(8));
                let mut body = cut.encode();
                prop_assert!(body.len() + operands * cut.bytes <= longest);
                body.push(7);
                let (back, rest) = Places::decode(&body, cut.bytes).unwrap();
                prop_assert_eq!(rest, &[7]);
                prop_assert!(Places::decode(&body, cut.bytes - 1).is_none());
                for (at, _, len) in back.offsets(100) {
                    got.extend(at as i64 - 100..at as i64 - 100 + len as i64);
                }
                from += cut.bytes as u64;
            }
            prop_assert_eq!(got, want);
        }

        /// Garbage is refused, or stays within the memory.
        #[test]
        fn garbage_touches_nothing_outside(
            list in prop::collection::vec((any::<i64>(), any::<i64>(), 0_u32..50, 0_u32..50), 0..4),
            small: bool, place in 0_u64..100,
        ) {
            let list = list.iter().map(|&(at, stride, len, count)| Stretch {
                at: if small { at % 90 } else { at },
                stride: if small { stride % 9 } else { stride },
                len,
                count,
            });
            let body = Places { list: list.collect(), bytes: 0 }.encode();
            let mut memory = vec![0; 200];
            let (start, end) = (memory.as_ptr().addr(), memory.as_ptr().addr() + 200);
            let region = region(&mut memory);
            if let Some((places, _)) = Places::decode(&body, 4000) {
                let mut done = 0;
                let all = places.each_block(&region, place, |at, before, len| {
                    assert!(at.addr() >= start && at.addr() + len <= end && before == done);
                    done += len;
                });
                prop_assert_eq!(done, if all.is_some() { places.bytes } else { 0 });
            }
        }
    }

    #[test]
    fn bodies_that_are_cut_are_refused() {
        let byte = Layout::basic(Basic::U8);
        let layout = Layout::hvector(5, 2, -7, &byte).unwrap();
        let places = Places::cut(&layout, 0, 100, 1, 1);
        assert_eq!(places.list, [Stretch { at: 0, stride: -7, len: 2, count: 5 }]);
        let body = places.encode();
        for len in 0..body.len() {
            assert!(Places::decode(&body[..len], 10).is_none());
        }
        let mut many = body.clone();
        many[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Places::decode(&many, usize::MAX).is_none());
    }
}
