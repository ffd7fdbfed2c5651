//! The netmod of ranks that share a process: puts are copies, packets stay in memory.
//!
//! For jobs of more ranks than a machine has room for processes
//! (the boot of the same name), and for tests of the layers above without
//! processes. Each rank has an [`InProcess`] over the network of its job, which all share; an
//! endpoint is a place in the network's table. Every operation is done, and checked against the target's regions, when its call
//! returns.
//!
//! ```
//! use rankway::netmod::{Netmod, in_process::InProcess};
//!
//! let mine = InProcess::open();
//! let theirs = mine.beside();
//! let (me, peer) = (mine.open_endpoint()?, theirs.open_endpoint()?);
//! let mut memory = [0_u8; 8];
//! // SAFETY: the memory outlives its region, which is dropped before it.
//! let region = unsafe { theirs.register(&peer, memory.as_mut_ptr(), 8, 7)? };
//! let dest = mine.insert(&me, &theirs.address(&peer)?)?;
//! let put = |bytes: &[u8], key| {
//!     // SAFETY: the buffer is readable; place and key are looked at.
//!     unsafe { InProcess::inject(InProcess::inject_handle(&me), bytes.as_ptr(), bytes.len(), dest, 2, key) }
//! };
//! assert_eq!(put(&[1, 2], 7), 0);
//! assert!(put(&[1, 2], 8) < 0 && put(&[0; 7], 7) < 0);
//! drop(region);
//! assert_eq!(memory, [0, 0, 1, 2, 0, 0, 0, 0]);
//! # Ok::<(), rankway::netmod::NetError>(())
//! ```

use super::{
    Bulk, Caps, Completion, HEAD, NetError, Netmod, OpenParams, PENDING, Providers, Transfer,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// One rank's part of the network within a process.
#[derive(Debug)]
pub struct InProcess {
    caps: Caps,
    network: Arc<Network>,
    /// Those of all its endpoints.
    regions: Arc<Regions>,
}

/// What the ranks of a job share.
#[derive(Debug, Default)]
struct Network {
    /// By address; `None` where the endpoint was closed.
    places: RwLock<Vec<Option<Arc<Place>>>>,
}

const NAME: &str = "in-process";
/// Longest packet, copied at the call.
const PACKET: usize = 16 << 10;

impl InProcess {
    /// The first rank of a network of its own.
    #[must_use]
    pub fn open() -> Arc<InProcess> {
        InProcess::over(Arc::default())
    }

    /// Another rank of the same network.
    #[must_use]
    pub fn beside(&self) -> Arc<InProcess> {
        InProcess::over(Arc::clone(&self.network))
    }

    fn over(network: Arc<Network>) -> Arc<InProcess> {
        let caps = Caps {
            inject_size: 4096,
            packet_size: PACKET,
            packet_inject: PACKET,
            max_bulk: usize::MAX,
            done_at_call: 0,
            delivers: true,
            ..Caps::none(NAME)
        };
        Arc::new(InProcess { caps, network, regions: Arc::default() })
    }
}

impl Network {
    /// That of a job, which all its ranks in this process get while one of them has it.
    fn of_job(job: u64) -> Arc<Network> {
        static OPEN: Mutex<BTreeMap<u64, Weak<Network>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, network| network.strong_count() > 0);
        if let Some(network) = open.get(&job).and_then(Weak::upgrade) {
            return network;
        }
        let network = Arc::default();
        open.insert(job, Arc::downgrade(&network));
        network
    }

    /// What the endpoint at an address has, if it is open.
    fn place(&self, address: u64) -> Option<Arc<Place>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.get(usize::try_from(address).ok()?)?.clone()
    }

    /// Does `copy` at the target of an operation. Zero, or a negative error number.
    fn at_target(
        &self,
        (dest, addr, key): Target,
        len: usize,
        copy: impl FnOnce(*mut u8),
    ) -> isize {
        let Some(place) = self.place(dest) else { return -(libc::ENOTCONN as isize) };
        // (Held: who deregisters memory waits for copies.)
        let regions = place.regions.lock();
        let Some(region) = regions.get(&key) else { return -(libc::EKEYREJECTED as isize) };
        let start = usize::try_from(addr).ok();
        let inside = |start: &usize| start.checked_add(len).is_some_and(|end| end <= region.len);
        let Some(start) = start.filter(inside) else { return -(libc::EFAULT as isize) };
        copy(region.at(start));
        0
    }
}

/// Address, offset and key of an operation.
type Target = (u64, u64, u64);

/// What an endpoint has for its peers.
#[derive(Debug, Default)]
struct Place {
    regions: Arc<Regions>,
    packets: Mutex<Vec<Packet>>,
    bulk: Mutex<BulkReceives>,
}

/// Bulk messages that an endpoint has asked for.
#[derive(Debug, Default)]
struct BulkReceives {
    /// By tag.
    posted: BTreeMap<u64, (Memory, u64)>,
    /// Tokens of those that have come.
    done: Vec<u64>,
}

type Packet = ([u8; HEAD], Box<[u8]>);

/// Memory of a rank, which another may write to while it is locked.
#[derive(Clone, Copy, Debug)]
struct Memory {
    start: usize,
    len: usize,
}

impl Memory {
    fn new(start: *mut u8, len: usize) -> Memory {
        Memory { start: start.expose_provenance(), len }
    }

    fn at(self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start + offset)
    }
}

/// Memory of a rank by key.
#[derive(Debug, Default)]
struct Regions(Mutex<BTreeMap<u64, Memory>>);

impl Regions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn bulk(&self) -> MutexGuard<'_, BulkReceives> {
        self.bulk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn packets(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a bulk message to where it is waited for. Zero, or a negative error number.
    ///
    /// # Safety
    /// \[BUF\]: the bytes of `op` are readable.
    unsafe fn deliver(&self, op: &Bulk<*const u8>) -> isize {
        let mut bulk = self.bulk();
        let Some(&(memory, token)) = bulk.posted.get(&op.tag) else {
            return -(libc::ENOMSG as isize);
        };
        if memory.len < op.len {
            return -(libc::EMSGSIZE as isize);
        }
        // SAFETY: [BUF] here; there it stays posted while the lock is held, and is as long.
        unsafe { std::ptr::copy(op.buf, memory.at(0), op.len) };
        bulk.posted.remove(&op.tag);
        bulk.done.push(token);
        0
    }
}

/// A rank's end of it.
#[derive(Debug)]
pub struct Endpoint {
    network: Arc<Network>,
    address: u64,
    place: Arc<Place>,
    /// Tokens waiting to be handed back.
    done: RefCell<Vec<u64>>,
    canceled: RefCell<Vec<u64>>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let mut places = self.network.places.write().unwrap_or_else(PoisonError::into_inner);
        places[self.address as usize] = None;
        drop(places);
        // A peer that found the place before that writes to no buffer any more.
        self.place.bulk().posted.clear();
    }
}

/// Memory that peers reach under a key.
#[derive(Debug)]
pub struct Region {
    regions: Arc<Regions>,
    key: u64,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.regions.lock().remove(&self.key);
    }
}

/// The network of an endpoint, for puts.
#[derive(Clone, Copy, Debug)]
pub struct InjectHandle(*const Network);

impl Netmod for InProcess {
    type Endpoint = Endpoint;
    type InjectHandle = InjectHandle;
    type Region = Region;

    const NAME: &'static str = NAME;

    fn open_providers(params: &OpenParams) -> Result<Providers<Self>, NetError> {
        let network = InProcess::over(Network::of_job(params.job));
        Ok(Providers { network: Some(network), node: None })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn flushes(&self) -> bool {
        true
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        let place = Place { regions: Arc::clone(&self.regions), ..Place::default() };
        let place = Arc::new(place);
        let mut places = self.network.places.write().unwrap_or_else(PoisonError::into_inner);
        places.push(Some(Arc::clone(&place)));
        let address = places.len() as u64 - 1;
        let (done, canceled) = Default::default();
        let network = Arc::clone(&self.network);
        Ok(Endpoint { network, address, place, done, canceled })
    }

    fn address(&self, endpoint: &Endpoint) -> Result<Vec<u8>, NetError> {
        Ok(endpoint.address.to_le_bytes().to_vec())
    }

    fn insert(&self, _: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        let places = self.network.places.read().unwrap_or_else(PoisonError::into_inner);
        let address = raw.try_into().ok().map(u64::from_le_bytes);
        let known = |address: &u64| *address < places.len() as u64;
        address.filter(known).ok_or_else(|| NetError::Address {
            provider: NAME.into(),
            reason: format!("{raw:02x?} is no endpoint of this process's network"),
        })
    }

    unsafe fn register(
        self: &Arc<Self>,
        _: &Endpoint,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Region, NetError> {
        match self.regions.lock().entry(key) {
            Entry::Vacant(free) => free.insert(Memory::new(start, len)),
            Entry::Occupied(_) => return Err(self.explain("register", -(libc::EEXIST as isize))),
        };
        Ok(Region { regions: Arc::clone(&self.regions), key })
    }

    fn key(&self, region: &Region) -> u64 {
        region.key
    }

    fn inject_handle(endpoint: &Endpoint) -> InjectHandle {
        InjectHandle(Arc::as_ptr(&endpoint.network))
    }

    unsafe fn inject(
        handle: InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], which keeps its network.
        let network = unsafe { &*handle.0 };
        network.at_target((dest, addr, key), len, |there| {
            // SAFETY: [BUF] here; there it is `len` bytes of a region that stays registered
            // while its lock is held, [MEM].
            unsafe { std::ptr::copy(buf, there, len) }
        })
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        let Transfer { buf, len, dest, addr, key, token } = op;
        let handle = InProcess::inject_handle(endpoint);
        // SAFETY: the endpoint is open; [BUF].
        endpoint.did(unsafe { InProcess::inject(handle, buf, len, dest, addr, key) }, token)
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        let rc = self.network.at_target((op.dest, op.addr, op.key), op.len, |there| {
            // SAFETY: as in `inject`, the other way round.
            unsafe { std::ptr::copy(there, op.buf, op.len) }
        });
        endpoint.did(rc, op.token)
    }

    unsafe fn flush(&self, _: &Endpoint, _dest: u64, _token: u64) -> isize {
        0
    }

    unsafe fn send(
        &self,
        _: &Endpoint,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        _token: u64,
    ) -> isize {
        let Some(place) = self.network.place(dest) else { return -(libc::ENOTCONN as isize) };
        let body = match len {
            0 => Box::default(),
            // SAFETY: [BUF] for the body.
            _ => unsafe { std::slice::from_raw_parts(body, len) }.into(),
        };
        place.packets().push((*head, body));
        0
    }

    unsafe fn send_bulk(&self, _: &Endpoint, op: Bulk<*const u8>) -> isize {
        let Some(place) = self.network.place(op.dest) else { return -(libc::ENOTCONN as isize) };
        // SAFETY: [BUF].
        unsafe { place.deliver(&op) }
    }

    unsafe fn recv_bulk(&self, endpoint: &Endpoint, op: Bulk<*mut u8>) -> isize {
        match endpoint.place.bulk().posted.entry(op.tag) {
            Entry::Vacant(free) => free.insert((Memory::new(op.buf, op.len), op.token)),
            Entry::Occupied(_) => return -(libc::EEXIST as isize),
        };
        PENDING
    }

    fn cancel(&self, endpoint: &Endpoint, token: u64) {
        let mut bulk = endpoint.place.bulk();
        let posted = bulk.posted.iter().find(|(_, (_, posted))| *posted == token);
        if let Some(tag) = posted.map(|(tag, _)| *tag) {
            bulk.posted.remove(&tag);
            endpoint.canceled.borrow_mut().push(token);
        }
    }

    fn poll(
        &self,
        endpoint: &Endpoint,
        mut done: impl FnMut(Completion),
        mut arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        let tokens = std::mem::take(&mut *endpoint.done.borrow_mut());
        let received = std::mem::take(&mut endpoint.place.bulk().done);
        let tokens = tokens.into_iter().chain(received);
        tokens.for_each(|token| done(Completion { token, result: Ok(()) }));
        let canceled = std::mem::take(&mut *endpoint.canceled.borrow_mut());
        canceled.into_iter().for_each(|token| {
            let (provider, code) = (NAME.into(), i64::from(libc::ECANCELED));
            let text = "the receive was canceled".into();
            let error = NetError::Operation { provider, peer: None, code, text };
            done(Completion { token, result: Err(error) });
        });
        let packets = std::mem::take(&mut *endpoint.place.packets());
        packets.iter().for_each(|(head, body)| arrived(head, body));
        Ok(false)
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        let errno = i32::try_from(-code).unwrap_or(libc::EIO);
        let text = match errno {
            libc::ENOTCONN => "the peer has closed its endpoint".into(),
            libc::EKEYREJECTED => "the peer has no memory registered under this key".into(),
            libc::ENOMSG => "the peer waits for no bulk message with this tag".into(),
            libc::EFAULT => "the place is outside the peer's registered memory".into(),
            _ => std::io::Error::from_raw_os_error(errno).to_string(),
        };
        NetError::Call { provider: NAME.into(), call, code: code as i64, text }
    }
}

impl Endpoint {
    /// Keeps the token of what was done.
    fn did(&self, rc: isize, token: u64) -> isize {
        if rc == 0 {
            self.done.borrow_mut().push(token);
        }
        rc
    }
}

#[cfg(all(test, feature = "device"))]
#[allow(clippy::unwrap_used, reason = "a rank that fails ends the test")]
mod tests {
    use super::*;
    use crate::boot::Boot;
    use crate::boot::in_process::Job;
    use crate::device::{self, Context, Options};
    use crate::msg::{Messenger, wait_all};
    use crate::netmod::Op;
    use crate::rma::{Assert, Communicator, ErrorKind, Lock, Window};
    use std::rc::Rc;

    /// (Miri interprets each poll of who waits.)
    const RANKS: u32 = if cfg!(miri) { 2 } else { 3 };

    /// Runs `body` in each rank of a job, with its context.
    fn ranks(body: impl Fn(&Rc<Context<InProcess>>) + Sync) {
        let job = Job::new(RANKS, std::thread::yield_now).unwrap();
        std::thread::scope(|scope| {
            for rank in 0..RANKS {
                let (job, body) = (&job, &body);
                scope.spawn(move || {
                    let boot: Arc<dyn Boot> = job.rank(rank).unwrap();
                    let context = device::open_over(boot, &Options::default()).unwrap();
                    body(&context);
                    // Nobody leaves before all were heard.
                    Communicator::world(&context).barrier().unwrap();
                });
            }
        });
    }

    #[test]
    fn ranks_put_get_and_accumulate() {
        ranks(|context| {
            let world = Communicator::world(context).reversed().unwrap();
            let (me, next) = (world.rank(), (world.rank() + 1) % RANKS);
            let mut memory = vec![0_u64; 1024];
            // SAFETY: the memory is dropped after the window, and not touched before.
            let window = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 8192, 8) };
            let window = window.unwrap();
            window.fence().unwrap();
            window.put(&[me as u8 + 1; 8], next, 0).unwrap();
            window.put(&[me as u8 + 1; 5000], next, 8).unwrap();
            window.accumulate(&[1_u64, 2], Op::Sum, 0, 4).unwrap();
            window.fence().unwrap();
            let mut got = [0; 5000];
            window.read_local(64, &mut got).unwrap();
            let before = (me + RANKS - 1) % RANKS;
            assert_eq!(got, [before as u8 + 1; 5000]);
            if me == 0 {
                window.read_local(32, &mut got[..16]).unwrap();
                let sums = [RANKS, 2 * RANKS].map(|sum| u64::from(sum).to_ne_bytes());
                assert_eq!(got[..16], sums.concat());
            }
            window.get(&mut got[..8], next, 0).unwrap();
            assert_eq!(got[..8], [me as u8 + 1; 8]);
            assert!(matches!(
                window.put(&[1; 9], next, 1023).unwrap_err().kind(),
                ErrorKind::OutOfBounds { .. }
            ));
            window.fence_with(Assert::NOSUCCEED).unwrap();
            for _ in 0..3 {
                window.lock(Lock::Exclusive, 0, Assert::NONE).unwrap();
                window.fetch_and_op(1_u64, Op::Sum, 0, 1000).unwrap();
                window.unlock(0).unwrap();
            }
            world.barrier().unwrap();
            window.read_local(8000, &mut got[..8]).unwrap();
            assert!(me != 0 || got[..8] == u64::from(3 * RANKS).to_ne_bytes());
        });
    }

    #[test]
    fn ranks_send_messages_of_every_length() {
        ranks(|context| {
            let world = Communicator::world(context);
            let messenger = Messenger::open(&world).unwrap();
            let (me, next) = (world.rank(), (world.rank() + 1) % RANKS);
            for (tag, len) in (0..).zip([0, 8, 300, 20_000, 100_000]) {
                let out = vec![me as u8 + 1; len];
                let mut got = vec![0; len];
                // SAFETY: both outlive the wait.
                let pair = unsafe {
                    [
                        messenger
                            .irecv(got.as_mut_ptr(), len, (me + RANKS - 1) % RANKS, tag)
                            .unwrap(),
                        messenger.isend(out.as_ptr(), len, next, tag).unwrap(),
                    ]
                };
                wait_all(pair).unwrap();
                assert_eq!(got, vec![((me + RANKS - 1) % RANKS) as u8 + 1; len]);
            }
        });
    }

    #[test]
    fn wrong_keys_places_and_peers_are_told() {
        let (mine, other) = (InProcess::open(), InProcess::open());
        let theirs = mine.beside();
        let (me, peer) = (mine.open_endpoint().unwrap(), theirs.open_endpoint().unwrap());
        let dest = mine.insert(&me, &theirs.address(&peer).unwrap()).unwrap();
        for raw in [&[][..], &[1, 2, 3], &7_u64.to_le_bytes()] {
            assert!(matches!(mine.insert(&me, raw), Err(NetError::Address { .. })), "{raw:?}");
        }
        // Another job's network is another.
        let stranger = other.open_endpoint().unwrap();
        assert!(other.insert(&stranger, &theirs.address(&peer).unwrap()).is_err());
        let mut memory = [0_u64; 2];
        // SAFETY: the region is dropped before the memory.
        let region = unsafe { theirs.register(&peer, memory.as_mut_ptr().cast(), 16, 3) }.unwrap();
        // Who is refused a key leaves it to whom it is.
        let mut others = [0_u64; 1];
        // SAFETY: it fails.
        let again = unsafe { theirs.register(&peer, others.as_mut_ptr().cast(), 8, 3) };
        assert!(again.is_err());
        let put = |addr, key, dest| {
            let handle = InProcess::inject_handle(&me);
            // SAFETY: the buffer is readable; the rest is looked at.
            unsafe { InProcess::inject(handle, [1; 8].as_ptr(), 8, dest, addr, key) }
        };
        assert_eq!([put(0, 3, dest), put(8, 3, dest)], [0, 0]);
        for (rc, says) in [
            (put(9, 3, dest), "outside"),
            (put(u64::MAX, 3, dest), "outside"),
            (put(0, 4, dest), "no memory registered"),
            (put(0, 3, dest + 5), "closed"),
        ] {
            let error = mine.explain("inject", rc).to_string();
            assert!(error.contains(says), "{error}");
        }
        drop(region);
        assert_eq!(memory, [0x0101_0101_0101_0101; 2]);
        assert!(mine.explain("inject", put(0, 3, dest)).to_string().contains("no memory"));
        assert_eq!(others, [0]);
        drop(peer);
        assert!(mine.explain("inject", put(0, 3, dest)).to_string().contains("closed"));
    }

    /// One that is refused changes nothing of another with its tag.
    #[test]
    fn bulk_messages_of_wrong_tags_and_lengths_are_told() {
        let mine = InProcess::open();
        let theirs = mine.beside();
        let (me, peer) = (mine.open_endpoint().unwrap(), theirs.open_endpoint().unwrap());
        let dest = mine.insert(&me, &theirs.address(&peer).unwrap()).unwrap();
        let (mut into, mut others) = ([0_u8; 8], [0_u8; 8]);
        let post = |buf: &mut [u8], token| {
            let op = Bulk { buf: buf.as_mut_ptr(), len: buf.len(), dest: 0, tag: 5, token };
            // SAFETY: the buffers outlive what is done with them below.
            unsafe { theirs.recv_bulk(&peer, op) }
        };
        let send = |len, tag| {
            let op = Bulk { buf: [7_u8; 9].as_ptr(), len, dest, tag, token: 1 };
            // SAFETY: nine bytes are readable during the call.
            unsafe { mine.send_bulk(&me, op) }
        };
        assert_eq!(post(&mut into, 70), PENDING);
        assert!(post(&mut others, 71) < 0);
        for (rc, says) in [(send(8, 6), "waits for no bulk"), (send(9, 5), "too long")] {
            let error = mine.explain("send_bulk", rc).to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(send(8, 5), 0);
        let mut done = Vec::new();
        theirs.poll(&peer, |it| done.push((it.token, it.result.is_ok())), |_, _| ()).unwrap();
        assert_eq!((done, into, others), (vec![(70, true)], [7; 8], [0; 8]));
    }

    /// A sender that found the place just before its endpoint was closed leaves the buffers,
    /// which may be freed by then.
    #[test]
    fn a_closed_endpoint_waits_for_no_bulk_message() {
        let netmod = InProcess::open();
        let (me, peer) = (netmod.open_endpoint().unwrap(), netmod.open_endpoint().unwrap());
        let dest = netmod.insert(&me, &netmod.address(&peer).unwrap()).unwrap();
        let mut into = [0_u8; 8];
        let op = Bulk { buf: into.as_mut_ptr(), len: 8, dest: 0, tag: 5, token: 70 };
        // SAFETY: the buffer outlives the endpoint.
        assert_eq!(unsafe { netmod.recv_bulk(&peer, op) }, PENDING);
        let place = netmod.network.place(dest).unwrap();
        drop(peer);
        let op = Bulk { buf: [7_u8; 8].as_ptr(), len: 8, dest, tag: 5, token: 1 };
        // SAFETY: eight bytes are readable during the call.
        let rc = unsafe { place.deliver(&op) };
        assert_eq!((rc, into), (-(libc::ENOMSG as isize), [0; 8]));
    }
}
