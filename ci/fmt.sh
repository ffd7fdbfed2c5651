#!/bin/sh
# The code is formatted as rustfmt.toml says (the bindings are left alone).
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
cargo fmt --all --check
cargo fmt --manifest-path plugins/openmpi/Cargo.toml --check
