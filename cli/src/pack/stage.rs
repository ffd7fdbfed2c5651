//! The memory that is packed from and unpacked into, the stream, what must stand
//! in them, and the clock. This process and those with an MPI use the same.

use super::shape::Shape;
use crate::clock::thread_ns;
use std::time::{Duration, Instant};

/// Where a byte that nobody may write stands, and what is unpacked over.
const GROUND: u8 = 0xA5;
/// Shorter runs are timed several at once.
const SHORTEST: u64 = 100_000;
/// How long a round of one contender lasts, if a run is not longer.
const SLICE: Duration = Duration::from_millis(8);

/// Memory and stream of one description.
pub(super) struct Stage<'a> {
    shape: &'a Shape,
    memory: Vec<Line>,
    stream: Vec<Line>,
    /// Both begin so many bytes behind a line's begin.
    offset: usize,
    /// Bytes of memory, and of the stream.
    end: usize,
    size: usize,
}

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u128; 4]);

/// One contender's copy: from memory (first) to the stream, or the other way.
pub(super) type Copy<'a> = dyn FnMut(&mut [u8], &mut [u8]) -> Result<(), String> + 'a;

impl<'a> Stage<'a> {
    /// Buffers for a description, in memory that was touched, both `offset` bytes behind
    /// the begin of a line.
    pub(super) fn new(shape: &'a Shape, offset: usize) -> Stage<'a> {
        let (end, size) = shape.bytes();
        let lines = |bytes: usize| vec![Line([1; 4]); (offset + bytes).div_ceil(64)];
        // (memcpy reads as much as the stream has out of memory.)
        let (memory, stream) = (lines(end.max(size)), lines(size));
        let mut stage = Stage { shape, memory, stream, offset, end, size };
        stage.fill();
        stage
    }

    /// Bytes of the stream.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Every word of memory is another.
    fn fill(&mut self) {
        let mut x = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
        for word in self.memory.iter_mut().flat_map(|line| &mut line.0) {
            x = x.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
            *word = x ^ (x >> 64);
        }
    }

    fn bytes(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: any bits are bytes, which have no alignment.
        let (memory, stream) =
            unsafe { (self.memory.align_to_mut().1, self.stream.align_to_mut().1) };
        let (memory, stream): (&mut [u8], &mut [u8]) = (memory, stream);
        (&mut memory[self.offset..], &mut stream[self.offset..][..self.size])
    }

    /// Packs once and compares every byte with the reference.
    pub(super) fn check_pack(&mut self, copy: &mut Copy<'_>) -> Result<(), String> {
        self.fill();
        let shape = self.shape;
        let (memory, stream) = self.bytes();
        stream.fill(GROUND);
        copy(memory, stream)?;
        match difference(shape, memory, stream) {
            Some((_, from)) => Err(format!("packs another byte at {from} or behind it")),
            None => Ok(()),
        }
    }

    /// Unpacks once, compares every byte with the reference and looks that nothing
    /// else was written.
    pub(super) fn check_unpack(&mut self, copy: &mut Copy<'_>) -> Result<(), String> {
        self.fill();
        let (shape, end) = (self.shape, self.end);
        let (memory, stream) = self.bytes();
        let len = stream.len();
        stream.copy_from_slice(&memory[..len]);
        memory.fill(GROUND);
        copy(memory, stream)?;
        if let Some((at, _)) = difference(shape, memory, stream) {
            return Err(format!("unpacks another byte at {at} or behind it"));
        }
        shape.walk(0, &mut |at, len| memory[at..at + len].fill(GROUND));
        match memory[..end].iter().position(|&byte| byte != GROUND) {
            Some(at) => Err(format!("writes the byte at {at}, which is not the type's")),
            None => Ok(()),
        }
    }

    /// Nanoseconds of one run: the least processor time of a round.
    pub(super) fn time(&mut self, copy: &mut Copy<'_>) -> Result<f64, String> {
        let (memory, stream) = self.bytes();
        let began = Instant::now();
        let mut clocked = |runs: u64| {
            let start = thread_ns();
            for _ in 0..runs {
                copy(memory, stream)?;
            }
            Ok::<u64, String>(thread_ns() - start)
        };
        let first = clocked(1)?;
        let runs = (SHORTEST / first.max(20)).clamp(1, 10_000);
        let mut best = if runs == 1 { first.max(1) as f64 } else { f64::INFINITY };
        while best.is_infinite() || began.elapsed() < SLICE {
            // (A clock that has not moved says nothing.)
            let took = clocked(runs)?;
            if took > 0 {
                best = best.min(took as f64 / runs as f64);
            }
        }
        Ok(best)
    }
}

/// Where the first stretch that is not the stream's begins, in memory and in the stream.
fn difference(shape: &Shape, memory: &[u8], stream: &[u8]) -> Option<(usize, usize)> {
    let (mut from, mut first) = (0, None);
    shape.walk(0, &mut |at, len| {
        if memory[at..at + len] != stream[from..from + len] {
            first = first.or(Some((at, from)));
        }
        from += len;
    });
    first
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Unit, basic, vector};
    use super::*;

    #[test]
    fn one_byte_too_many_or_too_few_is_found() {
        let shape = vector(4, 1, 16, basic(Unit::Double));
        let layout = shape.layout().expect("small");
        let mut stage = Stage::new(&shape, 16);
        let pack = |m: &mut [u8], s: &mut [u8]| layout.pack(m, 0, 0, s).map(drop);
        let unpack = |m: &mut [u8], s: &mut [u8]| layout.unpack(m, 0, 0, s).map(drop);
        let text = |e: rankway::datatype::LayoutError| e.to_string();
        assert_eq!(stage.check_pack(&mut |m, s| pack(m, s).map_err(text)), Ok(()));
        assert_eq!(stage.check_unpack(&mut |m, s| unpack(m, s).map_err(text)), Ok(()));
        for at in 0..32 {
            let wrong = stage.check_pack(&mut |m, s| {
                pack(m, s).map_err(text)?;
                s[at] ^= 1;
                Ok(())
            });
            assert!(wrong.is_err(), "{at}");
        }
        for at in 0..56 {
            let wrong = stage.check_unpack(&mut |m, s| {
                unpack(m, s).map_err(text)?;
                m[at] ^= 1;
                Ok(())
            });
            assert!(wrong.is_err(), "{at}");
        }
        assert!(stage.time(&mut |m, s| pack(m, s).map_err(text)).is_ok_and(|ns| ns > 0.0));
    }
}
