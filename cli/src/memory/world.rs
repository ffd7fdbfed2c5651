//! One process of a simulated job, with the real structures, and what they
//! weigh: heap by the counting allocator, address vectors by their pages.

use super::kind::{Kind, Layout};
use crate::HEAP;
use rankway::boot::simulated::Simulated;
use rankway::device::{Context, Device};
use rankway::netmod::null::Null;
use rankway::rankmap::{Model, Process, RankMap};
use rankway::rma::Communicator;
use rankway_cli::observe::memory::resident;
use std::rc::Rc;
use std::sync::Arc;

/// Ranks streamed through detection for one kind before the rest of its
/// communicators is computed instead.
const STREAM_LIMIT: u64 = 1 << 31;
/// Peers inserted between two steps of the progress bar.
const TOUCH_STEP: u32 = 1 << 16;
/// The process group beside the world that [`Kind::Merge`] and [`Kind::Mlut`] name.
const SECOND: u32 = 1;

/// A process of the job.
pub(super) struct World {
    pub(super) layout: Layout,
    communicator: Communicator<Null>,
    /// Heap of the device, its context and the world's communicator.
    pub(super) heap: u64,
    /// Pages of the address vector before any peer was inserted.
    pub(super) av_none: u64,
    /// Of those, pages of the world's table.
    pub(super) table_none: u64,
    /// After [`World::touch`].
    pub(super) touched: Option<Touched>,
    /// The second process group, once a kind needed it.
    second: Option<Second>,
}

/// What inserting peers added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    /// Peers inserted.
    pub(super) peers: u32,
    /// Pages of the address vector, directory included, in bytes.
    pub(super) av: u64,
    /// Of those, pages of the world's table.
    pub(super) table: u64,
    /// Heap: what is kept about peers on the node.
    pub(super) heap: u64,
}

/// A process group beside the world.
#[derive(Clone, Copy, Debug)]
struct Second {
    heap: u64,
    av_none: u64,
    av_touched: u64,
}

/// A kind, measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) kind: Kind,
    /// What detection found.
    pub(super) model: Model,
    /// Ranks of the first communicator.
    pub(super) ranks: u32,
    /// Communicators that were made.
    pub(super) built: u32,
    /// Heap of those, the structures themselves included.
    pub(super) built_bytes: u64,
    /// Bytes of all communicators asked for; computed from the built ones
    /// where those are fewer.
    pub(super) all_bytes: u64,
    /// The process, this kind's communicators included, before any peer was
    /// inserted, and after.
    pub(super) total_none: u64,
    pub(super) total_touched: Option<u64>,
}

impl Measured {
    /// Bytes of one communicator.
    pub(super) fn each(&self) -> f64 {
        self.built_bytes as f64 / f64::from(self.built.max(1))
    }
}

fn live() -> u64 {
    HEAP.read().live as u64
}

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl World {
    /// Opens the device of rank `layout.me`.
    pub(super) fn open(layout: Layout) -> Result<World, String> {
        let boot = Simulated::new(layout.processes, layout.me, layout.per_node).map_err(say)?;
        let boot = Arc::new(boot);
        let before = live();
        let context = Device::open(boot, Some(Null::open()), Some(Null::open()), false);
        let context: Rc<Context<Null>> = context.map_err(say)?;
        let communicator = Communicator::world(&context);
        drop(context);
        let heap = live() - before + size_of_val(&communicator) as u64;
        let av_none = pages(communicator.device())?;
        let table_none = group_pages(communicator.device(), 0)?;
        Ok(World { layout, communicator, heap, av_none, table_none, touched: None, second: None })
    }

    /// Bytes of the device's tables rank → node and rank → rank on its node.
    pub(super) fn node_tables(&self) -> u64 {
        let device = self.communicator.device();
        (device.nodes().bytes() + device.node_ranks().bytes()) as u64
    }

    /// Makes communicators of a kind, at most `budget` bytes of them, and
    /// weighs them.
    pub(super) fn measure(
        &mut self,
        kind: Kind,
        communicators: u32,
        budget: u64,
        mut step: impl FnMut(u32),
    ) -> Result<Measured, String> {
        let second = if kind.is_of_two() { Some(self.second()?) } else { None };
        let world = self.communicator.map();
        let make = |nth| -> Result<Communicator<Null>, String> {
            if kind == Kind::Direct {
                return Ok(self.communicator.dup());
            }
            let (map, rank) = kind.map(&self.layout, world, nth).map_err(say)?;
            let map = map.held_as(self.communicator.map_strategy()).map_err(say)?;
            Ok(self.communicator.with_map(map, rank))
        };

        // The first shows what each costs, and so how many can be made.
        let before = live();
        let first = make(0)?;
        let one = live() - before + size_of_val(&first) as u64;
        let (model, ranks) = (first.map().model(), first.size());
        drop(first);
        let streamed = if kind == Kind::Direct { 1 } else { u64::from(ranks.max(1)) };
        let most = (budget / one).min(STREAM_LIMIT / streamed).max(1);
        let built = communicators.min(u32::try_from(most).unwrap_or(u32::MAX));

        let before = live();
        let mut all = Vec::with_capacity(built as usize);
        let mut built_bytes = live() - before;
        for nth in 0..built {
            let before = live();
            all.push(make(nth)?);
            built_bytes += live() - before;
            step(nth + 1);
        }
        let all_bytes = if built == communicators {
            built_bytes
        } else {
            (built_bytes as f64 / f64::from(built) * f64::from(communicators)).round() as u64
        };
        drop(all);

        let (extra_none, extra_touched) =
            second.map_or((0, 0), |s| (s.heap + s.av_none, s.heap + s.av_touched));
        let base = self.heap + all_bytes;
        Ok(Measured {
            kind,
            model,
            ranks,
            built,
            built_bytes,
            all_bytes,
            total_none: base + self.av_none + extra_none,
            total_touched: self.touched.map(|t| base + t.av + t.heap + extra_touched),
        })
    }

    /// Inserts `peers` of the world's processes, evenly spread.
    pub(super) fn touch(&mut self, peers: u32, mut step: impl FnMut(u32)) -> Result<(), String> {
        let mut heap = 0;
        let mut done = 0;
        while done < peers {
            let end = peers.min(done + TOUCH_STEP);
            let before = live();
            self.connect(0, self.layout.processes, peers, done..end)?;
            heap += live() - before;
            done = end;
            step(done);
        }
        let av = pages(self.communicator.device())?;
        let table = group_pages(self.communicator.device(), 0)?;
        self.touched = Some(Touched { peers, av, table, heap });
        Ok(())
    }

    /// Adds the second process group: half as many processes as the world has,
    /// played by the world's, and inserts the same share of them.
    fn second(&mut self) -> Result<Second, String> {
        if let Some(second) = self.second {
            return Ok(second);
        }
        let device = Arc::clone(self.communicator.device());
        let size = self.layout.processes / 2;
        let before = live();
        let members = RankMap::affine(0, 0, 1, size).map_err(say)?;
        let pg = device.add_group(members).map_err(say)?;
        let heap = live() - before;
        if pg != SECOND {
            return Err(format!("the second process group has id {pg} instead of {SECOND}"));
        }
        let av_none = group_pages(&device, pg)?;
        if let Some(touched) = self.touched {
            let share = u64::from(size) * u64::from(touched.peers);
            let peers = share.div_ceil(u64::from(self.layout.processes)) as u32;
            self.connect(pg, size, peers, 0..peers)?;
        }
        let second = Second { heap, av_none, av_touched: group_pages(&device, pg)? };
        self.second = Some(second);
        Ok(second)
    }

    /// Inserts the peers with these numbers out of `peers` spread over a group.
    fn connect(
        &self,
        pg: u32,
        size: u32,
        peers: u32,
        numbers: std::ops::Range<u32>,
    ) -> Result<(), String> {
        let context = self.communicator.context();
        for number in numbers {
            let lpid = (u64::from(number) * u64::from(size) / u64::from(peers)) as u32;
            context.connect(Process { pg, lpid }).map_err(say)?;
        }
        Ok(())
    }
}

/// Bytes of one process group's table that are really there.
fn group_pages(device: &Device<Null>, pg: u32) -> Result<u64, String> {
    // The directory's range comes first.
    let range = device.av().ranges().get(pg as usize + 1).copied();
    let (start, len) = range.ok_or_else(|| format!("process group {pg} has no table"))?;
    resident(start, len).map(|bytes| bytes as u64).map_err(uncounted)
}

fn uncounted(error: std::io::Error) -> String {
    format!("cannot count the address vector's pages: {error}")
}

/// Bytes of the address vector that are really there, directory included.
pub(crate) fn pages(device: &Device<Null>) -> Result<u64, String> {
    let mut bytes = 0;
    for (start, len) in device.av().ranges() {
        bytes += resident(start, len).map_err(uncounted)? as u64;
    }
    Ok(bytes)
}
