//! What the members of a communicator say in a collective, gathered without a list of them:
//! words as rank maps, since most programs choose them by a formula of the rank.

use crate::boot::{Around, Gathered};
use crate::rankmap::{LPID_MAX, MapError, RankMap};
use crate::rma::lanes::Lanes;

/// Added to keys, so that all are words and those near 0 differ in one map.
const KEY_ZERO: i64 = 3 << 30;
/// The color of who joins none.
const NO_COLOR: u64 = LPID_MAX as u64;

/// Words of consecutive members: as many of each.
#[derive(Clone, Debug)]
pub(in crate::rma) struct Words {
    /// None where those that differ take more than `most` bytes.
    columns: Vec<Lanes>,
    most: usize,
    /// The greatest of one more word, of which nobody needs those of all.
    greatest: u64,
}

impl Words {
    /// Words of each in a split.
    pub(super) const OF_SPLIT: usize = 2;

    /// Of one member.
    pub(in crate::rma) fn of(words: &[u64], greatest: u64) -> Words {
        Words::repeated(words, greatest, 1)
    }

    /// Of so many members that say the same.
    pub(super) fn repeated(words: &[u64], greatest: u64, members: u32) -> Words {
        let columns = words.iter().map(|&word| Lanes::repeated(word, members)).collect();
        Words { columns, most: usize::MAX, greatest }
    }

    /// What a gather begins with in member `me` of `size`, which says this.
    pub(super) fn around(self, place: (u32, u32)) -> Around<Words> {
        let columns = vec![Lanes::repeated(0, 0); self.columns.len()];
        let nobody = Words { columns, greatest: 0, ..self };
        Around::new(self, nobody, place)
    }

    /// These as far as they take no more bytes than so many; more are given up, in some
    /// members or in all.
    pub(super) fn within(self, most: usize) -> Words {
        Words { most, ..self }
    }

    /// What a member says in a split.
    pub(super) fn said_in_split(color: Option<u32>, key: i32) -> [u64; Words::OF_SPLIT] {
        [of_color(color), of_key(key)]
    }

    /// What members say in a split.
    ///
    /// # Errors
    /// More than there can be.
    pub(super) fn of_split(
        said: impl Iterator<Item = (Option<u32>, i32)> + Clone,
    ) -> Result<Words, MapError> {
        let colors = Lanes::new(said.clone().map(|(color, _)| of_color(color)))?;
        let keys = Lanes::new(said.map(|(_, key)| of_key(key)))?;
        Ok(Words { columns: vec![colors, keys], most: usize::MAX, greatest: 0 })
    }

    /// What the first member says and the other word, for [`take_all`](Self::take_all).
    pub(super) fn raw(&self) -> Vec<u8> {
        let words = self.columns.iter().map(|lanes| lanes.get(0)).chain([self.greatest]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Becomes those of all members, by rank, of the bytes that [`raw`](Self::raw) made of each.
    ///
    /// # Errors
    /// Whose bytes are none.
    pub(super) fn take_all(&mut self, all: &[Vec<u8>]) -> Result<(), (u32, String)> {
        let words = self.columns.len();
        for (rank, bytes) in (0..).zip(all) {
            if bytes.len() != (words + 1) * size_of::<u64>() {
                return Err((rank, format!("it does not say {words} words")));
            }
        }
        let word = |bytes: &Vec<u8>, at: usize| {
            bytes.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word))
        };
        let column = |at: usize| Lanes::new(all.iter().map(|bytes| word(bytes, at)));
        let columns = (0..words).map(column).collect::<Result<_, _>>();
        self.columns = columns.map_err(|e| (0, e.to_string()))?;
        self.greatest = all.iter().map(|bytes| word(bytes, words)).max().unwrap_or(0);
        self.limit();
        Ok(())
    }

    /// By rank, of what a gather gave.
    ///
    /// # Errors
    /// None in practice: they were maps.
    pub(super) fn by_rank(gathered: Around<Words>) -> Result<Words, MapError> {
        let (low, high) = gathered.by_rank();
        // (Of no word where either gave them up.)
        let columns = low.columns.iter().zip(&high.columns).map(|(low, high)| low.and(high));
        let columns = columns.collect::<Result<_, _>>()?;
        let mut all = Words { columns, greatest: low.greatest.max(high.greatest), ..low };
        all.limit();
        Ok(all)
    }

    /// The words of one kind, by member; of words without a limit.
    pub(in crate::rma) fn column(&self, at: usize) -> &Lanes {
        &self.columns[at]
    }

    /// The words of all kinds, unless they were given up.
    pub(in crate::rma) fn columns<const N: usize>(&self) -> Option<&[Lanes; N]> {
        self.columns.as_slice().try_into().ok()
    }

    /// Gives up what takes too many bytes.
    fn limit(&mut self) {
        if self.columns.iter().map(Lanes::heap).sum::<usize>() > self.most {
            self.columns.clear();
        }
    }

    /// The greatest of the word of which only that is asked.
    pub(in crate::rma) fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The members that joined with this color in the order of their keys; of words by rank.
    ///
    /// # Errors
    /// None in practice: ranks are lpids.
    pub(super) fn joined(&self, color: u32) -> Result<RankMap, MapError> {
        self.column(1).sort(self.column(0).ranks_of(of_color(Some(color)))?)
    }

    /// What the first of so many members says, of bytes that [`head`](Gathered::head) made.
    ///
    /// # Errors
    /// As [`append`](Gathered::append).
    pub(super) fn first_of(members: u32, bytes: &[u8]) -> Result<Vec<u64>, String> {
        let columns =
            bytes.get(8..12).and_then(|bytes| bytes.try_into().ok()).ok_or("too short")?;
        let (none, columns) = (Lanes::repeated(0, 0), u32::from_le_bytes(columns) as usize);
        let mut words = Words { columns: vec![none; columns], most: usize::MAX, greatest: 0 };
        words.append(members, bytes)?;
        Ok(words.columns.iter().map(|lanes| lanes.get(0)).collect())
    }
}

impl Gathered for Words {
    fn head(&self, members: u32) -> Vec<u8> {
        let mut bytes = self.greatest.to_le_bytes().to_vec();
        bytes.extend((self.columns.len() as u32).to_le_bytes());
        self.columns.iter().for_each(|lanes| lanes.encode(0..members, &mut bytes));
        bytes
    }

    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String> {
        let (greatest, rest) = values.split_first_chunk::<8>().ok_or("too short")?;
        let (columns, mut rest) = rest.split_first_chunk::<4>().ok_or("too short")?;
        let (theirs, ours) = (u32::from_le_bytes(*columns) as usize, self.columns.len());
        self.greatest = self.greatest.max(u64::from_le_bytes(*greatest));
        if self.most < usize::MAX && (theirs == 0 || ours == 0) {
            self.columns.clear();
            return Ok(());
        }
        if theirs != ours {
            return Err(format!("{theirs} words, not {ours}"));
        }
        self.columns.iter_mut().try_for_each(|lanes| lanes.append(members, &mut rest))?;
        if !rest.is_empty() {
            return Err("more than they should be".into());
        }
        self.limit();
        Ok(())
    }
}

/// The word of a color: those below [`LPID_MAX`] differ in one map.
fn of_color(color: Option<u32>) -> u64 {
    match color.map(u64::from) {
        None => NO_COLOR,
        Some(color) if color < NO_COLOR => color,
        Some(color) => color + 1,
    }
}

/// Keys as words of the same order.
fn of_key(key: i32) -> u64 {
    (i64::from(key) + KEY_ZERO) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{BootError, gather_by, gathered_by_all};
    use crate::rma::{Allgather as _, SimulatedMembers};
    use proptest::prelude::*;

    type Said = (Option<u32>, i32);

    fn of((color, key): Said) -> Words {
        Words::of(&Words::said_in_split(color, key), 0)
    }

    /// What each member has at the end, by rank.
    fn gathered(all: Vec<Words>) -> Vec<Words> {
        let size = all.len() as u32;
        let all = (0..).zip(all).map(|(me, one)| one.around((size, me))).collect();
        gathered_by_all(all).into_iter().map(|all| Words::by_rank(all).expect("maps")).collect()
    }

    fn check(said: &[Said]) {
        for (me, words) in (0..).zip(gathered(said.iter().copied().map(of).collect())) {
            let Some(color) = said[me].0 else { continue };
            let mut expected: Vec<(i32, u32)> = (0..)
                .zip(said)
                .filter(|(_, other)| other.0 == Some(color))
                .map(|(rank, other)| (other.1, rank))
                .collect();
            expected.sort_unstable();
            let ranks = words.joined(color).expect("a map");
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

    const FAR: [u32; 4] = [LPID_MAX - 1, LPID_MAX, LPID_MAX + 1, u32::MAX];
    const FAR_KEYS: [i32; 6] =
        [i32::MIN, -(1 << 30) - 1, -(1 << 30), 1 << 30, (1 << 30) - 1, i32::MAX];

    proptest! {
        #[test]
        fn any_split(
            said in prop::collection::vec((prop::option::of(0u32..4), -3i32..4), 1..40),
            far in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, 0..6usize), 0..6),
        ) {
            let mut said = said;
            for (at, color, key) in far {
                let at = at.index(said.len());
                said[at] = (said[at].0.map(|_| FAR[color]), FAR_KEYS[key]);
            }
            check(&said);
        }

        #[test]
        fn words_come_back_by_rank(
            said in prop::collection::vec(prop::array::uniform3(prop_oneof![0u64..3, any::<u64>()]), 1..30),
        ) {
            let greatest = said.iter().map(|it| it[2]).max().unwrap_or(0);
            let each = said.iter().map(|it| Words::of(&it[..2], it[2])).collect();
            let raw: Vec<Vec<u8>> = said.iter().map(|it| Words::of(&it[..2], it[2]).raw()).collect();
            let mut listed = Words::of(&said[0][..2], 0);
            listed.take_all(&raw).expect("as many words each");
            for words in gathered(each).into_iter().chain([listed]) {
                prop_assert_eq!(words.greatest(), greatest);
                for at in 0..2 {
                    let column = words.column(at);
                    let expected: Vec<u64> = said.iter().map(|it| it[at]).collect();
                    prop_assert_eq!(column.iter().collect::<Vec<_>>(), expected.clone());
                    let got: Vec<u64> = (0..column.len()).map(|rank| column.get(rank)).collect();
                    prop_assert_eq!(&got, &expected);
                    let same = expected.iter().all(|&it| it == expected[0]);
                    prop_assert_eq!(column.uniform(), same.then_some(expected[0]));
                    let found = column.ranks_of(expected[0]).expect("a map");
                    let ranks = (0u32..).zip(&expected).filter(|(_, it)| **it == expected[0]);
                    prop_assert!(found.iter().map(|it| it.lpid).eq(ranks.map(|(rank, _)| rank)));
                }
            }
        }

        #[test]
        fn any_words_of_a_member_are_words_or_refused(
            words in prop::collection::vec(prop::option::weighted(0.7, 0u32..9), 0..24), more in 1u32..20,
        ) {
            let word = |word: Option<u32>| word.unwrap_or(u32::MAX - 3).to_le_bytes();
            let bytes: Vec<u8> = words.into_iter().flat_map(word).collect();
            for me in [0, more / 2, more] {
                let mut one = Words::of(&[1, 0], 0).around((1 + more, me));
                if one.append(more, &bytes).is_ok() {
                    let words = Words::by_rank(one).expect("maps");
                    prop_assert_eq!([0, 1].map(|at| words.column(at).len()), [more + 1; 2]);
                }
            }
        }
    }

    #[test]
    fn a_formula_of_the_rank_is_some_tens_of_bytes() {
        // Whether it comes round with the number of ranks or not.
        for (size, me) in [(1 << 20, 777_777), (999_999, 777_777), (999_999, 4), (16_777_213, 0)] {
            let members = SimulatedMembers::new(size, me, |rank| (Some(rank % 2), 0));
            let mut longest = 0;
            let mut all = of((Some(me % 2), 0)).around((size, me));
            let exchange = |to, from, head: Vec<u8>| {
                longest = longest.max(head.len());
                Ok((from, members.exchange(to, from, &head).expect("words")))
            };
            gather_by((size, me), &mut all, exchange).expect("a gather");
            assert_eq!(members.messages(), u64::from(size.next_power_of_two().trailing_zeros()));
            assert!(longest < 200, "{longest} bytes");
            let words = Words::by_rank(all).expect("maps");
            assert!(words.columns.iter().all(|lanes| lanes.heap() == 0), "{words:?}");
            let ranks = words.joined(1).expect("a map");
            assert_eq!(ranks, RankMap::affine(0, 1, 2, size / 2).expect("lpids"));
        }
    }

    #[test]
    fn what_is_too_long_is_given_up_and_the_greatest_is_not() {
        let odd = |rank: u64| rank * rank * 7919 % 10_007;
        let said = |of: &dyn Fn(u64) -> u64, most| {
            gathered((0..400).map(|rank| Words::of(&[of(rank), 5], rank).within(most)).collect())
        };
        for words in said(&odd, 400) {
            assert_eq!((words.columns::<2>().is_none(), words.greatest()), (true, 399));
        }
        for words in said(&odd, 1 << 20).into_iter().chain(said(&|rank| 3 * rank, 0)) {
            assert!(words.columns::<2>().is_some_and(|all| all[1].uniform() == Some(5)));
        }
    }

    #[test]
    fn a_member_in_another_call_is_named() {
        let mut one = Words::of(&[1, 0], 0).around((2, 0));
        let three = Words::of(&[1, 0, 0], 0).head(1);
        for wrong in
            [&[1][..], &[9; 8], &[0; 12], &[255; 64], &three, &[&one.head(1)[..], &[0]].concat()]
        {
            assert!(one.append(1, wrong).is_err(), "{wrong:?}");
        }
        // Where rank 0 is amidst what is said.
        for wrong in
            [&[1][..], &[0; 12], &[255; 64], &three, &[&[20, 0, 0, 0][..], &[0; 64]].concat()]
        {
            let mut one = Words::of(&[1, 0], 0).around((3, 1));
            assert!(one.append(2, wrong).is_err(), "{wrong:?}");
        }
        let mut one = Words::of(&[1, 0], 0).around((2, 0));
        let wrong = gather_by((2, 0), &mut one, |_, from, _| Ok((from, vec![3; 20])));
        assert!(matches!(wrong, Err(BootError::Protocol { rank: 1, .. })), "{wrong:?}");
        let all = [vec![0; 24], vec![0; 16]];
        assert!(matches!(Words::of(&[1, 0], 0).take_all(&all), Err((1, _))));
    }
}
