//! What was measured on one network.

use crate::fixture::{self, MIXED};
use serde::{Deserialize, Serialize};

/// One network; rates in million puts a second.
#[derive(Serialize, Deserialize)]
pub(super) struct NetworkReport {
    pub(super) netmod: String,
    pub(super) network: String,
    pub(super) provider: String,
    /// Bytes of a put.
    pub(super) size: usize,
    /// Puts between two flushes, where that is limited.
    pub(super) window: Option<usize>,
    /// The library's puts that are copied at the call, in a loop.
    pub(super) raw_inject: Option<f64>,
    /// The library's tracked puts in a loop, windowed.
    pub(super) raw_write: Option<f64>,
    /// Volatile stores in a loop, for mapped windows.
    pub(super) store: Option<f64>,
    /// Puts through [`rankway::rma::View`], for mapped windows.
    pub(super) view: Option<f64>,
    pub(super) view_checked: Option<f64>,
    pub(super) vc_vcrt: Option<f64>,
    pub(super) vc_vcrt_checked: Option<f64>,
    /// As [`MIXED`], through virtual connections.
    pub(super) vc_vcrt_mixed: Option<f64>,
    pub(super) vc_vcrt_mixed_checked: Option<f64>,
    /// What the ratios are to.
    pub(super) reference: f64,
    pub(super) rows: Vec<Row>,
}

impl NetworkReport {
    /// The best of the affine models, whose work is the same.
    pub(super) fn best_affine(&self, figure: fn(&Row) -> f64) -> f64 {
        let affine = |row: &&Row| ["direct", "offset", "stride"].contains(&&*row.model);
        self.rows.iter().filter(affine).map(figure).fold(f64::NAN, f64::max)
    }

    /// The slowest of the generations of splits by the fastest.
    pub(super) fn generations(&self, figure: fn(&Row) -> f64) -> f64 {
        let rows = self.rows.iter().filter(|row| fixture::splits(&row.model).is_some());
        let (least, most) = rows
            .map(figure)
            .fold((f64::NAN, f64::NAN), |(least, most), rate| (rate.min(least), rate.max(most)));
        least / most
    }

    /// Puts over mixed communicators in random order, by those through virtual
    /// connections.
    pub(super) fn mixed(&self) -> f64 {
        let ours = self.rows.iter().find(|row| row.model == MIXED);
        let ours = ours.map_or(f64::NAN, |row| row.unchecked);
        ours / self.vc_vcrt_mixed.unwrap_or(f64::NAN)
    }
}

/// One model.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) model: String,
    pub(super) unchecked: f64,
    pub(super) unchecked_ratio: f64,
    pub(super) checked: f64,
    pub(super) checked_ratio: f64,
    /// Bytes of the rank map.
    pub(super) map_bytes: usize,
}
