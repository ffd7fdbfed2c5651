//! Composition beside Table II of Guo et al. (2017), "Memory Compression
//! Techniques for Network Address Management in MPI".
//!
//! `cargo test --release --test rankmap_table2 -- --nocapture` prints the whole
//! state machine and how many random chains of compositions stay compressed.

use rankway::rankmap::{Model, Process, RankMap};

mod common;
use common::{Dice, child_of};

const N: u32 = 1 << 12;

/// The models of Table II; later ones cost more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Paper {
    Direct,
    Offset,
    Stride,
    /// A table of the parent's, shared.
    Shared(Table),
    New(Table),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Lut,
    Mlut,
}

/// Table II: parent model (row) and child pattern (column).
fn table2(parent: Paper, child: Paper) -> Paper {
    use Paper::{Direct, New, Offset, Shared, Stride};
    match (parent, child) {
        (Shared(table) | New(table), Direct | Offset) => Shared(table),
        (Shared(table) | New(table), _) => New(table),
        (Direct, child @ (Direct | Offset | Stride)) => child,
        (Offset, Direct | Offset) => Offset,
        (Offset, Stride) => Stride,
        (Stride, Direct) => Stride,
        (Direct | Offset | Stride, _) => New(Table::Lut),
    }
}

/// What the paper detects: direct, offset, stride (forward), or a table.
fn paper_model(map: &RankMap) -> Paper {
    match map.model() {
        Model::Direct => Paper::Direct,
        Model::Offset => Paper::Offset,
        Model::Stride if map.get(0).map(|p| p.lpid) < map.get(1).map(|p| p.lpid) => Paper::Stride,
        Model::Mlut => Paper::New(Table::Mlut),
        _ => Paper::New(Table::Lut),
    }
}

impl std::fmt::Display for Paper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Paper::Direct => "direct",
            Paper::Offset => "offset",
            Paper::Stride => "stride",
            Paper::Shared(Table::Lut) => "lut(a)",
            Paper::Shared(Table::Mlut) => "mlut(a)",
            Paper::New(Table::Lut) => "lut",
            Paper::New(Table::Mlut) => "mlut",
        })
    }
}

/// Bytes the paper's child adds, its formulas counted as none.
fn paper_bytes(model: Paper, size: u32) -> usize {
    size as usize
        * match model {
            Paper::New(Table::Lut) => 4,
            Paper::New(Table::Mlut) => 8,
            _ => 0,
        }
}

fn shuffled(rng: &mut Dice, n: u32) -> Vec<u32> {
    let mut list: Vec<u32> = (0..n).collect();
    for i in (1..list.len()).rev() {
        list.swap(i, rng.below(i + 1));
    }
    list
}

#[test]
fn state_machine() {
    let mut rng = Dice(11);
    let lut = shuffled(&mut rng, N);
    let ours = |list: Vec<u32>| RankMap::from_lpids(0, list).expect("valid");
    let parents: Vec<(&str, RankMap)> = vec![
        ("direct", RankMap::direct(N)),
        ("offset", ours((0..N).map(|r| r + 9).collect())),
        ("stride", ours((0..N).map(|r| 3 * r + 1).collect())),
        ("stride (reversed)", RankMap::direct(N).reversed()),
        ("blockstride", ours((0..N).map(|r| r / 16 * 48 + r % 16).collect())),
        ("md-blockstride", ours((0..N).map(|r| r % 8 + r / 8 % 8 * 16 + r / 64 * 512).collect())),
        ("segments", ours((0..N).map(|r| r + (r / 128) * (r / 128)).collect())),
        ("lut", ours(lut.clone())),
        (
            "mlut",
            RankMap::from_processes(
                lut.iter().enumerate().map(|(i, &lpid)| Process { pg: i as u32 % 2, lpid }),
            )
            .expect("valid"),
        ),
    ];
    let half = N / 2;
    let children: Vec<(&str, RankMap)> = vec![
        ("dup", RankMap::direct(N)),
        ("direct", RankMap::direct(half)),
        ("offset", ours((0..half).map(|r| r + 100).collect())),
        ("stride", ours((0..half).map(|r| 2 * r + 1).collect())),
        ("reversed", RankMap::direct(N).reversed()),
        ("blocks", ours((0..half).map(|r| r / 4 * 8 + r % 4).collect())),
        ("transpose", ours((0..N).map(|r| r % 64 * 64 + r / 64).collect())),
        ("irregular", ours(shuffled(&mut rng, half))),
    ];
    println!("child of parent: model, bytes it adds to 32 | Table II, bytes beside the formula");
    for (parent_name, parent) in &parents {
        for (child_name, child) in &children {
            let composed = parent.compose(child).expect("in range");
            let want = child.iter().map(|p| parent.get(p.lpid).expect("in range"));
            assert!(composed.iter().eq(want), "{child_name} of {parent_name}");
            let added = composed.bytes() - size_of::<RankMap>() - composed.shared_bytes();
            let floor = table2(paper_model(parent), paper_model(child));
            let allowed = paper_bytes(floor, child.len());
            println!(
                "{parent_name:<18}{child_name:<12}{:<16}{added:>7} | {floor:<8}{allowed:>7}",
                composed.model().name()
            );
            // A formula of three digits or the head of a table is a constant.
            // Segments are copied where the paper shares the parent's table, so
            // there the two together count.
            let (added, allowed) = if parent.model() == Model::Segments {
                (parent.bytes() + added, paper_bytes(Paper::New(Table::Lut), N) + allowed)
            } else {
                (added, allowed + 64)
            };
            assert!(added <= allowed, "{child_name} of {parent_name}: {composed:?}");
            let as_compressed = match floor {
                Paper::Direct => composed.model() == Model::Direct,
                Paper::Offset => composed.model() <= Model::Offset,
                Paper::Stride => composed.model() <= Model::Stride,
                Paper::Shared(Table::Lut) | Paper::New(Table::Lut) => {
                    composed.model() <= Model::Lut
                }
                Paper::Shared(Table::Mlut) | Paper::New(Table::Mlut) => true,
            };
            assert!(as_compressed, "{child_name} of {parent_name}: {composed:?}, paper {floor}");
            // What the paper says in words: affine of affine is affine.
            if parent.model() <= Model::Stride && child.model() <= Model::Stride {
                assert!(composed.model() <= Model::Stride);
            }
            if parent.model() <= Model::Stride {
                assert!(composed.model() <= child.model().max(Model::Stride));
            }
        }
    }
}

#[test]
fn a_table_can_turn_regular() {
    let mut rng = Dice(12);
    let lut = shuffled(&mut rng, 1000);
    let parent = RankMap::from_lpids(0, lut.iter().copied()).expect("valid");
    let mut sorted: Vec<u32> = (0..1000).collect();
    sorted.sort_by_key(|&rank| lut[rank as usize]);
    let child = RankMap::from_lpids(0, sorted).expect("valid");
    assert_eq!(parent.compose(&child).expect("in range"), RankMap::direct(1000));
}

#[test]
fn chains_stay_compressed() {
    const CHAINS: usize = 2_000;
    let mut rng = Dice(13);
    println!("random chains of regular selections that stay compressed, %");
    println!(
        "{:<8}{:>10}{:>10}{:>10}{:>12}",
        "depth", "Table II", "+ rescan", "regular", "+ segments"
    );
    let mut last = 101.0;
    for depth in 1..=5 {
        let mut kept = [0usize; 4];
        let mut chains = 0;
        while chains < CHAINS {
            let mut map = RankMap::direct(1200 + rng.below(1000) as u32);
            let (mut paper, mut rescanned) = (Paper::Direct, Paper::Direct);
            let mut levels = 0;
            while levels < depth {
                let (kind, ranks) = child_of(&mut rng, map.len() as usize);
                if matches!(kind, "swapped" | "shuffled" | "row" | "tiled") || ranks.len() < 24 {
                    if map.len() < 200 {
                        break;
                    }
                    continue;
                }
                let child = RankMap::from_lpids(0, ranks).expect("valid");
                map = map.compose(&child).expect("in range");
                paper = table2(paper, paper_model(&child));
                rescanned = table2(rescanned, paper_model(&child)).min(paper_model(&map));
                levels += 1;
            }
            if levels < depth {
                continue;
            }
            chains += 1;
            kept[0] += usize::from(paper < Paper::Shared(Table::Lut));
            kept[1] += usize::from(rescanned < Paper::Shared(Table::Lut));
            kept[2] += usize::from(map.model().is_regular());
            kept[3] += usize::from(map.model() <= Model::Segments);
        }
        let percent = kept.map(|k| 100.0 * k as f64 / CHAINS as f64);
        println!(
            "{depth:<8}{:>10.1}{:>10.1}{:>10.1}{:>12.1}",
            percent[0], percent[1], percent[2], percent[3]
        );
        assert!(percent[0] <= percent[1] && percent[1] <= percent[2]);
        assert!(percent[3] <= last);
        last = percent[3] + 5.0;
    }
}
