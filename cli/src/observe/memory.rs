//! Bytes: what the program allocates, and which pages of a mapping it really
//! touched.
//!
//! | tool | counts |
//! |---|---|
//! | [`Counting`] | bytes asked of the heap, live and at most |
//! | [`resident`] | bytes of a mapping that have a page behind them |
//! | [`Process`] | the whole process as the kernel sees it |

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

/// A counting allocator over the system's.
///
/// ```
/// use rankway_cli::observe::memory::Counting;
///
/// #[global_allocator]
/// static HEAP: Counting = Counting::new();
///
/// let (table, used) = HEAP.during(|| vec![0u32; 1000]);
/// assert_eq!(used.live, 4000);
/// drop(table);
/// ```
///
/// Counts the bytes asked for, not what the system's allocator adds to them.
/// Memory that C libraries allocate is not seen. The counters are relaxed
/// atomics: exact in sum, not a consistent cut while other threads allocate.
///
/// Where the system refuses memory the process ends with status 1 and a line
/// that names `ulimit -v`; the language's own answer is a crash.
#[derive(Debug, Default)]
pub struct Counting {
    live: AtomicUsize,
    peak: AtomicUsize,
    allocations: AtomicUsize,
}

/// A reading of [`Counting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Bytes allocated and not freed. Of [`Counting::during`]: what was added;
    /// zero when more was freed than allocated.
    pub live: usize,
    /// Most bytes live at any time.
    pub peak: usize,
    /// Calls that allocated or reallocated.
    pub allocations: usize,
}

impl Counting {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
        }
    }

    /// The counters now.
    pub fn read(&self) -> Heap {
        Heap {
            live: self.live.load(Relaxed),
            peak: self.peak.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
        }
    }

    /// What `run` adds: bytes that live on after it, the most bytes live in
    /// it, its allocations. Other threads' allocations are counted along.
    pub fn during<R>(&self, run: impl FnOnce() -> R) -> (R, Heap) {
        let before = self.read();
        self.peak.store(before.live, Relaxed);
        let result = run();
        let after = self.read();
        self.peak.fetch_max(before.peak, Relaxed);
        let used = Heap {
            live: after.live.saturating_sub(before.live),
            peak: after.peak.saturating_sub(before.live),
            allocations: after.allocations - before.allocations,
        };
        (result, used)
    }

    /// Counts what the system gave, and ends the process where it gave nothing.
    fn given(&self, address: *mut u8, bytes: usize) -> *mut u8 {
        if address.is_null() {
            refused(bytes);
        }
        self.grow(bytes);
        address
    }

    fn grow(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Relaxed).wrapping_add(bytes);
        self.peak.fetch_max(live, Relaxed);
        self.allocations.fetch_add(1, Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Relaxed);
    }
}

// SAFETY: every request goes unchanged to `System`, which upholds the
// contract; the counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are passed on.
        self.given(unsafe { System.alloc(layout) }, layout.size())
    }

    // Passed on as it is: the system's zeroed memory may be untouched pages.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are passed on.
        self.given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `address` came from here, which is
        // from `System`, with this layout.
        unsafe { System.dealloc(address, layout) };
        self.shrink(layout.size());
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`, and the caller's promise about `size`.
        let moved = self.given(unsafe { System.realloc(address, layout, size) }, size);
        self.shrink(layout.size());
        moved
    }
}

/// What is done before a process that is refused memory ends.
static AT_REFUSAL: OnceLock<fn()> = OnceLock::new();

/// Has something done before a process that [`Counting`] ends does; once, the first stays.
pub fn at_refusal(run: fn()) {
    AT_REFUSAL.get_or_init(|| run);
}

/// Says that there is no memory, without any, and ends the process.
#[cold]
fn refused(bytes: usize) -> ! {
    /// The thread that ends the process.
    static ENDS: AtomicI32 = AtomicI32::new(0);
    // SAFETY: gettid(2) takes nothing.
    let own = unsafe { libc::gettid() };
    match ENDS.compare_exchange(0, own, Relaxed, Relaxed) {
        // What is done at the end was refused some in its place.
        // SAFETY: ends the process without running anything.
        Err(other) if other == own => unsafe { libc::_exit(1) },
        Err(_) => loop {
            // SAFETY: waits; another thread ends the process.
            unsafe { libc::pause() };
        },
        Ok(_) => (),
    }
    let mut line = [0; 120];
    let mut rest = &mut line[..];
    // What does not fit in the line is cut off.
    let _ = writeln!(rest, "rankway: no memory for {bytes} bytes more; raise `ulimit -v`");
    let left = rest.len();
    let said = &line[..line.len() - left];
    // SAFETY: bytes of a local array.
    unsafe { libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len()) };
    if let Some(run) = AT_REFUSAL.get() {
        run();
    }
    // SAFETY: ends the process without running anything.
    unsafe { libc::_exit(1) }
}

/// Bytes of the mapping around `address..address + len` that have a page in
/// memory, whole pages, see mincore(2).
///
/// For private anonymous memory that is what was touched: written pages, and
/// also pages only read, which all share the kernel's page of zeroes. With
/// transparent huge pages one touch may bring 2 MiB. Swapped-out pages do not
/// count.
///
/// # Errors
/// `NotFound`-like `ENOMEM` when part of the range is not mapped;
/// `Unsupported` outside Linux.
pub fn resident(address: *const u8, len: usize) -> io::Result<usize> {
    if len == 0 {
        return Ok(0);
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = address;
        Err(io::Error::new(io::ErrorKind::Unsupported, "resident pages are counted on Linux only"))
    }
    #[cfg(target_os = "linux")]
    {
        // In pieces, so that a range of terabytes needs no table of its own.
        const PAGES: usize = 64 * 1024;
        let page = page_size();
        let first = address as usize / page * page;
        let behind = (address as usize)
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(page))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut table = vec![0u8; PAGES.min((behind - first) / page)];
        let mut pages = 0;
        for piece in (first..behind).step_by(PAGES * page) {
            let bytes = (behind - piece).min(PAGES * page);
            // SAFETY: mincore looks at page tables only, so any address will
            // do; `table` has a byte for each page asked for.
            let failed = unsafe { libc::mincore(piece as *mut _, bytes, table.as_mut_ptr()) } != 0;
            if failed {
                return Err(io::Error::last_os_error());
            }
            pages += table[..bytes / page].iter().filter(|&&entry| entry & 1 == 1).count();
        }
        Ok(pages * page)
    }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: sysconf(3) takes an integer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The process's memory in bytes, see smaps_rollup in proc(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Resident pages, shared ones in full.
    pub rss: usize,
    /// Resident pages, shared ones by their share.
    pub pss: usize,
    /// Pages only this process has and has written: what one more process
    /// costs.
    pub private_dirty: usize,
    /// Pages that are not of a file.
    pub anonymous: usize,
}

impl Process {
    /// The calling process now.
    ///
    /// # Errors
    /// When `/proc/self/smaps_rollup` cannot be read: outside Linux, or
    /// without procfs.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string("/proc/self/smaps_rollup")?))
    }

    fn parse(rollup: &str) -> Self {
        let bytes = |field: &str| {
            rollup
                .lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
                .and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok())
                .map_or(0, |kib| kib * 1024)
        };
        Self {
            rss: bytes("Rss"),
            pss: bytes("Pss"),
            private_dirty: bytes("Private_Dirty"),
            anonymous: bytes("Anonymous"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rollup_fields() {
        let rollup = "00400000-7ffe ---p 00000000 00:00 0    [rollup]\n\
            Rss:                1900 kB\nPss:                 297 kB\nPss_Dirty:   60 kB\n\
            Private_Dirty:        88 kB\nAnonymous:           92 kB\n";
        let got = Process::parse(rollup);
        let kib = |n: usize| n * 1024;
        let want =
            Process { rss: kib(1900), pss: kib(297), private_dirty: kib(88), anonymous: kib(92) };
        assert_eq!(got, want);
        assert_eq!(Process::parse("garbage"), Process::default());
    }
}
