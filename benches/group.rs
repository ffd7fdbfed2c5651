//! Group operations on the compressed maps, beside the scans that MPICH and
//! Open MPI make.
//!
//! `cargo bench --no-default-features --bench group -- [--quick] [--json]
//! [--only operations|choices|translate|hash]`
//!
//! Times are processor time, so that other programs do not count, and the least
//! of many rounds; memory that a round frees serves the next. The rivals are their algorithms, written
//! down again on plain vectors: MPICH's searches a member's lpid from the front
//! of an array of 8 bytes a member for every member of the other group, Open
//! MPI's compares process pointers in two nested loops, once to count and once to
//! fill. Both are quadratic, so they run at a size of their own (`rivals at`,
//! members of each group), where ours runs too: the ratios are of equal sizes.
//! `ours` is at full size.

mod clock;

use self::clock::{least, now};
use std::collections::HashSet;
use std::hint::black_box;

use rankway::rankmap::compact::{Compact, Representation};
use rankway::rankmap::group::{Group, RankRange};
use rankway::rankmap::{Process, RankMap};

const UNIVERSE: u32 = 1 << 20;

#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }

    fn shuffle(&mut self, list: &mut [u32]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u32 + 1) as usize);
        }
    }
}

/// What a rival keeps: an array of all members.
struct Array(Vec<u64>);

impl Array {
    fn of(group: &Group) -> Array {
        Array(group.map().iter().map(|p| u64::from(p.pg) << 32 | u64::from(p.lpid)).collect())
    }

    /// MPICH's search.
    fn rank_of(&self, process: u64) -> Option<usize> {
        self.0.iter().position(|&other| other == process)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Union,
    Intersection,
    Difference,
    Compare,
}

impl Operation {
    const ALL: [(&'static str, Operation); 4] = [
        ("union", Operation::Union),
        ("intersection", Operation::Intersection),
        ("difference", Operation::Difference),
        ("compare", Operation::Compare),
    ];

    fn ours(self, a: &Group, b: &Group) -> usize {
        let group = match self {
            Operation::Union => a.union(b),
            Operation::Intersection => a.intersection(b),
            Operation::Difference => a.difference(b),
            Operation::Compare => return a.compare(b) as usize,
        };
        group.map_or(0, |group| black_box(group).size() as usize)
    }

    fn mpich(self, a: &Array, b: &Array) -> usize {
        let kept = |from: &Array, other: &Array, common: bool| -> Vec<u64> {
            from.0.iter().copied().filter(|&p| other.rank_of(p).is_some() == common).collect()
        };
        match self {
            Operation::Union => {
                let mut all = a.0.clone();
                all.extend(kept(b, a, false));
                black_box(all).len()
            }
            Operation::Intersection => black_box(kept(a, b, true)).len(),
            Operation::Difference => black_box(kept(a, b, false)).len(),
            Operation::Compare => {
                let within = |p: &u64| b.rank_of(*p).is_some();
                usize::from(a.0.len() == b.0.len() && a.0.iter().all(within))
            }
        }
    }

    fn open_mpi(self, a: &Array, b: &Array) -> usize {
        let found = |one: u64, other: &Array| {
            for &process in &other.0 {
                if black_box(process) == one {
                    return true;
                }
            }
            false
        };
        let kept = |from: &Array, other: &Array, common: bool, before: &[u64]| -> Vec<u64> {
            let count = from.0.iter().filter(|&&p| found(p, other) == common).count();
            let mut out = Vec::with_capacity(before.len() + count);
            out.extend_from_slice(before);
            out.extend(from.0.iter().copied().filter(|&p| found(p, other) == common));
            out
        };
        match self {
            Operation::Union => black_box(kept(b, a, false, &a.0)).len(),
            Operation::Intersection => black_box(kept(a, b, true, &[])).len(),
            Operation::Difference => black_box(kept(a, b, false, &[])).len(),
            Operation::Compare => {
                usize::from(a.0.len() == b.0.len() && a.0.iter().all(|&p| found(p, b)))
            }
        }
    }
}

/// 16 ranges of about half of the ranks, cut at random.
fn ranges(random: &mut Random, universe: u32) -> Vec<RankRange> {
    let mut cuts: Vec<u32> = Vec::new();
    while cuts.len() < 32 {
        cuts.push(random.below(universe));
        cuts.sort_unstable();
        cuts.dedup();
    }
    cuts.chunks_exact(2).map(|cut| RankRange::new(cut[0] as i32, cut[1] as i32 - 1, 1)).collect()
}

fn random_half(random: &mut Random, universe: u32, shuffled: bool) -> Group {
    let mut lpids: Vec<u32> = (0..universe).filter(|_| random.below(2) == 0).collect();
    if shuffled {
        random.shuffle(&mut lpids);
    }
    group(RankMap::from_lpids(0, lpids))
}

fn group<E: std::fmt::Debug>(map: Result<RankMap, E>) -> Group {
    Group::new(map.expect("a map")).expect("members differ")
}

/// Two groups of a kind of a universe.
type Pair = (Group, Group);
/// Makes them of a universe of that size.
type Make = Box<dyn Fn(u32) -> Pair>;

/// The kinds of pairs that operations run on.
fn pairs() -> Vec<(&'static str, u32, Make)> {
    let sixteen = |universe| {
        let (mut random, all) = (Random(88_172_645_463_325_252), Group::world(universe));
        let mut any = || all.range_incl(&ranges(&mut random, universe)).expect("ranges");
        (any(), any())
    };
    let similar = |universe| {
        let (mut random, all) = (Random(88_172_645_463_325_252), Group::world(universe));
        let mut ranges = ranges(&mut random, universe);
        let one = all.range_incl(&ranges).expect("ranges");
        ranges.reverse();
        (one, all.range_incl(&ranges).expect("ranges"))
    };
    let strides = |universe: u32| {
        let stride = |by: u32| group(RankMap::affine(0, 0, i64::from(by), universe.div_ceil(by)));
        (stride(2), stride(3))
    };
    let blocks = |universe: u32| {
        let blocks = |block: u32, pitch: u32| {
            group(RankMap::from_lpids(0, (0..universe).filter(|r| r % pitch < block)))
        };
        (blocks(1024, 4096), blocks(512, 1536))
    };
    let halves = |universe: u32| {
        let mut random = Random(1);
        (random_half(&mut random, universe, false), random_half(&mut random, universe, false))
    };
    let shuffled = |universe: u32| {
        let mut random = Random(1);
        (random_half(&mut random, universe, true), random_half(&mut random, universe, true))
    };
    let bitmaps = |universe: u32| {
        let mut random = Random(1);
        let mut half = || {
            let half = random_half(&mut random, universe, false);
            let lpids = half.map().iter().map(|process| process.lpid);
            let bitmap = Compact::build(Representation::Bitmap, lpids);
            group(bitmap.map(RankMap::from))
        };
        (half(), half())
    };
    vec![
        ("16 ranges", UNIVERSE, Box::new(sixteen)),
        ("16 ranges reversed", UNIVERSE, Box::new(similar)),
        ("strides 2 and 3", UNIVERSE, Box::new(strides)),
        ("256 and 683 blocks", UNIVERSE, Box::new(blocks)),
        ("random halves", UNIVERSE, Box::new(halves)),
        ("random halves", 2 * UNIVERSE, Box::new(halves)),
        ("shuffled halves", 2 * UNIVERSE, Box::new(shuffled)),
        ("bitmap halves", 2 * UNIVERSE, Box::new(bitmaps)),
    ]
}

struct Table {
    json: bool,
    objects: Vec<String>,
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

impl Table {
    fn title(&self, line: &str) {
        if !self.json {
            println!("{line}");
        }
    }
}

/// Operations on two groups.
fn operations(table: &mut Table, quick: bool) {
    let (rounds, small) = if quick { (10, 1 << 11) } else { (60, 1 << 13) };
    table.title(&format!(
        "{:<20}{:>9}  {:<14}{:>11}{:>10}{:>12}{:>12}{:>12}{:>10}{:>10}",
        "groups",
        "universe",
        "operation",
        "ours",
        "result",
        "rivals at",
        "ours there",
        "MPICH's",
        "x",
        "Open MPI x"
    ));
    for (name, universe, make) in pairs() {
        let (a, b) = make(universe);
        let (small_a, small_b) = make(small);
        let (array_a, array_b) = (Array::of(&small_a), Array::of(&small_b));
        for (operation, run) in Operation::ALL {
            let size = run.ours(&a, &b);
            let result = match run {
                Operation::Compare => format!("{:?}", a.compare(&b)),
                _ => size.to_string(),
            };
            if run != Operation::Compare {
                assert_eq!(run.ours(&small_a, &small_b), run.mpich(&array_a, &array_b));
                assert_eq!(run.ours(&small_a, &small_b), run.open_mpi(&array_a, &array_b));
            }
            let ours = least(rounds, || {
                black_box(run.ours(black_box(&a), black_box(&b)));
            });
            let there = least(rounds, || {
                black_box(run.ours(black_box(&small_a), black_box(&small_b)));
            });
            let mpich = least(3, || {
                black_box(run.mpich(&array_a, &array_b));
            });
            let open_mpi = least(3, || {
                black_box(run.open_mpi(&array_a, &array_b));
            });
            let members = small_a.size();
            if table.json {
                table.objects.push(format!(
                    "{{\"groups\":\"{name}\",\"universe\":{universe},\"operation\":\"{operation}\",\"ns\":{ours:.0},\"result\":\"{result}\",\"rivals_at\":{members},\"ns_there\":{there:.0},\"mpich_ns\":{mpich:.0},\"open_mpi_ns\":{open_mpi:.0}}}"
                ));
            } else {
                println!(
                    "{name:<20}{universe:>9}  {operation:<14}{:>11}{result:>10}{members:>12}{:>12}{:>12}{:>10.1}{:>10.1}",
                    time(ours),
                    time(there),
                    time(mpich),
                    mpich / there,
                    open_mpi / there
                );
            }
        }
    }
    table.title("");
}

/// Groups made of ranks and ranges of the world.
fn choices(table: &mut Table, quick: bool) {
    let rounds = if quick { 10 } else { 60 };
    table.title(&format!(
        "{:<20}{:>9}  {:<14}{:>11}{:>14}{:>10}",
        "made of", "universe", "operation", "ours", "an array's", "x"
    ));
    let mut random = Random(88_172_645_463_325_252);
    let world = Group::world(UNIVERSE);
    let ranges = ranges(&mut random, UNIVERSE);
    let sixteen = world.range_incl(&ranges).expect("ranges");
    let mut ranks: Vec<u32> = (0..16).map(|_| random.below(sixteen.size())).collect();
    ranks.sort_unstable();
    ranks.dedup();
    random.shuffle(&mut ranks);
    // What both MPIs do: flags of all ranks, then the array of the members.
    let array = Array::of(&world);
    let flagged = |gone: bool| {
        let mut flags = vec![false; array.0.len()];
        for range in &ranges {
            (range.first..=range.last).for_each(|rank| flags[rank as usize] = true);
        }
        let chosen = |(_, flag): &(&u64, &bool)| **flag != gone;
        array.0.iter().zip(&flags).filter(chosen).map(|(p, _)| *p).collect::<Vec<u64>>()
    };
    let listed = Array::of(&sixteen);
    let some = |gone: bool| {
        let mut flags = vec![false; listed.0.len()];
        ranks.iter().for_each(|&rank| flags[rank as usize] = true);
        if gone {
            let kept = |(_, flag): &(&u64, &bool)| !**flag;
            return listed.0.iter().zip(&flags).filter(kept).map(|(p, _)| *p).collect();
        }
        ranks.iter().map(|&rank| listed.0[rank as usize]).collect::<Vec<u64>>()
    };
    type Run<'a> = Box<dyn Fn() + 'a>;
    let runs: Vec<(&str, &str, Run<'_>, Run<'_>)> = vec![
        (
            "16 ranges",
            "range_incl",
            Box::new(|| drop(black_box(world.range_incl(black_box(&ranges))))),
            Box::new(|| drop(black_box(flagged(false)))),
        ),
        (
            "16 ranges",
            "range_excl",
            Box::new(|| drop(black_box(world.range_excl(black_box(&ranges))))),
            Box::new(|| drop(black_box(flagged(true)))),
        ),
        (
            "16 ranks of those",
            "incl",
            Box::new(|| drop(black_box(sixteen.incl(black_box(&ranks))))),
            Box::new(|| drop(black_box(some(false)))),
        ),
        (
            "16 ranks of those",
            "excl",
            Box::new(|| drop(black_box(sixteen.excl(black_box(&ranks))))),
            Box::new(|| drop(black_box(some(true)))),
        ),
    ];
    for (name, operation, ours, arrays) in runs {
        let (ours, arrays) = (least(rounds, ours), least(rounds.min(20), arrays));
        if table.json {
            table.objects.push(format!(
                "{{\"groups\":\"{name}\",\"universe\":{UNIVERSE},\"operation\":\"{operation}\",\"ns\":{ours:.0},\"array_ns\":{arrays:.0}}}"
            ));
        } else {
            println!(
                "{name:<20}{UNIVERSE:>9}  {operation:<14}{:>11}{:>14}{:>10.1}",
                time(ours),
                time(arrays),
                arrays / ours
            );
        }
    }
    table.title("");
}

/// A group of every representation, of about half of a universe.
fn representations(universe: u32) -> Vec<(String, Group)> {
    let half = universe / 2;
    let all = |lpids: &dyn Fn(u32) -> u32| group(RankMap::from_lpids(0, (0..half).map(lpids)));
    let mut random = Random(3);
    let mut shuffled: Vec<u32> = (0..universe).collect();
    random.shuffle(&mut shuffled);
    shuffled.truncate(half as usize);
    let mut sorted = shuffled.clone();
    sorted.sort_unstable();
    let mut pattern: Vec<u32> = (0..64).collect();
    random.shuffle(&mut pattern);
    let several = |rank: u32| Process { pg: 3 * (rank % 2), lpid: shuffled[rank as usize] };
    let step = (universe / 64).max(1);
    // Ranges in falling order.
    let falling: Vec<u32> =
        (0..32).rev().flat_map(|k| 2 * k * step..2 * k * step + step - k).collect();
    let mut list = vec![
        ("direct".to_owned(), all(&|rank| rank)),
        ("offset".to_owned(), all(&|rank| rank + half / 2)),
        ("stride".to_owned(), all(&|rank| 2 * rank + 1)),
        ("blockstride".to_owned(), all(&|rank| rank / 16 * 32 + rank % 16)),
        ("transpose".to_owned(), all(&|rank| (rank % 64) * (half / 64) + rank / 64)),
        ("box of 3".to_owned(), all(&|r| r / 256 * 512 + r / 16 % 16 * 32 + r % 16)),
        (
            "box of 4".to_owned(),
            all(&|r| r / 512 * 1024 + r / 64 % 8 * 128 + r / 8 % 8 * 9 + r % 8),
        ),
        ("tile of 64".to_owned(), all(&|rank| rank / 64 * 128 + pattern[rank as usize % 64])),
        ("segments".to_owned(), group(RankMap::from_lpids(0, falling))),
        ("lut".to_owned(), group(RankMap::from_lpids(0, shuffled.iter().copied()))),
        ("mlut".to_owned(), group(RankMap::from_processes((0..half).map(several)))),
    ];
    use Representation::{Bitmap, Blocks, Diagram, EliasFano, Gaps, Packed, Runs, Wavelet};
    let ranges: Vec<u32> = (0..universe).filter(|r| r % 4096 < 1500 + r / 4096 % 500).collect();
    for one in [EliasFano, Bitmap, Gaps, Runs, Diagram] {
        let lpids = if matches!(one, Runs | Diagram) { &ranges } else { &sorted };
        let map = Compact::build(one, lpids.iter().copied()).map(RankMap::from);
        list.push((format!("compact {one}"), group(map)));
    }
    // Eight rising runs, one after the other.
    let mut woven = Vec::new();
    for run in 0..8 {
        woven.extend(sorted.iter().skip(run).step_by(8));
    }
    let permutation: Vec<u32> = {
        let mut list: Vec<u32> = (0..half).collect();
        random.shuffle(&mut list);
        list
    };
    for (name, one, lpids) in [
        ("blocks", Blocks, &shuffled),
        ("packed", Packed, &shuffled),
        ("packed cycles", Packed, &permutation),
        ("wavelet", Wavelet, &woven),
    ] {
        let map = Compact::build(one, lpids.iter().copied()).map(RankMap::from);
        list.push((format!("compact {name}"), group(map)));
    }
    list
}

/// Ranks of and to every representation.
fn translations(table: &mut Table, quick: bool) {
    let (rounds, small) = if quick { (5, 1 << 11) } else { (40, 1 << 13) };
    table.title(&format!(
        "{:<22}{:>9}{:>11}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>11}{:>10}{:>10}",
        "translate",
        "members",
        "first",
        "one to",
        "one from",
        "all to",
        "all from",
        "random to",
        "rnd from",
        "rivals at",
        "ours there",
        "MPICH x",
        "Open MPI x"
    ));
    let world = Group::world(UNIVERSE);
    let there = representations(small);
    for ((name, group), (_, other)) in representations(UNIVERSE).into_iter().zip(there) {
        let mut random = Random(5);
        let few = 4096;
        let to: Vec<u32> = (0..few).map(|_| random.below(UNIVERSE)).collect();
        let from: Vec<u32> = (0..few).map(|_| random.below(group.size())).collect();
        let start = now();
        black_box(world.translate(7, &group).expect("a rank"));
        let first = (now() - start) * 1e9;
        let each = f64::from(few);
        let single = |from: &Group, ranks: &[u32], to: &Group| {
            least(rounds, || {
                for &rank in ranks {
                    black_box(from.translate(rank, to).expect("a rank"));
                }
            }) / each
        };
        let (one_to, one_from) = (single(&world, &to, &group), single(&group, &from, &world));
        let bulk = |from: &Group, ranks: &[u32], to: &Group| {
            let mut out = vec![0; ranks.len()];
            let time = least(rounds.min(12), || {
                from.translate_ranks(black_box(ranks), to, &mut out).expect("ranks");
                black_box(&out);
            });
            for (at, &rank) in ranks.iter().enumerate().step_by(997) {
                let one = from.translate(rank, to).expect("a rank");
                assert_eq!(one.unwrap_or(Group::UNDEFINED), out[at]);
            }
            time / ranks.len() as f64
        };
        let mut ranks: Vec<u32> = (0..UNIVERSE).collect();
        let mut members: Vec<u32> = (0..group.size()).collect();
        let all = (bulk(&world, &ranks, &group), bulk(&group, &members, &world));
        random.shuffle(&mut ranks);
        random.shuffle(&mut members);
        let mixed = (bulk(&world, &ranks, &group), bulk(&group, &members, &world));
        // The rivals translate a tenth of the ranks of a small world.
        let array = Array::of(&other);
        let ranks: Vec<u32> = (0..small).step_by(10).collect();
        let mut out = vec![0; ranks.len()];
        let little = Group::world(small);
        let mine = least(rounds, || {
            little.translate_ranks(black_box(&ranks), &other, &mut out).expect("ranks");
            black_box(&out);
        });
        let mpich = least(3, || {
            for (&rank, out) in ranks.iter().zip(&mut out) {
                *out = array.rank_of(u64::from(rank)).map_or(Group::UNDEFINED, |rank| rank as u32);
            }
            black_box(&out);
        });
        let open_mpi = least(3, || {
            for (&rank, out) in ranks.iter().zip(&mut out) {
                *out = Group::UNDEFINED;
                for (at, &process) in array.0.iter().enumerate() {
                    if black_box(process) == u64::from(rank) {
                        *out = at as u32;
                        break;
                    }
                }
            }
            black_box(&out);
        });
        let count = ranks.len() as f64;
        if table.json {
            table.objects.push(format!(
                "{{\"translate\":\"{name}\",\"members\":{},\"first_ns\":{first:.0},\"one_to_ns\":{one_to:.2},\"one_from_ns\":{one_from:.2},\"all_to_ns\":{:.3},\"all_from_ns\":{:.3},\"random_to_ns\":{:.3},\"random_from_ns\":{:.3},\"rivals_at\":{},\"ns_there\":{:.2},\"mpich_ns\":{:.2},\"open_mpi_ns\":{:.2}}}",
                group.size(), all.0, all.1, mixed.0, mixed.1, other.size(), mine / count, mpich / count, open_mpi / count
            ));
        } else {
            println!(
                "{name:<22}{:>9}{:>11}{one_to:>10.1}{one_from:>10.1}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>10}{:>11.1}{:>10.1}{:>10.1}",
                group.size(),
                time(first),
                all.0,
                all.1,
                mixed.0,
                mixed.1,
                other.size(),
                mine / count,
                mpich / mine,
                open_mpi / mine
            );
        }
    }
    table.title("");
}

/// A random half by a hash table, which is what a program would write instead.
fn hashed(table: &mut Table) {
    let mut random = Random(1);
    let (a, b) = (
        random_half(&mut random, 2 * UNIVERSE, false),
        random_half(&mut random, 2 * UNIVERSE, false),
    );
    let lists: Vec<Vec<u32>> =
        [&a, &b].iter().map(|group| group.map().iter().map(|p| p.lpid).collect()).collect();
    let hash = least(1, || {
        let have: HashSet<u32> = lists[0].iter().copied().collect();
        let mut all = lists[0].clone();
        all.extend(lists[1].iter().filter(|lpid| !have.contains(lpid)));
        black_box(all);
    });
    let ours = least(20, || drop(black_box(a.union(&b))));
    if table.json {
        table.objects.push(format!(
            "{{\"groups\":\"random halves\",\"universe\":{},\"operation\":\"union\",\"ns\":{ours:.0},\"hash_table_ns\":{hash:.0}}}",
            2 * UNIVERSE
        ));
    } else {
        println!(
            "union of {} and {} random members: {}; by a hash table of the standard library {}, x {:.1}",
            a.size(),
            b.size(),
            time(ours),
            time(hash),
            hash / ours
        );
    }
}

fn main() {
    // Freed memory is kept for the next round: what fresh pages cost is the kernel's.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both set a number of the allocator's.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30);
    }
    let has = |flag: &str| std::env::args().skip(1).any(|argument| argument == flag);
    let mut table = Table { json: has("--json"), objects: Vec::new() };
    let quick = has("--quick");
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("operations") {
        operations(&mut table, quick);
    }
    if wanted("choices") {
        choices(&mut table, quick);
    }
    if wanted("translate") {
        translations(&mut table, quick);
    }
    if wanted("hash") {
        hashed(&mut table);
    }
    if table.json {
        println!("{{\"quick\":{quick},\"group\":[{}]}}", table.objects.join(","));
    }
}
