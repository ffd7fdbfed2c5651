//! Every form against a plain list of lpids.

use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::mixed::Mixed;
use super::*;

/// A box: `base + Σ stride_k · digit_k`, from element `skip` on.
fn mixed_list(base: i64, digits: &[(u32, i64)], skip: usize, len: usize) -> Vec<i64> {
    (skip..skip + len)
        .map(|x| {
            let (mut x, mut lpid) = (x as i64, base);
            for (k, &(extent, stride)) in digits.iter().enumerate() {
                let last = k + 1 == digits.len();
                lpid += stride * if last { x } else { x % i64::from(extent) };
                x /= i64::from(extent);
            }
            lpid
        })
        .collect()
}

/// The same moved so that its smallest lpid is `low`.
fn lifted(list: Vec<i64>, low: u32) -> Vec<u32> {
    let least = list.iter().min().copied().unwrap_or(0);
    list.iter().map(|v| u32::try_from(v - least + i64::from(low)).expect("in range")).collect()
}

fn check(map: &RankMap, pg: u32, list: &[u32]) {
    assert_eq!(map.len() as usize, list.len());
    for (rank, &lpid) in list.iter().enumerate() {
        assert_eq!(map.get(rank as u32), Some(Process { pg, lpid }), "rank {rank} of {map:?}");
    }
    assert_eq!(map.get(list.len() as u32), None);
    assert!(map.iter().map(|p| p.lpid).eq(list.iter().copied()), "iter of {map:?}");
    let mut first = std::collections::BTreeMap::new();
    let mut twice = std::collections::BTreeSet::new();
    for (rank, &lpid) in list.iter().enumerate() {
        if *first.entry(lpid).or_insert(rank as u32) < rank as u32 {
            twice.insert(lpid);
        }
    }
    match map.duplicate() {
        Some(process) => assert!(twice.contains(&process.lpid), "{process:?} in {map:?}"),
        None => assert!(twice.is_empty(), "{twice:?} in {map:?}"),
    }
    for (&lpid, &rank) in &first {
        assert_eq!(
            map.rank_of(Process { pg, lpid }),
            Some(rank),
            "lpid {lpid} of {map:?} {list:?}"
        );
        for near in [lpid.wrapping_sub(1), lpid + 1] {
            assert_eq!(map.rank_of(Process { pg, lpid: near }), first.get(&near).copied());
        }
    }
    assert_eq!(map.rank_of(Process { pg: pg + 1, lpid: list.first().copied().unwrap_or(0) }), None);
}

fn digits() -> impl Strategy<Value = Vec<(u32, i64)>> {
    prop::collection::vec((2u32..7, -40i64..40), 1..=4)
}

#[test]
fn empty_maps_are_equal() {
    let empty = [0, 5].map(|pg| RankMap::from_lpids(pg, []).unwrap());
    let part = RankMap::affine(7, 3, 2, 9).unwrap().slice(2..2).unwrap();
    assert_eq!(empty[0], empty[1]);
    assert_eq!(part, empty[0]);
    assert_ne!(part, RankMap::direct(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 10_000 }))]

    /// Near both ends of what an lpid may be, too: the first rank at fault is told.
    #[test]
    fn blocks_are_their_lpids_or_refused(
        (low, high) in (any::<bool>(), 0u32..200), step in -5i32..5, block in 1u32..6,
        pitch in -30i32..30, size in 0u32..80
    ) {
        let base = if low { high } else { LPID_MAX - high };
        let lpid = |rank: u32| {
            let (turn, within) = (i64::from(rank / block), i64::from(rank % block));
            i64::from(base) + within * i64::from(step) + turn * i64::from(pitch)
        };
        let mut blocks = Detector::with_pg(3);
        blocks.push_blockstride(base, step, block, pitch, size);
        let all: Vec<i64> = (0..size).map(lpid).collect();
        match all.iter().position(|lpid| !(0..=i64::from(LPID_MAX)).contains(lpid)) {
            None => {
                let list: Vec<u32> = all.iter().map(|&lpid| lpid as u32).collect();
                let map = blocks.finish().expect("in range");
                prop_assert!(map.iter().map(|p| p.lpid).eq(list.iter().copied()), "{map:?}");
                prop_assert_eq!(map, RankMap::from_lpids(3, list).expect("in range"));
            }
            Some(fault) => {
                let refused = blocks.finish();
                let is_told = matches!(&refused, Err(MapError::LpidTooLarge { index, .. })
                    if *index as usize == fault);
                prop_assert!(is_told, "{fault}: {refused:?}");
            }
        }
    }

    #[test]
    fn mixed_radix_is_found(d in digits(), skip in 0usize..300, len in 1usize..300, low in 0u32..9) {
        let list = lifted(mixed_list(0, &d, skip, len), low);
        let map = RankMap::from_lpids(3, list.iter().copied()).expect("valid");
        check(&map, 3, &list);
    }
}

/// As what members say when it is gathered from each of them on; a step for each run would
/// take minutes.
#[test]
fn runs_that_repeat_from_within_one_on_cost_nothing() {
    for len in [2_u32, 3, 5, 64] {
        for skipped in 1..len.min(5) {
            let mut runs = Detector::new();
            (skipped..len).for_each(|lpid| runs.push(lpid));
            runs.push_blockstride(0, 1, len, 0, SIZE_MAX - len);
            let map = runs.finish().expect("in range");
            for rank in [0, len, 1 << 30, map.len() - 1] {
                let lpid = (rank + skipped) % len;
                assert_eq!(map.get(rank), Some(Process { pg: 0, lpid }), "{rank} of {map:?}");
            }
            assert!(map.bytes() < 200, "{map:?}");
        }
    }
}

/// Sizes are `int` in MPI, however the ranks come.
#[test]
fn more_ranks_than_there_can_be_are_refused() {
    let refused = Err(MapError::TooManyRanks { limit: SIZE_MAX });
    // One that says how many it has is not walked.
    if let Ok(count) = usize::try_from(u64::from(SIZE_MAX) + 1) {
        assert_eq!(RankMap::from_lpids(0, core::iter::repeat_n(7, count)), refused);
    }
    assert_eq!(RankMap::from_lpids(0, core::iter::repeat(7)), refused);
    // Formulas that go on as they were: affine, and of turns short and long.
    for (len, pitch) in [(SIZE_MAX, 0), (3, 0), (1 << 16, 1), ((1 << 31) / 3, 5)] {
        for more in [1, 2, 7] {
            let mut ranks = Detector::new();
            let step = i32::from(len < SIZE_MAX);
            ranks.push_blockstride(0, step, len, pitch, SIZE_MAX);
            assert_eq!((ranks.len(), ranks.is_regular()), (SIZE_MAX, true));
            let at = |rank: u32| rank % len * step as u32 + rank / len * pitch as u32;
            // (It does not say how many there are.)
            ranks.extend_lpids((0..more).map(|rank| at(SIZE_MAX + rank)).filter(|_| true));
            assert_eq!(ranks.finish(), refused, "{len} {pitch} {more}");
        }
    }
}

/// A look at each rank would take minutes.
#[test]
fn whether_a_formula_names_a_rank_twice_is_known_at_once() {
    let size = SIZE_MAX / 2;
    let mut blocks = Detector::new();
    blocks.push_blockstride(0, 1, 100, 200, size);
    let mut tiles = Detector::new();
    tiles.extend_lpids((0..2_000_000).map(|rank| rank / 4 * 9 + [0, 5, 2, 3][rank as usize % 4]));
    let (blocks, tiles) = (blocks.finish().expect("lpids"), tiles.finish().expect("lpids"));
    for map in [&blocks, &tiles, &blocks.slice(7..size - 9).expect("ranks")] {
        assert_eq!((map.model(), map.duplicate()), (map.model(), None));
    }
}

#[test]
fn maps_cross_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<RankMap>();
    #[cfg(target_has_atomic = "64")]
    shared::<Lookup>();
}

#[test]
fn the_odometer_turns_like_the_formula() {
    let mixed = Mixed { first: 500, phase: 17, digits: 4, step: [1, -4, 9, 2], radix: [3, 6, 24] };
    let mut odometer = odometer::Odometer::new(&mixed);
    let mut rank = 0;
    while rank < 200 {
        let (first, run) = odometer.advance();
        for i in 0..run {
            assert_eq!(first + i, mixed.get(rank + i), "rank {}", rank + i);
        }
        rank += run;
    }
}
