//! Packing as a program writes it by hand: loops over its own arrays, with the
//! lengths it knows at compile time as constants, compiled for the same
//! instructions as ours, in tiles where it transposes. And the plain loop.

use rankway::datatype::Level;

/// What a program loops over; places and strides are in elements of `unit` bytes.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    unit: usize,
    loops: Loops,
    /// Elements of the stream, and elements of memory up to the last one: known before
    /// a run, as a program knows its arrays.
    reach: (usize, usize),
}

#[derive(Clone, Debug)]
pub(super) enum Loops {
    /// Loops of (count, stride), the outermost first, over runs.
    Nest { at: usize, dims: Vec<(usize, usize)>, run: usize },
    /// Runs of one length, each at a place of a list.
    List { at: usize, index: Vec<u32>, run: usize },
    /// Runs of their own lengths: (place, length).
    Blocks(Vec<(usize, usize)>),
    /// Records so far apart, of fields (place, length).
    Records { count: usize, stride: usize, fields: Vec<(usize, usize)> },
}

/// How the loops are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) level: Level,
    /// Short lengths are constants.
    pub(super) constants: bool,
    /// A transpose goes in squares of so many elements; 0 for the stream's order.
    pub(super) tile: usize,
    /// Within squares memory's order, not the stream's.
    pub(super) along_memory: bool,
}

impl Style {
    /// The plain loop.
    pub(super) const NAIVE: Style =
        Style { level: Level::Portable, constants: false, tile: 0, along_memory: false };

    /// What a program may come to; the quickest is taken.
    pub(super) fn all(level: Level, pieces: &[Piece]) -> Vec<Style> {
        let plain = Style { level, constants: true, tile: 0, along_memory: false };
        let mut all = vec![plain, Style { constants: false, ..plain }];
        let transposed = |piece: &Piece| match &piece.loops {
            Loops::Nest { dims, run, .. } => {
                matches!(dims[..], [.., (_, outer), (_, inner)] if outer == *run && inner > outer)
            }
            _ => false,
        };
        if pieces.iter().any(transposed) {
            for tile in [8, 16, 32, 64] {
                for along_memory in [false, true] {
                    all.push(Style { tile, along_memory, ..plain });
                }
            }
        }
        all
    }
}

impl Piece {
    pub(super) fn new(unit: usize, loops: Loops) -> Piece {
        let reach = loops.reach();
        Piece { unit, loops, reach }
    }
}

impl Loops {
    /// Elements of the stream, and elements of memory up to the last one.
    fn reach(&self) -> (usize, usize) {
        match self {
            Loops::Nest { at, dims, run } => {
                let count: usize = dims.iter().map(|(count, _)| count).product();
                let last: usize = dims.iter().map(|(n, stride)| n.saturating_sub(1) * stride).sum();
                (count * run, at + last + run)
            }
            Loops::List { at, index, run } => {
                let last = index.iter().max().map_or(0, |&i| i as usize + run);
                (index.len() * run, at + last)
            }
            Loops::Blocks(list) => {
                let size = list.iter().map(|(_, len)| len).sum();
                (size, list.iter().map(|(at, len)| at + len).max().unwrap_or(0))
            }
            Loops::Records { count, stride, fields } => {
                let size: usize = fields.iter().map(|(_, len)| len).sum();
                let last = fields.iter().map(|(at, len)| at + len).max().unwrap_or(0);
                (count * size, count.saturating_sub(1) * stride + last)
            }
        }
    }
}

/// Packs or unpacks all pieces, one behind the other in the stream. Returns false,
/// and copies nothing, if they leave the memory or the stream or are not aligned.
pub(super) fn run<const PACK: bool>(
    pieces: &[Piece],
    style: Style,
    memory: &mut [u8],
    stream: &mut [u8],
) -> bool {
    let mut from = 0;
    for piece in pieces {
        let (size, end) = piece.reach;
        let place = memory.as_ptr() as usize | (stream.as_ptr() as usize + from);
        let aligned = place.is_multiple_of(piece.unit.min(8));
        from += size * piece.unit;
        if end * piece.unit > memory.len() || from > stream.len() || !aligned {
            return false;
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx2,bmi2")]
        unsafe fn with_avx512<const PACK: bool>(p: &[Piece], s: Style, m: &mut [u8], t: &mut [u8]) {
            // SAFETY: the caller's contract is the body's.
            unsafe { body::<PACK>(p, s, m, t) }
        }
        #[target_feature(enable = "avx2,bmi2")]
        unsafe fn with_avx2<const PACK: bool>(p: &[Piece], s: Style, m: &mut [u8], t: &mut [u8]) {
            // SAFETY: as above.
            unsafe { body::<PACK>(p, s, m, t) }
        }
        let level = style.level.min(Level::best());
        let bmi2 = std::arch::is_x86_feature_detected!("bmi2");
        // SAFETY: [FITS], and the processor has the instructions.
        unsafe {
            match level {
                Level::Avx512 if bmi2 => with_avx512::<PACK>(pieces, style, memory, stream),
                Level::Avx2 if bmi2 => with_avx2::<PACK>(pieces, style, memory, stream),
                _ => body::<PACK>(pieces, style, memory, stream),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: [FITS].
    unsafe {
        body::<PACK>(pieces, style, memory, stream);
    }
    true
}

/// # Safety
/// \[FITS\]: all pieces lie within memory and stream, and are aligned in both.
#[inline(always)]
unsafe fn body<const PACK: bool>(
    pieces: &[Piece],
    style: Style,
    memory: &mut [u8],
    stream: &mut [u8],
) {
    let mut from = 0;
    for piece in pieces {
        let rest = &mut stream[from..];
        // SAFETY: [FITS], and any bits are an integer.
        unsafe {
            from += match piece.unit {
                1 => one::<u8, PACK>(&piece.loops, style, memory, rest),
                4 => {
                    let (memory, rest) = (memory.align_to_mut().1, rest.align_to_mut().1);
                    4 * one::<u32, PACK>(&piece.loops, style, memory, rest)
                }
                8 => {
                    let (memory, rest) = (memory.align_to_mut().1, rest.align_to_mut().1);
                    8 * one::<u64, PACK>(&piece.loops, style, memory, rest)
                }
                _ => {
                    let (memory, rest) = (memory.align_to_mut().1, rest.align_to_mut().1);
                    16 * one::<[u64; 2], PACK>(&piece.loops, style, memory, rest)
                }
            }
        }
    }
}

/// Moves one element.
///
/// # Safety
/// \[FITS\]: both places are there.
#[inline(always)]
unsafe fn step<T: Copy, const PACK: bool>(m: &mut [T], at: usize, s: &mut [T], k: usize) {
    // SAFETY: [FITS].
    unsafe {
        if PACK {
            *s.get_unchecked_mut(k) = *m.get_unchecked(at);
        } else {
            *m.get_unchecked_mut(at) = *s.get_unchecked(k);
        }
    }
}

/// Moves a run of `R` elements, or of `len` where `R` is 0.
///
/// # Safety
/// As [`step`].
#[inline(always)]
unsafe fn several<T: Copy, const PACK: bool, const R: usize>(
    m: &mut [T],
    at: usize,
    s: &mut [T],
    k: usize,
    len: usize,
) {
    for j in 0..if R == 0 { len } else { R } {
        // SAFETY: [FITS].
        unsafe { step::<T, PACK>(m, at + j, s, k + j) };
    }
}

/// Copies one piece, returns its elements.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn one<T: Copy, const PACK: bool>(
    loops: &Loops,
    style: Style,
    m: &mut [T],
    s: &mut [T],
) -> usize {
    // A program's own lengths are constants to its compiler.
    macro_rules! constant {
        ($run:expr, $call:ident($($arg:expr),*)) => {
            // SAFETY: [FITS].
            unsafe {
                match $run {
                    1 => $call::<T, PACK, 1>($($arg),*),
                    2 if style.constants => $call::<T, PACK, 2>($($arg),*),
                    3 if style.constants => $call::<T, PACK, 3>($($arg),*),
                    4 if style.constants => $call::<T, PACK, 4>($($arg),*),
                    5 if style.constants => $call::<T, PACK, 5>($($arg),*),
                    8 if style.constants => $call::<T, PACK, 8>($($arg),*),
                    _ => $call::<T, PACK, 0>($($arg),*),
                }
            }
        };
    }
    match loops {
        Loops::Nest { at, dims, run } => {
            let mut four = [(1, 0); 4];
            let n = dims.len().min(4);
            four[4 - n..].copy_from_slice(&dims[dims.len() - n..]);
            let mut k = 0;
            // (Nests of this command have four loops at most, or a fifth outside.)
            let (count, stride) = if dims.len() > 4 { dims[0] } else { (1, 0) };
            for i in 0..count {
                k += constant!(*run, nest(at + i * stride, &four, *run, style, m, &mut s[k..]));
            }
            k
        }
        Loops::List { at, index, run } => constant!(*run, list(*at, index, *run, m, s)),
        Loops::Blocks(blocks) => {
            let mut k = 0;
            for &(at, len) in blocks {
                // SAFETY: [FITS].
                unsafe { several::<T, PACK, 0>(m, at, s, k, len) };
                k += len;
            }
            k
        }
        Loops::Records { count, stride, fields } => match fields[..] {
            [(a, 3), (b, 4)] if style.constants => {
                for i in 0..*count {
                    let (at, k) = (i * stride, i * 7);
                    // SAFETY: [FITS].
                    unsafe {
                        several::<T, PACK, 3>(m, at + a, s, k, 3);
                        several::<T, PACK, 4>(m, at + b, s, k + 3, 4);
                    }
                }
                7 * count
            }
            _ => {
                let mut k = 0;
                for i in 0..*count {
                    for &(at, len) in fields {
                        // SAFETY: [FITS].
                        unsafe { several::<T, PACK, 0>(m, i * stride + at, s, k, len) };
                        k += len;
                    }
                }
                k
            }
        },
    }
}

/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn list<T: Copy, const PACK: bool, const R: usize>(
    at: usize,
    index: &[u32],
    run: usize,
    m: &mut [T],
    s: &mut [T],
) -> usize {
    let run = if R == 0 { run } else { R };
    for (n, &i) in index.iter().enumerate() {
        // SAFETY: [FITS].
        unsafe { several::<T, PACK, R>(m, at + i as usize, s, n * run, run) };
    }
    index.len() * run
}

/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn nest<T: Copy, const PACK: bool, const R: usize>(
    at: usize,
    dims: &[(usize, usize); 4],
    run: usize,
    style: Style,
    m: &mut [T],
    s: &mut [T],
) -> usize {
    let run = if R == 0 { run } else { R };
    let [a, b, c, d] = *dims;
    let mut k = 0;
    for i in 0..a.0 {
        for j in 0..b.0 {
            let at = at + i * a.1 + j * b.1;
            if style.tile > 0 && R == 1 {
                // SAFETY: [FITS].
                unsafe {
                    match style.tile {
                        8 => tiles::<T, PACK, 8>(at, c, d, style.along_memory, m, &mut s[k..]),
                        16 => tiles::<T, PACK, 16>(at, c, d, style.along_memory, m, &mut s[k..]),
                        32 => tiles::<T, PACK, 32>(at, c, d, style.along_memory, m, &mut s[k..]),
                        _ => tiles::<T, PACK, 64>(at, c, d, style.along_memory, m, &mut s[k..]),
                    }
                }
                k += c.0 * d.0;
                continue;
            }
            for i in 0..c.0 {
                let at = at + i * c.1;
                for j in 0..d.0 {
                    // SAFETY: [FITS].
                    unsafe { several::<T, PACK, R>(m, at + j * d.1, s, k + j * run, run) };
                }
                k += d.0 * run;
            }
        }
    }
    k
}

/// A matrix in squares of `B` elements a side.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn tiles<T: Copy, const PACK: bool, const B: usize>(
    at: usize,
    (columns, by_column): (usize, usize),
    (rows, by_row): (usize, usize),
    along_memory: bool,
    m: &mut [T],
    s: &mut [T],
) {
    for c in (0..columns).step_by(B) {
        for r in (0..rows).step_by(B) {
            let (wide, high) = (B.min(columns - c), B.min(rows - r));
            let whole = wide == B && high == B;
            let (outer, inner) = match (whole, along_memory) {
                (true, _) => (B, B),
                (false, false) => (wide, high),
                (false, true) => (high, wide),
            };
            for x in 0..outer {
                for y in 0..inner {
                    let (i, j) = if along_memory { (y, x) } else { (x, y) };
                    let place = at + (c + i) * by_column + (r + j) * by_row;
                    // SAFETY: [FITS].
                    unsafe { step::<T, PACK>(m, place, s, (c + i) * rows + r + j) };
                }
            }
        }
    }
}
