//! The same misses by the machine's own counters, where it has them.

use crate::fixture::{Fixture, MODELS, NULL, Network};
use rankway::boot::alone::Alone;
use rankway_cli::observe::perf::{self, Counts};
use std::sync::Arc;

/// Communicators of more ranks are not opened for this.
pub(super) const RANKS_MAX: u32 = 1 << 17;
/// Puts that are counted, at least.
const PUTS: u32 = 1 << 20;

/// Misses that the machine counted, of a put to all ranks in turn; loads
/// alone, the null provider's own among them.
#[derive(serde::Serialize)]
pub(super) struct Counted {
    pub(super) model: &'static str,
    pub(super) ranks: u32,
    pub(super) l1d_misses: Option<f64>,
    pub(super) last_misses: Option<f64>,
}

/// Why this machine counts no misses; `None` where it does.
pub(super) fn missing() -> Option<String> {
    let ((), counts) = perf::measure(|| ());
    (counts.l1d_misses.is_none() && counts.last_misses.is_none())
        .then_some(counts.missing.unwrap_or_default())
}

/// Those of unchecked puts through every model's map of these sizes.
pub(super) fn count(sizes: &[u32]) -> Result<Vec<Counted>, String> {
    let mut all = Vec::new();
    for &ranks in sizes.iter().filter(|&&ranks| ranks <= RANKS_MAX) {
        let boot = Arc::new(Alone::new().map_err(|e| e.to_string())?);
        let network = Network::Provider(NULL.into());
        let fixture: Fixture = Fixture::new(boot, &network, ranks, 4096, &[0])?;
        for model in MODELS {
            let access = fixture.access(model)?;
            let buf = 7_u64.to_ne_bytes();
            let rounds = PUTS.div_ceil(ranks);
            let sweep = || {
                (0..ranks).all(|rank| {
                    super::rankway_put_unchecked(&access, buf.as_ptr(), 8, rank, 3) == 0
                })
            };
            let warm = sweep();
            let (done, counts) = perf::measure(|| (0..rounds).all(|_| sweep()));
            access.flush_all().map_err(|e| e.to_string())?;
            if !(warm && done) {
                return Err(format!("{model}: a put to one of {ranks} ranks failed"));
            }
            let Counts { l1d_misses, last_misses, .. } = counts;
            let a_put = |count: u64| count as f64 / (f64::from(rounds) * f64::from(ranks));
            let (l1d_misses, last_misses) = (l1d_misses.map(a_put), last_misses.map(a_put));
            all.push(Counted { model, ranks, l1d_misses, last_misses });
        }
    }
    Ok(all)
}
