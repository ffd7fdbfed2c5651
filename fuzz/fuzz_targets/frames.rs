//! Bytes → greetings and frames of the set-up channel, and what the members of a split say.
//!
//! `ci/proof/fuzz.sh frames`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    rankway::fuzzing::frames(data);
    rankway::fuzzing::combs(data);
});
