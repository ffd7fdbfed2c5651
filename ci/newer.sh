#!/usr/bin/env bash
# The netmod's tests, and every test that starts processes, with a libfabric
# newer than the distribution's. The same binaries: the library is opened at run
# time.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/env.sh

if ! newer=$(ci/newer-fabric.sh); then
  echo "newer: skipped: no newer libfabric could be had"
  exit 0
fi
echo "newer: with $newer"
export RANKWAY_LIBFABRIC=$newer
cargo test --profile checked -p rankway --lib -- netmod rma
if ls tests/*.rs >/dev/null 2>&1; then
  cargo test --profile checked -p rankway --test '*'
fi
