//! The ring. (Its own file is compiled for models, too.)

use super::ring::{Pushed, Ring};
use std::collections::VecDeque;
use std::sync::Arc;

/// Against a queue of the same capacity.
#[test]
fn it_is_a_queue_that_drops_when_full() {
    let (ring, mut queue, mut dropped) = (Ring::new(8), VecDeque::new(), 0);
    let (mut next, mut state) = (0u64, 1u64);
    for _ in 0..2_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        for _ in 0..state >> 60 {
            // SAFETY: there is one thread.
            let pushed = unsafe { ring.push(next) };
            if queue.len() < 8 {
                queue.push_back(next);
                assert_ne!(pushed, Pushed::Dropped);
            } else {
                dropped += 1;
                assert_eq!(pushed, Pushed::Dropped);
            }
            next += 1;
        }
        let most = (state >> 40 & 7) as usize;
        let expected: Vec<u64> = queue.drain(..most.min(queue.len())).collect();
        let mut popped = Vec::new();
        // SAFETY: there is one thread.
        assert_eq!(unsafe { ring.pop(most, |value| popped.push(value)) }, expected.len());
        assert_eq!(popped, expected);
        assert_eq!(ring.dropped(), dropped);
    }
    assert!(dropped > 0);
}

/// What comes out is in order and whole, and with what was dropped makes all.
#[test]
fn nothing_is_lost_between_threads_of_a_recording() {
    let count = if cfg!(miri) { 200 } else { 200_000 };
    let ring = Arc::new(Ring::new(16));
    let pushes = {
        let ring = Arc::clone(&ring);
        std::thread::spawn(move || {
            for value in 0..count {
                // SAFETY: this thread alone pushes.
                let _ = unsafe { ring.push([value; 4]) };
            }
        })
    };
    let (mut popped, mut last) = (0, None);
    let mut each = |value: [usize; 4]| {
        assert_eq!(value, [value[0]; 4]);
        assert!(last < Some(value[0]));
        last = Some(value[0]);
    };
    while !pushes.is_finished() {
        // SAFETY: this thread alone pops.
        popped += unsafe { ring.pop(5, &mut each) };
        std::thread::yield_now();
    }
    // That it is finished orders nothing: what it counted is seen for certain once joined.
    pushes.join().unwrap();
    // SAFETY: this thread alone pops.
    popped += unsafe { ring.pop(ring.capacity(), &mut each) };
    assert_eq!(popped + ring.dropped(), count);
}
