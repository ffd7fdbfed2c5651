//! Tracked operations: a token for each, and how it ended.
//!
//! Counts and remembers, and asks nobody: who finds out that a peer's operations
//! will never complete says so.

use crate::netmod::NetError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// How a tracked operation ended.
pub(crate) type Outcome = Result<(), NetError>;

/// A tracked operation; the world rank it is for travels in the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    const NUMBERS: u64 = (1 << 28) - 1;

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    fn rank(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn number(self) -> u64 {
        self.0 >> 32 & Token::NUMBERS
    }
}

/// Operations under way by world rank of the peer, those towards some peers at hand: a
/// tree takes as long as the rest of a tracked operation.
#[derive(Debug, Default)]
struct Counts {
    /// A rank and its count, at the rank's lowest bits; where a count is 0, any rank.
    at_hand: [(u32, u32); 8],
    /// The others, none of them 0.
    others: BTreeMap<u32, u32>,
}

impl Counts {
    #[inline]
    fn of(&mut self, rank: u32) -> &mut u32 {
        let place = rank as usize % self.at_hand.len();
        if self.at_hand[place].0 != rank {
            self.bring(rank, place);
        }
        &mut self.at_hand[place].1
    }

    #[cold]
    fn bring(&mut self, rank: u32, place: usize) {
        let mut other = (rank, self.others.remove(&rank).unwrap_or(0));
        std::mem::swap(&mut other, &mut self.at_hand[place]);
        if other.1 > 0 {
            self.others.insert(other.0, other.1);
        }
    }

    #[inline]
    fn get(&self, rank: u32) -> u32 {
        match self.at_hand[rank as usize % self.at_hand.len()] {
            (at_hand, count) if at_hand == rank => count,
            _ => self.others.get(&rank).copied().unwrap_or(0),
        }
    }

    /// Of each peer with operations under way.
    fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        let others = self.others.iter().map(|(&rank, &count)| (rank, count));
        self.at_hand.into_iter().filter(|&(_, count)| count > 0).chain(others)
    }
}

/// What became of a token that somebody waits for.
#[derive(Debug, Default)]
enum Answer {
    #[default]
    Free,
    Awaited(Token),
    There(Token, Outcome),
}

impl Answer {
    #[inline]
    fn token(&self) -> Option<Token> {
        match self {
            Answer::Free => None,
            Answer::Awaited(token) | Answer::There(token, _) => Some(*token),
        }
    }
}

/// The tokens that somebody waits for, each at its number modulo the places, which are a
/// power of two or none: numbers follow each other, so few meet.
#[derive(Debug, Default)]
struct Awaited {
    places: Vec<Answer>,
    used: usize,
}

impl Awaited {
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    /// Whether an older token stands where one of this number would.
    #[inline]
    fn meets(&self, number: u64) -> bool {
        self.places.get(self.place(number)).is_some_and(|other| other.token().is_some())
    }

    #[inline]
    fn of(&mut self, token: Token) -> Option<&mut Answer> {
        let place = self.place(token.number());
        self.places.get_mut(place).filter(|answer| answer.token() == Some(token))
    }

    #[inline]
    fn add(&mut self, token: Token) {
        while 2 * (self.used + 1) > self.places.len() || self.meets(token.number()) {
            self.grow();
        }
        let place = self.place(token.number());
        self.places[place] = Answer::Awaited(token);
        self.used += 1;
    }

    /// Twice the places: what stood apart stands apart again.
    #[cold]
    fn grow(&mut self) {
        let places = (2 * self.places.len()).max(8);
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(places, Answer::default);
        for answer in old {
            if let Some(token) = answer.token() {
                let place = self.place(token.number());
                self.places[place] = answer;
            }
        }
    }

    /// Takes a token out.
    #[inline]
    fn take(&mut self, token: Token) -> Option<Answer> {
        let answer = self.of(token).map(std::mem::take)?;
        self.used -= 1;
        Some(answer)
    }
}

/// The tracked operations of a context.
#[derive(Debug)]
pub(super) struct Completions {
    under_way: RefCell<Counts>,
    next_token: Cell<u64>,
    awaited: RefCell<Awaited>,
}

impl Completions {
    pub(super) fn new() -> Completions {
        Completions {
            under_way: RefCell::default(),
            next_token: Cell::new(1),
            awaited: RefCell::default(),
        }
    }

    /// A token for an operation towards a world rank.
    #[inline]
    pub(super) fn token(&self, peer: u32) -> Token {
        let mut n = self.next_token.get();
        // (At most half of the places are in use.)
        while self.awaited.borrow().meets(n & Token::NUMBERS) {
            n = n.wrapping_add(1);
        }
        self.next_token.set(n.wrapping_add(1));
        // The upper bits are those of the class, 0 here.
        Token((n & Token::NUMBERS) << 32 | u64::from(peer))
    }

    /// Counts an operation that was issued with a token; `awaited`: somebody
    /// will ask for its answer.
    #[inline]
    pub(super) fn issued(&self, token: Token, awaited: bool) {
        if awaited {
            self.awaited.borrow_mut().add(token);
        }
        *self.under_way.borrow_mut().of(token.rank()) += 1;
    }

    /// An operation ended. Returns the failure, with the world rank it was for,
    /// where nobody waits for the answer.
    #[inline]
    pub(super) fn finished(&self, token: u64, result: Outcome) -> Option<(u32, NetError)> {
        let token = Token(token);
        // (None, where those towards the peer were given up.)
        let mut under_way = self.under_way.borrow_mut();
        let count = under_way.of(token.rank());
        *count = count.saturating_sub(1);
        if let Some(answer) = self.awaited.borrow_mut().of(token) {
            *answer = Answer::There(token, result);
            return None;
        }
        Some((token.rank(), result.err()?))
    }

    /// Operations under way, those that were given up left out.
    pub(super) fn outstanding(&self) -> u32 {
        self.under_way.borrow().all().map(|(_, count)| count).sum()
    }

    /// Which of `peers`, of all peers when that is empty, have operations under
    /// way; all by rank.
    #[inline]
    pub(super) fn pending(&self, peers: &[u32]) -> Vec<u32> {
        let under_way = self.under_way.borrow();
        match peers {
            [] => {
                let mut all: Vec<u32> = under_way.all().map(|(rank, _)| rank).collect();
                all.sort_unstable();
                all
            }
            peers => peers.iter().copied().filter(|&rank| under_way.get(rank) > 0).collect(),
        }
    }

    /// Whether there are any of [`Completions::pending`].
    #[inline]
    pub(super) fn has_pending(&self, peers: &[u32]) -> bool {
        let under_way = self.under_way.borrow();
        match peers {
            [] => under_way.all().next().is_some(),
            peers => peers.iter().any(|&rank| under_way.get(rank) > 0),
        }
    }

    /// Nobody waits for a token any more. Returns the failure, with the world rank it
    /// was for, where the operation has failed already.
    #[must_use = "else the failure is told nowhere"]
    pub(super) fn forget(&self, token: Token) -> Option<(u32, NetError)> {
        match self.awaited.borrow_mut().take(token)? {
            Answer::There(_, outcome) => Some((token.rank(), outcome.err()?)),
            _ => None,
        }
    }

    /// The result of an expected token, once.
    #[inline]
    pub(super) fn answer(&self, token: Token) -> Option<Outcome> {
        let mut awaited = self.awaited.borrow_mut();
        let answer = awaited.of(token)?;
        if let Answer::Awaited(_) = answer {
            return None;
        }
        let Answer::There(_, outcome) = std::mem::take(answer) else { return None };
        awaited.used -= 1;
        Some(outcome)
    }

    /// Counts what is under way towards a peer no more. Returns how many there
    /// were.
    pub(super) fn give_up(&self, peer: u32) -> u32 {
        std::mem::take(self.under_way.borrow_mut().of(peer))
    }

    /// Ends all that is under way towards some peers with an error. Returns
    /// those peers with operations that nobody waits for: who waits is told
    /// here, once, and not by a flush again.
    pub(super) fn fail_all(
        &self,
        towards: impl Fn(u32) -> bool,
        error: impl Fn() -> NetError,
    ) -> Vec<u32> {
        let mut told: BTreeMap<u32, u32> = BTreeMap::new();
        for answer in &mut self.awaited.borrow_mut().places {
            if let &mut Answer::Awaited(token) = answer
                && towards(token.rank())
            {
                *answer = Answer::There(token, Err(error()));
                *told.entry(token.rank()).or_default() += 1;
            }
        }
        let mut under_way = self.under_way.borrow_mut();
        let mut untold: Vec<(u32, u32)> =
            under_way.all().filter(|&(rank, _)| towards(rank)).collect();
        for &(rank, _) in &untold {
            *under_way.of(rank) = 0;
        }
        untold.retain(|(rank, count)| *count > told.get(rank).copied().unwrap_or(0));
        untold.sort_unstable();
        untold.into_iter().map(|(rank, _)| rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_waits_is_told_and_the_rest_comes_back() {
        let completions = Completions::new();
        let [awaited, other, far] = [7, 7, 9].map(|peer| completions.token(peer));
        completions.issued(awaited, true);
        completions.issued(other, false);
        completions.issued(far, false);
        assert_eq!((completions.outstanding(), completions.pending(&[])), (3, vec![7, 9]));
        assert!(completions.answer(awaited).is_none());
        assert_eq!(completions.fail_all(|rank| rank == 7, || NetError::Corrupt), [7]);
        assert!(matches!(completions.answer(awaited), Some(Err(NetError::Corrupt))));
        assert!(completions.answer(awaited).is_none(), "once");
        assert_eq!(completions.pending(&[]), [9]);
        let failed = completions.finished(far.bits(), Err(NetError::Corrupt));
        assert!(matches!(failed, Some((9, NetError::Corrupt))));
        assert_eq!(completions.outstanding(), 0);
        for (failed, told) in [(false, false), (true, true)] {
            let token = completions.token(7);
            completions.issued(token, true);
            if failed {
                assert!(completions.finished(token.bits(), Err(NetError::Corrupt)).is_none());
            }
            assert_eq!(completions.forget(token).is_some(), told);
            assert!(completions.answer(token).is_none());
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Issue { peer: u32, awaited: bool },
        Finish { which: usize, fails: bool },
        Answer(usize),
        Forget(usize),
        GiveUp(u32),
        FailAll { of: u32 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..40_u32, any::<bool>()).prop_map(|(peer, awaited)| Step::Issue { peer, awaited }),
            6 => (0..64_usize, any::<bool>()).prop_map(|(which, fails)| Step::Finish { which, fails }),
            5 => (0..64_usize).prop_map(Step::Answer),
            1 => (0..64_usize).prop_map(Step::Forget),
            1 => (0..40_u32).prop_map(Step::GiveUp),
            1 => (1..5_u32).prop_map(|of| Step::FailAll { of }),
        ];
        proptest::collection::vec(step, 0..300)
    }

    /// What is told of an outcome.
    fn fails(outcome: Outcome) -> bool {
        outcome.is_err()
    }

    proptest! {
        /// Against maps by rank and by token, whatever comes in which order.
        #[test]
        fn counts_and_answers_are_those_of_plain_maps(steps in steps()) {
            let completions = Completions::new();
            let mut counts = BTreeMap::<u32, u32>::new();
            let mut answers = BTreeMap::<u64, Option<bool>>::new();
            let mut all = Vec::new();
            for step in steps {
                match step {
                    Step::Issue { peer, awaited } => {
                        let token = completions.token(peer);
                        prop_assert!(!all.contains(&token), "a token twice");
                        all.push(token);
                        completions.issued(token, awaited);
                        *counts.entry(peer).or_default() += 1;
                        if awaited {
                            answers.insert(token.bits(), None);
                        }
                    }
                    // (Also twice, and of a peer that was given up.)
                    Step::Finish { which, fails } => {
                        let Some(&token) = all.iter().rev().nth(which) else { continue };
                        let result = if fails { Err(NetError::Corrupt) } else { Ok(()) };
                        let told = completions.finished(token.bits(), result).map(|told| told.0);
                        let count = counts.entry(token.rank()).or_default();
                        *count = count.saturating_sub(1);
                        let waits = answers.get_mut(&token.bits());
                        prop_assert_eq!(told, (fails && waits.is_none()).then_some(token.rank()));
                        waits.into_iter().for_each(|answer| *answer = Some(fails));
                    }
                    Step::Answer(which) => {
                        let Some(&token) = all.iter().rev().nth(which) else { continue };
                        let want = answers.get(&token.bits()).copied().flatten();
                        prop_assert_eq!(completions.answer(token).map(fails), want);
                        want.map(|_| answers.remove(&token.bits()));
                    }
                    Step::Forget(which) => {
                        let Some(&token) = all.iter().rev().nth(which) else { continue };
                        let want = answers.remove(&token.bits()).flatten() == Some(true);
                        let told = completions.forget(token).map(|told| told.0);
                        prop_assert_eq!(told, want.then_some(token.rank()));
                    }
                    Step::GiveUp(peer) => {
                        let want = counts.remove(&peer).unwrap_or(0);
                        prop_assert_eq!(completions.give_up(peer), want);
                    }
                    Step::FailAll { of } => {
                        let mut untold = counts.clone();
                        untold.retain(|peer, _| peer.is_multiple_of(of));
                        let mut told = BTreeMap::<u32, u32>::new();
                        for (&token, answer) in &mut answers {
                            let peer = Token(token).rank();
                            if peer.is_multiple_of(of) && answer.is_none() {
                                *answer = Some(true);
                                *told.entry(peer).or_default() += 1;
                            }
                        }
                        untold.retain(|peer, count| *count > told.get(peer).copied().unwrap_or(0));
                        counts.retain(|peer, _| !peer.is_multiple_of(of));
                        let got = completions.fail_all(|peer| peer.is_multiple_of(of), || NetError::Corrupt);
                        prop_assert_eq!(got, untold.into_keys().collect::<Vec<_>>());
                    }
                }
                let busy = |&(_, &count): &(&u32, &u32)| count > 0;
                let want: Vec<u32> = counts.iter().filter(busy).map(|(&peer, _)| peer).collect();
                prop_assert_eq!(completions.pending(&[]), &want[..]);
                prop_assert_eq!(completions.has_pending(&[]), !want.is_empty());
                let odd: Vec<u32> = (1..40).step_by(2).collect();
                let some: Vec<u32> = want.into_iter().filter(|peer| peer % 2 == 1).collect();
                prop_assert_eq!(completions.has_pending(&odd), !some.is_empty());
                prop_assert_eq!(completions.pending(&odd), some);
                prop_assert_eq!(completions.outstanding(), counts.values().sum::<u32>());
            }
        }
    }
}
