//! Allocations counted and pages touched.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use rankway_cli::observe::memory::{Counting, Process, page_size, resident};

#[global_allocator]
static HEAP: Counting = Counting::new();

/// The test harness's threads allocate too; ours at least take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn heap_bytes() {
    let _turn = TURN.lock().unwrap();
    const BIG: usize = 64 << 20;
    // Large sizes, so that what the harness does meanwhile does not matter.
    let near = |got: usize, want: usize| got.abs_diff(want) < 1 << 20;

    let (block, used) = HEAP.during(|| {
        drop(vec![1u8; 2 * BIG]);
        vec![0u8; BIG]
    });
    assert!(near(used.live, BIG), "{used:?}");
    assert!(near(used.peak, 2 * BIG), "{used:?}");
    assert!(used.allocations >= 2, "{used:?}");

    let ((), used) = HEAP.during(|| drop(block));
    assert!(near(used.live, 0), "{used:?}");

    let (grown, used) = HEAP.during(|| {
        let mut grown: Vec<u8> = Vec::with_capacity(BIG);
        grown.reserve_exact(2 * BIG);
        grown
    });
    assert!(near(used.live, 2 * BIG), "{used:?}");
    assert!(near(used.live, grown.capacity()), "{used:?}");
    assert!(HEAP.read().peak >= 2 * BIG);
}

struct Mapping(*mut u8, usize);

impl Mapping {
    fn new(pages: usize, flags: i32) -> Self {
        let len = pages * page_size();
        // SAFETY: a fresh mapping where the kernel likes.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED);
        // One touch must not bring 512 pages.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(address, len, libc::MADV_NOHUGEPAGE) };
        Self(address.cast(), len)
    }

    fn touch(&self, page: usize) {
        // SAFETY: inside our own mapping.
        unsafe { self.0.add(page * page_size() + 7).write_volatile(1) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, unused from here.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

#[test]
fn resident_is_what_was_touched() {
    for flags in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        let map = Mapping::new(1000, flags);
        assert_eq!(resident(map.0, map.1).unwrap(), 0);
        for (touched, page) in [0, 1, 17, 500, 999].into_iter().enumerate() {
            map.touch(page);
            map.touch(page);
            assert_eq!(resident(map.0, map.1).unwrap(), (touched + 1) * page_size());
        }
        // Parts, whole pages around them.
        let page = page_size();
        // SAFETY: inside the mapping.
        let at = |byte: usize| unsafe { map.0.add(byte) }.cast_const();
        assert_eq!(resident(at(page), page).unwrap(), page);
        assert_eq!(resident(at(2 * page), 15 * page).unwrap(), 0);
        assert_eq!(resident(at(page - 1), 2).unwrap(), 2 * page);
        assert_eq!(resident(at(5), 0).unwrap(), 0);
    }
}

#[test]
fn resident_of_a_huge_reservation() {
    // 16 GiB of address space, three pages: in pieces, nothing allocated.
    let pages = (16usize << 30) / page_size();
    let map = Mapping::new(pages, libc::MAP_PRIVATE);
    [0, pages / 2, pages - 1].iter().for_each(|&page| map.touch(page));
    assert_eq!(resident(map.0, map.1).unwrap(), 3 * page_size());
}

#[test]
fn resident_of_nothing_is_an_error() {
    let address = {
        let map = Mapping::new(64, libc::MAP_PRIVATE);
        map.0
    };
    // Another thread may have mapped something there meanwhile; address 0 is
    // never mapped.
    let _ = resident(address, 64 * page_size());
    assert!(resident(std::ptr::null(), page_size()).is_err());
    assert!(resident(usize::MAX as *const u8, 2).is_err());
}

#[test]
fn the_process_as_a_whole() {
    let _turn = TURN.lock().unwrap();
    let before = Process::read().unwrap();
    let block = vec![1u8; 64 << 20];
    let after = Process::read().unwrap();
    assert!(std::hint::black_box(&block).len() == 64 << 20);
    assert!(before.rss > 0 && before.pss > 0);
    assert!(after.private_dirty - before.private_dirty >= 60 << 20, "{before:?} {after:?}");
    assert!(after.anonymous - before.anonymous >= 60 << 20, "{before:?} {after:?}");
}
