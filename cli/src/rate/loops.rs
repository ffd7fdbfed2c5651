//! The measured loops: ours, the provider's own, and the VC-VCRT baseline.

use super::issue::{CELLS, Issuer, insist, place};
use super::mixed::{self, Order};
use super::network::{NetworkReport, Row};
use super::raw::Measured;
use super::vc::{Connections, VcWindow};
use super::{Plan, Step};
use crate::fixture::{Fixture, MIXED, MODELS, NULL, Network};
use rankway::netmod::Netmod;
use rankway::rma::{Access, View};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What one measurement should take.
const SLICE: Duration = Duration::from_millis(15);
const LINE: usize = 64;

fn cell_bytes(plan: &Plan) -> usize {
    plan.size.max(LINE).next_power_of_two()
}

/// Bytes of each process's window: the cells, and one word to say goodbye.
pub(super) fn window_bytes(plan: &Plan) -> usize {
    CELLS as usize * cell_bytes(plan) + 8
}

/// Returns true if the loops flush after every `window` puts, since the provider
/// holds a limited number of them. UCX queues by itself, and its own loop
/// flushes once.
pub(super) fn is_flushed(network: &Network) -> bool {
    match network {
        Network::Provider(name) => name != NULL,
        _ => false,
    }
}

/// Returns true if targets have to make progress, or to wait for the end.
fn is_served(plan: &Plan) -> bool {
    plan.network != Network::Provider(NULL.into())
}

/// A loop that issues a number of puts.
type Loop<'a> = Box<dyn FnMut(usize) -> Result<(), String> + 'a>;

/// What a loop issues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The provider's `fi_inject_write`, UCX's `ucp_put_nbx`.
    RawInject,
    /// The provider's `fi_write`.
    RawWrite,
    /// Volatile stores.
    Store,
    /// Puts through virtual connections.
    Vc,
    VcChecked,
    /// Puts through a view of a mapped window.
    View,
    ViewChecked,
    /// Puts through the access of a model, by its place in the plan.
    Put(usize),
    PutChecked(usize),
    /// Puts through many communicators in random order.
    VcMixed,
    VcMixedChecked,
    Mixed,
    MixedChecked,
}

struct Cell<'a> {
    what: What,
    run: Loop<'a>,
    count: usize,
    best: f64,
}

impl<'a> Cell<'a> {
    fn new(what: What, run: impl FnMut(usize) -> Result<(), String> + 'a) -> Cell<'a> {
        Cell { what, run: Box::new(run), count: 0, best: 0.0 }
    }

    /// Measures once; the first time also finds out how many puts to issue.
    fn measure(&mut self, plan: &Plan) -> Result<(), String> {
        if self.count == 0 {
            self.count = plan.iterations.unwrap_or(1024);
            while plan.iterations.is_none() {
                let took = self.time()?;
                if took > SLICE / 4 {
                    let scale = SLICE.as_secs_f64() / took.as_secs_f64();
                    self.count = ((self.count as f64 * scale) as usize).max(plan.window);
                    break;
                }
                self.count *= 4;
            }
        }
        let rate = self.count as f64 / self.time()?.as_secs_f64() / 1e6;
        self.best = self.best.max(rate);
        Ok(())
    }

    fn time(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        (self.run)(self.count)?;
        Ok(start.elapsed())
    }
}

/// Measures every loop of the plan, in turn, round after round, so that
/// whatever else the machine does falls on all alike; the best round counts.
/// `step` hears how many measurements there will be, then of each.
pub(super) fn measure<N: Measured>(
    fixture: &Fixture<N>,
    plan: &Plan,
    step: &mut dyn FnMut(Step),
) -> Result<NetworkReport, String> {
    // A flush of each of many communicators is not what one of one costs.
    let mixes = plan.models.iter().any(|m| m == MIXED) && !is_flushed(&plan.network);
    let models: Vec<&str> = plan.models.iter().map(|m| &**m).filter(|m| *m != MIXED).collect();
    let issuers: Vec<Issuer<N>> =
        models.iter().map(|m| Issuer::new(fixture, m)).collect::<Result<_, _>>()?;
    let many = mixes.then(|| mixed::issuers(fixture)).transpose()?;
    let first = issuers.first().or(many.as_ref().map(|all| &all[0]));
    let first = first.ok_or(
        "mixed: measured where puts need no flush in between: over null or mapped windows",
    )?;
    let mapped = plan.network == Network::Mapped;
    if mapped && !first.is_mapped() {
        return Err("the window's memory could not be mapped by the peers of this node".into());
    }
    let data = &vec![0x5a_u8; plan.size][..];
    let window = if is_flushed(&plan.network) { plan.window } else { usize::MAX };
    let shift = (cell_bytes(plan) / 8).trailing_zeros();
    let beside = fixture.beside.as_ref().map(|w| fixture.access_to(w, MODELS[0])).transpose()?;
    let (raw_targets_of, cell) = (beside.as_ref().unwrap_or(first), cell_bytes(plan));
    let (targets, _) = &raw_targets(raw_targets_of, cell)?;
    let (_, starts) = &raw_targets(first, cell)?;
    let distinct = many.iter().flat_map(mixed::distinct);
    let connections =
        &Connections::new([first].into_iter().chain(distinct).map(|issuer| &**issuer))?;
    let vc = &VcWindow::new(fixture, first, connections)?;
    let vcs = many.as_ref().map(|all| mixed::vc_windows(fixture, all, connections)).transpose()?;
    let order = &Order::new(fixture.ranks);
    let (netmod, endpoint) = fixture.context.endpoint(vc.transport).ok_or("no provider is open")?;
    // Longer puts are tracked writes; then the loops around inject say nothing.
    let short = mapped || plan.size <= netmod.caps().inject_size;
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let key = vc.key;
    if mapped {
        cells.push(Cell::new(What::Store, |n| store_loop(starts, shift, n)));
    }
    if !targets.is_empty() && short {
        // SAFETY: the targets are a window's places, which hold the data, and
        // `data` outlives the loops.
        let run = move |n| unsafe { N::put(endpoint, data, targets, key, n) };
        cells.push(Cell::new(What::RawInject, move |n| run(n).map_err(|e| e.to_string())));
    }
    if !targets.is_empty() && N::TRACKED.is_some() {
        // SAFETY: as above.
        let run = move |n| unsafe { N::tracked(endpoint, data, targets, key, n, plan.window) };
        cells.push(Cell::new(What::RawWrite, move |n| run(n).map_err(|e| e.to_string())));
    }
    if short {
        cells.push(Cell::new(What::Vc, move |n| vc.unchecked(data, n, window, shift)));
        cells.push(Cell::new(What::VcChecked, move |n| vc.checked(data, n, window, shift)));
    }
    if let Some(view) = first.view().map_err(|e| e.to_string())? {
        cells.push(Cell::new(What::View, move |n| view_unchecked(first, view, data, n, shift)));
        cells
            .push(Cell::new(What::ViewChecked, move |n| view_checked(first, view, data, n, shift)));
    }
    for (i, issuer) in issuers.iter().enumerate() {
        cells.push(Cell::new(What::Put(i), move |n| unchecked(issuer, data, n, window, shift)));
        cells
            .push(Cell::new(What::PutChecked(i), move |n| checked(issuer, data, n, window, shift)));
    }
    if let (Some(all), Some(vcs)) = (&many, &vcs) {
        let run = move |n| mixed::vc(vcs, order, n, |vc, rank| vc.issue(data, rank, shift));
        let checked =
            move |n| mixed::vc(vcs, order, n, |vc, rank| vc.issue_checked(data, rank, shift));
        if short {
            cells.extend([Cell::new(What::VcMixed, run), Cell::new(What::VcMixedChecked, checked)]);
        }
        let run = move |n| mixed::unchecked(all, order, data, n, shift);
        let checked = move |n| mixed::checked(all, order, data, n, shift);
        cells.extend([Cell::new(What::Mixed, run), Cell::new(What::MixedChecked, checked)]);
    }
    step(Step::Ahead(cells.len() as u64 * u64::from(plan.rounds)));
    for _ in 0..plan.rounds {
        for cell in &mut cells {
            cell.measure(plan)?;
            step(Step::Done);
        }
    }
    let best = |what| cells.iter().find(|c| c.what == what).map(|c| c.best);
    // The loop that ours is held against: the provider's inject where that is
    // what we call and nothing but the call takes time, its tracked write
    // where a network limits both.
    let inject = best(What::RawInject).filter(|_| !is_flushed(&plan.network));
    let network = inject.or(best(What::RawWrite));
    let reference = best(What::Store).or(network).unwrap_or(f64::NAN);
    let row = |model: &str, [unchecked, checked]: [What; 2], map_bytes| {
        let [unchecked, checked] = [unchecked, checked].map(|what| best(what).unwrap_or(f64::NAN));
        Row {
            model: model.to_owned(),
            unchecked,
            unchecked_ratio: unchecked / reference,
            checked,
            checked_ratio: checked / reference,
            map_bytes,
        }
    };
    let each = models.iter().zip(&issuers).enumerate().map(|(i, (model, issuer))| {
        row(model, [What::Put(i), What::PutChecked(i)], issuer.map().bytes())
    });
    let mixed = many.iter().map(|all| {
        let bytes = all.iter().map(|issuer| issuer.map().bytes()).sum();
        row(MIXED, [What::Mixed, What::MixedChecked], bytes)
    });
    let rows = each.chain(mixed);
    Ok(NetworkReport {
        netmod: plan.netmod.clone(),
        network: plan.name.clone(),
        provider: if mapped { "mapped window".into() } else { netmod.caps().provider.clone() },
        size: plan.size,
        window: is_flushed(&plan.network).then_some(plan.window),
        raw_inject: best(What::RawInject),
        raw_write: best(What::RawWrite),
        store: best(What::Store),
        view: best(What::View),
        view_checked: best(What::ViewChecked),
        vc_vcrt: best(What::Vc),
        vc_vcrt_checked: best(What::VcChecked),
        vc_vcrt_mixed: best(What::VcMixed),
        vc_vcrt_mixed_checked: best(What::VcMixedChecked),
        reference,
        rows: rows.collect(),
    })
}

/// Where each rank's memory is mapped.
type Starts = Vec<*mut u64>;

/// All ranks' targets as raw loops want them.
fn raw_targets<N: Measured>(
    access: &Access<N>,
    cell: usize,
) -> Result<(Vec<N::Target>, Starts), String> {
    let (mut targets, mut starts) = (Vec::new(), Vec::new());
    let mut first = None;
    for rank in 0..access.map().len() {
        let offset = (rank % CELLS) as usize * cell;
        match access.mapped(rank).map_err(|e| e.to_string())? {
            Some(start) => starts.push(start.cast()),
            None => {
                let t = access.raw_target(rank).map_err(|e| e.to_string())?;
                let t = t.ok_or("a rank has no raw target")?;
                // The loops beside ours know one key and one base.
                let raw = if N::KEY_HANDLES { (0, 0) } else { (t.key, t.addr) };
                if *first.get_or_insert(raw) != raw {
                    return Err("this provider's keys or addresses differ between processes, and \
                                the raw loop takes one of each: measure two processes (-n 2)"
                        .into());
                }
                targets.push(N::target(&t, offset as u64));
            }
        }
    }
    Ok((targets, starts))
}

/// Plain volatile stores to the places that the puts go to, through a table of
/// where each rank's memory is mapped: what a program does with the pointers
/// that MPI_Win_shared_query gives.
#[inline(never)]
fn store_loop(starts: &[*mut u64], shift: u32, count: usize) -> Result<(), String> {
    let value = black_box(0x5a5a_5a5a_5a5a_5a5a);
    let mut left = count;
    while left > 0 {
        let chunk = &starts[..starts.len().min(left)];
        for (rank, start) in (0..).zip(chunk) {
            // SAFETY: every rank's memory, mapped, holds all places.
            unsafe { start.add(place(rank, shift)).write_volatile(value) };
        }
        left -= chunk.len();
    }
    Ok(())
}

/// Issues unchecked puts over all ranks in turn.
#[inline(never)]
fn unchecked<N: Netmod>(
    issuer: &Issuer<N>,
    data: &[u8],
    count: usize,
    window: usize,
    shift: u32,
) -> Result<(), String> {
    let (buf, len) = (data.as_ptr(), data.len());
    rounds(issuer, count, window, |rank| {
        let disp = place(rank, shift);
        // SAFETY: rank is in range, every target holds all places, and `data`
        // outlives the flush.
        let rc = unsafe { issuer.put_unchecked(buf, len, rank, disp) };
        if rc == 0 { Ok(()) } else { insist(issuer, data, rank, disp) }
    })
}

/// Issues checked puts over all ranks in turn.
#[inline(never)]
fn checked<N: Netmod>(
    issuer: &Issuer<N>,
    data: &[u8],
    count: usize,
    window: usize,
    shift: u32,
) -> Result<(), String> {
    rounds(issuer, count, window, |rank| {
        // SAFETY: `data` outlives the flush below.
        unsafe { issuer.put_nb(data.as_ptr(), data.len(), rank, place(rank, shift)) }
            .map_err(|e| e.to_string())
    })
}

/// Puts through a view, all ranks in turn.
#[inline(never)]
fn view_unchecked<N: Netmod>(
    issuer: &Issuer<N>,
    view: View<'_, N>,
    data: &[u8],
    count: usize,
    shift: u32,
) -> Result<(), String> {
    rounds(issuer, count, usize::MAX, |rank| {
        // SAFETY: every rank is in range, targets hold all places.
        unsafe { view.put_unchecked(data.as_ptr(), data.len(), rank, place(rank, shift)) };
        Ok(())
    })
}

/// The same with checks.
#[inline(never)]
fn view_checked<N: Netmod>(
    issuer: &Issuer<N>,
    view: View<'_, N>,
    data: &[u8],
    count: usize,
    shift: u32,
) -> Result<(), String> {
    rounds(issuer, count, usize::MAX, |rank| {
        view.put(data, rank, place(rank, shift)).map_err(|e| e.to_string())
    })
}

/// Goes round the ranks, `count` times one, flushing every `window`.
#[inline(always)]
fn rounds<N: Netmod>(
    issuer: &Issuer<N>,
    count: usize,
    window: usize,
    mut put: impl FnMut(u32) -> Result<(), String>,
) -> Result<(), String> {
    let ranks = issuer.map().len();
    let (mut left, mut rank) = (count, 0);
    while left > 0 {
        let mut burst = left.min(window);
        left -= burst;
        while burst > 0 {
            let chunk = burst.min((ranks - rank) as usize);
            for r in rank..rank + chunk as u32 {
                put(r)?;
            }
            rank = (rank + chunk as u32) % ranks;
            burst -= chunk;
        }
        issuer.flush()?;
    }
    Ok(())
}

/// Tells the other processes that the measuring is over.
pub(super) fn release<N: Netmod>(fixture: &Fixture<N>, targets: &[u32]) -> Result<(), String> {
    fixture.window.lock_all().map_err(|e| e.to_string())?;
    let (_, bytes) = fixture.window.local().map_err(|e| e.to_string())?;
    for &rank in targets {
        let goodbye = 1_u64.to_ne_bytes();
        fixture.window.put(&goodbye, rank, bytes / 8 - 1).map_err(|e| e.to_string())?;
    }
    fixture.window.unlock_all().map_err(|e| e.to_string())
}

/// A target's part: progress until it is told goodbye.
pub(super) fn serve<N: Netmod>(fixture: &Fixture<N>, plan: &Plan) -> Result<(), String> {
    let device = fixture.context.device();
    device.watch(0).map_err(|e| e.to_string())?;
    let (_, bytes) = fixture.window.local().map_err(|e| e.to_string())?;
    // Nothing arrives over the network that moves nothing; `free` waits.
    for round in 0_u32.. {
        let left = || device.is_dead(0) || device.has_left(0).unwrap_or(false);
        if !is_served(plan) || (round.is_multiple_of(1024) && left()) {
            break;
        }
        let mut word = [0; 8];
        fixture.window.read_local(bytes - 8, &mut word).map_err(|e| e.to_string())?;
        if word != [0; 8] {
            break;
        }
        for _ in 0..64 {
            fixture.context.progress().map_err(|e| e.to_string())?;
        }
        if plan.network == Network::Mapped {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}
