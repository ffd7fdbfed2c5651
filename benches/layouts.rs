//! Puts with a layout at the origin or the target beside contiguous puts of as many
//! bytes, between two processes of this machine, in the same run.
//!
//! `cargo bench --bench layouts`: over mapped windows, over libfabric's shm and over
//! tcp. The ratio is the contiguous put's time through the layout's; beside it stand
//! the method taken, how long packing alone takes, in the contiguous put's time, and
//! the time of the same copy between two memories of one process through the put's:
//! near 1 the memory is the limit. `-- shm` (or mapped, tcp) measures that alone.

mod pair;

use self::pair::Result;
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout, LayoutError, Order};
use rankway::device::{self, Options};
use rankway::rma::{Communicator, Window};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 12;
/// Elements along a side of the matrix, and of the cube.
const MATRIX: u64 = 1024;
const CUBE: u64 = 128;
/// The cube is the larger of the two.
const BYTES: usize = (CUBE * CUBE * CUBE * 8) as usize;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let asked = |name: &&str| named.is_empty() || named.iter().any(|other| other == name);
    pair::each(["mapped", "shm", "tcp"].into_iter().filter(asked), measure)
}

/// What is put: at the origin, at the target.
fn patterns() -> std::result::Result<Vec<(&'static str, Layout, Layout)>, LayoutError> {
    let f64s = Layout::basic(Basic::F64);
    let flat = |layout: &Layout| Layout::contiguous(layout.size() / 8, &f64s);
    let column = Layout::vector(MATRIX, 1, MATRIX as i64, &f64s)?;
    let columns = Layout::vector(MATRIX, 16, MATRIX as i64, &f64s)?;
    let transpose = Layout::contiguous(MATRIX, &column.resized(0, 8)?)?;
    let side = |part| (CUBE, part, 0);
    let face = |part: [u64; 3]| Layout::subarray(&part.map(side), Order::C, &f64s);
    let (near, thick) = (face([CUBE, 1, CUBE])?, face([CUBE, CUBE, 8])?);
    let mut all = Vec::new();
    for (name, layout) in [
        ("column", column),
        ("16 columns", columns),
        ("face", near),
        ("side of 8", thick),
        ("transpose", transpose),
    ] {
        let other = flat(&layout)?;
        all.push((name, layout.clone(), other.clone()));
        all.push((name, other, layout));
    }
    Ok(all)
}

fn measure(name: &str, boot: Arc<dyn Boot>) -> Result {
    let (provider, mapped) = match name {
        "mapped" => ("shm", true),
        "shm" => ("shm", false),
        _ => ("tcp;ofi_rxm", false),
    };
    let options = Options::default().provider(provider.to_owned());
    let context = device::open_ofi(boot, &options)?;
    let world = Communicator::world(&context);
    let mut memory = vec![0_u8; BYTES];
    let window = match mapped {
        true => Window::allocate(&world, BYTES, 1)?,
        // SAFETY: the memory outlives the window.
        false => unsafe { Window::create(&world, memory.as_mut_ptr(), BYTES, 1)? },
    };
    window.fence()?;
    if world.rank() == 0 {
        let data: Vec<u8> = (0..BYTES).map(|i| (i * 7 % 251) as u8).collect();
        let (mut packed, mut moved) = (vec![0; BYTES], vec![0; BYTES]);
        for (what, origin, target) in patterns()? {
            let all = Layout::contiguous(origin.size(), &Layout::basic(Basic::U8))?;
            let put = |from: &Layout, to: &Layout| -> Result<f64> {
                let start = Instant::now();
                window.put_layout(&data, 0, from, 1, 0, to)?;
                window.flush(1)?;
                Ok(start.elapsed().as_secs_f64())
            };
            // In turns, so that what else the machine does meets all.
            let (mut ours, mut flat) = (f64::MAX, f64::MAX);
            let (mut alone, mut inside) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                flat = flat.min(put(&all, &all)?);
                ours = ours.min(put(&origin, &target)?);
                let start = Instant::now();
                origin.pack(&data, 0, 0, &mut packed[..origin.size() as usize])?;
                alone = alone.min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                origin.copy_to((&data, 0), &target, (&mut moved, 0), 0..origin.size())?;
                inside = inside.min(start.elapsed().as_secs_f64());
            }
            let mut back = vec![0; origin.size() as usize];
            window.get_layout(&mut back, 0, &all, 1, 0, &target)?;
            if back != packed[..back.len()] {
                return Err(format!("{what}: what was put is not there").into());
            }
            let side = if origin.blocks() > 1 { "origin" } else { "target" };
            let method = window.explain_layout(&origin, 1, &target)?.method;
            println!(
                "{name:6} {what:10} at the {side}: {:6.2} GB/s, contiguous {:6.2} GB/s, ratio {:.2} \
                 ({}; packing alone {:.2}; {:.2} of the same copy in one process)",
                all.size() as f64 / ours / 1e9,
                all.size() as f64 / flat / 1e9,
                flat / ours,
                method.name(),
                alone / flat,
                inside / ours,
            );
        }
    }
    window.fence()?;
    drop(window);
    Ok(())
}
