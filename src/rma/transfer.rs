//! How noncontiguous puts and gets travel.
//!
//! ```text
//! mapped     one copy between the two layouts
//! iov        operations of the provider with as many pieces as it takes
//! blocks     an operation of the provider for each piece
//! pack       to or from one block at the target: packed here, in fragments;
//!            other targets, and short puts on a node: packets, which the target
//!            unpacks
//! ```
//!
//! [`Medium::choose`](crate::device::Medium) says which of the last three, by what
//! they cost; [`Access::explain_layout`] tells it.

use super::access::Access;
use super::access::copy;
use super::am_fallback::{error_of, opcode};
use super::pieces::{Pieces, single};
use super::places::SHORT;
use super::request::{InFlight, Left, Pending, Scattered};
use super::types::{Remote, Status, Target, unreachable_error};
use super::{Error, ErrorKind};
use crate::datatype::Layout;
use crate::device::{Explanation, FRAGMENT, Medium, Method, PIECE, Shape, Token, explain};
use crate::netmod::{Costs, Iov, Netmod, Op, Type};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{Ordering, compiler_fence};

/// A noncontiguous put or get.
#[derive(Clone, Copy)]
pub(super) struct Operation<'l> {
    buf: *mut u8,
    here: &'l Layout,
    rank: u32,
    disp: usize,
    there: &'l Layout,
    /// Put, and the buffer is only read.
    write: bool,
}

impl<'l> Operation<'l> {
    pub(super) fn write(
        buf: *const u8,
        here: &'l Layout,
        rank: u32,
        disp: usize,
        there: &'l Layout,
    ) -> Operation<'l> {
        Operation { buf: buf.cast_mut(), here, rank, disp, there, write: true }
    }

    pub(super) fn read(
        buf: *mut u8,
        here: &'l Layout,
        rank: u32,
        disp: usize,
        there: &'l Layout,
    ) -> Operation<'l> {
        Operation { buf, here, rank, disp, there, write: false }
    }
}

/// When the operation is complete at the origin: its buffer is the caller's
/// again.
pub(super) enum LocalCompletion<'t> {
    /// When the call returns.
    Return,
    /// When these have completed.
    InFlight(&'t mut Vec<InFlight>),
    /// After a flush.
    Flush,
}

/// A contiguous piece: bytes from the origin here and there, and its length.
type Piece = ([isize; 2], usize);

/// Fragments under way while the next is packed, or the one before unpacked.
const UNDER_WAY: usize = 3;
/// An operation under way, its fragment, which is kept until that ended, and bytes of it.
type Fragments = VecDeque<(Token, ManuallyDrop<Box<[u8]>>, usize)>;
/// A fragment, and bytes of it.
type Fragment = (Box<[u8]>, usize);

impl<N: Netmod> Access<N> {
    /// Tells how a put or get between these layouts would travel to `rank`, and
    /// what each method is predicted to cost.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`]; a peer that cannot be reached.
    pub fn explain_layout(
        &self,
        origin: &Layout,
        rank: u32,
        target: &Layout,
    ) -> Result<Explanation, Error> {
        let peer = self.world_rank(rank)?;
        if self.borrowed_state()?.by_packets {
            let told = explain(origin, target, Medium::Provider(self.costs()));
            return Ok(Explanation { method: Method::Pack, ..told });
        }
        match self.target(rank, 0)? {
            Target::Mapped(_) => Ok(explain(origin, target, Medium::Mapped)),
            Target::Provider(remote) => {
                let costs = self.endpoint(&remote)?.0.operation_costs();
                let told = explain(origin, target, Medium::Provider(costs));
                Ok(Explanation { method: self.method(&remote, origin, target)?, ..told })
            }
            Target::Unreachable(_) => Err(unreachable_error(peer)),
        }
    }

    /// The network's costs, where one is open.
    fn costs(&self) -> Costs {
        let transports = [crate::av::Transport::Network, crate::av::Transport::Local];
        let mut open = transports.into_iter().filter_map(|t| self.context().endpoint(t));
        open.next().map_or(Costs::ASSUMED, |(netmod, _)| netmod.operation_costs())
    }

    /// The byte of the target's memory that `disp` names.
    ///
    /// # Errors
    /// Epoch, rank, a layout that leaves the window there.
    pub(super) fn check_layout(
        &self,
        rank: u32,
        disp: usize,
        layout: &Layout,
    ) -> Result<i64, Error> {
        self.check_rank(rank)?;
        let state = self.borrowed_state()?;
        let (bytes, unit) = (state.sizes.get(rank), state.units.get(rank) as usize);
        let (first, end) = layout.true_bounds().unwrap_or((0, 0));
        // (No i128 overflows here: 64 bits times 64 bits, and 62.)
        let start = disp as u128 * unit as u128;
        let start = i128::try_from(start).unwrap_or(i128::MAX / 2);
        let fits = start + i128::from(first) >= 0 && start + i128::from(end) <= i128::from(bytes);
        match i64::try_from(start) {
            Ok(start) if fits => Ok(start),
            _ => Err(ErrorKind::LayoutOutOfBounds { rank, disp, unit, first, end, bytes }.into()),
        }
    }

    /// # Safety
    /// \[BUF\], when reading \[INTO\], of the bytes of its layout, or null, until
    /// completion; \[APART\].
    pub(super) unsafe fn transfer_layout(
        &self,
        operation: &Operation<'_>,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        let Operation { buf, here, rank, disp, there, write } = *operation;
        not_null(buf, here)?;
        if here.size() != there.size() {
            let (here, there) = (here.size(), there.size());
            let why = format!(
                "a layout of {here} bytes here and one of {there} bytes there: both sides of an \
                 operation have as many"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        let start = self.check_layout(rank, disp, there)?;
        if here.size() == 0 {
            return Ok(());
        }
        self.mark(rank);
        if self.borrowed_state()?.by_packets {
            // SAFETY: [BUF], [INTO]: until completion.
            return unsafe { self.by_packets(operation, start, completion) };
        }
        let mut remote = match self.target(rank, 0)? {
            Target::Mapped(region) => {
                let place = region.wrapping_offset(start as isize);
                // SAFETY: [TARGET]: checked; [BUF], [INTO]; [APART].
                unsafe {
                    match write {
                        true => here.copy_to_raw(buf, there, place, 0..here.size()),
                        false => there.copy_to_raw(place, here, buf, 0..here.size()),
                    };
                }
                compiler_fence(Ordering::Release);
                return if write { Ok(()) } else { self.count_mapped_call(rank) };
            }
            Target::Provider(remote) => remote,
            Target::Unreachable(peer) => return Err(unreachable_error(peer)),
        };
        let method = self.method(&remote, here, there)?;
        // SAFETY: [TARGET]: checked; [BUF], [INTO]: until completion.
        unsafe {
            if method != Method::Pack {
                remote.addr = remote.addr.wrapping_add_signed(start);
                let pieces = Pieces::new([here, there]);
                return self.move_pieces(&remote, buf, pieces, (write, method), completion);
            }
            let by_packet = write && self.fits_node_queue(remote.peer, here.size());
            let Some(at) = single(there).filter(|_| !by_packet) else {
                return self.by_packets(operation, start, completion);
            };
            remote.addr = remote.addr.wrapping_add_signed(start + at as i64);
            match write {
                true => self.write_packed(&remote, buf, here),
                false => self.read_packed(&remote, buf, here),
            }
        }
    }

    /// Chooses how a provider moves data between two layouts.
    fn method(&self, remote: &Remote, here: &Layout, there: &Layout) -> Result<Method, Error> {
        if here.blocks() == 1 && there.blocks() == 1 {
            return Ok(Method::Blocks);
        }
        let costs = self.endpoint(remote)?.0.operation_costs();
        let packs = there.blocks() == 1 || self.request_limit(remote.peer).is_ok();
        let methods = [Method::Blocks, Method::Iov, Method::Pack];
        let methods = if packs { &methods[..] } else { &methods[..2] };
        Ok(Medium::Provider(costs).choose(Shape::of(here, there), methods))
    }

    /// Returns true if a put of so many bytes is one packet through a queue of the node:
    /// it is packed into it, where a provider begins when all is packed.
    fn fits_node_queue(&self, peer: u32, bytes: u64) -> bool {
        let longest = self.request_limit(peer).map_or(0, |longest| longest.saturating_sub(SHORT));
        bytes <= longest as u64 && self.context().has_node_queue(peer)
    }

    /// [`Access::transfer_layout`] with a request: how it is started, and the
    /// request.
    ///
    /// # Safety
    /// \[BUF\], when reading \[INTO\]; \[APART\]: as there.
    pub(super) unsafe fn request_layout(
        &self,
        operation: &Operation<'_>,
    ) -> Result<Pending<'_, N>, Error> {
        // SAFETY: [BUF], [INTO]: until what is in flight has completed; [APART].
        Pending::start(self, |in_flight| unsafe {
            self.transfer_layout(operation, LocalCompletion::InFlight(in_flight))
        })
    }

    /// A put or get of contiguous bytes with a request.
    ///
    /// # Safety
    /// \[BUF\], when reading \[INTO\], or null; \[APART\].
    pub(super) unsafe fn request_bytes(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
        write: bool,
    ) -> Result<Pending<'_, N>, Error> {
        if len > 0 && buf.is_null() {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        self.check(rank, disp, len)?;
        if len == 0 {
            return Ok(Pending::new(self, Vec::new()));
        }
        self.mark(rank);
        let by_packets = self.borrowed_state()?.by_packets;
        // SAFETY: [TARGET]: checked; [BUF], [INTO]: until what is in flight has
        // completed; [APART].
        Pending::start(self, |in_flight| unsafe {
            if by_packets {
                return match write {
                    true => self.put_by_packets(buf, len, rank, disp),
                    false => self.get_by_packets(buf, len, rank, disp, Some(in_flight)),
                };
            }
            match self.target(rank, disp)? {
                Target::Mapped(start) => {
                    let (to, from) = if write { (start, buf) } else { (buf, start) };
                    copy(to, from, len);
                    // (One that is done at once may be made again until it finds something.)
                    if write { Ok(()) } else { self.count_mapped_call(rank) }
                }
                Target::Provider(remote) => {
                    let all = std::iter::once(([0, 0], len));
                    let how = (write, Method::Blocks);
                    self.each_call(&remote, buf, all, how, Some(in_flight))
                }
                Target::Unreachable(peer) => Err(unreachable_error(peer)),
            }
        })
    }

    /// Packs in fragments and writes each to its place in one block of the target's
    /// memory. The buffer is the caller's on return.
    ///
    /// # Safety
    /// \[TARGET\]; \[BUF\] of the bytes of `here`.
    unsafe fn write_packed(
        &self,
        remote: &Remote,
        buf: *const u8,
        here: &Layout,
    ) -> Result<(), Error> {
        let longest = self.endpoint(remote)?.0.caps().max_message.min(FRAGMENT);
        self.make_space_staged()?;
        let (mut done, size) = (0, here.size());
        let mut under_way = VecDeque::new();
        let mut write = || -> Result<(), Error> {
            while done < size {
                if under_way.len() == UNDER_WAY
                    && let Some((fragment, _)) = self.oldest(&mut under_way, remote.peer)?
                {
                    self.cold.put_back(fragment);
                }
                let len = longest.min((size - done) as usize);
                let mut fragment = self.cold.fragment(len);
                // SAFETY: [BUF].
                unsafe { here.pack_raw(buf, done, &mut fragment[..len]) };
                // SAFETY: [TARGET]; the fragment stays until this ended.
                unsafe { self.move_fragment(remote, (fragment, len), done, true, &mut under_way)? };
                done += len as u64;
            }
            Ok(())
        };
        let result = write();
        for (token, fragment, _) in under_way {
            // A flush waits for them, and tells how they ended.
            self.context().forget(token);
            self.cold.stage(remote.peer, ManuallyDrop::into_inner(fragment));
        }
        result
    }

    /// Writes a fragment to, or reads it from, so many bytes behind the target's address.
    ///
    /// # Safety
    /// \[TARGET\]; the fragment is kept until its token came, for ever if it does not.
    unsafe fn move_fragment(
        &self,
        remote: &Remote,
        (fragment, len): Fragment,
        behind: u64,
        write: bool,
        under_way: &mut Fragments,
    ) -> Result<(), Error> {
        let mut fragment = ManuallyDrop::new(fragment);
        let iov = [Iov { buf: fragment.as_mut_ptr(), len, addr: remote.addr + behind }];
        // SAFETY: [TARGET]; [BUF], [INTO]: the fragment, which is leaked after a failure.
        let token = unsafe { self.transfer(remote, &iov, write, true) }?;
        under_way.push_back((token, fragment, len));
        Ok(())
    }

    /// Waits for the fragment that is under way longest; one whose end is not known is
    /// leaked.
    fn oldest(&self, under_way: &mut Fragments, peer: u32) -> Result<Option<Fragment>, Error> {
        let Some((token, fragment, len)) = under_way.pop_front() else { return Ok(None) };
        let mut left = Left::new(self);
        left.in_flight.push(InFlight::Token(token, peer));
        left.wait()?;
        Ok(Some((ManuallyDrop::into_inner(fragment), len)))
    }

    /// Reads one block of the target's memory in fragments, and unpacks those that
    /// have come while others are on their way. The bytes are there on return.
    ///
    /// # Safety
    /// \[TARGET\]; \[INTO\] of the bytes of `here`.
    unsafe fn read_packed(
        &self,
        remote: &Remote,
        buf: *mut u8,
        here: &Layout,
    ) -> Result<(), Error> {
        let longest = self.endpoint(remote)?.0.caps().max_message.min(FRAGMENT);
        let (mut issued, mut done, size) = (0, 0, here.size());
        let mut under_way = VecDeque::new();
        let mut read = || -> Result<(), Error> {
            while done < size {
                while issued < size && under_way.len() < UNDER_WAY {
                    let len = longest.min((size - issued) as usize);
                    let next = (self.cold.fragment(len), len);
                    // SAFETY: [TARGET]; the fragment is leaked unless this ends.
                    unsafe { self.move_fragment(remote, next, issued, false, &mut under_way)? };
                    issued += len as u64;
                }
                let Some((fragment, len)) = self.oldest(&mut under_way, remote.peer)? else {
                    break;
                };
                // SAFETY: [INTO].
                unsafe { here.unpack_raw(buf, done, &fragment[..len]) };
                self.cold.put_back(fragment);
                done += len as u64;
            }
            Ok(())
        };
        let result = read();
        under_way.into_iter().for_each(|(token, ..)| self.context().forget(token));
        result
    }

    /// Puts or gets by requests that the target carries out; what is put was copied
    /// on return.
    ///
    /// # Safety
    /// \[BUF\], when reading \[INTO\], as [`Access::transfer_layout`].
    unsafe fn by_packets(
        &self,
        &Operation { buf, here, rank, there, write, .. }: &Operation<'_>,
        start: i64,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        let peer = self.world_rank(rank)?;
        let state = self.state()?;
        let region = &state.exposed_region;
        if peer == self.context().device().boot().rank() {
            for ([here, there], len) in Pieces::new([here, there]) {
                let done = region.with_range((start + there as i64) as u64, len, |at| {
                    let here = buf.wrapping_offset(here);
                    // SAFETY: in range; [BUF], [INTO].
                    unsafe {
                        match write {
                            true => std::ptr::copy(here, at, len),
                            false => std::ptr::copy(at, here, len),
                        }
                    }
                });
                done.ok_or_else(|| error_of(peer, Status::OutOfRange))?;
            }
            return Ok(());
        }
        let mut left = Left::new(self);
        let in_flight = match completion {
            _ if write => None,
            LocalCompletion::Flush => None,
            LocalCompletion::InFlight(in_flight) => Some(in_flight),
            LocalCompletion::Return => Some(&mut left.in_flight),
        };
        let scattered = Scattered {
            opcode: if write { opcode::SCATTER } else { opcode::GATHER },
            ty: Type::U8,
            op: Op::Replace,
            operands: write.then_some((buf.cast_const(), here)),
            results: (!write).then_some((buf, here)),
            peer,
            start,
            there,
        };
        // SAFETY: [BUF]; [INTO], until the answer came.
        let started = unsafe { self.scatter(&scattered, in_flight) };
        // A failed request is forgotten, so that its answer is not written.
        started.and(left.wait())
    }

    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of the pieces, until completion.
    unsafe fn move_pieces(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: Pieces<'_, 2>,
        how: (bool, Method),
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        // SAFETY: [TARGET]; [BUF], [INTO]: until completion.
        unsafe {
            match completion {
                LocalCompletion::Flush => self.each_call(remote, buf, pieces, how, None),
                LocalCompletion::InFlight(in_flight) => {
                    self.each_call(remote, buf, pieces, how, Some(in_flight))
                }
                LocalCompletion::Return => self.bounced(remote, buf, pieces, how),
            }
        }
    }

    /// Moves pieces through bounce memory, so that the provider holds nothing of
    /// the caller's on return, even after a failure.
    ///
    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of the pieces.
    unsafe fn bounced(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: Pieces<'_, 2>,
        how: (bool, Method),
    ) -> Result<(), Error> {
        let mut pieces = pieces.flat_map(|([here, there], len)| {
            let cuts = (0..len).step_by(PIECE);
            cuts.map(move |at| (here + at as isize, there + at as isize, PIECE.min(len - at)))
        });
        let mut next = pieces.next();
        while next.is_some() {
            let (mut bytes, mut list) = (0, Vec::new());
            while let Some((here, there, len)) = next.filter(|piece| bytes + piece.2 <= PIECE) {
                list.push((buf.wrapping_offset(here), bytes, there, len));
                bytes += len;
                next = pieces.next();
            }
            let mut bounce = self.cold.bounce_pool.take(bytes);
            let start = bounce.start();
            // SAFETY: within the bounce memory and the caller's; the former is
            // leaked if this fails.
            unsafe {
                if how.0 {
                    for &(here, at, _, len) in &list {
                        start.add(at).copy_from_nonoverlapping(here, len);
                    }
                }
                let mut left = Left::new(self);
                let in_flight = Some(&mut left.in_flight);
                let moved = list.iter().map(|&(_, at, there, len)| ([at as isize, there], len));
                let started = self.each_call(remote, start, moved, how, in_flight);
                started.and(left.wait())?;
                if !how.0 {
                    for &(here, at, _, len) in &list {
                        here.copy_from_nonoverlapping(start.add(at), len);
                    }
                }
            }
            self.cold.bounce_pool.put_back(bounce);
        }
        Ok(())
    }

    /// Hands pieces to the provider, as many at a time as it takes, or one by one.
    ///
    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of the pieces, until the end of
    /// what goes into `in_flight`, without it until a flush.
    unsafe fn each_call(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: impl Iterator<Item = Piece>,
        (write, method): (bool, Method),
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let caps = self.endpoint(remote)?.0.caps();
        let (most, longest) = (caps.iov_limit.max(1), caps.max_message);
        let most = if method == Method::Iov { most } else { 1 };
        let mut list: Vec<Iov> = Vec::with_capacity(most.min(64));
        let mut bytes = 0;
        for ([here, there], len) in pieces {
            let mut done = 0;
            while done < len {
                let piece = (len - done).min(longest);
                if list.len() == most || bytes + piece > longest {
                    // SAFETY: [TARGET]; [BUF], [INTO]; no more than the provider takes.
                    unsafe { self.one_call(remote, &list, write, in_flight.as_deref_mut())? };
                    list.clear();
                    bytes = 0;
                }
                list.push(Iov {
                    buf: buf.wrapping_offset(here).wrapping_add(done),
                    len: piece,
                    addr: remote.addr.wrapping_add_signed(there as i64 + done as i64),
                });
                bytes += piece;
                done += piece;
            }
        }
        // SAFETY: [TARGET]; [BUF], [INTO]; no more than the provider takes.
        unsafe { self.one_call(remote, &list, write, in_flight) }
    }

    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], as `each_call`; no more than the
    /// provider takes by one call.
    unsafe fn one_call(
        &self,
        remote: &Remote,
        list: &[Iov],
        write: bool,
        in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        // SAFETY: [TARGET]; [BUF], [INTO]: until the token came back.
        let token = unsafe { self.transfer(remote, list, write, in_flight.is_some())? };
        if let Some(in_flight) = in_flight {
            in_flight.push(InFlight::Token(token, remote.peer));
        }
        Ok(())
    }
}

/// Refuses a null buffer, unless the layout has no bytes.
pub(super) fn not_null(buf: *const u8, layout: &Layout) -> Result<(), Error> {
    match layout.size() as usize {
        len if len > 0 && buf.is_null() => Err(ErrorKind::NullBuffer { len }.into()),
        _ => Ok(()),
    }
}
