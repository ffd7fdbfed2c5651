//! The ring of a thread that records and of the one that writes: values come out whole, in
//! order, once; what found no space is counted.

use crate::ring::{Pushed, Ring};
use loom::sync::Arc;
use loom::thread;

/// Four values through a ring of two.
#[test]
fn what_goes_in_comes_out_or_is_counted() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        assert_eq!(ring.capacity(), 2);
        let records = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                // SAFETY: this thread alone pushes.
                let pushed = (0..4u32).map(|value| unsafe { ring.push(value) });
                pushed.filter(|pushed| *pushed == Pushed::Dropped).count()
            })
        };
        let mut values = Vec::new();
        for _ in 0..2 {
            // SAFETY: this thread alone pops.
            unsafe { ring.pop(usize::MAX, |value| values.push(value)) };
        }
        let dropped = records.join().unwrap();
        assert_eq!(ring.dropped(), dropped);
        // SAFETY: as above.
        unsafe { ring.pop(usize::MAX, |value| values.push(value)) };
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        assert_eq!(values.len() + dropped, 4);
        assert!(values.starts_with(&[0, 1]), "{values:?}");
    });
}

/// That one thread alone pushes is a contract: loom sees where it is broken.
#[test]
#[should_panic]
fn two_that_push_are_found() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(4));
        let pushes = [1u32, 2].map(|value| {
            let ring = Arc::clone(&ring);
            // SAFETY: not kept: this is what the test is about.
            thread::spawn(move || assert_ne!(unsafe { ring.push(value) }, Pushed::Dropped))
        });
        pushes.into_iter().for_each(|pushes| pushes.join().unwrap());
    });
}
