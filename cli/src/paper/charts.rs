//! The figures as SVG, a file for each.

use super::item::{Cell, Chart, Line};
use super::{Report, Shown};
use crate::plot::{self, PlotError};
use std::path::Path;

pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), String> {
    for item in &report.items {
        match drawn(item, folder) {
            // What was not had is not drawn.
            Ok(()) | Err(PlotError::Empty(_)) => {}
            Err(why) => return Err(why.to_string()),
        }
    }
    Ok(())
}

fn drawn(item: &Shown, folder: &Path) -> Result<(), PlotError> {
    let Some(chart) = &item.chart else { return Ok(()) };
    let (path, title) = (item.file(folder), format!("{}: {}", item.label, item.title));
    let lines = item.lines.iter().filter(|line| !line.scale.is_nan());
    let values = |line: &Line| -> Vec<f64> {
        line.values.iter().map(|cell| Cell::number(cell) * line.scale).collect()
    };
    let all: Vec<(String, Vec<f64>)> = lines
        .map(|line| (format!("{} ({})", line.name, line.how.name()), values(line)))
        .filter(|(_, values)| values.iter().any(|value| value.is_finite()))
        .collect();
    match chart {
        Chart::Bars(up) => plot::bars(&path, &title, &item.columns, &all, up),
        Chart::Curves { across, up, at } => {
            let point = |(name, values): (String, Vec<f64>)| {
                (name, at.iter().copied().zip(values).collect::<Vec<_>>())
            };
            let all: Vec<(String, Vec<(f64, f64)>)> = all.into_iter().map(point).collect();
            plot::lines(&path, &title, &all, across, up)
        }
    }
}
