//! The netmods' own loops, which ours are held against, and what differs
//! between the netmods that have some.

use super::network::NetworkReport;
use crate::fixture::{NULL, Network};
use rankway::netmod::ofi::{self, Ofi};
use rankway::netmod::ucx::{self, Ucx};
use rankway::netmod::{NetError, Netmod};
use rankway::rma::RawTarget;

/// A netmod with loops of its own.
pub(crate) trait Measured: Netmod {
    /// A target as they know it.
    type Target: Copy;
    /// The call of its loop of tracked puts, if there is one.
    const TRACKED: Option<&'static str>;
    /// Networks that are measured where none is named.
    const NETWORKS: &'static [&'static str];

    /// The network of this name.
    fn network_called(name: &str) -> Result<Network, String>;

    /// The figures to reach on a network: what is held against what, the figure
    /// and the least that it should be.
    fn figures(report: &NetworkReport) -> Vec<(&'static str, f64, f64)>;

    /// A place in a target's memory, `offset` bytes from its start.
    fn target(raw: &RawTarget, offset: u64) -> Self::Target;

    /// Issues `count` puts that are copied at the call, in turn.
    ///
    /// # Safety
    /// As [`Netmod::inject`], for every target.
    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
    ) -> Result<(), NetError>;

    /// Issues `count` tracked puts, `window` of them at a time.
    ///
    /// # Safety
    /// As [`Netmod::write`], for every target.
    unsafe fn tracked(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError>;
}

impl Measured for Ofi {
    type Target = ofi::baseline::Target;
    const TRACKED: Option<&'static str> = Some("fi_write");
    const NETWORKS: &'static [&'static str] = &["null", "mapped", "shm"];

    fn network_called(name: &str) -> Result<Network, String> {
        Ok(match name {
            "mapped" => Network::Mapped,
            "null" => Network::Provider(NULL.into()),
            provider => Network::Provider(provider.into()),
        })
    }

    fn figures(report: &NetworkReport) -> Vec<(&'static str, f64, f64)> {
        let unchecked = report.best_affine(|row| row.unchecked_ratio);
        let checked = report.best_affine(|row| row.checked_ratio);
        let generations = report.generations(|row| row.unchecked);
        match report.network.as_str() {
            "null" => vec![
                ("null provider, unchecked / fi_inject_write loop", unchecked, 0.75),
                ("null provider, checked / fi_inject_write loop", checked, 0.55),
                ("null provider, gen1 to gen4, slowest / fastest", generations, 0.97),
                ("null provider, mixed / vc-vcrt, mixed", report.mixed(), 0.9),
            ],
            "shm" => vec![("shm, checked / fi_write loop", checked, 0.95)],
            "mapped" => {
                let view = report.view.map_or(f64::NAN, |v| v / report.reference);
                vec![("mapped window, view / store loop", view, 0.4)]
            }
            _ => Vec::new(),
        }
    }

    fn target(raw: &RawTarget, offset: u64) -> Self::Target {
        ofi::baseline::Target { dest: raw.dest, addr: raw.addr + offset }
    }

    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [LIMIT] for every target, [BUF]: `data` outlives the call.
        unsafe { endpoint.library()?.raw_inject(data.as_ptr(), data.len(), targets, key, count) }
    }

    unsafe fn tracked(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [LIMIT] for every target, [BUF]: `data` stays until all is complete.
        unsafe {
            endpoint.library()?.raw_write(data.as_ptr(), data.len(), targets, key, count, window)
        }
    }
}

impl Measured for Ucx {
    type Target = ucx::baseline::Target;
    const TRACKED: Option<&'static str> = None;
    const NETWORKS: &'static [&'static str] = &["mapped", "shm"];

    fn network_called(name: &str) -> Result<Network, String> {
        match name {
            "mapped" => Ok(Network::Mapped),
            "shm" => Ok(Network::Provided),
            "created" => Ok(Network::Created),
            other => Err(format!(
                "no network of the ucx netmod is called {other}; it has mapped, shm and created, \
                 and UCX_TLS chooses transports"
            )),
        }
    }

    fn figures(report: &NetworkReport) -> Vec<(&'static str, f64, f64)> {
        match report.network.as_str() {
            "shm" => {
                let unchecked = report.best_affine(|row| row.unchecked_ratio);
                vec![("UCX, allocated window, unchecked / ucp_put_nbx loop", unchecked, 0.9)]
            }
            "mapped" => {
                let raw = report.raw_inject.unwrap_or(f64::NAN);
                let put = report.best_affine(|row| row.unchecked) / raw;
                vec![("mapped window, unchecked / ucp_put_nbx loop", put, 3.0)]
            }
            _ => Vec::new(),
        }
    }

    fn target(raw: &RawTarget, offset: u64) -> Self::Target {
        ucx::baseline::Target { dest: raw.dest, addr: raw.addr + offset, key: raw.key }
    }

    unsafe fn put(
        endpoint: &Self::Endpoint,
        data: &[u8],
        targets: &[Self::Target],
        _: u64,
        count: usize,
    ) -> Result<(), NetError> {
        // SAFETY: [DEST], [KEY] for every target, [BUF]: `data` outlives the call.
        unsafe { endpoint.raw_put(data.as_ptr(), data.len(), targets, count) }
    }

    unsafe fn tracked(
        _: &Self::Endpoint,
        _: &[u8],
        _: &[Self::Target],
        _: u64,
        _: usize,
        _: usize,
    ) -> Result<(), NetError> {
        Ok(())
    }
}
