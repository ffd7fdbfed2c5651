//! Tables of offsets and runs in 4 and 8 bytes each, where they fit.

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
    /// Where in the packed stream every [`Runs::MARK`]th run begins.
    marks: Box<[u64]>,
}

#[derive(Debug, PartialEq, Eq)]
enum Words {
    Narrow { unit: i64, words: Box<[(i32, u32)]> },
    Wide(Box<[Run]>),
}

/// The largest unit that divides all.
fn unit(offsets: impl Iterator<Item = i64>) -> i64 {
    let mut all = 0u64;
    for offset in offsets {
        let (mut a, mut b) = (all, offset.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        all = a;
        if all == 1 {
            break;
        }
    }
    i64::try_from(all.max(1)).unwrap_or(1)
}

impl Offsets {
    pub(super) fn new(offsets: &[i64]) -> Offsets {
        let unit = unit(offsets.iter().copied());
        let narrow = offsets.iter().map(|offset| i32::try_from(offset / unit).ok());
        match narrow.collect::<Option<Box<[i32]>>>() {
            Some(words) => Offsets::Narrow { unit, words },
            None => Offsets::Wide(offsets.into()),
        }
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

    pub(super) fn new(runs: &[Run]) -> Runs {
        let unit = unit(runs.iter().map(|run| run.0));
        let narrow = |&(offset, len): &Run| {
            Some((i32::try_from(offset / unit).ok()?, u32::try_from(len).ok()?))
        };
        let words = match runs.iter().map(narrow).collect::<Option<_>>() {
            Some(words) => Words::Narrow { unit, words },
            None => Words::Wide(runs.into()),
        };
        let mut start = 0;
        let mut marks = Vec::with_capacity(runs.len().div_ceil(Runs::MARK));
        for group in runs.chunks(Runs::MARK) {
            marks.push(start);
            start += group.iter().map(|run| run.1).sum::<u64>();
        }
        Runs { words, marks: marks.into() }
    }

    pub(super) fn len(&self) -> usize {
        match &self.words {
            Words::Narrow { words, .. } => words.len(),
            Words::Wide(words) => words.len(),
        }
    }

    pub(super) fn get(&self, i: usize) -> Run {
        match &self.words {
            Words::Narrow { unit, words } => {
                let (offset, len) = words[i];
                (unit * i64::from(offset), u64::from(len))
            }
            Words::Wide(words) => words[i],
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The run that holds byte `at` of the packed stream, and which byte of it;
    /// `at` is below the size.
    pub(super) fn find(&self, at: u64) -> (usize, u64) {
        let group = self.marks.partition_point(|&start| start <= at) - 1;
        let mut left = at - self.marks[group];
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
            Words::Narrow { words, .. } => size_of_val::<[(i32, u32)]>(words),
            Words::Wide(words) => size_of_val::<[Run]>(words),
        };
        words + size_of_val::<[u64]>(&self.marks)
    }
}
