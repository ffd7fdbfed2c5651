//! Messages whose bodies stay at the sender until a receive matched them.
//!
//! ```text
//! sender     RTS ->                        -> CTS, sends pieces ... | FIN
//! receiver       -> copies the body out of the sender's memory, FIN
//!                -> or posts receives for pieces, CTS ...
//! ```
//!
//! On a node the receiver copies, where the system lets it ([`pull`](super::pull)).
//! Pieces of a buffer that is not contiguous are packed into staging memory, and
//! unpacked out of it, while the provider has others; those that are one block of
//! it go from and to where they lie.

use super::flow::PeerFlow;
use super::packets::{self, Cts, RTS, Rts, WITHDRAWN, head};
use super::pieces::{Piece, Receiver, Sender};
use super::pull;
use super::slots::{Phase, Slot};
use super::staging::Staging;
use super::state::{PATIENCE, State, TaggedProtocol, Unexpected, UnexpectedBody};
use super::tokens;
use crate::device::{Class, Context, Head, PIECE, fragment_of};
use crate::msg::error::MsgError;
use crate::netmod::{AGAIN, Bulk, NetError, Netmod};
use std::time::Instant;

/// What became of a piece that a provider was given.
enum Issue {
    Accepted,
    /// The provider has no space for it now.
    Stalled,
    Refused,
}

impl TaggedProtocol {
    /// Announces a send; there is credit for its header.
    pub(super) fn send_rts<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        flow: &PeerFlow,
        at: u32,
    ) -> Result<(), MsgError> {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let head = head(RTS, [slot.channel, slot.bits, slot.length]);
        let mut list = Vec::new();
        let (rts, len) =
            pull::rts_of(context, slot, id, self.withdrawals.told(), &mut list).encode();
        context.transmit_copy(slot.peer, head, &rts[..len])?;
        slot.list = list;
        flow.credit.spend(0);
        slot.phase = Phase::RtsSent;
        Ok(())
    }

    pub(super) fn rts_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let ([channel, bits, length], peer) = (head.words, head.from);
        let Some(rts) = Rts::decode(body) else { return };
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(at) = state.engine.arrive(channel, bits) {
            self.flows.consumed(context, peer, 0);
            state.slots.at(at).matched(peer, bits, length);
            return self.begin(context, state, at, rts);
        }
        let body = UnexpectedBody::Rendezvous(rts);
        state.store(channel, bits, Unexpected { peer, length, body });
    }

    /// Begins to receive: an RTS and the receive `at` have matched.
    pub(super) fn begin<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        rts: Rts,
    ) {
        let slot = state.slots.at(at);
        let (peer, length) = (slot.peer, slot.length);
        if let Some(error) = slot.refusal(rts.types, length) {
            state.slots.end(at, Some(error));
            return packets::send_fin(context, peer, rts.id);
        }
        if length == 0 || self.pull(context, state, at, &rts) {
            state.slots.end(at, None);
            return packets::send_fin(context, peer, rts.id);
        }
        if let Some(receiver) = self.receive_fragments(context, state, at, &rts) {
            state.slots.at(at).begin_receiving(receiver);
            return self.drive(context, state, at);
        }
        let slot = state.slots.at(at);
        let inbox = match context.transport_of(peer) {
            Ok(transport) => context.inbox(transport),
            Err(e) => {
                state.slots.end(at, Some(e.into()));
                return packets::send_refused(context, peer, rts.id);
            }
        };
        let longest = inbox.map_or(self.longest, |(netmod, _)| netmod.caps().max_bulk as u64);
        let mut size = longest.min(self.longest);
        if slot.borrowed {
            size = size.min(PIECE as u64);
        }
        if slot.layout.is_some() || !rts.is_contiguous() {
            size = size.min(fragment_of(length));
        }
        slot.begin_receiving(Receiver::new(rts.id, length, size, &mut state.tags));
        self.drive(context, state, at);
    }

    /// The receiver has posted receives.
    pub(super) fn cts_arrived<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        cts: &Cts,
    ) {
        let slot = state.slots.at(at);
        if slot.phase == Phase::RtsSent {
            slot.begin_sending(Sender::new(slot.length, cts));
        }
        let Some(sender) = slot.sender() else { return };
        sender.clear(cts);
        self.drive(context, state, at);
    }

    /// A provider is done with a piece.
    pub(super) fn piece_ended<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        error: Option<MsgError>,
    ) {
        let slot = state.slots.at(at);
        let first = error.is_some() && slot.error.is_none();
        if let Some(error) = error {
            slot.fail(error);
        }
        let failed = slot.error.is_some();
        let Some(pieces) = slot.pieces() else { return };
        pieces.ended();
        if failed && pieces.are_idle() {
            end(context, state, at);
        } else if first {
            if slot.sender().is_some() {
                // (What failed never comes there.)
                let (peer, id) = (slot.peer, state.slots.id(at));
                packets::send_word(context, peer, WITHDRAWN, id);
            }
            self.give_up(context, state, at);
        } else if !failed {
            self.drive(context, state, at);
        }
    }

    /// Issues what a rendezvous may issue now.
    pub(super) fn drive<N: Netmod>(&self, context: &Context<N>, state: &mut State, at: u32) {
        let id = state.slots.id(at);
        let State { slots, staging, .. } = state;
        let slot = slots.at(at);
        let (stalled, untold) = if slot.error.is_some() {
            (false, false)
        } else if slot.receiver().is_some() {
            post_receives(context, staging, slot, id)
        } else {
            (send_pieces(context, staging, slot, id), false)
        };
        let failed = slot.error.is_some();
        let Some(pieces) = slot.pieces() else { return };
        if pieces.are_complete() || (failed && pieces.are_idle()) {
            end(context, state, at);
        } else if untold {
            self.give_up(context, state, at);
        } else if !failed && stalled {
            state.stalled.push(at);
            context.schedule(Class::Tagged);
        }
    }

    /// The sender of a message has ended it.
    #[cold]
    pub(super) fn withdrawn<N: Netmod>(&self, context: &Context<N>, head: &Head) {
        let mut state = self.state.borrow_mut();
        let mut live = state.slots.live().filter(|(_, slot)| slot.peer == head.from);
        let is_of = |slot: &mut Slot| slot.receiver().is_some_and(|it| it.id == head.words[0]);
        let found = live.find_map(|(at, slot)| is_of(slot).then_some(at));
        drop(live);
        if let Some(at) = found {
            self.peer_gave_up(context, &mut state, at);
        }
    }

    /// The other side has ended a rendezvous: ends it here.
    #[cold]
    pub(super) fn peer_gave_up<N: Netmod>(&self, context: &Context<N>, state: &mut State, at: u32) {
        let slot = state.slots.at(at);
        let error = MsgError::GivenUp { rank: slot.peer };
        // (It copies no fragment any more, and packs none.)
        if slot.pieces().is_some_and(|it| tokens::of_fragments(it.first_tag()).is_some()) {
            slot.fail(error);
            return end(context, state, at);
        }
        let id = state.slots.id(at);
        self.call_off(context, state, at, error);
        self.end_later(context, state, id);
    }

    /// Ends a rendezvous with an error, once nobody has any of its pieces.
    #[cold]
    pub(super) fn call_off<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        error: MsgError,
    ) {
        let slot = state.slots.at(at);
        slot.fail(error);
        if slot.pieces().is_some_and(|pieces| pieces.are_idle()) {
            return end(context, state, at);
        }
        self.give_up(context, state, at);
    }

    /// A provider may keep the pieces of a send for ever that its receiver does not wait for any
    /// more: nobody reads them then, and the send ends without them.
    fn end_later<N: Netmod>(&self, context: &Context<N>, state: &mut State, id: u64) {
        let known = state.slots.known(id);
        if known.is_some_and(|(_, slot)| slot.phase == Phase::Transfer && slot.sender().is_some()) {
            state.refused.push((id, Instant::now() + PATIENCE));
            context.schedule(Class::Tagged);
        }
    }

    /// Takes back what is under way of a rendezvous.
    pub(super) fn give_up<N: Netmod>(&self, context: &Context<N>, state: &mut State, at: u32) {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let Ok(transport) = context.transport_of(slot.peer) else { return };
        let receiving = slot.receiver().is_some();
        let opened = if receiving { context.inbox(transport) } else { context.endpoint(transport) };
        let (Some((netmod, endpoint)), Some(pieces)) = (opened, slot.pieces()) else { return };
        for piece in pieces.under_way() {
            netmod.cancel(endpoint, tokens::token(id, piece));
        }
    }
}

/// Sends the pieces that are cleared. Returns true if the provider has no space
/// for more.
fn send_pieces<N: Netmod>(
    context: &Context<N>,
    staging: &mut Staging,
    slot: &mut Slot,
    id: u64,
) -> bool {
    while let Some(sender) = slot.sender().copied()
        && let Some(piece) = sender.next()
    {
        if let Some(receive) = tokens::of_fragments(sender.pieces.first_tag()) {
            if let Err(e) = pull::send_fragment(context, staging, slot, receive, piece) {
                slot.fail(e);
                return false;
            }
            continue;
        }
        let route = context.packet_route(slot.peer);
        let to = route.and_then(|(transport, dest)| Some((context.endpoint(transport)?, dest)));
        let Some(((netmod, endpoint), dest)) = to else {
            slot.fail(MsgError::died(slot.peer));
            return false;
        };
        // SAFETY: the buffer holds the message until the request is done, and
        // one that goes away before has an error.
        let buf = unsafe { slot.buffer_of(staging, piece, true) }.cast_const();
        let (tag, token) = (sender.pieces.tag(piece), tokens::token(id, piece.number));
        let op = Bulk { buf, len: piece.len, dest, tag, token };
        // SAFETY: the buffer is readable until the request is done, or bounce
        // memory.
        let rc = unsafe { netmod.send_bulk(endpoint, op) };
        match issued(staging, slot, piece, rc) {
            Issue::Accepted => {}
            Issue::Stalled => return true,
            Issue::Refused => {
                fail(context, slot, netmod.explain(N::CALLS.send_bulk, rc));
                return false;
            }
        }
    }
    false
}

/// Posts receives for the next pieces and clears the sender for them. Returns whether the
/// provider has no space for more, and whether the sender could not be told.
fn post_receives<N: Netmod>(
    context: &Context<N>,
    staging: &mut Staging,
    slot: &mut Slot,
    id: u64,
) -> (bool, bool) {
    let mut stalled = false;
    while let Some(receiver) = slot.receiver().copied()
        && let Some(piece) = receiver.next()
        && !stalled
    {
        if tokens::of_fragments(receiver.pieces.first_tag()).is_some() {
            // Nothing is posted: it is copied when it is there.
            slot.issued_piece(false);
            continue;
        }
        let inbox = context.transport_of(slot.peer).ok().and_then(|t| context.inbox(t));
        let Some((netmod, endpoint)) = inbox else {
            slot.fail(MsgError::died(slot.peer));
            return (false, false);
        };
        // SAFETY: as in `send_pieces`.
        let buf = unsafe { slot.buffer_of(staging, piece, false) };
        let (tag, token) = (receiver.pieces.tag(piece), tokens::token(id, piece.number));
        let op = Bulk { buf, len: piece.len, dest: 0, tag, token };
        // SAFETY: the buffer is writable until the request is done, or bounce
        // memory.
        let rc = unsafe { netmod.recv_bulk(endpoint, op) };
        match issued(staging, slot, piece, rc) {
            Issue::Accepted => {}
            Issue::Stalled => stalled = true,
            Issue::Refused => {
                // (Those posted before it still come, so that both sides' providers are rid of
                // them.)
                fail(context, slot, netmod.explain(N::CALLS.recv_bulk, rc));
                break;
            }
        }
    }
    let cts = slot.receiver().and_then(Receiver::take_cts);
    if let Some(cts) = cts
        && let Err(e) = cts.send(context, slot.peer)
    {
        slot.fail(e.into());
        return (false, true);
    }
    (stalled, false)
}

/// Counts a piece that a provider took; else its buffer is the request's again.
fn issued(staging: &mut Staging, slot: &mut Slot, piece: Piece, rc: isize) -> Issue {
    // Refused, or done already.
    if rc <= 0 {
        let received = rc == 0 && slot.receiver().is_some();
        // SAFETY: a request that is issued has its buffer, which holds the piece.
        unsafe { slot.take_back(staging, piece.number, received) };
    }
    match rc {
        AGAIN => Issue::Stalled,
        rc if rc < 0 => Issue::Refused,
        rc => {
            slot.issued_piece(rc == 0);
            Issue::Accepted
        }
    }
}

/// A provider has refused a piece.
#[cold]
fn fail<N: Netmod>(context: &Context<N>, slot: &mut Slot, error: NetError) {
    slot.fail(context.attribute_failure(slot.peer, error).into());
}

/// Ends a rendezvous, with what its request has for an error, of which the other side hears.
fn end<N: Netmod>(context: &Context<N>, state: &mut State, at: u32) {
    let id = state.slots.id(at);
    let slot = state.slots.at(at);
    let (peer, asked, failed) = (slot.peer, slot.delivery_query, slot.error.is_some());
    match slot.receiver() {
        Some(receiver) if asked => packets::send_delivered(context, peer, receiver.id),
        Some(receiver) if failed => packets::send_refused(context, peer, receiver.id),
        None if failed => packets::send_word(context, peer, WITHDRAWN, id),
        _ => {}
    }
    state.slots.end(at, None);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a rank that fails ends the test")]
mod tests {
    use super::*;
    use crate::av::Transport;
    use crate::boot::Boot;
    use crate::boot::in_process::Job;
    use crate::device::{self, Options};
    use crate::msg::tagged::calls::Tagged;
    use crate::msg::types::{Envelope, MatchSpec, RecvBuffer};
    use crate::netmod::PENDING;
    use crate::netmod::in_process::InProcess;
    use crate::rma::Communicator;
    use std::sync::Arc;

    /// In eight pieces of what a borrowed buffer is cut into.
    const LONG: usize = 8 * PIECE;
    const TO: Envelope = Envelope { peer: 1, channel: 5, bits: 0 };
    const FROM: MatchSpec = MatchSpec { channel: 5, bits: 0, ignore: 0, from: Some(0) };

    /// What a sender and a receiver do with a long message, after which others still come.
    fn two(
        send: impl Fn(&Tagged<InProcess>) + Sync,
        receive: impl Fn(&Tagged<InProcess>, &mut [u8]) + Sync,
    ) {
        let job = Job::new(2, std::thread::yield_now).unwrap();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let boot: Arc<dyn Boot> = job.rank(rank).unwrap();
                let (send, receive) = (&send, &receive);
                scope.spawn(move || {
                    let context = device::open_over(boot, &Options::default()).unwrap();
                    let tagged = Tagged::open(&context).unwrap();
                    let mut buf = vec![0; LONG];
                    if rank == 0 {
                        send(&tagged);
                        tagged.send(TO, &vec![7; LONG]).unwrap();
                    } else {
                        receive(&tagged, &mut buf);
                        tagged.recv(&FROM, &mut buf).unwrap();
                        assert!(buf.iter().all(|&byte| byte == 7));
                    }
                    Communicator::world(&context).barrier().unwrap();
                    assert_eq!(tagged.protocol().state.borrow_mut().slots.live().count(), 0);
                });
            }
        });
    }

    /// A long send that the receiver ends.
    fn is_given_up(tagged: &Tagged<InProcess>) {
        let error = tagged.send(TO, &vec![1; LONG]).unwrap_err();
        assert!(matches!(error, MsgError::GivenUp { rank: 1 }), "{error}");
    }

    /// A send or a receive that is abandoned once `is_there` says so of its request.
    fn abandoned(tagged: &Tagged<InProcess>, at: u32, is_there: impl Fn(&mut Slot) -> bool) {
        while !is_there(tagged.protocol().state.borrow_mut().slots.at(at)) {
            tagged.context().progress().unwrap();
        }
        tagged.abandon(at);
    }

    #[test]
    #[cfg_attr(miri, ignore = "long messages")]
    fn a_receive_that_the_provider_refuses_ends_on_both_sides() {
        for piece in [0, 2, 6] {
            two(is_given_up, |tagged, buf| {
                let (netmod, endpoint) = tagged.context().inbox(Transport::Network).unwrap();
                let (tag, token) = (tokens::piece_tag(0, piece), tokens::token(9, 0));
                let op = Bulk { buf: buf.as_mut_ptr(), len: 8, dest: 0, tag, token };
                // SAFETY: taken back below, and nobody sends that.
                assert_eq!(unsafe { netmod.recv_bulk(endpoint, op) }, PENDING);
                let error = tagged.recv(&FROM, &mut vec![0; LONG]).unwrap_err();
                assert!(!matches!(error, MsgError::GivenUp { .. }), "{error}");
                netmod.cancel(endpoint, token);
            });
        }
    }

    /// A long send, and a provider that keeps `pieces` more of it than it has; of those `failed`
    /// fail. It ends with an error all the same.
    fn kept(tagged: &Tagged<InProcess>, pieces: usize, failed: usize) -> MsgError {
        let (context, protocol) = (tagged.context(), tagged.protocol());
        let bytes = vec![1; LONG];
        // SAFETY: done before the buffer goes.
        let at = unsafe { tagged.begin_send(TO, &bytes, false) }.unwrap().unwrap();
        while protocol.state.borrow_mut().slots.at(at).sender().is_none() {
            context.progress().unwrap();
        }
        for _ in 0..pieces {
            protocol.state.borrow_mut().slots.at(at).issued_piece(false);
        }
        for _ in 0..failed {
            let error = InProcess::open().explain("send_bulk", -(libc::EIO as isize));
            let error = MsgError::from(crate::device::DeviceError::Net(error));
            protocol.piece_ended(context, &mut protocol.state.borrow_mut(), at, Some(error));
        }
        while !protocol.is_done(at) {
            context.progress().unwrap();
        }
        protocol.collect(at).unwrap_err()
    }

    #[test]
    #[cfg_attr(miri, ignore = "long messages")]
    fn a_send_that_its_provider_keeps_ends_once_the_receiver_has_ended() {
        let send = |tagged: &Tagged<InProcess>| {
            let error = kept(tagged, 1, 0);
            assert!(matches!(error, MsgError::GivenUp { rank: 1 }), "{error}");
        };
        two(send, |tagged, buf| {
            let (netmod, endpoint) = tagged.context().inbox(Transport::Network).unwrap();
            let (tag, token) = (tokens::piece_tag(0, 2), tokens::token(9, 0));
            let op = Bulk { buf: buf.as_mut_ptr(), len: 8, dest: 0, tag, token };
            // SAFETY: taken back below, and nobody sends that.
            assert_eq!(unsafe { netmod.recv_bulk(endpoint, op) }, PENDING);
            tagged.recv(&FROM, &mut vec![0; LONG]).unwrap_err();
            netmod.cancel(endpoint, token);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "long messages")]
    fn who_receives_hears_at_once_of_a_piece_that_failed() {
        let send = |tagged: &Tagged<InProcess>| {
            let error = kept(tagged, 2, 1);
            assert!(error.to_string().contains("send_bulk failed"), "{error}");
        };
        two(send, |tagged, buf| {
            let error = tagged.recv(&FROM, buf).unwrap_err();
            assert!(matches!(error, MsgError::GivenUp { rank: 0 }), "{error}");
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "long messages")]
    fn who_receives_hears_of_a_send_that_is_abandoned() {
        for amidst in [false, true] {
            let begun = |slot: &mut Slot| slot.sender().is_some() || !amidst;
            let send = |tagged: &Tagged<InProcess>| {
                let bytes = vec![1; LONG];
                // SAFETY: abandoned before the buffer goes.
                let at = unsafe { tagged.begin_send(TO, &bytes, false) }.unwrap().unwrap();
                abandoned(tagged, at, begun);
            };
            two(send, |tagged, buf| {
                let error = tagged.recv(&FROM, buf).unwrap_err();
                assert!(matches!(error, MsgError::GivenUp { rank: 0 }), "{error}");
            });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "long messages")]
    fn who_sends_hears_of_a_receive_that_is_abandoned() {
        let send = |tagged: &Tagged<InProcess>| {
            // (Or finds nobody there who receives.)
            let error = tagged.send(TO, &vec![1; LONG]).unwrap_err();
            assert_eq!(error.peer(), Some(1), "{error}");
        };
        two(send, |tagged, buf| {
            let buffer = RecvBuffer::borrowed(buf.as_mut_ptr(), LONG);
            // SAFETY: abandoned before the buffer is used again.
            let at = unsafe { tagged.begin_recv(&FROM, buffer) }.unwrap();
            abandoned(tagged, at, |slot| slot.receiver().is_some());
        });
    }
}
