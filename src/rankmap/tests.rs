//! Every form against a plain list of lpids.

use proptest::prelude::*;

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
    for (rank, &lpid) in list.iter().enumerate() {
        first.entry(lpid).or_insert(rank as u32);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn mixed_radix_is_found(d in digits(), skip in 0usize..300, len in 1usize..300, low in 0u32..9) {
        let list = lifted(mixed_list(0, &d, skip, len), low);
        let map = RankMap::from_lpids(3, list.iter().copied()).expect("valid");
        check(&map, 3, &list);
    }
}

#[test]
fn how_often_mixed_radix_is_found() {
    let mut rng = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    let (mut found, mut total) = ([0; 5], [0; 5]);
    for _ in 0..40_000 {
        let n = rng.random_range(1..=4usize);
        let d: Vec<(u32, i64)> =
            (0..n).map(|_| (rng.random_range(2..7), rng.random_range(-40..40))).collect();
        let list =
            lifted(mixed_list(0, &d, rng.random_range(0..400), rng.random_range(30..400)), 0);
        let map = RankMap::from_lpids(0, list.iter().copied()).expect("valid");
        total[n] += 1;
        found[n] += u32::from(map.model().is_regular());
        if !map.model().is_regular() && n < 4 {
            println!("{d:?} {map:?} {:?}", &list[..30]);
        }
    }
    println!("{found:?} of {total:?}");
}
