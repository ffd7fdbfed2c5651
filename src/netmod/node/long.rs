//! Long puts and gets, piece by piece through the ring: both sides copy, at one time, which
//! is quicker than a copy of the system, that takes page after page. As long as the target
//! polls; what is left then is attached to.

use super::peer::{GET, PUT, Peer};
use super::{Error, LATE};
use crate::netmod::Iov;
use crate::shm::attach::Direction;
use crate::shm::ring::Asked;
use std::collections::VecDeque;
use std::time::Instant;

/// Bytes of a piece: with its head a fraction of the ring, so that both sides are at work.
const PIECE: usize = 8 * 1024 - 32;
/// Longer ones gain nothing.
pub(super) const LONGEST: usize = 4 << 20;

/// A piece that is asked for: where it is answered, and the counts around it.
struct Piece {
    asked: Asked,
    begin: u32,
    end: u32,
    len: usize,
}

impl Peer {
    /// A long put or get, over when it returns as far as the buffer goes. (A put is over at
    /// the target when the ring is empty.)
    ///
    /// # Safety
    /// \[BUF\].
    #[inline(never)]
    pub(super) unsafe fn transfer_long(
        &self,
        direction: Direction,
        key: u64,
        iov: &Iov,
    ) -> Result<(), Error> {
        self.table.find(key, iov.addr, iov.len).ok_or(Error(libc::ENOKEY))?;
        let Iov { buf, len, addr } = *iov;
        // SAFETY: [BUF].
        let done = unsafe {
            match direction {
                Direction::Into => self.put_pieces(key, addr, (buf, len))?,
                Direction::Out => self.get_pieces(key, addr, (buf, len))?,
            }
        };
        if done == len {
            return Ok(());
        }
        let rest = Iov { buf: buf.wrapping_add(done), len: len - done, addr: addr + done as u64 };
        // SAFETY: [BUF].
        unsafe { self.copy(direction, key, &[rest]) }
    }

    /// Puts pieces while the target takes them: how many bytes.
    ///
    /// # Safety
    /// \[BUF\].
    unsafe fn put_pieces(
        &self,
        key: u64,
        offset: u64,
        (buf, len): (*mut u8, usize),
    ) -> Result<usize, Error> {
        let (mut done, mut since, mut is_stuck) = (0, Instant::now(), false);
        while done < len {
            let piece = PIECE.min(len - done);
            let words = [key, offset + done as u64, 0];
            // SAFETY: [BUF]; shorter than a ring's longest.
            if unsafe { self.puts.put(PUT, words, buf.add(done), piece) } {
                done += piece;
                (since, is_stuck) = (Instant::now(), false);
            } else if self.puts.is_drained() {
                // (Its slots may be held, for answers that nobody has looked at.)
                if is_stuck {
                    break;
                }
                is_stuck = true;
            } else if !self.goes_on(since)? {
                break;
            }
        }
        Ok(done)
    }

    /// Gets pieces while the target answers: how many bytes.
    ///
    /// # Safety
    /// \[BUF\].
    unsafe fn get_pieces(
        &self,
        key: u64,
        offset: u64,
        (buf, len): (*mut u8, usize),
    ) -> Result<usize, Error> {
        let (mut sent, mut done, mut since) = (0, 0, Instant::now());
        let mut pieces: VecDeque<Piece> = VecDeque::new();
        // What others wait for was sent before, so it holds these slots too.
        let others = !self.is_idle();
        let known = self.known.get() == self.puts.sent_ever();
        let result = loop {
            while sent < len {
                let (piece, begin) = (PIECE.min(len - sent), self.puts.sent());
                let words = [key, offset + sent as u64, 0];
                // SAFETY: nothing is written; shorter than a ring's longest.
                let asked = unsafe { self.puts.ask(GET, words, piece, |_| ()) };
                let Some(asked) = asked else { break };
                pieces.push_back(Piece { asked, begin, end: self.puts.sent(), len: piece });
                sent += piece;
                if !others && pieces.len() == 1 {
                    self.puts.hold(Some(begin));
                }
            }
            let Some(first) = pieces.front() else { break Ok(done) };
            // SAFETY: held since it was asked for.
            if let Some(answered) = unsafe { self.puts.answered(first.asked, first.end) } {
                if !answered {
                    break Err(Error(libc::ENOKEY));
                }
                // SAFETY: [BUF]; held.
                unsafe { buf.add(done).copy_from_nonoverlapping(first.asked.body(), first.len) };
                done += first.len;
                pieces.pop_front();
                if !others {
                    self.puts.hold(pieces.front().map(|piece| piece.begin));
                }
                since = Instant::now();
                continue;
            }
            match self.goes_on(since) {
                Ok(true) => {}
                Ok(false) => break Ok(done),
                Err(error) => break Err(error),
            }
        };
        // (Pieces that nobody waits for any more are in slots that are not used again before
        // they were taken.)
        if !others {
            self.puts.hold(None);
        }
        if known {
            self.known.set(self.puts.sent_ever());
        }
        result
    }

    /// Waits a moment for the target, which was seen to do something at `since`: false if it
    /// is not to be waited for.
    fn goes_on(&self, since: Instant) -> Result<bool, Error> {
        if self.carrier.is_shut() {
            return Err(Error(libc::EPROTO));
        }
        if self.is_absent() && (!self.carrier.is_taken() || since.elapsed() > LATE) {
            return Ok(false);
        }
        std::hint::spin_loop();
        Ok(true)
    }
}
