//! Windows and communicators between real processes, bytes checked.

mod jobs;

use jobs::{Result, Scenario, text};
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Communicator, Window};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

fn open(boot: Arc<dyn Boot>) -> Result<Rc<Context<Ofi>>> {
    device::open_ofi(boot, &Options::default()).map_err(text)
}

/// Eight bytes that say who wrote them, to whom and which time.
fn word(from: u32, to: u32, round: u32) -> [u8; 8] {
    (u64::from(from) << 40 | u64::from(to) << 16 | u64::from(round) | 1 << 63).to_le_bytes()
}

/// Every rank puts a word to every rank, in every round; all are checked.
fn all_to_all(window: &Window<Ofi>) -> Result {
    let comm = window.communicator();
    let (me, n) = (comm.rank(), comm.size());
    window.fence().map_err(text)?;
    for round in 0..3 {
        for to in 0..n {
            let at = (round * n + me) as usize;
            window.put(&word(me, to, round), to, at).map_err(text)?;
        }
        window.fence().map_err(text)?;
        for from in 0..n {
            let at = (round * n + from) as usize * 8;
            let mut got = [0; 8];
            window.read_local(at, &mut got).map_err(text)?;
            ensure!(got == word(from, me, round), "round {round}: from {from} came {got:02x?}");
        }
    }
    // Gets see what was put.
    for from in 0..n {
        let mut got = [0; 8];
        window.get(&mut got, from, me as usize).map_err(text)?;
        ensure!(got == word(me, from, 0), "got {got:02x?} from {from}");
    }
    Ok(())
}

fn communicators(world: &Communicator<Ofi>) -> Result<Vec<Communicator<Ofi>>> {
    let (me, n) = (world.rank(), world.size());
    let mut all = vec![world.dup(), world.reversed().map_err(text)?];
    let half = world.split(Some(u32::from(me >= n / 2)), 0).map_err(text)?;
    let odd = world.split(Some(me % 2), 0).map_err(text)?;
    let back = world.split(Some(0), -(me as i32)).map_err(text)?;
    let pairs = world.split(Some(me / 2 % 2), 0).map_err(text)?;
    let shuffled = world.create((0..n).map(|r| (r * 7 + 3) % n).take(n as usize)).ok().flatten();
    all.extend([half, odd, back, pairs, shuffled].into_iter().flatten());
    Ok(all)
}

fn allocated(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    for comm in communicators(&world)? {
        let bytes = comm.size() as usize * 3 * 8;
        let mut window = Window::allocate(&comm, bytes, 8).map_err(text)?;
        all_to_all(&window)?;
        window.free().map_err(text)?;
    }
    Ok(())
}

fn created(boot: Arc<dyn Boot>) -> Result {
    let context = open(boot)?;
    let world = Communicator::world(&context);
    for comm in communicators(&world)? {
        let mut memory = vec![0_u8; comm.size() as usize * 3 * 8];
        // SAFETY: memory outlives the window.
        let window = unsafe { Window::create(&comm, memory.as_mut_ptr(), memory.len(), 8) };
        let mut window = window.map_err(text)?;
        all_to_all(&window)?;
        window.free().map_err(text)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, providers) in [("auto", ""), ("shm", "shm"), ("tcp", "tcp"), ("both", "shm,tcp")] {
        for ranks in [1, 2, 4] {
            let with = |s: Scenario| s.env("RANKWAY_PROVIDER", providers);
            all.push(with(Scenario::new(format!("allocated/{name}/{ranks}"), ranks, allocated)));
            all.push(with(Scenario::new(format!("created/{name}/{ranks}"), ranks, created)));
        }
    }
    for ranks in [4, 6] {
        let name = |what| format!("{what}/two nodes/{ranks}");
        all.push(Scenario::new(name("allocated"), ranks, allocated).nodes(2));
        all.push(Scenario::new(name("created"), ranks, created).nodes(2));
    }
    jobs::main(all)
}
