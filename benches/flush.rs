//! The flush of all by the size of the job: puts to the 26 neighbours of a 3-D grid,
//! then `flush_all`, in one process of a simulated job over the null netmod.
//!
//! `cargo bench --no-default-features --features device --bench flush`
//!
//! Times are processor time, the least of many rounds. What should not grow with the
//! job stands beside it for the smallest job, whose ranks each have a mark of their own.

mod clock;

use self::clock::least;
use rankway::boot::simulated::Simulated;
use rankway::device::Device;
use rankway::netmod::null::Null;
use rankway::rankmap::RankMap;
use rankway::rma::{Access, Assert, Communicator, Window};
use std::error::Error;
use std::sync::Arc;

const ROUNDS: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>9}  {:>10}  {:>14}  {:>9}", "processes", "neighbours", "us a round", "to the 1st");
    let mut first = None;
    for side in [6, 16, 32, 64, 100] {
        let (peers, time) = measure(side)?;
        let ratio = time / *first.get_or_insert(time);
        println!("{:>9}  {peers:>10}  {:>14.2}  {ratio:>9.2}", side * side * side, time / 1e3);
    }
    Ok(())
}

/// Neighbours, and nanoseconds of a round: a put to each and a flush of all.
fn measure(side: u32) -> Result<(usize, f64), Box<dyn Error>> {
    let (size, middle) = (side * side * side, side / 2);
    let me = (middle * side + middle) * side + middle;
    let boot = Arc::new(Simulated::new(size, me, 1)?);
    let context = Device::open(boot, Some(Null::open()), None, false)?;
    let own = Communicator::with_id(&context, RankMap::affine(0, me, 1, 1)?, 0, 5);
    let mut memory = [0_u64; 8];
    // SAFETY: the memory outlives the window.
    let window = unsafe { Window::create(&own, memory.as_mut_ptr().cast(), 64, 8) }?;
    let access = Access::open(&window.state()?, &context, &RankMap::direct(size))?;
    access.lock_all_with(Assert::NOCHECK)?;
    let step = |at: u32, by: u32| at + by - 1;
    let cube = (0..27).filter(|&n| n != 13).map(|n| {
        let (x, y, z) = (n % 3, n / 3 % 3, n / 9);
        (step(middle, z) * side + step(middle, y)) * side + step(middle, x)
    });
    let neighbours: Vec<u32> = cube.collect();
    let mut failed = Ok(());
    let time = least(ROUNDS, || {
        let put = |&rank| access.put(&[1; 8], rank, 0);
        let flushed = neighbours.iter().try_for_each(put).and_then(|()| access.flush_all());
        if failed.is_ok() {
            failed = flushed;
        }
    });
    failed?;
    access.unlock_all()?;
    Ok((neighbours.len(), time))
}
