//! Operations on windows: puts, gets, accumulates, of any layouts, with requests or without.
//!
//! Elements that Rankway has operations on take its paths, in layouts. All others (pairs
//! with MPI_MINLOC, complex long doubles) go to the target's process, whose MPICH computes
//! ([`rankway_plugin::custom`]): atomic with each other, and never mixed with the first
//! kind on one element, since the type decides.

use crate::datatype::{Memory, Side, element, elements};
use crate::fault::{Answer, Refusal, answer};
use crate::host;
use crate::log::guarded;
use crate::state::State;
use crate::window::Held;
use rankway::datatype::Layout;
use rankway::netmod::{Netmod, Op, Type};
use rankway::rma::{Custom, Error, Pending, Window, register_operator};
use rankway_plugin::custom::{Change, CustomOp, Elements, carry_out};
use std::ffi::{c_int, c_void};

/// An operation, as C has it: `rkw_rma_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct rkw_rma {
    /// One of [`PUT`] and the like.
    what: c_int,
    /// The index of MPICH's operation.
    op: c_int,
    rank: u32,
    disp: isize,
    origin: *const u8,
    /// Where a fetch's results go, and a get's bytes.
    result: *mut u8,
    compare: *const u8,
    here: Side,
    back: Side,
    there: Side,
    /// Where a request goes; null where there is to be none.
    request: *mut *mut c_void,
}

const PUT: c_int = 0;
const GET: c_int = 1;
const ACCUMULATE: c_int = 2;
const FETCH: c_int = 3;
const SWAP: c_int = 4;

/// MPICH's indices of operations; the pairs' are MPICH's to compute.
const REPLACE: c_int = 13;
const NO_OP: c_int = 14;

fn operation(op: c_int) -> Option<Op> {
    const OPS: [Op; 10] = [
        Op::Max,
        Op::Min,
        Op::Sum,
        Op::Prod,
        Op::Land,
        Op::Band,
        Op::Lor,
        Op::Bor,
        Op::Lxor,
        Op::Bxor,
    ];
    match op {
        REPLACE => Some(Op::Replace),
        NO_OP => Some(Op::NoOp),
        op => usize::try_from(op - 1).ok().and_then(|at| OPS.get(at)).copied(),
    }
}

/// A put of one block, checked.
pub(crate) unsafe extern "C" fn put<N: Netmod>(
    window: *mut c_void,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: isize,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    // SAFETY: [BUF], until the epoch ends or a flush.
    held.issue(rank, disp, |window, offset| unsafe { window.put_nb(buf, len, rank, offset) })
}

/// A get of one block, checked.
pub(crate) unsafe extern "C" fn get<N: Netmod>(
    window: *mut c_void,
    buf: *mut u8,
    len: usize,
    rank: u32,
    disp: isize,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    // SAFETY: [BUF], until the epoch ends or a flush.
    held.issue(rank, disp, |window, offset| unsafe { window.get_nb(buf, len, rank, offset) })
}

/// Any operation.
pub(crate) unsafe extern "C" fn operate<N: Netmod>(
    window: *mut c_void,
    operation: *const rkw_rma,
) -> c_int {
    // SAFETY: [MPI].
    let (held, of) = unsafe { (Held::<N>::of(window), &*operation) };
    guarded(|| {
        if of.request.is_null() {
            // SAFETY: [MPI], [BUF].
            return answer(unsafe { of.begin(held) }.map(|pending| {
                // (Completed by the next flush.)
                held.state.enter_waiting(|_| drop(pending));
            }));
        }
        // SAFETY: [MPI], [BUF]; the caller's place for a request.
        answer(unsafe { of.begin_with_request(held) })
    })
}

impl<N: Netmod> Held<N> {
    /// Issues an operation at the offset of a displacement, checked.
    fn issue(
        &self,
        rank: u32,
        disp: isize,
        operation: impl FnOnce(&Window<N>, usize) -> Result<(), Error>,
    ) -> c_int {
        guarded(|| match self.offset(rank, disp) {
            Some(offset) => answer(self.enter(|window| operation(window, offset))),
            None => Refusal::range().kept(),
        })
    }
}

impl rkw_rma {
    /// # Safety
    /// \[MPI\], \[BUF\]; the place for a request can be written.
    unsafe fn begin_with_request<N: Netmod>(&self, held: &'static Held<N>) -> Result<(), Refusal> {
        held.open().check_passive()?;
        // SAFETY: [MPI], [BUF].
        let mut pending = unsafe { self.begin(held)? };
        let mut test = move || {
            held.enter(|_| {
                let tested = pending.as_mut().map_or(Ok(true), Pending::test);
                if let Ok(false) = tested {
                    return None;
                }
                pending = None;
                Some(tested.map(drop).map_err(Refusal::from))
            })
        };
        let ended = test().transpose()?.is_some();
        // SAFETY: [MPI]: the window's, and the caller's place.
        let request = unsafe {
            *self.request = host::rkw_host_request(ended.into());
            *self.request
        };
        if !ended {
            held.keep(request, Box::new(move || test().map(answer)));
        }
        Ok(())
    }

    /// Begins it; what is under way, if anything is.
    ///
    /// # Safety
    /// \[MPI\], \[BUF\], until what is answered has ended, or a flush.
    unsafe fn begin<'a, N: Netmod>(
        &self,
        held: &'a Held<N>,
    ) -> Result<Option<Pending<'a, N>>, Refusal> {
        // SAFETY: [MPI], [BUF].
        unsafe {
            match self.what {
                PUT => self.put(held).map(Some),
                GET => self.get(held).map(Some),
                ACCUMULATE => self.accumulate(held).map(|()| None),
                FETCH => self.fetch(held),
                SWAP => self.swap(held).map(|()| None),
                what => Err(Refusal(Answer::Argument, format!("there is no operation {what}"))),
            }
        }
    }

    fn offset<N: Netmod>(&self, held: &Held<N>) -> Result<usize, Refusal> {
        held.offset(self.rank, self.disp).ok_or_else(Refusal::range)
    }

    /// The target's layout, as many bytes as `here`.
    ///
    /// # Safety
    /// \[MPI\]
    unsafe fn target(&self, here: &Layout) -> Result<Layout, Refusal> {
        // SAFETY: [MPI].
        let there = unsafe { self.there.layout()? };
        let (n, m) = (here.size(), there.size());
        if n == m {
            return Ok(there);
        }
        Err(Refusal(Answer::Truncated, format!("{n} bytes at the origin, {m} at the target")))
    }

    /// # Safety
    /// As [`rkw_rma::begin`].
    unsafe fn put<'a, N: Netmod>(&self, held: &'a Held<N>) -> Result<Pending<'a, N>, Refusal> {
        // SAFETY: [MPI], [BUF].
        unsafe {
            let from = self.here.around(self.origin.cast_mut())?;
            let (to, offset) = (self.target(&from.layout)?, self.offset(held)?);
            let put = |window: &'a Window<N>| {
                window.rput_layout(from.start, &from.layout, self.rank, offset, &to)
            };
            Ok(held.enter(put)?)
        }
    }

    /// # Safety
    /// As [`rkw_rma::begin`].
    unsafe fn get<'a, N: Netmod>(&self, held: &'a Held<N>) -> Result<Pending<'a, N>, Refusal> {
        // SAFETY: [MPI], [BUF].
        unsafe {
            let to = self.here.around(self.result)?;
            let (from, offset) = (self.target(&to.layout)?, self.offset(held)?);
            let get = |window: &'a Window<N>| {
                window.rget_layout(to.start, &to.layout, self.rank, offset, &from)
            };
            Ok(held.enter(get)?)
        }
    }

    /// Elements and operation, if Rankway has it on them.
    fn elements(&self, basic: c_int) -> Option<(Type, Op)> {
        element(basic).zip(operation(self.op))
    }

    /// The elements of an operation that the target's MPICH computes. (MPI_Fetch_and_op's it
    /// does not look at before.)
    fn computed(&self, basic: c_int) -> Result<Elements, Refusal> {
        let any = [REPLACE, NO_OP].contains(&self.op);
        // SAFETY: a predefined type and operation, which are looked up in MPICH's tables.
        if !any && unsafe { host::rkw_host_op_is_for(self.op, basic) } == 0 {
            return Err(Refusal(Answer::Op, "the operation is not for this type".into()));
        }
        // SAFETY: [MPI].
        unsafe { elements(basic) }
    }

    /// The operation on elements that the target's MPICH computes.
    fn code(&self, basic: c_int) -> u64 {
        u64::from(basic as u32) | (self.op as u64) << 32
    }

    /// # Safety
    /// As [`rkw_rma::begin`].
    unsafe fn accumulate<N: Netmod>(&self, held: &Held<N>) -> Result<(), Refusal> {
        let offset = self.offset(held)?;
        let rank = self.rank;
        // SAFETY: [MPI], [BUF], here and below.
        unsafe {
            if self.here == self.there
                && let Some((ty, op)) = self.elements(self.there.ty)
            {
                let count = self.here.count.max(0) as usize;
                return Ok(held.enter(|window| {
                    window.accumulate_raw(self.origin, count, ty, op, rank, offset)
                })?);
            }
            let from = self.here.around(self.origin.cast_mut())?;
            let to = self.target(&from.layout)?;
            if to.size() == 0 {
                return Ok(held.enter(|window| on_nothing(window, rank, offset))?);
            }
            let basic = self.there.basic()?;
            let Some((_, op)) = self.elements(basic) else {
                let elements = self.computed(basic)?;
                let keep = self.op == NO_OP;
                let custom = CustomOp { code: self.code(basic), elements: &elements, keep };
                let packed = from.packed();
                return Ok(
                    held.enter(|window| custom.run(window, &packed, None, rank, offset, &to))?
                );
            };
            let (start, layout) = (from.start, &from.layout);
            Ok(held.enter(|window| {
                window.accumulate_layout_raw(start, layout, op, rank, offset, &to)
            })?)
        }
    }

    /// # Safety
    /// As [`rkw_rma::begin`].
    unsafe fn fetch<'a, N: Netmod>(
        &self,
        held: &'a Held<N>,
    ) -> Result<Option<Pending<'a, N>>, Refusal> {
        let offset = self.offset(held)?;
        let rank = self.rank;
        // SAFETY: [MPI], [BUF], here and below.
        unsafe {
            if self.request.is_null()
                && self.there.count == 1
                && self.back == self.there
                && (self.here == self.there || self.op == NO_OP)
                && let Some((ty, op)) = self.elements(self.there.ty)
            {
                let (from, to) = (self.origin, self.result);
                held.enter(|window| window.fetch_and_op_raw(from, to, ty, op, rank, offset))?;
                return Ok(None);
            }
            let into = self.back.around(self.result)?;
            let to = self.target(&into.layout)?;
            if to.size() == 0 {
                held.enter(|window| on_nothing(window, rank, offset))?;
                return Ok(None);
            }
            let basic = self.there.basic()?;
            let from = match self.op {
                // The origin's side says nothing then.
                NO_OP => Memory { start: std::ptr::null_mut(), layout: to.clone() },
                _ => self.here.around(self.origin.cast_mut())?,
            };
            self.target(&from.layout)?;
            let Some((_, op)) = self.elements(basic) else {
                let operands = if self.op == NO_OP { Vec::new() } else { from.packed() };
                let mut results = vec![0; to.size() as usize];
                let elements = self.computed(basic)?;
                let keep = self.op == NO_OP;
                let custom = CustomOp { code: self.code(basic), elements: &elements, keep };
                held.enter(|window| {
                    custom.run(window, &operands, Some(&mut results), rank, offset, &to)
                })?;
                into.layout.unpack_raw(into.start, 0, &results);
                return Ok(None);
            };
            let (operands, from) = (from.start.cast_const(), &from.layout);
            let (results, into) = (into.start, &into.layout);
            let fetch = |window: &'a Window<N>| {
                window.rget_accumulate_layout(operands, from, results, into, op, rank, offset, &to)
            };
            Ok(Some(held.enter(fetch)?))
        }
    }

    /// # Safety
    /// As [`rkw_rma::begin`].
    unsafe fn swap<N: Netmod>(&self, held: &Held<N>) -> Result<(), Refusal> {
        let offset = self.offset(held)?;
        let Some(ty) = element(self.there.ty) else {
            return Err(Refusal(Answer::Type, "no type of compare-and-swap".into()));
        };
        let (new, compare, result) = (self.origin, self.compare, self.result);
        // SAFETY: [BUF].
        let swap = |window: &Window<N>| unsafe {
            window.compare_and_swap_raw(new, compare, result, ty, self.rank, offset)
        };
        Ok(held.enter(swap)?)
    }
}

/// An operation on no elements, which is refused like one on some.
fn on_nothing<N: Netmod>(window: &Window<N>, rank: u32, offset: usize) -> Result<(), Error> {
    // SAFETY: no elements.
    unsafe { window.accumulate_raw(std::ptr::null(), 0, Type::U8, Op::Replace, rank, offset) }
}

/// Has the operations that are MPICH's to compute carried out here.
pub(crate) fn register<N: Netmod>(state: &State<N>) {
    state.shared.enter(|inner| register_operator(&inner.context, operator));
}

/// Carries out an operation of a peer's on this process's memory.
///
/// # Safety
/// As [`rankway::rma::Operator`].
unsafe fn operator(custom: &Custom<'_>, result: &mut Vec<u8>) -> bool {
    let (ty, op) = (custom.code as u32 as c_int, (custom.code >> 32) as c_int & 0xff);
    // SAFETY: the origin's check of its arguments holds here: predefined handles are the same
    // in all processes.
    let Ok(elements) = (unsafe { elements(ty) }) else { return false };
    let reduce = |from: *mut u8, at: *mut u8, count: usize| {
        // SAFETY: `count` elements of the type each, the operands aligned.
        unsafe { host::rkw_host_reduce(op, ty, from.cast(), at.cast(), count as i64) != 0 }
    };
    let change = if op == REPLACE { Change::Replace } else { Change::Reduce(reduce) };
    // SAFETY: the caller's.
    unsafe { carry_out(custom, result, &elements, change) }
}
