//! Messages of a communicator: by rank and tag.

use super::error::MsgError;
use super::tagged::{Message, Request, Tagged};
use super::types::{Counts, Envelope, MatchSpec, Status};
use crate::datatype::Layout;
use crate::netmod::Netmod;
use crate::rankmap::RankMap;
use crate::rma::{Communicator, Pod, bytes_of, bytes_of_mut};
use crate::track::Kind;

/// Stands for any source or any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// Whom a receive takes messages from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub(super) Option<u32>);

/// Which tags a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub(super) Option<u32>);

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source(Some(rank))
    }
}

impl From<Any> for Source {
    fn from(_: Any) -> Source {
        Source(None)
    }
}

impl From<u32> for Tag {
    fn from(tag: u32) -> Tag {
        Tag(Some(tag))
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Tag {
        Tag(None)
    }
}

/// The match bits of ignored sources and tags.
const SOURCES: u64 = (u32::MAX as u64) << 32;
const TAGS: u64 = u32::MAX as u64;

/// The tagged messages of a communicator. Its id is their channel, the match
/// bits are the sender's rank, then the tag.
pub struct Messenger<'c, N: Netmod> {
    communicator: &'c Communicator<N>,
    tagged: Tagged<N>,
    /// In which ranks are found: empty where calls are recorded, so that they go by
    /// `elsewhere`.
    map: &'c RankMap,
    me: u64,
    channel: u64,
}

impl<N: Netmod> std::fmt::Debug for Messenger<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messenger")
            .field("communicator", &self.communicator)
            .finish_non_exhaustive()
    }
}

impl<'c, N: Netmod> Messenger<'c, N> {
    /// The messages of a communicator. Not collective: messages that came
    /// before are kept.
    ///
    /// # Errors
    /// As [`Tagged::open`].
    pub fn open(communicator: &'c Communicator<N>) -> Result<Messenger<'c, N>, MsgError> {
        Ok(Messenger {
            tagged: Tagged::open(communicator.context())?,
            me: u64::from(communicator.rank()) << 32,
            channel: communicator.id(),
            map: communicator.message_map(),
            communicator,
        })
    }

    /// The communicator.
    pub fn communicator(&self) -> &'c Communicator<N> {
        self.communicator
    }

    /// The context's messages, of all communicators.
    pub fn tagged(&self) -> &Tagged<N> {
        &self.tagged
    }

    /// What waits on the context.
    pub fn counts(&self) -> Counts {
        self.tagged.counts()
    }

    /// Of a message to a rank of the job's world; `None` for what is looked at by
    /// [`envelope_elsewhere`](Self::envelope_elsewhere).
    #[inline]
    pub(super) fn envelope(&self, dest: u32, tag: u32) -> Option<Envelope> {
        let process = self.map.get(dest)?;
        let bits = self.me | u64::from(tag);
        let envelope = Envelope { peer: process.lpid, channel: self.channel, bits };
        (process.pg == 0).then_some(envelope)
    }

    /// Of a message to any rank, wherever its process is, and whether calls are recorded or
    /// not.
    pub(super) fn envelope_elsewhere(&self, dest: u32, tag: u32) -> Result<Envelope, MsgError> {
        let bits = self.me | u64::from(tag);
        Ok(Envelope { peer: self.world_rank(dest)?, channel: self.channel, bits })
    }

    fn world_rank(&self, rank: u32) -> Result<u32, MsgError> {
        match self.communicator.map().get(rank) {
            Some(process) => Ok(self.communicator.device().world_rank(process)?),
            None => Err(MsgError::Rank { rank, size: self.communicator.size() }),
        }
    }

    /// As [`envelope`](Self::envelope), for a receive.
    #[inline]
    pub(super) fn match_spec(&self, source: Source, tag: Tag) -> Option<MatchSpec> {
        let from = match source.0 {
            Some(rank) => Some(self.map.get(rank).filter(|process| process.pg == 0)?.lpid),
            None if self.map.is_empty() => return None,
            None => None,
        };
        Some(self.match_spec_from(from, source, tag))
    }

    /// As [`envelope_elsewhere`](Self::envelope_elsewhere), for a receive.
    pub(super) fn match_spec_elsewhere(
        &self,
        source: Source,
        tag: Tag,
    ) -> Result<MatchSpec, MsgError> {
        let from = source.0.map(|rank| self.world_rank(rank)).transpose()?;
        Ok(self.match_spec_from(from, source, tag))
    }

    #[inline]
    fn match_spec_from(&self, from: Option<u32>, source: Source, tag: Tag) -> MatchSpec {
        let bits = u64::from(source.0.unwrap_or(0)) << 32 | u64::from(tag.0.unwrap_or(0));
        let sources = match source.0 {
            Some(_) => 0,
            None => {
                self.communicator.enroll();
                SOURCES
            }
        };
        let tags = if tag.0.is_none() { TAGS } else { 0 };
        MatchSpec { channel: self.channel, bits, ignore: sources | tags, from }
    }

    /// Sends and waits until the buffer is free.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::send`].
    #[inline]
    pub fn send(&self, buf: &[u8], dest: u32, tag: u32) -> Result<(), MsgError> {
        match self.envelope(dest, tag) {
            Some(to) => self.tagged.send(to, buf),
            None => self.send_elsewhere(Kind::Send, buf, (dest, tag)),
        }
    }

    /// Sends and waits until a receive took the message.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    pub fn ssend(&self, buf: &[u8], dest: u32, tag: u32) -> Result<(), MsgError> {
        match self.envelope(dest, tag) {
            Some(to) => self.tagged.ssend(to, buf),
            None => self.send_elsewhere(Kind::Ssend, buf, (dest, tag)),
        }
    }

    /// Sends elements and waits until their memory is free.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    #[inline]
    pub fn send_slice<T: Pod>(&self, elements: &[T], dest: u32, tag: u32) -> Result<(), MsgError> {
        self.send(bytes_of(elements), dest, tag)
    }

    /// Sends what `layout` takes of `memory`, its origin `origin` bytes from the
    /// start, and waits until the memory is free.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use rankway::datatype::{Basic, Layout};
    /// use rankway::msg::Messenger;
    ///
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// # let world = rankway::rma::Communicator::world(&context);
    /// let messages = Messenger::open(&world)?;
    /// // A row goes out, a column comes in.
    /// let row = Layout::contiguous(3, &Layout::basic(Basic::F64))?;
    /// let column = Layout::vector(3, 1, 3, &Layout::basic(Basic::F64))?;
    /// let (ours, mut theirs) = ([1.0, 2.0, 3.0], [0.0; 9]);
    /// messages.scope(|s| {
    ///     s.recv_layout(&mut theirs, 8, &column, 0, 7)?;
    ///     s.send_layout(&ours, 0, &row, 0, 7)
    /// })?;
    /// assert_eq!(theirs, [0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::send_layout`].
    pub fn send_layout<T: Pod>(
        &self,
        memory: &[T],
        origin: usize,
        layout: &Layout,
        dest: u32,
        tag: u32,
    ) -> Result<(), MsgError> {
        let (memory, bytes) = (bytes_of(memory), layout.size());
        let send = |to| self.tagged.send_layout(to, memory, origin, layout);
        self.sending(Kind::Send, bytes, (dest, tag), send)
    }

    /// [`Messenger::send_layout`] that waits until a receive took the message.
    ///
    /// # Errors
    /// As [`Messenger::send_layout`].
    pub fn ssend_layout<T: Pod>(
        &self,
        memory: &[T],
        origin: usize,
        layout: &Layout,
        dest: u32,
        tag: u32,
    ) -> Result<(), MsgError> {
        let (memory, bytes) = (bytes_of(memory), layout.size());
        let send = |to| self.tagged.ssend_layout(to, memory, origin, layout);
        self.sending(Kind::Ssend, bytes, (dest, tag), send)
    }

    /// Begins a send of what a layout takes from `origin`.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend_layout`].
    pub unsafe fn isend_layout(
        &self,
        origin: *const u8,
        layout: &Layout,
        dest: u32,
        tag: u32,
    ) -> Result<Request<N>, MsgError> {
        self.beginning(Kind::Isend, layout.size(), (dest, tag), |to| {
            // SAFETY: [BUF].
            unsafe { self.tagged.isend_layout(to, origin, layout) }
        })
    }

    /// The same, synchronous.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend_layout`].
    pub unsafe fn issend_layout(
        &self,
        origin: *const u8,
        layout: &Layout,
        dest: u32,
        tag: u32,
    ) -> Result<Request<N>, MsgError> {
        self.beginning(Kind::Issend, layout.size(), (dest, tag), |to| {
            // SAFETY: [BUF].
            unsafe { self.tagged.issend_layout(to, origin, layout) }
        })
    }

    /// Begins a send.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend`].
    #[inline]
    pub unsafe fn isend(
        &self,
        buf: *const u8,
        len: usize,
        dest: u32,
        tag: u32,
    ) -> Result<Request<N>, MsgError> {
        match self.envelope(dest, tag) {
            // SAFETY: [BUF].
            Some(to) => unsafe { self.tagged.isend(to, buf, len) },
            // SAFETY: [BUF].
            None => unsafe { self.isend_elsewhere(Kind::Isend, (buf, len), (dest, tag)) },
        }
    }

    /// Begins a synchronous send.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend`].
    pub unsafe fn issend(
        &self,
        buf: *const u8,
        len: usize,
        dest: u32,
        tag: u32,
    ) -> Result<Request<N>, MsgError> {
        match self.envelope(dest, tag) {
            // SAFETY: [BUF].
            Some(to) => unsafe { self.tagged.issend(to, buf, len) },
            // SAFETY: [BUF].
            None => unsafe { self.isend_elsewhere(Kind::Issend, (buf, len), (dest, tag)) },
        }
    }

    /// Receives and waits.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::recv`].
    #[inline]
    pub fn recv(
        &self,
        buf: &mut [u8],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, MsgError> {
        let from = (source.into(), tag.into());
        self.receiving(Kind::Recv, from, |spec| self.tagged.recv(spec, buf))
    }

    /// Receives elements and waits. What is longer than `elements` is an error, what
    /// is shorter fills the first of them.
    ///
    /// # Errors
    /// As [`Messenger::recv`].
    #[inline]
    pub fn recv_slice<T: Pod>(
        &self,
        elements: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, MsgError> {
        self.recv(bytes_of_mut(elements), source, tag)
    }

    /// Receives into what `layout` takes of `memory`, its origin `origin` bytes
    /// from the start, and waits; nothing between is written to.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::recv_layout`].
    pub fn recv_layout<T: Pod>(
        &self,
        memory: &mut [T],
        origin: usize,
        layout: &Layout,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, MsgError> {
        let (from, memory) = ((source.into(), tag.into()), bytes_of_mut(memory));
        self.receiving(Kind::Recv, from, |spec| {
            self.tagged.recv_layout(spec, memory, origin, layout)
        })
    }

    /// Begins a receive into what a layout takes from `origin`.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::irecv_layout`].
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::irecv_layout`].
    pub unsafe fn irecv_layout(
        &self,
        origin: *mut u8,
        layout: &Layout,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<N>, MsgError> {
        let request = self.posting((source.into(), tag.into()), |spec| {
            // SAFETY: [INTO].
            unsafe { self.tagged.irecv_layout(spec, origin, layout) }
        });
        request.map(|request| self.requested(request, false))
    }

    /// Begins a receive.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::irecv`].
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::irecv`].
    #[inline]
    pub unsafe fn irecv(
        &self,
        buf: *mut u8,
        capacity: usize,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<N>, MsgError> {
        let from = (source.into(), tag.into());
        match self.match_spec(from.0, from.1) {
            // SAFETY: [INTO].
            Some(spec) => unsafe { self.tagged.irecv(&spec, buf, capacity) },
            // SAFETY: [INTO].
            None => unsafe { self.irecv_elsewhere(buf, capacity, from) },
        }
    }

    /// The first message that fits, if one came in. Makes progress once.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::iprobe`].
    pub fn iprobe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Status>, MsgError> {
        let from = (source.into(), tag.into());
        self.looking(Kind::Iprobe, from, |found| *found, |spec| self.tagged.iprobe(spec))
    }

    /// Waits for a message that fits.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::iprobe`].
    pub fn probe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, MsgError> {
        let from = (source.into(), tag.into());
        self.receiving(Kind::Probe, from, |spec| self.tagged.probe(spec))
    }

    /// Takes the first message that fits, if one came in.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::improbe`].
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Message<N>>, MsgError> {
        let from = (source.into(), tag.into());
        let found = |found: &Option<Message<N>>| found.as_ref().map(Message::status);
        let found = self.looking(Kind::Improbe, from, found, |spec| self.tagged.improbe(spec))?;
        Ok(found.map(|message| message.recorded(self.communicator.recorded())))
    }

    /// Waits for a message that fits and takes it.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::mprobe`].
    pub fn mprobe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Message<N>, MsgError> {
        let from = (source.into(), tag.into());
        let found = |found: &Message<N>| Some(found.status());
        let found = self.looking(Kind::Mprobe, from, found, |spec| self.tagged.mprobe(spec))?;
        Ok(found.recorded(self.communicator.recorded()))
    }
}
