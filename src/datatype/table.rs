//! Tables of offsets in 4 and of runs in 6 bytes each, where they fit.

/// A stretch of bytes: where it begins, and how many.
pub(super) type Run = (i64, u64);

/// Offsets from the first, which is 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offsets {
    /// In units of so many bytes.
    Narrow {
        unit: i64,
        words: Box<[i32]>,
    },
    Wide(Box<[i64]>),
}

/// Runs from the first, which begins at 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Runs {
    words: Words,
    /// One for every [`Runs::MARK`] runs.
    marks: Box<[Mark]>,
}

/// The first of a group of runs: where it begins, in the packed stream and in memory.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    start: u64,
    offset: i64,
}

/// Offsets from the group's first, in units of `1 << shift` bytes; the last has all as
/// they are.
#[derive(Debug, PartialEq, Eq)]
enum Words {
    Short { shift: u32, offsets: Box<[i32]>, len_shift: u32, lens: Box<[u16]> },
    Narrow { shift: u32, words: Box<[(i32, u32)]> },
    Wide(Box<[Run]>),
}

/// The greatest divisor of both; the other if one is 0.
pub(super) fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The largest unit that divides all, which are not only 0.
fn unit(offsets: &[i64]) -> i64 {
    let mut all = 0u64;
    for offset in offsets {
        all = divisor(all, offset.unsigned_abs());
        if all == 1 {
            break;
        }
    }
    i64::try_from(all.max(1)).unwrap_or(1)
}

/// The bits that are 0 at the end of all numbers, whose union this is.
fn shift(union: u64) -> u32 {
    union.trailing_zeros().min(62)
}

impl Offsets {
    pub(super) fn new(offsets: &[i64]) -> Offsets {
        let (mut union, mut low, mut high) = (0u64, 0, 0);
        for &offset in offsets {
            union |= offset as u64;
            (low, high) = (offset.min(low), offset.max(high));
        }
        let fits = |unit: i64| (low / unit) >= i32::MIN.into() && (high / unit) <= i32::MAX.into();
        let shift = shift(union);
        if fits(1 << shift) {
            let words = offsets.iter().map(|offset| (offset >> shift) as i32).collect();
            return Offsets::Narrow { unit: 1 << shift, words };
        }
        let unit = unit(offsets);
        if fits(unit) {
            let words = offsets.iter().map(|offset| (offset / unit) as i32).collect();
            return Offsets::Narrow { unit, words };
        }
        Offsets::Wide(offsets.into())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Offsets::Narrow { words, .. } => words.len(),
            Offsets::Wide(words) => words.len(),
        }
    }

    pub(super) fn get(&self, i: usize) -> i64 {
        match self {
            Offsets::Narrow { unit, words } => unit * i64::from(words[i]),
            Offsets::Wide(words) => words[i],
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Offsets::Narrow { words, .. } => size_of_val::<[i32]>(words),
            Offsets::Wide(words) => size_of_val::<[i64]>(words),
        }
    }
}

impl Runs {
    const MARK: usize = 64;

    /// Of runs that all lie within 2^61 bytes of the first's begin, which is 0.
    pub(super) fn new(runs: &[Run]) -> Runs {
        let (mut union, mut lens, mut longest, mut start) = (0u64, 0u64, 0, 0);
        let (mut low, mut high) = (0, 0);
        let mut marks = Vec::with_capacity(runs.len().div_ceil(Runs::MARK));
        for group in runs.chunks(Runs::MARK) {
            let base = group[0].0;
            marks.push(Mark { start, offset: base });
            for &(offset, len) in group {
                union |= offset as u64;
                lens |= len;
                (longest, start) = (len.max(longest), start + len);
                (low, high) = ((offset - base).min(low), (offset - base).max(high));
            }
        }
        let (shift, len_shift) = (shift(union), shift(lens));
        let near = low >> shift >= i32::MIN.into() && high >> shift <= i32::MAX.into();
        let offsets = runs
            .chunks(Runs::MARK)
            .flat_map(|group| group.iter().map(|run| ((run.0 - group[0].0) >> shift) as i32));
        let words = if near && longest >> len_shift <= u16::MAX.into() {
            let mut list = Vec::with_capacity(runs.len());
            list.extend(offsets);
            let lens = runs.iter().map(|run| (run.1 >> len_shift) as u16).collect();
            Words::Short { shift, offsets: list.into(), len_shift, lens }
        } else if near && longest <= u32::MAX.into() {
            let words = offsets.zip(runs).map(|(offset, run)| (offset, run.1 as u32)).collect();
            Words::Narrow { shift, words }
        } else {
            Words::Wide(runs.into())
        };
        Runs { words, marks: marks.into() }
    }

    pub(super) fn len(&self) -> usize {
        match &self.words {
            Words::Short { offsets, .. } => offsets.len(),
            Words::Narrow { words, .. } => words.len(),
            Words::Wide(words) => words.len(),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> Run {
        match &self.words {
            Words::Short { shift, offsets, len_shift, lens } => {
                let base = self.marks[i / Runs::MARK].offset;
                (base + (i64::from(offsets[i]) << shift), u64::from(lens[i]) << len_shift)
            }
            Words::Narrow { shift, words } => {
                let (offset, len) = words[i];
                let base = self.marks[i / Runs::MARK].offset;
                (base + (i64::from(offset) << shift), u64::from(len))
            }
            Words::Wide(words) => words[i],
        }
    }

    /// Reads as many runs as `list` has, from `first` on.
    #[inline(always)]
    pub(super) fn read(&self, first: usize, list: &mut [Run]) {
        let base = |i: usize| self.marks[i / Runs::MARK].offset;
        let range = first..first + list.len();
        match &self.words {
            Words::Short { shift, offsets, len_shift, lens } => {
                let runs = offsets[range.clone()].iter().zip(&lens[range.clone()]);
                for ((run, (offset, len)), i) in list.iter_mut().zip(runs).zip(range) {
                    *run = (base(i) + (i64::from(*offset) << shift), u64::from(*len) << len_shift);
                }
            }
            Words::Narrow { .. } | Words::Wide(_) => {
                list.iter_mut().zip(range).for_each(|(run, i)| *run = self.get(i));
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The run that holds byte `at` of the packed stream, and which byte of it;
    /// `at` is below the size.
    pub(super) fn find(&self, at: u64) -> (usize, u64) {
        let group = self.marks.partition_point(|mark| mark.start <= at) - 1;
        let mut left = at - self.marks[group].start;
        for i in group * Runs::MARK.. {
            let len = self.get(i).1;
            if left < len {
                return (i, left);
            }
            left -= len;
        }
        unreachable!("a byte of the stream lies in a run")
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        let words = match &self.words {
            Words::Short { offsets, lens, .. } => {
                size_of_val::<[i32]>(offsets) + size_of_val::<[u16]>(lens)
            }
            Words::Narrow { words, .. } => size_of_val::<[(i32, u32)]>(words),
            Words::Wide(words) => size_of_val::<[Run]>(words),
        };
        words + size_of_val::<[Mark]>(&self.marks)
    }
}
