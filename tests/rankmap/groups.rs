//! Every group operation against MPI's words on plain lists: members, order,
//! normal form of the result, and which place of a wrong list is named.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use rankway::rankmap::compact::{self, Compact, Representation};
use rankway::rankmap::group::{Comparison, Group, GroupError, RankRange};
use rankway::rankmap::{Process, RankMap};

mod common;
use common::{Dice, child_of, pids};

/// Under Miri a hundredth.
fn rounds(full: u32) -> u32 {
    if cfg!(miri) { full / 200 + 1 } else { full }
}

/// A group and its members in order.
struct Case {
    group: Group,
    list: Vec<Process>,
}

impl Case {
    fn of(map: RankMap) -> Case {
        let list = map.iter().collect();
        Case { group: Group::new(map).expect("all differ"), list }
    }

    fn from(list: Vec<Process>) -> Case {
        Case::of(RankMap::from_processes(list).expect("valid"))
    }
}

/// The group holds just this list, in the form that detection gives it.
fn check(group: &Group, list: &[Process]) {
    assert_eq!(group.size() as usize, list.len());
    assert_eq!(group.is_empty(), list.is_empty());
    assert!(group.map().iter().eq(list.iter().copied()), "{group:?} is not {list:?}");
    let fresh = RankMap::from_processes(list.iter().copied()).expect("valid");
    assert_eq!(group.map(), &fresh);
    if fresh.model().is_regular() {
        assert_eq!(group.map().model(), fresh.model(), "{group:?}");
    }
}

/// Distinct processes below `universe` in one of the shapes programs make.
fn any_map(rng: &mut Dice, universe: usize) -> RankMap {
    let (_, ranks) = child_of(rng, universe);
    let pg = u32::from(rng.below(8) == 0);
    let map = RankMap::from_lpids(pg, ranks.iter().copied()).expect("valid");
    match rng.below(10) {
        // Ranges of any order, some backwards or with a stride.
        0..3 => {
            let mut cuts: Vec<usize> =
                (0..rng.below(12) + 2).map(|_| rng.below(universe)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut parts: Vec<Vec<u32>> = cuts
                .windows(2)
                .map(|cut| {
                    let step = [1, 1, 1, 2, 3][rng.below(5)];
                    let mut part: Vec<u32> = (cut[0] as u32..cut[1] as u32).step_by(step).collect();
                    if rng.below(3) == 0 {
                        part.reverse();
                    }
                    part
                })
                .collect();
            if rng.below(2) == 0 {
                let turn = rng.below(cuts.len()) % parts.len().max(1);
                parts.rotate_left(turn);
            }
            RankMap::from_lpids(pg, parts.concat()).expect("valid")
        }
        // Compact forms.
        3 if !map.model().is_regular() => {
            let mut lpids: Vec<u32> = ranks.clone();
            if rng.below(2) == 0 {
                lpids.sort_unstable();
            }
            let fit = |one: &Representation| Compact::build(*one, lpids.iter().copied()).is_ok();
            if RankMap::from_lpids(0, lpids.iter().copied()).expect("valid").model().is_regular() {
                return map;
            }
            let able: Vec<_> = Representation::ALL.into_iter().filter(fit).collect();
            let one = able[rng.below(able.len())];
            Compact::build(one, lpids.iter().copied()).expect("fits").into()
        }
        4 => map.compressed(compact::Strategy::Space).expect("a map"),
        // Several process groups.
        5 | 6 => {
            let mut list: Vec<Process> = map.iter().collect();
            let many = rng.below(3) + 1;
            let chunk = rng.below(20) + 1;
            for (at, process) in list.iter_mut().enumerate() {
                process.pg = [2, 0, 1][at / chunk % (many + 1) % 3];
            }
            let map = RankMap::from_processes(list).expect("valid");
            if rng.below(3) == 0 {
                map.compressed(compact::Strategy::Space).expect("a map")
            } else {
                map
            }
        }
        // A strided view.
        7 if map.len() > 1 => {
            let half = RankMap::affine(0, 1, 2, map.len() / 2).expect("in range");
            map.compose(&half).expect("in range")
        }
        8 => map.reversed(),
        _ => map,
    }
}

fn union(a: &[Process], b: &[Process]) -> Vec<Process> {
    let have: HashSet<_> = a.iter().collect();
    a.iter().chain(b.iter().filter(|p| !have.contains(p))).copied().collect()
}

fn kept(a: &[Process], b: &[Process], common: bool) -> Vec<Process> {
    let have: HashSet<_> = b.iter().collect();
    a.iter().filter(|p| have.contains(p) == common).copied().collect()
}

fn comparison(a: &[Process], b: &[Process]) -> Comparison {
    let (set_a, set_b): (HashSet<_>, HashSet<_>) = (a.iter().collect(), b.iter().collect());
    match (a == b, set_a == set_b) {
        (true, _) => Comparison::Identical,
        (_, true) => Comparison::Similar,
        _ => Comparison::Unequal,
    }
}

fn pair(a: &Case, b: &Case) {
    check(&a.group.union(&b.group).expect("union"), &union(&a.list, &b.list));
    let common = a.group.intersection(&b.group).expect("intersection");
    check(&common, &kept(&a.list, &b.list, true));
    let others = a.group.difference(&b.group).expect("difference");
    check(&others, &kept(&a.list, &b.list, false));
    assert_eq!(a.group.compare(&b.group), comparison(&a.list, &b.list));
    assert_eq!(a.group == b.group, a.list == b.list);
}

fn translations(rng: &mut Dice, a: &Case, b: &Case) {
    let at: HashMap<_, u32> = b.list.iter().copied().zip(0..).collect();
    let want = |rank: u32| at.get(&a.list[rank as usize]).copied();
    for _ in 0..4.min(a.list.len()) {
        let rank = rng.below(a.list.len()) as u32;
        assert_eq!(a.group.translate(rank, &b.group), Ok(want(rank)), "{rank} {a:?} {b:?}");
    }
    let size = a.group.size();
    assert_eq!(
        a.group.translate(size, &b.group),
        Err(GroupError::Rank { index: 0, rank: size, size })
    );
    let mut ranks: Vec<u32> = (0..size).collect();
    match rng.below(4) {
        0 => ranks.reverse(),
        1 => ranks.truncate(3),
        2 => ranks.iter_mut().for_each(|rank| *rank = rng.below(size as usize) as u32),
        _ => {}
    }
    if rng.below(3) == 0 {
        ranks.push(Group::PROC_NULL);
    }
    let mut out = vec![7; ranks.len()];
    a.group.translate_ranks(&ranks, &b.group, &mut out).expect("ranks of the group");
    for (&rank, &found) in ranks.iter().zip(&out) {
        let want = match rank {
            Group::PROC_NULL => Group::PROC_NULL,
            rank => want(rank).unwrap_or(Group::UNDEFINED),
        };
        assert_eq!(found, want, "rank {rank} of {a:?} in {b:?}");
    }
    let index = rng.below(ranks.len() + 1);
    ranks.insert(index, size + rng.below(3) as u32);
    let mut out = vec![7; ranks.len()];
    let error = GroupError::Rank { index, rank: ranks[index], size };
    assert_eq!(a.group.translate_ranks(&ranks, &b.group, &mut out), Err(error));
    assert!(out.iter().all(|&found| found == 7));
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.group.fmt(f)
    }
}

#[test]
fn pairs_of_all_shapes() {
    let mut rng = Dice(11);
    for _ in 0..rounds(6_000) {
        let universe = [rng.below(40) + 1, rng.below(700) + 1][rng.below(2)];
        let a = Case::of(any_map(&mut rng, universe));
        let b = match rng.below(6) {
            // The same members in another order.
            0 => {
                let mut list = a.list.clone();
                let turn = rng.below(list.len() + 1) % list.len().max(1);
                list.rotate_left(turn);
                Case::from(list)
            }
            1 => Case::of(a.group.map().clone()),
            _ => Case::of(any_map(&mut rng, universe)),
        };
        pair(&a, &b);
        translations(&mut rng, &a, &b);
    }
}

/// Past 256 segments, where bitmaps begin.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn pairs_of_many_segments() {
    let mut rng = Dice(12);
    for _ in 0..150 {
        let universe = rng.below(60_000) + 5_000;
        let mut any = || {
            let map = any_map(&mut rng, universe);
            let list: Vec<Process> = map.iter().collect();
            match rng.below(4) {
                // Dropouts: hundreds of segments of one stride.
                0 => {
                    let every = rng.below(60) + 2;
                    let gone: HashSet<usize> =
                        (0..list.len() / every).map(|_| rng.below(list.len())).collect();
                    let left = (0..list.len()).filter(|at| !gone.contains(at));
                    Case::from(left.map(|at| list[at]).collect())
                }
                // A random half.
                1 => Case::from(list.into_iter().filter(|_| rng.below(2) == 0).collect()),
                _ => Case::of(map),
            }
        };
        let (a, b) = (any(), any());
        pair(&a, &b);
        translations(&mut rng, &a, &b);
    }
}

/// Three and more residues of one modulus, whose members take turns.
#[test]
fn interleaved_strides() {
    let mut rng = Dice(13);
    for _ in 0..rounds(2_000) {
        let mut any = || {
            let (modulus, n) = (rng.below(9) + 2, rng.below(300) + 20);
            let mut list = Vec::new();
            for residue in 0..modulus {
                let mut part: Vec<u32> = (residue..n).step_by(modulus).map(|x| x as u32).collect();
                match rng.below(4) {
                    0 => {}
                    1 => list.extend(part),
                    2 => {
                        part.reverse();
                        list.extend(part);
                    }
                    _ => list.extend_from_slice(&part[..rng.below(part.len() + 1)]),
                }
            }
            Case::from(pids(0, &list))
        };
        let (a, b) = (any(), any());
        pair(&a, &b);
    }
}

/// What MPI's words give for ranges, or the error.
fn naive_ranges(ranges: &[RankRange], size: u32) -> Result<Vec<u32>, GroupError> {
    let (mut list, mut seen) = (Vec::new(), HashMap::new());
    for (index, &RankRange { first, last, stride }) in ranges.iter().enumerate() {
        if stride == 0 {
            return Err(GroupError::Stride { index });
        }
        if (i64::from(last) - i64::from(first)) * i64::from(stride) < 0 {
            return Err(GroupError::Direction { index, first, last, stride });
        }
        let all = |rank: &i64| if stride > 0 { *rank <= last.into() } else { *rank >= last.into() };
        let ranks = std::iter::successors(Some(i64::from(first)), |r| Some(r + i64::from(stride)));
        // One more than the group has is enough to find the wrong one.
        let ranks: Vec<i64> = ranks.take_while(all).take(size as usize + 1).collect();
        if let Some(&rank) = ranks.iter().find(|rank| !(0..i64::from(size)).contains(rank)) {
            return Err(GroupError::RangeRank { index, rank, size });
        }
        for rank in ranks {
            let rank = rank as u32;
            if let Some(before) = seen.insert(rank, index) {
                return Err(GroupError::RangeDuplicate { index, rank, before });
            }
            list.push(rank);
        }
    }
    Ok(list)
}

fn naive_list(ranks: &[u32], size: u32) -> Result<(), GroupError> {
    let mut seen = HashMap::new();
    for (index, &rank) in ranks.iter().enumerate() {
        if rank >= size {
            return Err(GroupError::Rank { index, rank, size });
        }
        if let Some(before) = seen.insert(rank, index) {
            return Err(GroupError::Duplicate { index, rank, before });
        }
    }
    Ok(())
}

fn chosen(list: &[Process], ranks: &[u32]) -> Vec<Process> {
    ranks.iter().map(|&rank| list[rank as usize]).collect()
}

fn rest(list: &[Process], ranks: &[u32]) -> Vec<Process> {
    let gone: HashSet<u32> = ranks.iter().copied().collect();
    (0..).zip(list).filter(|(rank, _)| !gone.contains(rank)).map(|(_, p)| *p).collect()
}

fn one_range(size: i32) -> impl Strategy<Value = RankRange> {
    let inside = -1..size + 2;
    let ranges = (inside.clone(), inside, -9..10i32);
    ranges.prop_map(|(first, last, stride)| {
        // Mostly in the right direction.
        let towards = if last < first { -stride.abs() } else { stride.abs() };
        RankRange::new(first, last, if stride % 4 == 1 { stride } else { towards })
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(rounds(6_000))
    })]

    #[test]
    fn ranges(
        seed in any::<u64>(),
        ranges in (0..90i32).prop_flat_map(|size| prop::collection::vec(one_range(size), 0..5)),
    ) {
        let mut rng = Dice(seed);
        let parent = Case::of(any_map(&mut rng, 90));
        let want = naive_ranges(&ranges, parent.group.size());
        let (incl, excl) = (parent.group.range_incl(&ranges), parent.group.range_excl(&ranges));
        match want {
            Ok(ranks) => {
                check(&incl.expect("valid"), &chosen(&parent.list, &ranks));
                check(&excl.expect("valid"), &rest(&parent.list, &ranks));
            }
            Err(error) => {
                prop_assert_eq!(incl, Err(error));
                prop_assert_eq!(excl, Err(error));
            }
        }
    }

    #[test]
    fn apart_ranges(seed in any::<u64>(), cuts in prop::collection::btree_set(0..500i32, 2..12)) {
        let mut rng = Dice(seed);
        let parent = Case::of(any_map(&mut rng, 500));
        let cuts: Vec<i32> = cuts.into_iter().collect();
        let mut ranges: Vec<RankRange> = cuts.windows(2).map(|cut| {
            let (low, high, stride) = (cut[0], cut[1] - 1, rng.range(1, 8) as i32);
            if rng.below(2) == 0 {
                RankRange::new(low, high, stride)
            } else {
                RankRange::new(high, low, -stride)
            }
        }).collect();
        let turn = rng.below(ranges.len());
        ranges.rotate_left(turn);
        let want = naive_ranges(&ranges, parent.group.size());
        let (incl, excl) = (parent.group.range_incl(&ranges), parent.group.range_excl(&ranges));
        match want {
            Ok(ranks) => {
                check(&incl.expect("valid"), &chosen(&parent.list, &ranks));
                check(&excl.expect("valid"), &rest(&parent.list, &ranks));
            }
            Err(error) => {
                prop_assert_eq!(incl, Err(error));
                prop_assert_eq!(excl, Err(error));
            }
        }
    }

    #[test]
    fn lists(
        seed in any::<u64>(),
        universe in 1..3_000usize,
        ranks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        wrong in 0..6,
    ) {
        let mut rng = Dice(seed);
        let parent = Case::of(any_map(&mut rng, universe));
        let size = parent.group.size();
        let mut ranks: Vec<u32> = ranks.iter().map(|r| r.index(size as usize + 1) as u32).collect();
        if wrong > 0 {
            let mut seen = HashSet::new();
            ranks.retain(|&rank| rank < size && seen.insert(rank));
        }
        if wrong == 1 {
            ranks.sort_unstable();
        }
        let (incl, excl) = (parent.group.incl(&ranks), parent.group.excl(&ranks));
        match naive_list(&ranks, size) {
            Ok(()) => {
                check(&incl.expect("valid"), &chosen(&parent.list, &ranks));
                check(&excl.expect("valid"), &rest(&parent.list, &ranks));
            }
            Err(error) => {
                prop_assert_eq!(incl, Err(error));
                prop_assert_eq!(excl, Err(error));
            }
        }
    }
}

#[test]
fn empty_groups() {
    let empty = Group::empty();
    let world = Group::world(10);
    assert_eq!(empty, Group::default());
    assert_eq!(empty.compare(&empty), Comparison::Identical);
    assert_eq!(empty.compare(&world), Comparison::Unequal);
    // Whatever process group a map without ranks is of.
    let other = Group::new(RankMap::affine(5, 0, 1, 0).expect("empty")).expect("empty");
    assert_eq!(other, empty);
    assert_eq!(world.incl(&[]).expect("empty"), empty);
    assert_eq!(world.range_incl(&[]).expect("empty"), empty);
    assert_eq!(world.excl(&[]).expect("all"), world);
    assert_eq!(world.range_excl(&[]).expect("all"), world);
    assert_eq!(world.range_excl(&[RankRange::new(9, 0, -1)]).expect("none"), empty);
    assert_eq!(world.difference(&world).expect("none"), empty);
    assert_eq!(world.intersection(&empty).expect("none"), empty);
    assert_eq!(world.union(&empty).expect("all"), world);
    assert_eq!(empty.union(&world).expect("all"), world);
    assert_eq!(empty.difference(&world).expect("none"), empty);
    assert_eq!(empty.union(&empty).expect("none"), empty);
    assert_eq!(empty.incl(&[]).expect("none"), empty);
    assert_eq!(empty.incl(&[0]), Err(GroupError::Rank { index: 0, rank: 0, size: 0 }));
    let range = RankRange::new(0, 0, 1);
    assert_eq!(
        empty.range_incl(&[range]),
        Err(GroupError::RangeRank { index: 0, rank: 0, size: 0 })
    );
    assert_eq!(empty.translate_ranks(&[], &world, &mut []), Ok(()));
    let mut out = [0; 2];
    let asked = [3, Group::PROC_NULL];
    assert_eq!(world.translate_ranks(&asked, &empty, &mut out), Ok(()));
    assert_eq!(out, [Group::UNDEFINED, Group::PROC_NULL]);
    assert_eq!(
        world.translate_ranks(&[1], &world, &mut []),
        Err(GroupError::Results { ranks: 1, out: 0 })
    );
}

/// A compact form asked for by name holds even what is a formula.
#[test]
fn a_compact_formula_is_the_formula() {
    let packed = Compact::build(Representation::Packed, 0..100).expect("fits");
    let (packed, world) = (Group::new(packed.into()).expect("all differ"), Group::world(100));
    assert_eq!(packed.compare(&world), Comparison::Identical);
    assert_eq!(world.compare(&packed), Comparison::Identical);
}

#[test]
fn repeated_members_are_refused() {
    let refused = |map: RankMap| Group::new(map).expect_err("a process is there twice");
    let nodes = RankMap::from_lpids(0, (0..100).map(|rank| rank / 8)).expect("valid");
    let process = Process { pg: 0, lpid: 0 };
    assert_eq!(refused(nodes), GroupError::Member { rank: 1, process, before: 0 });
    let local = RankMap::from_lpids(0, (0..100).map(|rank| rank % 8)).expect("valid");
    assert_eq!(refused(local), GroupError::Member { rank: 8, process, before: 0 });
    let mut rng = Dice(14);
    for _ in 0..rounds(3_000) {
        let universe = rng.below(500) + 2;
        let mut list = Case::of(any_map(&mut rng, universe)).list;
        if list.len() < 2 {
            continue;
        }
        let (a, b) = (rng.below(list.len()), rng.below(list.len()));
        list[a] = list[b];
        let map = RankMap::from_processes(list.iter().copied()).expect("valid");
        let found = Group::new(map.clone());
        if a == b {
            check(&found.expect("all differ"), &list);
        } else {
            let (before, rank) = (a.min(b) as u32, a.max(b) as u32);
            assert_eq!(refused(map), GroupError::Member { rank, process: list[a], before });
        }
    }
}

/// The largest groups there are, by formulas alone.
#[test]
fn huge_groups_are_formulas() {
    const ALL: u32 = i32::MAX as u32;
    let world = Group::world(ALL);
    let last = ALL as i32 - 1;
    let odd = world.range_incl(&[RankRange::new(1, last, 2)]).expect("in range");
    let third = world.range_incl(&[RankRange::new(0, i32::MAX, 3)]).expect("in range");
    let both = odd.intersection(&third).expect("a stride");
    assert_eq!(both.map(), &RankMap::affine(0, 3, 6, (ALL - 4) / 6 + 1).expect("in range"));
    let even = world.difference(&odd).expect("a stride");
    assert_eq!(even.map(), &RankMap::affine(0, 0, 2, ALL / 2 + 1).expect("in range"));
    assert_eq!(even.union(&odd).expect("two strides").compare(&world), Comparison::Similar);
    assert_eq!(even.compare(&world), Comparison::Unequal);
    let rest = world.difference(&third).expect("blocks");
    assert_eq!(rest.map().bytes(), size_of::<RankMap>());
    assert_eq!((rest.size(), rest.get(5)), (ALL / 3 * 2, Some(Process { pg: 0, lpid: 8 })));
    let back = world.range_excl(&[RankRange::new(last, 0, -128)]).expect("blocks");
    assert_eq!(back.map().bytes(), size_of::<RankMap>());
    assert_eq!(world.translate(last as u32, &rest), Ok(None));
    let mut out = [0; 3];
    world.translate_ranks(&[1, 0, 2], &rest, &mut out).expect("ranks");
    assert_eq!(out, [0, Group::UNDEFINED, 1]);
    let far = RankRange::new(5, i32::MAX, i32::MAX);
    assert_eq!(world.range_incl(&[far]).expect("one rank").size(), 1);
    let message = world.range_incl(&[RankRange::new(last, i32::MIN, i32::MIN)]);
    assert_eq!(
        message,
        Err(GroupError::RangeRank {
            index: 0,
            rank: i64::from(last) + i64::from(i32::MIN),
            size: ALL
        })
    );
}
