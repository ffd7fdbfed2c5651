//! Tests of flushes.

use super::*;
use crate::boot::alone::Alone;
use crate::boot::simulated::Simulated;
use crate::datatype::{Basic, Layout};
use crate::device::{Context, Device, FRAGMENT};
use crate::netmod::null::Null;
use crate::netmod::{AGAIN, Atomic, Caps, Completion, HEAD, NetError, OpenParams, Providers};
use crate::netmod::{Kind as ElementKind, Op, Transfer, Type};
use crate::rankmap::RankMap;
use crate::rma::atomic::Origin;
use crate::rma::{Assert, Communicator, Window};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

/// A network that holds reads back and fails whoever asks for their end, or, without
/// a place to note them, fails the second operation.
struct Held {
    caps: Caps,
    reads: Option<Reads>,
    /// Polls before the others end.
    polls: AtomicU32,
    /// Calls before there is space for one.
    full: AtomicU32,
    /// Tokens of what is not held back, and how many have ended.
    others: Mutex<(Vec<u64>, u32)>,
}

/// Where held reads may write, and how much.
type Reads = Arc<Mutex<Vec<(usize, usize)>>>;

impl Held {
    fn open(reads: Option<Reads>) -> Rc<Context<Held>> {
        Held::open_late(reads, 0)
    }

    fn open_late(reads: Option<Reads>, polls: u32) -> Rc<Context<Held>> {
        Held::open_full(reads, polls, 0)
    }

    fn open_full(reads: Option<Reads>, polls: u32, full: u32) -> Rc<Context<Held>> {
        let caps = Caps { inject_size: 64, delivers: true, ..Caps::none("held") };
        let (polls, full) = (polls.into(), full.into());
        let held = Held { caps, reads, polls, full, others: Mutex::default() };
        let boot = Arc::new(Alone::new().unwrap());
        Device::open(boot, Some(Arc::new(held)), None, false).unwrap()
    }

    /// Takes an operation, once there is space.
    fn begin(&self, token: u64) -> isize {
        let full = self.full.load(Ordering::Relaxed);
        self.full.store(full.saturating_sub(1), Ordering::Relaxed);
        if full > 0 {
            return AGAIN;
        }
        self.others.lock().unwrap().0.push(token);
        0
    }

    fn error(&self, call: &'static str, text: &str) -> NetError {
        NetError::Call { provider: "held".into(), call, code: -5, text: text.to_owned() }
    }
}

impl Netmod for Held {
    type Endpoint = ();
    type InjectHandle = ();
    type Region = u64;

    const NAME: &'static str = "held";

    fn open_providers(_: &OpenParams) -> Result<Providers<Self>, NetError> {
        Err(NetError::Library("made by the test".to_owned()))
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<(), NetError> {
        Ok(())
    }

    fn address(&self, (): &()) -> Result<Vec<u8>, NetError> {
        Ok(b"held".to_vec())
    }

    fn insert(&self, (): &(), _: &[u8]) -> Result<u64, NetError> {
        Ok(0)
    }

    unsafe fn register(
        self: &Arc<Self>,
        (): &(),
        _: *mut u8,
        _: usize,
        key: u64,
    ) -> Result<u64, NetError> {
        Ok(key)
    }

    fn key(&self, region: &u64) -> u64 {
        *region
    }

    fn inject_handle((): &()) {}

    unsafe fn inject((): (), _: *const u8, _: usize, _: u64, _: u64, _: u64) -> isize {
        0
    }

    unsafe fn write(&self, (): &(), op: Transfer<*const u8>) -> isize {
        self.begin(op.token)
    }

    unsafe fn atomic(&self, (): &(), op: &Atomic) -> isize {
        if self.begin(op.token) == 0 { PENDING } else { AGAIN }
    }

    unsafe fn read(&self, (): &(), op: Transfer<*mut u8>) -> isize {
        let Some(reads) = &self.reads else { return self.begin(op.token) };
        reads.lock().unwrap().push((op.buf.expose_provenance(), op.len));
        0
    }

    fn poll(
        &self,
        (): &(),
        mut complete: impl FnMut(Completion),
        _: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        let (tokens, ended) = &mut *self.others.lock().unwrap();
        let polls = self.polls.load(Ordering::Relaxed);
        if polls > 0 && !tokens.is_empty() {
            self.polls.store(polls - 1, Ordering::Relaxed);
            return Ok(false);
        }
        for token in tokens.drain(..) {
            *ended += 1;
            let failed = (*ended == 2).then(|| self.error("write", "it failed"));
            complete(Completion { token, result: failed.map_or(Ok(()), Err) });
        }
        match &self.reads {
            Some(reads) if !reads.lock().unwrap().is_empty() => Err(self.explain("poll", -5)),
            _ => Ok(false),
        }
    }

    fn explain(&self, call: &'static str, _: isize) -> NetError {
        self.error(call, "a read is held back")
    }
}

/// A locked window over memory that stays.
fn locked(context: &Rc<Context<Held>>, bytes: usize) -> Window<Held> {
    let world = Communicator::world(context);
    let memory = vec![0_u64; bytes / 8].leak();
    // SAFETY: the memory stays.
    let window = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), bytes, 1) }.unwrap();
    window.lock_all().unwrap();
    window
}

/// A flush that fails while its probes are under way leaves what they read
/// into where it is, and so do the ends of the window and of the context.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_flush_that_fails_leaves_the_memory_of_its_probes() {
    let reads = Reads::default();
    let context = Held::open(Some(Arc::clone(&reads)));
    let window = locked(&context, 64);
    window.put(&[1; 8], 0, 0).unwrap();
    let error = window.flush_all().unwrap_err();
    assert!(error.to_string().contains("held back"), "{error}");
    drop(window);
    drop(context);
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    assert!(!reads.is_empty(), "no probe was sent");
    for (at, len) in reads {
        let others: Vec<_> = (0..256).map(|_| Box::new([0_u8; crate::device::PROBE])).collect();
        for other in &others {
            let start = other.as_ptr().addr();
            assert!(start + other.len() <= at || at + len <= start, "it was given away");
        }
        // SAFETY: what is under test: a read may end late. (AddressSanitizer
        // would say what the addresses do not.)
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0xa5, len) };
        drop(others);
    }
}

/// A put that completes is not asked for where the provider delivers; one that gives
/// no completion is, also beside it.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_flush_asks_for_what_does_not_complete() {
    let reads = Reads::default();
    let context = Held::open(Some(Arc::clone(&reads)));
    let window = locked(&context, 512);
    window.put(&[1; 65], 0, 0).unwrap();
    assert_eq!(window.marked(), [(0, TRACKED)]);
    window.flush(0).unwrap();
    assert!(reads.lock().unwrap().is_empty());
    window.mark(0);
    window.put(&[1; 8], 0, 0).unwrap();
    assert_eq!(window.marked(), [(0, INJECTED)]);
    window.flush(0).unwrap_err();
    assert_eq!(reads.lock().unwrap().len(), 1);
    assert_eq!(window.marked(), [(0, INJECTED)], "a flush that failed took it away");
}

/// What one rank's flush has told, the next need not ask; where ranks share a mark it
/// may be another's.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_flush_of_a_rank_takes_its_own_mark_away() {
    let put_and_flush = |ranks: u32, rank: u32| {
        let access = of_many(&RankMap::direct(ranks));
        access.lock_all_with(Assert::NOCHECK).unwrap();
        access.put(&[1; 8], rank, 0).unwrap();
        access.put(&[1; 8], 7, 0).unwrap();
        access.flush(rank).unwrap();
        access.marked().into_iter().map(|(rank, _)| rank).collect::<HashSet<_>>()
    };
    assert_eq!(put_and_flush(256, 255), HashSet::from([7]));
    assert_eq!(put_and_flush(257, 256), HashSet::from([7, 256]));
}

/// One process of a job of 100,000 that never speaks to anybody: the window is its
/// own, and seen as one of all.
fn of_many(map: &RankMap) -> Access<Null> {
    let boot = Arc::new(Simulated::new(100_000, 9, 16).unwrap());
    let context = Device::open(boot, Some(Null::open()), None, false).unwrap();
    let own = RankMap::affine(0, 9, 1, 1).unwrap();
    let own = Communicator::with_id(&context, own, 0, 5);
    let memory = Box::leak(Box::new([0_u64; 8]));
    // SAFETY: the memory stays.
    let window = unsafe { Window::create(&own, memory.as_mut_ptr().cast(), 64, 8) }.unwrap();
    Access::open(&window.state().unwrap(), &context, map).unwrap()
}

/// Of the ranks that share a mark with one that was put to, a flush of all asks
/// those that this process ever spoke to, whatever the map's formula.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_flush_of_all_asks_nobody_it_never_spoke_to() {
    let in_eights = (0..50_000_u32).map(|r| r / 8 * 16 + r % 8);
    for map in [
        RankMap::direct(100_000),
        RankMap::affine(0, 99_999, -2, 50_000).unwrap(),
        RankMap::from_lpids(0, in_eights).unwrap(),
    ] {
        let access = of_many(&map);
        access.lock_all_with(Assert::NOCHECK).unwrap();
        let put = |ranks: &[u32]| ranks.iter().for_each(|&r| access.put(&[1; 8], r, 0).unwrap());
        let marked = || access.marked().into_iter().map(|(rank, _)| rank).collect::<Vec<_>>();
        put(&[5, 40_000, 261, 1_000]);
        assert_eq!(marked(), [5, 40_000, 261, 1_000]);
        access.flush_all().unwrap();
        put(&[261]);
        assert_eq!(marked(), [5, 261], "{:?}", map.model());
        access.flush_all().unwrap();
        assert!(access.marked().is_empty());
    }
    // Ranks of one process, and maps whose inverse takes an index: all of the mark.
    for map in [
        RankMap::affine(0, 7, 0, 600).unwrap(),
        RankMap::from_lpids(0, (0..600).map(|r| r * r % 601)).unwrap(),
    ] {
        let access = of_many(&map);
        access.lock_all_with(Assert::NOCHECK).unwrap();
        access.put(&[1; 8], 300, 0).unwrap();
        let marked = access.marked();
        assert_eq!(marked, [44, 300, 556].map(|r| (r, INJECTED)), "{:?}", map.model());
    }
}

/// A provider may still read those of others, whatever is known of one.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn operands_stay_until_their_own_rank_is_flushed() {
    let access = of_many(&RankMap::direct(4));
    access.cold.stage(1, vec![7; 16].into());
    access.cold.stage(2, vec![9; 32].into());
    for well in [true, false] {
        access.cold.unstage(&[2], well, |_| false);
        assert_eq!(access.cold.staged_bytes.get(), 16);
    }
    access.cold.unstage(&[], true, |_| false);
    assert_eq!(access.cold.staged_bytes.get(), 0);
}

/// An operation that failed before anybody asked, and whose answer nobody asks
/// for any more, fails the flush.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn what_failed_unasked_fails_the_flush() {
    const LONG: usize = 6 * FRAGMENT;
    let put = |start: &dyn Fn(&Access<Held>)| {
        let context = Held::open(None);
        let window = locked(&context, LONG);
        start(&window);
        let error = window.flush_all().unwrap_err();
        assert!(error.to_string().contains("it failed"), "{error}");
    };
    let bytes = [7_u8; 256];
    put(&|access| {
        // SAFETY: the network of this test never reads.
        let [first, second] =
            [0, 1].map(|_| unsafe { access.rput(bytes.as_ptr(), 256, 0, 0) }.unwrap());
        access.context().progress().unwrap();
        first.wait().unwrap();
        drop(second);
    });
    // The first fragment is waited for, to make space for the fourth; the second has
    // failed by then.
    let (element, count) = (Layout::basic(Basic::F64), 4 * FRAGMENT as u64 / 8);
    let from = Layout::vector(count, 1, 2, &element).unwrap();
    let to = Layout::contiguous(count, &element).unwrap();
    let memory = vec![7_u8; 2 * LONG];
    put(&|access| access.put_layout(&memory, 0, &from, 0, 0, &to).unwrap());
}
/// What the progress hook puts while a flush waits, or another thread: the next flush asks for it.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn what_is_put_while_a_flush_waits_is_asked_for_by_the_next() {
    for all in [false, true] {
        let context = Held::open_late(None, 2000);
        let window = Rc::new(locked(&context, 64));
        let (other, once) = (Rc::clone(&window), Cell::new(true));
        context.set_progress_hook(move || {
            if once.take() {
                other.put(&[2; 8], 0, 8).unwrap();
            }
        });
        window.put(&[1; 8], 0, 0).unwrap();
        if all {
            window.flush_all().unwrap()
        } else {
            window.flush(0).unwrap()
        };
        assert_eq!(window.marked(), [(0, INJECTED)], "{all}");
    }
}

/// What waits for space while another thread flushes is issued after that: the next flush asks
/// for it.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn what_waits_for_space_while_a_flush_comes_is_asked_for_by_the_next() {
    let bytes = [7_u8; 256];
    let put = |access: &Access<Held>| access.put(&bytes, 0, 0).unwrap();
    let get = |access: &Access<Held>| access.get(&mut [0; 256], 0, 0).unwrap();
    let rput = |access: &Access<Held>| {
        // SAFETY: the network of this test never reads.
        unsafe { access.rput(bytes.as_ptr(), 256, 0, 0) }.unwrap().wait().unwrap();
    };
    let put_layout = |access: &Access<Held>| {
        let element = Layout::basic(Basic::F64);
        let from = Layout::vector(8, 1, 2, &element).unwrap();
        let to = Layout::contiguous(8, &element).unwrap();
        access.put_layout(&bytes, 0, &from, 0, 0, &to).unwrap();
    };
    let accumulate = |access: &Access<Held>| {
        let remote = access.target(0, 0).unwrap().remote().unwrap();
        let (kind, ty, op) = (ElementKind::Update, Type::U64, Op::Sum);
        let (operand, compare, result) = (bytes.as_ptr(), std::ptr::null(), std::ptr::null_mut());
        let origin = Origin { kind, ty, op, operand, compare, result, count: 1 };
        // SAFETY: the operand is there, and the network takes one.
        unsafe { access.elements_by_provider(&origin, &remote, 1, &mut None) }.unwrap();
    };
    type Start<'a> = &'a dyn Fn(&Access<Held>);
    let all: [(&str, Start<'_>); 5] = [
        ("put", &put),
        ("get", &get),
        ("rput", &rput),
        ("put_layout", &put_layout),
        ("accumulate", &accumulate),
    ];
    for (what, start) in all {
        let context = Held::open_full(None, 0, 2000);
        let window = Rc::new(locked(&context, 512));
        let (other, flushed) = (Rc::clone(&window), Rc::new(Cell::new(false)));
        let once = Rc::clone(&flushed);
        context.set_progress_hook(move || {
            if !once.replace(true) {
                other.flush(0).unwrap();
            }
        });
        start(&window);
        assert!(flushed.get(), "{what}: it did not wait");
        assert_eq!(window.marked(), [(0, TRACKED)], "{what}");
    }
}

/// Which window an operation was of is not known: each that was there is told.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn what_failed_fails_the_flush_of_the_window_that_it_was_of() {
    let context = Held::open(None);
    let [of, other] = [(); 2].map(|()| locked(&context, 512));
    let bytes = [7_u8; 256];
    for _ in 0..2 {
        // SAFETY: the network of this test never reads.
        unsafe { of.put_nb(bytes.as_ptr(), 256, 0, 0).unwrap() };
    }
    context.progress().unwrap();
    other.flush_all().unwrap_err();
    let error = of.flush(0).unwrap_err();
    assert!(error.to_string().contains("it failed"), "{error}");
    locked(&context, 512).flush_all().unwrap();
    of.flush_all().unwrap();
}
