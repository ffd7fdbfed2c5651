//! Noncontiguous operations: iov lists on both sides.

use super::access::{Access, copy};
use super::element::Element;
use super::layout::{Layout, Pieces, fits, not_null};
use super::request::{InFlight, Pending};
use super::types::{Remote, Target, unreachable_error};
use super::{Error, ErrorKind};
use crate::device::PIECE;
use crate::netmod::{Iov, Netmod, Op};

impl<N: Netmod> Access<N> {
    /// Puts blocks of `buf` into blocks of the memory of `rank`, whose
    /// displacements count from `disp` units on. The buffer is free again on
    /// return; the bytes are in the target's memory after a flush. Blocks of
    /// one layout may touch but not overlap.
    ///
    /// # Errors
    /// As [`Access::put`]; [`ErrorKind::Arguments`] where the layouts differ in
    /// bytes or the buffer is too short.
    pub fn put_iov(
        &self,
        buf: &[u8],
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<(), Error> {
        fits(from, buf.len())?;
        let operation = Operation::write(buf.as_ptr(), from, rank, disp, to);
        // SAFETY: within the slice.
        unsafe { self.transfer_iov(&operation, LocalCompletion::Return) }
    }

    /// [`Access::put_iov`], the buffer the operation's until the request was
    /// waited for or the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::put_iov`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `buf` is null or readable for the extent of `from` until then;
    /// \[APART\].
    pub unsafe fn rput_iov(
        &self,
        buf: *const u8,
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<Pending<'_, N>, Error> {
        not_null(buf, from)?;
        // SAFETY: [BUF], for null was refused, until the end of the request; [APART].
        unsafe { self.request_iov(&Operation::write(buf, from, rank, disp, to)) }
    }

    /// [`Access::rput_iov`] without a request: the flush waits.
    ///
    /// # Errors
    /// As [`Access::rput_iov`].
    ///
    /// # Safety
    /// \[BUF\]: `buf` is null or readable for the extent of `from` until the access
    /// was flushed for `rank`; \[APART\].
    pub unsafe fn put_iov_nb(
        &self,
        buf: *const u8,
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<(), Error> {
        not_null(buf, from)?;
        let operation = Operation::write(buf, from, rank, disp, to);
        // SAFETY: [BUF], for null was refused, until the flush; [APART].
        unsafe { self.transfer_iov(&operation, LocalCompletion::Flush) }
    }

    /// Gets blocks of the memory of `rank` into blocks of `buf`; they are there
    /// on return. Bytes between the blocks stay as they are.
    ///
    /// # Errors
    /// As [`Access::put_iov`].
    pub fn get_iov(
        &self,
        buf: &mut [u8],
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
    ) -> Result<(), Error> {
        fits(to, buf.len())?;
        let operation = Operation::read(buf.as_mut_ptr(), to, rank, disp, from);
        // SAFETY: within the slice.
        unsafe { self.transfer_iov(&operation, LocalCompletion::Return) }
    }

    /// [`Access::get_iov`], the bytes there when the request was waited for
    /// or the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::get_iov`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is null or stays writable for the extent of `to`, and
    /// untouched, until then; \[APART\].
    pub unsafe fn rget_iov(
        &self,
        buf: *mut u8,
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
    ) -> Result<Pending<'_, N>, Error> {
        not_null(buf, to)?;
        // SAFETY: [INTO], for null was refused, until the end of the request; [APART].
        unsafe { self.request_iov(&Operation::read(buf, to, rank, disp, from)) }
    }

    /// [`Access::rget_iov`] without a request: the bytes are there after a
    /// flush.
    ///
    /// # Errors
    /// As [`Access::rget_iov`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is null or stays writable for the extent of `to`, and
    /// untouched, until the access was flushed for `rank`; \[APART\].
    pub unsafe fn get_iov_nb(
        &self,
        buf: *mut u8,
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
    ) -> Result<(), Error> {
        not_null(buf, to)?;
        let operation = Operation::read(buf, to, rank, disp, from);
        // SAFETY: [INTO], for null was refused, until the flush; [APART].
        unsafe { self.transfer_iov(&operation, LocalCompletion::Flush) }
    }

    /// Puts with a request of its own: MPI_Rput.
    ///
    /// # Errors
    /// As [`Access::put_nb`].
    ///
    /// # Safety
    /// \[BUF\]: `buf` is null or readable for `len` bytes until the request was
    /// waited for or the access flushed for `rank`; \[APART\].
    pub unsafe fn rput(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let all = Layout::contiguous(len);
        // SAFETY: [BUF], or null: `len` bytes are the extent; [APART].
        unsafe { self.rput_iov(buf, &all, rank, disp, &all) }
    }

    /// Gets with a request of its own, whose end brings the bytes: MPI_Rget.
    ///
    /// # Errors
    /// As [`Access::get_nb`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is null or stays writable for `len` bytes, and untouched,
    /// until the request was waited for or the access flushed for `rank`;
    /// \[APART\].
    pub unsafe fn rget(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let all = Layout::contiguous(len);
        // SAFETY: [INTO], or null: `len` bytes are the extent; [APART].
        unsafe { self.rget_iov(buf, &all, rank, disp, &all) }
    }

    /// [`Access::accumulate`] from blocks of `operands` to blocks of the
    /// target's memory; displacements and lengths in bytes are multiples of
    /// the element's size here and lengths there.
    ///
    /// # Errors
    /// As [`Access::accumulate`] and [`Access::put_iov`].
    pub fn accumulate_iov<T: Element>(
        &self,
        operands: &[T],
        from: &Layout<'_>,
        op: Op,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<(), Error> {
        let size = size_of::<T>();
        fits(from, size_of_val(operands))?;
        self.check_iov(from, rank, disp, to)?;
        let unit = self.state()?.units.get(rank) as usize;
        // Checked first, so that nothing is done in part.
        let odd = |&(here, there, len): &(usize, usize, usize)| {
            here % size != 0 || len % size != 0 || there % unit.max(1) != 0
        };
        if Pieces::new(from, to).any(|piece| odd(&piece)) {
            let why = format!(
                "accumulate_iov: iov entries are whole elements of {size} bytes, at displacements \
                 that are multiples of the window's unit of {unit} bytes"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        for (here, there, len) in Pieces::new(from, to) {
            let piece = &operands[here / size..(here + len) / size];
            self.accumulate(piece, op, rank, disp + there / unit.max(1))?;
        }
        Ok(())
    }

    /// Refuses layouts that leave the target's memory or differ in bytes.
    fn check_iov(
        &self,
        here: &Layout<'_>,
        rank: u32,
        disp: usize,
        there: &Layout<'_>,
    ) -> Result<(), Error> {
        if here.bytes().is_none() || here.bytes() != there.bytes() {
            let why = format!("{here:?} and {there:?} differ in bytes");
            return Err(ErrorKind::Arguments(why).into());
        }
        self.check(rank, disp, there.extent().unwrap_or(usize::MAX))
    }

    /// # Safety
    /// \[BUF\], when reading \[INTO\], of the extent of its layout, until completion;
    /// \[APART\].
    unsafe fn transfer_iov(
        &self,
        operation: &Operation<'_>,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        let Operation { buf, here, rank, disp, there, write } = *operation;
        self.check_iov(here, rank, disp, there)?;
        if here.bytes() == Some(0) {
            return Ok(());
        }
        self.mark(rank);
        if self.state()?.dynamic {
            // SAFETY: [BUF], [INTO]: until completion.
            return unsafe { self.pieces_by_packets(operation, completion) };
        }
        match self.target(rank, disp)? {
            Target::Mapped(start) => {
                for (here, there, len) in Pieces::new(here, there) {
                    // SAFETY: [TARGET]: checked; [BUF], [INTO]: within the extent; [APART].
                    let _ = unsafe {
                        let (here, there) = (buf.add(here), start.add(there));
                        if write { copy(there, here, len) } else { copy(here, there, len) }
                    };
                }
                Ok(())
            }
            // SAFETY: [TARGET]: checked; [BUF], [INTO]: until completion.
            Target::Provider(remote) => unsafe {
                self.move_pieces(&remote, buf, Pieces::new(here, there), write, completion)
            },
            Target::Unreachable(peer) => Err(unreachable_error(peer)),
        }
    }

    /// [`Access::transfer_iov`] with a request: how it is started, and the
    /// request.
    ///
    /// # Safety
    /// \[BUF\], when reading \[INTO\]; \[APART\]: as there.
    unsafe fn request_iov(&self, operation: &Operation<'_>) -> Result<Pending<'_, N>, Error> {
        let mut in_flight = Vec::new();
        let completion = LocalCompletion::InFlight(&mut in_flight);
        // SAFETY: [BUF], [INTO]: until what is in flight has completed; [APART].
        let started = unsafe { self.transfer_iov(operation, completion) };
        let pending = Pending::new(self, in_flight);
        started.map(|()| pending)
    }

    /// The pieces of an operation on a dynamic window.
    ///
    /// # Safety
    /// \[BUF\], when reading \[INTO\], as [`Access::transfer_iov`].
    unsafe fn pieces_by_packets(
        &self,
        &Operation { buf, here, rank, disp, there, write }: &Operation<'_>,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        let mut pieces = Pieces::new(here, there);
        if write {
            return pieces.try_for_each(|(here, there, len)| {
                // SAFETY: [BUF]: within the extent; what is sent was copied.
                unsafe { self.put_by_packets(buf.add(here), len, rank, disp + there) }
            });
        }
        let mut own = Vec::new();
        let (mut in_flight, returns) = match completion {
            LocalCompletion::Flush => (None, false),
            LocalCompletion::InFlight(in_flight) => (Some(in_flight), false),
            LocalCompletion::Return => (Some(&mut own), true),
        };
        let started = pieces.try_for_each(|(here, there, len)| {
            let in_flight = in_flight.as_deref_mut();
            // SAFETY: [INTO]: within the extent, until completion.
            unsafe { self.get_by_packets(buf.add(here), len, rank, disp + there, in_flight) }
        });
        // A failed request is forgotten, so that its answer is not written.
        let ended = if returns { self.await_in_flight(&mut own) } else { Ok(()) };
        started.and(ended)
    }

    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of the pieces, until completion.
    unsafe fn move_pieces(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: Pieces<'_>,
        write: bool,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        // SAFETY: [TARGET]; [BUF], [INTO]: until completion.
        unsafe {
            match completion {
                LocalCompletion::Flush => self.each_call(remote, buf, pieces, write, None),
                LocalCompletion::InFlight(in_flight) => {
                    self.each_call(remote, buf, pieces, write, Some(in_flight))
                }
                LocalCompletion::Return => self.bounced(remote, buf, pieces, write),
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
        pieces: Pieces<'_>,
        write: bool,
    ) -> Result<(), Error> {
        let mut pieces = pieces.flat_map(|(here, there, len)| {
            let cuts = (0..len).step_by(PIECE);
            cuts.map(move |at| (here + at, there + at, PIECE.min(len - at)))
        });
        let mut next = pieces.next();
        while next.is_some() {
            let (mut bytes, mut list) = (0, Vec::new());
            while let Some((here, there, len)) = next.filter(|piece| bytes + piece.2 <= PIECE) {
                list.push((here, (bytes, there, len)));
                bytes += len;
                next = pieces.next();
            }
            let mut bounce = self.cold.bounce_pool.take(bytes);
            let start = bounce.start();
            // SAFETY: within the bounce memory and the caller's; the former is
            // leaked if this fails.
            unsafe {
                if write {
                    for &(here, (at, _, len)) in &list {
                        start.add(at).copy_from_nonoverlapping(buf.add(here), len);
                    }
                }
                let mut in_flight = Vec::new();
                let moved = list.iter().map(|&(_, piece)| piece);
                let started = self.each_call(remote, start, moved, write, Some(&mut in_flight));
                let ended = self.await_in_flight(&mut in_flight);
                started.and(ended)?;
                if !write {
                    for &(here, (at, _, len)) in &list {
                        buf.add(here).copy_from_nonoverlapping(start.add(at), len);
                    }
                }
            }
            self.cold.bounce_pool.put_back(bounce);
        }
        Ok(())
    }

    /// Hands pieces to the provider, as many at a time as it takes.
    ///
    /// # Safety
    /// \[TARGET\]; \[BUF\], when reading \[INTO\], of the pieces, until the end of
    /// what goes into `in_flight`, without it until a flush.
    unsafe fn each_call(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: impl Iterator<Item = (usize, usize, usize)>,
        write: bool,
        mut in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        let caps = self.endpoint(remote)?.0.caps();
        let (most, longest) = (caps.iov_limit.max(1), caps.max_message);
        let mut list: Vec<Iov> = Vec::with_capacity(most.min(64));
        let mut bytes = 0;
        for (here, there, len) in pieces {
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
                    // SAFETY: within the extent.
                    buf: unsafe { buf.add(here + done) },
                    len: piece,
                    addr: remote.addr + (there + done) as u64,
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

/// A noncontiguous put or get.
#[derive(Clone, Copy)]
struct Operation<'l> {
    buf: *mut u8,
    here: &'l Layout<'l>,
    rank: u32,
    disp: usize,
    there: &'l Layout<'l>,
    /// Put, and the buffer is only read.
    write: bool,
}

impl<'l> Operation<'l> {
    fn write(
        buf: *const u8,
        here: &'l Layout<'l>,
        rank: u32,
        disp: usize,
        there: &'l Layout<'l>,
    ) -> Operation<'l> {
        Operation { buf: buf.cast_mut(), here, rank, disp, there, write: true }
    }

    fn read(
        buf: *mut u8,
        here: &'l Layout<'l>,
        rank: u32,
        disp: usize,
        there: &'l Layout<'l>,
    ) -> Operation<'l> {
        Operation { buf, here, rank, disp, there, write: false }
    }
}

/// When the operation is complete at the origin: its buffer is the caller's
/// again.
enum LocalCompletion<'t> {
    /// When the call returns.
    Return,
    /// When these have completed.
    InFlight(&'t mut Vec<InFlight>),
    /// After a flush.
    Flush,
}
