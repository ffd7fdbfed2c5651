//! What was measured on one network.

use serde::{Deserialize, Serialize};

/// One network; rates in million puts a second.
#[derive(Serialize, Deserialize)]
pub(super) struct NetworkReport {
    pub(super) netmod: String,
    pub(super) network: String,
    pub(super) provider: String,
    /// Bytes of a put.
    pub(super) size: usize,
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
