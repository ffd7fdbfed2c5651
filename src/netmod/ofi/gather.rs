//! Gathers short puts to a peer, so that one call of the provider carries several.
//!
//! Over tcp each `fi_inject_write` is a system call here and a message to be read
//! there. A write with as many blocks of the target's memory as the provider takes
//! (`rma_iov_limit`) is one of each. So a put waits here for its companions: until the
//! write is full, the endpoint is polled, or something is issued to the peer that must
//! come behind it. Where the provider does not take a write now, it stays. The first put
//! to a peer waits for none: it is taken when the two are connected, and whoever puts
//! hears of a peer that cannot be.

use super::bindings as sys;
use super::ffi;
use super::inject::InjectHandle;
use crate::netmod::AGAIN;
use crate::settings::Number;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Peers whose puts are gathered at one time.
const PLACES: usize = 16;
/// Puts in one write at most, whatever the provider would take.
const MOST: usize = 8;
/// Bytes of one write at most; a provider that injects more is told less.
const BYTES: usize = 256;

/// Stands for a peer that no provider has.
const NOBODY: u64 = u64::MAX;

/// How many puts one write carries; 1 gathers none.
pub(super) const PUTS: Number =
    Number { name: "RANKWAY_TCP_GATHER", unit: "puts", least: 1, most: MOST as u64 };

/// Puts that wait, of one endpoint.
pub(super) struct Gather {
    provider: InjectHandle,
    /// Iov entries and bytes that the provider takes at a call.
    limit: (usize, usize),
    /// A bit for each place that holds puts.
    held: Cell<u32>,
    places: [UnsafeCell<Gathered>; PLACES],
    /// Writes that the provider refused: to whom, and what it answered.
    refused: RefCell<Vec<(u64, isize)>>,
}

/// Puts to the peer that was put to last of all that share the place. `count` of them,
/// `len` bytes together.
struct Gathered {
    dest: u64,
    count: usize,
    len: usize,
    iov: [sys::fi_rma_iov; MOST],
    bytes: [u8; BYTES],
}

impl Gather {
    /// `entries` and `inject`: how many iov entries of the target and bytes the provider
    /// takes at a call. `None` where nothing is to be gathered.
    pub(super) fn new(
        provider: InjectHandle,
        entries: usize,
        inject: usize,
    ) -> Option<Box<Gather>> {
        let entries = PUTS.get().map_or(entries, |puts| entries.min(puts as usize));
        if entries < 2 || inject > BYTES {
            return None;
        }
        let place = || {
            let iov = [sys::fi_rma_iov { addr: 0, len: 0, key: 0 }; MOST];
            UnsafeCell::new(Gathered { dest: NOBODY, count: 0, len: 0, iov, bytes: [0; BYTES] })
        };
        Some(Box::new(Gather {
            provider,
            limit: (entries.min(MOST), inject),
            held: Cell::new(0),
            places: std::array::from_fn(|_| place()),
            refused: RefCell::default(),
        }))
    }

    /// What puts call in place of the provider's.
    pub(super) fn handle(&self) -> InjectHandle {
        InjectHandle { inject: gather, ep: std::ptr::from_ref(self).cast_mut().cast() }
    }

    /// Hands over what is gathered for a peer; 0 where that is nothing.
    pub(super) fn send(&self, dest: u64) -> isize {
        let place = place_of(dest);
        // SAFETY: the endpoint's owner is here, and nobody below comes back.
        let held = unsafe { &mut *self.places[place].get() };
        if held.count == 0 || held.dest != dest { 0 } else { self.write(place, held) }
    }

    /// Hands over all that is gathered, as far as the provider takes it.
    pub(super) fn send_all(&self) {
        let mut left = self.held.get();
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            // SAFETY: as above.
            let held = unsafe { &mut *self.places[place].get() };
            self.write_or_tell(place, held);
        }
    }

    /// Gives up what is gathered for a peer that died.
    pub(super) fn forget(&self, dest: u64) {
        let place = place_of(dest);
        // SAFETY: as above.
        let held = unsafe { &mut *self.places[place].get() };
        if held.dest == dest {
            self.empty(place, held);
            held.dest = NOBODY;
        }
    }

    /// Returns true if puts wait here.
    pub(super) fn holds_any(&self) -> bool {
        self.held.get() != 0
    }

    /// A write that the provider refused since the last question.
    pub(super) fn take_refused(&self) -> Option<(u64, isize)> {
        self.refused.borrow_mut().pop()
    }

    /// Hands a place's puts to the provider. They are gone from here unless it answers
    /// [`AGAIN`].
    fn write(&self, place: usize, held: &mut Gathered) -> isize {
        let ep = self.provider.ep;
        let rc = if held.count == 1 {
            let (start, remote) = (held.bytes.as_ptr(), held.iov[0]);
            // SAFETY: [DEST], [LIMIT], as the put had it.
            unsafe { self.provider.inject(start, held.len, held.dest, remote.addr, remote.key) }
        } else {
            let bytes = sys::iovec { iov_base: held.bytes.as_mut_ptr().cast(), iov_len: held.len };
            let msg = sys::fi_msg_rma {
                msg_iov: &bytes,
                desc: &mut null_mut(),
                iov_count: 1,
                addr: held.dest,
                rma_iov: held.iov.as_ptr(),
                rma_iov_count: held.count,
                context: null_mut(),
                data: 0,
            };
            // SAFETY: [DEST]; the endpoint is enabled and has RMA; all is copied at the call
            // (fi_rma(3), FI_INJECT), and no more than an inject takes.
            unsafe { ffi::fi_writemsg(ep, &msg, sys::FI_INJECT) }
        };
        if rc != AGAIN {
            self.empty(place, held);
        }
        if rc != 0 && rc != AGAIN {
            // The next put hears what the provider says.
            held.dest = NOBODY;
        }
        rc
    }

    fn empty(&self, place: usize, held: &mut Gathered) {
        held.count = 0;
        held.len = 0;
        self.held.set(self.held.get() & !(1 << place));
    }

    /// The same, where nobody waits for the answer. Returns false if they are still here.
    fn write_or_tell(&self, place: usize, held: &mut Gathered) -> bool {
        let dest = held.dest;
        match self.write(place, held) {
            0 => true,
            AGAIN => false,
            rc => {
                self.refused.borrow_mut().push((dest, rc));
                true
            }
        }
    }

    /// # Safety
    /// \[DEST\], \[BUF\], \[LIMIT\].
    unsafe fn put(&self, buf: *const u8, len: usize, dest: u64, addr: u64, key: u64) -> isize {
        let place = place_of(dest);
        let (entries, bytes) = self.limit;
        // SAFETY: the endpoint's owner is here, and nobody below comes back.
        let held = unsafe { &mut *self.places[place].get() };
        if held.dest != dest {
            // (A peer that takes nothing does not keep puts from the others.)
            let free = held.count == 0 || self.write_or_tell(place, held);
            // SAFETY: the caller's.
            let rc = unsafe { self.provider.inject(buf, len, dest, addr, key) };
            if free && rc == 0 {
                held.dest = dest;
            }
            return rc;
        }
        if held.count == entries || held.len + len > bytes {
            match self.write(place, held) {
                0 => {}
                rc => return rc,
            }
        }
        held.iov[held.count] = sys::fi_rma_iov { addr, len, key };
        // SAFETY: [BUF]; with this one they are no more bytes than an inject, which are
        // no more than the place has.
        unsafe { held.bytes.as_mut_ptr().add(held.len).copy_from_nonoverlapping(buf, len) };
        held.len += len;
        held.count += 1;
        self.held.set(self.held.get() | 1 << place);
        if held.count < entries && held.len < bytes {
            return 0;
        }
        match self.write(place, held) {
            // They stay, this one with them.
            AGAIN => 0,
            rc => rc,
        }
    }
}

fn place_of(dest: u64) -> usize {
    dest as usize % PLACES
}

/// # Safety
/// `this` is a [`Gather`] of an open endpoint, whose owner calls; the rest as fi_rma(3)
/// asks of `fi_inject_write`.
unsafe extern "C" fn gather(
    this: *mut sys::fid_ep,
    buf: *const c_void,
    len: usize,
    dest: u64,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: `handle` is the only one to give this function, with its own address,
    // and lives as long as the endpoint; the rest is the caller's.
    unsafe { (*this.cast::<Gather>()).put(buf.cast(), len, dest, addr, key) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const ERROR: isize = -5;

    /// A provider that notes what it is handed, and answers what it is told to.
    #[repr(C)]
    struct FakeProvider {
        ep: sys::fid_ep,
        operations: Box<sys::fi_ops_rma>,
        answers: Vec<isize>,
        asked: usize,
        /// To whom, where, what; in the order of the calls.
        taken: Vec<(u64, u64, Vec<u8>)>,
        refused: Vec<(u64, u64)>,
    }

    impl FakeProvider {
        fn new(answers: Vec<isize>) -> Box<FakeProvider> {
            // SAFETY: null pointers and functions that are not there.
            let (ep, mut operations) = unsafe {
                (std::mem::zeroed::<sys::fid_ep>(), Box::new(std::mem::zeroed::<sys::fi_ops_rma>()))
            };
            operations.writemsg = Some(fake_writemsg);
            let (taken, refused) = (Vec::new(), Vec::new());
            let mut fake =
                Box::new(FakeProvider { ep, operations, answers, asked: 0, taken, refused });
            fake.ep.rma = &raw mut *fake.operations;
            fake
        }

        fn take(&mut self, dest: u64, iov: &[sys::fi_rma_iov], mut bytes: &[u8]) -> isize {
            let answer = self.answers.get(self.asked).copied().unwrap_or(0);
            self.asked += 1;
            for remote in iov {
                let (own, rest) = bytes.split_at(remote.len);
                match answer {
                    0 => self.taken.push((dest, remote.addr, own.to_vec())),
                    ERROR => self.refused.push((dest, remote.addr)),
                    _ => {}
                }
                bytes = rest;
            }
            assert!(bytes.is_empty() && !iov.is_empty());
            answer
        }
    }

    unsafe extern "C" fn fake_writemsg(
        ep: *mut sys::fid_ep,
        msg: *const sys::fi_msg_rma,
        flags: u64,
    ) -> isize {
        // SAFETY: of the tests below, whose fake begins with the endpoint.
        unsafe {
            let msg = &*msg;
            assert_eq!((flags, msg.iov_count), (sys::FI_INJECT, 1));
            let from = &*msg.msg_iov;
            let iov = std::slice::from_raw_parts(msg.rma_iov, msg.rma_iov_count);
            let bytes = std::slice::from_raw_parts(from.iov_base.cast::<u8>(), from.iov_len);
            (*ep.cast::<FakeProvider>()).take(msg.addr, iov, bytes)
        }
    }

    unsafe extern "C" fn fake_inject(
        ep: *mut sys::fid_ep,
        buf: *const c_void,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: as above.
        unsafe {
            let bytes = std::slice::from_raw_parts(buf.cast::<u8>(), len);
            let remote = sys::fi_rma_iov { addr, len, key };
            (*ep.cast::<FakeProvider>()).take(dest, &[remote], bytes)
        }
    }

    fn over(fake: &mut FakeProvider, entries: usize, inject: usize) -> Box<Gather> {
        let provider = InjectHandle { inject: fake_inject, ep: std::ptr::from_mut(fake).cast() };
        Gather::new(provider, entries, inject).unwrap()
    }

    fn put(gather: &Gather, bytes: &[u8], dest: u64, addr: u64) -> isize {
        // SAFETY: the fake takes any destination; the bytes are there.
        unsafe { gather.handle().inject(bytes.as_ptr(), bytes.len(), dest, addr, 0) }
    }

    /// The first is the provider's at once, the second waits.
    fn put_twice(gather: &Gather, dest: u64) {
        for number in 0..2 {
            assert_eq!(put(gather, &[1; 8], dest, number), 0);
        }
    }

    #[test]
    fn a_full_write_goes_at_once_and_another_waits_until_it_is_sent() {
        let mut fake = FakeProvider::new(Vec::new());
        let gather = over(&mut fake, 4, 64);
        assert_eq!(put(&gather, &[0; 8], 3, 0), 0);
        assert_eq!((fake.asked, gather.holds_any()), (1, false), "the first waits for none");
        for number in 1..7 {
            assert_eq!(put(&gather, &[number as u8; 8], 3, number), 0);
        }
        assert_eq!((fake.asked, fake.taken.len(), gather.holds_any()), (2, 5, true));
        assert_eq!(gather.send(4), 0, "of a peer that nothing is gathered for");
        assert_eq!(fake.asked, 2);
        assert_eq!(gather.send(3), 0);
        assert_eq!((fake.asked, fake.taken.len(), gather.holds_any()), (3, 7, false));
    }

    #[test]
    fn a_peer_that_takes_nothing_keeps_no_put_from_another() {
        let mut fake = FakeProvider::new(vec![0, AGAIN, 0]);
        let gather = over(&mut fake, 4, 64);
        let other = 1 + PLACES as u64;
        put_twice(&gather, 1);
        assert_eq!(put(&gather, &[2; 8], other, 20), 0);
        assert_eq!(fake.taken, [(1, 0, vec![1; 8]), (other, 20, vec![2; 8])]);
        gather.send_all();
        assert_eq!(fake.taken.last(), Some(&(1, 1, vec![1; 8])));
    }

    #[test]
    fn the_first_put_to_a_peer_is_answered_by_the_provider() {
        let mut fake = FakeProvider::new(vec![AGAIN, ERROR]);
        let gather = over(&mut fake, 4, 64);
        assert_eq!([AGAIN, ERROR, 0].map(|_| put(&gather, &[1; 8], 1, 0)), [AGAIN, ERROR, 0]);
        assert!(!gather.holds_any());
    }

    #[test]
    fn a_write_that_is_refused_later_is_told_with_its_peer() {
        let mut fake = FakeProvider::new(vec![0, ERROR]);
        let gather = over(&mut fake, 4, 64);
        put_twice(&gather, 7);
        gather.send_all();
        assert_eq!((gather.take_refused(), gather.take_refused()), (Some((7, ERROR)), None));
        assert!(!gather.holds_any());
    }

    #[test]
    fn nothing_is_kept_for_the_dead() {
        let mut fake = FakeProvider::new(vec![0, AGAIN]);
        let gather = over(&mut fake, 4, 64);
        put_twice(&gather, 7);
        gather.send_all();
        gather.forget(8);
        assert!(gather.holds_any());
        gather.forget(7);
        assert!(!gather.holds_any());
        assert_eq!(put(&gather, &[1; 8], 7, 2), 0);
        assert_eq!((fake.taken.len(), gather.holds_any()), (2, false), "it is as the first");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u64, usize),
        Send(u64),
        SendAll,
    }

    fn step() -> impl Strategy<Value = Step> {
        let dest = 0..2 * PLACES as u64 + 3;
        prop_oneof![
            8 => (dest.clone(), 1..=64_usize).prop_map(|(dest, len)| Step::Put(dest, len)),
            2 => (0..2_u64, 1..=9_usize).prop_map(|(dest, len)| Step::Put(dest, len)),
            1 => dest.prop_map(Step::Send),
            1 => Just(Step::SendAll),
        ]
    }

    proptest! {
        /// Each put that was accepted is handed over once, whole, in order towards its
        /// peer, or refused and the peer told; all of them before `send` says so.
        #[test]
        fn what_is_accepted_is_handed_over_once_and_in_order(
            steps in prop::collection::vec(step(), 1..200),
            answers in prop::collection::vec(
                prop_oneof![6 => Just(0), 2 => Just(AGAIN), 1 => Just(ERROR)], 0..60),
            entries in 2..=MOST,
        ) {
            let mut fake = FakeProvider::new(answers);
            let gather = over(&mut fake, entries, 64);
            let mut accepted = BTreeMap::new();
            let mut told = Vec::new();
            let bytes_of = |number: usize, len: usize| vec![number as u8; len];
            for (number, step) in steps.iter().enumerate() {
                match *step {
                    Step::Put(dest, len) => {
                        match put(&gather, &bytes_of(number, len), dest, number as u64) {
                            0 => drop(accepted.insert(number as u64, (dest, len))),
                            AGAIN => {}
                            _ => told.push(dest),
                        }
                    }
                    Step::Send(dest) => match gather.send(dest) {
                        0 => {
                            let mine = accepted.iter().filter(|(_, to)| to.0 == dest);
                            let over = |number: u64| {
                                fake.taken.iter().any(|taken| taken.1 == number)
                                    || fake.refused.contains(&(dest, number))
                            };
                            prop_assert!(mine.into_iter().all(|(&number, _)| over(number)));
                        }
                        AGAIN => {}
                        _ => told.push(dest),
                    },
                    Step::SendAll => gather.send_all(),
                }
            }
            while gather.holds_any() {
                gather.send_all();
            }
            told.extend(std::iter::from_fn(|| gather.take_refused()).map(|(dest, _)| dest));
            let mut last = BTreeMap::new();
            for (dest, number, bytes) in &fake.taken {
                let put = accepted.remove(number);
                prop_assert_eq!(put, Some((*dest, bytes.len())), "{}", number);
                prop_assert_eq!(bytes, &bytes_of(*number as usize, bytes.len()));
                prop_assert!(last.insert(*dest, *number) < Some(*number));
            }
            for (number, (dest, _)) in accepted {
                prop_assert!(fake.refused.contains(&(dest, number)), "{} is lost", number);
                prop_assert!(told.contains(&dest), "{} was not told", dest);
            }
        }
    }
}
