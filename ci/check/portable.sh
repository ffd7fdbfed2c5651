#!/usr/bin/env bash
# The pure library (rank maps, address vectors) builds without features on this
# machine and on others: 32 bits, big-endian, no Linux. Its tests also run in
# the dev profile, where arithmetic that overflows is a panic.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

cargo check -q --profile checked --no-default-features --lib
echo "portable: this machine: builds"

installed=$(rustc --print sysroot)/lib/rustlib
tried=0
# 32-bit little-endian, 32-bit big-endian, 64-bit big-endian, another system.
for target in i686-unknown-linux-gnu powerpc-unknown-linux-gnu s390x-unknown-linux-gnu \
  aarch64-apple-darwin; do
  if ls "$installed/$target/lib/"libstd-*.rlib >/dev/null 2>&1; then
    cargo check -q --profile checked --no-default-features --lib --target "$target"
    echo "portable: $target: builds"
    tried=$((tried + 1))
  else
    echo "portable: $target: skipped, its standard library is not installed (rustup target add $target)"
  fi
done
[ $tried -gt 0 ] || echo "portable: no other target was checked"

# With the checks of a debug build, which `make test` does without.
export CARGO_PROFILE_CHECKED_DEBUG_ASSERTIONS=true CARGO_PROFILE_CHECKED_OVERFLOW_CHECKS=true
cargo test --profile checked --no-default-features --lib
