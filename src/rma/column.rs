//! A value for each rank, one word where all agree.

use super::Error;
use super::lanes::Lanes;

/// Values that differ are a table up to so many ranks.
const TABLE_RANKS: u32 = 8192;

/// One value for each rank of a communicator; one word when all are equal, and where they
/// differ among many ranks, maps that hold a formula where there is one.
#[derive(Debug)]
pub(super) enum Column {
    Uniform(u64),
    Table(Box<[u64]>),
    Lanes(Box<Lanes>),
}

impl Column {
    pub(super) fn new(values: impl ExactSizeIterator<Item = u64> + Clone) -> Column {
        let first = values.clone().next().unwrap_or(0);
        if values.clone().all(|v| v == first) {
            Column::Uniform(first)
        } else {
            Column::Table(values.collect())
        }
    }

    /// Of what was gathered, by rank.
    ///
    /// # Errors
    /// None in practice: what was a map can be one in another form.
    pub(super) fn of(lanes: &Lanes) -> Result<Column, Error> {
        Ok(match lanes.uniform() {
            Some(value) => Column::Uniform(value),
            None if lanes.len() <= TABLE_RANKS => Column::Table(lanes.iter().collect()),
            None => Column::Lanes(Box::new(lanes.compressed()?)),
        })
    }

    pub(super) fn get(&self, rank: u32) -> u64 {
        match self {
            Column::Uniform(v) => *v,
            Column::Table(t) => t.get(rank as usize).copied().unwrap_or(0),
            Column::Lanes(lanes) => lanes.get(rank),
        }
    }

    pub(super) fn uniform(&self) -> Option<u64> {
        match self {
            Column::Uniform(v) => Some(*v),
            Column::Table(_) | Column::Lanes(_) => None,
        }
    }

    /// The values of these ranks, in this order.
    pub(super) fn pick(&self, ranks: &[u32]) -> Column {
        match self {
            Column::Uniform(v) => Column::Uniform(*v),
            _ => Column::new(ranks.iter().map(|&rank| self.get(rank))),
        }
    }

    pub(super) fn heap(&self) -> usize {
        match self {
            Column::Uniform(_) => 0,
            Column::Table(t) => size_of_val(&**t),
            Column::Lanes(lanes) => size_of::<Lanes>() + lanes.heap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_are_maps_and_few_a_table() {
        const MANY: u64 = 3 * TABLE_RANKS as u64;
        let all: [(&dyn Fn(u64) -> u64, usize); 4] = [
            (&|_| u64::MAX, 0),
            (&|rank| u64::MAX - rank % 2, 300),
            (&|rank| 4096 + 8 * (rank / 64 % 3), 300),
            (&|rank| rank * rank * 0x9e37_79b9_7f4a_7c15, 13 * MANY as usize),
        ];
        for (of, heap) in all {
            for size in [1, 2, 1000, MANY] {
                let column = Column::of(&Lanes::new((0..size).map(of)).unwrap()).unwrap();
                assert!((0..size).all(|rank| column.get(rank as u32) == of(rank)), "{column:?}");
                let same = (1..size).all(|rank| of(rank) == of(0));
                assert_eq!(column.uniform(), same.then_some(of(0)));
                assert!(size < MANY || column.heap() <= heap, "{} bytes", column.heap());
            }
        }
    }
}
