//! fetch_and_op and compare_and_swap of eight bytes on a mapped window beside the
//! processor's own, in the same process and on the same memory.
//!
//! `cargo bench --bench atomic`; the ratio is raw time through our time. Windows
//! that are not mapped, beside the library's atomics: `rankway operations`.

mod pair;

use self::pair::Result;
use rankway::boot::Boot;
use rankway::device::{self, Options};
use rankway::netmod::Op;
use rankway::rma::{Communicator, Window};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const ROUNDS: usize = 15;
const CALLS: usize = 2_000_000;

fn main() -> ExitCode {
    pair::each(["atomic"], |_, boot| measure(boot))
}

fn measure(boot: Arc<dyn Boot>) -> Result {
    let options = Options::default().provider("shm".to_owned());
    let context = device::open_ofi(boot, &options)?;
    let world = Communicator::world(&context);
    let window = Window::allocate(&world, 64, 8)?;
    window.fence()?;
    if world.rank() == 0 {
        let start = window.mapped(1)?.ok_or("the window is not mapped")?;
        for (name, swap) in [("fetch_and_op", false), ("compare_and_swap", true)] {
            // In turns, so that what else the machine does meets both.
            let (mut ours, mut raw) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                ours = ours.min(timed(|| match swap {
                    false => Ok(window.fetch_and_op(1_u64, Op::Sum, 1, 1).map(drop)?),
                    true => Ok(window.compare_and_swap(0_u64, 0, 1, 2).map(drop)?),
                })?);
                raw = raw.min(processor(start, swap)?);
            }
            println!("{name}: {ours:.1} ns, raw {raw:.1} ns, ratio {:.2}", raw / ours);
        }
    }
    window.fence()?;
    Ok(())
}

/// Nanoseconds a call.
fn timed(mut call: impl FnMut() -> Result) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / CALLS as f64)
}

fn processor(start: *mut u8, swap: bool) -> Result<f64> {
    // SAFETY: words of the peer's part, which is mapped here.
    let cell = |word: usize| unsafe { &*start.cast::<AtomicU64>().add(word) };
    timed(|| {
        if swap {
            let old = cell(2).compare_exchange(0, 0, Ordering::AcqRel, Ordering::Acquire);
            std::hint::black_box(old.is_ok());
        } else {
            std::hint::black_box(cell(1).fetch_add(1, Ordering::AcqRel));
        }
        Ok(())
    })
}
