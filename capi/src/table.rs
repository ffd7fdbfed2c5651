//! Handles: the owning thread, the object, and a check that it still exists.
//!
//! A handle is 64 bits: kind, owner, generation, place. The owner is the thread
//! that opened the context, or the one table of the devices whose calls are
//! serialized. What a thread made is found in its own table, without a lock;
//! handles of another thread are told by their owner and refused.

use crate::abi::*;
use crate::error::Fail;
use crate::objects::{Comm, Context, Device, Win};
use crate::operation::{Matched, Operation};
use crate::slab::{GENERATIONS, PLACES, Slab};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use transport::datatype::Layout;
use transport::rankmap::RankMap;

const OWNER_AT: u32 = PLACES + GENERATIONS;
const OWNERS: u64 = 0xffff;
const KIND_AT: u32 = 60;
/// The owner of devices whose calls are serialized among threads.
const SERIALIZED: u16 = 0xffff;
/// The owner of what all threads may use.
const ALL: u16 = 0;

/// A handle type of C.
pub(crate) trait Handle: Copy {
    const KIND: u64;
    const NAME: &'static str;
    fn id(self) -> u64;
    fn of(id: u64) -> Self;
}

macro_rules! handles {
    ($($ty:ident $kind:literal $name:literal;)*) => {
        $(impl Handle for $ty {
            const KIND: u64 = $kind;
            const NAME: &'static str = $name;
            fn id(self) -> u64 {
                self.id
            }
            fn of(id: u64) -> Self {
                $ty { id }
            }
        })*
        fn name_of(kind: u64) -> &'static str {
            match kind {
                $($kind => $name,)*
                _ => "Rankway",
            }
        }
    };
}

handles! {
    rankway_device_t 1 "device";
    rankway_context_t 2 "context";
    rankway_comm_t 3 "communicator";
    rankway_win_t 4 "window";
    rankway_request_t 5 "request";
    rankway_message_t 6 "message";
    rankway_rankmap_t 7 "rank map";
    rankway_type_t 8 "datatype";
}

/// The objects of one thread, or of all threads of serialized devices.
#[derive(Default)]
pub(crate) struct Table {
    contexts: Objects<Rc<dyn Context>>,
    comms: Objects<Rc<dyn Comm>>,
    wins: Objects<Rc<dyn Win>>,
    requests: Objects<Operation>,
    messages: Objects<Matched>,
}

struct Objects<T>(RefCell<Slab<T>>);

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Objects(RefCell::new(Slab::new()))
    }
}

/// An object of a table.
pub(crate) trait TableObject: Sized {
    type Handle: Handle;
    fn slab(table: &Table) -> &RefCell<Slab<Self>>;
}

macro_rules! table_objects {
    ($($ty:ty, $handle:ident, $field:ident;)*) => {
        $(impl TableObject for $ty {
            type Handle = $handle;
            fn slab(table: &Table) -> &RefCell<Slab<Self>> {
                &table.$field.0
            }
        })*
    };
}

table_objects! {
    Rc<dyn Context>, rankway_context_t, contexts;
    Rc<dyn Comm>, rankway_comm_t, comms;
    Rc<dyn Win>, rankway_win_t, wins;
    Operation, rankway_request_t, requests;
    Matched, rankway_message_t, messages;
}

/// Access to a table, until dropped.
pub(crate) struct TableGuard {
    table: &'static Table,
    owner: u16,
    /// The table of serialized devices is held and to be released.
    holds: bool,
}

impl Drop for TableGuard {
    fn drop(&mut self) {
        if self.holds {
            HOLDER.store(0, Ordering::Release);
        }
    }
}

thread_local! {
    /// This thread's number and objects, never given back: objects end by their
    /// own calls, not with the thread.
    static THREAD_TABLE: Cell<Option<(u16, &'static Table)>> = const { Cell::new(None) };
    /// Its address identifies the thread.
    static THREAD_MARKER: Cell<u8> = const { Cell::new(0) };
}

/// The thread inside a call on a serialized device; 0: none.
static HOLDER: AtomicUsize = AtomicUsize::new(0);

struct Serialized(Table);

// SAFETY: entered only by the thread in `HOLDER`, one at a time; nothing on a
// context is bound to its thread otherwise (`transport::device::Shared`).
unsafe impl Sync for Serialized {}
// SAFETY: as above.
unsafe impl Send for Serialized {}

fn own() -> Result<(u16, &'static Table), Fail> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    if let Some(mine) = THREAD_TABLE.get() {
        return Ok(mine);
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let owner = u16::try_from(number).ok().filter(|&n| n < SERIALIZED).ok_or_else(|| {
        let why = "65,534 threads have opened contexts, and no more can";
        Fail::new(rankway_code::RANKWAY_ERR_THREAD, why)
    })?;
    let mine = (owner, &*Box::leak(Box::<Table>::default()));
    THREAD_TABLE.set(Some(mine));
    Ok(mine)
}

/// Enters the table of serialized devices.
fn enter_serialized() -> Result<TableGuard, Fail> {
    static TABLE: OnceLock<Serialized> = OnceLock::new();
    let table = &TABLE.get_or_init(|| Serialized(Table::default())).0;
    let me = THREAD_MARKER.with(|me| std::ptr::from_ref(me).addr());
    let acquired = HOLDER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
    match acquired {
        Ok(_) => Ok(TableGuard { table, owner: SERIALIZED, holds: true }),
        // A handler calls.
        Err(holder) if holder == me => Ok(TableGuard { table, owner: SERIALIZED, holds: false }),
        Err(_) => {
            let why = "another thread is within a call on this device; take turns, or open it with \
                       RANKWAY_THREAD_MULTIPLE and a context for each";
            Err(Fail::new(rankway_code::RANKWAY_ERR_THREAD, why))
        }
    }
}

#[cold]
fn refuse<H: Handle>(why: std::fmt::Arguments<'_>) -> Fail {
    Fail::new(rankway_code::RANKWAY_ERR_HANDLE, format!("the {} handle {why}", H::NAME))
}

fn check_kind<H: Handle>(handle: H) -> Result<(), Fail> {
    let id = handle.id();
    match id >> KIND_AT {
        _ if id == 0 => Err(refuse::<H>(format_args!("is null"))),
        kind if kind == H::KIND => Ok(()),
        kind if (1..=8).contains(&kind) => {
            Err(refuse::<H>(format_args!("is a {} handle", name_of(kind))))
        }
        _ => Err(refuse::<H>(format_args!("is no handle of Rankway"))),
    }
}

#[cold]
fn stale<H: Handle>() -> Fail {
    refuse::<H>(format_args!("names an object that was freed, or never made"))
}

impl TableGuard {
    /// The table for what is made on a new context.
    pub(crate) fn new(is_serialized: bool) -> Result<TableGuard, Fail> {
        if is_serialized {
            return enter_serialized();
        }
        let (owner, table) = own()?;
        Ok(TableGuard { table, owner, holds: false })
    }

    /// The table a handle is of.
    pub(crate) fn of<H: Handle>(handle: H) -> Result<TableGuard, Fail> {
        check_kind(handle)?;
        let owner = (handle.id() >> OWNER_AT & OWNERS) as u16;
        if owner == SERIALIZED {
            return enter_serialized();
        }
        match THREAD_TABLE.get() {
            Some((mine, table)) if mine == owner => Ok(TableGuard { table, owner, holds: false }),
            _ => {
                let why = format!(
                    "the {} belongs to another thread, the one that opened its context; call \
                     there, or open the device with RANKWAY_THREAD_SERIALIZED",
                    H::NAME
                );
                Err(Fail::new(rankway_code::RANKWAY_ERR_THREAD, why))
            }
        }
    }

    pub(crate) fn insert<T: TableObject>(&self, value: T) -> Result<T::Handle, Fail> {
        let number = T::slab(self.table).borrow_mut().insert(value);
        handle(number, self.owner)
    }

    /// A clone of an object's reference.
    pub(crate) fn get<T: TableObject + Clone>(&self, handle: T::Handle) -> Result<T, Fail> {
        let found = T::slab(self.table).borrow_mut().get(handle.id()).cloned();
        found.ok_or_else(stale::<T::Handle>)
    }

    /// Takes an object out for a call, with its number kept.
    pub(crate) fn take<T: TableObject>(&self, handle: T::Handle) -> Result<T, Fail> {
        let found = T::slab(self.table).borrow_mut().take(handle.id());
        found.ok_or_else(stale::<T::Handle>)
    }

    pub(crate) fn restore<T: TableObject>(&self, handle: T::Handle, value: T) {
        T::slab(self.table).borrow_mut().restore(handle.id(), value);
    }

    /// Ends a handle.
    pub(crate) fn remove<T: TableObject>(&self, handle: T::Handle) -> Option<T> {
        T::slab(self.table).borrow_mut().remove(handle.id())
    }

    /// Lists the objects of a context that still exist, for a message.
    pub(crate) fn objects_on(&self, context_id: usize) -> Option<String> {
        let table = self.table;
        let of = |n: usize, name: &str| (n > 0).then(|| format!("{n} {name}"));
        let comms = table.comms.0.borrow().iter().filter(|c| c.context_id() == context_id).count();
        let wins = table.wins.0.borrow().iter().filter(|w| w.context_id() == context_id).count();
        let requests =
            table.requests.0.borrow().iter().filter(|r| r.context_id == context_id).count();
        let messages =
            table.messages.0.borrow().iter().filter(|m| m.context_id == context_id).count();
        let all = [
            of(comms, "communicators"),
            of(wins, "windows"),
            of(requests, "requests"),
            of(messages, "messages"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// A reference to an object, and access to its table; dropped in this order.
pub(crate) struct Found<T> {
    object: T,
    pub(crate) guard: TableGuard,
}

impl<T> Deref for Found<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// Looks an object up in the table of its owner.
pub(crate) fn find<T: TableObject + Clone>(handle: T::Handle) -> Result<Found<T>, Fail> {
    let guard = TableGuard::of(handle)?;
    let object = guard.get(handle)?;
    Ok(Found { object, guard })
}

/// Takes an object out of the table of its owner, and ends its handle.
pub(crate) fn take<T: TableObject>(handle: T::Handle) -> Result<(TableGuard, T), Fail> {
    let guard = TableGuard::of(handle)?;
    let object = guard.take::<T>(handle)?;
    guard.remove::<T>(handle);
    Ok((guard, object))
}

fn handle<H: Handle>(number: Option<u64>, owner: u16) -> Result<H, Fail> {
    let number = number.ok_or_else(|| {
        let why = format!("there are as many {} handles as there can be; free some", H::NAME);
        Fail::new(rankway_code::RANKWAY_ERR_MEMORY, why)
    })?;
    Ok(H::of(H::KIND << KIND_AT | u64::from(owner) << OWNER_AT | number))
}

/// The objects that all threads may use.
struct Common {
    devices: Slab<Arc<dyn Device>>,
    maps: Slab<Arc<RankMap>>,
    types: Slab<Layout>,
}

static COMMON: Mutex<Common> =
    Mutex::new(Common { devices: Slab::new(), maps: Slab::new(), types: Slab::new() });

fn common() -> MutexGuard<'static, Common> {
    COMMON.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn add_device(device: Arc<dyn Device>) -> Result<rankway_device_t, Fail> {
    let number = common().devices.insert(device);
    handle(number, ALL)
}

pub(crate) fn device(handle: rankway_device_t) -> Result<Arc<dyn Device>, Fail> {
    check_kind(handle)?;
    let found = common().devices.get(handle.id).cloned();
    found.ok_or_else(stale::<rankway_device_t>)
}

pub(crate) fn remove_device(handle: rankway_device_t) {
    let device = common().devices.remove(handle.id);
    // Closed without the lock.
    drop(device);
}

pub(crate) fn add_map(map: RankMap) -> Result<rankway_rankmap_t, Fail> {
    let number = common().maps.insert(Arc::new(map));
    handle(number, ALL)
}

pub(crate) fn map(handle: rankway_rankmap_t) -> Result<Arc<RankMap>, Fail> {
    check_kind(handle)?;
    let found = common().maps.get(handle.id).cloned();
    found.ok_or_else(stale::<rankway_rankmap_t>)
}

pub(crate) fn remove_map(handle: rankway_rankmap_t) -> Result<(), Fail> {
    check_kind(handle)?;
    let map = common().maps.remove(handle.id);
    map.map(drop).ok_or_else(stale::<rankway_rankmap_t>)
}

pub(crate) fn add_type(layout: Layout) -> Result<rankway_type_t, Fail> {
    let number = common().types.insert(layout);
    handle(number, ALL)
}

/// The layout of a datatype; clones share its form.
pub(crate) fn layout(handle: rankway_type_t) -> Result<Layout, Fail> {
    check_kind(handle)?;
    let found = common().types.get(handle.id).cloned();
    found.ok_or_else(stale::<rankway_type_t>)
}

pub(crate) fn remove_type(handle: rankway_type_t) -> Result<(), Fail> {
    check_kind(handle)?;
    let layout = common().types.remove(handle.id);
    // Freed without the lock.
    layout.map(drop).ok_or_else(stale::<rankway_type_t>)
}
