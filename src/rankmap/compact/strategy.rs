//! What a map is to be good at, and how that weighs bytes against nanoseconds.

use core::fmt;
use core::str::FromStr;

/// What a map is to be good at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// What communicators take unless told otherwise: rank maps whose tables are no
    /// more than [`Strategy::TABLE_MAX`] bytes stay tables, larger ones are
    /// [`Hybrid`](Strategy::Hybrid)'s.
    Auto,
    /// The shortest lookup, whatever it weighs.
    Time,
    /// The fewest bytes, whatever a lookup takes.
    Space,
    /// The least `alpha·ln(ns) + (1 − alpha)·ln(bytes)`; `alpha` from 0 (space)
    /// to 1 (time).
    Hybrid {
        /// Weight of time.
        alpha: f64,
    },
}

impl Default for Strategy {
    fn default() -> Strategy {
        Strategy::Hybrid { alpha: Strategy::ALPHA }
    }
}

impl Strategy {
    /// The thesis's weight of time.
    pub const ALPHA: f64 = 0.25;

    /// Bytes of a table that [`Auto`](Strategy::Auto) does not compress: 16,384 ranks. It
    /// stays in a second-level cache, where a lookup is faster than in any other form.
    pub const TABLE_MAX: usize = 64 << 10;

    /// The environment variable that [`from_env`](Self::from_env) reads.
    pub const VARIABLE: &'static str = "RANKWAY_MAP_STRATEGY";

    /// What [`named`](Self::named) takes, in words.
    pub(crate) const TAKES: &'static str =
        "auto, table, time, space, hybrid or hybrid:ALPHA, ALPHA from 0 to 1";

    /// `RANKWAY_MAP_STRATEGY`, as [`named`](Self::named) takes it;
    /// [`Auto`](Strategy::Auto) if it is not set, or empty.
    ///
    /// # Errors
    /// If it says anything else.
    pub fn from_env() -> Result<Option<Strategy>, UnknownStrategy> {
        match std::env::var(Strategy::VARIABLE) {
            Ok(value) if value.is_empty() => Ok(Some(Strategy::Auto)),
            Ok(value) => Strategy::named(value.trim()),
            Err(std::env::VarError::NotPresent) => Ok(Some(Strategy::Auto)),
            Err(std::env::VarError::NotUnicode(value)) => {
                Err(UnknownStrategy(value.to_string_lossy().into_owned()))
            }
        }
    }

    /// `auto`, `time`, `space`, `hybrid` or `hybrid:0.5`; `None` for `table`, which is
    /// tables alone.
    ///
    /// # Errors
    /// If it says anything else.
    pub fn named(word: &str) -> Result<Option<Strategy>, UnknownStrategy> {
        if word == "table" { Ok(None) } else { word.parse().map(Some) }
    }

    /// The lower, the better.
    pub(super) fn score(self, bytes: u64, ns: f64) -> f64 {
        let space = (bytes.max(1) as f64).ln();
        // What does not count breaks ties.
        match self {
            Strategy::Time => ns.ln() + 1e-6 * space,
            Strategy::Space => space + 1e-6 * ns.ln(),
            Strategy::Auto => Strategy::default().score(bytes, ns),
            Strategy::Hybrid { alpha } => {
                let alpha = if alpha.is_nan() { Strategy::ALPHA } else { alpha.clamp(0.0, 1.0) };
                alpha * ns.ln() + (1.0 - alpha) * space
            }
        }
    }
}

/// Not the name of a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStrategy(pub String);

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no strategy for rank maps; set {} to {}",
            self.0,
            Strategy::VARIABLE,
            Strategy::TAKES
        )
    }
}

impl std::error::Error for UnknownStrategy {}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Strategy, UnknownStrategy> {
        match name {
            "auto" => Ok(Strategy::Auto),
            "time" => Ok(Strategy::Time),
            "space" => Ok(Strategy::Space),
            "hybrid" => Ok(Strategy::default()),
            _ => name
                .strip_prefix("hybrid:")
                .and_then(|alpha| alpha.parse().ok())
                .filter(|alpha| (0.0..=1.0).contains(alpha))
                .map(|alpha| Strategy::Hybrid { alpha })
                .ok_or_else(|| UnknownStrategy(name.to_owned())),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Auto => f.write_str("auto"),
            Strategy::Time => f.write_str("time"),
            Strategy::Space => f.write_str("space"),
            Strategy::Hybrid { alpha } => write!(f, "hybrid:{alpha}"),
        }
    }
}
