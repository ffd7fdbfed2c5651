//! Ranks as coroutines: a thread runs many, each on a stack of its own, and goes on with the next
//! where one waits. Stacks are slices of one mapping: one each, with a guard page, would be more
//! mappings than a process may have.

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rankway_cli::observe::memory::resident;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes of a stack. Only pages that were touched take memory.
const STACK: usize = 256 << 10;
/// Never touched, or the stack was too small.
const RESERVE: usize = 8 << 10;

thread_local! {
    /// Of the coroutine that runs on this thread.
    static RUNNING: Cell<Option<NonNull<Yielder<(), ()>>>> = const { Cell::new(None) };
}

/// Lets the other ranks of this thread go on; other threads, where it runs none.
pub(super) fn pause() {
    let Some(yielder) = RUNNING.get() else { return std::thread::yield_now() };
    // SAFETY: it is that of the coroutine that called this, whose body it outlives.
    unsafe { yielder.as_ref() }.suspend(());
    RUNNING.set(Some(yielder));
}

/// The stacks of a thread's ranks.
struct Stacks {
    start: NonNull<u8>,
    bytes: usize,
}

impl Stacks {
    fn new(count: usize) -> Result<Rc<Stacks>, String> {
        let bytes = count.checked_mul(STACK).ok_or("more stacks than addresses")?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        let why = || {
            let error = std::io::Error::last_os_error();
            format!("{bytes} bytes of stacks: {error}; ask for fewer --ranks")
        };
        if start == libc::MAP_FAILED {
            return Err(why());
        }
        #[cfg(target_os = "linux")]
        // SAFETY: advice on the range just mapped. A huge page would back eight stacks at once.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        }
        let start = NonNull::new(start.cast()).ok_or_else(why)?;
        Ok(Rc::new(Stacks { start, bytes }))
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no coroutine has a slice of it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The stack of one rank.
struct Slice {
    stacks: Rc<Stacks>,
    at: usize,
}

impl Slice {
    /// Returns true if the end of the stack was never reached.
    fn sufficed(&self) -> bool {
        // Zero as it was mapped.
        let end = std::ptr::with_exposed_provenance::<u8>(self.limit().get());
        // SAFETY: within the mapping, which nobody writes to there but a stack too deep.
        unsafe { std::slice::from_raw_parts(end, RESERVE) }.iter().all(|&byte| byte == 0)
    }
}

// SAFETY: a slice of a mapping that the slice keeps, `STACK` bytes that no other slice has; both
// ends are multiples of a page.
unsafe impl Stack for Slice {
    fn base(&self) -> StackPointer {
        self.limit().saturating_add(STACK)
    }

    fn limit(&self) -> StackPointer {
        self.stacks.start.addr().saturating_add(self.at * STACK)
    }
}

/// Runs `body` for each of `ranks` on this thread. Returns the bytes of stacks that were touched.
///
/// # Errors
/// The first of `body`'s, once all have ended; no memory for the stacks.
pub(super) fn run(
    ranks: Range<u32>,
    body: impl Fn(u32) -> Result<(), String> + Clone + 'static,
) -> Result<usize, String> {
    let stacks = Stacks::new(ranks.len())?;
    stacks.start.as_ptr().expose_provenance();
    let each = |(at, rank)| {
        let body = body.clone();
        let stack = Slice { stacks: Rc::clone(&stacks), at };
        Coroutine::with_stack(stack, move |yielder, ()| {
            RUNNING.set(Some(NonNull::from(yielder)));
            let result = body(rank);
            RUNNING.set(None);
            result.map_err(|why| format!("rank {rank}: {why}"))
        })
    };
    let mut under_way: Vec<_> = ranks.enumerate().map(each).collect();
    let mut result = Ok(());
    while !under_way.is_empty() {
        under_way.retain_mut(|one| match one.resume(()) {
            CoroutineResult::Yield(()) => true,
            CoroutineResult::Return(ended) => {
                if result.is_ok() {
                    result = ended;
                }
                false
            }
        });
    }
    result?;
    let touched = resident(stacks.start.as_ptr(), stacks.bytes).map_err(|e| e.to_string())?;
    let mut slices = (0..stacks.bytes / STACK).map(|at| Slice { stacks: Rc::clone(&stacks), at });
    if !slices.all(|slice| slice.sufficed()) {
        return Err("a rank's stack was too small: what it did is not to be trusted".into());
    }
    Ok(touched)
}
