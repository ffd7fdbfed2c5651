//! Processes of other jobs: met by what CH4's leaders tell each other of them.
//!
//! A leader tells of all members of its communicator, and asks those of its own job who
//! they are: most jobs meet no other, so nobody says so before.

use crate::active;
use crate::fault::{Answer, Refusal, has_died};
use crate::log::{abort, fatal, guarded};
use crate::state::State;
use rankway::boot::{Boot, Introduction, Liveness, Watch};
use rankway::msg::{Call, HandlerStatus, MsgError};
use rankway::netmod::Netmod;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::rc::Rc;

/// "Who are you?"
const ASK: u16 = active::HANDLERS;
/// "I am": an introduction.
const TELL: u16 = active::HANDLERS + 1;
/// The longest that a port's name holds in place of a process.
const PORT: usize = 116;

pub(crate) fn register<N: Netmod>(state: &State<N>) {
    let asked = Rc::clone(&state.asked);
    let ask = move |call: &mut Call<'_, N>| {
        asked.ranks.borrow_mut().push(call.from);
        asked.is_any.set(true);
        HandlerStatus::Consumed
    };
    let told = Rc::clone(&state.asked);
    let tell = move |call: &mut Call<'_, N>| {
        told.told.borrow_mut().insert(call.from, call.payload.to_vec());
        HandlerStatus::Consumed
    };
    let registered = state.active.register(ASK, ask).and(state.active.register(TELL, tell));
    registered.unwrap_or_else(|e| abort(1, &e.to_string()));
}

/// Answers those who asked.
#[inline]
pub(crate) fn answer<N: Netmod>(state: &State<N>) {
    if state.asked.is_any.get() {
        answer_all(state);
    }
}

#[cold]
fn answer_all<N: Netmod>(state: &State<N>) {
    state.asked.is_any.set(false);
    let asked = state.asked.ranks.take();
    let own = own(state).unwrap_or_else(|why| abort(1, &why));
    for peer in asked {
        // (Who died waits no more.)
        if let Err(e) = post(state, peer, TELL, own)
            && !has_died(&e)
        {
            fatal(&e);
        }
    }
}

/// `bytes` stay as long as the state.
fn post<N: Netmod>(
    state: &State<N>,
    peer: u32,
    handler: u16,
    bytes: &[u8],
) -> Result<(), MsgError> {
    let nobody = NonZeroU64::MIN;
    // SAFETY: [BUF] of `Active::post`: the bytes stay.
    unsafe { state.active.post(peer, handler, &[], bytes.as_ptr(), bytes.len(), nobody)? };
    Ok(())
}

/// This process's introduction.
fn own<N: Netmod>(state: &State<N>) -> Result<&[u8], String> {
    if let Some(own) = state.asked.own.get() {
        return Ok(own);
    }
    state.shared.enable_dynamic_processes()?;
    let own = state.shared.boot().other_jobs.own().map(|own| own.encode());
    let own = own.ok_or("this process has no address for other jobs")?;
    Ok(state.asked.own.get_or_init(|| own))
}

/// Gathers the introductions of processes, by number; members of the job are asked, once.
/// `lengths` gets that of each; [`introductions`] the bytes. This process's own is `brief`
/// where it is for a port.
pub(crate) unsafe extern "C" fn gather<N: Netmod>(
    state: *mut c_void,
    peers: *const u32,
    count: usize,
    brief: c_int,
    lengths: *mut c_int,
) -> c_int {
    // SAFETY: [MPI]: as many numbers, and places.
    let (state, peers, lengths) = unsafe {
        let peers = std::slice::from_raw_parts(peers, count);
        (State::<N>::of(state), peers, std::slice::from_raw_parts_mut(lengths, count))
    };
    guarded(|| crate::fault::answer(gather_all(state, peers, brief != 0, lengths)))
}

fn gather_all<N: Netmod>(
    state: &State<N>,
    peers: &[u32],
    brief: bool,
    lengths: &mut [c_int],
) -> Result<(), Refusal> {
    let no = |why: String| Refusal(Answer::Argument, why);
    let own = own(state).map_err(no)?;
    let boot = state.shared.boot();
    let (me, size) = (boot.rank(), boot.size());
    let told = &state.asked.told;
    let is_missing = |peer: &u32| *peer < size && *peer != me && !told.borrow().contains_key(peer);
    let missing: Vec<u32> = peers.iter().copied().filter(is_missing).collect();
    for &peer in &missing {
        post(state, peer, ASK, &[])?;
    }
    for peer in &missing {
        let has_told = || !is_missing(peer);
        state.shared.enter_waiting(|_| state.active.wait_until(*peer, has_told))?;
    }
    let told = told.borrow();
    let mut gathered = state.asked.gathered.borrow_mut();
    gathered.clear();
    for (&peer, length) in peers.iter().zip(lengths) {
        let before = gathered.len();
        match told.get(&peer) {
            Some(told) => gathered.extend(told),
            None if peer == me && brief => gathered.extend(for_port(state, own)?),
            None if peer == me => gathered.extend(own),
            None => gathered.extend(boot.other_jobs.of(peer).map_or(Vec::new(), |it| it.encode())),
        }
        *length = (gathered.len() - before) as c_int;
    }
    Ok(())
}

/// This process's introduction, or what of it the name of a port has space for.
fn for_port<N: Netmod>(state: &State<N>, own: &[u8]) -> Result<Vec<u8>, Refusal> {
    if own.len() <= PORT {
        return Ok(own.to_vec());
    }
    let Some(whole) = state.shared.boot().other_jobs.own() else { return Ok(Vec::new()) };
    let brief = whole.encode_brief();
    if brief.len() <= PORT {
        return Ok(brief);
    }
    let anonymous = Introduction { process: None, ..whole };
    let brief = anonymous.encode();
    if brief.len() <= PORT {
        return Ok(brief);
    }
    let addresses = state.shared.enter(|inner| inner.context.network_addresses());
    let addresses = addresses.map_err(|e| Refusal(Answer::Port, e.to_string()))?;
    let brief = Introduction { addresses, ..anonymous }.encode();
    if brief.len() > PORT {
        let why = format!(
            "this process's address takes {} bytes of the {PORT} that the name of a port has \
             space for; name fewer network devices (UCX_NET_DEVICES)",
            brief.len()
        );
        return Err(Refusal(Answer::Port, why));
    }
    Ok(brief)
}

/// Fetches what [`gather`] has gathered.
pub(crate) unsafe extern "C" fn introductions<N: Netmod>(state: *mut c_void, to: *mut u8) {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state) };
    let gathered = state.asked.gathered.take();
    // SAFETY: [MPI]: the sum of the lengths.
    unsafe { to.copy_from_nonoverlapping(gathered.as_ptr(), gathered.len()) };
}

/// Meets the process that introduces itself so: its number, or why there is none.
pub(crate) unsafe extern "C" fn meet<N: Netmod>(
    state: *mut c_void,
    introduction: *const u8,
    len: usize,
    number: *mut u32,
) -> c_int {
    // SAFETY: [MPI]: as many bytes, and a place.
    let (state, introduction, number) = unsafe {
        let introduction = std::slice::from_raw_parts(introduction, len);
        (State::<N>::of(state), introduction, &mut *number)
    };
    guarded(|| {
        let met = own(state).and_then(|_| {
            let others = &state.shared.boot().other_jobs;
            others.forget_idle(|numbers| state.shared.forget_ended(numbers));
            others.meet(introduction).map_err(|e| e.to_string())
        });
        crate::fault::answer(met.map(|met| *number = met).map_err(|why| Refusal(Answer::Port, why)))
    })
}

/// Whether the process that introduces itself so is seen to have ended: one of this machine.
pub(crate) unsafe extern "C" fn has_ended(introduction: *const u8, len: usize) -> c_int {
    // SAFETY: [MPI]: as many bytes.
    let introduction = unsafe { std::slice::from_raw_parts(introduction, len) };
    guarded(|| {
        let told = Introduction::decode(introduction).and_then(|told| told.process);
        let now = Liveness::new();
        let ended = |process| now.watch(0, &process) == Watch::Dead || now.dead().is_some();
        c_int::from(told.is_some_and(ended))
    })
}
