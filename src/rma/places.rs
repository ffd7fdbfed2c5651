//! Requests on places in the target's memory: a description of a part of its layout
//! goes in front of the operands, and the target's own kernels carry it out.
//!
//! What comes from a peer is not trusted: [`Layout::decode`] checks descriptions, and
//! bounds and lengths are checked here before memory is touched.

use super::access::Access;
use super::am_fallback::{Answer, MAX_BODY, Meta, Request, opcode};
use super::compute::Work;
use super::exposed_region::ExposedRegion;
use super::request::InFlight;
use super::types::Status;
use super::{Error, ErrorKind};
use crate::datatype::Layout;
use crate::device::Head;
use crate::netmod::{Kind, Netmod, Op, Type};
use std::rc::Rc;

/// Bytes of the length of a description, in front of it.
const LENGTH: usize = 8;

/// A layout cut into parts, each for one request.
struct Parts<'l> {
    layout: &'l Layout,
    /// Bytes of the packed stream that are cut.
    done: u64,
    /// Bytes of a request, and of an answer.
    longest: usize,
    /// How many operands a request has for each byte.
    operands: usize,
    /// Bytes of an element, which no part ends within.
    size: usize,
    /// Bytes of the next part, if its description fits beside them.
    next: usize,
}

impl<'l> Parts<'l> {
    fn new(layout: &'l Layout, longest: usize, operands: usize, size: usize) -> Parts<'l> {
        let next = longest / size * size;
        Parts { layout, done: 0, longest, operands, size, next }
    }

    /// Describes the next part in place of what `body` holds; where it begins in the
    /// packed stream, and its bytes. `None` behind the last.
    fn cut(&mut self, body: &mut Vec<u8>) -> Result<Option<(u64, usize)>, Error> {
        let (from, longest) = (self.done, self.longest);
        let mut bytes = self.next;
        while from < self.layout.size() && bytes > 0 {
            let part = self.layout.part(from..from + bytes as u64).map_err(ErrorKind::Layout)?;
            let (description, len) = (part.encode(), part.size() as usize);
            let used = LENGTH + description.len() + self.operands * len;
            if used <= longest {
                body.clear();
                body.extend_from_slice(&(description.len() as u64).to_le_bytes());
                body.extend_from_slice(&description);
                self.done += len as u64;
                // What fits is found out once, unless what follows is described shorter.
                self.next =
                    if used < longest / 2 { longest / self.size * self.size } else { bytes };
                return Ok(Some((from, len)));
            }
            bytes = (len * longest / used).min(len - 1) / self.size * self.size;
        }
        if from == self.layout.size() {
            return Ok(None);
        }
        let why = format!("the provider's packets of {longest} bytes are too short for this");
        Err(ErrorKind::Arguments(why).into())
    }
}

/// An operation on the places of a layout in a peer's memory.
pub(super) struct Scattered<'l> {
    pub(super) opcode: u8,
    pub(super) ty: Type,
    pub(super) op: Op,
    /// What goes there, in the order of the packed streams.
    pub(super) operands: Option<(*const u8, &'l Layout)>,
    /// Where what was there goes.
    pub(super) results: Option<(*mut u8, &'l Layout)>,
    /// World rank; the layout's origin from the start of its memory.
    pub(super) peer: u32,
    pub(super) start: i64,
    pub(super) there: &'l Layout,
}

impl<N: Netmod> Access<N> {
    /// Asks the peer for an operation, by requests with a part of it each; operands
    /// were copied on return.
    ///
    /// # Safety
    /// \[BUF\] of the operands; \[INTO\] of the results, until what goes into `in_flight`
    /// is complete, without it until a flush.
    pub(super) unsafe fn scatter(
        &self,
        &Scattered { opcode, ty, op, operands, results, peer, start, there }: &Scattered<'_>,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let longest = self.request_limit(peer)?;
        let mut parts = Parts::new(there, longest, usize::from(operands.is_some()), ty.size());
        let mut body = Vec::with_capacity(longest);
        while let Some((done, bytes)) = parts.cut(&mut body)? {
            if let Some((operands, from)) = operands {
                let front = body.len();
                body.resize(front + bytes, 0);
                // SAFETY: [BUF].
                unsafe { from.pack_raw(operands, done, &mut body[front..]) };
            }
            let answer = in_flight.is_some().then(|| Rc::new(Answer::default()));
            let request = Request {
                opcode,
                window: self.state()?.exposed_region.id,
                place: start as u64,
                count: bytes,
                ty,
                op,
                body: &body,
                result: results.map_or((std::ptr::null_mut(), 0), |(at, _)| (at, bytes)),
                into: results.map(|(_, into)| (into.clone(), done)),
                answer: answer.clone(),
            };
            // SAFETY: [INTO], until the answer came.
            unsafe { self.request(peer, request)? };
            if let (Some(in_flight), Some(answer)) = (in_flight.as_deref_mut(), answer) {
                in_flight.push(InFlight::Answer(answer, peer));
            }
        }
        Ok(())
    }
}

/// Takes the places off a request's body; `None` where they are not well formed.
fn decode(body: &[u8]) -> Option<(Layout, &[u8])> {
    let (len, rest) = body.split_first_chunk::<LENGTH>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (description, rest) = rest.split_at_checked(len)?;
    Some((Layout::decode(description).ok()?, rest))
}

/// Carries out a request on the places in front of its body.
pub(super) fn scattered(
    region: &ExposedRegion,
    head: &Head,
    meta: Meta,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Status {
    let Some((layout, operands)) = decode(body) else { return Status::Malformed };
    let (opcode, place, bytes) = (head.kind, head.words[1], meta.count as usize);
    let fetches = matches!(opcode, opcode::GATHER | opcode::FETCH_EACH);
    let plain = matches!(opcode, opcode::SCATTER | opcode::GATHER);
    let has_operands = opcode != opcode::GATHER && (plain || meta.op != Op::NoOp);
    let want = if has_operands { bytes } else { 0 };
    if layout.size() != bytes as u64 || bytes > MAX_BODY || operands.len() != want {
        return Status::Malformed;
    }
    out.resize(if fetches { bytes } else { 0 }, 0);
    let status = match opcode {
        opcode::SCATTER => copy(region, place, &layout, Stream::From(operands)),
        opcode::GATHER => copy(region, place, &layout, Stream::Into(out)),
        _ => elements(region, place, &layout, meta, (operands, out)),
    };
    if status != Status::Done {
        out.clear();
    }
    status
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
enum Stream<'a> {
    From(&'a [u8]),
    Into(&'a mut [u8]),
}

/// Copies between a layout and as many packed bytes; nothing if a block is not in the
/// region, unless memory was detached meanwhile.
fn copy(region: &ExposedRegion, place: u64, layout: &Layout, stream: Stream<'_>) -> Status {
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
fn elements(
    region: &ExposedRegion,
    place: u64,
    layout: &Layout,
    meta: Meta,
    (operands, results): (&[u8], &mut [u8]),
) -> Status {
    let size = meta.ty.size();
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
        let operand = if meta.op == Op::NoOp { operands } else { operands.wrapping_add(before) };
        let work = Work {
            kind,
            ty: meta.ty,
            op: meta.op,
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
    use crate::device::Class;
    use proptest::prelude::*;

    fn list(runs: &[(i64, u64)]) -> Layout {
        let (lengths, places): (Vec<u64>, Vec<i64>) =
            runs.iter().map(|&(at, len)| (8 * len, 9 * at)).unzip();
        Layout::hindexed(&lengths, &places, &Layout::basic(Basic::U8)).unwrap()
    }

    fn offsets(layout: &Layout) -> Vec<i64> {
        layout.blocks_from(0).flat_map(|(at, len)| at..at + len as i64).collect()
    }

    /// A request on memory whose middle is exposed.
    fn request(memory: &mut [u8], opcode: u8, body: &[u8], count: u32) -> (Status, Vec<u8>) {
        let middle = &mut memory[100..900];
        let region = ExposedRegion::new(1, (middle.as_mut_ptr(), 800), false, None, 1);
        let meta = Meta { id: 0, count, ty: Type::U8, op: Op::Replace };
        let (head, mut out) = (Head::new(Class::Rma, opcode, [1, 300, 0]), Vec::new());
        let status = scattered(&region, &head, meta, body, &mut out);
        (status, out)
    }

    proptest! {
        /// Whatever the parts, they are the layout's bytes.
        #[test]
        fn parts_are_the_whole(
            runs in prop::collection::vec((0_i64..60, 1_u64..9), 1..40),
            longest in 180_usize..600, operands in 0_usize..3,
        ) {
            let layout = list(&runs);
            let mut parts = Parts::new(&layout, longest, operands, 8);
            let (mut body, mut got) = (Vec::new(), Vec::new());
            while let Some((from, bytes)) = parts.cut(&mut body).unwrap() {
                prop_assert!(from == got.len() as u64 && bytes > 0 && bytes <= longest);
                prop_assert!(bytes.is_multiple_of(8));
                prop_assert!(body.len() + operands * bytes <= longest);
                body.push(7);
                let (part, rest) = decode(&body).unwrap();
                prop_assert_eq!((part.size(), rest), (bytes as u64, &[7][..]));
                got.extend(offsets(&part));
            }
            prop_assert_eq!(got, offsets(&layout));
        }

        /// A request does what it says, or nothing.
        #[test]
        fn requests_stay_within_the_region(
            runs in prop::collection::vec((-40_i64..60, 1_u64..4), 1..12),
            change in prop::option::of((0_usize..40, any::<i64>(), any::<bool>())),
        ) {
            let layout = list(&runs);
            let mut body = Vec::new();
            Parts::new(&layout, MAX_BODY, 1, 1).cut(&mut body).unwrap();
            if let Some((word, value, small)) = change {
                let at = 8 * word % body.len();
                let value = if small { value % 90 } else { value };
                body[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            let size = layout.size() as usize;
            body.extend((0..size).map(|i| 1 + (i % 250) as u8));
            let mut memory = vec![0; 1000];
            let (status, _) = request(&mut memory, opcode::SCATTER, &body, size as u32);
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
                let (status, out) = request(&mut memory, opcode::GATHER, &body, size as u32);
                let back = offsets(&layout).into_iter().map(|at| want[(400 + at) as usize]);
                prop_assert_eq!((status, out), (Status::Done, back.collect()));
            }
        }
    }

    #[test]
    fn bodies_that_are_cut_are_refused() {
        let layout = Layout::hvector(5, 2, -7, &Layout::basic(Basic::U8)).unwrap();
        let mut body = Vec::new();
        Parts::new(&layout, 400, 1, 1).cut(&mut body).unwrap();
        body.extend([7; 10]);
        let mut memory = vec![0; 1000];
        for len in 0..body.len() {
            let (status, _) = request(&mut memory, opcode::SCATTER, &body[..len], 10);
            assert_eq!(status, Status::Malformed);
        }
        let (status, _) = request(&mut memory, opcode::SCATTER, &body, 11);
        assert_eq!((status, memory.iter().max()), (Status::Malformed, Some(&0)));
        assert_eq!(request(&mut memory, opcode::SCATTER, &body, 10).0, Status::Done);
        assert_eq!(memory.iter().filter(|&&byte| byte == 7).count(), 10);
        body[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode(&body).is_none());
    }
}
