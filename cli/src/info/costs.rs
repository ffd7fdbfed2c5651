//! What operations cost over each provider, by which noncontiguous data travels:
//! measured between two forked processes of this machine, and kept for it.

use crate::output::text;
use indicatif::ProgressBar;
use rankway::boot::{Boot, local};
use rankway::datatype::{Basic, Layout};
use rankway::device::{self, Options};
use rankway::netmod::node::{self, Node};
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::Ucx;
use rankway::netmod::{self, Costs, Netmod};
use rankway::rma::{Communicator, Window};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// What a choice goes by of one provider, nanoseconds.
#[derive(Serialize)]
pub(super) struct ProviderCosts {
    pub(super) provider: String,
    pub(super) call_ns: f64,
    pub(super) origin_entry_ns: f64,
    pub(super) target_entry_ns: f64,
    pub(super) byte_ns: f64,
    /// `measured` on this host, or `assumed`.
    pub(super) from: &'static str,
    /// Where what was measured now is kept, if it was.
    pub(super) kept: Option<String>,
    /// Why it was not measured, or is not kept.
    pub(super) error: Option<String>,
}

/// Of the node's own, libfabric's `providers` by name, and UCX if it is there.
/// Measured where there is a bar to show it.
pub(super) fn look(
    providers: &[&str],
    ucx: bool,
    measured: Option<&ProgressBar>,
) -> Vec<ProviderCosts> {
    let ucx = ucx.then_some(Ucx::NAME);
    let names = std::iter::once(node::NAME).chain(providers.iter().copied()).chain(ucx);
    let look = |name| {
        if let Some(bar) = measured {
            bar.set_message(format!("measuring over {name}"));
            bar.tick();
        }
        of(name, measured.is_some())
    };
    names.map(look).collect()
}

fn of(provider: &str, again: bool) -> ProviderCosts {
    let (mut kept, mut error) = (None, None);
    if again {
        match measured(provider).and_then(|costs| costs.keep(provider).map_err(text)) {
            Ok(file) => kept = Some(file.display().to_string()),
            Err(why) => error = Some(why),
        }
    }
    let Costs { call, origin_entry, target_entry, byte, .. } = netmod::costs(provider);
    ProviderCosts {
        provider: provider.into(),
        call_ns: call,
        origin_entry_ns: origin_entry,
        target_entry_ns: target_entry,
        byte_ns: byte,
        from: if Costs::is_kept(provider) { "measured" } else { "assumed" },
        kept,
        error,
    }
}

impl ProviderCosts {
    /// Name and values, for people.
    pub(super) fn row(&self) -> [String; 2] {
        let mut costs = format!(
            "{:.0} ns a call, {:.0} / {:.0} a block of the origin / target in it, {:.3} a byte ({}",
            self.call_ns, self.origin_entry_ns, self.target_entry_ns, self.byte_ns, self.from
        );
        match (&self.kept, &self.error) {
            (Some(file), _) => costs += &format!(", kept in {file})"),
            (None, Some(error)) => costs += &format!(", not anew: {error})"),
            (None, None) => costs += "; --calibrate measures anew)",
        }
        [self.provider.clone(), costs]
    }
}

/// Bytes of the window, the blocks of a transfer and the bytes of a block: more than
/// a packet takes.
const BYTES: usize = 4 << 20;
const BLOCKS: usize = 1024;
const BLOCK: usize = 64;
const ROUNDS: usize = 15;

/// Times by one method, ns.
type Times = [f64; 4];

fn measured(provider: &str) -> Result<Costs, String> {
    let known = netmod::costs(provider);
    let [flush, long, columns, _] = job(provider, "blocks")?;
    let byte = ((long - flush) / BYTES as f64).max(0.0);
    let bytes = (BLOCKS * BLOCK) as f64 * byte;
    let call = ((columns - flush - bytes) / BLOCKS as f64).max(1.0);
    let mut costs = Costs { call, byte, ..known };
    // (Elsewhere each block is a call.)
    let entries = known.entries as usize;
    if entries > 1 {
        let [flush, _, origin, target] = job(provider, "iov")?;
        let calls = BLOCKS.div_ceil(entries) as f64;
        let entry =
            |time: f64| ((time - flush - bytes - calls * call) / (BLOCKS as f64 - calls)).max(0.0);
        (costs.origin_entry, costs.target_entry) = (entry(origin), entry(target));
    }
    Ok(costs)
}

/// Two processes that put over one provider, by a method.
fn job(provider: &str, method: &'static str) -> Result<Times, String> {
    let options = local::Options::new(2);
    let body = |boot: Arc<dyn Boot>, _: &mut dyn FnMut(())| {
        // SAFETY: this process was forked just now, and has one thread.
        unsafe { std::env::set_var("RANKWAY_TRANSFER", method) };
        let by_name = Options::default().provider(provider.to_owned());
        match provider {
            node::NAME => times::<Node>(boot, &Options::default()),
            Ucx::NAME => times::<Ucx>(boot, &Options::default()),
            _ => times::<Ofi>(boot, &by_name),
        }
    };
    crate::forked::answer(provider, &options, body, |()| {})
}

fn times<N: Netmod>(boot: Arc<dyn Boot>, options: &Options) -> Result<Option<Times>, String> {
    let context = device::open_over::<N>(boot, options).map_err(text)?;
    let world = Communicator::world(&context);
    let mut memory = vec![0_u64; BYTES / 8];
    let start = memory.as_mut_ptr().cast();
    // SAFETY: the memory outlives the window.
    let mut window = unsafe { Window::create(&world, start, BYTES, 1) }.map_err(text)?;
    window.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let mut times = None;
    if world.rank() == 0 {
        times = Some(of_window(&window).map_err(text)?);
    }
    world.barrier().map_err(text)?;
    window.unlock_all().map_err(text)?;
    window.free().map_err(text)?;
    Ok(times)
}

/// A short put and its flush, a long one, blocks of the origin, blocks of the target.
fn of_window<N: Netmod>(window: &Window<N>) -> Result<Times, Box<dyn std::error::Error>> {
    let data = vec![7_u8; BYTES];
    let byte = Layout::basic(Basic::U8);
    let blocks = Layout::vector(BLOCKS as u64, BLOCK as u64, 2 * BLOCK as i64, &byte)?;
    let whole = Layout::contiguous((BLOCKS * BLOCK) as u64, &byte)?;
    let short = Layout::contiguous(8, &byte)?;
    let long = Layout::contiguous(BYTES as u64, &byte)?;
    let mut times = [f64::MAX; 4];
    let transfers = [(&short, &short), (&long, &long), (&blocks, &whole), (&whole, &blocks)];
    for (time, (from, to)) in times.iter_mut().zip(transfers) {
        for _ in 0..ROUNDS {
            let start = Instant::now();
            // SAFETY: the data stay until the flush.
            unsafe { window.put_layout_nb(data.as_ptr(), from, 1, 0, to) }?;
            window.flush(1)?;
            *time = time.min(start.elapsed().as_secs_f64() * 1e9);
        }
    }
    Ok(times)
}
