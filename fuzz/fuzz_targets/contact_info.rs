//! Bytes → the contact info a peer publishes: refused, or read to the end and written
//! again. (Those with raw addresses come in packets, see `packets`.)
//!
//! `ci/proof/fuzz.sh contact_info`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::boot::ContactInfo;

fuzz_target!(|data: &[u8]| {
    if let Some(contact_info) = ContactInfo::decode(data) {
        assert_eq!(contact_info.encode(), data);
        let _ = format!("{contact_info:?}");
    }
});
