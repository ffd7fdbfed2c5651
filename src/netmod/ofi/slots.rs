//! Contexts of operations in flight, found again by their address.
//!
//! One array for all: tracked operations, bulk receives and packet receives,
//! each in a range of its own, so that receives that wait for a peer never keep
//! a send or a flush from being issued. A slot is initialised on first use.
//! Never calls the provider.

use super::constants::{BULK, RING, TRACKED};
use super::region::Region;
use crate::netmod::HEAD;
use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

const ALL: usize = TRACKED + BULK + RING;

/// An operation under way; its address is the operation's context.
#[repr(C)]
pub(super) struct Slot {
    /// The provider's own while the operation is under way (`FI_CONTEXT2`).
    context: [*mut c_void; 8],
    /// The caller's.
    pub(super) token: u64,
    /// The peer's address.
    pub(super) dest: u64,
    /// Bytes that must arrive in a bulk receive.
    pub(super) len: usize,
    /// Its buffer is the endpoint's, and no token comes back.
    pub(super) internal: bool,
    /// Under way.
    busy: bool,
    /// A packet's head, where the body is sent from the caller's memory.
    pub(super) head: [u8; HEAD],
    /// Local buffers registered for this operation.
    pub(super) regions: Vec<Region>,
    /// Where the bounce buffer's bytes go, one piece after the other.
    pub(super) copy_to: Vec<(*mut u8, usize)>,
    /// Where in the bounce buffer those bytes begin.
    pub(super) copy_from: usize,
}

/// The operation that a context belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// A tracked operation.
    Tracked,
    /// A bulk receive.
    Bulk,
    /// The packet receive of this number.
    Packet(usize),
}

/// The slots of an endpoint.
pub(super) struct Slots {
    cells: Box<[UnsafeCell<MaybeUninit<Slot>>]>,
    tracked: RefCell<Pool>,
    bulk: RefCell<Pool>,
}

/// The free slots of a range.
struct Pool {
    free: Vec<u16>,
    /// From here to the end no slot was ever used.
    fresh: usize,
    begin: usize,
    end: usize,
}

impl Pool {
    fn new(begin: usize, len: usize) -> RefCell<Pool> {
        RefCell::new(Pool { free: Vec::new(), fresh: begin, begin, end: begin + len })
    }
}

impl Slots {
    pub(super) fn new() -> Slots {
        let cells = Box::new_uninit_slice(ALL);
        // SAFETY: a cell of something uninitialised needs no initialisation.
        let cells = unsafe { cells.assume_init() };
        Slots { cells, tracked: Pool::new(0, TRACKED), bulk: Pool::new(TRACKED, BULK) }
    }

    fn pool(&self, index: u16) -> &RefCell<Pool> {
        if usize::from(index) < TRACKED { &self.tracked } else { &self.bulk }
    }

    /// A slot for a tracked operation.
    #[inline]
    pub(super) fn tracked(&self) -> Option<(u16, &mut Slot)> {
        self.take(&self.tracked)
    }

    /// A slot for a bulk receive.
    pub(super) fn bulk(&self) -> Option<(u16, &mut Slot)> {
        self.take(&self.bulk)
    }

    /// Returns true if a bulk receive is posted.
    #[cold]
    pub(super) fn has_bulk(&self) -> bool {
        let Pool { free, fresh, begin, .. } = &*self.bulk.borrow();
        fresh - begin > free.len()
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "each slot has one user at a time")]
    fn take(&self, pool: &RefCell<Pool>) -> Option<(u16, &mut Slot)> {
        let mut pool = pool.borrow_mut();
        let index = match pool.free.pop() {
            Some(index) => index,
            None => self.make(&mut pool)?,
        };
        // SAFETY: made, and free: nobody else refers to it until it is given
        // back, and the endpoint has one owner at a time.
        let slot = unsafe { (*self.cells[usize::from(index)].get()).assume_init_mut() };
        slot.busy = true;
        slot.internal = false;
        Some((index, slot))
    }

    #[cold]
    fn make(&self, pool: &mut Pool) -> Option<u16> {
        if pool.fresh == pool.end {
            return None;
        }
        let index = pool.fresh;
        pool.fresh += 1;
        // SAFETY: beyond `fresh`, so nobody has referred to it ever.
        unsafe { (*self.cells[index].get()).write(Slot::new()) };
        u16::try_from(index).ok()
    }

    /// Ends the use of a slot.
    #[inline]
    pub(super) fn release(&self, index: u16, slot: &mut Slot) {
        slot.busy = false;
        slot.regions.clear();
        slot.copy_to.clear();
        self.pool(index).borrow_mut().free.push(index);
    }

    /// The context of a packet receive.
    pub(super) fn packet(&self, number: usize) -> *mut c_void {
        self.cells[TRACKED + BULK + number % RING].get().cast()
    }

    /// The slot of a context, if it is one of ours: providers have been seen to
    /// hand out contexts of their own for injected puts.
    #[inline]
    pub(super) fn find(&self, context: *mut c_void) -> Option<(SlotKind, u16)> {
        let offset = context.addr().wrapping_sub(self.cells.as_ptr().addr());
        let index = offset / size_of::<Slot>();
        if index >= ALL || !offset.is_multiple_of(size_of::<Slot>()) {
            return None;
        }
        let what = match index {
            i if i < TRACKED => SlotKind::Tracked,
            i if i < TRACKED + BULK => SlotKind::Bulk,
            i => SlotKind::Packet(i - TRACKED - BULK),
        };
        Some((what, index as u16))
    }

    /// The slot of an operation that is over, or of one that was just refused.
    ///
    /// # Safety
    /// `index` was taken, is not given back yet, and nobody else refers to it.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "each slot has one user at a time")]
    pub(super) unsafe fn get(&self, index: u16) -> &mut Slot {
        // SAFETY: taken, so made; not given back, and nobody else refers to it.
        unsafe { (*self.cells[usize::from(index)].get()).assume_init_mut() }
    }

    /// The context of the operation in flight with this token.
    pub(super) fn context_of(&self, token: u64) -> Option<*mut c_void> {
        let made = |pool: &RefCell<Pool>| pool.borrow().begin..pool.borrow().fresh;
        made(&self.tracked).chain(made(&self.bulk)).find_map(|i| {
            let cell = self.cells[i].get();
            // SAFETY: made; only the endpoint's owner, who is here, changes
            // these two fields.
            let found = unsafe {
                let slot = (*cell).as_ptr();
                (*slot).busy && !(*slot).internal && (*slot).token == token
            };
            found.then_some(cell.cast())
        })
    }

    /// Deregisters what was registered for operations that will not complete.
    pub(super) fn abandon(&mut self) {
        for pool in [&self.tracked, &self.bulk] {
            let made = pool.borrow().begin..pool.borrow().fresh;
            for i in made {
                // SAFETY: made, and ours alone.
                unsafe { self.cells[i].get_mut().assume_init_mut() }.regions.clear();
            }
        }
    }
}

impl Slot {
    fn new() -> Slot {
        Slot {
            context: [null_mut(); 8],
            token: 0,
            dest: 0,
            len: 0,
            internal: false,
            busy: false,
            head: [0; HEAD],
            regions: Vec::new(),
            copy_to: Vec::new(),
            copy_from: 0,
        }
    }

    /// The operation's context.
    pub(super) fn as_context(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for pool in [&self.tracked, &self.bulk] {
            let made = pool.borrow().begin..pool.borrow().fresh;
            for i in made {
                // SAFETY: made, and dropped once.
                unsafe { self.cells[i].get_mut().assume_init_drop() };
            }
        }
    }
}
