use super::super::{Defined, Definition, NO_PARENT};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A process: job, rank.
type Who = (u64, u32);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        (1..list.len()).rev().for_each(|at| list.swap(at, self.below(at + 1)));
    }
}

/// What is to come out, written down in full.
struct Made {
    constructor: Constructor,
    identity: Identity,
    parent: Option<usize>,
    sides: [Vec<Who>; 2],
    key: Option<(u32, u32)>,
    /// By which number its members call it, and who freed it.
    ids: BTreeMap<Who, u32>,
    freed: BTreeSet<Who>,
}

impl Made {
    fn is_single(&self) -> bool {
        let [first, second] = &self.sides;
        second.is_empty() && first.len() == 1 && self.constructor != Constructor::World
    }
}

/// A run of some jobs.
struct Run {
    random: Random,
    sizes: BTreeMap<u64, u32>,
    definitions: BTreeMap<Who, Vec<Defined>>,
    leads: BTreeMap<Who, u32>,
    made: Vec<Made>,
    ticks: u64,
}

impl Run {
    fn new(seed: u64, most: usize) -> Run {
        let mut random = Random(seed);
        let jobs = 1 + random.below(3) as u64;
        let sizes: BTreeMap<u64, u32> =
            (0..jobs).map(|job| (job * 77 + 5, 1 + random.below(most) as u32)).collect();
        let (definitions, leads, made) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut run = Run { random, sizes, definitions, leads, made, ticks: 0 };
        for (job, size) in run.sizes.clone() {
            let world = (0..size).map(|rank| (job, rank)).collect();
            run.make(Constructor::World, None, [world, Vec::new()]);
            for rank in 0..size {
                run.make(Constructor::ItSelf, None, [vec![(job, rank)], Vec::new()]);
            }
        }
        run
    }

    fn make(&mut self, constructor: Constructor, parent: Option<usize>, sides: [Vec<Who>; 2]) {
        self.ticks += 10;
        let number = self.made.len();
        let identity = match constructor {
            Constructor::World => Identity::world(sides[0][0].0),
            _ => Identity::root(99).child(number as u32, 0),
        };
        let mut made = Made {
            constructor,
            identity,
            parent,
            key: None,
            ids: BTreeMap::new(),
            freed: BTreeSet::new(),
            sides,
        };
        let communicator = matches!(
            constructor.object(),
            ObjectKind::Communicator | ObjectKind::Intercommunicator
        );
        if !made.is_single() && communicator {
            let lead = made.sides[0][0];
            let counter = self.leads.entry(lead).or_default();
            made.key = Some((lead.1, *counter));
            *counter += 1;
        }
        for side in 0..2 {
            for (rank, &who) in (0..).zip(&made.sides[side]) {
                let definitions = self.definitions.entry(who).or_default();
                let id = definitions.last().map_or(0, |last| last.id) + 1;
                made.ids.insert(who, id);
                let parent = parent.and_then(|parent| self.made[parent].ids.get(&who));
                let definition = Definition {
                    identity,
                    rank,
                    size: made.sides[side].len() as u32,
                    parent: parent.copied().unwrap_or(NO_PARENT),
                    site: 0,
                    constructor,
                    flags: DefinitionFlags(side as u8 * DefinitionFlags::SECOND_GROUP.0),
                };
                let freed = (self.random.below(3) == 0).then_some(self.ticks + 5);
                if freed.is_some() {
                    made.freed.insert(who);
                }
                definitions.push(Defined { id, made: self.ticks, freed, definition });
            }
        }
        self.made.push(made);
    }

    /// One call that makes something of something.
    fn step(&mut self) {
        let parent = self.random.below(self.made.len());
        let sides = self.made[parent].sides.clone();
        let inter = !sides[1].is_empty();
        let window = self.made[parent].constructor == Constructor::WinCreate;
        match self.random.below(6) {
            _ if window => (),
            0 if inter => self.make(Constructor::IntercommDup, Some(parent), sides),
            1 if inter => {
                let merged = [sides.concat(), Vec::new()];
                self.make(Constructor::IntercommMerge, Some(parent), merged);
            }
            _ if inter => (),
            0 => self.make(Constructor::Dup, Some(parent), sides),
            1 => self.make(Constructor::WinCreate, Some(parent), sides),
            2 | 3 => {
                // Regular colours or any, and any order of ranks.
                let (colors, odd) = (1 + self.random.below(4), self.random.below(2) == 0);
                let mut parts = BTreeMap::<usize, Vec<Who>>::new();
                for (rank, who) in sides[0].iter().enumerate() {
                    let color = if odd { self.random.below(colors) } else { rank % colors };
                    parts.entry(color).or_default().push(*who);
                }
                for (_, mut part) in parts {
                    match self.random.below(4) {
                        0 => self.random.shuffle(&mut part),
                        1 => part.reverse(),
                        _ => (),
                    }
                    self.make(Constructor::Split, Some(parent), [part, Vec::new()]);
                }
            }
            4 => {
                // Another that has none of its members.
                let other = self.random.below(self.made.len());
                let Made { sides: [others, none], constructor, .. } = &self.made[other];
                let apart = others.iter().all(|who| !sides[0].contains(who));
                if apart && none.is_empty() && *constructor != Constructor::WinCreate {
                    let both = [sides[0].clone(), others.clone()];
                    self.make(Constructor::IntercommCreate, Some(parent), both);
                }
            }
            _ => {
                // What a process makes for itself shifts its numbers.
                let who = sides[0][self.random.below(sides[0].len())];
                self.make(Constructor::TypeConstruct, None, [vec![who], Vec::new()]);
            }
        }
    }

    fn partial(&self, who: Who) -> Partial {
        let size = self.sizes[&who.0];
        let partial = Partial::of_definitions(who.0, who.1, size, &self.definitions[&who]);
        assert_eq!(Partial::from_bytes(&partial.to_bytes()).as_ref(), Ok(&partial));
        partial
    }

    /// Which ranks are to be known: of those that reported, of worlds all, of duplicates
    /// and windows those of the parent.
    fn known(&self, number: usize, side: usize, alive: &BTreeSet<Who>) -> BTreeSet<u32> {
        let made = &self.made[number];
        let members = &made.sides[side];
        let mut known: BTreeSet<u32> = (0..)
            .zip(members)
            .filter(|(_, who)| alive.contains(who))
            .map(|(rank, _)| rank)
            .collect();
        if made.constructor == Constructor::World && !known.is_empty() {
            return (0..members.len() as u32).collect();
        }
        if let Some(parent) = made.parent
            && has_members_of_parent(made.constructor)
        {
            known.extend(self.known(parent, side, alive));
        }
        known
    }

    fn check(&self, unified: &Unified, alive: &BTreeSet<Who>) {
        let pg = |job: u64| unified.job(job).unwrap();
        let mut objects = BTreeMap::new();
        let mut singles = BTreeMap::<usize, BTreeMap<Who, usize>>::new();
        for (number, made) in self.made.iter().enumerate() {
            let members = || made.sides.iter().flatten().filter(|who| alive.contains(*who));
            let mut places = members().map(|who| unified.object_of(who.0, who.1, made.ids[who]));
            let Some(place) = places.next() else { continue };
            let place = place.expect("an object");
            assert!(places.all(|other| other == Some(place)));
            let object = &unified.objects[place];
            assert_eq!(object.constructor, made.constructor);
            assert_eq!(object.family, made.is_single());
            if made.is_single() {
                let who = made.sides[0][0];
                assert_eq!(singles.entry(place).or_default().insert(who, number), None);
                continue;
            }
            assert_eq!(objects.insert(place, number), None);
            assert_eq!(object.identity, made.identity);
            assert_eq!(object.sizes[0] as usize + object.sizes[1] as usize, object.size as usize);
            assert_eq!(object.seen as usize, members().count());
            assert_eq!(
                object.freed as usize,
                members().filter(|who| made.freed.contains(*who)).count()
            );
            let lead = alive.contains(&made.sides[0][0]);
            assert_eq!(object.key, made.key.filter(|_| lead));
            let parent = |parent: usize| {
                let of = members().next().and_then(|who| self.made[parent].ids.get(who));
                let (who, id) = (members().next()?, of?);
                unified.object_of(who.0, who.1, *id)
            };
            // (Of an intercommunicator the least member says it, who may not have it.)
            if made.constructor != Constructor::IntercommCreate {
                assert_eq!(object.parent, made.parent.and_then(parent));
            }
            for side in 0..2 {
                let known = self.known(number, side, alive);
                let Some(group) = object.groups[side] else {
                    assert!(known.is_empty());
                    continue;
                };
                let group = &unified.groups[group];
                assert_eq!(group.size() as usize, made.sides[side].len());
                assert_eq!(group.is_complete(), known.len() == made.sides[side].len());
                for (rank, who) in (0..).zip(&made.sides[side]) {
                    let process = Process::new(unified.job(who.0).unwrap_or(99), who.1);
                    assert_eq!(group.get(rank), known.contains(&rank).then_some(process));
                    assert_eq!(group.rank_of(process), known.contains(&rank).then_some(rank));
                }
                assert_eq!(group.get(group.size()), None);
            }
        }
        for (&place, members) in &singles {
            let object = &unified.objects[place];
            let group = &unified.groups[object.groups[0].unwrap()];
            let processes: Vec<Process> = group.map().iter().collect();
            let expected: Vec<Process> =
                members.keys().map(|who| Process::new(pg(who.0), who.1)).collect();
            assert_eq!(processes, expected);
            assert_eq!((object.seen, object.key), (members.len() as u32, None));
        }
        // Nothing else came out, and equal groups came out once.
        assert_eq!(unified.objects.len(), objects.len() + singles.len());
        for (at, group) in unified.groups.iter().enumerate() {
            assert!(!unified.groups[..at].contains(group), "{group:?} twice");
        }
        // What the processes of a job have for themselves from the start is one object.
        let selves = unified.objects.iter().filter(|o| o.constructor == Constructor::ItSelf);
        assert!(selves.count() <= self.sizes.len());
    }
}

/// Whatever was made, whoever has died and in whatever order partials are merged: what
/// comes out is what a list of all members says.
#[test]
fn what_comes_out_is_what_was_made() {
    let (cases, most) = if cfg!(miri) { (3, 5) } else { (600, 24) };
    let mut groups = 0;
    for seed in 0..cases {
        let mut run = Run::new(seed, most);
        (0..run.random.below(30)).for_each(|_| run.step());
        let mut alive: Vec<Who> = run.definitions.keys().copied().collect();
        if seed % 2 == 1 {
            alive.retain(|_| run.random.below(4) > 0);
        }
        let survivors: BTreeSet<Who> = alive.iter().copied().collect();
        let along_tree = Partial::merge_all(alive.iter().map(|&who| run.partial(who)));
        assert_eq!(along_tree.processes() as usize, survivors.len());
        let unified = along_tree.finish();
        run.check(&unified, &survivors);
        groups += unified.groups.len();
        // Any two of those that are left, over and over.
        run.random.shuffle(&mut alive);
        let mut partials: Vec<Partial> = alive.iter().map(|&who| run.partial(who)).collect();
        while partials.len() > 1 {
            let one = partials.swap_remove(run.random.below(partials.len()));
            let other = partials.swap_remove(run.random.below(partials.len()));
            let sent = Partial::from_bytes(&one.merge(other).to_bytes()).unwrap();
            partials.push(sent);
        }
        let again = partials.pop().unwrap_or_default().finish();
        assert_eq!((&again.jobs, &again.groups), (&unified.jobs, &unified.groups));
        assert_eq!(again.objects, unified.objects);
    }
    assert!(groups > cases as usize);
}

/// Duplicates of the world, and what each process has for itself, take as much of a
/// thousand processes as of two.
#[test]
fn regular_objects_take_the_same_at_any_size() {
    let bytes = |size: u32| {
        let definition = |identity, rank, size, parent, constructor| Definition {
            identity,
            rank,
            size,
            parent,
            site: 0,
            constructor,
            flags: DefinitionFlags::NONE,
        };
        let world = Identity::world(1);
        let of = |rank| {
            let mut all = vec![definition(world, rank, size, 0, Constructor::World)];
            all.push(definition(world.child(0, rank.into()), 0, 1, 0, Constructor::ItSelf));
            all.extend(
                (1..19).map(|n| definition(world.child(n, 0), rank, size, 1, Constructor::Dup)),
            );
            all.extend(
                (0..4).map(|n| {
                    definition(world.child(90 + n, rank.into()), 0, 1, 2, Constructor::Dup)
                }),
            );
            let all: Vec<Defined> = (1..)
                .zip(all)
                .map(|(id, definition)| Defined { id, made: id.into(), freed: None, definition })
                .collect();
            Partial::of_definitions(1, rank, size, &all)
        };
        let partial = Partial::merge_all((0..size).map(of));
        let bytes = partial.to_bytes().len();
        let unified = partial.finish();
        assert_eq!((unified.objects.len(), unified.groups.len()), (24, 1));
        assert!(unified.groups[0].map().eq(&RankMap::direct(size)));
        assert_eq!(unified.group_bytes(), size_of::<RankMap>());
        bytes
    };
    let (few, many) = (bytes(2), bytes(if cfg!(miri) { 64 } else { 1 << 12 }));
    assert!(many <= few + 24 * 6 && many < 1_500, "{few} {many}");
}

/// Cut off anywhere or with any bit changed it is read or refused.
#[test]
fn damaged_partials_are_read_or_refused() {
    let mut run = Run::new(11, 6);
    (0..12).for_each(|_| run.step());
    let whole = Partial::merge_all(run.definitions.keys().map(|&who| run.partial(who))).to_bytes();
    let step = if cfg!(miri) { 37 } else { 1 };
    for len in (0..whole.len()).step_by(step) {
        let refused = Partial::from_bytes(&whole[..len]).unwrap_err();
        assert!(matches!(refused, super::super::Damage::Definitions(at) if at <= len));
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[len] ^= 1 << bit;
            if let Ok(partial) = Partial::from_bytes(&bytes)
                && partial.members() < 1_000
            {
                assert_eq!(Partial::from_bytes(&partial.to_bytes()).as_ref(), Ok(&partial));
                let _ = partial.finish();
            }
        }
    }
}
