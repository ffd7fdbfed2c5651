#!/usr/bin/env bash
# What starts processes, with a libfabric newer than the distribution's. The same
# binaries: the library is opened at run time. `make test` runs tests/msg, rma,
# netmod and faults over both already.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

if ! newer=$(ci/machine/newer-fabric.sh); then
  echo "newer: skipped: no newer libfabric could be had"
  exit 0
fi
echo "newer: with $newer"
export RANKWAY_LIBFABRIC=$newer
# (The whole workspace, as in `make test`: one package alone has other features.)
cargo test --profile checked --workspace --lib -- netmod rma
cargo test --profile checked --workspace --test boot_local --test boot_launchers
# UCX is the same as before.
cargo test --profile checked --workspace --test ops -- --skip ucx
