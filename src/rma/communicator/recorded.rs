//! Communicators whose calls are recorded.

use super::{ColdState, Communicator};
use crate::device::trace::{Call, Place, Recorded};
use crate::netmod::Netmod;
use crate::rankmap::RankMap;
use crate::rma::{Error, ErrorKind};
use crate::track::{Constructor, Kind};
use std::cell::OnceCell;
use std::panic::Location;
use std::rc::Rc;

/// The record of one communicator.
pub(super) struct Record {
    pub(super) map: RankMap,
    recorded: Recorded,
    end: End,
}

/// What ends when a communicator is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rma) enum End {
    /// Nothing: others may be made of the same.
    Never,
    /// The communicator.
    Communicator,
    /// The window that it is the communicator of.
    Window,
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.end == End::Communicator {
            self.recorded.at_once(Call::new(Kind::CommFree));
        }
        if self.end != End::Never {
            self.recorded.freed();
        }
    }
}

impl<N: Netmod> Communicator<N> {
    /// With its calls recorded there.
    pub(in crate::rma) fn recorded_as(self, recorded: Recorded, end: End) -> Communicator<N> {
        let (strategy, allgather) = (self.map_strategy(), self.shared_allgather());
        let record = Some(Record { map: self.map, recorded, end });
        let cold = OnceCell::from(Rc::new(ColdState {
            strategy,
            allgather,
            record,
            ..ColdState::default()
        }));
        Communicator { map: RankMap::direct(0), cold, ..self }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.cold.get().and_then(|cold| cold.record.as_ref())
    }

    /// Where its calls are recorded, if they are.
    pub(crate) fn recorded(&self) -> Option<&Recorded> {
        self.record().map(|record| &record.recorded)
    }

    /// The map in which messages find ranks: empty where calls are recorded.
    #[inline]
    pub(crate) fn message_map(&self) -> &RankMap {
        &self.map
    }

    /// What tells it apart from others, and what this process is in it.
    pub(in crate::rma) fn place(&self) -> Place {
        let lead = self.map().get(0).unwrap_or_default();
        let lead = u64::from(lead.pg) << 32 | u64::from(lead.lpid);
        Place { lead, rank: self.rank, size: self.size() }
    }

    /// Makes a communicator of this one, and records it where this one's calls are.
    #[track_caller]
    pub(super) fn construct(
        &self,
        constructor: Constructor,
        make: impl FnOnce() -> Result<Option<Communicator<N>>, Error>,
    ) -> Result<Option<Communicator<N>>, Error> {
        let Some(recorded) = self.recorded() else { return make() };
        let place = |made: &Option<Communicator<N>>| made.as_ref().map(Communicator::place);
        let (made, recorded) = recorded.construct(constructor, Location::caller(), make, place);
        Ok(made?.map(|made| match recorded {
            Some(recorded) => made.recorded_as(recorded, End::Communicator),
            None => made,
        }))
    }

    /// [`construct`](Self::construct) where this process is in what is made.
    #[track_caller]
    pub(super) fn construct_one(
        &self,
        constructor: Constructor,
        make: impl FnOnce() -> Result<Communicator<N>, Error>,
    ) -> Result<Communicator<N>, Error> {
        let made = self.construct(constructor, || make().map(Some))?;
        made.ok_or_else(|| ErrorKind::Arguments("this process is not in it".into()).into())
    }

    /// Recorded, where anything is, by the id that its members have agreed on.
    #[track_caller]
    pub(super) fn recorded_by_id(self) -> Communicator<N> {
        let caller = Location::caller();
        let recorded = self
            .device()
            .trace()
            .map(|trace| trace.by_number(self.id, (self.rank, self.size()), caller));
        match recorded {
            Some(recorded) => self.recorded_as(recorded, End::Communicator),
            None => self,
        }
    }

    /// Makes a collective call, and records it; `bytes` is what this process gives.
    pub(super) fn collective<T>(
        &self,
        kind: Kind,
        root: u32,
        bytes: usize,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.recorded() {
            Some(recorded) => recorded.call(Call::with(kind, root, bytes), call),
            None => call(),
        }
    }
}
