//! A value for each rank, one word where all agree.

/// One value for each rank of a communicator; one word when all are equal.
#[derive(Debug)]
pub(super) enum Column {
    Uniform(u64),
    Table(Box<[u64]>),
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

    pub(super) fn get(&self, rank: u32) -> u64 {
        match self {
            Column::Uniform(v) => *v,
            Column::Table(t) => t.get(rank as usize).copied().unwrap_or(0),
        }
    }

    pub(super) fn uniform(&self) -> Option<u64> {
        match self {
            Column::Uniform(v) => Some(*v),
            Column::Table(_) => None,
        }
    }

    /// The values of these ranks, in this order.
    pub(super) fn pick(&self, ranks: &[u32]) -> Column {
        match self {
            Column::Uniform(v) => Column::Uniform(*v),
            Column::Table(_) => Column::new(ranks.iter().map(|&rank| self.get(rank))),
        }
    }

    pub(super) fn heap(&self) -> usize {
        match self {
            Column::Uniform(_) => 0,
            Column::Table(t) => size_of_val(&**t),
        }
    }
}
