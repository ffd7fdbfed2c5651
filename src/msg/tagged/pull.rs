//! Long messages between processes of a node: the receiver copies out of the
//! sender's memory.
//!
//! A contiguous message is copied at once. Of one that is not, the sender either
//! lists its blocks in its own memory, where the receiver reads the list and then
//! the blocks; or it packs fragments for the receiver to copy one by one
//! ([`Fragment`]). Which one is decided by cost. The receiver copies to its
//! own blocks at once, or through staging memory.

use super::packets::{self, Block, FRAGMENT, FRAGMENT_DONE, Fragment, Rts};
use super::pieces::{Piece, Receiver};
use super::slots::Slot;
use super::staging::Staging;
use super::state::{State, TaggedProtocol};
use super::tokens;
use crate::datatype::Layout;
use crate::device::{Context, Medium, Method, Shape, fragment_of};
use crate::msg::error::MsgError;
use crate::msg::types::LaidOut;
use crate::netmod::Netmod;

/// The longest list of blocks that a sender makes, and a receiver reads.
const LONGEST_LIST: u64 = 1 << 16;

/// What is done with data that these blocks at this process and at the peer hold.
fn choose(bytes: u64, own: u64, peers: u64) -> Method {
    let shape = Shape { bytes, origin: own, target: peers };
    Medium::Node.choose(shape, &[Method::CrossMemory, Method::Pack])
}

/// The RTS of a message that is not contiguous, whose blocks are listed in `list`
/// if its receiver is to copy them.
pub(super) fn rts_of<N: Netmod>(
    context: &Context<N>,
    slot: &Slot,
    id: u64,
    withdrawals: (u64, u64),
    list: &mut Vec<Block>,
) -> Rts {
    let Some(layout) = &slot.layout else {
        return Rts::contiguous(id, slot.buf, withdrawals);
    };
    let (first, _) = layout.true_bounds().unwrap_or((0, 0));
    let address = |offset: i64| slot.buf.wrapping_offset(offset as isize) as u64;
    let mut rts = Rts {
        id,
        start: address(first),
        withdrawals,
        block_count: layout.blocks(),
        list: 0,
        types: slot.laid_out().map_or(0, LaidOut::types),
    };
    if rts.block_count <= LONGEST_LIST
        && context.has_node_queue(slot.peer)
        && choose(slot.length, 1, rts.block_count) == Method::CrossMemory
    {
        list.extend(layout.blocks_from(0).map(|(offset, len)| [address(offset), len]));
        rts.block_count = list.len() as u64;
        rts.list = list.as_ptr() as u64;
    }
    rts
}

impl TaggedProtocol {
    /// Copies a whole message out of its sender's memory. Returns false if it
    /// must be sent instead, or its sender has withdrawn it, which a CTS is answered with.
    pub(super) fn pull<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        rts: &Rts,
    ) -> bool {
        let slot = state.slots.at(at);
        let (peer, length) = (slot.peer, slot.length);
        if rts.is_contiguous() && slot.layout.is_none() {
            let into = (slot.buf, length as usize);
            // SAFETY: the buffer is writable until the request is done.
            return unsafe { context.pull_while(peer, rts.start, into, rts.withdrawals) };
        }
        let (address, count) = rts.withdrawals;
        let mut said = 0_u64;
        self.pull_laid_out(context, state, at, rts)
            // SAFETY: a word.
            && unsafe { context.pull(peer, address, (&raw mut said).cast(), size_of_val(&said)) }
            && said == count
    }

    /// The same where one side is not contiguous, whether it is withdrawn or not.
    fn pull_laid_out<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        rts: &Rts,
    ) -> bool {
        let State { slots, staging, .. } = state;
        let slot = slots.at(at);
        let (peer, length) = (slot.peer, slot.length);
        if rts.is_contiguous() {
            let own = slot.layout.as_ref().map_or(1, Layout::blocks);
            if choose(length, own, 1) == Method::Pack {
                return pull_packed(context, staging, slot, rts.start);
            }
            return pull_list(context, slot, &[[rts.start, length]]);
        }
        if rts.list == 0 || rts.block_count > LONGEST_LIST {
            return false;
        }
        let mut list = vec![[0; 2]; rts.block_count as usize];
        let bytes = size_of_val::<[Block]>(&list);
        // SAFETY: a list of this length, of words that may be anything.
        if !unsafe { context.pull(peer, rts.list, list.as_mut_ptr().cast(), bytes) } {
            return false;
        }
        let sum = list.iter().try_fold(0_u64, |sum, block| sum.checked_add(block[1]));
        sum == Some(length) && pull_list(context, slot, &list)
    }

    /// Begins a message whose sender packs fragments for this process to copy.
    /// `None` where it cannot copy.
    pub(super) fn receive_fragments<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        rts: &Rts,
    ) -> Option<Receiver> {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let mut first = 0_u8;
        // SAFETY: one byte.
        if rts.is_contiguous() || !unsafe { context.pull(slot.peer, rts.start, &raw mut first, 1) }
        {
            return None;
        }
        let size = self.longest.min(fragment_of(slot.length));
        Some(Receiver::of_fragments(rts.id, slot.length, size, tokens::fragments(id)))
    }

    /// The sender of a message has packed a fragment: copies it.
    pub(super) fn fragment_arrived<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        fragment: Fragment,
    ) {
        let State { slots, staging, .. } = state;
        let slot = slots.at(at);
        let peer = slot.peer;
        let Some(receiver) = slot.receiver().copied() else { return };
        let Some(piece) = receiver.pieces.next_to_end() else { return };
        if tokens::of_fragments(receiver.pieces.first_tag()).is_none()
            || piece.number != fragment.number
        {
            return;
        }
        // Where the receive was given up, its buffer is somebody else's.
        let open = slot.error.is_none() && !slot.detached;
        let copied = !open || pull_piece(context, staging, slot, piece, fragment.address);
        let error = (!copied).then(|| {
            context.check_open(peer).err().map_or_else(|| MsgError::died(peer), MsgError::from)
        });
        packets::send_words(context, peer, FRAGMENT_DONE, [receiver.id, piece.number, 0]);
        self.piece_ended(context, state, at, error);
    }
}

/// Packs a piece for the receive of this id at the peer to copy.
pub(super) fn send_fragment<N: Netmod>(
    context: &Context<N>,
    staging: &mut Staging,
    slot: &mut Slot,
    receive: u64,
    piece: Piece,
) -> Result<(), MsgError> {
    // SAFETY: the buffer holds the message until the request is done, and one that
    // goes away before has an error.
    let start = unsafe { slot.buffer_of(staging, piece, true) };
    let head = packets::head(FRAGMENT, [receive, piece.number, start as u64]);
    context.transmit_copy(slot.peer, head, &[])?;
    slot.issued_piece(false);
    Ok(())
}

/// Copies the whole message of a receive from these blocks.
fn pull_list<N: Netmod>(context: &Context<N>, slot: &Slot, list: &[Block]) -> bool {
    let own: &mut dyn Iterator<Item = (i64, u64)> = match &slot.layout {
        None => &mut std::iter::once((0, slot.length)),
        Some(layout) => &mut layout.blocks_from(0),
    };
    let pairs = |each: &mut dyn FnMut(u64, *mut u8, usize)| {
        let (mut offset, mut space) = (0, 0);
        for &[mut from, mut len] in list {
            while len > 0 {
                if space == 0 {
                    let Some(next) = own.next() else { return };
                    (offset, space) = next;
                }
                let some = len.min(space);
                each(from, slot.buf.wrapping_offset(offset as isize), some as usize);
                (from, len) = (from.wrapping_add(some), len - some);
                (offset, space) = (offset + some as i64, space - some);
            }
        }
    };
    // SAFETY: blocks of the buffer, or of its layout, which are writable until the
    // request is done; no more than the message is long, which fits.
    unsafe { context.pull_blocks(slot.peer, pairs) }
}

/// Copies a contiguous message, and unpacks it fragment by fragment.
fn pull_packed<N: Netmod>(
    context: &Context<N>,
    staging: &mut Staging,
    slot: &mut Slot,
    start: u64,
) -> bool {
    let mut from = 0;
    while from < slot.length {
        let len = (slot.length - from).min(fragment_of(slot.length)) as usize;
        let piece = Piece { number: 0, start: from as usize, len };
        if !pull_piece(context, staging, slot, piece, start + from) {
            return false;
        }
        from += len as u64;
    }
    true
}

/// Copies a piece that lies at `address` at the sender.
fn pull_piece<N: Netmod>(
    context: &Context<N>,
    staging: &mut Staging,
    slot: &mut Slot,
    piece: Piece,
    address: u64,
) -> bool {
    if slot.layout.is_none() {
        // SAFETY: the buffer is writable until the request is done, and holds the
        // piece.
        return unsafe {
            context.pull(slot.peer, address, slot.buf.wrapping_add(piece.start), piece.len)
        };
    }
    let mut bounce = staging.take(piece.len);
    let to = bounce.start();
    // SAFETY: staging memory of this length; the layout's bytes are writable until
    // the request is done.
    let copied = unsafe {
        let copied = context.pull(slot.peer, address, to, piece.len);
        if copied {
            slot.unpack(piece, to);
        }
        copied
    };
    staging.give(bounce);
    copied
}
