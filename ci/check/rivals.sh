#!/bin/sh
# Rank maps answer what other crates' structures answer, and the comparison with
# them runs. A crate of its own: nothing else is built with what it needs.
set -eu
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
cd benches/rivals
# One build for all of it.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo fmt --check
cargo clippy -q --release --locked --all-targets -- -D warnings
cargo test -q --release --locked
cargo run -q --release --locked -- --short >/dev/null
