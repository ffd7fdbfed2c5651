//! What the members of a split say, gathered without a list of them: colors and keys as
//! maps, which most programs choose by a formula of the rank.

use crate::boot::Gathered;
use crate::rankmap::{Detector, LPID_MAX, MapError, Process, RankMap};

/// Keys are lpids from here on, so that small negative ones are, too.
const KEY_ZERO: i64 = 1 << 30;
/// The color of who joins none.
const NO_COLOR: u32 = LPID_MAX;

/// Of consecutive members, the caller first.
#[derive(Debug)]
pub(super) struct Colors {
    colors: RankMap,
    keys: RankMap,
    /// Somebody's color or key is none that a map can hold: all of them ask anew, otherwise.
    refused: bool,
}

impl Colors {
    /// Of one member.
    pub(super) fn of(color: Option<u32>, key: i32) -> Result<Colors, MapError> {
        let (mut colors, mut keys) = (Detector::new(), Detector::new());
        let held = Colors::push(&mut colors, &mut keys, color, key);
        Ok(Colors { refused: !held, ..Colors::from_maps(colors.finish()?, keys.finish()?) })
    }

    /// Of as many members as both maps have ranks.
    pub(super) fn from_maps(colors: RankMap, keys: RankMap) -> Colors {
        Colors { colors, keys, refused: false }
    }

    /// Adds a member; false if no map can hold what it says.
    pub(super) fn push(
        colors: &mut Detector,
        keys: &mut Detector,
        color: Option<u32>,
        key: i32,
    ) -> bool {
        let key = u32::try_from(i64::from(key) + KEY_ZERO).ok().filter(|&key| key <= LPID_MAX);
        let color = color.map_or(Some(NO_COLOR), |color| Some(color).filter(|&it| it < NO_COLOR));
        colors.push(color.unwrap_or(0));
        keys.push(key.unwrap_or(0));
        key.is_some() && color.is_some()
    }

    /// Returns true if somebody's values are none of these, which all members hear of.
    pub(super) fn are_refused(&self) -> bool {
        self.refused
    }

    /// The ranks of a color in the order of their keys, of all members of a communicator in
    /// which the caller is `me`.
    pub(super) fn ranks_of(&self, color: u32, me: u32) -> Result<RankMap, MapError> {
        let ranks = from_zero(&self.colors, me)?.ranks_of(color);
        let keys = from_zero(&self.keys, me)?;
        if rises(&keys) {
            return Ok(ranks);
        }
        let keys = keys.compose(&ranks)?;
        if rises(&keys) {
            return Ok(ranks);
        }
        let mut order: Vec<(Process, u32)> = keys.iter().zip(0..).collect();
        order.sort_unstable();
        let order = RankMap::from_lpids(0, order.into_iter().map(|(_, rank)| rank))?;
        ranks.compose(&order)
    }
}

/// Values by rank, which begin with those of rank `me`.
fn from_zero(values: &RankMap, me: u32) -> Result<RankMap, MapError> {
    let size = values.len();
    let mut all = Detector::new();
    values.push_range(size - me..size, &mut all);
    values.push_range(0..size - me, &mut all);
    all.finish()
}

/// Returns true if no value is below the one before.
fn rises(values: &RankMap) -> bool {
    let mut last = 0;
    values.all_runs(|first, step, len| {
        let rises = first >= last && (step >= 0 || len == 1);
        last = first.wrapping_add((step as u32).wrapping_mul(len - 1));
        rises
    })
}

impl Gathered for Colors {
    fn head(&self, members: u32) -> Vec<u8> {
        if self.refused {
            return Vec::new();
        }
        let colors = self.colors.encode_range(0..members);
        let mut bytes = (colors.len() as u64).to_le_bytes().to_vec();
        bytes.extend(colors);
        bytes.extend(self.keys.encode_range(0..members));
        bytes
    }

    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String> {
        if self.refused || values.is_empty() {
            self.refused = true;
            return Ok(());
        }
        let (len, rest) = values.split_first_chunk::<8>().ok_or("too short")?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| "too long")?;
        let (colors, keys) = rest.split_at_checked(len).ok_or("too short")?;
        for (map, more) in [(&mut self.colors, colors), (&mut self.keys, keys)] {
            let mut all = Detector::new();
            map.push_range(0..map.len(), &mut all);
            all.push_encoded(members, more)?;
            *map = all.finish().map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{BootError, gather_by};
    use crate::rma::{Allgather as _, SimulatedMembers};
    use proptest::prelude::*;

    type Said = (Option<u32>, i32);

    /// What each member has at the end, all of them in this thread: step by step.
    fn gathered(said: &[Said]) -> Vec<Colors> {
        let n = said.len() as u32;
        let mut all: Vec<Colors> =
            said.iter().map(|&(color, key)| Colors::of(color, key).expect("values")).collect();
        let mut distance = 1;
        while distance < n {
            let count = distance.min(n - distance);
            let heads: Vec<_> = all.iter().map(|one| one.head(count)).collect();
            for (me, one) in (0..n).zip(&mut all) {
                one.append(count, &heads[((me + distance) % n) as usize]).expect("values");
            }
            distance *= 2;
        }
        all
    }

    fn check(said: &[Said]) {
        for (me, colors) in (0..).zip(gathered(said)) {
            assert!(!colors.are_refused());
            let Some(color) = said[me as usize].0 else { continue };
            let mut expected: Vec<(i32, u32)> = (0..)
                .zip(said)
                .filter(|(_, other)| other.0 == Some(color))
                .map(|(rank, other)| (other.1, rank))
                .collect();
            expected.sort_unstable();
            let ranks = colors.ranks_of(color, me).expect("a map");
            let found = ranks.iter().map(|it| it.lpid);
            assert!(found.eq(expected.into_iter().map(|(_, rank)| rank)), "{me} of {said:?}");
        }
    }

    #[test]
    fn programs_splits() {
        for n in [1u32, 2, 3, 5, 8, 13, 24, 64, 65, 100] {
            let all = |said: &dyn Fn(i32) -> (Option<i32>, i32)| {
                let list: Vec<Said> = (0..n as i32)
                    .map(|rank| (said(rank).0.map(|color| color as u32), said(rank).1))
                    .collect();
                check(&list);
            };
            all(&|rank| (Some(rank % 2), 0));
            all(&|rank| (Some(rank % 2), rank));
            all(&|rank| (Some(rank % 3), -rank));
            all(&|rank| (Some(rank / 4), rank % 4));
            all(&|rank| (Some(rank / 4 % 3), 7 - rank % 5));
            all(&|rank| ((rank > 2).then_some(0), 0));
            all(&|rank| ((rank % 5 == 0).then_some(rank / 10), 1 - rank));
            all(&|rank| (Some(rank * 7919 % 11), rank * 31 % 17));
        }
    }

    proptest! {
        #[test]
        fn any_split(said in prop::collection::vec((prop::option::of(0u32..4), -3i32..4), 1..40)) {
            check(&said);
        }
    }

    proptest! {
        #[test]
        fn any_words_of_a_member_are_values_or_refused(
            words in prop::collection::vec(prop::option::weighted(0.7, 0u32..9), 0..24), more in 1u32..20,
        ) {
            let word = |word: Option<u32>| word.unwrap_or(u32::MAX - 3).to_le_bytes();
            let bytes: Vec<u8> = words.into_iter().flat_map(word).collect();
            let mut one = Colors::of(Some(1), 0).expect("values");
            if one.append(more, &bytes).is_ok() && !one.are_refused() {
                prop_assert_eq!((one.colors.len(), one.keys.len()), (more + 1, more + 1));
            }
        }
    }

    #[test]
    fn a_formula_of_the_rank_is_some_tens_of_bytes() {
        const N: u32 = 1 << 20;
        let me = 777_777;
        let members = SimulatedMembers::new(N, me, |rank| (Some(rank % 2), 0));
        let mut longest = 0;
        let mut mine = Colors::of(Some(me % 2), 0).expect("values");
        let exchange = |to, from, head: Vec<u8>| {
            longest = longest.max(head.len());
            Ok((from, members.exchange(to, from, &head).expect("values")))
        };
        gather_by((N, me), &mut mine, exchange).expect("a gather");
        assert_eq!(members.messages(), 20);
        assert!(longest < 200, "{longest} bytes");
        let ranks = mine.ranks_of(1, me).expect("a map");
        assert_eq!(ranks, RankMap::affine(0, 1, 2, N / 2).expect("lpids"));
    }

    #[test]
    fn what_no_map_holds_is_asked_otherwise() {
        for odd in
            [(Some(u32::MAX), 0), (Some(LPID_MAX), 0), (Some(1), i32::MIN), (Some(1), i32::MAX)]
        {
            let mut said = vec![(Some(1), 0); 9];
            said[4] = odd;
            let all = gathered(&said);
            assert!(all.iter().all(Colors::are_refused), "{odd:?}");
        }
        let mut one = Colors::of(Some(1), 0).expect("values");
        for wrong in [&[1][..], &[9; 8], &[0; 8], &[255; 64]] {
            assert!(one.append(1, wrong).is_err(), "{wrong:?}");
        }
        let wrong = gather_by((2, 0), &mut one, |_, from, _| Ok((from, vec![3; 20])));
        assert!(matches!(wrong, Err(BootError::Protocol { rank: 1, .. })), "{wrong:?}");
    }
}
