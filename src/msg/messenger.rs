//! Messages of a communicator: by rank and tag.

use super::error::MsgError;
use super::tagged::{Message, Request, Tagged};
use super::types::{Counts, Envelope, MatchSpec, Status};
use crate::netmod::Netmod;
use crate::rma::Communicator;

/// Stands for any source or any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// Whom a receive takes messages from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(Option<u32>);

/// Which tags a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(Option<u32>);

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

    #[inline]
    fn world_rank(&self, rank: u32) -> Result<u32, MsgError> {
        match self.communicator.map().get(rank) {
            Some(process) if process.pg == 0 => Ok(process.lpid),
            Some(process) => Ok(self.communicator.device().world_rank(process)?),
            None => Err(MsgError::Rank { rank, size: self.communicator.size() }),
        }
    }

    #[inline]
    pub(super) fn envelope(&self, dest: u32, tag: u32) -> Result<Envelope, MsgError> {
        let bits = self.me | u64::from(tag);
        Ok(Envelope { peer: self.world_rank(dest)?, channel: self.channel, bits })
    }

    #[inline]
    pub(super) fn match_spec(&self, source: Source, tag: Tag) -> Result<MatchSpec, MsgError> {
        let from = match source.0 {
            Some(rank) => Some(self.world_rank(rank)?),
            None => None,
        };
        let bits = u64::from(source.0.unwrap_or(0)) << 32 | u64::from(tag.0.unwrap_or(0));
        let sources = if source.0.is_none() { SOURCES } else { 0 };
        let tags = if tag.0.is_none() { TAGS } else { 0 };
        Ok(MatchSpec { channel: self.channel, bits, ignore: sources | tags, from })
    }

    /// Sends and waits until the buffer is free.
    ///
    /// # Errors
    /// [`MsgError::Rank`]; as [`Tagged::send`].
    #[inline]
    pub fn send(&self, buf: &[u8], dest: u32, tag: u32) -> Result<(), MsgError> {
        self.tagged.send(self.envelope(dest, tag)?, buf)
    }

    /// Sends and waits until a receive took the message.
    ///
    /// # Errors
    /// As [`Messenger::send`].
    pub fn ssend(&self, buf: &[u8], dest: u32, tag: u32) -> Result<(), MsgError> {
        self.tagged.ssend(self.envelope(dest, tag)?, buf)
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
        let to = self.envelope(dest, tag)?;
        // SAFETY: [BUF].
        unsafe { self.tagged.isend(to, buf, len) }
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
        let to = self.envelope(dest, tag)?;
        // SAFETY: [BUF].
        unsafe { self.tagged.issend(to, buf, len) }
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
        self.tagged.recv(&self.match_spec(source.into(), tag.into())?, buf)
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
        let spec = self.match_spec(source.into(), tag.into())?;
        // SAFETY: [INTO].
        unsafe { self.tagged.irecv(&spec, buf, capacity) }
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
        self.tagged.iprobe(&self.match_spec(source.into(), tag.into())?)
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
        self.tagged.probe(&self.match_spec(source.into(), tag.into())?)
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
        self.tagged.improbe(&self.match_spec(source.into(), tag.into())?)
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
        self.tagged.mprobe(&self.match_spec(source.into(), tag.into())?)
    }
}
