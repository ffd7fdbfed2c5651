//! Epochs towards a process of the node that makes no progress: it computes until the
//! others, which have locked, posted to and completed, tell it to go on.

use super::*;
use rankway::rma::{Assert, Lock};

/// The rank that computes. It is the first, whose words lock_all and exclusive locks
/// take.
const ABSENT: u32 = 0;

pub fn epochs<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let mut w = make::<N, KIND>(&world, 64, 8)?;
    towards_absent(&world, &w)?;
    w.free().map_err(text)
}

pub fn dynamic_epochs<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let mut w = Window::dynamic(&world).map_err(text)?;
    towards_absent(&world, &w)?;
    w.free().map_err(text)
}

fn towards_absent<N: Netmod>(world: &Communicator<N>, w: &Window<N>) -> Result {
    const ROUNDS: u32 = 50;
    let (me, n) = (world.rank(), world.size());
    let others: Vec<u32> = (0..n).filter(|&rank| rank != ABSENT).collect();
    // Mapped memory, which is read and written without progress.
    let mut ready = Window::allocate(world, 8 * n as usize, 8).map_err(text)?;
    ready.lock_all().map_err(text)?;
    if me == ABSENT {
        w.post(&others, Assert::NONE).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    if me == ABSENT {
        let is_ready = |rank: u32| own(&ready).map(|all| all[8 * rank as usize] == 1);
        for &rank in &others {
            while !is_ready(rank)? {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        // All have completed: that is there without more progress of theirs.
        w.wait().map_err(text)?;
    } else {
        for round in 0..ROUNDS {
            for kind in [Lock::Shared, Lock::Exclusive] {
                w.lock(kind, ABSENT, Assert::NONE).map_err(text)?;
                let other = others[round as usize % others.len()];
                if kind == Lock::Shared && other != me {
                    w.lock(kind, other, Assert::NONE).map_err(text)?;
                    w.unlock(other).map_err(text)?;
                }
                w.unlock(ABSENT).map_err(text)?;
            }
            w.lock_all().map_err(text)?;
            w.unlock_all().map_err(text)?;
        }
        w.start(&[ABSENT], Assert::NONE).map_err(text)?;
        w.complete().map_err(text)?;
        ready.put(&[1; 8], ABSENT, me as usize).map_err(text)?;
        ready.flush(ABSENT).map_err(text)?;
    }
    ready.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    ready.free().map_err(text)
}
