//! Noncontiguous operations: iov lists on both sides.

use super::access::{Access, copy};
use super::atomic::Element;
use super::request::{InFlight, Pending};
use super::types::{Remote, Target, unreachable_error};
use super::{Error, ErrorKind};
use crate::device::PIECE;
use crate::netmod::{Iov, Netmod, Op};

/// Where the bytes of a noncontiguous operation lie, in the order in which they
/// are taken: a strided vector or a list. Displacements are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout<'a> {
    /// `count` blocks of `len` bytes, the starts `stride` bytes apart.
    Vector {
        /// Blocks.
        count: usize,
        /// Bytes of each.
        len: usize,
        /// Bytes from the start of one to that of the next.
        stride: usize,
    },
    /// Displacement and length of each block.
    List(&'a [(usize, usize)]),
}

impl Layout<'_> {
    /// `len` bytes in one block.
    #[must_use]
    pub const fn contiguous(len: usize) -> Layout<'static> {
        Layout::Vector { count: 1, len, stride: len }
    }

    /// Bytes of all blocks; `None` where that is not a number.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Layout::Vector { count, len, .. } => count.checked_mul(*len),
            Layout::List(list) => {
                list.iter().try_fold(0_usize, |sum, (_, len)| sum.checked_add(*len))
            }
        }
    }

    /// Bytes from displacement 0 to the end of the last byte; `None` where that
    /// is not a number.
    #[must_use]
    pub fn extent(&self) -> Option<usize> {
        match self {
            Layout::Vector { count: 0, .. } | Layout::Vector { len: 0, .. } => Some(0),
            Layout::Vector { count, len, stride } => {
                (count - 1).checked_mul(*stride)?.checked_add(*len)
            }
            Layout::List(list) => list
                .iter()
                .filter(|(_, len)| *len > 0)
                .try_fold(0_usize, |end, (at, len)| Some(end.max(at.checked_add(*len)?))),
        }
    }

    /// Block `i`: displacement and length.
    fn block(&self, i: usize) -> Option<(usize, usize)> {
        match self {
            Layout::Vector { count, len, stride } => (i < *count).then_some((i * stride, *len)),
            Layout::List(list) => list.get(i).copied(),
        }
    }
}

/// The contiguous pieces two layouts have in common: displacement here,
/// displacement there, length.
struct Pieces<'a> {
    sides: [(&'a Layout<'a>, usize, usize); 2],
}

impl<'a> Pieces<'a> {
    fn new(here: &'a Layout<'a>, there: &'a Layout<'a>) -> Pieces<'a> {
        Pieces { sides: [(here, 0, 0), (there, 0, 0)] }
    }
}

impl Iterator for Pieces<'_> {
    type Item = (usize, usize, usize);

    fn next(&mut self) -> Option<(usize, usize, usize)> {
        let mut found = [(0, 0); 2];
        for ((layout, index, done), found) in self.sides.iter_mut().zip(&mut found) {
            loop {
                let (at, len) = layout.block(*index)?;
                if *done < len {
                    *found = (at + *done, len - *done);
                    break;
                }
                (*index, *done) = (*index + 1, 0);
            }
        }
        let len = found[0].1.min(found[1].1);
        self.sides.iter_mut().for_each(|(_, _, done)| *done += len);
        Some((found[0].0, found[1].0, len))
    }
}

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
        // SAFETY: within the slice.
        unsafe { self.write_pieces(buf.as_ptr(), from, rank, disp, to, LocalCompletion::Return) }
    }

    /// [`Access::put_iov`], the buffer the operation's until the request was
    /// waited for or the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::put_iov`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// `buf` is null or readable for the extent of `from` until then.
    pub unsafe fn rput_iov(
        &self,
        buf: *const u8,
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<Pending<'_, N>, Error> {
        not_null(buf, from)?;
        let mut in_flight = Vec::new();
        // SAFETY: the caller's duty.
        let started = unsafe {
            self.write_pieces(buf, from, rank, disp, to, LocalCompletion::InFlight(&mut in_flight))
        };
        let pending = Pending::new(self, in_flight);
        started.map(|()| pending)
    }

    /// [`Access::rput_iov`] without a request: the flush waits.
    ///
    /// # Errors
    /// As [`Access::rput_iov`].
    ///
    /// # Safety
    /// `buf` is null or readable for the extent of `from` until the access was
    /// flushed for `rank`.
    pub unsafe fn put_iov_nb(
        &self,
        buf: *const u8,
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
    ) -> Result<(), Error> {
        not_null(buf, from)?;
        // SAFETY: the caller's duty.
        unsafe { self.write_pieces(buf, from, rank, disp, to, LocalCompletion::Flush) }
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
        // SAFETY: within the slice.
        unsafe { self.read_pieces(buf.as_mut_ptr(), to, rank, disp, from, LocalCompletion::Return) }
    }

    /// [`Access::get_iov`], the bytes there when the request was waited for
    /// or the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::get_iov`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// `buf` is null or stays writable for the extent of `to`, and untouched,
    /// until then.
    pub unsafe fn rget_iov(
        &self,
        buf: *mut u8,
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
    ) -> Result<Pending<'_, N>, Error> {
        not_null(buf, to)?;
        let mut in_flight = Vec::new();
        // SAFETY: the caller's duty.
        let started = unsafe {
            self.read_pieces(buf, to, rank, disp, from, LocalCompletion::InFlight(&mut in_flight))
        };
        let pending = Pending::new(self, in_flight);
        started.map(|()| pending)
    }

    /// [`Access::rget_iov`] without a request: the bytes are there after a
    /// flush.
    ///
    /// # Errors
    /// As [`Access::rget_iov`].
    ///
    /// # Safety
    /// `buf` is null or stays writable for the extent of `to`, and untouched,
    /// until the access was flushed for `rank`.
    pub unsafe fn get_iov_nb(
        &self,
        buf: *mut u8,
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
    ) -> Result<(), Error> {
        not_null(buf, to)?;
        // SAFETY: the caller's duty.
        unsafe { self.read_pieces(buf, to, rank, disp, from, LocalCompletion::Flush) }
    }

    /// Puts with a request of its own: MPI_Rput.
    ///
    /// # Errors
    /// As [`Access::put_nb`].
    ///
    /// # Safety
    /// `buf` is null or readable for `len` bytes until the request was waited
    /// for or the access flushed for `rank`.
    pub unsafe fn rput(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let all = Layout::contiguous(len);
        // SAFETY: the caller's duty.
        unsafe { self.rput_iov(buf, &all, rank, disp, &all) }
    }

    /// Gets with a request of its own, whose end brings the bytes: MPI_Rget.
    ///
    /// # Errors
    /// As [`Access::get_nb`].
    ///
    /// # Safety
    /// `buf` is null or stays writable for `len` bytes, and untouched, until
    /// the request was waited for or the access flushed for `rank`.
    pub unsafe fn rget(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        let all = Layout::contiguous(len);
        // SAFETY: the caller's duty.
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
    /// `buf` is readable for the extent of `from` until completion.
    unsafe fn write_pieces(
        &self,
        buf: *const u8,
        from: &Layout<'_>,
        rank: u32,
        disp: usize,
        to: &Layout<'_>,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        self.check_iov(from, rank, disp, to)?;
        if from.bytes() == Some(0) {
            return Ok(());
        }
        self.mark(rank);
        if self.state()?.dynamic {
            for (here, there, len) in Pieces::new(from, to) {
                // SAFETY: the caller's duty; what is sent was copied.
                unsafe { self.put_by_packets(buf.add(here), len, rank, disp + there)? };
            }
            return Ok(());
        }
        match self.target(rank, disp)? {
            Target::Mapped(start) => {
                for (here, there, len) in Pieces::new(from, to) {
                    // SAFETY: both within their bounds, and apart.
                    let _ = unsafe { copy(start.add(there), buf.add(here), len) };
                }
                Ok(())
            }
            // SAFETY: the caller's duty.
            Target::Provider(remote) => unsafe {
                self.move_pieces(&remote, buf.cast_mut(), Pieces::new(from, to), true, completion)
            },
            Target::Unreachable(peer) => Err(unreachable_error(peer)),
        }
    }

    /// # Safety
    /// `buf` is writable for the extent of `to` until completion.
    unsafe fn read_pieces(
        &self,
        buf: *mut u8,
        to: &Layout<'_>,
        rank: u32,
        disp: usize,
        from: &Layout<'_>,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        self.check_iov(to, rank, disp, from)?;
        if to.bytes() == Some(0) {
            return Ok(());
        }
        self.mark(rank);
        if self.state()?.dynamic {
            let mut own = Vec::new();
            let (mut in_flight, returns) = match completion {
                LocalCompletion::Flush => (None, false),
                LocalCompletion::InFlight(in_flight) => (Some(in_flight), false),
                LocalCompletion::Return => (Some(&mut own), true),
            };
            let started = Pieces::new(to, from).try_for_each(|(here, there, len)| {
                let in_flight = in_flight.as_deref_mut();
                // SAFETY: the caller's duty.
                unsafe { self.get_by_packets(buf.add(here), len, rank, disp + there, in_flight) }
            });
            // A failed request is forgotten, so that its answer is not written.
            let ended = if returns { self.await_in_flight(&mut own) } else { Ok(()) };
            return started.and(ended);
        }
        match self.target(rank, disp)? {
            Target::Mapped(start) => {
                for (here, there, len) in Pieces::new(to, from) {
                    // SAFETY: both within their bounds, and apart.
                    let _ = unsafe { copy(buf.add(here), start.add(there), len) };
                }
                Ok(())
            }
            // SAFETY: the caller's duty.
            Target::Provider(remote) => unsafe {
                self.move_pieces(&remote, buf, Pieces::new(to, from), false, completion)
            },
            Target::Unreachable(peer) => Err(unreachable_error(peer)),
        }
    }

    /// # Safety
    /// The pieces at `buf` are readable, when reading writable, until
    /// completion.
    unsafe fn move_pieces(
        &self,
        remote: &Remote,
        buf: *mut u8,
        pieces: Pieces<'_>,
        write: bool,
        completion: LocalCompletion<'_>,
    ) -> Result<(), Error> {
        // SAFETY: the caller's duty.
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
    /// The pieces at `buf` are readable, when reading writable.
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
    /// The pieces at `buf` stay readable, when reading writable, until the
    /// end of what goes into `in_flight`.
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
                    // SAFETY: the caller's duty.
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
        // SAFETY: the caller's duty.
        unsafe { self.one_call(remote, &list, write, in_flight) }
    }

    /// # Safety
    /// As `each_call`.
    unsafe fn one_call(
        &self,
        remote: &Remote,
        list: &[Iov],
        write: bool,
        in_flight: Option<&mut Vec<InFlight>>,
    ) -> Result<(), Error> {
        // SAFETY: the caller's duty.
        let token = unsafe { self.transfer(remote, list, write, in_flight.is_some())? };
        if let Some(in_flight) = in_flight {
            in_flight.push(InFlight::Token(token, remote.peer));
        }
        Ok(())
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

fn fits(layout: &Layout<'_>, len: usize) -> Result<(), Error> {
    if layout.extent().is_some_and(|extent| extent <= len) {
        return Ok(());
    }
    let why = format!("a buffer of {len} bytes does not hold {layout:?}");
    Err(ErrorKind::Arguments(why).into())
}

fn not_null(buf: *const u8, layout: &Layout<'_>) -> Result<(), Error> {
    match layout.bytes() {
        Some(len) if len > 0 && buf.is_null() => Err(ErrorKind::NullBuffer { len }.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(layout: &Layout<'_>) -> Vec<usize> {
        let mut all = Vec::new();
        let mut i = 0;
        while let Some((at, len)) = layout.block(i) {
            all.extend(at..at + len);
            i += 1;
        }
        all
    }

    proptest! {
        /// Byte by byte in the order of both layouts.
        #[test]
        fn pieces_pair_bytes(
            list in prop::collection::vec((0_usize..1000, 0_usize..20), 0..12),
            len in 1_usize..9, gap in 0_usize..9,
        ) {
            let here = Layout::List(&list);
            let bytes = here.bytes().unwrap();
            let count = bytes / len;
            let rest = bytes - count * len;
            let mut there: Vec<(usize, usize)> = (0..count).map(|i| (i * (len + gap), len)).collect();
            there.push((5000, rest));
            let there = Layout::List(&there);
            let mut got = (Vec::new(), Vec::new());
            for (h, t, n) in Pieces::new(&here, &there) {
                prop_assert!(n > 0);
                got.0.extend(h..h + n);
                got.1.extend(t..t + n);
            }
            prop_assert_eq!(got, (offsets(&here), offsets(&there)));
            let vector = Layout::Vector { count, len, stride: len + gap };
            let end = offsets(&vector).iter().max().map_or(0, |m| m + 1);
            prop_assert_eq!(vector.extent(), Some(end));
            prop_assert_eq!(vector.bytes(), Some(count * len));
        }
    }

    #[test]
    fn numbers_too_large() {
        let vector = Layout::Vector { count: usize::MAX, len: 2, stride: 1 };
        assert_eq!((vector.bytes(), vector.extent()), (None, None));
        let list = Layout::List(&[(usize::MAX, 2)]);
        assert_eq!((list.bytes(), list.extent()), (Some(2), None));
    }
}
