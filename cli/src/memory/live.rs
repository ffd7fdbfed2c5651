//! What a peer costs in a real job: heap of ours and of the network library,
//! descriptors, locked memory; by rank 0 of forked processes, after it put to and
//! exchanged messages with one peer and after it did with all.

use crate::HEAP;
use crate::output::{Table, text};
use rankway::boot::{Boot, local};
use rankway::device::{self, Context, Options};
use rankway::msg::Messenger;
use rankway::netmod::{self, Netmod};
use rankway::rma::{Communicator, Window};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::Arc;

/// Counts of one process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Count {
    /// Heap of ours, bytes.
    ours: f64,
    /// Heap of everything else in the process, bytes.
    library: f64,
    descriptors: f64,
    /// Bytes locked in memory.
    locked: f64,
}

impl Count {
    fn now() -> Count {
        let ours = HEAP.read().live as f64;
        // SAFETY: only reads the allocator's counters.
        let heap = unsafe { libc::mallinfo2() };
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let locked = status.lines().find_map(|l| l.strip_prefix("VmLck:"));
        let locked = locked.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse().ok());
        Count {
            ours,
            library: (heap.uordblks + heap.hblkhd) as f64 - ours,
            descriptors: std::fs::read_dir("/proc/self/fd").map_or(0.0, |d| d.count() as f64),
            locked: locked.unwrap_or(0.0) * 1024.0,
        }
    }

    fn each(self, before: Count, peers: f64) -> Count {
        Count {
            ours: (self.ours - before.ours) / peers,
            library: (self.library - before.library) / peers,
            descriptors: (self.descriptors - before.descriptors) / peers,
            locked: (self.locked - before.locked) / peers,
        }
    }
}

/// What a peer costs over one network.
#[derive(Serialize)]
pub(super) struct Live {
    network: String,
    ranks: u32,
    /// Each peer rank 0 put to and exchanged messages with, from the second on.
    active: Count,
    /// Each rank of the job beyond half of them, nobody spoken to.
    inactive: Count,
    /// A communicator's set-up channel and a window over it, in all: grows by
    /// the logarithm of the ranks.
    set_up: Count,
}

/// Measures jobs of `ranks` and of half as many.
pub(super) fn measure(network: &str, ranks: u32) -> Result<Live, String> {
    let [quiet, window, one, all] = job(network, ranks)?;
    let half = ranks / 2;
    let [fewer, ..] = job(network, half)?;
    Ok(Live {
        network: network.to_owned(),
        ranks,
        active: all.each(one, f64::from(ranks - 2)),
        inactive: quiet.each(fewer, f64::from(ranks - half)),
        set_up: window.each(quiet, 1.0),
    })
}

/// The counts of rank 0 when its device is open, with a window, after it spoke
/// to one peer, and after it spoke to all.
fn job(network: &str, ranks: u32) -> Result<[Count; 4], String> {
    let body = |boot, _: &mut dyn FnMut(())| {
        let options = Options::default().provider(network.to_owned());
        match netmod::NAMES.contains(&network) {
            true => netmod::by_name(network, Talk(boot)).map_err(text)?,
            false => device::open_ofi(boot, &options).map_err(text).and_then(talk),
        }
    };
    crate::forked::answer(network, &local::Options::new(ranks), body, |()| {})
}

/// Opens the netmod and talks.
struct Talk(Arc<dyn Boot>);

impl netmod::Visit for Talk {
    type Output = Result<Option<[Count; 4]>, String>;

    fn visit<N: Netmod>(self) -> Self::Output {
        device::open_over::<N>(self.0, &Options::default()).map_err(text).and_then(talk)
    }
}

fn talk<N: Netmod>(context: Rc<Context<N>>) -> Result<Option<[Count; 4]>, String> {
    let open = Count::now();
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let mut memory = vec![0_u64; 512];
    // SAFETY: the memory outlives the window.
    let mut window =
        unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 4096, 8) }.map_err(text)?;
    let messenger = Messenger::open(&world).map_err(text)?;
    window.fence().map_err(text)?;
    let before = Count::now();
    let mut one = before;
    let mut word = [0_u8; 8];
    let peers = if me == 0 { 1..size } else { 0..1 };
    for peer in peers {
        // Twice: what grows only once is no peer's.
        for _ in 0..2 {
            if me == 0 {
                window.put(&word, peer, 0).map_err(text)?;
                messenger.send(&word, peer, 1).map_err(text)?;
                messenger.recv(&mut word, peer, 1).map_err(text)?;
            } else {
                messenger.recv(&mut word, peer, 1).map_err(text)?;
                messenger.send(&word, peer, 1).map_err(text)?;
            }
        }
        if peer == 1 {
            window.flush_all().map_err(text)?;
            one = Count::now();
        }
    }
    window.flush_all().map_err(text)?;
    let all = Count::now();
    window.free().map_err(text)?;
    Ok((me == 0).then_some([open, before, one, all]))
}

/// The table for people.
pub(super) fn table(live: &[Live]) -> Table {
    let heads = ["network", "ranks", "peer", "ours\nB", "library\nB", "descriptors\n", "locked\nB"];
    let mut table = Table::new(&heads);
    table.title("One peer in a real job: heap of ours, of the network library, descriptors");
    for l in live {
        for (what, count) in
            [("active", l.active), ("inactive", l.inactive), ("set-up, in all", l.set_up)]
        {
            table.row(&[
                l.network.clone(),
                l.ranks.to_string(),
                what.to_owned(),
                format!("{:.0}", count.ours),
                format!("{:.0}", count.library),
                format!("{:.1}", count.descriptors),
                format!("{:.0}", count.locked),
            ]);
        }
    }
    table
}
