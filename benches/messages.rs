//! Messages of 4 MiB with a layout at one end or both, between two processes of
//! this machine, beside the contiguous message of the same bytes and beside what a
//! program does without layouts: pack all, send, unpack all.
//!
//! `cargo bench --bench messages` goes between processes of a node; `-- tcp` (or
//! another provider) through that, as between nodes. Wall time, the best of many
//! rounds that take turns; RANKWAY_TRANSFER makes another choice.

mod pair;

use self::pair::Result;
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout};
use rankway::device::{self, Medium, Options, explain};
use rankway::msg::Messenger;
use rankway::netmod::costs;
use rankway::rma::Communicator;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const BYTES: usize = 4 << 20;
const ROUNDS: usize = 25;

fn main() -> ExitCode {
    let provider = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if provider.is_some() {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::set_var("RANKWAY_NODE_QUEUES", "0") };
    }
    let name = provider.as_deref().unwrap_or("node");
    pair::each([name], |_, boot| measure(boot, provider.clone()))
}

/// So many blocks of so many doubles as the message has, each with a gap of its
/// length behind it.
fn blocks(doubles: u64) -> Result<Layout> {
    let count = BYTES as u64 / 8 / doubles;
    Ok(Layout::vector(count, doubles, 2 * doubles as i64, &Layout::basic(Basic::F64))?)
}

/// The columns of a matrix.
fn transpose() -> Result<Layout> {
    let (columns, rows) = (512, BYTES as u64 / 8 / 512);
    let column = Layout::vector(rows, 1, columns as i64, &Layout::basic(Basic::F64))?;
    Ok(Layout::hvector(columns, 1, 8, &column)?)
}

fn measure(boot: Arc<dyn Boot>, provider: Option<String>) -> Result {
    let options = provider.iter().fold(Options::default(), |o, p| o.provider(p.clone()));
    let context = device::open_ofi(boot, &options)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world)?;
    let me = world.rank();
    let medium = provider.as_deref().map_or(Medium::Node, |p| Medium::Provider(costs(p)));
    let plain = Layout::contiguous(BYTES as u64 / 8, &Layout::basic(Basic::F64))?;
    if me == 0 {
        println!(
            "pattern                ends      contiguous us   ours us   ratio   packed us   ratio   predicted"
        );
    }
    let mut patterns = vec![("transpose".to_owned(), transpose()?)];
    for doubles in [1, 8, 64, 512, 4096, 65_536] {
        patterns.push((format!("blocks of {doubles} doubles"), blocks(doubles)?));
    }
    for (name, layout) in &patterns {
        for (ends, out, into) in
            [("sender", layout, &plain), ("receiver", &plain, layout), ("both", layout, layout)]
        {
            let mut memory: Vec<u8> = (0..2 * BYTES + 64).map(|i| i as u8).collect();
            let (mut staging, layouts) = (vec![0; BYTES], [out, into]);
            let mut best = [f64::MAX; 3];
            for round in 0..ROUNDS * best.len() {
                let variant = round % best.len();
                world.barrier()?;
                let start = Instant::now();
                // There and back, so that both clocks agree.
                for turn in 0..2 {
                    exchange(&m, &mut memory, &mut staging, layouts, (variant, turn == me))?;
                }
                best[variant] = best[variant].min(start.elapsed().as_secs_f64() * 1e6 / 2.0);
            }
            if me == 0 {
                let [contiguous, ours, packed] = best;
                let told = explain(into, out, medium);
                println!(
                    "{name:22} {ends:9} {contiguous:13.0} {ours:9.0} {:7.2} {packed:11.0} {:7.2}   {}",
                    contiguous / ours,
                    packed / ours,
                    told.method.name(),
                );
            }
        }
    }
    world.barrier()?;
    Ok(())
}

/// One message: contiguous, by layouts, or packed whole by the program.
fn exchange(
    m: &Messenger<'_, rankway::netmod::ofi::Ofi>,
    memory: &mut [u8],
    staging: &mut [u8],
    [out, into]: [&Layout; 2],
    (variant, sends): (usize, bool),
) -> Result {
    let peer = 1 - m.communicator().rank();
    match (variant, sends) {
        (0, true) => m.send(&memory[..BYTES], peer, 0)?,
        (0, false) => {
            m.recv(&mut memory[..BYTES], peer, 0)?;
        }
        (1, true) => {
            // SAFETY: the memory holds the layout, and is borrowed until the wait ends.
            unsafe { m.isend_layout(memory.as_ptr(), out, peer, 0)? }.wait()?;
        }
        (1, false) => {
            // SAFETY: as above.
            unsafe { m.irecv_layout(memory.as_mut_ptr(), into, peer, 0)? }.wait()?;
        }
        (_, true) => {
            out.pack(memory, 0, 0, staging)?;
            m.send(staging, peer, 0)?;
        }
        (_, false) => {
            m.recv(staging, peer, 0)?;
            into.unpack(memory, 0, 0, staging)?;
        }
    }
    Ok(())
}
