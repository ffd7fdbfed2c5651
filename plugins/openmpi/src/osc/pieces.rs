//! Many short blocks at a target whose memory is not mapped: packed, and
//! unpacked by its process.
//!
//! A provider takes a handful of blocks with each call and tracks every one; a
//! matrix column by column would be millions. A packet holds thousands.
//!
//! ```text
//! number of blocks    offset, bytes of each    bytes of all (a put)
//! ```

use super::layout::Iov;
use super::module::Module;
use rankway::netmod::Netmod;
use rankway::rma::{Custom, Error, Pending};

/// Codes, beside those of operations on elements: bytes for blocks of the target's, and
/// back.
pub(super) const SCATTER: u64 = 1 << 60;
pub(super) const GATHER: u64 = 1 << 59;

/// Fewer blocks, or longer ones on average, are better left to the provider.
const MANY: usize = 16;
const SHORT: usize = 512;
/// A block's offset and bytes.
const WORDS: usize = 8;
/// The number of blocks.
const COUNT: usize = 4;
/// Bytes from the first block of a packet to the end of its last.
const SPAN: usize = 1 << 23;

/// Returns true if blocks at a target should go in packets.
pub(super) fn use_packets<N: Netmod>(module: &Module<N>, rank: u32, iov: &Iov) -> bool {
    if iov.list.len() < MANY || iov.bytes / iov.list.len() >= SHORT {
        return false;
    }
    let dynamic = module.bytes == usize::MAX;
    !dynamic && module.enter(|_| matches!(module.window.mapped(rank), Ok(None)))
}

/// The blocks of one packet.
struct Packet {
    iov: Vec<(usize, usize)>,
    /// Offset of the lowest block, which all places are relative to.
    low: usize,
    high: usize,
    bytes: usize,
}

impl Packet {
    /// Number and places of the blocks, as they travel.
    fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(COUNT + self.iov.len() * WORDS);
        head.extend((self.iov.len() as u32).to_le_bytes());
        for &(at, len) in &self.iov {
            head.extend(((at - self.low) as u32).to_le_bytes());
            head.extend((len as u32).to_le_bytes());
        }
        head
    }

    /// Returns true if another block goes in, of the same packet's `longest`
    /// bytes.
    fn fits(&self, (from, to): (usize, usize), longest: usize, data: bool) -> bool {
        let places = COUNT + (self.iov.len() + 1) * WORDS;
        let bytes = self.bytes + to - from;
        let space = if data { places + bytes } else { places.max(bytes) };
        space <= longest && to.max(self.high) - from.min(self.low) <= SPAN
    }
}

/// Splits blocks into packets of at most `longest` bytes; `data`: the bytes
/// travel in the same packet as the places.
fn split_into_packets(iov: &Iov, longest: usize, data: bool) -> Vec<Packet> {
    let most = longest.saturating_sub(COUNT + WORDS).max(1);
    let mut all: Vec<Packet> = Vec::new();
    for &(at, len) in &iov.list {
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(most);
            let (from, to) = (at + done, at + done + piece);
            match all.last_mut().filter(|packet| packet.fits((from, to), longest, data)) {
                Some(packet) => {
                    packet.iov.push((from, piece));
                    packet.low = packet.low.min(from);
                    packet.high = packet.high.max(to);
                    packet.bytes += piece;
                }
                None => {
                    all.push(Packet { iov: vec![(from, piece)], low: from, high: to, bytes: piece })
                }
            }
            done += piece;
        }
    }
    all
}

/// Puts packed bytes into blocks.
pub(super) fn put<N: Netmod>(
    module: &Module<N>,
    packed: &[u8],
    rank: u32,
    offset: usize,
    to: &Iov,
) -> Result<(), Error> {
    let mut rest = packed;
    for packet in split_into_packets(to, module.window.custom_limit(rank)?, true) {
        let (now, behind) = rest.split_at(packet.bytes.min(rest.len()));
        rest = behind;
        let operand = [&packet.head()[..], now].concat();
        let (at, span) = (offset + packet.low, packet.high - packet.low);
        module.window.custom(SCATTER, &operand, &mut [], rank, at, span)?;
    }
    Ok(())
}

/// Gets blocks, packed.
pub(super) fn get<N: Netmod>(
    module: &Module<N>,
    rank: u32,
    offset: usize,
    from: &Iov,
) -> Result<Vec<u8>, Error> {
    let mut packed = vec![0; from.bytes];
    let mut done = 0;
    let mut pending = Vec::new();
    for packet in split_into_packets(from, module.window.custom_limit(rank)?, false) {
        let Some(place) = packed.get_mut(done..done + packet.bytes) else { break };
        let (at, span) = (offset + packet.low, packet.high - packet.low);
        let (start, len) = (place.as_mut_ptr(), place.len());
        // SAFETY: `packed` stays until all were waited for, below; what failed
        // is given up by the wait.
        let one =
            unsafe { module.window.rcustom(GATHER, &packet.head(), start, len, rank, at, span) };
        done += packet.bytes;
        match one {
            Ok(one) => pending.push(one),
            Err(e) => {
                let _ = wait_all(pending);
                return Err(e);
            }
        }
    }
    wait_all(pending)?;
    Ok(packed)
}

/// Waits for all, also after a failure.
fn wait_all<N: Netmod>(pending: Vec<Pending<'_, N>>) -> Result<(), Error> {
    pending.into_iter().map(Pending::wait).fold(Ok(()), Result::and)
}

/// The target's side of [`put`] and [`get`].
///
/// # Safety
/// As [`rankway::rma::Operator`].
pub(super) unsafe fn operator(custom: &Custom<'_>, result: &mut Vec<u8>) -> bool {
    let word = |at: usize| {
        let four = custom.operand.get(at..at + 4)?;
        Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize)
    };
    let Some(count) = word(0) else { return false };
    let mut data = COUNT + count.saturating_mul(WORDS);
    for i in 0..count {
        let place = COUNT + i * WORDS;
        let (Some(at), Some(len)) = (word(place), word(place + 4)) else { return false };
        if at + len > custom.span {
            return false;
        }
        // SAFETY: within the span.
        let there = unsafe { custom.at.add(at) };
        if custom.code & GATHER != 0 {
            // SAFETY: as above.
            result.extend_from_slice(unsafe { std::slice::from_raw_parts(there, len) });
            continue;
        }
        let Some(from) = custom.operand.get(data..data + len) else { return false };
        data += len;
        // SAFETY: as above; a packet does not overlap with the window.
        unsafe { std::ptr::copy(from.as_ptr(), there, len) };
    }
    true
}
