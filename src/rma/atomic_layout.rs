//! Accumulate and get_accumulate with layouts.
//!
//! The three paths of `atomic`, piece by piece where the memory is mapped here or
//! this process's own; else packed operands go as packets with the places, and the
//! target applies the operation on their way into its memory.

use super::access::Access;
use super::am_fallback::{error_of, opcode};
use super::atomic::Origin;
use super::layout::origin_in;
use super::pieces::Pieces;
use super::request::{InFlight, Pending, Scattered};
use super::transfer::not_null;
use super::types::{AccessPath, Remote, Status, Target};
use super::{Error, ErrorKind, Hints};
use crate::datatype::Layout;
use crate::netmod::compute::{is_atomic, refusal};
use crate::netmod::{Kind, Netmod, Op, Type};
use crate::track;
use std::sync::atomic::Ordering;

/// The sides of an accumulate.
struct Sides<'l> {
    /// Where the operands are; not looked at with [`Op::NoOp`].
    operands: (*const u8, &'l Layout),
    /// Where the elements go as they were.
    results: Option<(*mut u8, &'l Layout)>,
    op: Op,
    rank: u32,
    disp: usize,
    to: &'l Layout,
}

impl<N: Netmod> Access<N> {
    /// Applies `op` to the elements that `to` takes of the memory of `rank`, with
    /// those that `from` takes of `operands`, whose byte `origin` is its origin:
    /// MPI_Accumulate with datatypes. Both layouts are of elements of one basic
    /// type, and of the same one. The slice may be used again on return.
    ///
    /// # Errors
    /// As [`Access::accumulate`] and [`Access::put_layout`].
    #[allow(clippy::too_many_arguments, reason = "they are MPI's")]
    pub fn accumulate_layout(
        &self,
        operands: &[u8],
        origin: usize,
        from: &Layout,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<(), Error> {
        let start = origin_in(operands, origin, from)?;
        // SAFETY: within the slice.
        unsafe { self.accumulate_layout_raw(start, from, op, rank, disp, to) }
    }

    /// [`Access::accumulate_layout`] from memory that the caller knows to hold the
    /// layout. The operands may be used again on return.
    ///
    /// # Errors
    /// As [`Access::accumulate_layout`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `operands` is null or the bytes of `from` around it readable.
    pub unsafe fn accumulate_layout_raw(
        &self,
        operands: *const u8,
        from: &Layout,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<(), Error> {
        let sides = Sides { operands: (operands, from), results: None, op, rank, disp, to };
        self.recorded(track::Kind::Accumulate, rank, to.size() as usize, || {
            // SAFETY: [BUF], or null.
            unsafe { self.combine(&sides, None) }
        })
    }

    /// [`Access::accumulate_layout_raw`] that also brings the elements as they were
    /// to where `into` has them around `results`, after a flush:
    /// MPI_Get_accumulate with datatypes.
    ///
    /// # Errors
    /// As [`Access::accumulate_layout_raw`].
    ///
    /// # Safety
    /// \[BUF\]: `operands` as there; \[INTO\]: `results` is null or the bytes of `into`
    /// around it stay writable, and untouched, until this access was flushed for
    /// `rank`.
    #[allow(clippy::too_many_arguments, reason = "they are MPI's")]
    pub unsafe fn get_accumulate_layout(
        &self,
        operands: *const u8,
        from: &Layout,
        results: *mut u8,
        into: &Layout,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<(), Error> {
        let results = Some((results, into));
        let sides = Sides { operands: (operands, from), results, op, rank, disp, to };
        self.recorded(track::Kind::GetAccumulate, rank, to.size() as usize, || {
            // SAFETY: [BUF], or null; [INTO] until the flush, or null.
            unsafe { self.combine(&sides, None) }
        })
    }

    /// [`Access::get_accumulate_layout`] with a request of its own, whose end brings
    /// the results.
    ///
    /// # Errors
    /// As [`Access::get_accumulate_layout`].
    ///
    /// # Safety
    /// \[BUF\], \[INTO\], as there, until the request was waited for or the access
    /// flushed for `rank`.
    #[allow(clippy::too_many_arguments, reason = "they are MPI's")]
    pub unsafe fn rget_accumulate_layout(
        &self,
        operands: *const u8,
        from: &Layout,
        results: *mut u8,
        into: &Layout,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<Pending<'_, N>, Error> {
        let results = Some((results, into));
        let sides = Sides { operands: (operands, from), results, op, rank, disp, to };
        self.recorded(track::Kind::RgetAccumulate, rank, to.size() as usize, || {
            // SAFETY: [BUF], or null; [INTO], or null, until the end of the request.
            Pending::start(self, |in_flight| unsafe { self.combine(&sides, Some(in_flight)) })
        })
    }

    /// [`Access::accumulate_layout_raw`] with a request of its own.
    ///
    /// # Errors
    /// As [`Access::accumulate_layout_raw`].
    ///
    /// # Safety
    /// \[BUF\], as there.
    pub unsafe fn raccumulate_layout(
        &self,
        operands: *const u8,
        from: &Layout,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<Pending<'_, N>, Error> {
        let sides = Sides { operands: (operands, from), results: None, op, rank, disp, to };
        self.recorded(track::Kind::Raccumulate, rank, to.size() as usize, || {
            // SAFETY: [BUF], or null.
            unsafe { self.combine(&sides, None) }
        })?;
        // The operands were copied, or used.
        Ok(Pending::new(self, Vec::new()))
    }

    /// # Safety
    /// \[BUF\]: the operands are null or there; \[INTO\]: the results are null or stay
    /// until the operation's end.
    unsafe fn combine(
        &self,
        sides: &Sides<'_>,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let &Sides { operands: (operands, from), results, op, rank, disp, to } = sides;
        let has_operands = op != Op::NoOp;
        let ty = same_type(has_operands.then_some(from), results.map(|(_, into)| into), to)?;
        if let Some(why) = refusal(ty, op) {
            return Err(ErrorKind::Operation { ty, op, why }.into());
        }
        let start = self.check_layout(rank, disp, to)?;
        if to.size() == 0 {
            return Ok(());
        }
        if has_operands {
            not_null(operands, from)?;
        }
        if let Some((results, into)) = results {
            not_null(results, into)?;
        } else if !has_operands {
            return Ok(());
        }
        let state = self.state()?;
        let peer = self.world_rank(rank)?;
        self.mark(rank);
        let ordered = Hints::from_bits(state.hints.load(Ordering::Relaxed)).ordered;
        let order = |path| if ordered { self.switch_path(rank, peer, path) } else { Ok(()) };
        let own = peer == self.context().device().boot().rank();
        let target = match own || state.by_packets {
            true => None,
            false => Some(self.target(rank, 0)?),
        };
        let (mapped, remote) = match target {
            Some(Target::Mapped(region)) => (Some(region), None),
            Some(Target::Provider(remote)) if self.locks_elements(rank) => {
                let sides = [has_operands.then_some(from), results.map(|(_, into)| into), Some(to)];
                (None, Some(remote).filter(|_| !is_scattered(sides)))
            }
            _ => (None, None),
        };
        let lock = mapped.and_then(|_| self.element_lock(rank));
        let by_piece = match mapped {
            // (Elements that no processor changes at once: as one request.)
            Some(_) => is_atomic(ty, 0) || lock.is_some(),
            None => own || remote.is_some(),
        };
        if !by_piece {
            order(AccessPath::Packet)?;
            let opcode = if results.is_some() { opcode::FETCH_EACH } else { opcode::UPDATE_EACH };
            let operands = has_operands.then_some((operands, from));
            let scattered = Scattered { opcode, ty, op, operands, results, peer, start, there: to };
            // SAFETY: [BUF], [INTO]: null was refused.
            return unsafe { self.scatter(&scattered, in_flight) };
        }
        if remote.is_some() || (lock.is_some() && !is_atomic(ty, 0)) {
            order(AccessPath::Provider)?;
        } else {
            self.count_mapped_call(rank)?;
        }
        let kind = if results.is_some() { Kind::Fetch } else { Kind::Update };
        let (result, into) = results.unwrap_or((std::ptr::null_mut(), to));
        let from = if has_operands { from } else { to };
        for ([here, back, there], len) in Pieces::new([from, into, to]) {
            let operand =
                if has_operands { operands.wrapping_offset(here) } else { std::ptr::null() };
            let fetched = if kind == Kind::Fetch { result.wrapping_offset(back) } else { result };
            let count = len / ty.size();
            let origin = Origin { kind, ty, op, operand, compare: operand, result: fetched, count };
            let offset = start + there as i64;
            if let Some(remote) = &remote {
                let place = Remote { addr: remote.addr.wrapping_add_signed(offset), ..*remote };
                let limit = self.provider_atomic_limit(&place, &origin, 0);
                // SAFETY: [BUF], [INTO]: null was refused.
                unsafe { self.elements_by_provider(&origin, &place, limit, &mut in_flight)? };
                continue;
            }
            let Some(region) = mapped else {
                let work = origin.work(std::ptr::null_mut());
                // SAFETY: [BUF], [INTO]: [WORK] but for the place; null was refused.
                match unsafe { state.exposed_region.compute(offset as u64, work) } {
                    Status::Done => continue,
                    status => return Err(error_of(peer, status)),
                }
            };
            let at = region.wrapping_offset(offset as isize);
            if is_atomic(ty, at.addr()) {
                // SAFETY: [WORK]: mapped and checked; [VALID]: checked; [CELL]:
                // aligned; [SHARED]: all processes keep to it.
                unsafe { self.cold.entrance.run(&origin.work(at)) };
            } else if let Some(lock) = &lock {
                let _held = lock.lock();
                // SAFETY: [WORK], [VALID], as above; [ALONE]: under the lock.
                unsafe { origin.work(at).run_plain() };
            } else {
                order(AccessPath::Packet)?;
                // SAFETY: [BUF]; [INTO] until the operation's end; null was refused.
                unsafe { self.elements_by_packets(&origin, peer, offset as u64, &mut in_flight)? };
            }
        }
        Ok(())
    }
}

/// Returns true where a packet with many pieces is quicker than an operation for each, though it
/// waits for the target's progress: two processes that add 4-byte blocks to each other's memory
/// take 0.4 to 1.2 us for each, and 0.1 us by packets.
fn is_scattered(sides: [Option<&Layout>; 3]) -> bool {
    const MANY: u64 = 256;
    const SHORT: u64 = 64;
    let of = |layout: &Layout| (layout.blocks() >= MANY).then(|| layout.size() / layout.blocks());
    sides.into_iter().flatten().filter_map(of).any(|bytes| bytes <= SHORT)
}

/// The type of the elements of all these layouts, which have as many.
fn same_type(from: Option<&Layout>, into: Option<&Layout>, to: &Layout) -> Result<Type, Error> {
    let refuse = |why: String| Err(ErrorKind::Arguments(why).into());
    if to.size() == 0 && from.is_none_or(|from| from.size() == 0) {
        return Ok(Type::U8);
    }
    let Some(ty) = to.element().map(Type::of) else {
        return refuse(
            "operations are on elements of one basic type; the target has several".into(),
        );
    };
    for (place, other) in [("at the origin", from), ("in the result", into)] {
        let Some(other) = other else { continue };
        let have = other.element().map(Type::of);
        if other.size() != to.size() || have != Some(ty) {
            let (n, m) = (other.size(), to.size());
            let have = have.map_or("several types".into(), |have| format!("{have:?}"));
            return refuse(format!(
                "{n} bytes of {have} {place} for {m} bytes of {ty:?} at the target; layouts of an \
                 operation have equal elements"
            ));
        }
    }
    Ok(ty)
}
