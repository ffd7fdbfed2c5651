//! The calls of a thread as records of OTF2.
//!
//! A call is an `Enter` and a `Leave` of its region; between them stands what it did. What a
//! call began and a request completed has both records, by the request's number; where one
//! of them was not recorded messages are `MpiSend` and `MpiRecv`, and a collective is where it
//! began.

use super::super::called;
use super::super::edges::{Edge, edges};
use super::UNDEFINED;
use super::ffi::EventWriter;
use super::numbers::Numbers;
use super::pending::Pending;
use super::requests::Requests;
use rankway::track::{
    CallClass, Constructor, Event, EventFlags, Kind, NO_PEER, ProcessTrace, Unified,
};
use std::collections::{BTreeSet, HashMap};

/// Regions of constructors come behind those of kinds.
const CONSTRUCTORS: u32 = 256;

/// `OTF2_CollectiveOp`.
const BARRIER: u8 = 0;
const CREATE: u8 = 17;
const DESTROY: u8 = 18;
const CREATE_AND_ALLOCATE: u8 = 21;
const DESTROY_AND_FREE: u8 = 22;
/// `OTF2_RmaSyncLevel`: of processes and of memory.
const BOTH: u32 = 3;

/// What records named, and when.
#[derive(Default)]
pub(super) struct Used {
    /// Calls that regions are of: `Kind` or [`CONSTRUCTORS`] and `Constructor`, numbered as
    /// they came, for readers expect one after another.
    calls: Vec<u32>,
    regions: HashMap<u32, u32>,
    span: Option<(u64, u64)>,
}

impl Used {
    /// When the first record was, in ns since 1970.
    pub(super) fn begin(&self) -> Option<u64> {
        self.span.map(|(begin, _)| begin)
    }

    /// When the last was.
    pub(super) fn end(&self) -> Option<u64> {
        self.span.map(|(_, end)| end)
    }

    /// Regions by number: what is called, and its role.
    pub(super) fn regions(&self) -> impl Iterator<Item = (u32, (&'static str, u8))> {
        let known = |&call: &u32| region(call).unwrap_or(("(unknown)", 0));
        (0..).zip(self.calls.iter().map(known))
    }

    fn region(&mut self, call: u32) -> u32 {
        *self.regions.entry(call).or_insert_with(|| {
            self.calls.push(call);
            self.calls.len() as u32 - 1
        })
    }

    fn at(&mut self, time: u64) {
        let (begin, end) = self.span.unwrap_or((time, time));
        self.span = Some((begin.min(time), end.max(time)));
    }
}

/// What a call's region is called, and the number of its role: `OTF2_RegionRole`.
fn region(number: u32) -> Option<(&'static str, u8)> {
    const FUNCTION: u8 = 1;
    const BARRIER: u8 = 15;
    const ONE_TO_ALL: u8 = 23;
    const ALL_TO_ONE: u8 = 24;
    const ALL_TO_ALL: u8 = 25;
    const OTHER_COLLECTIVE: u8 = 26;
    const FILE: u8 = 27;
    const MESSAGE: u8 = 28;
    const RMA: u8 = 29;
    if number >= CONSTRUCTORS {
        let made_by = Constructor::of_number(u8::try_from(number - CONSTRUCTORS).ok()?)?;
        return Some((made_by.name(), OTHER_COLLECTIVE));
    }
    let kind = Kind::of_number(u8::try_from(number).ok()?)?;
    let role = match kind.class() {
        CallClass::Send | CallClass::Receive | CallClass::Post | CallClass::Completion => MESSAGE,
        CallClass::OneSided | CallClass::Synchronization => RMA,
        CallClass::Collective | CallClass::CollectiveStart => match operation(kind) {
            Some(0) => BARRIER,
            Some(1 | 4 | 5) => ONE_TO_ALL,
            Some(2 | 3 | 12) => ALL_TO_ONE,
            Some(14 | 15) | None => OTHER_COLLECTIVE,
            Some(_) => ALL_TO_ALL,
        },
        CallClass::Management if matches!(kind, Kind::FileOpen | Kind::FileClose) => FILE,
        CallClass::Management => OTHER_COLLECTIVE,
        CallClass::Other => FUNCTION,
    };
    Some((kind.name(), role))
}

/// `OTF2_CollectiveOp`; those of neighbours count as what they are called after.
fn operation(kind: Kind) -> Option<u8> {
    use Kind::{
        Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Alltoallw, Barrier, Bcast, Exscan,
        Gather, Gatherv, Iallgather, Iallgatherv, Iallreduce, Ialltoall, Ialltoallv, Ialltoallw,
        Ibarrier, Ibcast, Iexscan, Igather, Igatherv, IneighborAllgather, IneighborAllgatherv,
        IneighborAlltoall, IneighborAlltoallv, IneighborAlltoallw, Ireduce, IreduceScatter,
        IreduceScatterBlock, Iscan, Iscatter, Iscatterv, NeighborAllgather, NeighborAllgatherv,
        NeighborAlltoall, NeighborAlltoallv, NeighborAlltoallw, Reduce, ReduceScatter,
        ReduceScatterBlock, Scan, Scatter, Scatterv,
    };
    Some(match kind {
        Barrier | Ibarrier => BARRIER,
        Bcast | Ibcast => 1,
        Gather | Igather => 2,
        Gatherv | Igatherv => 3,
        Scatter | Iscatter => 4,
        Scatterv | Iscatterv => 5,
        Allgather | Iallgather | NeighborAllgather | IneighborAllgather => 6,
        Allgatherv | Iallgatherv | NeighborAllgatherv | IneighborAllgatherv => 7,
        Alltoall | Ialltoall | NeighborAlltoall | IneighborAlltoall => 8,
        Alltoallv | Ialltoallv | NeighborAlltoallv | IneighborAlltoallv => 9,
        Alltoallw | Ialltoallw | NeighborAlltoallw | IneighborAlltoallw => 10,
        Allreduce | Iallreduce => 11,
        Reduce | Ireduce => 12,
        ReduceScatter | IreduceScatter => 13,
        Scan | Iscan => 14,
        Exscan | Iexscan => 15,
        ReduceScatterBlock | IreduceScatterBlock => 16,
        _ => return None,
    })
}

/// An object as records name it.
#[derive(Clone, Copy)]
struct Object {
    constructor: Constructor,
    comm: u32,
    window: u32,
    /// What it was made of.
    parent: u32,
}

/// Objects of a process, by the numbers it gave them.
pub(super) struct Objects(HashMap<u32, Object>);

/// What was made or freed without a call that tells.
pub(super) struct Untold {
    time: u64,
    object: Object,
    made: bool,
}

impl Objects {
    pub(super) fn new(unified: &Unified, numbers: &Numbers, trace: &ProcessTrace) -> Objects {
        let header = &trace.header;
        let place = |id: u32| unified.object_of(header.job, header.rank, id);
        let object = |id, constructor, parent: u32| {
            let (comm, window) = place(id).map_or((UNDEFINED, UNDEFINED), |at| numbers.of(at));
            let parent = place(parent).map_or(UNDEFINED, |at| numbers.of(at).0);
            Object { constructor, comm, window, parent }
        };
        let all = trace.definitions.iter().map(|one| {
            let definition = &one.definition;
            (one.id, object(one.id, definition.constructor, definition.parent))
        });
        Objects(all.collect())
    }

    /// Communicators and windows of which no call was recorded that made or freed them.
    pub(super) fn untold(&self, trace: &ProcessTrace) -> Vec<Untold> {
        let mut told = BTreeSet::new();
        for event in trace.events.values().flatten() {
            match event.kind() {
                Some(Kind::CommConstruct | Kind::WinConstruct) => told.insert((event.comm, true)),
                Some(Kind::CommFree | Kind::CommDisconnect | Kind::WinFree) => {
                    told.insert((event.comm, false))
                }
                _ => continue,
            };
        }
        let mut untold = Vec::new();
        for defined in &trace.definitions {
            let Some(&object) = self.0.get(&defined.id) else { continue };
            if !object.is_made() {
                continue;
            }
            let mut add = |ticks, made| {
                if !told.contains(&(defined.id, made)) {
                    untold.push(Untold { time: trace.nanos(ticks), object, made });
                }
            };
            add(defined.made, true);
            if let Some(ticks) = defined.freed {
                add(ticks, false);
            }
        }
        untold.sort_by_key(|one| one.time);
        untold
    }

    /// Writes the events of a thread, and `untold` where they belong.
    pub(super) fn write(
        &self,
        writer: &EventWriter<'_>,
        trace: &ProcessTrace,
        events: &[Event],
        untold: &[Untold],
        requests: &Requests,
        used: &mut Used,
    ) -> Result<(), String> {
        let mut untold = untold.iter().peekable();
        let mut of = Thread { writer, requests, pending: Pending::default() };
        edges(trace, events, |edge, time, at| {
            while let Some(one) = untold.next_if(|one| one.time <= time) {
                used.at(one.time);
                one.object.write(writer, one.time, one.made)?;
            }
            used.at(time);
            let event = &events[at];
            let Some(kind) = event.kind() else { return Ok(()) };
            let on = self.0.get(&event.comm);
            let made_by = called(kind, on.map(|one| one.constructor));
            let call = made_by.map_or(kind as u32, |it| CONSTRUCTORS + u32::from(it as u8));
            match edge {
                Edge::Enter => {
                    writer.enter(time, used.region(call))?;
                    of.enters(time, event, kind, on)
                }
                Edge::Leave => {
                    of.leaves(time, event, kind, on)?;
                    writer.leave(time, used.region(call))
                }
                Edge::Moment if kind == Kind::Received => of.received(time, event, on),
                Edge::Moment => of.completed(time, event, on),
            }
        })?;
        for one in untold {
            used.at(one.time);
            one.object.write(writer, one.time, one.made)?;
        }
        Ok(())
    }
}

impl Object {
    /// Returns true of what a call makes and records can name.
    fn is_made(&self) -> bool {
        use Constructor::{ItSelf, Parent, World};
        let there = self.comm != UNDEFINED || self.window != UNDEFINED;
        there && !matches!(self.constructor, World | ItSelf | Parent)
    }

    fn write(&self, writer: &EventWriter<'_>, time: u64, made: bool) -> Result<(), String> {
        self.begin(writer, time)?;
        self.end(writer, time, made)
    }

    fn begin(&self, writer: &EventWriter<'_>, time: u64) -> Result<(), String> {
        match self.window {
            UNDEFINED => writer.collective_begin(time),
            _ => writer.rma_collective_begin(time),
        }
    }

    fn end(&self, writer: &EventWriter<'_>, time: u64, made: bool) -> Result<(), String> {
        let with_memory =
            matches!(self.constructor, Constructor::WinAllocate | Constructor::WinAllocateShared);
        let operation = match (made, with_memory) {
            (true, false) => CREATE,
            (true, true) => CREATE_AND_ALLOCATE,
            (false, false) => DESTROY,
            (false, true) => DESTROY_AND_FREE,
        };
        let Object { comm, window, .. } = *self;
        if window != UNDEFINED {
            match made {
                true => writer.window_create(time, window)?,
                false => writer.window_destroy(time, window)?,
            }
            return writer.rma_collective_end(time, operation, BOTH, window, UNDEFINED, 0, 0);
        }
        match made {
            true => writer.comm_create(time, comm)?,
            false => writer.comm_destroy(time, comm)?,
        }
        // What is made is made by all of what it is made of.
        let all = if made && self.parent != UNDEFINED { self.parent } else { comm };
        writer.collective_end(time, operation, all, UNDEFINED, 0, 0)
    }
}

/// The object that a call makes (`true`) or frees.
fn managed<'a>(event: &Event, kind: Kind, on: Option<&'a Object>) -> Option<(&'a Object, bool)> {
    let on = on.filter(|on| on.is_made() && !event.flags().has(EventFlags::FAILED))?;
    match kind {
        Kind::CommConstruct | Kind::WinConstruct => Some((on, true)),
        Kind::CommFree | Kind::CommDisconnect | Kind::WinFree => Some((on, false)),
        _ => None,
    }
}

/// What a call is on, if bytes move.
fn moves<'a>(event: &Event, on: Option<&'a Object>) -> Option<&'a Object> {
    on.filter(|_| event.peer != NO_PEER && !event.flags().is_void())
}

/// A thread whose events are written.
struct Thread<'a> {
    writer: &'a EventWriter<'a>,
    requests: &'a Requests,
    pending: Pending,
}

impl Thread<'_> {
    fn enters(
        &mut self,
        time: u64,
        event: &Event,
        kind: Kind,
        on: Option<&Object>,
    ) -> Result<(), String> {
        let writer = self.writer;
        if let Some((object, _)) = managed(event, kind, on) {
            return object.begin(writer, time);
        }
        let bytes = event.bytes();
        let request = self.requests.begun(event).map(|(number, _)| number);
        match kind.class() {
            CallClass::Send => match (moves(event, on), request) {
                (Some(on), Some(request)) => {
                    writer.isend(time, event.peer, on.comm, event.tag as u32, bytes, request)
                }
                (Some(on), None) => writer.send(time, event.peer, on.comm, event.tag as u32, bytes),
                (None, _) => Ok(()),
            },
            CallClass::Collective if on.is_some() => writer.collective_begin(time),
            CallClass::CollectiveStart if on.is_some() && request.is_none() => {
                writer.collective_begin(time)
            }
            CallClass::OneSided => {
                let Some(on) = moves(event, on).filter(|on| on.window != UNDEFINED) else {
                    return Ok(());
                };
                let (window, target) = (on.window, event.peer);
                let number = self.pending.begin(window, target, request);
                // `OTF2_RmaAtomicType`.
                const ACCUMULATE: u8 = 0;
                const COMPARE_AND_SWAP: u8 = 3;
                const FETCH_AND_ACCUMULATE: u8 = 7;
                let atomic =
                    |what, back| writer.atomic(time, window, target, what, bytes, back, number);
                match kind {
                    Kind::Put | Kind::Rput => writer.put(time, window, target, bytes, number),
                    Kind::Get | Kind::Rget => writer.get(time, window, target, bytes, number),
                    Kind::Accumulate | Kind::Raccumulate => atomic(ACCUMULATE, 0),
                    Kind::CompareAndSwap => atomic(COMPARE_AND_SWAP, bytes),
                    _ => atomic(FETCH_AND_ACCUMULATE, bytes),
                }
            }
            CallClass::Synchronization if kind == Kind::Fence => match on {
                Some(on) if on.window != UNDEFINED => writer.rma_collective_begin(time),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn leaves(
        &mut self,
        time: u64,
        event: &Event,
        kind: Kind,
        on: Option<&Object>,
    ) -> Result<(), String> {
        let writer = self.writer;
        let window = on.map_or(UNDEFINED, |on| on.window);
        if window != UNDEFINED {
            let pending = &mut self.pending;
            match kind {
                Kind::Flush | Kind::Unlock => {
                    pending.complete(writer, time, window, Some(event.peer))?;
                }
                Kind::FlushAll | Kind::UnlockAll | Kind::Complete | Kind::Fence | Kind::WinFree => {
                    pending.complete(writer, time, window, None)?;
                }
                _ => (),
            }
        }
        if let Some((object, made)) = managed(event, kind, on) {
            return object.end(writer, time, made);
        }
        let request = self.requests.begun(event);
        match kind.class() {
            CallClass::Receive => self.received(time, event, on),
            CallClass::Post | CallClass::Send => match request {
                Some((number, ends)) if ends.receives => writer.irecv_request(time, number),
                _ => Ok(()),
            },
            CallClass::Collective | CallClass::CollectiveStart => match (on, request) {
                (Some(_), Some((number, _))) => writer.collective_request(time, number),
                // (A root that is not there is `OTF2_COLLECTIVE_ROOT_NONE`.)
                (Some(on), None) => {
                    let (operation, sent) = (operation(kind).unwrap_or(BARRIER), event.bytes());
                    writer.collective_end(time, operation, on.comm, event.peer, sent, 0)
                }
                (None, _) => Ok(()),
            },
            CallClass::Synchronization if kind == Kind::Fence && window != UNDEFINED => {
                writer.rma_collective_end(time, BARRIER, BOTH, window, UNDEFINED, 0, 0)
            }
            _ => Ok(()),
        }
    }

    /// A message came, by a request or in the call that asked for it.
    fn received(&self, time: u64, event: &Event, on: Option<&Object>) -> Result<(), String> {
        let (writer, request) = (self.writer, self.requests.ended(event));
        match (moves(event, on), request) {
            (Some(on), Some((number, _))) => {
                let (peer, tag) = (event.peer, event.tag as u32);
                writer.irecv(time, peer, on.comm, tag, event.bytes(), number)
            }
            (Some(on), None) => {
                writer.receive(time, event.peer, on.comm, event.tag as u32, event.bytes())
            }
            (None, Some((number, _))) if event.flags().has(EventFlags::CANCELLED) => {
                writer.cancelled(time, number)
            }
            (None, _) => Ok(()),
        }
    }

    /// What else a request was of is over.
    fn completed(&mut self, time: u64, event: &Event, on: Option<&Object>) -> Result<(), String> {
        let writer = self.writer;
        let Some((number, begun)) = self.requests.ended(event) else { return Ok(()) };
        match (begun.kind.class(), on) {
            (CallClass::Send, Some(_)) if begun.peer != NO_PEER => {
                writer.isend_complete(time, number)
            }
            (CallClass::CollectiveStart, Some(on)) => {
                let operation = operation(begun.kind).unwrap_or(BARRIER);
                writer.collective_complete(
                    time,
                    operation,
                    on.comm,
                    begun.peer,
                    begun.bytes,
                    0,
                    number,
                )
            }
            (CallClass::OneSided, _) => self.pending.complete_locally(writer, time, number),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `OTF2_COLLECTIVE_ROOT_NONE` and a call without a peer are one number.
    const _: () = assert!(NO_PEER == UNDEFINED);

    #[test]
    fn every_collective_has_an_operation_and_every_call_a_region() {
        for &kind in Kind::ALL {
            let collective =
                matches!(kind.class(), CallClass::Collective | CallClass::CollectiveStart);
            assert_eq!(operation(kind).is_some(), collective, "{kind}");
            assert_eq!(region(kind as u32).map(|(name, _)| name), Some(kind.name()));
        }
        for &made_by in Constructor::ALL {
            let name = region(CONSTRUCTORS + u32::from(made_by as u8)).map(|(name, _)| name);
            assert_eq!(name, Some(made_by.name()));
        }
        assert_eq!(region(0), None);
        assert_eq!(region(u32::MAX), None);
    }
}
