//! Definitions of some processes put together, on the way up a tree.

use super::definition::{Constructor, DefinitionFlags, Identity, NO_PARENT, ObjectKind};
use super::file::{Defined, ProcessTrace};
use super::runs::{Order, Run, Runs};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A process: its job and its rank in the job's world.
pub(super) type Member = (u64, u32);

/// Which processes of a job are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobSeen {
    pub(super) number: u64,
    pub(super) size: u32,
    /// Ranks of the world, in both fields of a run.
    pub(super) present: Runs,
}

/// What some members know of an object.
///
/// What each process has for itself (`MPI_COMM_SELF`, communicators of one process,
/// groups, datatypes) is put together too, as a family: members are the processes that
/// have one of it, made in the same manner as the same one in order. Ranks of its runs are
/// those of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) identity: Identity,
    pub(super) constructor: Constructor,
    pub(super) flags: DefinitionFlags,
    pub(super) family: bool,
    /// Size of each group.
    pub(super) sizes: [u32; 2],
    /// Identity of what it was made of, 0 where that is nothing or not known.
    pub(super) parent: u64,
    /// Nanoseconds since 1970 when the first and the last of them made it.
    pub(super) made: (u64, u64),
    /// How many freed it, and when the last of them did.
    pub(super) freed: (u32, u64),
    /// What rank 0 of the first group had been rank 0 of before.
    pub(super) counter: Option<u32>,
    /// The least of the members: what they say differently is as it says.
    pub(super) lead: Member,
    /// The least member that knows it, and what it says.
    pub(super) site: Option<(Member, Arc<str>)>,
    pub(super) name: Option<(Member, Arc<str>)>,
    pub(super) runs: [Runs; 2],
}

impl Entry {
    pub(super) fn order(&self) -> Order {
        if self.family { Order::Scattered } else { Order::Ranks }
    }

    fn merge(&mut self, other: Entry) {
        let order = self.order();
        if other.lead < self.lead {
            self.lead = other.lead;
            (self.constructor, self.flags) = (other.constructor, other.flags);
            self.parent = other.parent;
        }
        for side in 0..2 {
            self.sizes[side] = self.sizes[side].max(other.sizes[side]);
            self.runs[side].merge(&other.runs[side], order);
        }
        self.made = (self.made.0.min(other.made.0), self.made.1.max(other.made.1));
        self.freed.0 = self.freed.0.saturating_add(other.freed.0);
        self.freed.1 = self.freed.1.max(other.freed.1);
        self.counter = match (self.counter, other.counter) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        least(&mut self.site, other.site);
        least(&mut self.name, other.name);
    }
}

/// Keeps what the least member says.
fn least(said: &mut Option<(Member, Arc<str>)>, other: Option<(Member, Arc<str>)>) {
    if let Some(other) = other
        && said.as_ref().is_none_or(|said| other < *said)
    {
        *said = Some(other);
    }
}

/// Definitions of some processes of some jobs, put together: what goes up a tree of
/// processes at the end of a run, or is made of their files. Of a communicator it holds
/// runs of members, as many as its map has, however many processes are in.
///
/// ```
/// use rankway::track::{Constructor, Defined, Definition, DefinitionFlags, Identity, Partial};
///
/// let world = |rank| Definition {
///     identity: Identity::world(7),
///     rank,
///     size: 3,
///     parent: 0,
///     site: 0,
///     constructor: Constructor::World,
///     flags: DefinitionFlags::NONE,
/// };
/// let of = |rank| {
///     let defined = Defined { id: 1, made: 0, freed: None, definition: world(rank) };
///     Partial::of_definitions(7, rank, 3, &[defined])
/// };
/// // Rank 1 has died: what the others say is enough.
/// let unified = of(2).merge(of(0)).finish();
/// let object = &unified.objects[unified.object_of(7, 0, 1).unwrap()];
/// assert_eq!((object.size, object.seen), (3, 2));
/// let group = &unified.groups[object.groups[0].unwrap()];
/// assert_eq!(group.get(1).map(|process| process.lpid), Some(1));
/// assert_eq!(group.bytes(), 32);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// Ordered by number.
    pub(super) jobs: Vec<JobSeen>,
    /// Ordered by identity.
    pub(super) entries: Vec<Entry>,
}

/// What a definition of a process goes by, and what it says about itself.
struct Texts<'a> {
    site: &'a dyn Fn(u16) -> Option<Arc<str>>,
    name: &'a dyn Fn(u32) -> Option<Arc<str>>,
    nanos: &'a dyn Fn(u64) -> u64,
}

impl Partial {
    /// Of one process.
    pub fn of(trace: &ProcessTrace) -> Partial {
        let shared = |text: &String| Arc::<str>::from(text.as_str());
        let sites: BTreeMap<u16, Arc<str>> =
            trace.sites.iter().map(|(&site, text)| (site, shared(text))).collect();
        let header = &trace.header;
        Partial::build(
            (header.job, header.rank),
            header.size,
            &trace.definitions,
            &Texts {
                site: &|site| sites.get(&site).cloned(),
                name: &|id| trace.names.get(&id).map(shared),
                nanos: &|ticks| trace.nanos(ticks),
            },
        )
    }

    /// Of one process, from its definitions alone, in the order in which they were made.
    /// Ticks count as nanoseconds since 1970; sites and names are not known.
    pub fn of_definitions(job: u64, rank: u32, size: u32, definitions: &[Defined]) -> Partial {
        let texts = Texts { site: &|_| None, name: &|_| None, nanos: &|ticks| ticks };
        Partial::build((job, rank), size, definitions, &texts)
    }

    fn build(me: Member, size: u32, definitions: &[Defined], texts: &Texts<'_>) -> Partial {
        let (job, rank) = me;
        let mut entries: Vec<Entry> = Vec::with_capacity(definitions.len());
        // Identities by the process's number: numbers grow.
        let mut known: Vec<(u32, u64)> = Vec::with_capacity(definitions.len());
        let mut ordinals: BTreeMap<u64, u32> = BTreeMap::new();
        let mut leads = 0;
        for &Defined { id, made, freed, definition } in definitions {
            let kind = definition.constructor.object();
            let parent = match definition.parent {
                NO_PARENT => 0,
                parent => {
                    known.binary_search_by_key(&parent, |&(id, _)| id).map_or(0, |at| known[at].1)
                }
            };
            let site = (texts.site)(definition.site);
            let family = is_family(kind, definition.constructor, definition.size);
            let mut entry = Entry {
                identity: definition.identity,
                constructor: definition.constructor,
                flags: DefinitionFlags(definition.flags.0 & !DefinitionFlags::SECOND_GROUP.0),
                family,
                sizes: [definition.size, 0],
                parent,
                made: ((texts.nanos)(made), (texts.nanos)(made)),
                freed: freed.map_or((0, 0), |freed| (1, (texts.nanos)(freed))),
                counter: None,
                lead: me,
                site: site.map(|site| (me, site)),
                name: (texts.name)(id).map(|name| (me, name)),
                runs: [Runs::EMPTY, Runs::EMPTY],
            };
            if family {
                let of = match parent {
                    0 => Identity::root(job),
                    parent => Identity(parent),
                };
                let site = entry.site.as_ref().map_or("", |(_, site)| site);
                let (made_by, size) = (definition.constructor as u32, definition.size);
                let family = of.child(made_by, u64::from(size)).child(0, hash(site));
                let ordinal = ordinals.entry(family.0).or_default();
                entry.identity = family.child(*ordinal, FAMILY);
                *ordinal += 1;
                entry.runs[0] = Runs::One(Run::one(job, rank, rank, id));
            } else {
                let second = kind == ObjectKind::Intercommunicator
                    && definition.flags.has(DefinitionFlags::SECOND_GROUP);
                entry.runs[usize::from(second)] =
                    Runs::One(Run::one(job, definition.rank, rank, id));
                let communicator =
                    matches!(kind, ObjectKind::Communicator | ObjectKind::Intercommunicator);
                if second {
                    entry.sizes.swap(0, 1);
                } else if definition.rank == 0 && communicator {
                    entry.counter = Some(leads);
                    leads += 1;
                }
            }
            match known.binary_search_by_key(&id, |&(id, _)| id) {
                Ok(at) => known[at].1 = entry.identity.0,
                Err(at) => known.insert(at, (id, entry.identity.0)),
            }
            entries.push(entry);
        }
        entries.sort_by_key(|entry| entry.identity);
        // (Of the same identity a process has one, unless its file is damaged.)
        entries.dedup_by(|next, kept| {
            let same = next.identity == kept.identity && next.family == kept.family;
            if same {
                kept.merge(next.clone());
            }
            same
        });
        let present = Runs::One(Run::one(job, rank, rank, 0));
        Partial { jobs: vec![JobSeen { number: job, size, present }], entries }
    }

    /// Both together. The order in which partials are merged does not matter; merged in
    /// pairs, and these in pairs ([`Partial::merge_all`]), irregular ones cost least.
    #[must_use]
    pub fn merge(mut self, mut other: Partial) -> Partial {
        merge_ordered(
            &mut self.jobs,
            &mut other.jobs,
            |job| (job.number, false),
            |job, other| {
                job.size = job.size.max(other.size);
                job.present.merge(&other.present, Order::Scattered);
            },
        );
        merge_ordered(&mut self.entries, &mut other.entries, key, Entry::merge);
        self
    }

    /// All together, along a binary tree; holds the logarithm of their number at a time.
    pub fn merge_all(partials: impl IntoIterator<Item = Partial>) -> Partial {
        // Each is made of as many as its number says: the next has fewer.
        let mut stack: Vec<(Partial, u64)> = Vec::new();
        for mut partial in partials {
            let mut count = 1;
            while let Some((left, _)) = stack.pop_if(|(_, left)| *left == count) {
                partial = left.merge(partial);
                count *= 2;
            }
            stack.push((partial, count));
        }
        let right_first = stack.into_iter().rev().map(|(partial, _)| partial);
        right_first.reduce(|right, left| left.merge(right)).unwrap_or_default()
    }

    /// How many processes are in.
    pub fn processes(&self) -> u64 {
        self.jobs.iter().map(|job| job.present.members()).sum()
    }

    /// Members of all objects.
    pub fn members(&self) -> u64 {
        let sides = self.entries.iter().flat_map(|entry| &entry.runs);
        sides.map(Runs::members).sum()
    }
}

/// Tells the hash of a family from others.
const FAMILY: u64 = 0x6661_6d69_6c79;

/// Returns true if each process has its own.
fn is_family(kind: ObjectKind, constructor: Constructor, size: u32) -> bool {
    kind.is_of_one()
        || (kind != ObjectKind::Intercommunicator && size <= 1 && constructor != Constructor::World)
}

pub(super) fn key(entry: &Entry) -> (u64, bool) {
    (entry.identity.0, entry.family)
}

/// FNV-1a (Fowler, Noll, Vo).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Merges an ordered list into another; what has the same key is put together.
fn merge_ordered<T>(
    into: &mut Vec<T>,
    from: &mut Vec<T>,
    key: impl Fn(&T) -> (u64, bool),
    mut merge: impl FnMut(&mut T, T),
) {
    // Processes mostly have the same: nothing is moved.
    if into.len() == from.len() && into.iter().zip(&*from).all(|(a, b)| key(a) == key(b)) {
        into.iter_mut().zip(from.drain(..)).for_each(|(a, b)| merge(a, b));
        return;
    }
    let (mut a, mut b) = (std::mem::take(into).into_iter().peekable(), from.drain(..).peekable());
    into.reserve(a.len() + b.len());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => key(x).cmp(&key(y)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        if next == std::cmp::Ordering::Greater {
            into.extend(b.next());
        } else {
            into.extend(a.next());
            if next == std::cmp::Ordering::Equal
                && let (Some(last), Some(other)) = (into.last_mut(), b.next())
            {
                merge(last, other);
            }
        }
    }
}
