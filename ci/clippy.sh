#!/bin/sh
# No lint is let through, with every feature and with none.
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
# (The profile of `make test`: what it has built is not built again.)
cargo clippy -q --profile checked --workspace --all-targets -- -D warnings
cargo clippy -q --profile checked --no-default-features --lib -- -D warnings
# The Open MPI components, where its headers are.
if command -v mpicc.openmpi >/dev/null 2>&1; then
  cargo clippy -q --profile checked --manifest-path plugins/openmpi/Cargo.toml --all-targets -- -D warnings
fi
