//! Messages that a messenger does not send or receive inline: those of communicators whose
//! calls are recorded, in whose map it finds no rank, and those to processes of groups that
//! were added to the job. What is inline pays nothing for them.

use super::error::MsgError;
use super::messenger::{Messenger, Source, Tag};
use super::tagged::Request;
use super::types::{Envelope, MatchSpec, Status};
use crate::device::trace::Call;
use crate::netmod::Netmod;
use crate::track::{Kind, NO_PEER, Recorder};

/// A source and a tag, as a receive asks for them.
type From = (Source, Tag);

/// What a receive or a probe is, as it asks; a negative tag stands for any.
fn asked(kind: Kind, (source, tag): From) -> Call {
    let call = Call { peer: source.0.unwrap_or(NO_PEER), ..Call::new(kind) };
    tag.0.map_or(Call { tag: -1, ..call }, |tag| call.tagged(tag))
}

impl<N: Netmod> Messenger<'_, N> {
    /// Makes a call, and records it where calls are.
    fn recorded<T>(
        &self,
        what: Call,
        call: impl FnOnce() -> Result<T, MsgError>,
    ) -> Result<T, MsgError> {
        match self.communicator().recorded() {
            Some(recorded) => recorded.call(what, call),
            None => call(),
        }
    }

    /// A blocking send.
    #[cold]
    #[inline(never)]
    pub(super) fn send_elsewhere(
        &self,
        kind: Kind,
        buf: &[u8],
        (dest, tag): (u32, u32),
    ) -> Result<(), MsgError> {
        let envelope = self.envelope_elsewhere(dest, tag)?;
        self.recorded(Call::with(kind, dest, buf.len()).tagged(tag), || match kind {
            Kind::Ssend => self.tagged().ssend(envelope, buf),
            _ => self.tagged().send(envelope, buf),
        })
    }

    /// The begin of a send.
    ///
    /// # Safety
    /// \[BUF\], as [`Messenger::isend`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn isend_elsewhere(
        &self,
        kind: Kind,
        (buf, len): (*const u8, usize),
        (dest, tag): (u32, u32),
    ) -> Result<Request<N>, MsgError> {
        let envelope = self.envelope_elsewhere(dest, tag)?;
        // SAFETY: [BUF].
        let isend = || unsafe {
            match kind {
                Kind::Issend => self.tagged().issend(envelope, buf, len),
                _ => self.tagged().isend(envelope, buf, len),
            }
        };
        let request = self.recorded(Call::with(kind, dest, len).tagged(tag), isend);
        request.map(|request| self.requested(request, true))
    }

    /// The begin of a receive.
    ///
    /// # Safety
    /// \[INTO\], as [`Messenger::irecv`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn irecv_elsewhere(
        &self,
        buf: *mut u8,
        capacity: usize,
        from: From,
    ) -> Result<Request<N>, MsgError> {
        let request = self.posting(from, |spec| {
            // SAFETY: [INTO].
            unsafe { self.tagged().irecv(spec, buf, capacity) }
        });
        request.map(|request| self.requested(request, false))
    }

    /// The begin of a send of a scope.
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::begin_send`](super::Tagged).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn begin_elsewhere(
        &self,
        buf: &[u8],
        (dest, tag): (u32, u32),
        synchronous: bool,
    ) -> Result<Option<u32>, MsgError> {
        let envelope = self.envelope_elsewhere(dest, tag)?;
        let kind = if synchronous { Kind::Issend } else { Kind::Isend };
        // SAFETY: [BUF].
        let begin = || unsafe { self.tagged().begin_send(envelope, buf, synchronous) };
        self.recorded(Call::with(kind, dest, buf.len()).tagged(tag), begin)
    }

    /// A send of so many bytes, recorded where calls are.
    pub(super) fn sending<T>(
        &self,
        kind: Kind,
        bytes: u64,
        (dest, tag): (u32, u32),
        send: impl FnOnce(Envelope) -> Result<T, MsgError>,
    ) -> Result<T, MsgError> {
        if let Some(envelope) = self.envelope(dest, tag) {
            return send(envelope);
        }
        let envelope = self.envelope_elsewhere(dest, tag)?;
        let call = Call { peer: dest, bytes, ..Call::new(kind) };
        self.recorded(call.tagged(tag), || send(envelope))
    }

    /// The begin of a send of so many bytes, recorded where calls are.
    pub(super) fn beginning(
        &self,
        kind: Kind,
        bytes: u64,
        to: (u32, u32),
        begin: impl FnOnce(Envelope) -> Result<Request<N>, MsgError>,
    ) -> Result<Request<N>, MsgError> {
        self.sending(kind, bytes, to, begin).map(|request| self.requested(request, true))
    }

    /// A receive or a probe of which all know the message, recorded where calls are.
    #[inline]
    pub(super) fn receiving(
        &self,
        kind: Kind,
        from: From,
        receive: impl FnOnce(&MatchSpec) -> Result<Status, MsgError>,
    ) -> Result<Status, MsgError> {
        self.looking(kind, from, |status| Some(*status), receive)
    }

    /// A look for a message, recorded where calls are if there is one.
    #[inline]
    pub(super) fn looking<T>(
        &self,
        kind: Kind,
        from: From,
        found: impl FnOnce(&T) -> Option<Status>,
        look: impl FnOnce(&MatchSpec) -> Result<T, MsgError>,
    ) -> Result<T, MsgError> {
        if let Some(spec) = self.match_spec(from.0, from.1) {
            return look(&spec);
        }
        let spec = self.match_spec_elsewhere(from.0, from.1)?;
        let Some(recorded) = self.communicator().recorded() else { return look(&spec) };
        let start = Recorder::now();
        let result = look(&spec);
        match &result {
            Err(_) => recorded.ended(asked(kind, from), start, false),
            Ok(value) => {
                if let Some(status) = found(value) {
                    recorded.ended(status.recorded(kind), start, true);
                }
            }
        }
        result
    }

    /// The begin of a receive, recorded where calls are.
    #[inline]
    pub(super) fn posting<T>(
        &self,
        from: From,
        post: impl FnOnce(&MatchSpec) -> Result<T, MsgError>,
    ) -> Result<T, MsgError> {
        if let Some(spec) = self.match_spec(from.0, from.1) {
            return post(&spec);
        }
        let spec = self.match_spec_elsewhere(from.0, from.1)?;
        self.recorded(asked(Kind::Irecv, from), || post(&spec))
    }

    /// A request of this communicator, whose end is recorded where calls are; of a send, or
    /// of a receive.
    #[inline]
    pub(super) fn requested(&self, request: Request<N>, is_send: bool) -> Request<N> {
        match self.communicator().recorded() {
            Some(recorded) => request.recorded((!is_send).then(|| recorded.number())),
            None => request,
        }
    }
}
