//! Bytes → lines of a PMI-1 process manager.
//!
//! `ci/proof/fuzz.sh pmi1`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| rankway::fuzzing::pmi1(data));
