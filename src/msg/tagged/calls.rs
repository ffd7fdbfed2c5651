//! Tagged messages by world rank and match bits, for device layers that lay
//! the bits out themselves.

use super::state::{Matched, TaggedProtocol};
use crate::device::trace::Recorded;
use crate::device::{Context, DeviceError, Progress};
use crate::msg::error::MsgError;
use crate::msg::types::{
    Counts, Envelope, LaidOut, MatchSpec, Outgoing, RecvBuffer, SendMode, Sent, Status,
};
use crate::netmod::Netmod;
use crate::track::{Kind, Recorder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// The tagged messages of a context.
///
/// A message goes to a world rank on a channel, with 64 match bits; a receive
/// names a channel, bits, and which of them to ignore. Messages of one context
/// to one peer are matched in the order they were sent. Calls make progress
/// only where they wait.
///
/// ```
/// # use std::sync::Arc;
/// use rankway::msg::{Envelope, MatchSpec, Tagged};
///
/// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
/// # let context = rankway::device::open_null(boot)?;
/// let tagged = Tagged::open(&context)?;
/// tagged.send(Envelope { peer: 0, channel: 5, bits: 0x70_01 }, &[1, 2])?;
/// // The lower byte need not agree.
/// let spec = MatchSpec { channel: 5, bits: 0x70_00, ignore: 0xff, from: Some(0) };
/// let mut found = [0; 2];
/// let status = tagged.recv(&spec, &mut found)?;
/// assert_eq!((status.bits, found), (0x70_01, [1, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Deaths
/// Receives from a peer that died fail, with an error that names it, once what
/// it sent before has had time to come in; so do sends to it. Receives from anybody go on for a
/// second: then those that wait, else the next that would, are told of the death, once on each
/// channel on which the dead one sent ([`Context::set_senders`]; a communicator's is known). They
/// fail at once when nobody is left that sends.
pub struct Tagged<N: Netmod> {
    context: Rc<Context<N>>,
    protocol: Rc<TaggedProtocol>,
}

impl<N: Netmod> Clone for Tagged<N> {
    fn clone(&self) -> Self {
        Tagged { context: Rc::clone(&self.context), protocol: Rc::clone(&self.protocol) }
    }
}

impl<N: Netmod> std::fmt::Debug for Tagged<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tagged").field("context", &self.context).finish_non_exhaustive()
    }
}

impl<N: Netmod> Tagged<N> {
    /// Those of a context; all callers share them.
    ///
    /// # Errors
    /// When the system refuses address space for the table of peers.
    pub fn open(context: &Rc<Context<N>>) -> Result<Tagged<N>, MsgError> {
        Ok(Tagged { protocol: TaggedProtocol::of(context)?, context: Rc::clone(context) })
    }

    /// The context.
    pub fn context(&self) -> &Rc<Context<N>> {
        &self.context
    }

    pub(super) fn protocol(&self) -> &TaggedProtocol {
        &self.protocol
    }

    /// What waits on the context.
    pub fn counts(&self) -> Counts {
        Counts { queued_packets: self.context.queued_packets(), ..self.protocol.counts() }
    }

    /// Makes these match bits marks, which no receive and no probe of the context looks at
    /// from now on: a message carries them to its status. For a device layer that lays out all
    /// bits, before the context's first message.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rankway::msg::{Envelope, MatchSpec, Tagged};
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// let tagged = Tagged::open(&context)?;
    /// tagged.set_marks(1 << 63);
    /// tagged.send(Envelope { peer: 0, channel: 5, bits: 7 | 1 << 63 }, &[])?;
    /// let spec = MatchSpec { channel: 5, bits: 7, ignore: 0, from: Some(0) };
    /// assert_eq!(tagged.recv(&spec, &mut [])?.bits, 7 | 1 << 63);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_marks(&self, marks: u64) {
        self.protocol.set_marks(marks);
    }

    /// Sends messages longer than `bytes` by rendezvous, also where a packet
    /// would hold them. For peers nothing was sent to yet.
    pub fn limit_eager(&self, bytes: usize) {
        self.protocol.flows.limit_whole(bytes);
    }

    /// Sends and waits until the buffer is free: at once for a short message
    /// whose peer has credit, else until it is received.
    ///
    /// # Errors
    /// [`MsgError::Device`], naming a peer that died or cannot be reached.
    #[inline]
    pub fn send(&self, to: Envelope, buf: &[u8]) -> Result<(), MsgError> {
        self.send_mode(to, buf, false)
    }

    /// Sends and waits until a receive took the message.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    pub fn ssend(&self, to: Envelope, buf: &[u8]) -> Result<(), MsgError> {
        self.send_mode(to, buf, true)
    }

    #[inline]
    fn send_mode(&self, to: Envelope, buf: &[u8], synchronous: bool) -> Result<(), MsgError> {
        // SAFETY: the buffer is borrowed until the request is done or given up,
        // below.
        match unsafe { self.begin_send(to, buf, synchronous)? } {
            None => Ok(()),
            Some(at) => self.complete(at).map(drop),
        }
    }

    /// Begins a send of a borrowed buffer, which is the caller's again when the
    /// request was completed or abandoned; `None` if it is already.
    ///
    /// # Safety
    /// \[BUF\]: `buf` is readable until then.
    #[inline]
    pub(in crate::msg) unsafe fn begin_send(
        &self,
        to: Envelope,
        buf: &[u8],
        synchronous: bool,
    ) -> Result<Option<u32>, MsgError> {
        self.refuse_nested()?;
        let mode = SendMode { synchronous, borrowed: true };
        let message = Outgoing { to, buf: buf.as_ptr(), len: buf.len(), mode };
        // SAFETY: [BUF], until the request was completed or abandoned.
        let sent = unsafe { self.protocol.send(&self.context, message)? };
        Ok(match sent {
            Sent::Done => None,
            Sent::Pending(at) => Some(at),
        })
    }

    /// Receives and waits.
    ///
    /// # Errors
    /// [`MsgError::Truncated`], [`MsgError::Device`], [`MsgError::NobodyLeft`].
    pub fn recv(&self, spec: &MatchSpec, buf: &mut [u8]) -> Result<Status, MsgError> {
        // SAFETY: the buffer is borrowed until the request is done or given up,
        // below.
        let at =
            unsafe { self.begin_recv(spec, RecvBuffer::borrowed(buf.as_mut_ptr(), buf.len()))? };
        self.complete(at)
    }

    /// Begins a receive into a borrowed buffer, which is the caller's again
    /// when the request was completed or abandoned.
    ///
    /// # Safety
    /// \[INTO\]: the buffer is writable, and not touched, until then.
    pub(in crate::msg) unsafe fn begin_recv(
        &self,
        spec: &MatchSpec,
        buffer: RecvBuffer,
    ) -> Result<u32, MsgError> {
        self.refuse_nested()?;
        // SAFETY: [INTO], until the request was completed or abandoned.
        unsafe { self.protocol.receive(&self.context, spec, buffer) }
    }

    /// Takes back a receive that has no message yet, or a send to this process
    /// itself that no receive took: nobody else can end them.
    pub(in crate::msg) fn take_back(&self, at: u32) {
        self.protocol.take_back(at);
    }

    /// The first message that fits, if one came in. Makes progress once.
    ///
    /// # Errors
    /// [`MsgError::Device`] for a sender that is dead and has left none.
    pub fn iprobe(&self, spec: &MatchSpec) -> Result<Option<Status>, MsgError> {
        self.context.progress_and_check()?;
        let found = self.protocol.peek(spec);
        if found.is_none() {
            self.protocol.check_probe(&self.context, spec)?;
        }
        Ok(found)
    }

    /// Waits for a message that fits.
    ///
    /// # Errors
    /// As [`Tagged::iprobe`].
    pub fn probe(&self, spec: &MatchSpec) -> Result<Status, MsgError> {
        self.probe_with(spec, || self.protocol.peek(spec))
    }

    /// Takes the first message that fits, if one came in, so that no other
    /// receive or probe finds it. Makes progress once.
    ///
    /// # Errors
    /// As [`Tagged::iprobe`].
    pub fn improbe(&self, spec: &MatchSpec) -> Result<Option<Message<N>>, MsgError> {
        self.context.progress_and_check()?;
        let found = self.protocol.take(spec);
        if found.is_none() {
            self.protocol.check_probe(&self.context, spec)?;
        }
        Ok(found.map(|matched| Message { tagged: self.clone(), matched: Some(matched), number: 0 }))
    }

    /// Waits for a message that fits and takes it.
    ///
    /// # Errors
    /// As [`Tagged::iprobe`].
    pub fn mprobe(&self, spec: &MatchSpec) -> Result<Message<N>, MsgError> {
        let matched = self.probe_with(spec, || self.protocol.take(spec))?;
        Ok(Message { tagged: self.clone(), matched: Some(matched), number: 0 })
    }

    fn probe_with<T>(
        &self,
        spec: &MatchSpec,
        mut find: impl FnMut() -> Option<T>,
    ) -> Result<T, MsgError> {
        let mut found = find();
        let mut error = None;
        if found.is_none() {
            self.context.wait_packets(spec.from, || {
                found = find();
                if found.is_none() {
                    error = self.protocol.check_probe(&self.context, spec).err();
                }
                let over = found.is_some() || error.is_some();
                Ok(if over { Progress::Done } else { Progress::Waiting })
            })?;
        }
        found.map_or_else(|| Err(error.unwrap_or(MsgError::NobodyLeft { others: 0 })), Ok)
    }

    /// Refuses what may wait within a handler, before a buffer is in use.
    #[inline]
    pub(super) fn refuse_nested(&self) -> Result<(), MsgError> {
        if self.context.is_progressing() {
            return Err(DeviceError::Nested.into());
        }
        Ok(())
    }

    /// Waits for a request and takes its result. It is over too when the wait
    /// fails or ends in a handler's panic.
    #[inline]
    pub(in crate::msg) fn complete(&self, at: u32) -> Result<Status, MsgError> {
        if !self.protocol.is_done(at) {
            self.wait_for(at)?;
        }
        self.protocol.collect(at)
    }

    fn wait_for(&self, at: u32) -> Result<(), MsgError> {
        match catch_unwind(AssertUnwindSafe(|| self.wait_until_done(at))) {
            Ok(waited) => waited,
            Err(panic) => self.end_before(at, panic),
        }
    }

    fn wait_until_done(&self, at: u32) -> Result<(), MsgError> {
        let done = || {
            let done = self.protocol.is_done(at);
            Ok(if done { Progress::Done } else { Progress::Waiting })
        };
        let waited = self.context.wait_packets(self.protocol.awaits(at), done);
        if waited.is_err() {
            self.abandon(at);
        }
        Ok(waited?)
    }

    /// A handler panicked in the wait for a request. Its buffer may go with the
    /// stack, so the request ends before the panic goes on: a receive without a
    /// message is taken back, all else is waited for.
    #[cold]
    fn end_before(&self, at: u32, panic: Box<dyn Any + Send>) -> ! {
        self.protocol.take_back(at);
        loop {
            // Of several panics the first goes on.
            match catch_unwind(AssertUnwindSafe(|| self.wait_until_done(at))) {
                Ok(Ok(())) => break drop(self.protocol.collect(at)),
                Ok(Err(_)) => break,
                Err(_) => {}
            }
        }
        resume_unwind(panic)
    }

    /// Gives up a request whose wait has failed, as it does when a provider's
    /// queue breaks: a borrowed buffer is the caller's again.
    #[cold]
    pub(in crate::msg) fn abandon(&self, at: u32) {
        self.protocol.abandon(&self.context, at);
    }
}

/// A message of a matched probe. One that is dropped is lost, as if it
/// had been received and thrown away.
pub struct Message<N: Netmod> {
    tagged: Tagged<N>,
    matched: Option<Matched>,
    /// The number of its communicator, if its receive is recorded.
    number: u32,
}

impl<N: Netmod> std::fmt::Debug for Message<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Message").field(&self.status()).finish()
    }
}

impl<N: Netmod> Message<N> {
    pub(super) fn tagged(&self) -> &Tagged<N> {
        &self.tagged
    }

    /// Whose it is, and its length.
    pub fn status(&self) -> Status {
        let of = |Matched { bits, message, .. }: &Matched| (message.peer, *bits, message.length);
        let (peer, bits, length) = self.matched.as_ref().map_or((0, 0, 0), of);
        Status { peer, bits, length, cancelled: false }
    }

    /// With its receive recorded there.
    pub(in crate::msg) fn recorded(self, recorded: Option<&Recorded>) -> Message<N> {
        let mut message = self;
        message.number = recorded.map_or(0, Recorded::number);
        message
    }

    /// The number of its communicator, if its receive is recorded.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Receives it, and records that if it is to be.
    pub(super) fn receiving(
        self,
        receive: impl FnOnce(Message<N>) -> Result<Status, MsgError>,
    ) -> Result<Status, MsgError> {
        if self.number == 0 {
            return receive(self);
        }
        let (number, tagged, start) = (self.number, self.tagged.clone(), Recorder::now());
        let asked = self.status().recorded(Kind::Mrecv);
        let result = receive(self);
        if let Some(trace) = tagged.context().device().trace() {
            let call = result.as_ref().map_or(asked, |status| status.recorded(Kind::Mrecv));
            trace.record(number, call, start, result.is_ok());
        }
        result
    }

    /// Receives it and waits until it is here.
    ///
    /// # Errors
    /// As [`Tagged::recv`].
    pub fn recv(self, buf: &mut [u8]) -> Result<Status, MsgError> {
        self.receiving(|message| {
            message.tagged.refuse_nested()?;
            let tagged = message.tagged.clone();
            let buffer = RecvBuffer::borrowed(buf.as_mut_ptr(), buf.len());
            // SAFETY: the buffer is borrowed until the request is done or given up,
            // below.
            let at = unsafe { message.begin(buffer, None) };
            tagged.complete(at)
        })
    }

    /// # Safety
    /// \[INTO\], as [`Tagged::irecv`].
    pub(super) unsafe fn begin(mut self, buffer: RecvBuffer, laid: Option<LaidOut<'_>>) -> u32 {
        let matched = self.matched.take();
        let Tagged { context, protocol } = &self.tagged;
        // SAFETY: [INTO].
        unsafe { protocol.receive_matched(context, matched, buffer, laid) }
    }
}

impl<N: Netmod> Drop for Message<N> {
    fn drop(&mut self) {
        if let Some(matched) = self.matched.take() {
            self.tagged.protocol.discard(&self.tagged.context, matched);
        }
    }
}
