//! Messages that are not contiguous at this end: what a layout takes of memory.
//! The other end has a layout of its own, or none.
//!
//! One that is a single block goes as any other. Of others a short one is packed
//! into its packet, and a long one copied or packed as [`rendezvous`] decides.
//!
//! [`rendezvous`]: super::rendezvous

use super::calls::{Message, Tagged};
use super::completion_queue::Started;
use super::request::Request;
use crate::datatype::Layout;
use crate::msg::error::MsgError;
use crate::msg::types::{
    Envelope, LaidOut, MatchSpec, Outgoing, RecvBuffer, SendMode, Sent, Status, one_block,
};
use crate::netmod::Netmod;
use std::num::NonZeroU64;

/// Refuses memory that does not hold a layout.
fn check(layout: &Layout, len: usize, origin: usize) -> Result<(), MsgError> {
    layout.check(len, origin).map_err(MsgError::Layout)
}

/// Where a receive with a layout puts its message, and the layout unless that is
/// one block.
fn into<'a>(
    origin: *mut u8,
    laid: LaidOut<'a>,
    borrowed: bool,
) -> (RecvBuffer, Option<LaidOut<'a>>) {
    match one_block(laid.layout) {
        None => (RecvBuffer { start: origin, capacity: 0, borrowed }, Some(laid)),
        Some(offset) => {
            let start = origin.wrapping_offset(offset as isize);
            let capacity = laid.layout.size() as usize;
            (RecvBuffer { start, capacity, borrowed }, None)
        }
    }
}

impl<N: Netmod> Tagged<N> {
    /// [`Tagged::send`] of what `layout` takes of `memory`, its origin `origin`
    /// bytes from the start.
    ///
    /// # Errors
    /// [`MsgError::Layout`] for a layout that takes bytes outside of `memory`; as
    /// [`Tagged::send`].
    pub fn send_layout(
        &self,
        to: Envelope,
        memory: &[u8],
        origin: usize,
        layout: &Layout,
    ) -> Result<(), MsgError> {
        self.send_layout_mode(to, memory, (origin, layout), false)
    }

    /// [`Tagged::ssend`] of what a layout takes, as [`Tagged::send_layout`].
    ///
    /// # Errors
    /// As [`Tagged::send_layout`].
    pub fn ssend_layout(
        &self,
        to: Envelope,
        memory: &[u8],
        origin: usize,
        layout: &Layout,
    ) -> Result<(), MsgError> {
        self.send_layout_mode(to, memory, (origin, layout), true)
    }

    fn send_layout_mode(
        &self,
        to: Envelope,
        memory: &[u8],
        (origin, layout): (usize, &Layout),
        synchronous: bool,
    ) -> Result<(), MsgError> {
        // SAFETY: the memory is borrowed until the request is done or given up,
        // below.
        match unsafe { self.begin_send_layout(to, memory, (origin, layout), synchronous)? } {
            None => Ok(()),
            Some(at) => self.complete(at).map(drop),
        }
    }

    /// Begins a send out of borrowed memory, which is the caller's again when the
    /// request was completed or abandoned; `None` if it is already.
    ///
    /// # Safety
    /// \[BUF\]: `memory` is readable until then.
    pub(in crate::msg) unsafe fn begin_send_layout(
        &self,
        to: Envelope,
        memory: &[u8],
        (origin, layout): (usize, &Layout),
        synchronous: bool,
    ) -> Result<Option<u32>, MsgError> {
        check(layout, memory.len(), origin)?;
        self.refuse_nested()?;
        let mode = SendMode { synchronous, borrowed: true };
        let start = memory.as_ptr().wrapping_add(origin);
        // SAFETY: [BUF], and the memory holds the layout.
        let sent = unsafe { self.start_laid_out(to, start, LaidOut::typed(layout), mode)? };
        Ok(match sent {
            Sent::Done => None,
            Sent::Pending(at) => Some(at),
        })
    }

    /// # Safety
    /// \[BUF\]: what the layout takes from `origin` is readable until the request
    /// is done.
    unsafe fn start_laid_out(
        &self,
        to: Envelope,
        origin: *const u8,
        laid: LaidOut<'_>,
        mode: SendMode,
    ) -> Result<Sent, MsgError> {
        let len = laid.layout.size() as usize;
        let Some(offset) = one_block(laid.layout) else {
            let message = Outgoing { to, buf: origin, len, mode };
            // SAFETY: [BUF].
            return unsafe { self.protocol().send_laid_out(self.context(), &message, laid) };
        };
        let message = Outgoing { to, buf: origin.wrapping_offset(offset as isize), len, mode };
        // SAFETY: [BUF]: the one block.
        unsafe { self.protocol().send(self.context(), message) }
    }

    /// [`Tagged::recv`] into what `layout` takes of `memory`, its origin `origin`
    /// bytes from the start; nothing between is written to.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use rankway::datatype::{Basic, Layout};
    /// use rankway::msg::{Envelope, MatchSpec, Tagged};
    ///
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// let tagged = Tagged::open(&context)?;
    /// // The second column of a matrix of 3 rows and 4 columns.
    /// let column = Layout::vector(3, 1, 4, &Layout::basic(Basic::U8))?;
    /// let matrix: Vec<u8> = (0..12).collect();
    /// tagged.send_layout(Envelope { peer: 0, channel: 5, bits: 1 }, &matrix, 1, &column)?;
    /// let spec = MatchSpec { channel: 5, bits: 1, ignore: 0, from: Some(0) };
    /// let mut other = [0; 12];
    /// assert_eq!(tagged.recv_layout(&spec, &mut other, 0, &column)?.length, 3);
    /// assert_eq!(other, [1, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`MsgError::Layout`] for a layout that takes bytes outside of `memory`,
    /// [`MsgError::Types`]; as [`Tagged::recv`].
    pub fn recv_layout(
        &self,
        spec: &MatchSpec,
        memory: &mut [u8],
        origin: usize,
        layout: &Layout,
    ) -> Result<Status, MsgError> {
        // SAFETY: the memory is borrowed until the request is done or given up,
        // below.
        let at = unsafe { self.begin_recv_layout(spec, memory, (origin, layout))? };
        self.complete(at)
    }

    /// Begins a receive into borrowed memory, which is the caller's again when the
    /// request was completed or abandoned.
    ///
    /// # Safety
    /// \[INTO\]: the memory is writable, and not touched, until then.
    pub(in crate::msg) unsafe fn begin_recv_layout(
        &self,
        spec: &MatchSpec,
        memory: &mut [u8],
        (origin, layout): (usize, &Layout),
    ) -> Result<u32, MsgError> {
        check(layout, memory.len(), origin)?;
        self.refuse_nested()?;
        let start = memory.as_mut_ptr().wrapping_add(origin);
        let (buffer, laid) = into(start, LaidOut::typed(layout), true);
        // SAFETY: [INTO], and the memory holds the layout.
        unsafe { self.protocol().receive_laid_out(self.context(), spec, buffer, laid) }
    }

    /// [`Tagged::isend`] of what a layout takes from `origin`.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\]: the bytes of the layout are readable and not written to until the
    /// request is complete, also when it is dropped before.
    pub unsafe fn isend_layout(
        &self,
        to: Envelope,
        origin: *const u8,
        layout: &Layout,
    ) -> Result<Request<N>, MsgError> {
        // SAFETY: [BUF].
        unsafe { self.isend_layout_mode(to, origin, layout, false) }
    }

    /// [`Tagged::issend`] of what a layout takes from `origin`.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend_layout`].
    pub unsafe fn issend_layout(
        &self,
        to: Envelope,
        origin: *const u8,
        layout: &Layout,
    ) -> Result<Request<N>, MsgError> {
        // SAFETY: [BUF].
        unsafe { self.isend_layout_mode(to, origin, layout, true) }
    }

    /// # Safety
    /// \[BUF\], as [`Tagged::isend_layout`].
    unsafe fn isend_layout_mode(
        &self,
        to: Envelope,
        origin: *const u8,
        layout: &Layout,
        synchronous: bool,
    ) -> Result<Request<N>, MsgError> {
        let mode = SendMode { synchronous, borrowed: false };
        // SAFETY: [BUF].
        let sent = unsafe { self.start_laid_out(to, origin, LaidOut::typed(layout), mode)? };
        Ok(match sent {
            Sent::Done => Request::done(self, to.sent(layout.size())),
            Sent::Pending(at) => Request::under_way(self, at),
        })
    }

    /// [`Tagged::irecv`] into what a layout takes from `origin`.
    ///
    /// # Errors
    /// As [`Tagged::irecv`], and of the request as [`Tagged::recv_layout`].
    ///
    /// # Safety
    /// \[INTO\]: the bytes of the layout are writable and not touched until the
    /// request is complete, also when it is dropped before with its message on the
    /// way.
    pub unsafe fn irecv_layout(
        &self,
        spec: &MatchSpec,
        origin: *mut u8,
        layout: &Layout,
    ) -> Result<Request<N>, MsgError> {
        let (buffer, laid) = into(origin, LaidOut::typed(layout), false);
        // SAFETY: [INTO].
        let at = unsafe { self.protocol().receive_laid_out(self.context(), spec, buffer, laid)? };
        Ok(Request::under_way(self, at))
    }

    /// [`Tagged::start_send`] of what a layout takes from `origin`. Its types are not
    /// told: the caller compares them, or need not.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend_layout`]; the bytes are in use until the
    /// completion.
    pub unsafe fn start_send_layout(
        &self,
        to: Envelope,
        origin: *const u8,
        layout: &Layout,
        synchronous: bool,
        cookie: NonZeroU64,
    ) -> Result<Started, MsgError> {
        let mode = SendMode { synchronous, borrowed: false };
        // SAFETY: [BUF], until the completion.
        let sent = unsafe { self.start_laid_out(to, origin, LaidOut::untyped(layout), mode)? };
        Ok(match sent {
            Sent::Done => Started::Done(Ok(to.sent(layout.size()))),
            Sent::Pending(at) => self.started(at, cookie),
        })
    }

    /// [`Tagged::start_recv`] into what a layout takes from `origin`; types as
    /// [`Tagged::start_send_layout`].
    ///
    /// # Errors
    /// As [`Tagged::start_recv`].
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::irecv_layout`], until the completion.
    pub unsafe fn start_recv_layout(
        &self,
        spec: &MatchSpec,
        origin: *mut u8,
        layout: &Layout,
        cookie: NonZeroU64,
    ) -> Result<Started, MsgError> {
        let (buffer, laid) = into(origin, LaidOut::untyped(layout), false);
        // SAFETY: [INTO], until the completion.
        let at = unsafe { self.protocol().receive_laid_out(self.context(), spec, buffer, laid)? };
        Ok(self.started(at, cookie))
    }
}

impl<N: Netmod> Message<N> {
    /// [`Message::recv`] into what a layout takes of `memory`, as
    /// [`Tagged::recv_layout`].
    ///
    /// # Errors
    /// As [`Tagged::recv_layout`]; of memory that does not hold the layout before
    /// the message is taken, which is lost then.
    pub fn recv_layout(
        self,
        memory: &mut [u8],
        origin: usize,
        layout: &Layout,
    ) -> Result<Status, MsgError> {
        self.receiving(|message| {
            check(layout, memory.len(), origin)?;
            let tagged = message.tagged().clone();
            tagged.refuse_nested()?;
            let start = memory.as_mut_ptr().wrapping_add(origin);
            let (buffer, laid) = into(start, LaidOut::typed(layout), true);
            // SAFETY: the memory holds the layout, and is borrowed until the request is
            // done or given up, below.
            let at = unsafe { message.begin(buffer, laid) };
            tagged.complete(at)
        })
    }

    /// [`Message::irecv`] into what a layout takes from `origin`.
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::irecv_layout`].
    pub unsafe fn irecv_layout(self, origin: *mut u8, layout: &Layout) -> Request<N> {
        self.posting(|message| {
            let tagged = message.tagged().clone();
            let (buffer, laid) = into(origin, LaidOut::typed(layout), false);
            // SAFETY: [INTO].
            let at = unsafe { message.begin(buffer, laid) };
            Request::under_way(&tagged, at)
        })
    }

    /// [`Message::start_recv`] into what a layout takes from `origin`; types as
    /// [`Tagged::start_send_layout`].
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::start_recv_layout`].
    pub unsafe fn start_recv_layout(
        self,
        origin: *mut u8,
        layout: &Layout,
        cookie: NonZeroU64,
    ) -> Started {
        let tagged = self.tagged().clone();
        let (buffer, laid) = into(origin, LaidOut::untyped(layout), false);
        // SAFETY: [INTO], until the completion.
        let at = unsafe { self.begin(buffer, laid) };
        tagged.started(at, cookie)
    }
}
