//! Bytes → the card a peer publishes: refused, or read to the end and written
//! again. (Those with raw addresses come in packets, see `packets`.)
//!
//! `ci/fuzz.sh cards`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::boot::Card;

fuzz_target!(|data: &[u8]| {
    if let Some(card) = Card::decode(data) {
        assert_eq!(card.encode(), data);
        let _ = format!("{card:?}");
    }
});
