//! The kinds of communicators that are measured: which processes each has.
//!
//! Every map is detected from its stream of ranks, as a communicator's would
//! be. All kinds contain the process that measures, `Layout::me`.

use rankway::rankmap::{MapError, Process, RankMap};

/// The job as the kinds see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Processes of the job.
    pub(super) processes: u32,
    /// Ranks on a node.
    pub(super) per_node: u32,
    /// Extents of the 3-D grid the job is laid out on, fastest first; its
    /// last cells may be missing where the size has no such factors.
    pub(super) grid: [u32; 3],
    /// The rank that measures.
    pub(super) me: u32,
}

impl Layout {
    pub(super) fn new(processes: u32, per_node: u32) -> Layout {
        let grid = grid(processes);
        Layout { processes, per_node, grid, me: grid.iter().product::<u32>() - 1 }
    }

    /// Ranks of a block of the blockstride kind: a node's.
    fn block(&self) -> u32 {
        self.per_node.max(2)
    }

    /// Ranks of a half.
    fn half(&self) -> u32 {
        self.processes / 2
    }

    /// Rank `r` of the upper half of this job, followed by as many of another.
    fn of_two(&self, r: u32) -> Process {
        let half = self.half();
        if r < half {
            Process { pg: 0, lpid: self.processes - half + r }
        } else {
            Process { pg: 1, lpid: r - half }
        }
    }
}

/// The most cubic grid of three factors; of a few cells less where the factors
/// of `cells` are too uneven.
fn grid(cells: u32) -> [u32; 3] {
    let divisor =
        |n: u32, near: u32| (near / 4..=near).rev().find(|&d| d > 0 && n.is_multiple_of(d));
    let root = f64::from(cells).cbrt().round().max(1.0) as u32;
    let x = divisor(cells, root).unwrap_or(root);
    let y_root = (cells / x).isqrt().max(1);
    let y = divisor(cells / x, y_root).unwrap_or(y_root);
    [x, y, cells / x / y]
}

/// A way to choose the processes of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// MPI_Comm_dup of the world
    Direct,
    /// The upper half of the ranks
    Offset,
    /// Odd or even ranks (the split of the paper)
    Stride,
    /// The ranks of every other node
    #[value(name = "blockstride")]
    BlockStride,
    /// A box of half the extent in each dimension of a 3-D grid
    #[value(name = "md-blockstride")]
    #[serde(rename = "md-blockstride")]
    MdBlockStride,
    /// The world without 64 processes here and there
    Segments,
    /// Half of the processes, chosen at random, in rank order
    Set,
    /// Half of the processes, in random order
    Lut,
    /// Two process groups one after the other, half the ranks each (a merge of two jobs)
    Merge,
    /// The same processes, in random order
    Mlut,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Direct,
        Kind::Offset,
        Kind::Stride,
        Kind::BlockStride,
        Kind::MdBlockStride,
        Kind::Segments,
        Kind::Set,
        Kind::Lut,
        Kind::Merge,
        Kind::Mlut,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Offset => "offset",
            Kind::Stride => "stride",
            Kind::BlockStride => "blockstride",
            Kind::MdBlockStride => "md-blockstride",
            Kind::Segments => "segments",
            Kind::Set => "set",
            Kind::Lut => "lut",
            Kind::Merge => "merge",
            Kind::Mlut => "mlut",
        }
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Kind::Direct => "duplicate of the world",
            Kind::Offset => "upper half",
            Kind::Stride => "odd/even split",
            Kind::BlockStride => "every other node",
            Kind::MdBlockStride => "box of a 3-D grid",
            Kind::Segments => "world without 64",
            Kind::Set => "random half",
            Kind::Lut => "shuffled half",
            Kind::Merge => "two process groups",
            Kind::Mlut => "two groups, shuffled",
        }
    }

    /// Returns true if a formula holds the map.
    pub(super) fn is_regular(self) -> bool {
        !matches!(self, Kind::Segments | Kind::Set | Kind::Lut | Kind::Merge | Kind::Mlut)
    }

    /// Returns true if there are members of a second process group.
    pub(super) fn is_of_two(self) -> bool {
        matches!(self, Kind::Merge | Kind::Mlut)
    }

    /// The map of the `nth` communicator of this kind, found by detection, and
    /// the rank of `layout.me` in it. A duplicate shares the world's.
    pub(super) fn map(
        self,
        layout: &Layout,
        world: &RankMap,
        nth: u32,
    ) -> Result<(RankMap, u32), MapError> {
        let Layout { processes, me, .. } = *layout;
        let half = layout.half();
        Ok(match self {
            Kind::Direct => (world.clone(), me),
            Kind::Offset => {
                let first = processes - half;
                (RankMap::from_lpids(0, first..processes)?, me - first)
            }
            Kind::Stride => {
                let color = me % 2;
                let size = (processes - color).div_ceil(2);
                (RankMap::from_lpids(0, (0..size).map(|r| color + 2 * r))?, me / 2)
            }
            Kind::BlockStride => {
                let block = layout.block();
                let mut first = me / block % 2 * block;
                let blocks = std::iter::from_fn(move || {
                    let this = (first < processes).then_some(first)?;
                    first = first.saturating_add(2 * block);
                    Some(this..processes.min(this.saturating_add(block)))
                });
                (RankMap::from_lpids(0, blocks.flatten())?, me / block / 2 * block + me % block)
            }
            Kind::MdBlockStride => {
                let [x, y, z] = layout.grid;
                // The upper half of each dimension; `me` is its last cell.
                let upper = |extent: u32| extent - (extent / 2).max(1)..extent;
                let rows = upper(z).flat_map(move |k| upper(y).map(move |j| (k * y + j) * x));
                let cells = rows.flat_map(move |row| upper(x).map(move |i| row + i));
                let map = RankMap::from_lpids(0, cells)?;
                let rank = map.len() - 1;
                (map, rank)
            }
            Kind::Segments => {
                let mut gone: Vec<u32> = scattered(processes, nth)
                    .take(processes.min(4 * 64) as usize / 4)
                    .filter(|&p| p != me)
                    .collect();
                gone.sort_unstable();
                let starts = std::iter::once(0).chain(gone.iter().map(|&p| p + 1));
                let ends = gone.iter().copied().chain([processes]);
                let map = RankMap::from_lpids(0, starts.zip(ends).flat_map(|(s, e)| s..e))?;
                (map, me - gone.partition_point(|&p| p < me) as u32)
            }
            Kind::Set => {
                let shuffle = Shuffle::new(processes, nth);
                let member = |&p: &u32| p == me || shuffle.at(p) < half;
                let rank = (0..me).filter(member).count() as u32;
                (RankMap::from_lpids(0, (0..processes).filter(member))?, rank)
            }
            Kind::Lut => {
                let shuffled = Shuffle::new(processes, nth).from(me);
                (RankMap::from_lpids(0, (0..half).map(shuffled))?, 0)
            }
            Kind::Merge => (
                RankMap::from_processes((0..2 * half).map(|r| layout.of_two(r)))?,
                me + half - processes,
            ),
            Kind::Mlut => {
                let shuffled = Shuffle::new(2 * half, nth).from(me + half - processes);
                let members = (0..2 * half).map(|r| layout.of_two(shuffled(r)));
                (RankMap::from_processes(members)?, 0)
            }
        })
    }
}

/// Different processes here and there.
fn scattered(processes: u32, seed: u32) -> impl Iterator<Item = u32> {
    let shuffle = Shuffle::new(processes, seed);
    (0..processes).map(move |i| shuffle.at(i))
}

/// A permutation of `0..size` that needs no table: a bijection of the next
/// power of two, applied until it lands inside.
#[derive(Clone, Copy)]
struct Shuffle {
    size: u32,
    mask: u32,
    shift: u32,
    seed: u32,
}

impl Shuffle {
    fn new(size: u32, seed: u32) -> Shuffle {
        let bits = size.next_power_of_two().trailing_zeros().max(1);
        let mask = u32::MAX >> (32 - bits);
        Shuffle { size, mask, shift: bits.div_ceil(2), seed: seed.wrapping_mul(0x9e37_79b9) }
    }

    /// The permutation with `first` in the first place.
    fn from(self, first: u32) -> impl Fn(u32) -> u32 {
        let instead = self.at(0);
        move |index| match self.at(index) {
            p if p == instead => first,
            p if p == first => instead,
            p => p,
        }
    }

    fn at(&self, index: u32) -> u32 {
        let mut x = index;
        loop {
            for odd in [0x85eb_ca6b, 0xc2b2_ae35, 0x27d4_eb2f_u32] {
                x = x.wrapping_add(self.seed).wrapping_mul(odd) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.size {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankway::rankmap::Model;

    #[test]
    fn shuffles_are_permutations() {
        for size in [1, 2, 3, 16, 1000, 1024, 1025] {
            let shuffle = Shuffle::new(size, 7);
            let mut all: Vec<u32> = (0..size).map(|i| shuffle.at(i)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..size), "{size}");
        }
    }

    #[test]
    fn grids_are_cubic_and_full() {
        assert_eq!(grid(786_432), [64, 96, 128]);
        for cells in [2, 3, 7, 64, 1000, 1009, 16 << 20] {
            let [x, y, z] = grid(cells);
            let held = x * y * z;
            assert!(held <= cells && held > cells / 2, "{cells}: {x} {y} {z}");
        }
    }

    #[test]
    fn every_kind_is_its_model_and_has_this_rank() {
        let expected = [
            Model::Direct,
            Model::Offset,
            Model::Stride,
            Model::BlockStride,
            Model::MdBlockStride,
            Model::Segments,
            Model::Lut,
            Model::Lut,
            Model::Mlut,
            Model::Mlut,
        ];
        for processes in [4096, 5000, 65_521] {
            let layout = Layout::new(processes, 16);
            let world = RankMap::direct(processes);
            for (kind, model) in Kind::ALL.into_iter().zip(expected) {
                let (map, rank) = kind.map(&layout, &world, 3).expect("a map");
                assert_eq!(map.model(), model, "{kind:?} of {processes}");
                let me = Process { pg: 0, lpid: layout.me };
                assert_eq!(map.get(rank), Some(me), "{kind:?} of {processes}");
                assert_eq!(map.duplicate(), None, "{kind:?} of {processes}");
            }
        }
    }

    #[test]
    fn small_jobs_have_all_kinds() {
        for processes in 2..70 {
            for per_node in [1, 3, 16] {
                let layout = Layout::new(processes, per_node);
                let world = RankMap::direct(processes);
                for kind in Kind::ALL {
                    let (map, rank) = kind.map(&layout, &world, 0).expect("a map");
                    let me = Process { pg: 0, lpid: layout.me };
                    assert_eq!(map.get(rank), Some(me), "{kind:?} of {processes}");
                }
            }
        }
    }
}
