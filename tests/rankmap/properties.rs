//! Every model against a plain list: get, inverse, iteration, lookup, normal
//! form, composition.

use proptest::prelude::*;
use rankway::rankmap::{Detector, LPID_MAX, MapError, Model, Process, RankMap};

mod common;
use common::{Dice, FakeVectors, check, child_of, mixed_list, pids};

/// Under Miri a hundredth.
fn rounds(full: u32) -> u32 {
    if cfg!(miri) { full / 200 } else { full }
}

/// Returns true if `list` is regular by brute force: two digits at most, any
/// phase.
fn two_digits_fit(list: &[u32]) -> bool {
    let n = list.len();
    let d: Vec<i64> = list.windows(2).map(|w| i64::from(w[1]) - i64::from(w[0])).collect();
    (2..=n.max(2)).any(|block| {
        (0..block).any(|phase| {
            let (mut step, mut jump) = (None, None);
            d.iter().enumerate().all(|(i, &v)| {
                let turn = (i + 1 + phase) % block == 0;
                *if turn { &mut jump } else { &mut step }.get_or_insert(v) == v
            })
        })
    })
}

#[test]
fn random_regular_maps() {
    let vectors = FakeVectors::new(3, 1 << 13);
    let mut rng = Dice(1);
    let mut models = std::collections::BTreeMap::new();
    for round in 0..rounds(30_000) {
        let digits: Vec<(i64, i64)> =
            (0..rng.range(1, 5)).map(|_| (rng.range(2, 9), rng.range(-30, 31))).collect();
        let len = rng.below(200);
        let list = mixed_list(&digits, rng.range(0, 500), len, rng.range(0, 50));
        let map = RankMap::from_lpids(2, list.iter().copied()).expect("valid");
        *models.entry(map.model()).or_insert(0) += 1;
        let processes = pids(2, &list);
        vectors.check(&map, &processes);
        if round % 4 == 0 {
            check(&map, &processes);
        }
        assert_eq!(map, RankMap::from_processes(processes).expect("valid").with_empty_pg(2));
        if digits.len() <= 2 {
            assert!(map.model().is_regular(), "{digits:?} {map:?} {list:?}");
        }
    }
    println!("{models:?}");
    let missed = models.get(&Model::Lut).unwrap_or(&0) + models.get(&Model::Segments).unwrap_or(&0);
    assert!(missed < 30, "{missed} maps of up to four digits not found");
}

/// `from_processes` cannot know the group of an empty list.
trait EmptyPg {
    fn with_empty_pg(self, pg: u32) -> Self;
}

impl EmptyPg for RankMap {
    fn with_empty_pg(self, pg: u32) -> RankMap {
        if self.is_empty() { RankMap::affine(pg, 0, 1, 0).expect("empty") } else { self }
    }
}

#[test]
fn one_element_changed_is_another_map() {
    let mut rng = Dice(2);
    for _ in 0..rounds(40_000) {
        let digits: Vec<(i64, i64)> =
            (0..rng.range(1, 5)).map(|_| (rng.range(2, 9), rng.range(-30, 31))).collect();
        let mut list = mixed_list(&digits, rng.range(0, 500), rng.below(150) + 1, 10);
        let map = RankMap::from_lpids(0, list.iter().copied()).expect("valid");
        let at = rng.below(list.len());
        list[at] ^= 1 << rng.below(20);
        let changed = RankMap::from_lpids(0, list.iter().copied()).expect("valid");
        assert_ne!(map, changed);
        assert!(changed.iter().map(|p| p.lpid).eq(list.iter().copied()), "{changed:?} {list:?}");
        assert_eq!(changed.get(at as u32), Some(Process { pg: 0, lpid: list[at] }));
    }
}

#[test]
fn two_digit_maps_are_found_exactly() {
    // All short sequences over a small alphabet of steps.
    let mut regular = 0;
    for code in (0..3u32.pow(9)).step_by(if cfg!(miri) { 331 } else { 1 }) {
        let (mut code, mut at, mut list) = (code, 40i64, vec![40u32]);
        for _ in 0..9 {
            at += [1, 2, -3][(code % 3) as usize];
            code /= 3;
            list.push(at as u32);
        }
        let map = RankMap::from_lpids(0, list.iter().copied()).expect("valid");
        assert!(map.iter().map(|p| p.lpid).eq(list.iter().copied()), "{map:?} {list:?}");
        let two = matches!(
            map.model(),
            Model::Direct | Model::Offset | Model::Stride | Model::BlockStride
        );
        assert_eq!(two, two_digits_fit(&list), "{map:?} {list:?}");
        regular += u32::from(two);
    }
    assert!(regular > 50 || cfg!(miri));
}

#[test]
fn tiles() {
    let vectors = FakeVectors::new(3, 1 << 14);
    let mut rng = Dice(6);
    for _ in 0..rounds(6_000) {
        let period = rng.below(70) + 1;
        let growth = rng.range(-20, 25);
        let spread = [2, 5, 60, 1000][rng.below(4)];
        let tile: Vec<i64> = (0..period).map(|_| rng.range(0, spread)).collect();
        let n = rng.below(600) + 1;
        let raw = |r: usize| tile[r % period] + growth * (r / period) as i64;
        let least = (0..n).map(raw).min().unwrap_or(0);
        let mut list: Vec<u32> = (0..n).map(|r| (raw(r) - least) as u32).collect();
        let map = RankMap::from_lpids(2, list.iter().copied()).expect("valid");
        check(&map, &pids(2, &list));
        vectors.check(&map, &pids(2, &list));
        assert!(map.model().is_regular() || period > 64 || n < 4 * period, "{map:?}");
        let at = rng.below(n);
        list[at] += 1;
        let changed = RankMap::from_lpids(2, list.iter().copied()).expect("valid");
        assert_ne!(map, changed);
        assert!(changed.iter().eq(pids(2, &list)), "{changed:?} {list:?}");
    }
    if cfg!(miri) {
        return;
    }
    // A stride that does not divide the blocks, of a million ranks.
    let blocks = RankMap::from_lpids(0, (0..1 << 20).map(|r| r / 16 * 24 + r % 16)).expect("valid");
    let child = RankMap::affine(0, 2, 7, 149_000).expect("in range");
    let seventh = blocks.compose(&child).expect("in range");
    assert_eq!(seventh.model(), Model::MdBlockStride);
    assert!(seventh.bytes() < 200, "{}", seventh.bytes());
}

#[test]
fn irregular_maps_and_several_groups() {
    let vectors = FakeVectors::new(3, 4096);
    let mut rng = Dice(3);
    for round in 0..rounds(1_500) {
        let n = rng.below(400) + 1;
        let groups = [1, 1, 2, 3][rng.below(4)];
        let mut list = Vec::new();
        while list.len() < n {
            // Runs of random length; length 1 makes tables, long ones segments.
            let longest = if round % 2 == 0 { 80 } else { 3 };
            let (pg, mut lpid) = (rng.below(groups) as u32, rng.range(0, 4000));
            let step = rng.range(-3, 4);
            for _ in 0..rng.below(longest) + 1 {
                list.push(Process { pg, lpid: lpid as u32 });
                lpid = (lpid + step).clamp(0, 4000);
            }
        }
        list.truncate(n);
        let map = RankMap::from_processes(list.iter().copied()).expect("valid");
        check(&map, &list);
        vectors.check(&map, &list);
        let one = list.iter().all(|p| p.pg == list[0].pg);
        assert_eq!(map.pg(), one.then_some(list[0].pg));
        assert_eq!(map.model() == Model::Mlut, !one);
        let (a, b) = (rng.below(n), rng.below(n));
        let range = a.min(b)..a.max(b);
        let slice = map.slice(range.start as u32..range.end as u32).expect("in range");
        check(&slice, &list[range.clone()]);
        vectors.check(&slice, &list[range]);
        let back: Vec<Process> = list.iter().rev().copied().collect();
        check(&map.reversed(), &back);
        vectors.check(&map.reversed(), &back);
        assert_eq!(map.reversed(), RankMap::from_processes(back).expect("valid"));
        assert_eq!(map.reversed().reversed(), map);
    }
}

/// Processes of up to three groups that follow a formula: one behind the other, in turns, or
/// of each a selection.
fn several_groups(rng: &mut Dice) -> Vec<Process> {
    let groups = rng.range(2, 4) as u32;
    let parts: Vec<Vec<Process>> = (0..groups)
        .map(|at| {
            let size = rng.below(300) + 2;
            let (_, ranks) = child_of(rng, size);
            let low = rng.below(50) as u32;
            ranks.iter().map(|&rank| Process { pg: (at + 1) % 3, lpid: low + rank }).collect()
        })
        .collect();
    if rng.below(3) > 0 {
        return parts.concat();
    }
    // In turns, some of each.
    let turn = rng.below(4) + 1;
    let turns = parts.iter().map(|part| part.len() / turn).min().unwrap_or(0);
    let of = |at: usize| parts.iter().flat_map(move |part| &part[at * turn..][..turn]);
    (0..turns).flat_map(of).copied().collect()
}

#[test]
fn maps_of_several_groups() {
    use rankway::rankmap::compact::Strategy;
    let vectors = FakeVectors::new(3, 4096);
    let mut rng = Dice(7);
    let (mut small, mut all) = (0, 0);
    for _ in 0..rounds(6_000) {
        let list = several_groups(&mut rng);
        if list.len() < 2 || list.iter().all(|process| process.pg == list[0].pg) {
            continue;
        }
        let map = RankMap::from_processes(list.iter().copied()).expect("valid");
        assert_eq!((map.model(), map.pg()), (Model::Mlut, None));
        check(&map, &list);
        vectors.check(&map, &list);
        assert_eq!(map.duplicate(), None, "{map:?}");
        all += 1;
        small += u32::from(map.bytes() < 600);
        let mut back = list.clone();
        back.reverse();
        let turned = map.reversed();
        check(&turned, &back);
        vectors.check(&turned, &back);
        assert_eq!(turned, RankMap::from_processes(back).expect("valid"));
        let (_, ranks) = child_of(&mut rng, list.len());
        let child = RankMap::from_lpids(0, ranks.iter().copied()).expect("valid");
        let some: Vec<Process> = ranks.iter().map(|&rank| list[rank as usize]).collect();
        let strategy = [Strategy::Time, Strategy::Space, Strategy::default()][rng.below(3)];
        let held = map.compressed(strategy).expect("a map");
        assert_eq!(held, map);
        check(&held, &list);
        vectors.check(&held, &list);
        for parent in [&map, &held] {
            let composed = parent.compose(&child).expect("in range");
            check(&composed, &some);
            vectors.check(&composed, &some);
            assert_eq!(composed, RankMap::from_processes(some.iter().copied()).expect("valid"));
        }
        let at = rng.below(list.len());
        let mut other = list.clone();
        other[at].lpid += 1;
        let other = RankMap::from_processes(other).expect("valid");
        assert_ne!(map, other);
        assert_ne!(held, other);
        let changed = other.get(at as u32).expect("in range");
        for other in [&other, &other.compressed(strategy).expect("a map")] {
            assert_eq!(other.duplicate(), list.contains(&changed).then_some(changed), "{other:?}");
        }
    }
    println!("{small} of {all} in less than 600 bytes");
    assert!(4 * small > all || cfg!(miri), "{small} of {all}");
}

/// Two jobs of a million are two runs, whoever comes first; a random half of both is near its
/// entropy.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn merges_take_no_table() {
    use rankway::rankmap::compact::Strategy;
    const N: u32 = 1 << 20;
    let of = |pg, lpids: std::ops::Range<u32>| lpids.map(move |lpid| Process { pg, lpid });
    let merge = |first, second| {
        let all = of(first, 0..N).chain(of(second, 0..N / 2));
        RankMap::from_processes(all).expect("valid")
    };
    for map in [merge(0, 1), merge(1, 0), merge(7, 3)] {
        assert_eq!(map.model(), Model::Mlut);
        assert!(map.bytes() < 250, "{} bytes", map.bytes());
        assert_eq!(map.duplicate(), None);
        let odd = RankMap::affine(0, 1, 2, map.len() / 2).expect("in range");
        let odd = map.compose(&odd).expect("in range");
        assert!(odd.bytes() < 250, "{} bytes", odd.bytes());
        let rank = N / 2 + 77;
        let process = map.get(2 * rank + 1).expect("in range");
        assert_eq!((odd.get(rank), odd.rank_of(process)), (Some(process), Some(rank)));
        let inner = map.slice(5..N).expect("in range");
        assert_eq!((inner.bytes(), inner.pg()), (size_of::<RankMap>(), map.get(0).map(|p| p.pg)));
    }
    // In turns, by nodes of 8: a formula too.
    let turns = (0..2 * N).map(|r| Process { pg: r / 8 % 2, lpid: r / 16 * 8 + r % 8 });
    let turns = RankMap::from_processes(turns).expect("valid");
    assert!(turns.bytes() < 300, "{} bytes", turns.bytes());
    assert_eq!((turns.get(8), turns.duplicate()), (Some(Process { pg: 1, lpid: 0 }), None));
    let mut rng = Dice(8);
    let some: Vec<Process> = of(0, 0..N).chain(of(1, 0..N)).filter(|_| rng.below(2) == 0).collect();
    let table = RankMap::from_processes(some.iter().copied()).expect("valid");
    assert!(table.bytes() >= 8 * some.len());
    let held = table.compressed(Strategy::default()).expect("a map");
    assert!(held.bytes() * 10 <= some.len() * 3, "{} bytes", held.bytes());
    assert_eq!(table.compressed(Strategy::Auto).expect("a map").bytes(), held.bytes());
    assert_eq!((&held, held.duplicate()), (&table, None));
    for rank in [0, 1, held.len() / 2, held.len() - 1] {
        assert_eq!(held.rank_of(some[rank as usize]), Some(rank));
    }
}

#[test]
fn chains_of_compositions() {
    let vectors = FakeVectors::new(2, 4096);
    let mut rng = Dice(4);
    for round in 0..rounds(4_000) {
        let size = rng.below(600) + 1;
        let mut list: Vec<Process> = (0..size as u32).map(|lpid| Process { pg: 1, lpid }).collect();
        if round % 7 == 0 {
            for process in list.iter_mut().take(size / 3) {
                process.pg = 0;
            }
        }
        let mut map = RankMap::from_processes(list.iter().copied()).expect("valid");
        for _ in 0..rng.range(1, 6) {
            let (kind, ranks) = child_of(&mut rng, list.len());
            if ranks.is_empty() {
                break;
            }
            let child = RankMap::from_lpids(0, ranks.iter().copied()).expect("valid");
            let composed = map.compose(&child).expect("in range");
            list = ranks.iter().map(|&r| list[r as usize]).collect();
            assert!(
                composed.iter().eq(list.iter().copied()),
                "{kind} {child:?} of {map:?} gave {composed:?}"
            );
            // The form must not depend on the way there, except for views.
            let fresh = RankMap::from_processes(list.iter().copied()).expect("valid");
            assert_eq!(composed, fresh);
            if fresh.model().is_regular() {
                assert_eq!(composed.model(), fresh.model());
            }
            map = composed;
        }
        vectors.check(&map, &list);
        if round % 8 == 0 {
            check(&map, &list);
        }
    }
}

#[test]
fn edges() {
    for n in 0..4 {
        let list: Vec<Process> = (0..n).map(|lpid| Process { pg: 0, lpid }).collect();
        check(&RankMap::direct(n), &list);
        assert_eq!(RankMap::direct(n), RankMap::from_lpids(0, 0..n).expect("valid"));
        assert_eq!(RankMap::direct(n).model(), Model::Direct);
        assert_eq!(RankMap::direct(n).reversed().reversed(), RankMap::direct(n));
    }
    let far = RankMap::affine(9, LPID_MAX, -(i64::from(LPID_MAX)), 2).expect("in range");
    check(&far, &pids(9, &[LPID_MAX, 0]));
    assert_eq!(far.model(), Model::Stride);
    let constant = RankMap::affine(0, 5, 0, 1000).expect("in range");
    check(&constant, &pids(0, &[5; 1000]));
    assert_eq!(constant.reversed(), constant);
    let whole = RankMap::affine(0, 0, 1, LPID_MAX).expect("in range");
    assert_eq!(whole.get(LPID_MAX - 1), Some(Process { pg: 0, lpid: LPID_MAX - 1 }));
    assert_eq!(whole.rank_of(Process { pg: 0, lpid: LPID_MAX }), None);
    // Nodes of 128 ranks, and ranks within the node.
    let ranks = if cfg!(miri) { 2_000 } else { 100_000 };
    let nodes = RankMap::from_lpids(0, (0..ranks).map(|r| r / 128)).expect("valid");
    assert_eq!(nodes.model(), Model::BlockStride);
    assert_eq!(nodes.rank_of(Process { pg: 0, lpid: 7 }), Some(7 * 128));
    let local = RankMap::from_lpids(0, (0..ranks).map(|r| r % 128)).expect("valid");
    assert_eq!(local.bytes(), size_of::<RankMap>());
    assert_eq!(local.rank_of(Process { pg: 0, lpid: 127 }), Some(127));
    assert!(size_of::<RankMap>() <= 40);
}

#[test]
fn errors_name_the_rank() {
    let too_large = RankMap::from_lpids(0, [0, 1, 2, 1 << 31]);
    assert_eq!(too_large, Err(MapError::LpidTooLarge { index: 3, lpid: 1 << 31, limit: LPID_MAX }));
    let message = too_large.expect_err("too large").to_string();
    assert!(message.contains("rank 3") && message.contains("2147483648"), "{message}");
    assert!(matches!(RankMap::affine(0, 3, -1, 5), Err(MapError::AffineRange { reached: -1, .. })));
    assert!(matches!(
        RankMap::affine(0, 1, i64::MAX, 3),
        Err(MapError::AffineRange { reached: i64::MAX, .. })
    ));
    assert!(matches!(RankMap::affine(0, 0, 0, 1 << 31), Err(MapError::TooManyRanks { .. })));
    let world = RankMap::direct(10);
    let child = RankMap::from_lpids(0, [8, 9, 10]).expect("valid");
    assert_eq!(
        world.compose(&child),
        Err(MapError::RankOutOfParent { index: 2, rank: 10, size: 10 })
    );
    let table = RankMap::from_lpids(0, [1, 8, 3, 3, 17, 4, 99, 2]).expect("valid");
    assert_eq!(
        world.compose(&table),
        Err(MapError::RankOutOfParent { index: 4, rank: 17, size: 10 })
    );
    let other = RankMap::affine(1, 0, 1, 5).expect("in range");
    assert_eq!(world.compose(&other), Err(MapError::ChildNotRanks { pg: Some(1) }));
    assert_eq!(world.slice(4..11), Err(MapError::SliceRange { start: 4, end: 11, size: 10 }));
    let mut detector = Detector::new();
    detector.push(4);
    detector.push_process(Process { pg: 1, lpid: u32::MAX });
    assert!(matches!(detector.finish(), Err(MapError::LpidTooLarge { index: 1, .. })));
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn tables_are_shared() {
    let mut rng = Dice(5);
    let list: Vec<u32> = (0..10_000).map(|_| rng.below(1 << 20) as u32).collect();
    let parent = RankMap::from_lpids(0, list.iter().copied()).expect("valid");
    assert_eq!(parent.model(), Model::Lut);
    assert_eq!(parent.shared_bytes(), 0);
    let half = parent.slice(5_000..10_000).expect("in range");
    assert_eq!(half.shared_bytes(), half.bytes() - size_of::<RankMap>());
    let odd = parent.compose(&RankMap::affine(0, 1, 2, 5_000).expect("in range")).expect("odd");
    assert_eq!(odd.shared_bytes(), odd.bytes() - size_of::<RankMap>());
    let tenth = parent.slice(0..1_000).expect("in range");
    assert_eq!(tenth.shared_bytes(), 0);
    assert!(tenth.bytes() < 4_200);
    let same = RankMap::direct(1 << 20).compose(&parent).expect("in range");
    assert!(same.shared_bytes() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(rounds(4_000))
    })]

    #[test]
    fn any_list(list in prop::collection::vec(0u32..40, 0..40), pushes in any::<bool>()) {
        let map = if pushes {
            let mut detector = Detector::with_pg(7);
            list.iter().for_each(|&lpid| detector.push(lpid));
            prop_assert_eq!(detector.len() as usize, list.len());
            detector.finish()
        } else {
            RankMap::from_lpids(7, list.iter().copied())
        };
        check(&map.expect("valid"), &pids(7, &list));
    }

    #[test]
    fn full_range(base in 0..=LPID_MAX, stride in any::<i32>(), size in 0u32..100, rank in 0u32..100) {
        let last = i64::from(base) + i64::from(stride) * (i64::from(size) - 1);
        let fits = size == 0 || (0..=i64::from(LPID_MAX)).contains(&last);
        let map = RankMap::affine(0, base, i64::from(stride), size);
        prop_assert_eq!(map.is_ok(), fits);
        if let Ok(map) = map && rank < size {
            let want = i64::from(base) + i64::from(stride) * i64::from(rank);
            prop_assert_eq!(map.get(rank).map(|p| i64::from(p.lpid)), Some(want));
            let list: Vec<u32> = map.iter().map(|p| p.lpid).collect();
            prop_assert_eq!(RankMap::from_lpids(0, list).expect("valid"), map);
        }
    }
}
