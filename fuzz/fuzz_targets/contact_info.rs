//! Bytes → the contact info a peer publishes, and the introduction of a process of another
//! job: refused, or read to the end and written again. (Those with raw addresses come in
//! packets, see `packets`.)
//!
//! `ci/proof/fuzz.sh contact_info`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::boot::{ContactInfo, Introduction, Introductions};

fuzz_target!(|data: &[u8]| {
    if let Some(contact_info) = ContactInfo::decode(data) {
        assert_eq!(contact_info.encode(), data);
        let _ = format!("{contact_info:?}");
    }
    // What a process of another job says: met, and called what it calls itself.
    if let Some(introduction) = Introduction::decode(data) {
        assert_eq!(introduction.encode(), data);
        let (job, size, rank) = (introduction.job, introduction.size, introduction.rank);
        let mut met = Introductions::new(1, 4, 4..1 << 20);
        let theirs = Introductions::new(job, size, size..size);
        if let Ok(number) = met.meet(data) {
            let known = job == 1 || met.resolve_name(theirs.name(rank)) == Some(number);
            assert!(known && (number < 4) == (job == 1));
        }
    }
});
