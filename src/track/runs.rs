//! Members of an object as runs: a communicator of regular members is one, whatever its
//! size, and so is what a part of its members knows of it.

/// Members `i` of `0..count`: rank `local + i·step` of the object is process
/// `world + i·stride` of the job, which calls it by `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) job: u64,
    pub(super) local: u32,
    pub(super) world: u32,
    pub(super) id: u32,
    pub(super) count: u32,
    pub(super) step: u32,
    pub(super) stride: i32,
}

impl Run {
    /// One member.
    pub(super) fn one(job: u64, local: u32, world: u32, id: u32) -> Run {
        Run { job, local, world, id, count: 1, step: 1, stride: 0 }
    }

    pub(super) fn local_at(&self, i: u32) -> u32 {
        self.local + i * self.step
    }

    pub(super) fn world_at(&self, i: u32) -> u32 {
        (i64::from(self.world) + i64::from(i) * i64::from(self.stride)) as u32
    }

    /// Without its first `count` members, fewer than there are.
    pub(super) fn behind(&self, count: u32) -> Run {
        let rest = Run {
            local: self.local_at(count),
            world: self.world_at(count),
            count: self.count - count,
            ..*self
        };
        if rest.count == 1 { Run { step: 1, stride: 0, ..rest } } else { rest }
    }

    /// The two as one, if `next` goes on where this ends.
    #[inline]
    pub(super) fn join(&self, next: &Run, order: Order) -> Option<Run> {
        let step = i64::from(next.local) - i64::from(self.local_at(self.count - 1));
        let stride = i64::from(next.world) - i64::from(self.world_at(self.count - 1));
        let goes_on = |run: &Run| {
            run.count == 1 || (i64::from(run.step), i64::from(run.stride)) == (step, stride)
        };
        let near = step == 1 || (order == Order::Scattered && step > 1);
        let same = self.job == next.job && self.id == next.id;
        (near && same && goes_on(self) && goes_on(next)).then(|| Run {
            count: self.count + next.count,
            step: step as u32,
            stride: stride as i32,
            ..*self
        })
    }
}

/// Which runs join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Ranks follow each other without gaps.
    Ranks,
    /// Ranks are those of the world, in which members lie anywhere.
    Scattered,
}

impl Order {
    fn of(self, run: &Run) -> (u64, u32, u64) {
        match self {
            Order::Ranks => (0, run.local, run.job),
            Order::Scattered => (run.job, run.local, 0),
        }
    }
}

/// Runs in the order of their first ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    One(Run),
    Many(Vec<Run>),
}

impl Runs {
    pub(super) const EMPTY: Runs = Runs::Many(Vec::new());

    pub(super) fn as_slice(&self) -> &[Run] {
        match self {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Many(runs) => runs,
        }
    }

    /// Members.
    pub(super) fn members(&self) -> u64 {
        self.as_slice().iter().map(|run| u64::from(run.count)).sum()
    }

    /// Of runs in any order.
    pub(super) fn of(mut runs: Vec<Run>, order: Order) -> Runs {
        runs.sort_by_key(|run| order.of(run));
        let mut joined = Vec::with_capacity(runs.len().min(16));
        runs.into_iter().for_each(|run| push(&mut joined, run, order));
        match joined[..] {
            [run] => Runs::One(run),
            _ => Runs::Many(joined),
        }
    }

    /// The runs of both.
    #[inline]
    pub(super) fn merge(&mut self, other: &Runs, order: Order) {
        if let (Runs::One(a), Runs::One(b)) = (&*self, other) {
            let (first, then) = if order.of(a) <= order.of(b) { (a, b) } else { (b, a) };
            *self = match first.join(then, order) {
                Some(run) => Runs::One(run),
                None => Runs::Many(vec![*first, *then]),
            };
            return;
        }
        self.merge_lists(other.as_slice(), order);
    }

    fn merge_lists(&mut self, other: &[Run], order: Order) {
        if other.is_empty() {
            return;
        }
        let (mut a, mut b) = (self.as_slice(), other);
        let mut runs = Vec::with_capacity(a.len() + b.len());
        loop {
            let from = match (a, b) {
                ([x, ..], [y, ..]) if order.of(x) <= order.of(y) => &mut a,
                (_, [_, ..]) => &mut b,
                ([_, ..], []) => &mut a,
                ([], []) => break,
            };
            push(&mut runs, from[0], order);
            *from = &from[1..];
        }
        *self = match runs[..] {
            [run] => Runs::One(run),
            _ => Runs::Many(runs),
        };
    }
}

fn push(runs: &mut Vec<Run>, run: Run, order: Order) {
    if let Some(last) = runs.last_mut()
        && let Some(joined) = last.join(&run, order)
    {
        *last = joined;
    } else {
        runs.push(run);
    }
}
