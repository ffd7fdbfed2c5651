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
}

/// The tracked operations of a context.
#[derive(Debug)]
pub(super) struct Completions {
    /// Those under way, by world rank of the peer.
    under_way: RefCell<BTreeMap<u32, u32>>,
    next_token: Cell<u64>,
    /// Tokens somebody waits for, with the result once it is there.
    awaited: RefCell<BTreeMap<u64, Option<Outcome>>>,
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
        let n = self.next_token.get();
        self.next_token.set(n.wrapping_add(1));
        // The upper bits are those of the class, 0 here.
        Token((n & Token::NUMBERS) << 32 | u64::from(peer))
    }

    /// Counts an operation that was issued with a token; `awaited`: somebody
    /// will ask for its answer.
    #[inline]
    pub(super) fn issued(&self, token: Token, awaited: bool) {
        if awaited {
            self.awaited.borrow_mut().insert(token.0, None);
        }
        *self.under_way.borrow_mut().entry(token.rank()).or_default() += 1;
    }

    /// An operation ended. Returns the failure, with the world rank it was for,
    /// where nobody waits for the answer.
    #[inline]
    pub(super) fn finished(&self, token: u64, result: Outcome) -> Option<(u32, NetError)> {
        let token = Token(token);
        if let Some(count) = self.under_way.borrow_mut().get_mut(&token.rank()) {
            *count = count.saturating_sub(1);
        }
        if let Some(answer) = self.awaited.borrow_mut().get_mut(&token.0) {
            *answer = Some(result);
            return None;
        }
        Some((token.rank(), result.err()?))
    }

    /// Operations under way, those that were given up left out.
    pub(super) fn outstanding(&self) -> u32 {
        self.under_way.borrow().values().sum()
    }

    /// Which of `peers`, of all peers when that is empty, have operations under
    /// way.
    #[inline]
    pub(super) fn pending(&self, peers: &[u32]) -> Vec<u32> {
        let under_way = self.under_way.borrow();
        let busy = |rank: &u32| under_way.get(rank).is_some_and(|&count| count > 0);
        match peers {
            [] => under_way.keys().copied().filter(busy).collect(),
            peers => peers.iter().copied().filter(busy).collect(),
        }
    }

    /// Whether there are any of [`Completions::pending`].
    #[inline]
    pub(super) fn has_pending(&self, peers: &[u32]) -> bool {
        let under_way = self.under_way.borrow();
        match peers {
            [] => under_way.values().any(|&count| count > 0),
            peers => peers.iter().any(|rank| under_way.get(rank).is_some_and(|&count| count > 0)),
        }
    }

    /// Nobody waits for a token any more. Returns the failure, with the world rank it
    /// was for, where the operation has failed already.
    #[must_use = "else the failure is told nowhere"]
    pub(super) fn forget(&self, token: Token) -> Option<(u32, NetError)> {
        let answer = self.awaited.borrow_mut().remove(&token.0)?;
        Some((token.rank(), answer?.err()?))
    }

    /// The result of an expected token, once.
    #[inline]
    pub(super) fn answer(&self, token: Token) -> Option<Outcome> {
        let mut awaited = self.awaited.borrow_mut();
        awaited.get(&token.0)?.as_ref()?;
        awaited.remove(&token.0).flatten()
    }

    /// Counts what is under way towards a peer no more. Returns how many there
    /// were.
    pub(super) fn give_up(&self, peer: u32) -> u32 {
        self.under_way.borrow_mut().remove(&peer).unwrap_or(0)
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
        for (token, result) in self.awaited.borrow_mut().iter_mut() {
            let rank = Token(*token).rank();
            if result.is_none() && towards(rank) {
                *result = Some(Err(error()));
                *told.entry(rank).or_default() += 1;
            }
        }
        let mut untold = Vec::new();
        for (&rank, count) in self.under_way.borrow_mut().iter_mut() {
            if *count > 0 && towards(rank) {
                untold.extend((*count > told.get(&rank).copied().unwrap_or(0)).then_some(rank));
                *count = 0;
            }
        }
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
