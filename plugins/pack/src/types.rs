//! The committed types, and whether a call is worth taking.
//!
//! Handles are used again as soon as they were freed: an entry is made when the
//! program commits a type, and dropped before it frees one. A type that was
//! committed out of sight has none, and is left to MPI.

use crate::learn::{self, Learned};
use crate::mpi::{self, Family, Mpi};
use crate::settings::SETTINGS;
use crate::stats::{self, Call, Reason};
use rankway::datatype::Layout;
use rankway_preload::ByHandle;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// Bytes from which `MPI_Pack` and `MPI_Unpack` are taken.
const LEAST_PACKED: u64 = 512;
/// Bytes from which messages are taken.
const LEAST_MESSAGE: u64 = 8192;

/// Mean bytes of a block, and bytes of a message, up to which messages are taken:
/// beyond, MPI packs fragments as fast while the peer unpacks those before, and we
/// pack, send and unpack all of it in turn. (`make bench-preload`.)
fn longest(mpi: &Mpi) -> (u64, u64) {
    match mpi.family {
        Family::OpenMpi => (16, 1 << 20),
        Family::Mpich | Family::Abi => (128, u64::MAX),
    }
}

/// A committed type, learnt when it is first worth it.
struct Entry {
    size: u64,
    learnt: OnceLock<Result<Learnt, Reason>>,
}

struct Learnt {
    layout: Layout,
    grained: bool,
    widest: u64,
    /// The last count asked for, and its layout.
    whole: Mutex<(c_int, Layout)>,
}

impl Learnt {
    /// Returns true if elements lie within each other, as columns do: a walk that
    /// takes one after the other meets every line of memory many times.
    fn interleaves(&self, elements: u64) -> bool {
        let (first, end) = self.layout.true_bounds().unwrap_or_default();
        elements > 1 && end - first > self.layout.extent().abs()
    }

    fn whole(&self, count: c_int) -> Option<Layout> {
        if count == 1 {
            return Some(self.layout.clone());
        }
        let mut last = self.whole.lock().ok()?;
        if last.0 != count {
            *last = (count, Layout::contiguous(count as u64, &self.layout).ok()?);
        }
        Some(last.1.clone())
    }
}

static TYPES: RwLock<Option<ByHandle<Arc<Entry>>>> = RwLock::new(None);

/// How many entries have handles of this kind: most types that a program uses are
/// basic ones, and cost one look here.
static PRESENT: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];

#[inline]
fn present(handle: usize) -> &'static AtomicU32 {
    &PRESENT[(handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 52]
}

fn insert(handle: usize, entry: Entry) {
    let Ok(mut types) = TYPES.write() else { return };
    if types.get_or_insert_default().insert(handle, Arc::new(entry)).is_none() {
        present(handle).fetch_add(1, Ordering::Release);
    }
}

fn remove(handle: usize) {
    let Ok(mut types) = TYPES.write() else { return };
    if types.as_mut().and_then(|types| types.remove(&handle)).is_some() {
        present(handle).fetch_sub(1, Ordering::Release);
    }
}

fn find(handle: usize) -> Option<Arc<Entry>> {
    TYPES.read().ok()?.as_ref()?.get(&handle).cloned()
}

/// The program has committed a type.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn committed(word: usize) {
    let Some(mpi) = wanted() else { return };
    let handle = mpi::handle(word);
    let mut size = 0;
    // SAFETY: [SIG], [MPI].
    unsafe {
        let Some(size_of) = mpi::TYPE_SIZE.get() else { return };
        if learn::is_leaf(mpi, handle) || size_of(handle, &mut size) != 0 || size <= 0 {
            // The handle may have been another's.
            return remove(handle);
        }
    }
    insert(handle, Entry { size: size as u64, learnt: OnceLock::new() });
}

/// The program has made a type of another one, committed if that is.
pub(crate) fn duplicated(word: usize, duplicate: usize) {
    if wanted().is_none() {
        return;
    }
    match find(mpi::handle(word)) {
        Some(of) => {
            insert(mpi::handle(duplicate), Entry { size: of.size, learnt: OnceLock::new() });
        }
        None => remove(mpi::handle(duplicate)),
    }
}

/// The program is about to free a type.
pub(crate) fn freed(word: usize) {
    let handle = mpi::handle(word);
    if present(handle).load(Ordering::Acquire) != 0 {
        remove(handle);
    }
}

/// The program ends: no type is known any more.
pub(crate) fn clear() {
    let Ok(mut types) = TYPES.write() else { return };
    for handle in types.take().into_iter().flat_map(HashMap::into_keys) {
        present(handle).fetch_sub(1, Ordering::Release);
    }
}

/// The library, if anything of it is to be taken.
fn wanted() -> Option<&'static Mpi> {
    if SETTINGS.pack || SETTINGS.messages { mpi::get() } else { None }
}

/// A call that is taken: all its elements as one layout.
pub(crate) struct Chosen {
    pub(crate) mpi: &'static Mpi,
    pub(crate) layout: Layout,
    /// Bytes of the packed stream.
    pub(crate) bytes: usize,
    /// No basic element lies across a multiple of 8 bytes of them.
    pub(crate) grained: bool,
    /// Bytes of the largest basic element.
    pub(crate) widest: u64,
}

/// Bytes of an element of a type that the program has committed.
pub(crate) fn size(word: usize) -> Option<u64> {
    let handle = mpi::handle(word);
    if present(handle).load(Ordering::Acquire) == 0 {
        return None;
    }
    find(handle).map(|entry| entry.size)
}

/// Whether a call is taken, and as what.
///
/// # Safety
/// \[MPI\]
#[inline]
pub(crate) unsafe fn choose(
    call: Call,
    memory: usize,
    count: c_int,
    word: usize,
) -> Option<Chosen> {
    let handle = mpi::handle(word);
    if present(handle).load(Ordering::Acquire) == 0 {
        stats::left(call, Reason::Basic);
        return None;
    }
    // SAFETY: [MPI].
    match unsafe { decide(call, memory, count, handle) } {
        Ok(chosen) => Some(chosen),
        Err(reason) => {
            stats::left(call, reason);
            None
        }
    }
}

/// # Safety
/// \[MPI\]
#[inline(never)]
unsafe fn decide(call: Call, memory: usize, count: c_int, handle: usize) -> Result<Chosen, Reason> {
    let mpi = mpi::get().ok_or(Reason::Off)?;
    let (on, least) = match call.is_packing() {
        true => (SETTINGS.pack, LEAST_PACKED),
        false => (SETTINGS.messages, LEAST_MESSAGE),
    };
    if !on {
        return Err(Reason::Off);
    }
    let entry = find(handle).ok_or(Reason::Basic)?;
    let elements = u64::try_from(count).map_err(|_| Reason::Arguments)?;
    let bytes = entry.size.saturating_mul(elements);
    if bytes < if SETTINGS.all { 1 } else { least } {
        return Err(Reason::Short);
    }
    // What a count of bytes can say.
    if bytes > c_int::MAX as u64 {
        return Err(Reason::Arguments);
    }
    // SAFETY: [MPI].
    let learnt = unsafe { entry.learnt(mpi, handle) }?;
    let layout = learnt.whole(count).ok_or(Reason::NotLearnt)?;
    let (blocks, first) = (layout.blocks(), layout.true_bounds().map_or(0, |bounds| bounds.0));
    if blocks <= 1 {
        return Err(Reason::Contiguous);
    }
    if !call.is_packing() && !SETTINGS.all {
        let (block, message) = longest(mpi);
        if bytes / blocks > block {
            return Err(Reason::LongBlocks);
        }
        if bytes > message && !learnt.interleaves(elements) {
            return Err(Reason::Long);
        }
    }
    // (MPI_BOTTOM is 0, and the addresses are the type's.)
    if (memory as i64).wrapping_add(first) < 4096 {
        return Err(Reason::Arguments);
    }
    let Learnt { grained, widest, .. } = *learnt;
    Ok(Chosen { mpi, layout, bytes: bytes as usize, grained, widest })
}

impl Entry {
    /// # Safety
    /// \[MPI\]: the handle is this entry's.
    unsafe fn learnt(&self, mpi: &Mpi, handle: usize) -> Result<&Learnt, Reason> {
        if self.learnt.get().is_none() {
            // (Not within the cell's lock: MPI takes locks of its own.)
            // SAFETY: [MPI].
            let learnt = match unsafe { learn::learn(mpi, handle) } {
                Ok(Learned { layout, grain, widest }) => {
                    stats::learnt(None);
                    let whole = Mutex::new((1, layout.clone()));
                    Ok(Learnt { whole, layout, grained: grain.is_some(), widest })
                }
                Err(why) => {
                    stats::learnt(Some(&why));
                    Err(Reason::NotLearnt)
                }
            };
            // Another thread may have been first.
            let _ = self.learnt.set(learnt);
        }
        match self.learnt.get() {
            Some(Ok(learnt)) => Ok(learnt),
            _ => Err(Reason::NotLearnt),
        }
    }
}
