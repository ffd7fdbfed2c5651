#!/bin/sh
# The documentation builds, and no link in it is broken.
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
# (The profile of `make test`: what it has built is not built again.)
export RUSTDOCFLAGS=-Dwarnings
cargo doc -q --profile checked --no-deps --workspace
cargo doc -q --profile checked --no-deps --no-default-features --lib
# Nothing of the Open MPI components is public but their entries.
if command -v mpicc.openmpi >/dev/null 2>&1; then
  RUSTDOCFLAGS="$RUSTDOCFLAGS -Arustdoc::private_intra_doc_links" cargo doc -q --profile checked \
    --no-deps --document-private-items --manifest-path plugins/openmpi/Cargo.toml
fi
