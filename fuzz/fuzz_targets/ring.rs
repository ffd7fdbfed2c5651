//! Bytes → a sender that writes anything into its ring on the node.
//!
//! `ci/proof/fuzz.sh ring`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| rankway::fuzzing::ring(data));
