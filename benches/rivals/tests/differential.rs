//! Rankway's compact maps answer what other crates' structures answer, for every
//! kind of map of the catalogue, on small worlds.

use rankway::rankmap::compact::{Compact, Representation, Strategy};
use rankway_cli::observe::maps::{CATALOG, Random, Sample, thesis};
use rankway_rivals::{KINDS, Rival, bdd};

/// Every communicator of the catalogue that fits into a small world, two draws
/// of each, and a few corners.
fn samples() -> Vec<(String, Sample)> {
    let mut samples = Vec::new();
    for one in CATALOG {
        for seed in [0, 11] {
            for universe in [4096, 20_001] {
                if let Ok(sample) = one.make(universe, seed) {
                    samples.push((format!("{} of {universe}, seed {seed}", one.name), sample));
                }
            }
        }
    }
    let universe = 1 << 20;
    let corners: [(&str, Vec<u32>); 5] = [
        ("one", vec![7]),
        ("two far apart", vec![0, universe - 1]),
        ("a block, then one", (64..4160).chain([universe - 1]).collect()),
        ("all of a word", (0..64).collect()),
        ("sparse, then dense", (0..1000).map(|k| k * 1000).chain(1_000_000..1_020_000).collect()),
    ];
    let Ok(model) = CATALOG[0].make(4096, 0) else { return samples };
    for (name, lpids) in corners {
        samples.push((name.to_owned(), Sample { universe, lpids, ..model.clone() }));
    }
    samples
}

/// Every representation of ours that can hold it, those of the strategies too.
fn ours(sample: &Sample) -> Vec<(String, Compact)> {
    let lpids = || sample.lpids.iter().copied();
    let built = Representation::ALL.into_iter().filter_map(|one| {
        let map = Compact::build_with_radices(one, &sample.radices, lpids()).ok()?;
        Some((one.name().to_owned(), map))
    });
    let chosen = [Strategy::Space, Strategy::default(), Strategy::Time].map(|strategy| {
        let map = Compact::with_radices(strategy, &sample.radices, lpids()).expect("a map");
        (format!("{strategy}: {}", map.representation()), map)
    });
    built.chain(chosen).collect()
}

/// Lpids around members, first and last, and of no member.
fn questions(sample: &Sample, random: &mut Random) -> Vec<u32> {
    let mut asked = vec![0, 1, sample.universe - 1, sample.universe, u32::MAX >> 1];
    for _ in 0..300 {
        let member = sample.lpids[random.below(sample.lpids.len() as u32) as usize];
        asked.extend([member, member.saturating_sub(1), member + 1, random.below(sample.universe)]);
    }
    asked
}

#[test]
fn select_and_rank_agree_with_every_rival() {
    let mut random = Random::new(4);
    let mut compared = 0;
    for (name, sample) in samples() {
        let set = sample.is_set();
        let ours = ours(&sample);
        assert!(ours.len() > 3, "{name}");
        let asked = questions(&sample, &mut random);
        let ranks: Vec<u32> =
            (0..300).map(|_| random.below(sample.lpids.len() as u32)).chain([0]).collect();
        let all = |map: &dyn Rival, ranks: &[u32]| -> Vec<u32> {
            ranks.iter().map(|&rank| map.select(rank)).collect()
        };
        let of = |map: &dyn Rival| -> Vec<Option<u32>> {
            asked.iter().map(|&lpid| map.rank(lpid)).collect()
        };
        let ours: Vec<_> =
            ours.iter().map(|(form, map)| (form, all(map, &ranks), of(map))).collect();
        let small = sample.lpids.len() <= 3000;
        for kind in KINDS.iter().filter(|kind| (set || kind.lists) && (small || !kind.slow)) {
            let rival = kind.build(&sample.lpids);
            let theirs = all(&*rival, &ranks[..if kind.slow { 5 } else { ranks.len() }]);
            let their_ranks = kind.ranks.then(|| of(&*rival));
            for (form, lpids, ranks) in &ours {
                let kind = kind.name;
                assert_eq!(lpids[..theirs.len()], theirs, "{name}: {form}, {kind}");
                assert!(their_ranks.iter().all(|theirs| theirs == ranks), "{name}: {form}, {kind}");
                compared += 1;
            }
        }
    }
    assert!(compared > 2000, "{compared}");
}

/// The same members, counts and paths as a reduced ordered diagram has; and
/// the thesis's bytes are two bits a level of each of those paths.
#[test]
fn diagrams_agree_with_a_bdd() {
    let mut tried = 0;
    for (name, sample) in samples() {
        let lpids = &sample.lpids;
        if !sample.is_set() || sample.universe > 4096 {
            continue;
        }
        let bits = (sample.universe - 1).ilog2() as u16 + 1;
        let rival = bdd::diagram(lpids, bits);
        assert_eq!(rival.count(), lpids.len() as u64, "{name}");
        assert_eq!(&rival.members(), lpids, "{name}");
        let ours = Compact::build(Representation::Diagram, lpids.iter().copied()).expect("a set");
        for lpid in 0..sample.universe {
            assert_eq!(ours.position(lpid).is_some(), rival.contains(lpid), "{name}: {lpid}");
        }
        let weight = thesis::weigh(sample.universe, lpids);
        let weight = weight.iter().find(|one| one.name == "BDD").expect("a set has one");
        let bits = u64::from(bits);
        assert_eq!(weight.bytes, (2 * rival.paths() * bits).div_ceil(8) + 4 * bits, "{name}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

/// Images are read into the same map as the one a rival holds.
#[test]
fn images_agree() {
    for (name, sample) in samples() {
        let Some(kind) = KINDS.iter().find(|kind| kind.lists && !kind.slow) else { return };
        let rival = kind.build(&sample.lpids);
        let map = Compact::new(Strategy::Space, sample.lpids.iter().copied()).expect("a map");
        let read = Compact::from_image(&map.to_image()).expect("an image");
        for rank in (0..sample.lpids.len() as u32).step_by(97) {
            assert_eq!(read.select(rank), rival.select(rank), "{name}: {rank}");
        }
    }
}
