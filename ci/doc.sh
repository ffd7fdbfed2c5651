#!/bin/sh
# The documentation builds, and no link in it is broken.
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
RUSTDOCFLAGS=-Dwarnings cargo doc -q --no-deps --workspace
RUSTDOCFLAGS=-Dwarnings cargo doc -q --no-deps --no-default-features --lib
