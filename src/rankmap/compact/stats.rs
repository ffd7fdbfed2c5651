//! What one pass over a map's lpids tells about the size of every form.

use super::mixed_radix::{MixedRadix, Odometer};
use super::{blocks, coded};
use crate::rankmap::detect::Detector;
use crate::rankmap::error::MapError;
use crate::rankmap::process::{LPID_MAX, SIZE_MAX};
use crate::rankmap::regular::Formula;

/// Numbers of a list of lpids, gathered as they come by; 8 KB.
#[derive(Debug)]
pub(super) struct Stats {
    pub(super) len: u32,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Each lpid is above the one before.
    pub(super) rising: bool,
    /// Rows of consecutive rising lpids.
    pub(super) ranges: u32,
    /// Affine runs, each as long as it can be.
    pub(super) segments: u32,
    /// Rising runs: the alphabet of a wavelet tree on runs.
    pub(super) rises: u32,
    /// Largest rise from one lpid to the next.
    pub(super) most: u32,
    /// Heap bytes of affine blocks.
    pub(super) blocks: u64,
    /// Heap bytes of coded blocks, about.
    pub(super) coded: u64,
    /// The formula, if there is one.
    pub(super) formula: Option<Formula>,
    /// The digits, if there are some.
    pub(super) digits: Option<MixedRadix>,
}

/// Gathers [`Stats`].
#[derive(Debug)]
pub(super) struct Gather {
    stats: Stats,
    estimate: blocks::Estimate,
    coded: coded::Estimate,
    /// Until the lpids are no formula.
    detector: Option<Detector>,
    /// Until they are no digits.
    odometer: Option<Odometer>,
    /// Ranks of the open affine run, and its step.
    run: u32,
    step: u32,
    error: Option<MapError>,
}

impl Gather {
    pub(super) fn new() -> Gather {
        Gather {
            stats: Stats {
                len: 0,
                first: 0,
                last: 0,
                min: u32::MAX,
                max: 0,
                rising: true,
                ranges: 0,
                segments: 0,
                rises: 0,
                most: 0,
                blocks: 0,
                coded: 0,
                formula: None,
                digits: None,
            },
            estimate: blocks::Estimate::new(),
            coded: coded::Estimate::new(),
            detector: Some(Detector::new()),
            odometer: Some(Odometer::new()),
            run: 0,
            step: 0,
            error: None,
        }
    }

    pub(super) fn extend(&mut self, lpids: &[u32]) {
        if self.error.is_some() {
            return;
        }
        if let Some(index) = lpids.iter().position(|&lpid| lpid > LPID_MAX) {
            let index = self.stats.len + index as u32;
            let lpid = lpids[(index - self.stats.len) as usize];
            self.error = Some(MapError::LpidTooLarge { index, lpid, limit: LPID_MAX });
            return;
        }
        if lpids.len() as u64 + u64::from(self.stats.len) > u64::from(SIZE_MAX) {
            self.error = Some(MapError::TooManyRanks { limit: SIZE_MAX });
            return;
        }
        if let Some(detector) = &mut self.detector {
            detector.extend_lpids(lpids.iter().copied());
            if !detector.is_regular() {
                self.detector = None;
            }
        }
        if let Some(odometer) = &mut self.odometer
            && !lpids.iter().all(|&lpid| odometer.push(lpid))
        {
            self.odometer = None;
        }
        self.coded.extend(lpids);
        lpids.iter().for_each(|&lpid| self.push(lpid));
    }

    #[inline]
    fn push(&mut self, lpid: u32) {
        let s = &mut self.stats;
        self.estimate.push(lpid);
        s.min = s.min.min(lpid);
        s.max = s.max.max(lpid);
        if s.len == 0 {
            (s.first, s.ranges, s.segments, s.rises) = (lpid, 1, 1, 1);
            self.run = 1;
        } else {
            let step = lpid.wrapping_sub(s.last);
            s.ranges += u32::from(step != 1);
            if lpid > s.last {
                s.most = s.most.max(step);
            } else {
                s.rising = false;
                s.rises += 1;
            }
            if self.run > 1 && step != self.step {
                s.segments += 1;
                self.run = 1;
            } else {
                self.step = step;
                self.run += 1;
            }
        }
        s.last = lpid;
        s.len += 1;
    }

    pub(super) fn len(&self) -> u32 {
        self.stats.len
    }

    /// Returns true if an lpid was refused.
    pub(super) fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// As if the next rank were none; the first error counts.
    #[cold]
    pub(super) fn fail(&mut self, error: MapError) {
        self.error.get_or_insert(error);
    }

    pub(super) fn finish(mut self) -> Result<Stats, MapError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.stats.blocks = self.estimate.cost();
        self.stats.coded = self.coded.cost();
        self.stats.digits = self.odometer.and_then(|odometer| odometer.finish());
        if let Some(detector) = self.detector {
            let found = detector.detected()?.formula();
            self.stats.formula = found.filter(|formula| formula.form.model().is_regular());
        }
        Ok(self.stats)
    }
}

impl Stats {
    /// Of lpids that come in any number.
    pub(super) fn of(lpids: impl IntoIterator<Item = u32>) -> Result<Stats, MapError> {
        let mut gather = Gather::new();
        let mut lpids = lpids.into_iter();
        // Not after a thousand million of them.
        if lpids.size_hint().0 as u64 > u64::from(SIZE_MAX) {
            return Err(MapError::TooManyRanks { limit: SIZE_MAX });
        }
        let mut buffer = [0u32; 256];
        loop {
            let mut filled = 0;
            for slot in &mut buffer {
                let Some(lpid) = lpids.next() else { break };
                *slot = lpid;
                filled += 1;
            }
            gather.extend(&buffer[..filled]);
            if filled < buffer.len() || gather.error.is_some() {
                return gather.finish();
            }
        }
    }
}
