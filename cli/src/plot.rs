//! Charts as SVG files: grouped bars for models side by side, lines for
//! scaling curves; and what other charts are drawn with.
//!
//! Colours are Okabe and Ito's (2008), which people with a colour vision
//! deficiency can tell apart; lines differ by marker too.

use crate::target;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A chart that could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlotError {
    /// Nothing to draw: no finite positive value.
    #[error("nothing to plot in {0:?}: no value above zero")]
    Empty(String),
    /// Drawing or writing failed.
    #[error("cannot write the chart {path}: {message}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the library or the system said.
        message: String,
    },
}

pub(crate) const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];
pub(crate) const INK: RGBColor = RGBColor(40, 40, 40);
pub(crate) const PALE: RGBColor = RGBColor(222, 222, 222);
const FONT: &str = "Helvetica, Arial, sans-serif";

const LEFT: i32 = 92;
const RIGHT: i32 = 24;
const LEGEND_LINE: i32 = 24;
const TITLE: i32 = 48;
const PLOT_HEIGHT: i32 = 400;
const BELOW: i32 = 64;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Grouped bars: `series` of (name, a value for each category) with the value
/// above each bar. The y axis is logarithmic when the values span more than a
/// factor of 30. A value that is not finite or is below zero has no bar but a
/// mark that there is no figure.
///
/// # Errors
/// [`PlotError`]: nothing to draw, or the file cannot be written.
pub(crate) fn bars<C: AsRef<str>, S: AsRef<str>>(
    path: &Path,
    title: &str,
    categories: &[C],
    series: &[(S, Vec<f64>)],
    y_label: &str,
) -> Result<(), PlotError> {
    let values = series.iter().flat_map(|(_, values)| values).copied();
    let (low, high) = range(values).ok_or_else(|| PlotError::Empty(title.to_owned()))?;
    let (axis, y_label) = if high / low > 30.0 {
        (Axis::log(below(low), high * 1.8), format!("{y_label} (log scale)"))
    } else {
        (Axis::linear(high * 1.08), y_label.to_owned())
    };

    let groups = categories.len().max(1) as i32;
    let per_group = series.len().max(1) as i32;
    // Wide enough for the values above the bars.
    let bar = (150 / per_group).clamp(34, 64);
    let gap = 28;
    let width = (LEFT + RIGHT + groups * (per_group * bar + gap)).clamp(640, 2400);
    let group = f64::from(width - LEFT - RIGHT) / f64::from(groups);
    let bar = (group - f64::from(gap)) / f64::from(per_group);

    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_ref()).collect();
    let frame = Frame::new(width, &names);
    draw(path, frame.size(), |area| {
        frame.head(area, title, &y_label, &names, Marker::Square)?;
        frame.grid(area, &axis)?;
        let base = frame.top + PLOT_HEIGHT;
        for (c, category) in categories.iter().enumerate() {
            let left = f64::from(LEFT) + group * c as f64 + f64::from(gap) / 2.0;
            for (s, (_, values)) in series.iter().enumerate() {
                let value = values.get(c).copied().unwrap_or(f64::NAN);
                let x0 = (left + bar * s as f64).round() as i32 + 1;
                let x1 = (left + bar * (s + 1) as f64).round() as i32 - 1;
                let center = (x0 + x1) / 2;
                if !(value.is_finite() && value > 0.0) {
                    let label = if value == 0.0 { "0" } else { "n/a" };
                    text(area, label, (center, base - 3), 11, INK, HPos::Center, VPos::Bottom)?;
                    continue;
                }
                let y = frame.y(axis.place(value));
                let color = COLORS[s % COLORS.len()];
                area.draw(&Rectangle::new([(x0, y), (x1, base)], color.filled())).map_err(say)?;
                let label = short(value);
                // Helvetica's digits are 0.56 em wide.
                let size = ((bar / (label.len() as f64 * 0.56)) as i32).clamp(8, 12);
                text(area, &label, (center, y - 3), size, INK, HPos::Center, VPos::Bottom)?;
            }
            let center = (left + (group - f64::from(gap)) / 2.0).round() as i32;
            text(area, category.as_ref(), (center, base + 10), 13, INK, HPos::Center, VPos::Top)?;
        }
        frame.base_line(area)
    })
}

/// Scaling curves on logarithmic axes: `series` of (name, points). Points with
/// a coordinate that is not finite or not above zero are left out.
///
/// # Errors
/// [`PlotError`]: nothing to draw, or the file cannot be written.
pub(crate) fn lines<S: AsRef<str>>(
    path: &Path,
    title: &str,
    series: &[(S, Vec<(f64, f64)>)],
    x_label: &str,
    y_label: &str,
) -> Result<(), PlotError> {
    let drawable = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && x > 0.0 && y > 0.0;
    let points = || series.iter().flat_map(|(_, points)| points).copied().filter(drawable);
    let empty = || PlotError::Empty(title.to_owned());
    let (x_low, x_high) = range(points().map(|(x, _)| x)).ok_or_else(empty)?;
    let (y_low, y_high) = range(points().map(|(_, y)| y)).ok_or_else(empty)?;
    let x_axis = Axis::log(x_low / 1.2, x_high * 1.2);
    let y_axis = Axis::log(y_low / 1.4, y_high * 1.4);

    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_ref()).collect();
    let frame = Frame::new(860, &names);
    draw(path, frame.size(), |area| {
        frame.head(area, title, y_label, &names, Marker::OfSeries)?;
        frame.grid(area, &y_axis)?;
        let base = frame.top + PLOT_HEIGHT;
        for tick in x_axis.ticks(8) {
            let x = frame.x(x_axis.place(tick));
            area.draw(&PathElement::new([(x, frame.top), (x, base)], PALE)).map_err(say)?;
            text(area, &tick_text(tick), (x, base + 8), 12, INK, HPos::Center, VPos::Top)?;
        }
        let middle = (LEFT + frame.width - RIGHT) / 2;
        text(area, x_label, (middle, base + 32), 13, INK, HPos::Center, VPos::Top)?;
        for (s, (_, points)) in series.iter().enumerate() {
            let mut points: Vec<(f64, f64)> = points.iter().copied().filter(drawable).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let spots: Vec<(i32, i32)> = points
                .iter()
                .map(|&(x, y)| (frame.x(x_axis.place(x)), frame.y(y_axis.place(y))))
                .collect();
            let color = COLORS[s % COLORS.len()];
            area.draw(&PathElement::new(spots.clone(), color.stroke_width(2))).map_err(say)?;
            for spot in spots {
                mark(area, s, spot)?;
            }
        }
        frame.base_line(area)
    })
}

/// The largest power of ten that leaves a bar of this value some height.
fn below(value: f64) -> f64 {
    10f64.powf((value / 1.2).log10().floor())
}

pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite() && *v > 0.0).fold(None, |range, v| {
        let (low, high) = range.unwrap_or((v, v));
        Some((low.min(v), high.max(v)))
    })
}

/// A drawing step's error, as text; the path is added where it is known.
pub(crate) fn say(error: impl Display) -> String {
    error.to_string()
}

/// The content, on a white ground, into the file.
pub(crate) fn draw(
    path: &Path,
    (width, height): (i32, i32),
    content: impl FnOnce(&Area<'_>) -> Result<(), String>,
) -> Result<(), PlotError> {
    let failed = |message| PlotError::Write { path: path.to_owned(), message };
    // Into memory first: the backend reports no failure to write when dropped.
    let mut svg = String::new();
    {
        let size = (width as u32, height as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(say).map_err(failed)?;
        content(&area).map_err(failed)?;
        area.present().map_err(say).map_err(failed)?;
    }
    target::replace(path, svg.as_bytes()).map_err(|error| failed(error.to_string()))
}

/// A font whose letters are `size` pixels high: the SVG backend takes plotters'
/// sizes for line heights and divides by 1.24.
fn font(size: i32) -> FontDesc<'static> {
    (FONT, f64::from(size) * 1.24).into_font()
}

pub(crate) fn text(
    area: &Area<'_>,
    content: &str,
    at: (i32, i32),
    size: i32,
    color: RGBColor,
    horizontal: HPos,
    vertical: VPos,
) -> Result<(), String> {
    let style = font(size).color(&color).pos(Pos::new(horizontal, vertical));
    area.draw(&Text::new(content, at, style)).map_err(say)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Square,
    OfSeries,
}

/// Marker of series `s`: the shape changes when the colours start again.
fn mark(area: &Area<'_>, s: usize, at: (i32, i32)) -> Result<(), String> {
    let color = COLORS[s % COLORS.len()].filled();
    let (x, y) = at;
    match s % 3 {
        0 => area.draw(&Circle::new(at, 5, color)),
        1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], color)),
        _ => area.draw(&Polygon::new([(x, y - 6), (x - 6, y + 5), (x + 6, y + 5)], color)),
    }
    .map_err(say)
}

/// Where things are: head and legend above the plot, so that the legend never
/// covers data.
#[derive(Clone, Copy)]
struct Frame {
    width: i32,
    top: i32,
}

impl Frame {
    fn new(width: i32, names: &[&str]) -> Self {
        let lines = Self::legend(width, names).iter().map(|&(_, line)| line + 1).max();
        Self { width, top: TITLE + lines.unwrap_or(0) * LEGEND_LINE + 22 }
    }

    fn size(&self) -> (i32, i32) {
        (self.width, self.top + PLOT_HEIGHT + BELOW)
    }

    /// (x, line) of each legend entry.
    fn legend(width: i32, names: &[&str]) -> Vec<(i32, i32)> {
        let (mut x, mut line) = (LEFT, 0);
        names
            .iter()
            .map(|name| {
                let needed = 22 + name.chars().count() as i32 * 15 / 2 + 22;
                if x > LEFT && x + needed > width - RIGHT {
                    (x, line) = (LEFT, line + 1);
                }
                let at = (x, line);
                x += needed;
                at
            })
            .collect()
    }

    fn x(&self, place: f64) -> i32 {
        LEFT + (place * f64::from(self.width - LEFT - RIGHT)).round() as i32
    }

    fn y(&self, place: f64) -> i32 {
        self.top + ((1.0 - place) * f64::from(PLOT_HEIGHT)).round() as i32
    }

    fn head(
        &self,
        area: &Area<'_>,
        title: &str,
        y_label: &str,
        names: &[&str],
        marker: Marker,
    ) -> Result<(), String> {
        text(area, title, (LEFT, 14), 19, INK, HPos::Left, VPos::Top)?;
        for (s, (name, (x, line))) in names.iter().zip(Self::legend(self.width, names)).enumerate()
        {
            let y = TITLE + line * LEGEND_LINE + 8;
            match marker {
                Marker::Square => {
                    let color = COLORS[s % COLORS.len()].filled();
                    area.draw(&Rectangle::new([(x, y - 6), (x + 13, y + 7)], color))
                        .map_err(say)?;
                }
                Marker::OfSeries => mark(area, s, (x + 7, y))?,
            }
            text(area, name, (x + 20, y), 13, INK, HPos::Left, VPos::Center)?;
        }
        let style = font(13)
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Center));
        let at = (26, self.top + PLOT_HEIGHT / 2);
        area.draw(&Text::new(y_label, at, style)).map_err(say)
    }

    fn grid(&self, area: &Area<'_>, axis: &Axis) -> Result<(), String> {
        for tick in axis.ticks(7) {
            let y = self.y(axis.place(tick));
            area.draw(&PathElement::new([(LEFT, y), (self.width - RIGHT, y)], PALE))
                .map_err(say)?;
            text(area, &tick_text(tick), (LEFT - 8, y), 12, INK, HPos::Right, VPos::Center)?;
        }
        Ok(())
    }

    fn base_line(&self, area: &Area<'_>) -> Result<(), String> {
        let y = self.top + PLOT_HEIGHT;
        area.draw(&PathElement::new([(LEFT, y), (self.width - RIGHT, y)], INK)).map_err(say)
    }
}

/// Maps values to 0..=1.
pub(crate) enum Axis {
    Linear { high: f64 },
    Log { low: f64, high: f64 },
}

impl Axis {
    pub(crate) fn linear(high: f64) -> Self {
        Self::Linear { high }
    }

    pub(crate) fn log(low: f64, high: f64) -> Self {
        Self::Log { low, high }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { high } => value / high,
            Self::Log { low, high } => (value / low).ln() / (high / low).ln(),
        }
    }

    /// Round numbers on the axis, `most` or a few fewer.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        match *self {
            Self::Linear { high } => {
                let mut step = 10f64.powf((high / most as f64).log10().floor());
                for factor in [2.0, 2.5, 2.0] {
                    if high / step > most as f64 {
                        step *= factor;
                    }
                }
                (0..).map(|i| step * f64::from(i)).take_while(|&tick| tick <= high).collect()
            }
            Self::Log { low, high } => {
                let decades = |every: i32, steps: &[f64]| -> Vec<f64> {
                    let from = low.log10().floor() as i32;
                    let to = high.log10().ceil() as i32;
                    (from..=to)
                        .filter(|decade| decade.rem_euclid(every) == 0)
                        .flat_map(|decade| steps.iter().map(move |s| s * 10f64.powi(decade)))
                        .filter(|&tick| (low..=high).contains(&tick))
                        .collect()
                };
                let dense = decades(1, &[1.0, 2.0, 5.0]);
                if dense.len() <= most {
                    return dense;
                }
                let every = (1..).find(|&every| decades(every, &[1.0]).len() <= most);
                decades(every.unwrap_or(1), &[1.0])
            }
        }
    }
}

/// Three significant digits with k, M, G, T, whole numbers without a point:
/// `9`, `98.9`, `97.0`, `1.31M`. Counts up to 9999 keep all their digits.
fn short(value: f64) -> String {
    let (scaled, unit) = scale(value, 9_999.5);
    format!("{}{unit}", digits(scaled))
}

/// A round number on an axis: no zeroes behind the point, and 1000 is 1k, to
/// go with 10k.
pub(crate) fn tick_text(tick: f64) -> String {
    let (scaled, unit) = scale(tick, 999.5);
    let text = digits(scaled);
    if text.contains('.') {
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        text + unit
    }
}

fn scale(value: f64, thousands_from: f64) -> (f64, &'static str) {
    match value.abs() {
        v if v >= 999.5e9 => (value / 1e12, "T"),
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= thousands_from => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v.fract() == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v => (2 - v.log10().floor() as i32).clamp(0, 9) as usize,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let got = [0.0, 7.0, 4.302, 98.89, 248.4, 9999.0, 10_000.0, 786_432.0, 1.5e9, 0.0123];
        assert_eq!(
            got.map(short),
            ["0", "7", "4.30", "98.9", "248", "9999", "10k", "786k", "1.50G", "0.0123"]
        );
        assert_eq!(
            [0.0, 0.2, 2.5, 1e3, 2e4, 2.5e6].map(tick_text),
            ["0", "0.2", "2.5", "1k", "20k", "2.5M"]
        );
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Axis::linear(110.0).ticks(7), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Axis::linear(16.5).ticks(7), [0.0, 5.0, 10.0, 15.0]);
        for high in [0.003, 1.0, 9.9, 42.0, 1e7] {
            let count = Axis::linear(high).ticks(7).len();
            assert!((3..=8).contains(&count), "{high}: {count}");
        }
        assert_eq!(Axis::log(0.8, 120.0).ticks(8), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let wide = Axis::log(1.0, 1e12).ticks(8);
        assert_eq!(wide, [1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]);
        assert!(Axis::log(1e-30, 1e30).ticks(8).len() <= 8);
    }

    #[test]
    fn charts_are_written() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("rankway-plot-{}.svg", std::process::id()));
        let series = [("paper", vec![98.89, 93.43]), ("rankway <&>", vec![150.0, f64::NAN])];
        bars(&path, "issue rate", &["direct", "offset"], &series, "M/s").expect("writes");
        let svg = std::fs::read_to_string(&path).expect("there");
        for part in ["<svg", "issue rate", "direct", "98.9", "150", "n/a", "&lt;&amp;&gt;"] {
            assert!(svg.contains(part), "{part} is missing");
        }

        let curve = vec![(2.0, 10.0), (f64::NAN, 1.0), (4.0, 0.0), (1024.0, 700.0)];
        lines(&path, "memory", &[("vc", curve)], "processes", "bytes").expect("writes");
        assert!(std::fs::read_to_string(&path).expect("there").contains("processes"));
        let _ = std::fs::remove_file(&path);

        let empty = bars(&path, "none", &["a"], &[("b", vec![0.0])], "y");
        assert!(matches!(empty, Err(PlotError::Empty(_))));
        let nowhere = Path::new("/nonexistent/folder/a.svg");
        let error = bars(nowhere, "t", &["a"], &[("b", vec![1.0])], "y").expect_err("no folder");
        assert!(error.to_string().contains("/nonexistent/folder/a.svg"), "{error}");
    }
}
