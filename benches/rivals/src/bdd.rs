//! A set as a decision diagram of biodivine-lib-bdd, the highest bit first, as
//! the thesis orders them.

use biodivine_lib_bdd::{Bdd, BddValuation, BddVariableSet};

/// Members of a set as paths to true.
pub struct Diagram {
    bdd: Bdd,
    bits: u16,
}

/// The diagram of a set that rises, below `2^bits`.
pub fn diagram(lpids: &[u32], bits: u16) -> Diagram {
    let all = BddVariableSet::new_anonymous(bits);
    let literals: Vec<Bdd> = all.variables().iter().map(|&at| all.mk_var(at)).collect();
    let bdd = part(&all, &literals, lpids, 0, 0, bits);
    Diagram { bdd, bits }
}

/// Of the members in the `2^(bits - at)` numbers from `base` on.
fn part(all: &BddVariableSet, is: &[Bdd], set: &[u32], base: u64, at: u16, bits: u16) -> Bdd {
    let size = 1u64 << (bits - at);
    if set.is_empty() {
        return all.mk_false();
    }
    if set.len() as u64 == size {
        return all.mk_true();
    }
    let half = base + size / 2;
    let (low, high) = set.split_at(set.partition_point(|&lpid| u64::from(lpid) < half));
    let low = part(all, is, low, base, at + 1, bits);
    let high = part(all, is, high, half, at + 1, bits);
    Bdd::if_then_else(&is[usize::from(at)], &high, &low)
}

impl Diagram {
    /// Returns true if it is a member.
    pub fn contains(&self, lpid: u32) -> bool {
        let bits = self.bits;
        let values = (0..bits).map(|at| lpid >> (bits - 1 - at) & 1 == 1).collect();
        u64::from(lpid) < 1 << bits && self.bdd.eval_in(&BddValuation::new(values))
    }

    /// Members.
    pub fn count(&self) -> u64 {
        self.bdd.exact_cardinality().try_into().unwrap_or(u64::MAX)
    }

    /// Members, rising.
    pub fn members(&self) -> Vec<u32> {
        let number = |values: BddValuation| {
            values.as_vector().iter().fold(0, |number, &bit| number << 1 | u32::from(bit))
        };
        let mut members: Vec<u32> = self.bdd.sat_valuations().map(number).collect();
        members.sort_unstable();
        members
    }

    /// Decisions, without the two ends.
    pub fn nodes(&self) -> usize {
        self.bdd.size().saturating_sub(2)
    }

    /// Paths to true.
    pub fn paths(&self) -> u64 {
        self.bdd.exact_clause_cardinality().try_into().unwrap_or(u64::MAX)
    }
}
