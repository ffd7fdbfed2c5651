#!/bin/sh
# No lint is let through, with every feature and with none.
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
cargo clippy -q --workspace --all-targets -- -D warnings
cargo clippy -q --no-default-features --lib -- -D warnings
# The Open MPI components, where its headers are.
if command -v mpicc.openmpi >/dev/null 2>&1; then
  cargo clippy -q --manifest-path plugins/openmpi/Cargo.toml --all-targets -- -D warnings
fi
