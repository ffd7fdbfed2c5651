//! Every representation against a plain list of lpids.

use std::collections::BTreeMap;

use proptest::prelude::*;

use proptest::strategy::Strategy as Given;

use super::{Strategy, *};
use crate::rankmap::{LPID_MAX, MapError, Model, Process, RankMap};
use std::sync::Arc;

/// A list in every form that takes it, each asked everything.
fn check(list: &[u32]) {
    check_with(&[], list);
}

fn check_with(radices: &[u32], list: &[u32]) {
    let rising = list.windows(2).all(|w| w[0] < w[1]);
    let mut first = BTreeMap::new();
    for (rank, &lpid) in (0..).zip(list) {
        first.entry(lpid).or_insert(rank);
    }
    for representation in Representation::ALL {
        let made = Compact::build_with_radices(representation, radices, list.iter().copied());
        match made {
            Ok(map) => {
                assert_eq!(map.representation(), representation);
                let read = Compact::from_image(&map.to_image()).expect("an image of ours");
                assert_eq!(read.representation(), representation);
                assert_eq!(read.bytes(), map.bytes(), "{representation}");
                check_map(&map, list, &first);
                check_map(&read, list, &first);
            }
            Err(CompactError::Unfit { .. }) => {
                let formula = RankMap::from_lpids(0, list.iter().copied()).expect("lpids");
                match representation {
                    Representation::Formula => assert!(!formula.model().is_regular()),
                    // What lacks a parent, repeats lpids, or is not few runs.
                    Representation::Segments
                    | Representation::MixedRadix
                    | Representation::Child => {}
                    Representation::Wavelet => assert!(list.is_empty() || first.len() < list.len()),
                    Representation::Diagram if !radices.is_empty() => {}
                    other => assert!(list.is_empty() || !rising && !other.is_list(), "{other}"),
                }
            }
            Err(error) => panic!("{representation}: {error}"),
        }
    }
    for strategy in [Strategy::Time, Strategy::Space, Strategy::default()] {
        let map = Compact::with_radices(strategy, radices, list.iter().copied()).expect("lpids");
        check_map(&map, list, &first);
        let mut builder = Builder::new();
        builder.set_strategy(strategy).set_radices(radices);
        builder.insert_block(list);
        assert_eq!(builder.finish().expect("lpids"), map);
    }
}

fn check_map(map: &Compact, list: &[u32], first: &BTreeMap<u32, u32>) {
    assert_eq!(map.len() as usize, list.len());
    for (rank, &lpid) in (0..).zip(list) {
        assert_eq!(map.find(rank), Some(lpid), "rank {rank} of {map:?}");
    }
    assert_eq!(map.find(list.len() as u32), None);
    let mut iter = map.iter();
    assert!(iter.by_ref().eq(list.iter().copied()), "{map:?}");
    iter.rewind();
    assert_eq!(iter.len(), list.len());
    assert_eq!(iter.next(), list.first().copied());
    for start in [0, list.len() / 3, list.len().saturating_sub(70), list.len()] {
        let mut out = [0; 100];
        let count = map.find_range(start as u32..u32::MAX, &mut out);
        assert_eq!(out[..count], list[start..list.len().min(start + 100)], "{map:?} {start}");
    }
    for (&lpid, &rank) in first {
        assert_eq!(map.position(lpid), Some(rank), "lpid {lpid} of {map:?}");
        for near in [lpid.wrapping_sub(1), lpid + 1, lpid ^ 0x40, lpid + 5_000] {
            assert_eq!(map.position(near), first.get(&near).copied(), "lpid {near} of {map:?}");
        }
    }
    for lpid in [0, LPID_MAX, u32::MAX] {
        assert_eq!(map.position(lpid), first.get(&lpid).copied(), "lpid {lpid} of {map:?}");
    }
}

/// Rising lpids whose gaps come from runs of very different kinds.
fn set() -> impl Given<Value = Vec<u32>> {
    let stretch = (0u32..5, 1usize..200, any::<u32>());
    (0u32..5_000, prop::collection::vec(stretch, 1..8)).prop_map(|(first, stretches)| {
        let (mut lpid, mut list) = (first, vec![first]);
        for (kind, count, seed) in stretches {
            let mut x = u64::from(seed) | 1;
            for _ in 0..count {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let random = (x >> 33) as u32;
                lpid += match kind {
                    0 => 1,
                    1 => 1 + random % 4,
                    2 => 1 + random % 300,
                    3 => 1 + random % 9_000 / 8_900 * 50_000,
                    _ => 1 + random % 200_000,
                };
                list.push(lpid);
            }
        }
        list
    })
}

/// Any order, with repeats.
fn list() -> impl Given<Value = Vec<u32>> {
    prop_oneof![
        prop::collection::vec(0u32..=LPID_MAX, 0..300),
        prop::collection::vec(0u32..400, 0..300),
        (set(), any::<u64>()).prop_map(|(mut list, seed)| {
            let mut x = seed | 1;
            for at in (1..list.len()).rev() {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                list.swap(at, (x >> 33) as usize % (at + 1));
            }
            list
        }),
        // A permutation, of long cycles and short ones.
        (1u32..600, 1u32..600).prop_map(|(n, m)| (0..n).map(|x| (x * 7 + m) % n).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]

    #[test]
    fn sets(list in set()) {
        check(&list);
    }

    #[test]
    fn lists(list in list()) {
        check(&list);
    }

    #[test]
    fn diagrams_of_any_radices(list in set(), radices in prop::collection::vec(2u32..12, 1..6)) {
        check_with(&radices, &list);
    }

    #[test]
    fn damaged_images_are_refused(list in list(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        for representation in Representation::ALL {
            if let Ok(map) = Compact::build(representation, list.iter().copied()) {
                let mut image = map.to_image();
                let at = at.index(image.len());
                image[at] ^= 1u8 << bit;
                prop_assert!(Compact::from_image(&image).is_err());
                prop_assert!(Compact::from_image(&image[..at]).is_err());
            }
        }
    }

    /// Bytes with a right checksum but wrong contents never lead to a panic.
    #[test]
    fn wrong_images_are_refused_or_maps(
        list in list(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for representation in Representation::ALL {
            if let Ok(map) = Compact::build(representation, list.iter().copied()) {
                let mut image = map.to_image();
                let end = image.len() - image::CHECKSUM;
                let at = at.index(end);
                image[at] = byte;
                let sum = image::checksum(&image[..end]);
                image[end..].copy_from_slice(&sum.to_le_bytes());
                // The size is not the business of this test.
                if (8..12).contains(&at) {
                    continue;
                }
                if let Ok(map) = Compact::from_image(&image) {
                    let all: Vec<u32> = map.iter().collect();
                    for (rank, &lpid) in (0..).zip(&all) {
                        prop_assert!(lpid <= LPID_MAX);
                        prop_assert_eq!(map.find(rank), Some(lpid));
                        prop_assert!(map.position(lpid).is_some_and(|r| all[r as usize] == lpid));
                    }
                    map.position(LPID_MAX);
                }
            }
        }
    }
}

#[test]
fn small_and_extreme_lists() {
    let lists: [&[u32]; 9] = [
        &[],
        &[0],
        &[LPID_MAX],
        &[0, LPID_MAX],
        &[LPID_MAX, 0],
        &[7, 7],
        &[0, 1, 2, 3],
        &[0, 1, 3, LPID_MAX - 1, LPID_MAX],
        &[5, 0, 1, LPID_MAX, 17, 18],
    ];
    for list in lists {
        // A bitmap of the whole range would be 256 MB, and so would its image.
        if list.iter().max().zip(list.iter().min()).is_some_and(|(a, b)| a - b > 1 << 24) {
            for representation in Representation::ALL {
                use Representation::{Bitmap, Darray, Slim};
                if matches!(representation, Bitmap | Slim | Darray) {
                    continue;
                }
                if let Ok(map) = Compact::build(representation, list.iter().copied()) {
                    assert!(map.iter().eq(list.iter().copied()), "{map:?}");
                    for (rank, &lpid) in (0..).zip(list) {
                        assert_eq!((map.find(rank), map.position(lpid)), (Some(lpid), Some(rank)));
                    }
                    let read = Compact::from_image(&map.to_image()).expect("ours");
                    assert_eq!(read, map);
                }
            }
        } else {
            check(list);
        }
    }
}

/// Long gaps and dense parts: samples that are spilled beside some that are not.
#[test]
fn uneven_sets() {
    let mut list: Vec<u32> = (0..300).map(|k| k * 9_000).collect();
    list.extend((0..5_000).map(|k| 3_000_000 + k));
    list.extend((0..200).map(|k| 4_000_000 + k * k * 17));
    list.dedup();
    check(&list);
    // Almost all high parts equal.
    let mut list: Vec<u32> = (0..4_000).collect();
    list.push(60_000_000);
    for representation in [Representation::EliasFano, Representation::Runs, Representation::Gaps] {
        let map = Compact::build(representation, list.iter().copied()).expect("a set");
        check_map(&map, &list, &(0..).zip(&list).map(|(r, &l)| (l, r)).collect());
    }
}

/// Blocks and groups of counts that are full, empty, begun and cut short.
#[test]
fn bitmaps_end_anywhere() {
    let spans = [1, 64, 2_047, 2_048, 2_049, 65_535, 65_536, 65_537, 133_121];
    for span in spans.into_iter().take(if cfg!(miri) { 5 } else { spans.len() }) {
        let holes: [&dyn Fn(u32) -> bool; 3] =
            [&|_| false, &|bit| bit == span / 2 + 1, &|bit| bit > 70 && bit + 70 < span];
        for hole in holes {
            let member = |&bit: &u32| bit == 0 || bit == span - 1 || !hole(bit);
            let list: Vec<u32> = (0..span).filter(member).map(|bit| bit + 77).collect();
            let first = (0..).zip(&list).map(|(r, &l)| (l, r)).collect();
            for one in [Representation::Bitmap, Representation::Slim, Representation::Darray] {
                let map = Compact::build(one, list.iter().copied()).expect("a set");
                check_map(&map, &list, &first);
                let read = Compact::from_image(&map.to_image()).expect("ours");
                check_map(&read, &list, &first);
                let all = Compact::estimate(list.iter().copied()).expect("lpids");
                let said = all.iter().find(|e| e.representation == one).expect("a set");
                assert_eq!(map.bytes() as u64, said.bytes, "{map:?}");
                assert_eq!(read.bytes(), map.bytes());
            }
        }
    }
}

/// What is dense, at random, is hardly more than a bit for each lpid.
#[test]
fn dense_sets_are_slim_bitmaps() {
    let mut x = 9u64;
    let mut random = move || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 33) as u32
    };
    let universe = if cfg!(miri) { 9_000 } else { 150_000 };
    for tenths in [3, 5, 8] {
        let list: Vec<u32> = (0..universe).filter(|_| random() % 10 < tenths).collect();
        let map = Compact::new(Strategy::Space, list.iter().copied()).expect("lpids");
        assert_eq!(map.representation(), Representation::Slim, "{tenths}");
        assert!(map.bytes() < universe as usize / 8 * 102 / 100 + 200, "{map:?}");
        check_map(&map, &list, &(0..).zip(&list).map(|(r, &l)| (l, r)).collect());
        let hybrid = Compact::new(Strategy::default(), list.iter().copied()).expect("lpids");
        assert_eq!(hybrid.representation(), Representation::Darray, "{tenths}");
    }
}

#[test]
fn faces_of_a_grid_are_one_node_a_level() {
    let digit = |lpid: u32, k: u32| lpid / 10u32.pow(k) % 10;
    let faces = [(0, 3), (1, 7), (2, 0), (3, 9), (4, 4), (5, 5)];
    let on_face = |lpid: &u32| faces.iter().any(|&(k, at)| digit(*lpid, k) == at);
    let set = (0..1_000_000).filter(on_face);
    let map = Compact::with_radices(Strategy::Space, &[10; 6], set.clone()).expect("a set");
    assert_eq!(map.representation(), Representation::Diagram);
    assert!(map.bytes() < 1_000, "{map:?}");
    assert!(map.iter().eq(set.clone()));
    for (rank, lpid) in (0..).zip(set).step_by(97) {
        assert_eq!((map.find(rank), map.position(lpid)), (Some(lpid), Some(rank)));
    }
}

#[test]
fn strategies_have_names() {
    for name in ["time", "space", "hybrid:0.25", "hybrid:0.5"] {
        let strategy: Strategy = name.parse().expect("a name");
        assert_eq!(strategy.to_string(), name);
    }
    assert_eq!("hybrid".parse(), Ok(Strategy::default()));
    for name in ["", "fast", "hybrid:2", "hybrid:nan"] {
        assert!(name.parse::<Strategy>().is_err(), "{name}");
    }
}

#[test]
fn compact_maps_cross_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Compact>();
}

/// Compact rank maps are rank maps: compared, walked, composed, inverted.
#[test]
fn rank_maps_take_compact_forms() {
    let mut x = 7u64;
    let mut random = move || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 40) as u32
    };
    let set: Vec<u32> = (0..20_000).filter(|_| random() % 3 > 0).collect();
    let mut list = set.clone();
    for at in (1..list.len()).rev() {
        list.swap(at, random() as usize % (at + 1));
    }
    for lpids in [set, list] {
        let plain = RankMap::from_lpids(3, lpids.iter().copied()).expect("lpids");
        let map = plain.compressed(Strategy::Space).expect("a map");
        assert_eq!((map.model(), map.pg(), map.len()), (Model::Compact, Some(3), plain.len()));
        assert!(map.bytes() < plain.bytes());
        assert_eq!(map, plain);
        assert!(map.iter().eq(plain.iter()));
        assert_eq!(map.duplicate(), None);
        assert_eq!(map.rank_of(Process { pg: 3, lpid: lpids[77] }), Some(77));
        assert_eq!(map.rank_of(Process { pg: 0, lpid: lpids[77] }), None);
        let clone = map.clone();
        assert_eq!(clone.shared_bytes(), map.bytes() - size_of::<RankMap>());
        for (start, stride) in [(5, 1), (0, 3), (map.len() - 1, -1)] {
            let size = if stride < 0 { map.len() } else { map.len() / 4 };
            let child = RankMap::affine(0, start, stride, size).expect("ranks");
            let composed = map.compose(&child).expect("a child");
            assert_eq!(composed, plain.compose(&child).expect("a child"));
            assert_eq!(composed.model(), Model::Compact);
        }
        assert_eq!(
            RankMap::direct(20_000).compose(&RankMap { pg: 0, ..map.clone() }).map(|m| m.model()),
            Ok(Model::Compact)
        );
        #[cfg(target_has_atomic = "64")]
        {
            use core::sync::atomic::{AtomicPtr, AtomicU64};
            let mut entries: Vec<AtomicU64> = (0..20_000).map(|e| AtomicU64::new(e * 3)).collect();
            let directory = [0; 4].map(|_: u32| AtomicPtr::new(entries.as_mut_ptr()));
            // SAFETY: four groups, each with an entry for every lpid; all outlive it.
            let lookup = unsafe { crate::rankmap::Lookup::new(&map, directory.as_ptr()) };
            assert_eq!(lookup.body(), crate::rankmap::body::OTHER);
            for (rank, &lpid) in lpids.iter().enumerate() {
                // SAFETY: the rank is below the size.
                assert_eq!(unsafe { lookup.entry(rank) }, u64::from(lpid) * 3);
            }
        }
    }
    let stride = RankMap::with_strategy(Strategy::Time, 1, (0..900).map(|r| r * 7)).expect("lpids");
    assert_eq!(stride, RankMap::affine(1, 0, 7, 900).expect("lpids"));
}

#[test]
fn children_outlive_their_parents() {
    let set: Vec<u32> = (0..40_000).filter(|v| v * v % 7 < 3).collect();
    let list: Vec<u32> = set.iter().rev().map(|v| v / 2).collect();
    for lpids in [set, list] {
        let parent = Compact::new(Strategy::Space, lpids.iter().copied()).expect("lpids");
        let parent = Arc::new(parent);
        let ranks = (0..parent.len()).step_by(3).rev();
        let of_parent = Compact::new(Strategy::Space, ranks.clone()).expect("ranks");
        let child = Compact::child(&parent, of_parent).expect("a child");
        assert!(child.bytes() - child.shared_bytes() < 1_000, "{child:?}");
        let wrong = Compact::build(Representation::Plain, [3, 1 << 30]).expect("ranks");
        let size = parent.len();
        let error = MapError::RankOutOfParent { index: 1, rank: 1 << 30, size };
        assert_eq!(Compact::child(&parent, wrong), Err(error.into()));
        drop(parent);
        let expected: Vec<u32> = ranks.map(|rank| lpids[rank as usize]).collect();
        let mut first = BTreeMap::new();
        (0..).zip(&expected).for_each(|(rank, &lpid)| {
            first.entry(lpid).or_insert(rank);
        });
        check_map(&child, &expected, &first);
        check_map(&Compact::from_image(&child.to_image()).expect("ours"), &expected, &first);
    }
}

/// Four sorted hands dealt at random: two bits a rank tell whose turn it is.
#[test]
fn interleaved_runs_are_a_wavelet_tree() {
    let mut hands: [Vec<u32>; 4] = Default::default();
    let mut x = 5u64;
    for lpid in 0..9_000 {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        hands[(x >> 62) as usize].push(lpid + 77);
    }
    let list = hands.concat();
    let map = Compact::new(Strategy::Space, list.iter().copied()).expect("lpids");
    assert_eq!(map.representation(), Representation::Wavelet);
    assert!(map.bytes() * 8 < list.len() * 3, "{map:?}");
    check_map(&map, &list, &(0..).zip(&list).map(|(r, &l)| (l, r)).collect());
}

/// Ranks of a topology of these extents, its dimensions in another order and
/// some backwards.
fn transposed(extents: &[u32], order: &[usize], backwards: u32) -> Vec<u32> {
    let mut list = vec![0u32];
    // The fastest dimension of the new order first.
    for &d in order {
        let stride: u32 = extents[d + 1..].iter().product();
        let digits = (0..extents[d]).map(|at| {
            let at = if backwards >> d & 1 == 1 { extents[d] - 1 - at } else { at };
            at * stride
        });
        let digits: Vec<u32> = digits.collect();
        list = digits.iter().flat_map(|at| list.iter().map(move |low| low + at)).collect();
    }
    list
}

#[test]
fn transposes_of_many_dimensions_are_mixed_radix() {
    let cases: [(&[u32], &[usize]); 4] = [
        (&[3, 4, 2, 5, 6, 3], &[1, 3, 5, 0, 4, 2]),
        (&[2; 16], &[15, 0, 14, 1, 13, 2, 12, 3, 11, 4, 10, 5, 9, 6, 8, 7]),
        (&[5, 3, 3, 4, 2, 2, 7], &[6, 0, 5, 1, 4, 2, 3]),
        (&[2, 3, 2, 3, 2, 3, 2, 3], &[0, 1, 2, 3, 4, 5, 6, 7]),
    ];
    for (extents, order) in cases {
        for backwards in [0, 0b1010_0101_0110] {
            let list = transposed(extents, order, backwards);
            let map = Compact::new(Strategy::default(), list.iter().copied()).expect("lpids");
            assert_eq!(map.representation(), Representation::MixedRadix, "{extents:?}");
            assert!(map.bytes() < 600, "{map:?}");
            let first = (0..).zip(&list).map(|(r, &l)| (l, r)).collect();
            check_map(&map, &list, &first);
            assert!(map.bytes() < 600, "digits that nest need no inverse: {map:?}");
            let read = Compact::from_image(&map.to_image()).expect("ours");
            assert_eq!((read.representation(), read.bytes()), (map.representation(), map.bytes()));
            // Cut in the middle of the slowest dimension.
            let part = &list[..list.len() * 5 / 8];
            let map = Compact::new(Strategy::Space, part.iter().copied()).expect("lpids");
            assert_eq!(map.representation(), Representation::MixedRadix, "{extents:?}");
            check_map(&map, part, &(0..).zip(part).map(|(r, &l)| (l, r)).collect());
        }
    }
    // Digits that overlap: lpids repeat, and the smallest rank is asked for.
    let sums = |r: u32| (0..9).map(|d| (r / 3u32.pow(d) % 3) * (1 + d % 4)).sum::<u32>();
    let list: Vec<u32> = (0..3u32.pow(9)).map(sums).collect();
    let map = Compact::new(Strategy::Space, list.iter().copied()).expect("lpids");
    assert_eq!(map.representation(), Representation::MixedRadix);
    let mut first = BTreeMap::new();
    (0..).zip(&list).for_each(|(rank, &lpid)| {
        first.entry(lpid).or_insert(rank);
    });
    check_map(&map, &list, &first);
}

/// Nodes in no order, and the ranks of each in none: steps of two kinds.
fn shuffled_nodes(nodes: u32, per_node: u32) -> Vec<u32> {
    let mut x = 11u64;
    let mut below = move |limit: u32| {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (((x >> 33) * u64::from(limit)) >> 31) as u32
    };
    let mut shuffle = |list: &mut Vec<u32>| {
        for at in (1..list.len()).rev() {
            list.swap(at, below(at as u32 + 1) as usize);
        }
    };
    let mut order: Vec<u32> = (0..nodes).collect();
    shuffle(&mut order);
    let ranks = order.into_iter().flat_map(|node| {
        let mut ranks: Vec<u32> = (0..per_node).map(|at| node * per_node + at).collect();
        shuffle(&mut ranks);
        ranks
    });
    ranks.collect()
}

#[test]
fn shuffled_nodes_are_coded() {
    let list = shuffled_nodes(if cfg!(miri) { 40 } else { 2_000 }, 32);
    let map = Compact::new(Strategy::Space, list.iter().copied()).expect("lpids");
    assert_eq!(map.representation(), Representation::Coded);
    let packed = Compact::build(Representation::Packed, list.iter().copied()).expect("lpids");
    assert!(2 * map.bytes() < packed.bytes(), "{map:?} {packed:?}");
    check_map(&map, &list, &(0..).zip(&list).map(|(r, &l)| (l, r)).collect());
    let read = Compact::from_image(&map.to_image()).expect("ours");
    // Two lists in turn on one thread, and one on several.
    let other = Compact::build(Representation::Coded, list.iter().rev().copied()).expect("lpids");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for rank in (0..map.len()).step_by(701) {
                    let lpid = list[rank as usize];
                    assert_eq!(read.find(rank), Some(lpid));
                    assert_eq!(other.find(map.len() - 1 - rank), Some(lpid));
                    assert_eq!(map.clone().find(rank), Some(lpid));
                }
            });
        }
    });
}

/// Selections from compact maps are what they are from tables, and keep what
/// they need of a parent that was freed.
#[test]
fn selections_of_compact_maps() {
    let mut x = 3u64;
    let mut random = move || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 40) as u32
    };
    let set: Vec<u32> = (0..30_000).filter(|_| random() % 5 > 1).collect();
    for list in [set, shuffled_nodes(500, 24)] {
        let table = RankMap::from_lpids(2, list.iter().copied()).expect("lpids");
        for strategy in [Strategy::Space, Strategy::default(), Strategy::Time] {
            let parent = table.compressed(strategy).expect("a map");
            let size = parent.len();
            let odd: Vec<u32> = (0..size).filter(|_| random() % 2 == 1).collect();
            let children = [
                RankMap::affine(0, size - 1, -1, size),
                RankMap::affine(0, 1, 2, size / 2),
                RankMap::from_lpids(0, (0..size / 16).map(|r| r * 16)),
                RankMap::from_lpids(0, (0..size / 8 * 2).map(|r| r / 2 * 8 + r % 2)),
                RankMap::from_lpids(0, odd),
            ];
            for child in children {
                let child = child.expect("ranks");
                let expected = table.compose(&child).expect("a child");
                let one = parent.compose_with(&child, Some(strategy)).expect("a child");
                assert_eq!(one, expected, "{strategy}");
                let half = RankMap::affine(0, one.len() - 1, -1, one.len() / 2).expect("ranks");
                let two = one.compose_with(&half, Some(strategy)).expect("a child");
                let own = two.bytes() - two.shared_bytes();
                drop(one);
                let regular = matches!(child.model(), Model::Stride | Model::BlockStride);
                if regular && two.len() > size / 8 && strategy == Strategy::Space {
                    let held = two.as_compact().map(Compact::representation);
                    assert_eq!(held, Some(Representation::Child), "{two:?}");
                    assert!(own < 1_000, "{own} bytes of {two:?}");
                }
                assert_eq!(two, expected.compose(&half).expect("a child"));
            }
        }
    }
}
