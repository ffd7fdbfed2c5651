//! Which basic types a layout has, in the order of the packed stream.

use super::basic::Basic;
use super::form::borders;
use super::signature::Signature;
use std::sync::Arc;

/// A sequence of basic types.
///
/// Numbers saturate: what goes beyond 2^61 bytes is no layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Types {
    #[default]
    None,
    /// So many of one.
    Same(Basic, u64),
    Mixed(Arc<Mixed>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mixed {
    signature: Signature,
    /// Bytes in memory and in external32.
    size: u64,
    external: u64,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// At least twice.
    Loop { count: u64, body: Types },
    /// At least two, none of which is such a list or has nothing.
    List(Box<[Types]>),
}

/// An element of the sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Elements before it, and their bytes in memory.
    pub(super) elements: u64,
    pub(super) native: u64,
    /// Bytes of it that are passed.
    pub(super) within: u64,
}

impl Mixed {
    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }
}

impl Types {
    pub(super) fn elements(&self) -> u64 {
        match self {
            Types::None => 0,
            Types::Same(_, count) => *count,
            Types::Mixed(mixed) => mixed.signature.elements(),
        }
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> u64 {
        match self {
            Types::None => 0,
            Types::Same(basic, count) => count.saturating_mul(basic.size() as u64),
            Types::Mixed(mixed) => mixed.size,
        }
    }

    /// Bytes in external32.
    pub(super) fn external(&self) -> u64 {
        match self {
            Types::None => 0,
            Types::Same(basic, count) => count.saturating_mul(basic.external_size() as u64),
            Types::Mixed(mixed) => mixed.external,
        }
    }

    pub(super) fn signature(&self) -> Signature {
        match self {
            Types::None => Signature::default(),
            Types::Same(basic, count) => Signature::of(*basic).times(*count),
            Types::Mixed(mixed) => mixed.signature,
        }
    }

    /// This sequence so many times.
    pub(super) fn times(&self, count: u64) -> Types {
        match self {
            _ if count == 0 => Types::None,
            Types::None => Types::None,
            Types::Same(basic, inner) => Types::Same(*basic, inner.saturating_mul(count)),
            Types::Mixed(_) if count == 1 => self.clone(),
            Types::Mixed(mixed) => {
                let (count, body) = match &mixed.kind {
                    Kind::Loop { count: inner, body } => (inner.saturating_mul(count), body),
                    Kind::List(_) => (count, self),
                };
                Types::Mixed(Arc::new(Mixed {
                    signature: body.signature().times(count),
                    size: body.size().saturating_mul(count),
                    external: body.external().saturating_mul(count),
                    kind: Kind::Loop { count, body: body.clone() },
                }))
            }
        }
    }

    /// These, at least two, none of which is such a list or has nothing.
    pub(super) fn list(list: Vec<Types>) -> Types {
        let sum =
            |of: fn(&Types) -> u64| list.iter().fold(0u64, |all, one| all.saturating_add(of(one)));
        let (size, external) = (sum(Types::size), sum(Types::external));
        let none = Signature::default();
        let signature = list.iter().fold(none, |all, one| all.then(one.signature()));
        let kind = Kind::List(list.into());
        Types::Mixed(Arc::new(Mixed { signature, size, external, kind }))
    }

    /// The element that holds this byte of the external32 form; there is one.
    pub(super) fn find(&self, at: u64) -> Place {
        match self {
            Types::None => Place::default(),
            Types::Same(basic, _) => {
                let external = basic.external_size() as u64;
                let elements = at / external;
                let native = elements * basic.size() as u64;
                Place { elements, native, within: at % external }
            }
            Types::Mixed(mixed) => {
                let (before, body, left) = match &mixed.kind {
                    Kind::Loop { body, .. } => {
                        let i = at / body.external();
                        ((i * body.elements(), i * body.size()), body, at % body.external())
                    }
                    Kind::List(list) => {
                        let (mut before, mut i, mut left) = ((0, 0), 0, at);
                        while list[i].external() <= left {
                            left -= list[i].external();
                            before = (before.0 + list[i].elements(), before.1 + list[i].size());
                            i += 1;
                        }
                        (before, &list[i], left)
                    }
                };
                let inner = body.find(left);
                Place {
                    elements: before.0 + inner.elements,
                    native: before.1 + inner.native,
                    within: inner.within,
                }
            }
        }
    }

    /// Calls `each` with so many of a basic type, in order, after `skip` elements,
    /// until it returns false; returns what the last call did.
    pub(super) fn walk(&self, mut skip: u64, each: &mut dyn FnMut(Basic, u64) -> bool) -> bool {
        match self {
            Types::None => true,
            Types::Same(basic, count) => skip >= *count || each(*basic, *count - skip),
            Types::Mixed(mixed) => match &mixed.kind {
                Kind::Loop { count, body } => {
                    let first = skip / body.elements();
                    skip %= body.elements();
                    (first..*count).all(|_| body.walk(std::mem::take(&mut skip), each))
                }
                Kind::List(list) => list.iter().all(|one| {
                    let passed = one.elements().min(skip);
                    skip -= passed;
                    passed == one.elements() || one.walk(passed, each)
                }),
            },
        }
    }

    /// The signature of the first so many elements; of all where there are fewer.
    pub(super) fn prefix(&self, elements: u64) -> Signature {
        match self {
            _ if elements == 0 => Signature::default(),
            _ if elements >= self.elements() => self.signature(),
            Types::None => Signature::default(),
            Types::Same(basic, _) => Signature::of(*basic).times(elements),
            Types::Mixed(mixed) => match &mixed.kind {
                Kind::Loop { body, .. } => {
                    let whole = body.signature().times(elements / body.elements());
                    whole.then(body.prefix(elements % body.elements()))
                }
                Kind::List(list) => {
                    let (mut all, mut left) = (Signature::default(), elements);
                    for one in list {
                        all = all.then(one.prefix(left));
                        left -= left.min(one.elements());
                        if left == 0 {
                            break;
                        }
                    }
                    all
                }
            },
        }
    }

    /// Bytes in memory, with what it holds.
    pub(super) fn bytes_held(&self) -> usize {
        let Types::Mixed(mixed) = self else { return 0 };
        let inside = match &mixed.kind {
            Kind::Loop { body, .. } => body.bytes_held(),
            Kind::List(list) => {
                size_of_val::<[Types]>(list) + list.iter().map(Types::bytes_held).sum::<usize>()
            }
        };
        size_of::<Mixed>() + inside
    }
}

/// Sequences one after the other.
///
/// Most lists repeat a few types, so that what comes in turn is counted and not kept:
/// a structure of a million numbers of two types takes as much as one of two.
#[derive(Default)]
pub(super) struct Sequence {
    /// What may yet be joined with the next.
    last: Types,
    /// As in [`Kind::List`], neighbours of one type joined; one round where they come in
    /// turn.
    list: Vec<Types>,
    pattern: Pattern,
}

/// How the elements of a [`Sequence`] come.
#[derive(Clone, Copy, Default, PartialEq)]
enum Pattern {
    /// Too few to know.
    #[default]
    Unknown,
    /// In turn: so many came.
    Rounds(usize),
    /// Not in turn.
    Any,
}

impl Sequence {
    /// Elements after which it is looked whether they come in turn.
    const LOOK: usize = 64;

    pub(super) fn push(&mut self, next: &Types, count: u64) {
        if let Types::Same(basic, more) = next {
            let more = more.saturating_mul(count);
            match &mut self.last {
                Types::Same(last, have) if last == basic => *have = have.saturating_add(more),
                _ if more == 0 => {}
                _ => self.flush(Types::Same(*basic, more)),
            }
            return;
        }
        match next.times(count) {
            Types::Mixed(mixed) if mixed.is_list() => {
                let Kind::List(list) = &mixed.kind else { return };
                list.iter().for_each(|one| self.push(one, 1));
            }
            Types::None => {}
            one => self.flush(one),
        }
    }

    /// Puts down the last one; this is the next.
    fn flush(&mut self, next: Types) {
        let one = std::mem::replace(&mut self.last, next);
        if one == Types::None {
            return;
        }
        if let Pattern::Rounds(passed) = &mut self.pattern {
            if self.list[*passed % self.list.len()] == one {
                *passed += 1;
                return;
            }
            let round = self.list.len();
            (round..*passed).for_each(|i| self.list.push(self.list[i - round].clone()));
            self.pattern = Pattern::Any;
        }
        self.list.push(one);
        if self.pattern == Pattern::Unknown && self.list.len() == Sequence::LOOK {
            let round = Sequence::LOOK - border(&self.list);
            self.pattern = Pattern::Any;
            if round <= Sequence::LOOK / 2 {
                self.list.truncate(round);
                self.pattern = Pattern::Rounds(Sequence::LOOK);
            }
        }
    }

    pub(super) fn done(mut self) -> Types {
        self.flush(Types::None);
        let mut list = self.list;
        let mut passed = list.len();
        if let Pattern::Rounds(all) = self.pattern {
            passed = all;
        } else if list.len() > 1 {
            let round = period(&list);
            list.truncate(round);
        }
        let (rounds, rest) = (passed / list.len().max(1), passed % list.len().max(1));
        let rest: Vec<Types> = list[..rest].to_vec();
        let round = match list.len() {
            0 | 1 => list.pop().unwrap_or_default(),
            _ => Types::list(list),
        };
        let whole = round.times(rounds as u64);
        if rest.is_empty() {
            return whole;
        }
        Types::list([vec![whole], rest].concat())
    }
}

/// How long the longest end of these is that they begin with too.
fn border(list: &[Types]) -> usize {
    borders(list.len(), |i, j| list[i] == list[j]).last().map_or(0, |&border| border as usize)
}

/// The smallest number that divides the length such that each is equal to the one so
/// many before it.
fn period(list: &[Types]) -> usize {
    let borders = borders(list.len(), |i, j| list[i] == list[j]);
    let mut border = borders.last().map_or(0, |&border| border as usize);
    loop {
        let period = list.len() - border;
        if list.len().is_multiple_of(period) {
            return period;
        }
        border = borders[border - 1] as usize;
    }
}
