//! How a count grows with the job.

use serde::Serialize;
use std::fmt;

/// The slowest growth that explains a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Growth {
    Constant,
    Logarithmic,
    Linear,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Growth::Constant => "O(1)",
            Growth::Logarithmic => "O(log P)",
            Growth::Linear => "O(P)",
        })
    }
}

impl Growth {
    /// Of counts by processes; differences up to `resolution` are none. `None` of fewer than
    /// three.
    pub(super) fn of(points: &[(u32, f64)], resolution: f64) -> Option<Growth> {
        let ([(small, first), .., (large, last)], true) = (points, points.len() > 2) else {
            return None;
        };
        let most = points.iter().fold(0.0_f64, |most, &(_, count)| most.max(count));
        let (first, last) = (first.max(resolution), last.max(resolution));
        // What a logarithm would make of the first, twice as much for what is not regular.
        let steps = f64::from(*large).log2() / f64::from(*small).log2();
        Some(if most <= resolution || last <= first * 1.25 {
            Growth::Constant
        } else if last <= first * 2.0 * steps {
            Growth::Logarithmic
        } else {
            Growth::Linear
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_slowest_that_explains() {
        let of = |count: fn(f64) -> f64| {
            let points: Vec<(u32, f64)> =
                (10..=24).step_by(2).map(|bits| (1 << bits, count(f64::from(1 << bits)))).collect();
            Growth::of(&points, 1.0).expect("points")
        };
        assert_eq!(of(|_| 7.0), Growth::Constant);
        assert_eq!(of(|_| 0.0), Growth::Constant);
        assert_eq!(of(f64::log2), Growth::Logarithmic);
        assert_eq!(of(|p| 3.0 + 5.0 * p.log2()), Growth::Logarithmic);
        assert_eq!(of(|p| p), Growth::Linear);
        assert_eq!(of(|p| 100_000.0 + p), Growth::Linear);
        assert_eq!(Growth::of(&[(1, 1.0), (2, 2.0)], 1.0), None);
    }
}
