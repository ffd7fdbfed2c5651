//! Patterns by name: transposes, and the ten others that MPIs differ in.

use super::manual::{Loops, Piece};
use super::shape::{Shape, Unit, basic, blocks, contiguous, resized, subarray, vector};

/// What is packed.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) shape: Shape,
    /// The same as a program's own loops.
    pub(super) pieces: Vec<Piece>,
    /// Bytes that times are for.
    pub(super) element: usize,
}

/// A pattern that is there for every size.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Payload bytes where none are said.
    pub(super) sizes: &'static [u64],
    make: fn(u64) -> (Shape, Vec<Piece>, usize),
}

impl Named {
    /// Of about so many bytes of payload.
    pub(super) fn of(&self, bytes: u64) -> Pattern {
        let (shape, pieces, element) = (self.make)(bytes);
        let (name, what) = (self.name.to_owned(), self.what.to_owned());
        Pattern { name, what, shape, pieces, element }
    }

    /// Payloads of a chart: 64² to 8192² for a transpose, else 1 KiB to 64 MiB.
    pub(super) fn sweep(&self) -> Vec<u64> {
        match self.name {
            "transpose" => (6..=13).map(|log: u32| 8 << (2 * log)).collect(),
            _ => (5..=13).map(|log: u32| 1 << (2 * log)).collect(),
        }
    }
}

const MIB: u64 = 1 << 20;
const BIG: &[u64] = &[32 * MIB];

pub(super) const NAMED: [Named; 11] = [
    Named {
        name: "transpose",
        what: "columns of a square matrix of doubles",
        sizes: &[2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB],
        make: |bytes| {
            let n = ((bytes / 8) as f64).sqrt().round().max(1.0) as u64;
            columns(n, n, 1, Unit::Double)
        },
    },
    Named {
        name: "vector-1",
        what: "1 double of 2",
        sizes: BIG,
        make: |bytes| spaced(bytes, 1, 2),
    },
    Named {
        name: "vector-2",
        what: "2 doubles of 4",
        sizes: BIG,
        make: |bytes| spaced(bytes, 2, 4),
    },
    Named {
        name: "vector-8",
        what: "8 doubles of 16",
        sizes: BIG,
        make: |bytes| spaced(bytes, 8, 16),
    },
    Named {
        name: "vector-64",
        what: "64 doubles of 128",
        sizes: BIG,
        make: |bytes| spaced(bytes, 64, 128),
    },
    Named {
        name: "page",
        what: "1 double of every page of 4 KiB",
        sizes: &[128 << 10],
        make: |bytes| spaced(bytes, 1, 512),
    },
    Named {
        name: "indexed-1",
        what: "1 double at each of a rising list",
        sizes: &[160_000],
        make: |bytes| indexed(1, (0..(bytes / 8).max(1) as u32).map(|i| i * 3 + i % 2).collect()),
    },
    Named {
        name: "indexed-8",
        what: "8 doubles at each of a rising list",
        sizes: BIG,
        make: |bytes| indexed(8, (0..(bytes / 64).max(1) as u32).map(|i| i * 17 + i % 5).collect()),
    },
    Named {
        name: "gather",
        what: "1 double at each of a shuffled list",
        sizes: &[8 * MIB],
        make: |bytes| indexed(1, shuffled((bytes / 8).max(1) as u32)),
    },
    Named {
        name: "interior",
        what: "a cube of doubles without its surface",
        sizes: &[1_061_208_000],
        make: |bytes| {
            let n = ((bytes / 8) as f64).cbrt().round().max(1.0) as u64;
            part(&[(n + 2, n, 1); 3], Unit::Double)
        },
    },
    Named {
        name: "structs",
        what: "56 bytes in two fields of structures of 72",
        sizes: &[112_000, 28_000_000],
        make: |bytes| {
            let count = (bytes / 56).max(1);
            let double = || basic(Unit::Double);
            let one = Shape::Struct(vec![(3, 0, double()), (4, 40, double())]);
            let fields = vec![(0, 3), (5, 4)];
            let loops = Loops::Records { count: count as usize, stride: 9, fields };
            (contiguous(count, resized(72, one)), vec![Piece::new(8, loops)], 8)
        },
    },
];

/// Numbers that are not in order, always the same.
pub(super) fn random(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

fn shuffled(n: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..n).collect();
    let mut x = 88_172_645_463_325_252;
    for i in (1..all.len()).rev() {
        all.swap(i, (random(&mut x) % (i as u64 + 1)) as usize);
    }
    all
}

/// `at` a place, loops of (count, stride) around runs: in elements of `unit` bytes.
pub(super) fn nest(unit: usize, at: usize, dims: &[(u64, u64)], run: u64) -> Piece {
    let dims = dims.iter().map(|&(count, stride)| (count as usize, stride as usize)).collect();
    Piece::new(unit, Loops::Nest { at, dims, run: run as usize })
}

/// Columns of a matrix, `width` side by side at a time.
pub(super) fn columns(
    rows: u64,
    columns: u64,
    width: u64,
    unit: Unit,
) -> (Shape, Vec<Piece>, usize) {
    let size = unit.size() as u64;
    let column = vector(rows, width, (columns * size) as i64, basic(unit));
    let shape = vector(columns / width, 1, (width * size) as i64, column);
    let piece = nest(unit.size(), 0, &[(columns / width, width), (rows, columns)], width);
    (shape, vec![piece], unit.size())
}

fn spaced(bytes: u64, block: u64, stride: u64) -> (Shape, Vec<Piece>, usize) {
    let count = (bytes / 8 / block).max(1);
    let shape = vector(count, block, stride as i64 * 8, basic(Unit::Double));
    (shape, vec![nest(8, 0, &[(count, stride)], block)], 8)
}

fn indexed(run: usize, index: Vec<u32>) -> (Shape, Vec<Piece>, usize) {
    let at = index.iter().map(|&i| i64::from(i) * 8).collect();
    let shape = blocks(run as u64, at, basic(Unit::Double));
    (shape, vec![Piece::new(8, Loops::List { at: 0, index, run })], 8)
}

/// A part of an array: `(size, part, start)` of each dimension.
pub(super) fn part(dims: &[(u64, u64, u64)], unit: Unit) -> (Shape, Vec<Piece>, usize) {
    let size = unit.size();
    let mut loops = Vec::new();
    let (mut at, mut step) = (0, 1);
    for &(all, some, start) in dims.iter().rev() {
        loops.push((some, step));
        (at, step) = (at + start * step, step * all);
    }
    loops.reverse();
    let run = loops.pop().map_or(1, |(run, _)| run);
    let shape = subarray(dims.to_vec(), basic(unit));
    (shape, vec![nest(size, at as usize, &loops, run)], size)
}

#[cfg(test)]
mod tests {
    use super::super::manual::{Style, run};
    use super::super::stage::Stage;
    use super::*;
    use rankway::datatype::Level;

    /// Every way of writing the loops packs what the description says.
    #[test]
    fn loops_are_those_of_the_description() {
        let mut all: Vec<Pattern> =
            NAMED.iter().flat_map(|named| [777, 20_000, 300_000].map(|n| named.of(n))).collect();
        all.extend(super::super::applications::all().into_iter().map(|(_, pattern)| pattern));
        for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
            for pattern in all.iter().filter(|pattern| pattern.shape.bytes().0 < 64 << 20) {
                let mut stage = Stage::new(&pattern.shape, 16);
                let pieces = &pattern.pieces;
                let styles = [&[Style::NAIVE], &Style::all(level, pieces)[..]].concat();
                for style in styles {
                    let told = |done: bool| done.then_some(()).ok_or("it does not fit".to_owned());
                    let name = format!("{} {style:?}", pattern.name);
                    let packed =
                        stage.check_pack(&mut |m, s| told(run::<true>(pieces, style, m, s)));
                    assert_eq!(packed, Ok(()), "{name}");
                    let unpacked =
                        stage.check_unpack(&mut |m, s| told(run::<false>(pieces, style, m, s)));
                    assert_eq!(unpacked, Ok(()), "{name}");
                }
            }
        }
    }
}
