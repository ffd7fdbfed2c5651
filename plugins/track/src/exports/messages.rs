//! Point-to-point, and what completes it.

use super::calls;
use crate::calls::{bytes, message, peer, timed, timed_if};
use crate::complete::{Completed, complete, probe, receive, with_status};
use crate::job;
use crate::mpi::at;
use crate::objects::{self, id_of};
use crate::requests::{self, Of, Persistent};
use crate::{calls as made, handles, mpi};
use rankway::track::{Constructor, Event, Kind, NO_PEER};
use std::ffi::c_int;

calls! {
    events;
    each kind: Kind {
        Send MPI_Send,
        Bsend MPI_Bsend,
        Ssend MPI_Ssend,
        Rsend MPI_Rsend,
    } (memory, count: int, datatype, to, tag, comm)
    |call| timed(kind, call, |here, event| message(here, event, (count, datatype), to, tag, comm))
}

calls! {
    events;
    each kind: Kind {
        Isend MPI_Isend,
        Ibsend MPI_Ibsend,
        Issend MPI_Issend,
        Irsend MPI_Irsend,
    } (memory, count: int, datatype, to, tag, comm, request)
    |call| timed(kind, call, |here, event| {
        let event = message(here, event, (count, datatype), to, tag, comm);
        begun(event, request)
    })
}

calls! {
    events;
    MPI_Recv (memory, count: int, datatype, from, tag, comm; status)
        |call| receive(Kind::Recv, status, |here| here.id_of(comm), call);
    MPI_Mrecv (memory, count: int, datatype, matched; status) |call| {
        let matched = comm_of(matched);
        receive(Kind::Mrecv, status, |_| matched, call)
    };
    MPI_Probe (from, tag, comm; status)
        |call| probe(Kind::Probe, comm, status, call, || true);
    MPI_Iprobe (from, tag, comm, flag; status)
        |call| probe(Kind::Iprobe, comm, status, call, || is(flag));
    MPI_Mprobe (from, tag, comm, matched; status) |call| {
        let code = probe(Kind::Mprobe, comm, status, call, || true);
        matches(code, matched, comm);
        code
    };
    MPI_Improbe (from, tag, comm, flag, matched; status) |call| {
        let code = probe(Kind::Improbe, comm, status, call, || is(flag));
        if code == 0 && is(flag) {
            matches(code, matched, comm);
        }
        code
    };
    MPI_Sendrecv (
        memory, count: int, datatype, to, tag, into, space: int, into_type, from, from_tag, comm;
        status
    ) |call| exchange(Kind::Sendrecv, (count, datatype), (to, tag), comm, status, call);
    MPI_Sendrecv_replace (memory, count: int, datatype, to, tag, from, from_tag, comm; status)
        |call| exchange(Kind::SendrecvReplace, (count, datatype), (to, tag), comm, status, call);
    MPI_Isendrecv (
        memory, count: int, datatype, to, tag, into, space: int, into_type, from, from_tag, comm,
        request
    ) |call| begins_exchange(Kind::Isendrecv, (count, datatype), (to, tag), (from, from_tag), comm, request, call);
    MPI_Isendrecv_replace (
        memory, count: int, datatype, to, tag, from, from_tag, comm, request
    ) |call| begins_exchange(
        Kind::IsendrecvReplace, (count, datatype), (to, tag), (from, from_tag), comm, request, call
    );
    MPI_Irecv (memory, count: int, datatype, from, tag, comm, request) |call|
        timed(Kind::Irecv, call, |here, event| {
            let comm = here.id_of(comm);
            if from as c_int != here.job.mpi.no_process() {
                requests::receives(at(request), comm, event.start);
            }
            event.with(comm, peer(from), tag as c_int)
        });
    MPI_Imrecv (memory, count: int, datatype, matched, request) |call| {
        let comm = comm_of(matched);
        timed(Kind::Imrecv, call, |_, event| {
            if comm != 0 {
                requests::receives(at(request), comm, event.start);
            }
            event.with(comm, NO_PEER, 0)
        })
    };
    MPI_Start (request) |call| {
        let before = at(request);
        timed(Kind::StartSend, call, |_, event| started(event, before))
    };
    MPI_Startall (count, all) |call| start_all(count, all, call);
    MPI_Cancel (request) |call|
        timed(Kind::Cancel, call, |_, event| event);
    MPI_Pready (number, request) |call| partition(Kind::Pready, request, call, || true);
    MPI_Pready_range (first, last, request)
        |call| partition(Kind::PreadyRange, request, call, || true);
    MPI_Pready_list (count, partitions, request)
        |call| partition(Kind::PreadyList, request, call, || true);
    MPI_Parrived (request, number, flag)
        |call| partition(Kind::Parrived, request, call, || is(flag));
}

// Some of these may tell that a duplicate is there.
calls! {
    always;
    MPI_Wait (request; status)
        |call| complete(Kind::Wait, 1, request, status, call, || Completed::All);
    MPI_Waitall (count, requests; statuses)
        |call| complete(Kind::Waitall, count, requests, statuses, call, || Completed::All);
    MPI_Waitany (count, requests, index; status)
        |call| complete(Kind::Waitany, count, requests, status, call, || one(index));
    MPI_Waitsome (count, requests, done, indices; statuses)
        |call| complete(Kind::Waitsome, count, requests, statuses, call, || some(done, indices));
    MPI_Test (request, flag; status)
        |call| complete(Kind::Test, 1, request, status, call, || all_if(flag));
    MPI_Testall (count, requests, flag; statuses)
        |call| complete(Kind::Testall, count, requests, statuses, call, || all_if(flag));
    MPI_Testany (count, requests, index, flag; status)
        |call| complete(Kind::Testany, count, requests, status, call, || {
            if is(flag) { one(index) } else { Completed::Nothing }
        });
    MPI_Testsome (count, requests, done, indices; statuses)
        |call| complete(Kind::Testsome, count, requests, statuses, call, || some(done, indices));
    MPI_Request_free (request) |call| {
        let handle = at(request);
        if job::get().is_some() {
            requests::given_up(handle);
        }
        timed(Kind::RequestFree, || objects::free(None, request, call), |_, event| event)
    };
    MPI_Recv_init (memory, count: int, datatype, from, tag, comm, request) |call|
        sends_or_receives(Kind::StartRecv, (count, 1, datatype), (from, tag), comm, request, call);
    MPI_Precv_init (memory, partitions, count, datatype, from, tag, comm, info, request) |call|
        sends_or_receives(
            Kind::StartRecv, (count, partitions, datatype), (from, tag), comm, request, call
        );
    MPI_Psend_init (memory, partitions, count, datatype, to, tag, comm, info, request) |call|
        sends_or_receives(
            Kind::StartSend, (count, partitions, datatype), (to, tag), comm, request, call
        );
}

calls! {
    always;
    each _kind: Kind {
        Send MPI_Send_init,
        Bsend MPI_Bsend_init,
        Ssend MPI_Ssend_init,
        Rsend MPI_Rsend_init,
    } (memory, count: int, datatype, to, tag, comm, request)
    |call| sends_or_receives(
        Kind::StartSend, (count, 1, datatype), (to, tag), comm, request, call
    )
}

/// A flag that MPI has put down.
///
/// # Safety
/// \[MPI\]
pub(super) unsafe fn is(flag: usize) -> bool {
    // SAFETY: [MPI].
    unsafe { *(flag as *const c_int) != 0 }
}

/// # Safety
/// \[MPI\]
unsafe fn one(index: usize) -> Completed {
    // SAFETY: [MPI].
    match unsafe { *(index as *const c_int) } {
        index if index >= 0 => Completed::One(index),
        _ => Completed::Nothing,
    }
}

/// # Safety
/// \[MPI\]
unsafe fn some(done: usize, indices: usize) -> Completed {
    // SAFETY: [MPI].
    match unsafe { *(done as *const c_int) } {
        count if count > 0 => Completed::Some(count, indices as *const c_int),
        _ => Completed::Nothing,
    }
}

/// # Safety
/// \[MPI\]
unsafe fn all_if(flag: usize) -> Completed {
    // SAFETY: [MPI].
    if unsafe { is(flag) } { Completed::All } else { Completed::Nothing }
}

/// MPI has matched a message of a communicator.
///
/// # Safety
/// \[MPI\]
unsafe fn matches(code: c_int, matched: usize, comm: usize) {
    if code == 0 && job::recording().is_some() {
        // SAFETY: [MPI].
        requests::receives(unsafe { at(matched) }, id_of(comm), 0);
    }
}

/// The communicator's number of a matched message, which is about to be received; 0 if
/// it is not known.
///
/// # Safety
/// \[MPI\]
unsafe fn comm_of(matched: usize) -> u32 {
    if job::recording().is_none() || requests::none() {
        return 0;
    }
    // SAFETY: [MPI].
    let matched = unsafe { at(matched) };
    let Some(receive) = requests::find(matched) else { return 0 };
    requests::over(matched, receive);
    receive.comm
}

/// A call has made this request, whose completion will be recorded.
///
/// # Safety
/// \[MPI\]
pub(super) unsafe fn begun(event: Event, request: usize) -> Event {
    // SAFETY: [MPI].
    requests::begun(unsafe { at(request) }, Of::Other, event.start, event.comm, None);
    event
}

/// A send and a receive: two events of the same time.
///
/// # Safety
/// \[MPI\]; `call` takes where the status goes.
unsafe fn exchange(
    kind: Kind,
    what: (usize, usize),
    (to, tag): (usize, usize),
    comm: usize,
    status: usize,
    call: impl FnOnce(usize) -> c_int,
) -> c_int {
    with_status(kind, status, call, |here, event, status| {
        let end = event.end();
        here.job.record(message(here, event, what, to, tag, comm));
        let event = Event::new(Kind::Received, end, end);
        // SAFETY: [MPI]: the status of a receive that has completed.
        unsafe { made::arrived(here.job, event, here.id_of(comm), status) }
    })
}

/// A send and a receive that are begun by one request; nothing comes from no process.
///
/// # Safety
/// \[MPI\]
unsafe fn begins_exchange(
    kind: Kind,
    what: (usize, usize),
    (to, tag): (usize, usize),
    (from, from_tag): (usize, usize),
    comm: usize,
    request: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    timed(kind, call, |here, event| {
        let mpi = here.job.mpi;
        if from as c_int != mpi.no_process() {
            let asked = (!mpi.tells_of_exchanges()).then_some((peer(from), from_tag as c_int));
            // SAFETY: [MPI].
            let request = unsafe { at(request) };
            requests::begun(request, Of::Exchange, event.start, here.id_of(comm), asked);
        }
        message(here, event, what, to, tag, comm)
    })
}

/// Parts of a message are given, or have come.
///
/// # Safety
/// \[MPI\]
unsafe fn partition(
    kind: Kind,
    request: usize,
    call: impl FnOnce() -> c_int,
    told: impl FnOnce() -> bool,
) -> c_int {
    timed_if(kind, call, told, |_, event| match requests::persistent(request) {
        Some(of) => event.with(of.comm, of.peer, of.tag),
        None => event,
    })
}

/// A persistent request, which `describe` describes.
///
/// # Safety
/// \[MPI\]
pub(super) unsafe fn persistent(
    call: impl FnOnce() -> c_int,
    comm: usize,
    request: usize,
    describe: impl FnOnce(&made::Here<'_>) -> Persistent,
) -> c_int {
    // SAFETY: [MPI].
    unsafe {
        let code = made::silent(call);
        if let (0, Some(job)) = (code, job::get()) {
            let persistent = handles::with(|local| describe(&made::Here { job, local }));
            requests::persists(at(request), persistent);
            objects::own(Constructor::PersistentRequest, Some(comm), request);
        }
        code
    }
}

/// A persistent request that sends or receives so many elements as often.
///
/// # Safety
/// \[MPI\]
unsafe fn sends_or_receives(
    kind: Kind,
    (count, parts, datatype): (usize, usize, usize),
    (other, tag): (usize, usize),
    comm: usize,
    request: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let describe = |here: &made::Here<'_>| {
        // (A receive from no process receives nothing, and takes a request of its own.)
        let is_none = other as c_int == here.job.mpi.no_process();
        let parts = u64::try_from(parts as c_int).unwrap_or(0);
        let bytes = if is_none { 0 } else { bytes(here, count, datatype) * parts };
        Persistent { kind, comm: here.id_of(comm), peer: peer(other), tag: tag as c_int, bytes }
    };
    // SAFETY: [MPI].
    unsafe { persistent(call, comm, request, describe) }
}

/// What a persistent request that was started does.
fn started(event: Event, request: usize) -> Event {
    let Some(what) = requests::persistent(request) else { return event };
    let is_receive = what.kind == Kind::StartRecv;
    let of = if is_receive { Of::Receive } else { Of::Other };
    requests::begun(request, of, event.start, what.comm, None);
    let event = Event::new(what.kind, event.start, event.end());
    event.with(what.comm, what.peer, what.tag).of_bytes(if is_receive { 0 } else { what.bytes })
}

/// # Safety
/// \[MPI\]
unsafe fn start_all(count: usize, all: usize, call: impl FnOnce() -> c_int) -> c_int {
    let count = usize::try_from(count as c_int).unwrap_or(0);
    timed(Kind::StartSend, call, |here, event| {
        // SAFETY: [MPI]: the requests stay what they are.
        let request = |i| mpi::get().map_or(0, |mpi| unsafe { mpi.read(all as *const _, i) });
        for i in 1..count {
            // (Each begins at a time of its own, which names it.)
            let start = event.start + i as u64;
            here.job.record(started(Event::new(Kind::StartSend, start, event.end()), request(i)));
        }
        if count > 0 { started(event, request(0)) } else { event }
    })
}
