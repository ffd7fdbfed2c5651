//! Active messages that nobody waits for: of any length, queued by the link.
//!
//! ```text
//! POST    handler, header's length, payload's length    header, payload
//! LONG    handler, header's length, payload's length    header
//! PIECE                                                 a piece of the payload
//! ```
//!
//! They spend no credit, as a handler that answers several others, later, could
//! not wait for it: what a slow peer does not take yet lies here, of long
//! payloads only where they are. Pieces travel in the link's order, so that no
//! message overtakes another; the receiver puts them together.

use super::error::MsgError;
use crate::device::{Body, Class, Context, DeviceError, Head, Outcome};
use crate::netmod::Netmod;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;

pub(super) const POST: u8 = 4;
pub(super) const LONG: u8 = 5;
pub(super) const PIECE: u8 = 6;

/// A long message of which the provider has pieces.
struct Sending {
    peer: u32,
    cookie: NonZeroU64,
    /// Pieces that are not the caller's again.
    pieces: u32,
    error: Option<DeviceError>,
}

/// How a posted message ended: its cookie, and what went wrong.
type PostCompletion = (NonZeroU64, Result<(), Box<MsgError>>);

/// Posted messages of a context that are under way.
#[derive(Default)]
pub(super) struct Posts {
    sending: RefCell<HashMap<u64, Sending>>,
    next: Cell<u64>,
    ended: RefCell<VecDeque<PostCompletion>>,
    /// Where header and payload are put together.
    scratch: RefCell<Vec<u8>>,
}

/// A message that is sent.
pub(super) struct Post<'a> {
    pub(super) peer: u32,
    pub(super) handler: u16,
    pub(super) header: &'a [u8],
    pub(super) payload: *const u8,
    pub(super) len: usize,
    pub(super) cookie: NonZeroU64,
}

impl Post<'_> {
    fn head(&self, kind: u8) -> Head {
        let words = [u64::from(self.handler), self.header.len() as u64, self.len as u64];
        Head::new(Class::Active, kind, words)
    }

    /// # Safety
    /// \[BUF\], and `to` has space for both.
    unsafe fn write(&self, to: *mut u8) {
        // SAFETY: the caller's; what is sent and where it goes do not overlap.
        unsafe {
            to.copy_from_nonoverlapping(self.header.as_ptr(), self.header.len());
            to.add(self.header.len()).copy_from_nonoverlapping(self.payload, self.len);
        }
    }
}

impl Posts {
    /// Sends a message, whose header fits in a packet of `longest` bytes. `true`: the
    /// payload is the caller's again; else when [`Posts::next_ended`] has the cookie.
    ///
    /// # Errors
    /// As [`Context::transmit`].
    ///
    /// # Safety
    /// \[BUF\], until then.
    pub(super) unsafe fn send<N: Netmod>(
        &self,
        context: &Context<N>,
        post: &Post<'_>,
        longest: usize,
    ) -> Result<bool, MsgError> {
        let whole = post.header.len() + post.len;
        if whole > longest {
            // SAFETY: the caller's.
            return unsafe { self.send_long(context, post, longest) };
        }
        let head = post.head(POST);
        // SAFETY: [BUF], and as many bytes as the slot was asked for.
        if context.write_with(post.peer, head, whole, |slot| unsafe {
            post.write(slot.as_mut_ptr());
        }) {
            return Ok(true);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch.reserve(whole);
        // SAFETY: [BUF]; as many bytes as were reserved, and are written.
        unsafe {
            post.write(scratch.as_mut_ptr());
            scratch.set_len(whole);
        }
        context.transmit_copy(post.peer, head, &scratch)?;
        Ok(true)
    }

    /// # Safety
    /// As [`Posts::send`].
    #[cold]
    unsafe fn send_long<N: Netmod>(
        &self,
        context: &Context<N>,
        post: &Post<'_>,
        longest: usize,
    ) -> Result<bool, MsgError> {
        context.transmit_copy(post.peer, post.head(LONG), post.header)?;
        let number = self.next.replace(self.next.get() + 1);
        let token = Class::Active.token(number);
        let Post { peer, cookie, .. } = *post;
        let (mut pieces, mut error, mut at) = (0, None, 0);
        while at < post.len && error.is_none() {
            let len = longest.min(post.len - at);
            let body = Body::Kept { start: post.payload.wrapping_add(at), len, token };
            // SAFETY: [BUF], until the cookie is told, which waits for all pieces.
            match unsafe { context.transmit(peer, Head::new(Class::Active, PIECE, [0; 3]), body) } {
                Ok(done) => pieces += u32::from(!done),
                Err(e) => error = Some(e),
            }
            at += len;
        }
        if pieces > 0 {
            let sending = Sending { peer, cookie, pieces, error };
            self.sending.borrow_mut().insert(number, sending);
            return Ok(false);
        }
        error.map_or(Ok(true), |error| Err(error.into()))
    }

    /// A piece is the caller's again.
    pub(super) fn piece_ended<N: Netmod>(&self, context: &Context<N>, token: u64, result: Outcome) {
        let number = Class::number(token);
        let error = result.err().and_then(|e| {
            let first = self.sending.borrow().get(&number).filter(|of| of.error.is_none())?.peer;
            Some(context.packet_failed(first, e))
        });
        let mut sending = self.sending.borrow_mut();
        let Some(of) = sending.get_mut(&number) else { return };
        of.error = of.error.take().or(error);
        of.pieces -= 1;
        if of.pieces == 0
            && let Some(of) = sending.remove(&number)
        {
            self.end(of);
        }
    }

    /// A peer is gone: what was under way to it has failed.
    pub(super) fn lost<N: Netmod>(&self, context: &Context<N>, peer: u32) {
        let failed: Vec<Sending> = {
            let mut sending = self.sending.borrow_mut();
            sending.extract_if(|_, of| of.peer == peer).map(|(_, of)| of).collect()
        };
        if !failed.is_empty() && context.check_alive(peer).is_err() {
            // Pieces that the provider has may hold up what others send behind them.
            context.renew_for(peer);
        }
        for mut of in failed {
            of.error.get_or_insert(DeviceError::PeerDied { rank: peer });
            self.end(of);
        }
    }

    fn end(&self, of: Sending) {
        let result = of.error.map_or(Ok(()), |error| Err(Box::new(error.into())));
        self.ended.borrow_mut().push_back((of.cookie, result));
    }

    /// The next that ended.
    pub(super) fn next_ended(&self) -> Option<PostCompletion> {
        self.ended.borrow_mut().pop_front()
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.ended.borrow().is_empty()
    }
}

/// A long message of which not all pieces came.
pub(super) struct Arriving {
    handler: u16,
    header: usize,
    whole: usize,
    bytes: Vec<u8>,
}

impl Arriving {
    /// The message that a LONG announces. `None` where it says what cannot be.
    pub(super) fn new(words: [u64; 3], header: &[u8]) -> Option<Arriving> {
        let whole = usize::try_from(words[2]).ok()?.checked_add(header.len())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(whole).ok()?;
        bytes.extend_from_slice(header);
        Some(Arriving { handler: words[0] as u16, header: header.len(), whole, bytes })
    }

    /// A piece came; `true` if it was the last.
    pub(super) fn add(&mut self, piece: &[u8]) -> bool {
        let len = piece.len().min(self.whole - self.bytes.len());
        self.bytes.extend_from_slice(&piece[..len]);
        self.bytes.len() == self.whole
    }

    /// Handler, header, payload.
    pub(super) fn parts(&self) -> (u16, &[u8], &[u8]) {
        let (header, payload) = self.bytes.split_at(self.header);
        (self.handler, header, payload)
    }
}
