#!/bin/sh
# No lint is let through, with every feature and with none.
set -eu
cd "$(dirname "$0")/.."
. ci/env.sh
cargo clippy -q --workspace --all-targets -- -D warnings
cargo clippy -q --no-default-features --lib -- -D warnings
