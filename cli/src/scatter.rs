//! Points on logarithmic axes, one panel beside the other, as SVG files.

use crate::plot::{Area, Axis, COLORS, INK, PALE, PlotError, draw, range, say, text, tick_text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::path::Path;

/// What a point is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A disc, with its label.
    Disc,
    /// A disc in a ring, with its label.
    Ringed,
    /// A small circle without a label.
    Hollow,
    /// A triangle of another colour, with its label.
    Triangle,
}

/// A point.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) mark: Mark,
}

/// Points with axes of their own.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) points: Vec<Point>,
    /// A height nothing can be below, and what it is called.
    pub(crate) floor: Option<(f64, String)>,
}

const WIDTH: i32 = 500;
const HEIGHT: i32 = 360;
const LEFT: i32 = 62;
const RIGHT: i32 = 16;
const TOP: i32 = 34;
const BOTTOM: i32 = 44;
/// Title and legend of the whole.
const HEAD: i32 = 78;

impl Point {
    fn is_drawable(&self) -> bool {
        [self.x, self.y].iter().all(|v| v.is_finite() && *v > 0.0)
    }
}

/// One panel for each of `panels`, at most three beside each other. `legend`
/// says what each mark is. Points with a coordinate that is not finite or not
/// above zero are left out.
///
/// # Errors
/// [`PlotError`]: nothing to draw, or the file cannot be written.
pub(crate) fn scatter(
    path: &Path,
    title: &str,
    legend: &[(Mark, &str)],
    panels: &[Panel],
    (x_label, y_label): (&str, &str),
) -> Result<(), PlotError> {
    let points = || panels.iter().flat_map(|panel| &panel.points).filter(|p| p.is_drawable());
    let empty = || PlotError::Empty(title.to_owned());
    let (low, high) = range(points().map(|point| point.x)).ok_or_else(empty)?;
    // One scale of times for all, so that panels compare.
    let x_axis = Axis::log(low / 1.5, high * 1.8);
    let across = panels.len().min(if panels.len() == 4 { 2 } else { 3 }) as i32;
    let down = (panels.len() as i32 + across - 1) / across;
    let width = (across * WIDTH).max(860);
    draw(path, (width, HEAD + down * HEIGHT), |area| {
        text(area, title, (16, 12), 19, INK, HPos::Left, VPos::Top)?;
        let mut x = 16;
        for &(kind, name) in legend {
            mark(area, kind, (x + 8, 54))?;
            text(area, name, (x + 20, 54), 13, INK, HPos::Left, VPos::Center)?;
            x += 42 + name.chars().count() as i32 * 15 / 2;
        }
        for (at, panel) in (0i32..).zip(panels) {
            let corner = (at % across * (width / across), HEAD + at / across * HEIGHT);
            panel.draw(area, corner, width / across, &x_axis, (x_label, y_label))?;
        }
        Ok(())
    })
}

fn mark(area: &Area<'_>, kind: Mark, at: (i32, i32)) -> Result<(), String> {
    let (x, y) = at;
    let ours = COLORS[0];
    match kind {
        Mark::Hollow => area.draw(&Circle::new(at, 3, ours.mix(0.6).stroke_width(1))).map_err(say),
        Mark::Disc => area.draw(&Circle::new(at, 4, ours.filled())).map_err(say),
        Mark::Ringed => {
            area.draw(&Circle::new(at, 4, ours.filled())).map_err(say)?;
            area.draw(&Circle::new(at, 8, COLORS[5].stroke_width(2))).map_err(say)
        }
        Mark::Triangle => {
            let corners = [(x, y - 6), (x - 6, y + 5), (x + 6, y + 5)];
            area.draw(&Polygon::new(corners, COLORS[1].filled())).map_err(say)
        }
    }
}

impl Panel {
    fn draw(
        &self,
        area: &Area<'_>,
        (left, top): (i32, i32),
        width: i32,
        x_axis: &Axis,
        (x_label, y_label): (&str, &str),
    ) -> Result<(), String> {
        let points: Vec<&Point> = self.points.iter().filter(|point| point.is_drawable()).collect();
        let heights = points.iter().map(|point| point.y).chain(self.floor.iter().map(|f| f.0));
        let Some((low, high)) = range(heights) else { return Ok(()) };
        let y_axis = Axis::log(low / 2.0, high * 2.0);
        let (x0, x1) = (left + LEFT, left + width - RIGHT);
        let (y0, y1) = (top + TOP, top + HEIGHT - BOTTOM);
        let x_of = |v: f64| x0 + (x_axis.place(v) * f64::from(x1 - x0)).round() as i32;
        let y_of = |v: f64| y1 - (y_axis.place(v) * f64::from(y1 - y0)).round() as i32;
        text(area, &self.title, (x0, top + 8), 14, INK, HPos::Left, VPos::Top)?;
        for tick in x_axis.ticks(6) {
            let x = x_of(tick);
            area.draw(&PathElement::new([(x, y0), (x, y1)], PALE)).map_err(say)?;
            text(area, &tick_text(tick), (x, y1 + 6), 11, INK, HPos::Center, VPos::Top)?;
        }
        for tick in y_axis.ticks(6) {
            let y = y_of(tick);
            area.draw(&PathElement::new([(x0, y), (x1, y)], PALE)).map_err(say)?;
            text(area, &tick_text(tick), (x0 - 6, y), 11, INK, HPos::Right, VPos::Center)?;
        }
        area.draw(&PathElement::new([(x0, y1), (x1, y1)], INK)).map_err(say)?;
        text(area, x_label, ((x0 + x1) / 2, y1 + 22), 12, INK, HPos::Center, VPos::Top)?;
        text(area, y_label, (x0, y0 - 2), 11, INK, HPos::Right, VPos::Bottom)?;
        let mut taken: Vec<[i32; 4]> = Vec::new();
        if let Some((height, name)) = &self.floor {
            let y = y_of(*height);
            let line = PathElement::new([(x0, y), (x1, y)], COLORS[2].stroke_width(2));
            area.draw(&line).map_err(say)?;
            text(area, name, (x1, y + 3), 11, COLORS[2], HPos::Right, VPos::Top)?;
            let length = name.len() as i32 * 6;
            taken.push([x1 - length, y + 3, x1, y + 15]);
        }
        for point in &points {
            let (x, y) = (x_of(point.x), y_of(point.y));
            mark(area, point.mark, (x, y))?;
            if point.mark != Mark::Hollow {
                taken.push([x - 5, y - 5, x + 5, y + 5]);
            }
        }
        for point in points.iter().filter(|point| point.mark != Mark::Hollow) {
            let at = (x_of(point.x), y_of(point.y));
            let color = if point.mark == Mark::Triangle { COLORS[5] } else { INK };
            let (spot, horizontal) = place(&mut taken, at, &point.label, (x0, x1));
            text(area, &point.label, spot, 11, color, horizontal, VPos::Center)?;
        }
        Ok(())
    }
}

/// Beside the point, where no other label is: right or left, then ever higher
/// and lower.
fn place(
    taken: &mut Vec<[i32; 4]>,
    (x, y): (i32, i32),
    label: &str,
    (low, high): (i32, i32),
) -> ((i32, i32), HPos) {
    let length = label.chars().count() as i32 * 6;
    let free = |taken: &[[i32; 4]], one: [i32; 4]| {
        one[0] >= low
            && one[2] <= high
            && taken.iter().all(|other| {
                one[2] <= other[0] || other[2] <= one[0] || one[3] <= other[1] || other[3] <= one[1]
            })
    };
    let mut tries = (0..6).flat_map(|step| [-step, step]).flat_map(|step| {
        let y = y + 6 * step;
        [
            (HPos::Left, [x + 11, y - 6, x + 11 + length, y + 6]),
            (HPos::Right, [x - 11 - length, y - 6, x - 11, y + 6]),
        ]
    });
    let (horizontal, one) = tries
        .find(|&(_, one)| free(taken, one))
        .unwrap_or((HPos::Left, [x + 11, y - 6, x + 11 + length, y + 6]));
    taken.push(one);
    let edge = if matches!(horizontal, HPos::Left) { one[0] } else { one[2] };
    ((edge, (one[1] + one[3]) / 2), horizontal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut taken = Vec::new();
        for _ in 0..8 {
            place(&mut taken, (200, 100), "elias-fano", (0, 400));
        }
        for (at, a) in taken.iter().enumerate() {
            for b in &taken[..at] {
                assert!(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1], "{taken:?}");
            }
        }
    }

    #[test]
    fn panels_are_written() {
        let path = std::env::temp_dir().join(format!("rankway-scatter-{}.svg", std::process::id()));
        let point = |label: &str, x, y, mark| Point { label: label.into(), x, y, mark };
        let points = vec![
            point("bitmap", 8.0, 1e5, Mark::Ringed),
            point("nothing", f64::NAN, 1e5, Mark::Disc),
            point("gap", 40.0, 2e5, Mark::Triangle),
        ];
        let floor = Some((1e3, "bound".to_owned()));
        let panel = Panel { title: "class A".into(), points, floor };
        let legend = [(Mark::Disc, "ours")];
        let panels = [panel.clone(), panel];
        scatter(&path, "maps", &legend, &panels, ("ns", "bytes")).expect("writes");
        let svg = std::fs::read_to_string(&path).expect("there");
        let _ = std::fs::remove_file(&path);
        for part in ["<svg", "class A", "bitmap", "gap", "bound", "ours", "ns", "bytes"] {
            assert!(svg.contains(part), "{part} is missing");
        }
        assert!(!svg.contains("nothing"), "{svg}");
        let none = scatter(&path, "none", &[], &[], ("x", "y"));
        assert!(matches!(none, Err(PlotError::Empty(_))));
    }
}
