//! Detecting a regular map of a million ranks allocates a constant.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rankway::rankmap::{Model, RankMap};

struct Counting;

thread_local! {
    /// Calls and bytes of this thread; the test harness allocates in its own.
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: passes every call on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (calls, bytes) = COUNT.get();
        COUNT.set((calls + 1, bytes + layout.size()));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counted<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = COUNT.get();
    let value = f();
    let after = COUNT.get();
    (value, after.0 - before.0, after.1 - before.1)
}

#[test]
fn regular_maps_allocate_a_constant() {
    const N: u32 = 1 << 20;
    type Formula = fn(u32) -> u32;
    let maps: [(&str, Model, Formula); 8] = [
        ("dup", Model::Direct, |r| r),
        ("offset", Model::Offset, |r| r + 77),
        ("reversed", Model::Stride, |r| N - 1 - r),
        ("blocks", Model::BlockStride, |r| r / 16 * 64 + r % 16),
        ("blocks from inside one", Model::BlockStride, |r| (r + 5) / 16 * 64 + (r + 5) % 16),
        ("node of rank", Model::BlockStride, |r| r / 128),
        ("transpose", Model::BlockStride, |r| r % 1024 * 1024 + r / 1024),
        ("box", Model::MdBlockStride, |r| r % 8 + r / 8 % 16 * 32 + r / 128 * 1024),
    ];
    for (name, model, formula) in maps {
        let (map, calls, bytes) = counted(|| RankMap::from_lpids(0, (0..N).map(formula)));
        let map = map.expect("valid");
        assert_eq!(map.model(), model, "{name}");
        assert!(calls <= 1 && bytes <= 64, "{name}: {calls} allocations, {bytes} bytes");
        assert!(map.bytes() <= 96, "{name}: {} bytes", map.bytes());
        let (child, calls, bytes) = counted(|| {
            let odd = RankMap::affine(0, 1, 2, N / 2)?;
            map.compose(&odd)?.reversed().slice(3..N / 4)
        });
        let child = child.expect("valid");
        assert!(child.model().is_regular(), "{name}: {child:?}");
        assert!(calls <= 3 && bytes <= 192, "{name}: {calls} allocations, {bytes} bytes");
    }
}
