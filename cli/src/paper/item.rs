//! A table or figure of a paper, and what is here beside it.

use rankway_cli::observe::figures::ByModel;
use serde::{Serialize, Serializer};

/// A paper.
#[derive(Debug)]
pub(super) struct Paper {
    /// As `--only` has it.
    pub(super) key: &'static str,
    /// As it is cited.
    pub(super) label: &'static str,
    pub(super) items: &'static [Item],
}

/// One of its tables or figures, or a section that has a figure in its text.
pub(super) struct Item {
    /// As `--only` has it: `table-4`, `fig-3a`, `sec-5`.
    pub(super) key: &'static str,
    /// As the paper calls it.
    pub(super) label: &'static str,
    /// What it is of.
    pub(super) title: &'static str,
    /// Puts the paper's lines and ours into an outcome. What is there when it fails stays.
    pub(super) measure: fn(&mut super::answers::Answers, &mut Outcome) -> Result<(), String>,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

/// Where a line's figures are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum How {
    /// The paper's own.
    #[serde(rename = "paper")]
    Quoted,
    /// Timed on this machine: another time they are others.
    Measured,
    /// Counted on this machine: the same each time.
    Counted,
    /// Of processes, caches or a network that are not there; bytes are of real structures.
    Simulated,
    /// By formula.
    Computed,
}

impl How {
    pub(super) fn name(self) -> &'static str {
        match self {
            How::Quoted => "paper",
            How::Measured => "measured",
            How::Counted => "counted",
            How::Simulated => "simulated",
            How::Computed => "computed",
        }
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// There is none.
    None,
    /// With so many digits behind the point; those of a paper as it has them.
    Number(f64, usize),
    Text(String),
}

impl Cell {
    pub(super) fn number(&self) -> f64 {
        match self {
            Cell::Number(value, _) => *value,
            _ => f64::NAN,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Cell::None => String::new(),
            Cell::Number(value, _) if value.is_infinite() => "∞".to_owned(),
            Cell::Number(value, 0) if *value >= 0.0 => {
                crate::output::count(value.round().min(u64::MAX as f64) as u64)
            }
            Cell::Number(value, digits) => format!("{value:.digits$}"),
            Cell::Text(text) => text.clone(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Number(value, _) if value.is_finite() => to.serialize_f64(*value),
            Cell::Text(text) => to.serialize_str(text),
            _ => to.serialize_none(),
        }
    }
}

/// A row of figures.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) how: How,
    /// One for each column.
    pub(super) values: Vec<Cell>,
    /// Which of them are worse than those of the line that they are held against; empty where
    /// they are held against none.
    pub(super) worse: Vec<bool>,
    /// What it takes to have the chart's unit; not a number where it is not drawn.
    #[serde(skip)]
    pub(super) scale: f64,
    /// Not on the page, which has to be short.
    #[serde(skip)]
    pub(super) aside: bool,
}

/// What is drawn of an item.
#[derive(Debug)]
pub(super) enum Chart {
    /// A group of bars for each column; what is on the upright axis.
    Bars(&'static str),
    /// A curve for each line.
    Curves {
        across: &'static str,
        up: &'static str,
        /// Where each column stands.
        at: Vec<f64>,
    },
}

/// What is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// The lines of an item.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What the figures are: `million puts/s`.
    pub(super) unit: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) notes: Vec<String>,
    pub(super) chart: Option<Chart>,
}

/// Which line of an outcome.
#[derive(Clone, Copy)]
pub(super) struct At(usize);

impl Outcome {
    pub(super) fn head<S: ToString>(
        &mut self,
        unit: &'static str,
        columns: impl IntoIterator<Item = S>,
    ) {
        self.unit = unit;
        self.columns = columns.into_iter().map(|column| column.to_string()).collect();
    }

    /// Adds a line.
    pub(super) fn line(
        &mut self,
        name: impl Into<String>,
        how: How,
        values: impl IntoIterator<Item = Cell>,
    ) -> At {
        let values = values.into_iter().collect();
        self.lines.push(Line {
            name: name.into(),
            how,
            values,
            worse: Vec::new(),
            scale: 1.0,
            aside: false,
        });
        At(self.lines.len() - 1)
    }

    /// Adds a line of numbers with so many digits; those that are not finite are none.
    pub(super) fn numbers(
        &mut self,
        name: impl Into<String>,
        how: How,
        digits: usize,
        values: impl IntoIterator<Item = f64>,
    ) -> At {
        let cell = |value: f64| match value.is_nan() {
            true => Cell::None,
            false => Cell::Number(value, digits),
        };
        self.line(name, how, values.into_iter().map(cell))
    }

    /// Adds a line of numbers with three digits that count, at most three behind the point.
    pub(super) fn rounded(
        &mut self,
        name: impl Into<String>,
        how: How,
        values: impl IntoIterator<Item = f64>,
    ) -> At {
        let digits = |value: f64| match value {
            value if value >= 99.95 => 0,
            value if value >= 9.995 => 1,
            value if value >= 0.9995 => 2,
            _ => 3,
        };
        let cell = |value: f64| match value.is_nan() {
            true => Cell::None,
            false => Cell::Number(value, digits(value)),
        };
        self.line(name, how, values.into_iter().map(cell))
    }

    /// Adds a line of the paper by model, VC-VCRT first.
    pub(super) fn by_model<T: Copy + Into<f64>>(
        &mut self,
        digits: usize,
        figures: &ByModel<T>,
    ) -> At {
        let values = ["vc-vcrt"].into_iter().chain(super::MODELS);
        let values = values.map(|model| figures.get(model).map_or(f64::NAN, Into::into));
        self.numbers(figures.label, How::Quoted, digits, values.collect::<Vec<_>>())
    }

    pub(super) fn values(&self, at: At) -> impl Iterator<Item = f64> {
        self.lines[at.0].values.iter().map(Cell::number)
    }

    /// Marks those of a line that are worse than the other line's in the same column, from
    /// column `from` on: after rounding to the digits that the other has.
    pub(super) fn hold(&mut self, ours: At, theirs: At, better: Better, from: usize) {
        let theirs = self.lines[theirs.0].values.clone();
        self.hold_to(ours, &theirs, better, from);
    }

    /// As [`hold`](Outcome::hold) against figures that are no line.
    pub(super) fn hold_to(&mut self, ours: At, theirs: &[Cell], better: Better, from: usize) {
        let pairs = self.lines[ours.0].values.iter().zip(theirs);
        let worse = |(column, (ours, theirs)): (usize, (&Cell, &Cell))| match (ours, theirs) {
            _ if column < from => false,
            (Cell::Number(ours, _), Cell::Number(theirs, digits)) => {
                let unit = 10_f64.powi(-(*digits as i32));
                let ours = (ours / unit).round() * unit;
                let more = (ours - theirs) / unit > 0.25;
                let less = (theirs - ours) / unit > 0.25;
                if better == Better::Lower { more } else { less }
            }
            _ => false,
        };
        let worse = pairs.enumerate().map(worse).collect();
        self.lines[ours.0].worse = worse;
    }

    /// Leaves a line out of the page.
    pub(super) fn aside(&mut self, at: At) {
        self.lines[at.0].aside = true;
    }

    /// Draws a line's figures by so many times what they are, or not at all.
    pub(super) fn scale(&mut self, at: At, by: f64) {
        self.lines[at.0].scale = by;
    }

    /// Marks what the caller found worse.
    pub(super) fn mark(&mut self, ours: At, worse: Vec<bool>) {
        self.lines[ours.0].worse = worse;
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub(super) fn curves(
        &mut self,
        across: &'static str,
        up: &'static str,
        at: impl IntoIterator<Item = f64>,
    ) {
        self.chart = Some(Chart::Curves { across, up, at: at.into_iter().collect() });
    }
}
