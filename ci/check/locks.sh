#!/bin/sh
# Every Cargo.lock is the one that its manifests ask for: the crates that are built
# apart lock what the library and the command depend on too.
set -eu
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
stale=
for lock in Cargo.lock */Cargo.lock */*/Cargo.lock; do
  crate=$(dirname "$lock")
  cargo metadata --quiet --locked --format-version 1 --manifest-path "$crate/Cargo.toml" >/dev/null || stale="$stale $crate"
done
[ -z "$stale" ] || { echo "locks: out of date in$stale (there: cargo update --workspace)" >&2; exit 1; }
