//! Places of an endpoint's rings: each sender claims one, and the endpoint makes those as new
//! whose senders have ended, for others: processes of other jobs come and go.

use super::peer::Rings;
use crate::process;
use crate::shm::ring::{self, Reader, SharedReader};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Rings {
    /// A place for this process to send from, of so many; `None` where all are taken. Its ring of
    /// packets is signed with that, for who dies at once has it; once both are it is to be
    /// [announced](Rings::announce).
    pub(super) fn claim(&self, places: u32) -> Option<u32> {
        let me = std::process::id();
        // SAFETY: rings of the map. (Those beyond the first that nobody had are not looked at: their
        // pages are not there.)
        let place = (0..places).find(|&at| unsafe { ring::take(self.packets(at), me) });
        // Those before it too, whose senders may have died before they counted them.
        self.claimed().fetch_max(place.map_or(places, |at| at + 1), Ordering::Release);
        place
    }

    /// [`claim`](Rings::claim) that waits for a while where all are taken, some of them by
    /// senders that have ended: their places are for the owner, process `pid`, to make as new,
    /// in its next poll.
    pub(super) fn claim_or_wait(&self, places: u32, pid: u32) -> Option<u32> {
        const WAIT: Duration = Duration::from_secs(1);
        const NAP: Duration = Duration::from_millis(1);
        let begun = Instant::now();
        loop {
            let place = self.claim(places);
            // (An owner that is no more makes none as new.)
            let hopeless = || self.has_left() || process::ended(pid);
            if place.is_some() || !self.has_ended_sender(places) || hopeless() {
                return place;
            }
            self.announce();
            self.bell().ring(pid);
            if begun.elapsed() > WAIT {
                return None;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Has the endpoint look at its places. Behind the signatures, so that a claim that was
    /// never signed keeps nobody awake.
    pub(super) fn announce(&self) {
        self.announced().fetch_add(1, Ordering::Release);
    }

    fn has_ended_sender(&self, places: u32) -> bool {
        // SAFETY: rings of the map.
        let sender = |at| unsafe { ring::sender(self.packets(at)) };
        (0..places).filter_map(sender).any(process::ended)
    }

    /// Makes a place as new that has no ends here, if its sender has ended before both of its rings
    /// were signed.
    pub(super) fn renew_unsigned(&self, place: u32) {
        // SAFETY: rings of the map, of which this endpoint has no ends.
        unsafe {
            if ring::sender(self.packets(place)).is_some_and(process::ended) {
                ring::clear(self.puts(place));
                ring::renew(self.packets(place));
            }
        }
    }

    /// Makes a place as new, whose ends these are, if its sender has ended and nothing of it is
    /// left. Returns true if it was; they are not to be used then.
    ///
    /// # Safety
    /// The endpoint's own ends of this place.
    pub(super) unsafe fn renew(&self, place: u32, puts: &SharedReader, packets: &Reader) -> bool {
        let has_rest = || packets.has_some() || puts.has_some() || puts.is_taken();
        // (It may have sent its last, and ended, since it was looked at.)
        if has_rest() || !process::ended(packets.peer()) || has_rest() {
            return false;
        }
        // SAFETY: the only other end was the sender's. (What says that the place is free is last.)
        unsafe {
            ring::clear(self.puts(place));
            ring::renew(self.packets(place));
        }
        true
    }
}
