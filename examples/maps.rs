//! Rank maps on their own: what a communicator's list of processes becomes.
//!
//! ```text
//! cargo run --release --example maps
//! ```
//!
//! Needs no feature and no network: `rankmap` knows neither.

use rankway::rankmap::{Detector, MapError, Process, RankMap};

/// One line for each map: its model and its bytes, beside a plain list's.
fn show(name: &str, map: &RankMap) {
    let (model, list) = (map.model().to_string(), 4 * u64::from(map.len()));
    println!("{name:<34}{model:<16}{:>9} ranks{:>9} B, as a list {list} B", map.len(), map.bytes());
}

fn main() -> Result<(), MapError> {
    const P: u32 = 1 << 20;
    let world = RankMap::direct(P);
    show("the world", &world);

    // A split by odd and even, as the ranks stream by.
    let odd = RankMap::from_lpids(0, (0..P).filter(|rank| rank % 2 == 1))?;
    show("odd ranks", &odd);

    // Every third rank of the odd ones: a stride of a stride is a stride.
    let third = RankMap::affine(0, 0, 3, odd.len().div_ceil(3))?;
    let both = odd.compose(&third)?;
    show("every third of those", &both);
    assert_eq!(both.get(10), Some(Process { pg: 0, lpid: 61 }));
    assert_eq!(both.rank_of(Process { pg: 0, lpid: 61 }), Some(10));

    // A box of a 128 × 64 × 128 grid, cell by cell.
    let mut detector = Detector::new();
    for cell in 0..P {
        let (x, y, z) = (cell % 128, cell / 128 % 64, cell / 8192);
        if x < 64 && y < 32 && z < 64 {
            detector.push(cell);
        }
    }
    show("an eighth of a grid", &detector.finish()?);

    // Which node each rank is on, 16 ranks a node, is a map too.
    let nodes = RankMap::from_lpids(0, (0..P).map(|rank| rank / 16))?;
    show("rank to node", &nodes);
    show("rank to node, odd ranks", &nodes.compose(&odd)?);

    // No pattern: a table, which selections from it share.
    let scattered = RankMap::from_lpids(0, (0..P).map(|r| r.wrapping_mul(0x9e37_79b1) >> 12))?;
    show("no pattern", &scattered);
    show("every second of those, same table", &scattered.compose(&odd)?);
    Ok(())
}
