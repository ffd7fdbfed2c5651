//! Sends and receives of derived types: packed bytes, as `MPI_PACKED`, through the
//! program's own call.
//!
//! Envelope, order and matching stay MPI's; a peer receives them as what it likes,
//! and a status counts bytes, so that it has as many elements as it would have had.

use crate::buffers::{self, Buffer};
use crate::mpi::{self, Mpi};
use crate::requests::{self, Pending};
use crate::settings::SETTINGS;
use crate::stats::{self, Call, Reason};
use crate::types::{self, Chosen};
use rankway_preload::shielded;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU8;

/// What `MPI_Send` and its kin take.
pub(crate) type Send =
    unsafe extern "C" fn(*const c_void, c_int, usize, c_int, c_int, usize) -> c_int;
/// What `MPI_Recv` takes.
pub(crate) type Recv =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut c_void) -> c_int;
/// What `MPI_Isend`, its kin and `MPI_Irecv` take, the first of a send unchanged.
pub(crate) type Begin = Recv;
/// What `MPI_Sendrecv` takes.
pub(crate) type Sendrecv = unsafe extern "C" fn(
    *const c_void,
    c_int,
    usize,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    usize,
    c_int,
    c_int,
    usize,
    *mut c_void,
) -> c_int;

/// A status of any library.
type Status = [u64; 4];

/// Packed bytes of a message, or memory for them.
struct Message {
    buffer: Buffer,
    chosen: Chosen,
    memory: usize,
    /// The datatype of a receive that MPI would not cut at the end of the buffer.
    gapped: Option<usize>,
}

impl Message {
    /// Memory for the packed bytes, if the call is taken.
    ///
    /// # Safety
    /// \[MPI\]
    unsafe fn new(
        call: Call,
        memory: usize,
        count: c_int,
        datatype: usize,
        peer: c_int,
        fits: impl Fn(&Chosen) -> bool,
        gap: impl Fn(&Mpi) -> bool,
    ) -> Option<Message> {
        // SAFETY: [MPI].
        let chosen = unsafe { types::choose(call, memory, count, datatype) }?;
        let gap = gap(chosen.mpi);
        let reason = if peer == chosen.mpi.no_process() {
            Reason::Arguments
        } else if !fits(&chosen) {
            Reason::Unsafe
        } else if let Some(buffer) = buffers::get(chosen.bytes + usize::from(gap)) {
            // SAFETY: [MPI].
            let make = || unsafe { requests::gapped(chosen.mpi, chosen.bytes as c_int) };
            let gapped = gap.then(make).flatten();
            if gapped.is_some() == gap {
                return Some(Message { buffer, chosen, memory, gapped });
            }
            Reason::Unsafe
        } else {
            Reason::Memory
        };
        stats::left(call, reason);
        None
    }

    /// To be sent; counted.
    ///
    /// # Safety
    /// \[MPI\], \[BUF\]
    unsafe fn packed(
        call: Call,
        memory: *const c_void,
        count: c_int,
        datatype: usize,
        peer: c_int,
    ) -> Option<Message> {
        shielded(|| {
            // (The peer may receive it as a derived type by itself.)
            let fits =
                |chosen: &Chosen| chosen.grained || chosen.mpi.unpacks_parts_of(chosen.widest);
            let place = memory as usize;
            // SAFETY: [MPI], [BUF].
            unsafe {
                let mut message =
                    Message::new(call, place, count, datatype, peer, fits, |_| false)?;
                message.chosen.layout.pack_raw(memory.cast(), 0, message.buffer.bytes_mut());
                stats::count(call);
                Some(message)
            }
        })
    }

    /// To be received; counted.
    ///
    /// # Safety
    /// \[MPI\]
    unsafe fn to_receive(
        call: Call,
        memory: *mut c_void,
        count: c_int,
        datatype: usize,
        peer: c_int,
    ) -> Option<Message> {
        shielded(|| {
            // (What completes out of sight would not be put down.)
            let fits = |chosen: &Chosen| chosen.mpi.completes_in_sight || call != Call::Irecv;
            // (A call that waits learns the length first.)
            let gap = |mpi: &Mpi| !mpi.cuts_at_the_end() && call != Call::Recv;
            let memory = memory as usize;
            // SAFETY: [MPI].
            let message = unsafe { Message::new(call, memory, count, datatype, peer, fits, gap) }?;
            stats::count(call);
            Some(message)
        })
    }

    fn address(&mut self) -> *mut c_void {
        self.buffer.bytes_mut().as_mut_ptr().cast()
    }

    fn len(&self) -> c_int {
        self.chosen.bytes as c_int
    }

    /// The count and the datatype of the buffer.
    fn shape(&self) -> (c_int, usize) {
        match self.gapped {
            Some(datatype) => (1, datatype),
            None => (self.len(), self.chosen.mpi.packed),
        }
    }

    /// What was received goes where it belongs.
    ///
    /// # Safety
    /// \[MPI\]: of a receive that has completed without an error; \[BUF\].
    unsafe fn deliver(&self, status: *const c_void) -> bool {
        let (mpi, layout) = (self.chosen.mpi, &self.chosen.layout);
        // SAFETY: [MPI], [BUF].
        shielded(|| unsafe {
            requests::deliver(mpi, &self.buffer, status, self.memory, layout).then_some(())
        })
        .is_some()
    }

    /// As an operation under way.
    fn pending(self, receives: bool) -> std::sync::Arc<Pending> {
        let Message { buffer, chosen, memory, .. } = self;
        Pending::new(buffer, receives.then_some((memory, chosen.layout)))
    }

    /// Gives the datatype back, which MPI keeps as long as an operation has it.
    ///
    /// # Safety
    /// \[MPI\]
    unsafe fn free_datatype(&mut self) {
        if let (Some(mut datatype), Some(free)) = (self.gapped.take(), mpi::TYPE_FREE.get()) {
            // SAFETY: [SIG]; a datatype of our own, given back once.
            unsafe { free((&raw mut datatype).cast()) };
        }
    }
}

/// The datatype of a receive of no elements of a derived type. (Open MPI writes a
/// message that is too long at the address all the same, if its sender is contiguous.)
struct Nothing {
    datatype: usize,
}

/// Where such messages begin: as many bytes as the datatype has, and its gap. Nobody
/// reads them.
static NOWHERE: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];

impl Nothing {
    /// For a receive that is not taken; `None` if it is MPI's as it is.
    ///
    /// # Safety
    /// \[MPI\]
    #[inline]
    unsafe fn new(count: c_int, datatype: usize, peer: c_int) -> Option<Nothing> {
        // SAFETY: [MPI].
        if count == 0 { unsafe { Nothing::made(datatype, peer) } } else { None }
    }

    /// # Safety
    /// \[MPI\]
    #[cold]
    unsafe fn made(datatype: usize, peer: c_int) -> Option<Nothing> {
        shielded(|| {
            let mpi = mpi::get().filter(|mpi| SETTINGS.messages && !mpi.cuts_at_the_end())?;
            // (No element of it is to fit.)
            if peer == mpi.no_process() || types::size(datatype)? < NOWHERE.len() as u64 {
                return None;
            }
            // SAFETY: [MPI].
            let datatype = unsafe { requests::gapped(mpi, 2) }?;
            Some(Nothing { datatype })
        })
    }

    /// The address, the count and the datatype.
    fn shape(&self) -> (*mut c_void, c_int, usize) {
        (NOWHERE.as_ptr().cast_mut().cast(), 1, self.datatype)
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        if let Some(free) = mpi::TYPE_FREE.get() {
            // SAFETY: [SIG]; a datatype of our own, given back once: MPI keeps it as long
            // as an operation has it.
            unsafe { free((&raw mut self.datatype).cast()) };
        }
    }
}

/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn send(
    next: Send,
    call: Call,
    memory: *const c_void,
    count: c_int,
    datatype: usize,
    peer: c_int,
    tag: c_int,
    comm: usize,
) -> c_int {
    // SAFETY: [SIG], with what the program passed or a buffer for as much.
    unsafe {
        match Message::packed(call, memory, count, datatype, peer) {
            Some(mut message) => {
                let packed = message.chosen.mpi.packed;
                next(message.address(), message.len(), packed, peer, tag, comm)
            }
            None => next(memory, count, datatype, peer, tag, comm),
        }
    }
}

/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn recv(
    next: Recv,
    memory: *mut c_void,
    count: c_int,
    datatype: usize,
    peer: c_int,
    tag: c_int,
    comm: usize,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `send`.
    unsafe {
        let Some(mut message) = Message::to_receive(Call::Recv, memory, count, datatype, peer)
        else {
            let nothing = Nothing::new(count, datatype, peer);
            let (memory, count, datatype) =
                nothing.as_ref().map_or((memory, count, datatype), Nothing::shape);
            return next(memory, count, datatype, peer, tag, comm, status);
        };
        let (mpi, mut own) = (message.chosen.mpi, Status::default());
        let theirs = status;
        let status = seen(mpi, status, &mut own);
        let (address, mut len) = (message.address(), message.len());
        let code = if mpi.cuts_at_the_end() {
            next(address, len, mpi.packed, peer, tag, comm, status)
        } else {
            // How long is it? One that is too long is MPI's to refuse.
            let (Some(probe), Some(recv)) = (mpi::MPROBE.get(), mpi::MRECV.get()) else {
                return next(memory, count, datatype, peer, tag, comm, theirs);
            };
            let mut matched = 0usize;
            let place = (&raw mut matched).cast::<c_void>();
            let code = probe(peer, tag, comm, place, status);
            if code != 0 {
                return code;
            }
            let most = len;
            if !requests::count(mpi, status, &mut len) || !(0..=most).contains(&len) {
                return recv(memory, count, datatype, place, theirs);
            }
            recv(address, len, mpi.packed, place, status)
        };
        if code == 0 && !message.deliver(status) { mpi::failure() } else { code }
    }
}

/// The program's place for a status, or our own where it wants none.
pub(crate) fn seen(mpi: &Mpi, status: *mut c_void, own: &mut Status) -> *mut c_void {
    if mpi.ignores(status) { own.as_mut_ptr().cast() } else { status }
}

/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn sendrecv(
    next: Sendrecv,
    memory: *const c_void,
    count: c_int,
    datatype: usize,
    to: c_int,
    tag: c_int,
    into: *mut c_void,
    space: c_int,
    into_type: usize,
    from: c_int,
    from_tag: c_int,
    comm: usize,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `send`.
    unsafe {
        let mut sent = Message::packed(Call::Sendrecv, memory, count, datatype, to);
        let mut got = Message::to_receive(Call::Sendrecv, into, space, into_type, from);
        let (memory, count, datatype) = match &mut sent {
            Some(sent) => (sent.address().cast_const(), sent.len(), sent.chosen.mpi.packed),
            None => (memory, count, datatype),
        };
        let mut own = Status::default();
        let nothing = match got {
            Some(_) => None,
            None => Nothing::new(space, into_type, from),
        };
        let (into, space, into_type) =
            nothing.as_ref().map_or((into, space, into_type), Nothing::shape);
        let (into, space, into_type, status) = match &mut got {
            Some(got) => {
                let (count, datatype) = got.shape();
                (got.address(), count, datatype, seen(got.chosen.mpi, status, &mut own))
            }
            None => (into, space, into_type, status),
        };
        let code = next(
            memory, count, datatype, to, tag, into, space, into_type, from, from_tag, comm, status,
        );
        let Some(mut got) = got else { return code };
        got.free_datatype();
        if code == 0 && !got.deliver(status) { mpi::failure() } else { code }
    }
}

/// A send or a receive that goes on behind the call.
///
/// # Safety
/// \[MPI\], \[BUF\]
#[allow(clippy::too_many_arguments, reason = "MPI's")]
pub(crate) unsafe fn begin(
    next: Begin,
    call: Call,
    memory: *mut c_void,
    count: c_int,
    datatype: usize,
    peer: c_int,
    tag: c_int,
    comm: usize,
    request: *mut c_void,
) -> c_int {
    // SAFETY: as in `send`; the buffer stays until the request has completed.
    unsafe {
        let message = match call {
            Call::Irecv => Message::to_receive(call, memory, count, datatype, peer),
            _ => Message::packed(call, memory, count, datatype, peer),
        };
        let Some(mut message) = message else {
            let nothing = match call {
                Call::Irecv => Nothing::new(count, datatype, peer),
                _ => None,
            };
            let (memory, count, datatype) =
                nothing.as_ref().map_or((memory, count, datatype), Nothing::shape);
            return next(memory, count, datatype, peer, tag, comm, request);
        };
        let (address, mpi) = (message.address(), message.chosen.mpi);
        let (count, datatype) = message.shape();
        let code = next(address, count, datatype, peer, tag, comm, request);
        message.free_datatype();
        if code == 0 {
            // (MPI has put a request there.)
            requests::insert(mpi.read(request, 0), message.pending(call == Call::Irecv));
        }
        let _ = shielded(|| {
            requests::sweep(mpi, false);
            Some(())
        });
        code
    }
}
