//! Requests on places in the target's memory: a description of a part of its layout
//! goes in front of the operands, and the target's own kernels carry it out.
//!
//! What comes from a peer is not trusted: [`Layout::decode`] checks descriptions, and
//! bounds and lengths are checked here before memory is touched.

use super::exposed_region::ExposedRegion;
use super::types::Status;
use super::{Error, ErrorKind};
use crate::datatype::{Columns, Layout};
use crate::netmod::compute::Work;
use crate::netmod::{Kind, Op, Type};

/// Bytes of the length of a description, in front of it.
const LENGTH: usize = 8;

/// Bytes of a request that may not have space for a row of columns and its description.
pub(super) const SHORT: usize = 512;

/// Cache lines of a row of columns: the kernels write whole lines to a page they have
/// open. And bytes of a request for each, so that columns have as many rows.
const ROW: u64 = 8;
const FOR_LINE: u64 = 1024;

/// Stretches of a packed stream for one request: as many as there are, of so many bytes
/// each, the first from `from` on and each `step` behind the one before.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) from: u64,
    pub(super) len: u64,
    pub(super) count: u64,
    pub(super) step: u64,
}

impl Cut {
    pub(super) fn bytes(self) -> usize {
        (self.count * self.len) as usize
    }

    /// The layout's part, and the byte of the part's stream that is its first.
    pub(super) fn of(self, layout: &Layout) -> Result<(Layout, u64), Error> {
        match self.count {
            1 => Ok((layout.clone(), self.from)),
            _ => Ok((self.described(layout)?, 0)),
        }
    }

    fn described(self, layout: &Layout) -> Result<Layout, Error> {
        let cut = layout.part_of_each(self.from..self.from + self.len, self.count, self.step);
        Ok(cut.map_err(ErrorKind::Layout)?)
    }
}

/// A layout cut into parts, each for one request.
pub(super) struct Parts<'l> {
    layout: &'l Layout,
    /// Those that share cache lines go side by side; without any all is one column.
    columns: Columns,
    /// Columns of which all was cut, and the bytes that were of the next ones.
    passed: u64,
    done: u64,
    /// Bytes of a request, and of an answer.
    longest: usize,
    /// How many operands a request has for each byte.
    operands: usize,
    /// Bytes of the next part, if its description fits beside them.
    next: usize,
}

impl<'l> Parts<'l> {
    /// No part ends within an element of `size` bytes.
    pub(super) fn new(
        layout: &'l Layout,
        longest: usize,
        operands: usize,
        size: usize,
    ) -> Parts<'l> {
        let (bytes, block) = (layout.size(), size as u64);
        let whole = Columns { side_by_side: 1, count: 1, bytes, block };
        let lines = (longest as u64 / FOR_LINE).clamp(1, ROW);
        // (Blocks of columns that overlap may be long.)
        let is_short = |c: &Columns| lines * c.side_by_side * c.block <= longest as u64 / 2;
        let fit = |c: &Columns| c.block.is_multiple_of(block) && longest >= SHORT && is_short(c);
        let rows = |c: Columns| Columns { side_by_side: lines * c.side_by_side, ..c };
        let columns = layout.columns().filter(fit).map_or(whole, rows);
        let (passed, done) = (0, 0);
        Parts { layout, columns, passed, done, longest, operands, next: longest }
    }

    /// Describes the next part at the beginning of `body`, which has space for a request;
    /// the bytes that took. `None` behind the last.
    pub(super) fn cut(&mut self, body: &mut [u8]) -> Result<Option<(Cut, usize)>, Error> {
        let (Columns { side_by_side, count, bytes, block }, longest) = (self.columns, self.longest);
        if self.passed == count || bytes == 0 {
            return Ok(None);
        }
        let count = side_by_side.min(count - self.passed);
        let mut next = self.next;
        loop {
            let len = (next as u64 / count / block * block).min(bytes - self.done);
            if len == 0 {
                let why =
                    format!("the provider's packets of {longest} bytes are too short for this");
                return Err(ErrorKind::Arguments(why).into());
            }
            let cut = Cut { from: self.passed * bytes + self.done, len, count, step: bytes };
            let description = cut.described(self.layout)?.encode();
            let front = LENGTH + description.len();
            let used = front + self.operands * cut.bytes();
            if used > longest {
                next = (cut.bytes() * longest / used).min(cut.bytes() - 1);
                continue;
            }
            body[..LENGTH].copy_from_slice(&(description.len() as u64).to_le_bytes());
            body[LENGTH..front].copy_from_slice(&description);
            self.done += len;
            if self.done == bytes {
                (self.passed, self.done) = (self.passed + count, 0);
            }
            // What fits is found out once, unless what follows is described shorter.
            self.next = if used < longest / 2 { longest } else { next };
            return Ok(Some((cut, front)));
        }
    }
}

/// Takes the places off a request's body; `None` where they are not well formed.
pub(super) fn decode(body: &[u8]) -> Option<(Layout, &[u8])> {
    let (len, rest) = body.split_first_chunk::<LENGTH>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (description, rest) = rest.split_at_checked(len)?;
    Some((Layout::decode(description).ok()?, rest))
}

/// Calls `act` with the place of each block, the packed bytes before it and its length;
/// `None` where one is not in the region, when those before it are done.
fn each_block(
    region: &ExposedRegion,
    place: u64,
    layout: &Layout,
    mut act: impl FnMut(*mut u8, usize, usize),
) -> Option<()> {
    let mut before = 0;
    layout.blocks_from(0).try_for_each(|(at, len)| {
        let (at, len) = (place.checked_add_signed(at)?, len as usize);
        region.with_range(at, len, |at| act(at, before, len))?;
        before += len;
        Some(())
    })
}

/// Calls `act` with the layout's origin in memory if the region has all from its first
/// byte to its last.
fn whole<R>(
    region: &ExposedRegion,
    place: u64,
    layout: &Layout,
    act: impl FnOnce(*mut u8) -> R,
) -> Option<R> {
    let (low, high) = layout.true_bounds()?;
    let (first, span) = (place.checked_add_signed(low)?, usize::try_from(high - low).ok()?);
    region.with_range(first, span, |at| act(at.wrapping_offset(-low as isize)))
}

/// The packed bytes of a put or get.
pub(super) enum Stream<'a> {
    From(&'a [u8]),
    Into(&'a mut [u8]),
}

/// Copies between a layout and as many packed bytes; nothing if a block is not in the
/// region, unless memory was detached meanwhile.
pub(super) fn copy(
    region: &ExposedRegion,
    place: u64,
    layout: &Layout,
    stream: Stream<'_>,
) -> Status {
    let mut stream = stream;
    let copied = whole(region, place, layout, |origin| {
        // SAFETY: [MEM]: in range, and the stream is the provider's or our own.
        unsafe {
            match &mut stream {
                Stream::From(data) => layout.unpack_raw(origin, 0, data),
                Stream::Into(out) => layout.pack_raw(origin, 0, out),
            }
        };
    });
    // Pieces of memory were attached, each block in one of them perhaps.
    let copied = copied.or_else(|| {
        each_block(region, place, layout, |_, _, _| ())?;
        each_block(region, place, layout, |at, before, len| {
            // SAFETY: in range; the stream has as many bytes as the layout.
            unsafe {
                match &mut stream {
                    Stream::From(data) => at.copy_from(data[before..].as_ptr(), len),
                    Stream::Into(out) => at.copy_to(out[before..].as_mut_ptr(), len),
                }
            }
        })
    });
    copied.map_or(Status::OutOfRange, |()| Status::Done)
}

/// Applies an operation to the elements at places; `results` is empty unless they are
/// fetched.
pub(super) fn elements(
    region: &ExposedRegion,
    place: u64,
    layout: &Layout,
    (ty, op): (Type, Op),
    (operands, results): (&[u8], &mut [u8]),
) -> Status {
    let size = ty.size();
    if layout.blocks_from(0).any(|(_, len)| !(len as usize).is_multiple_of(size)) {
        return Status::Malformed;
    }
    let inside = whole(region, place, layout, |_| ());
    if inside.or_else(|| each_block(region, place, layout, |_, _, _| ())).is_none() {
        return Status::OutOfRange;
    }
    let kind = if results.is_empty() { Kind::Update } else { Kind::Fetch };
    let (operands, result) = (operands.as_ptr(), results.as_mut_ptr());
    let mut before = 0;
    for (at, len) in layout.blocks_from(0) {
        let len = len as usize;
        let operand = if op == Op::NoOp { operands } else { operands.wrapping_add(before) };
        let work = Work {
            kind,
            ty,
            op,
            at: std::ptr::null_mut(),
            operand,
            compare: operand,
            result: if kind == Kind::Fetch { result.wrapping_add(before) } else { result },
            count: len / size,
        };
        // SAFETY: the buffers hold as many elements as the layout, those that are used.
        let status = unsafe { region.compute(place.wrapping_add_signed(at), work) };
        if status != Status::Done {
            return status;
        }
        before += len;
    }
    Status::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;
    use crate::rma::exposed_region::Elements;
    use proptest::prelude::*;

    fn list(runs: &[(i64, u64)]) -> Layout {
        let (lengths, places): (Vec<u64>, Vec<i64>) =
            runs.iter().map(|&(at, len)| (8 * len, 9 * at)).unzip();
        Layout::hindexed(&lengths, &places, &Layout::basic(Basic::U8)).unwrap()
    }

    fn offsets(layout: &Layout) -> Vec<i64> {
        layout.blocks_from(0).flat_map(|(at, len)| at..at + len as i64).collect()
    }

    /// As the target of a get may have them.
    #[test]
    fn columns_that_overlap_are_cut() {
        let rows = Layout::hvector(4, 600, 2048, &Layout::basic(Basic::U8)).unwrap();
        let windows = Layout::hvector(64, 1, 8, &rows).unwrap();
        for longest in [SHORT, 8 << 10, 16 << 10] {
            let (mut body, mut bytes) = (vec![0; longest], 0);
            let mut parts = Parts::new(&windows, longest, 0, 1);
            while let Some((cut, _)) = parts.cut(&mut body).unwrap() {
                bytes += cut.bytes();
            }
            assert_eq!(bytes as u64, windows.size(), "{longest}");
        }
    }

    /// A put to memory whose middle is exposed, or a get of so many bytes: its status, and
    /// what was got.
    fn carry_out(memory: &mut [u8], body: &[u8], gets: Option<usize>) -> (Status, Vec<u8>) {
        let middle = &mut memory[100..900];
        let elements = Elements::new(None, false, false);
        let memory = (middle.as_mut_ptr(), 800);
        let region = ExposedRegion::new(1, memory, false, elements, (None, None), (1, None));
        let mut out = vec![0; gets.unwrap_or(0)];
        let Some((layout, operands)) = decode(body) else { return (Status::Malformed, out) };
        let len = gets.unwrap_or(operands.len());
        if layout.size() != len as u64 {
            return (Status::Malformed, out);
        }
        let stream = match gets {
            Some(_) => Stream::Into(&mut out),
            None => Stream::From(operands),
        };
        (copy(&region, 300, &layout, stream), out)
    }

    proptest! {
        /// Whatever the parts, they are the layout's bytes.
        #[test]
        fn parts_are_the_whole(
            runs in prop::collection::vec((0_i64..60, 1_u64..9), 1..40),
            longest in 180_usize..1200, operands in 0_usize..3, rows in 0_u64..90,
        ) {
            // Some columns side by side, of which those of different lines are not.
            let layout = match rows {
                0..30 => list(&runs),
                rows => {
                    let column = Layout::hvector(rows, 8, 168, &Layout::basic(Basic::U8)).unwrap();
                    Layout::hvector(runs.len() as u64, 1, 8, &column).unwrap()
                }
            };
            let mut parts = Parts::new(&layout, longest, operands, 8);
            let (mut body, mut got) = (vec![7; longest + 1], vec![None; layout.size() as usize]);
            let whole = offsets(&layout);
            while let Some((cut, front)) = parts.cut(&mut body).unwrap() {
                let bytes = cut.bytes();
                prop_assert!(bytes > 0 && bytes <= longest);
                prop_assert!(bytes.is_multiple_of(8));
                prop_assert!(front + operands * bytes <= longest);
                body[front] = 7;
                let (part, rest) = decode(&body[..=front]).unwrap();
                prop_assert_eq!((part.size(), rest), (bytes as u64, &[7][..]));
                let at = (0..cut.count).flat_map(|i| (0..cut.len).map(move |b| (i, b)));
                for ((i, b), at) in at.zip(offsets(&part)) {
                    let byte = &mut got[(cut.from + i * cut.step + b) as usize];
                    prop_assert_eq!(byte.replace(at), None);
                }
            }
            let got: Vec<i64> = got.into_iter().map(|byte| byte.unwrap()).collect();
            prop_assert_eq!(got, whole);
        }

        /// A request does what it says, or nothing.
        #[test]
        fn requests_stay_within_the_region(
            runs in prop::collection::vec((-40_i64..60, 1_u64..4), 1..12),
            change in prop::option::of((0_usize..40, any::<i64>(), any::<bool>())),
        ) {
            let layout = list(&runs);
            let mut body = vec![0; 4000];
            let (_, front) = Parts::new(&layout, 4000, 1, 1).cut(&mut body).unwrap().unwrap();
            body.truncate(front);
            if let Some((word, value, small)) = change {
                let at = 8 * word % body.len();
                let value = if small { value % 90 } else { value };
                body[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            let size = layout.size() as usize;
            body.extend((0..size).map(|i| 1 + (i % 250) as u8));
            let mut memory = vec![0; 1000];
            let (status, _) = carry_out(&mut memory, &body, None);
            prop_assert!(memory[..100].iter().chain(&memory[900..]).all(|&byte| byte == 0));
            if status != Status::Done {
                prop_assert!(memory.iter().all(|&byte| byte == 0));
            }
            if change.is_none() {
                let inside = |at: &i64| (0..800).contains(&(300 + at));
                prop_assert_eq!(status == Status::Done, offsets(&layout).iter().all(inside));
            }
            if change.is_none() && status == Status::Done {
                let mut want = vec![0; 1000];
                for (i, at) in offsets(&layout).into_iter().enumerate() {
                    want[(400 + at) as usize] = 1 + (i % 250) as u8;
                }
                prop_assert_eq!(&memory, &want);
                body.truncate(body.len() - size);
                let (status, out) = carry_out(&mut memory, &body, Some(size));
                let back = offsets(&layout).into_iter().map(|at| want[(400 + at) as usize]);
                prop_assert_eq!((status, out), (Status::Done, back.collect()));
            }
        }
    }

    #[test]
    fn bodies_that_are_cut_are_refused() {
        let layout = Layout::hvector(5, 2, -7, &Layout::basic(Basic::U8)).unwrap();
        let mut body = vec![0; 400];
        let (_, front) = Parts::new(&layout, 400, 1, 1).cut(&mut body).unwrap().unwrap();
        body.truncate(front);
        body.extend([7; 10]);
        let mut memory = vec![0; 1000];
        for len in 0..body.len() {
            let (status, _) = carry_out(&mut memory, &body[..len], None);
            assert_eq!(status, Status::Malformed);
        }
        let (status, _) = carry_out(&mut memory, &body, Some(11));
        assert_eq!((status, memory.iter().max()), (Status::Malformed, Some(&0)));
        assert_eq!(carry_out(&mut memory, &body, None).0, Status::Done);
        assert_eq!(memory.iter().filter(|&&byte| byte == 7).count(), 10);
        body[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode(&body).is_none());
    }
}
