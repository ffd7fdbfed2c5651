//! Nothing is kept of windows that were freed and of communicators that were
//! dropped: the bytes on the heap stand still.
#![cfg(all(unix, feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::local::{self, Options};
use rankway::device::open_null;
use rankway::rma::{Communicator, Window};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

plays!(part);

/// Counts what is allocated and not given back.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

fn part(name: &str) {
    let (ranks, rounds) = name.split_once(' ').unwrap();
    let rounds: u32 = rounds.parse().unwrap();
    let outcome = local::run(&Options::new(ranks.parse().unwrap()), |boot| {
        let context = open_null(boot).unwrap();
        let world = Communicator::world(&context);
        let allocated = measure(rounds, || {
            Window::allocate(&world, 64, 1).unwrap().free().unwrap();
        });
        let mut memory = [0u8; 64];
        let created = measure(rounds, || {
            // SAFETY: the memory outlives the window.
            let window = unsafe { Window::create(&world, memory.as_mut_ptr(), 64, 1) };
            window.unwrap().free().unwrap();
        });
        let split = measure(rounds, || {
            let half = world.split(Some(world.rank() % 2), 0).unwrap().unwrap();
            half.barrier().unwrap();
        });
        let dup = measure(rounds, || world.dup().barrier().unwrap());
        for (what, grown) in
            [("allocated", allocated), ("created", created), ("split", split), ("dup", dup)]
        {
            println!("rank {} {what}: {grown} bytes over {rounds} rounds", world.rank());
            // A queue or table may have grown once more; nothing grows by round.
            assert!(grown < 4096, "{what}: {grown} bytes over {rounds} rounds");
        }
        world.barrier().unwrap();
        0
    });
    assert!(outcome.as_ref().unwrap().success(), "{outcome:?}");
}

/// Bytes that `rounds` rounds leave behind, after a hundred.
fn measure(rounds: u32, mut round: impl FnMut()) -> isize {
    (0..100).for_each(|_| round());
    let before = BYTES.load(Ordering::Relaxed);
    (0..rounds).for_each(|_| round());
    BYTES.load(Ordering::Relaxed) - before
}

#[test]
fn windows_and_communicators_leave_nothing() {
    print!("{}", must_succeed(play("2 500")));
    print!("{}", must_succeed(play("5 100")));
}

#[test]
#[ignore = "minutes: 100,000 of each"]
fn a_hundred_thousand_leave_nothing() {
    let output = play("2 100000").spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success());
}
