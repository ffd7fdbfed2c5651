//! What is derived against what is traced.

use super::super::stream::{Follows, Region};
use super::*;
use proptest::prelude::*;
use rankway_cli::observe::step::{self, Limits, Stop};

#[path = "../../../../benches/shapes/mod.rs"]
mod shapes;

/// Ranks without a pattern, the same at each run.
fn some_ranks(count: usize, below: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % below
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A lookup of ours over a plain address vector, traced.
fn traced(map: &RankMap, ranks: &[u32]) -> Vec<Trace> {
    use std::sync::atomic::{AtomicPtr, AtomicU64};
    let mut entries: [Vec<AtomicU64>; 2] =
        std::array::from_fn(|_| (0..4096).map(|lpid| AtomicU64::new(lpid + 1)).collect());
    let directory = [0, 1].map(|pg| AtomicPtr::new(entries[pg].as_mut_ptr()));
    // SAFETY: directory, entries and map outlive the lookup; lpids are below 4096.
    let lookup = unsafe { Lookup::new(map, directory.as_ptr()) };
    let call = super::super::rankway_translate;
    let traces = step::session(Limits::default(), |marker| {
        for &rank in ranks {
            marker.count(step::Region::function(call as *const () as usize));
            std::hint::black_box(call(&lookup, rank as usize));
        }
        Ok(())
    });
    traces.unwrap()
}

fn samples_of<'a>(map: &RankMap, ranks: &[u32], traces: &'a [Trace]) -> Vec<Sample<'a>> {
    let known = ranks.iter().map(|&rank| (rank, map.get(rank).unwrap()));
    known.zip(traces).map(|((rank, process), trace)| Sample { rank, process, trace }).collect()
}

/// What one model's lookups touch is derived from 12 ranks; 200 others touch
/// nothing else.
#[test]
fn lookups_of_random_ranks_are_as_derived() {
    for model in MODELS {
        let map = fixture::map_over(model, 2000, [0, 1]).unwrap();
        let ranks = some_ranks(212, 2000);
        let traces = traced(&map, &ranks);
        let samples = samples_of(&map, &ranks, &traces);
        // Half is fitted to, so 12 of the first 24, then the fit is held
        // against each others' half in windows.
        let derived = stream::derive(&samples[..24], size_of::<Lookup>()).unwrap();
        for window in samples.chunks(12) {
            let all: Vec<_> = samples[..12].iter().chain(window).map(copy).collect();
            assert_eq!(stream::derive(&all, size_of::<Lookup>()), Ok(derived.clone()), "{model}");
        }
        let entry = derived.last().unwrap();
        assert_eq!((entry.region, entry.bytes), (Region::Entries, 8), "{model}");
        let tables = derived.iter().filter(|touch| touch.region == Region::Table);
        let mut pitches: Vec<_> = tables.map(|touch| touch.pitch).collect();
        // (An element of two numbers may be read as one or as two.)
        pitches.dedup();
        let pitch: &[u64] = match model {
            "lut" => &[4],
            "mlut" => &[8],
            _ => &[],
        };
        assert_eq!(pitches, pitch, "{model}: {derived:?}");
    }
}

fn copy<'a>(sample: &Sample<'a>) -> Sample<'a> {
    Sample { rank: sample.rank, process: sample.process, trace: sample.trace }
}

/// An address that is not as derived is an error that names the rank.
#[test]
fn what_follows_nothing_is_refused() {
    let map = fixture::map_over("direct", 2000, [0, 1]).unwrap();
    let ranks = some_ranks(24, 2000);
    let mut traces = traced(&map, &ranks);
    traces[20].accesses.last_mut().unwrap().address += 8;
    let said = stream::derive(&samples_of(&map, &ranks, &traces), size_of::<Lookup>());
    assert!(said.is_err_and(|why| why.contains(&ranks[20].to_string())));
    traces[3].accesses.last_mut().unwrap().address += 8;
    let said = stream::derive(&samples_of(&map, &ranks, &traces), size_of::<Lookup>());
    assert!(said.is_err_and(|why| why.contains("follows")));
}

/// Others' translations, as code of the same shape touches them.
#[test]
fn peers_touch_what_their_shapes_do() {
    const SIZE: u32 = 2048;
    /// A shape by its name in `benches/shapes`, as that of a peer.
    const SAME: [(&str, &str); 4] =
        [("vcrt", "vc_vcrt"), ("switch", "e12"), ("mpich40", "e72"), ("mpich5x", "e32")];
    let vectors = shapes::Vectors::new(SIZE);
    let ranks = some_ranks(24, SIZE / 2);
    for (kind, model) in shapes::KINDS.into_iter().enumerate() {
        let mut seed = 1_u64;
        let comm = shapes::Comm::new(&vectors, kind, || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 33
        });
        for (shape, peer) in SAME {
            let index = shapes::NAMES.iter().position(|name| *name == shape).unwrap();
            let peer = PEERS.iter().find(|p| p.name == peer).unwrap();
            let (call, this) = comm.shapes()[index];
            let traces = step::session(Limits::default(), |marker| {
                for &rank in &ranks {
                    let region = step::Region { start: call as usize, stop: Stop::Return, nth: 1 };
                    marker.count(region);
                    // SAFETY: a rank of the communicator, which is the shape's.
                    std::hint::black_box(unsafe { call(this, rank as usize) });
                }
                Ok(())
            });
            let traces = traces.unwrap();
            let samples = samples_of(&comm.map, &ranks, &traces);
            let ours = peer.touches(model);
            let processes: Vec<_> = (0..comm.map.len()).map(|r| comm.map.get(r).unwrap()).collect();
            let stream = Stream { touches: &ours, own: peer.own(), processes: &processes };
            let derived = |rank| {
                let mut all = Vec::new();
                stream.call(0, rank, |address, _| all.push(address));
                all
            };
            // How far accesses move from the first rank of a group to another one, in
            // order. (An element of two numbers may be read as one or as two.)
            let moves = |pairs: &mut dyn Iterator<Item = (u64, u64)>| {
                let mut moves: Vec<_> = pairs.map(|(a, b)| b.wrapping_sub(a)).collect();
                moves.retain(|moved| *moved != 0);
                moves.dedup();
                moves
            };
            for sample in &samples {
                let first = samples.iter().find(|s| s.process.pg == sample.process.pg).unwrap();
                let traced = first.trace.accesses.iter().zip(&sample.trace.accesses);
                let traced = moves(&mut traced.map(|(a, b)| (a.address as u64, b.address as u64)));
                let derived = moves(&mut derived(first.rank).into_iter().zip(derived(sample.rank)));
                assert_eq!(traced, derived, "{shape} {model} {}", sample.rank);
            }
        }
    }
}

/// A round of few ranks is simulated whole: what fits misses nothing, what is
/// twice too large for all levels misses each time.
#[test]
fn what_fits_is_there() {
    let caches = [(4096, 4), (16_384, 4), (65_536, 8)].map(|(b, a)| Geometry::new(b, a).unwrap());
    let entry =
        Touch { region: Region::Entries, follows: Follows::Lpid, pitch: 64, offset: 0, bytes: 8 };
    for (ranks, want) in [(32, [0.0; 3]), (128, [1.0, 0.0, 0.0]), (2048, [1.0; 3])] {
        let processes: Vec<_> = (0..ranks).map(|lpid| Process { pg: 0, lpid }).collect();
        let stream = Stream { touches: &[entry], own: 64, processes: &processes };
        let found = misses::simulate(&stream, 3, &caches);
        assert_eq!(found.levels, want, "{ranks}");
        assert!(found.whole);
    }
}

/// A long round that is not simulated whole has the misses of one that is.
#[test]
fn long_rounds_miss_as_whole_ones() {
    let caches = [(4096, 4), (16_384, 4), (1 << 20, 8)].map(|(b, a)| Geometry::new(b, a).unwrap());
    let one = |region, follows, pitch| Touch { region, follows, pitch, offset: 0, bytes: 8 };
    let touches = [one(Region::Table, Follows::Rank, 8), one(Region::Entries, Follows::Lpid, 8)];
    let ranks = (1 << 14) + 100;
    let processes: Vec<_> = (0..ranks).map(|lpid| Process { pg: 0, lpid }).collect();
    let stream = Stream { touches: &touches, own: 64, processes: &processes };
    let (whole, long) =
        (misses::simulate(&stream, 60, &caches), misses::simulate(&stream, 200, &caches));
    assert!(whole.whole && !long.whole);
    for (a, b) in whole.levels.iter().zip(&long.levels) {
        assert!((a - b).abs() < 0.002, "{whole:?} {long:?}");
    }
}

/// The counters' loop runs, whatever is counted.
#[test]
fn the_counted_loop_puts() {
    fixture::find_null_provider();
    match counters::count(&[64]) {
        Ok(all) => assert_eq!(all.len(), MODELS.len()),
        Err(why) => assert!(why.contains("provider"), "{why}"),
    }
}

/// A level as plain lists: lines of each set, the one used last at the end.
struct Plain(Vec<Vec<u64>>, usize);

impl Plain {
    fn hits(&mut self, line: u64) -> bool {
        let at = (line % self.0.len() as u64) as usize;
        let set = &mut self.0[at];
        let there = set.contains(&line);
        set.retain(|&other| other != line);
        set.push(line);
        if set.len() > self.1 {
            set.remove(0);
        }
        there
    }
}

fn touch() -> impl Strategy<Value = Touch> {
    let region =
        prop::sample::select(vec![Region::Own, Region::Shared, Region::Entries, Region::Table]);
    let follows = prop::sample::select(vec![Follows::Nothing, Follows::Rank, Follows::Lpid]);
    (region, follows, 1..300_u64, 0..100_u64, 1..9_u64).prop_map(
        |(region, follows, pitch, offset, bytes)| Touch { region, follows, pitch, offset, bytes },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Rounds that are counted as others are have the misses of plain lists that see them all.
    #[test]
    fn all_misses_are_those_of_every_round(
        touches in prop::collection::vec(touch(), 1..6),
        ranks in 2..80_u32,
        rounds in 1..25_u64,
        sizes in prop::collection::vec((1..20_u64, 1..6_u64), 1..4),
    ) {
        let caches: Vec<Geometry> = sizes
            .iter()
            .map(|&(sets, lines)| Geometry::new(sets * lines * 64, lines).unwrap())
            .collect();
        let processes: Vec<_> = (0..ranks).map(|rank| Process { pg: 0, lpid: rank * 3 }).collect();
        let stream = Stream { touches: &touches, own: 128, processes: &processes };
        let mut plain: Vec<Plain> = sizes
            .iter()
            .map(|&(sets, lines)| Plain(vec![Vec::new(); sets as usize], lines as usize))
            .collect();
        let mut missed = vec![0; plain.len()];
        for _ in 0..rounds {
            for rank in 1..ranks {
                stream.call(0, rank, |address, bytes| {
                    for line in address / 64..=(address + bytes - 1) / 64 {
                        for (level, missed) in plain.iter_mut().zip(&mut missed) {
                            if level.hits(line) {
                                break;
                            }
                            *missed += 1;
                        }
                    }
                });
            }
        }
        prop_assert_eq!(misses::all_of(&stream, rounds, &caches), missed);
    }
}
