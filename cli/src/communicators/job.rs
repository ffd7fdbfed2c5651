//! What the ranks of the job do.

use crate::output::text;
use crate::ranks::{Steps, check, exchange, word};
use rankway::msg::Messenger;
use rankway::netmod::in_process::InProcess;
use rankway::rma::Communicator;
use rankway_cli::observe::maps::{Builtin, Random};
use std::collections::HashMap;
use std::sync::Arc;

/// Steps of each communicator: made, messages, gathers, freed.
pub(super) const STEPS: usize = 4;
/// Between random members of each.
pub(super) const MESSAGES: usize = 10_000;
/// To the first member of each.
pub(super) const GATHERS: u32 = 10;

/// A communicator that all ranks make.
pub(super) struct Experiment {
    pub(super) lpids: Vec<u32>,
    /// From and to, by their places in it.
    pairs: Vec<(u32, u32)>,
    /// Which of them a place has to do with.
    by_place: HashMap<u32, Vec<u32>>,
}

impl Experiment {
    /// Its members among so many ranks.
    ///
    /// # Errors
    /// None of them is there.
    pub(super) fn new(of: &Builtin, ranks: u32) -> Result<Experiment, String> {
        let sample = of.make(of.universe, 0).map_err(text)?;
        let lpids: Vec<u32> = sample.lpids.iter().copied().filter(|&lpid| lpid < ranks).collect();
        if lpids.is_empty() {
            let first = sample.lpids.iter().min().map_or(0, |&lpid| u64::from(lpid));
            return Err(format!(
                "none of the first {ranks} ranks is in '{}': ask for {} or more, or name other maps",
                of.name,
                first + 1
            ));
        }
        let members = lpids.len() as u32;
        let mut random = Random::new(u64::from(members));
        let pair = |_| {
            let from = random.below(members);
            // (With itself where it is alone.)
            (from, (from + 1 + random.below(members.max(2) - 1)) % members)
        };
        let pairs: Vec<(u32, u32)> = (0..MESSAGES).map(pair).collect();
        let mut by_place: HashMap<u32, Vec<u32>> = HashMap::new();
        for (index, &(from, to)) in (0..).zip(&pairs) {
            by_place.entry(from).or_default().push(index);
            if to != from {
                by_place.entry(to).or_default().push(index);
            }
        }
        Ok(Experiment { lpids, pairs, by_place })
    }

    /// What a member sends under a tag.
    fn word(&self, from: u32, tag: u32) -> u64 {
        word(self.lpids[from as usize], tag)
    }
}

pub(super) struct Job {
    pub(super) steps: Steps,
    pub(super) experiments: Vec<Experiment>,
}

impl Job {
    /// Of so many ranks; `ended` is told of each step.
    pub(super) fn new(
        ranks: u32,
        experiments: Vec<Experiment>,
        ended: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Arc<Job>, String> {
        Ok(Arc::new(Job { steps: Steps::new(ranks, ended)?, experiments }))
    }

    /// The life of one rank.
    pub(super) fn rank(&self, rank: u32) -> Result<(), String> {
        let context = self.steps.context(rank)?;
        let world = Communicator::world(&context);
        self.steps.end(&world)?;
        for experiment in &self.experiments {
            let made = world.create(experiment.lpids.iter().copied()).map_err(text)?;
            self.steps.end(&world)?;
            let member = made.as_ref().map(|comm| Member::new(experiment, comm)).transpose()?;
            if let Some(member) = &member {
                member.sends()?;
            }
            self.steps.end(&world)?;
            if let Some(member) = &member {
                (0..GATHERS).try_for_each(|round| member.gathers(MESSAGES as u32 + round))?;
            }
            self.steps.end(&world)?;
            drop(member);
            drop(made);
            self.steps.end(&world)?;
        }
        Ok(())
    }
}

/// A rank in one of the communicators.
struct Member<'a> {
    of: &'a Experiment,
    place: u32,
    messenger: Messenger<'a, InProcess>,
}

impl<'a> Member<'a> {
    fn new(of: &'a Experiment, comm: &'a Communicator<InProcess>) -> Result<Member<'a>, String> {
        let place = comm.rank();
        let own = comm.device().boot().rank();
        check(of.lpids.get(place as usize) == Some(&own), "rank")?;
        Ok(Member { of, place, messenger: Messenger::open(comm).map_err(text)? })
    }

    /// Its part of the messages between random members.
    fn sends(&self) -> Result<(), String> {
        let Some(mine) = self.of.by_place.get(&self.place) else { return Ok(()) };
        let pairs = mine.iter().map(|&tag| (tag, self.of.pairs[tag as usize]));
        let received = pairs.clone().filter(|(_, (_, to))| *to == self.place);
        let sent = pairs.filter(|(_, (from, _))| *from == self.place);
        exchange(
            &self.messenger,
            received.map(|(tag, (from, _))| (from, tag, self.of.word(from, tag))),
            sent.map(|(tag, (_, to))| (to, tag, self.of.word(self.place, tag))),
        )
    }

    /// A word of each member at the first.
    fn gathers(&self, tag: u32) -> Result<(), String> {
        let members = if self.place == 0 { self.of.lpids.len() as u32 } else { 1 };
        let received = (1..members).map(|from| (from, tag, self.of.word(from, tag)));
        let sent = (self.place > 0).then(|| (0, tag, self.of.word(self.place, tag)));
        exchange(&self.messenger, received, sent)
    }
}
