//! A word for each rank as rank maps, which hold a part of its bits each: what follows a
//! formula of the rank takes some tens of bytes, and is gathered as such.

use crate::rankmap::compact::{CompactError, Strategy};
use crate::rankmap::{Detector, LPID_MAX, MapError, RankMap};
use std::ops::Range;

/// Where the bits of each map begin.
const SHIFTS: [u32; 3] = [0, 31, 62];

/// The maps, of as many ranks each.
#[derive(Clone, Debug)]
pub(super) struct Lanes([RankMap; SHIFTS.len()]);

/// A word's parts.
fn parts(word: u64) -> [u32; SHIFTS.len()] {
    SHIFTS.map(|shift| (word >> shift) as u32 & LPID_MAX)
}

/// So many ranks with one value.
fn repeated(value: u32, ranks: u32) -> RankMap {
    RankMap::affine(0, value, 0, ranks).unwrap_or_else(|_| RankMap::direct(0))
}

fn uniform(map: &RankMap) -> Option<u32> {
    let first = map.get(0)?.lpid;
    map.all_runs(|value, step, len| value == first && (step == 0 || len == 1)).then_some(first)
}

impl Lanes {
    /// One word for so many ranks.
    pub(super) fn repeated(word: u64, ranks: u32) -> Lanes {
        Lanes(parts(word).map(|part| repeated(part, ranks)))
    }

    /// # Errors
    /// More words than there can be ranks.
    pub(super) fn new(words: impl Iterator<Item = u64>) -> Result<Lanes, MapError> {
        let mut all = SHIFTS.map(|_| Detector::new());
        for word in words {
            for (lane, part) in all.iter_mut().zip(parts(word)) {
                lane.push(part);
            }
        }
        let [low, middle, high] = all;
        Ok(Lanes([low.finish()?, middle.finish()?, high.finish()?]))
    }

    pub(super) fn len(&self) -> u32 {
        self.0[0].len()
    }

    /// A rank's word, 0 for one that is not there.
    pub(super) fn get(&self, rank: u32) -> u64 {
        let bits = |(lane, shift): (&RankMap, u32)| {
            lane.get(rank).map_or(0, |it| u64::from(it.lpid) << shift)
        };
        self.0.iter().zip(SHIFTS).map(bits).sum()
    }

    /// The words by rank.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let [low, middle, high] = &self.0;
        low.iter().zip(middle.iter()).zip(high.iter()).map(|((low, middle), high)| {
            let parts = [low, middle, high].map(|it| u64::from(it.lpid));
            parts.iter().zip(SHIFTS).map(|(part, shift)| part << shift).sum()
        })
    }

    /// The word that all ranks have.
    pub(super) fn uniform(&self) -> Option<u64> {
        let mut word = 0;
        for (lane, shift) in self.0.iter().zip(SHIFTS) {
            word |= u64::from(uniform(lane)?) << shift;
        }
        Some(word)
    }

    /// These in the least memory.
    ///
    /// # Errors
    /// None in practice: they were maps.
    pub(super) fn compressed(&self) -> Result<Lanes, CompactError> {
        let [low, middle, high] = &self.0;
        let small = |lane: &RankMap| lane.compressed(Strategy::Auto);
        Ok(Lanes([small(low)?, small(middle)?, small(high)?]))
    }

    /// Bytes on the heap.
    pub(super) fn heap(&self) -> usize {
        self.0.iter().map(|lane| lane.bytes() - size_of::<RankMap>()).sum()
    }

    /// Writes the words of a range of ranks: of each map the length in words of 32 bits, and
    /// the map, one word where it has one value, none where that is 0.
    pub(super) fn encode(&self, ranks: Range<u32>, bytes: &mut Vec<u8>) {
        for lane in &self.0 {
            let encoded = match uniform(lane) {
                Some(0) => Vec::new(),
                Some(value) => value.to_le_bytes().to_vec(),
                None => lane.encode_range(ranks.clone()),
            };
            bytes.extend((encoded.len() as u32 / 4).to_le_bytes());
            bytes.extend(encoded);
        }
    }

    /// Appends the words of so many ranks more, and takes them off what
    /// [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// What is wrong with bytes that it did not write.
    pub(super) fn append(&mut self, ranks: u32, bytes: &mut &[u8]) -> Result<(), String> {
        for lane in &mut self.0 {
            let (len, rest) = bytes.split_first_chunk::<4>().ok_or("too short")?;
            let len = 4 * u32::from_le_bytes(*len) as usize;
            let (more, rest) = rest.split_at_checked(len).ok_or("too short")?;
            *bytes = rest;
            let mut all = lane.begun();
            let one = if more.is_empty() { Some(&[0; 4]) } else { more.try_into().ok() };
            match one.map(|value: &[u8; 4]| u32::from_le_bytes(*value)) {
                Some(value) if value > LPID_MAX => return Err("a part of too many bits".into()),
                Some(value) => repeated(value, ranks).push_range(0..ranks, &mut all),
                None => all.push_encoded(ranks, more)?,
            }
            *lane = all.finish().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// These and the words of as many ranks more.
    ///
    /// # Errors
    /// None in practice: they were maps.
    pub(super) fn and(&self, more: &Lanes) -> Result<Lanes, MapError> {
        let ([low, middle, high], [more_low, more_middle, more_high]) = (&self.0, &more.0);
        Ok(Lanes([low.and(more_low)?, middle.and(more_middle)?, high.and(more_high)?]))
    }

    /// The words of these ranks, in their order.
    ///
    /// # Errors
    /// None in practice, for ranks that there are.
    fn of_ranks(&self, ranks: &RankMap) -> Result<Lanes, MapError> {
        let [low, middle, high] = &self.0;
        Ok(Lanes([low.compose(ranks)?, middle.compose(ranks)?, high.compose(ranks)?]))
    }

    /// The ranks with this word, rising.
    ///
    /// # Errors
    /// None in practice: ranks are lpids.
    pub(super) fn ranks_of(&self, word: u64) -> Result<RankMap, MapError> {
        let mut ranks = RankMap::direct(self.len());
        for (lane, part) in self.0.iter().zip(parts(word)) {
            match uniform(lane) {
                Some(value) if value == part => {}
                Some(_) => return Ok(RankMap::direct(0)),
                None => {
                    let lane = lane.compose(&ranks)?;
                    ranks = ranks.compose(&lane.ranks_of(part))?;
                }
            }
        }
        Ok(ranks)
    }

    /// These ranks in the order of their words; as they stand where those are equal.
    ///
    /// # Errors
    /// None in practice, for ranks that there are.
    pub(super) fn sort(&self, ranks: RankMap) -> Result<RankMap, MapError> {
        if self.rise() {
            return Ok(ranks);
        }
        let words = self.of_ranks(&ranks)?;
        if words.rise() {
            return Ok(ranks);
        }
        let mut order: Vec<(u64, u32)> = words.iter().zip(0..).collect();
        order.sort_unstable();
        let order = RankMap::from_lpids(0, order.into_iter().map(|(_, at)| at))?;
        ranks.compose(&order)
    }

    /// Returns true if no word is below the one before, as far as one map shows.
    fn rise(&self) -> bool {
        let [low, middle, high] = &self.0;
        let mut last = 0;
        let mut rises = |first: u32, step: i32, len: u32| {
            let rises = first >= last && (step >= 0 || len == 1);
            last = first.wrapping_add((step as u32).wrapping_mul(len - 1));
            rises
        };
        [middle, high].into_iter().all(|lane| uniform(lane).is_some()) && low.all_runs(&mut rises)
    }
}
