//! Layouts as bytes, for a peer, and reading them without trust.
//!
//! Little-endian words of 64 bits: [`MAGIC`], lower bound, upper bound, alignment, the
//! offset of the first run, the form, the types. A form is its tag and
//!
//! | tag | form   | words                                                              |
//! |-----|--------|--------------------------------------------------------------------|
//! | 0   | none   |                                                                    |
//! | 1   | run    | bytes                                                              |
//! | 2   | loop   | count, stride, body                                                |
//! | 3   | blocks | unit (0: a word each), count, offsets, two to a word, the body     |
//! | 4   | runs   | count, offset and length of each                                   |
//! | 5   | parts  | count, offset and form of each                                     |
//!
//! and a sequence of types 0; or the number of a basic type and how many; or
//! [`LOOP`], count, body; or [`LIST`], count, each.

use super::basic::Basic;
use super::error::LayoutError;
use super::form::{self, Form, Kind};
use super::layout::Layout;
use super::table::Offsets;
use super::types::{self, Types};
use std::sync::Arc;

const MAGIC: u64 = u64::from_le_bytes(*b"rkwlay01");
const LOOP: u64 = 32;
const LIST: u64 = 33;

/// Levels of a description. A form has no more than 61 that repeat, with a list in
/// each: every one of them at least doubles its size.
const DEEPEST: usize = 128;

/// Bytes of the longest description that is read.
const LONGEST: usize = 1 << 30;

type Result<T> = std::result::Result<T, LayoutError>;

impl Layout {
    /// A description for a peer, which [`Layout::decode`] reads: the same bytes on every
    /// machine, as many as the form takes in memory, twice that for blocks of different
    /// lengths.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut words = Vec::new();
        let (offset, form) = match &self.placed {
            Some((offset, form)) => (*offset, Some(form)),
            None => (0, None),
        };
        words.extend([MAGIC, self.lb as u64, self.ub as u64, self.alignment.into(), offset as u64]);
        match form {
            Some(form) => write_form(form, &mut words),
            None => words.push(0),
        }
        write_types(&self.types, &mut words);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The layout that a peer described.
    ///
    /// Trusts nothing: what it returns is within the limits of every layout, and takes no
    /// more memory than a small multiple of `bytes`. Where it lies must be checked
    /// against [`Layout::true_bounds`] by who owns the memory.
    ///
    /// # Errors
    /// [`LayoutError::Description`] says what is wrong at which word;
    /// [`LayoutError::Overflow`] if it takes bytes beyond 2^61.
    pub fn decode(bytes: &[u8]) -> Result<Layout> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = Words { words, at: 0, depth: 0 };
        if !rest.is_empty() {
            return words.wrong("not whole words");
        }
        if bytes.len() > LONGEST {
            return words.wrong("longer than 2^30 bytes");
        }
        if words.next()? != MAGIC {
            return words.wrong("not of this version");
        }
        let (lb, ub) = (form::add(words.signed()?, 0)?, form::add(words.signed()?, 0)?);
        let alignment = words.next()?;
        if !alignment.is_power_of_two() || alignment > 16 {
            return words.wrong("an alignment that is no power of two up to 16");
        }
        let offset = words.signed()?;
        let placed = match words.form()? {
            Some(form) => {
                form::check(offset, &form)?;
                Some((offset, form))
            }
            None => None,
        };
        let types = words.types()?;
        if types.size() != placed.as_ref().map_or(0, |(_, form)| form.size) {
            return words.wrong("types of another size than the bytes");
        }
        if words.at != words.words.len() {
            return words.wrong("words behind the end");
        }
        Ok(Layout { placed, lb, ub, alignment: alignment as u32, types })
    }
}

fn write_form(form: &Form, words: &mut Vec<u64>) {
    match &form.kind {
        Kind::Run => words.extend([1, form.size]),
        Kind::Loop { count, stride, body } => {
            words.extend([2, *count, *stride as u64]);
            write_form(body, words);
        }
        Kind::Blocks { at: Offsets::Narrow { unit, words: offsets }, body } => {
            words.extend([3, *unit as u64, offsets.len() as u64]);
            let half = |offset: Option<&i32>| u64::from(offset.map_or(0, |&word| word as u32));
            let pair = |two: &[i32]| half(two.first()) | half(two.get(1)) << 32;
            words.extend(offsets.chunks(2).map(pair));
            write_form(body, words);
        }
        Kind::Blocks { at: Offsets::Wide(offsets), body } => {
            words.extend([3, 0, offsets.len() as u64]);
            words.extend(offsets.iter().map(|&offset| offset as u64));
            write_form(body, words);
        }
        Kind::Runs(runs) => {
            words.extend([4, runs.len() as u64]);
            words.extend(runs.iter().flat_map(|(offset, len)| [offset as u64, len]));
        }
        Kind::Parts(parts) => {
            words.extend([5, parts.len() as u64]);
            for part in parts {
                words.push(part.offset as u64);
                write_form(&part.form, words);
            }
        }
    }
}

fn write_types(types: &Types, words: &mut Vec<u64>) {
    match types {
        Types::None => words.push(0),
        Types::Same(basic, count) => words.extend([*basic as u64, *count]),
        Types::Mixed(mixed) => match &mixed.kind {
            types::Kind::Loop { count, body } => {
                words.extend([LOOP, *count]);
                write_types(body, words);
            }
            types::Kind::List(list) => {
                words.extend([LIST, list.len() as u64]);
                list.iter().for_each(|one| write_types(one, words));
            }
        },
    }
}

/// A description that is read.
struct Words<'a> {
    words: &'a [[u8; 8]],
    at: usize,
    /// Levels around what is read.
    depth: usize,
}

impl Words<'_> {
    fn wrong<T>(&self, why: &'static str) -> Result<T> {
        Err(LayoutError::Description { why, at: self.at, words: self.words.len() })
    }

    fn next(&mut self) -> Result<u64> {
        let Some(word) = self.words.get(self.at) else {
            return self.wrong("it ends too early");
        };
        self.at += 1;
        Ok(u64::from_le_bytes(*word))
    }

    fn signed(&mut self) -> Result<i64> {
        self.next().map(|word| word as i64)
    }

    /// A number of at least two, for each two of which there is a word.
    fn count(&mut self) -> Result<usize> {
        let count = self.next()?;
        if count < 2 {
            return self.wrong("a list of fewer than two");
        }
        if count.div_ceil(2) > (self.words.len() - self.at) as u64 {
            return self.wrong("a list that is longer than the description");
        }
        Ok(count as usize)
    }

    /// What `read` reads one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            return self.wrong("more than 128 levels");
        }
        self.depth += 1;
        let made = read(self)?;
        self.depth -= 1;
        Ok(made)
    }

    fn form(&mut self) -> Result<Option<Arc<Form>>> {
        match self.next()? {
            0 => Ok(None),
            1 => match self.next()? {
                0 => self.wrong("a run of no byte"),
                len => Form::run(len).map(Some),
            },
            2 => {
                let (count, stride) = (self.next()?, self.signed()?);
                if count < 2 {
                    return self.wrong("a loop of fewer than two rounds");
                }
                Form::repeat(count, stride, self.body()?).map(Some)
            }
            3 => {
                let unit = self.signed()?;
                if unit < 0 {
                    return self.wrong("a negative unit");
                }
                let offsets = self.offsets(unit)?;
                form::blocks(&offsets, self.body()?).map(Some)
            }
            4 => {
                let count = self.count()?;
                let mut runs = Vec::with_capacity(count.min(self.words.len()));
                for _ in 0..count {
                    let run = (form::add(self.signed()?, 0)?, self.next()?);
                    if run.1 == 0 {
                        return self.wrong("a run of no byte");
                    }
                    runs.push(run);
                }
                if runs[0].0 != 0 {
                    return self.wrong("a table that does not begin at 0");
                }
                form::table(&runs).map(Some)
            }
            5 => {
                let count = self.count()?;
                let mut parts = Vec::with_capacity(count.min(self.words.len()));
                for _ in 0..count {
                    let offset = form::add(self.signed()?, 0)?;
                    let form = self.body()?;
                    if matches!(form.kind, Kind::Parts(_)) {
                        return self.wrong("parts that are parts");
                    }
                    parts.push((offset, form));
                }
                if parts[0].0 != 0 {
                    return self.wrong("parts that do not begin at 0");
                }
                form::kept(parts).map(|placed| placed.map(|(_, form)| form))
            }
            _ => self.wrong("no such form"),
        }
    }

    /// A form that has bytes.
    fn body(&mut self) -> Result<Arc<Form>> {
        match self.deeper(Words::form)? {
            Some(form) => Ok(form),
            None => self.wrong("a part of no byte"),
        }
    }

    /// Offsets in this unit, two to a word, or as they are.
    fn offsets(&mut self, unit: i64) -> Result<Vec<i64>> {
        let count = self.count()?;
        let mut offsets = Vec::with_capacity(count);
        while offsets.len() < count {
            if unit == 0 {
                offsets.push(form::add(self.signed()?, 0)?);
                continue;
            }
            let word = self.next()?;
            for half in [word as i32, (word >> 32) as i32] {
                if offsets.len() < count {
                    offsets.push(form::add(unit.saturating_mul(half.into()), 0)?);
                }
            }
        }
        if offsets[0] != 0 {
            return self.wrong("a table that does not begin at 0");
        }
        Ok(offsets)
    }

    fn types(&mut self) -> Result<Types> {
        match self.next()? {
            0 => Ok(Types::None),
            LOOP => {
                let count = self.next()?;
                let body = self.deeper(Words::types)?;
                if count < 2 || !matches!(&body, Types::Mixed(mixed) if mixed.is_list()) {
                    return self.wrong("a loop of types that is none");
                }
                Ok(body.times(count))
            }
            LIST => {
                let count = self.count()?;
                let mut list = Vec::with_capacity(count.min(self.words.len()));
                for _ in 0..count {
                    let one = self.deeper(Words::types)?;
                    if one == Types::None || matches!(&one, Types::Mixed(mixed) if mixed.is_list())
                    {
                        return self.wrong("a list of types in a list, or an empty one");
                    }
                    list.push(one);
                }
                Ok(Types::list(list))
            }
            number => {
                let Some(basic) = u8::try_from(number).ok().and_then(Basic::from_number) else {
                    return self.wrong("no such basic type");
                };
                match self.next()? {
                    0 => self.wrong("no element of a type"),
                    count => Ok(Types::Same(basic, count)),
                }
            }
        }
    }
}
