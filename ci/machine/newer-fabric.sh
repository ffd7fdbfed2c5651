#!/usr/bin/env bash
# Fetches a libfabric newer than the distribution's, out of PyPI's mpich wheel,
# into target/newer-fabric, and prints the path of its libfabric.so.1. Nothing
# is installed. Bounded in time; fails with a message when it cannot be had.
#
#   ci/machine/newer-fabric.sh              fetch it, unless it is there
#   ci/machine/newer-fabric.sh --if-there   never fetch
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
place=$(cd "$target" && pwd)/newer-fabric
library=$place/libfabric.so.1
if [ -e "$library" ]; then
  echo "$library"
  exit 0
fi
fail() { echo "newer-fabric: $*" >&2; exit 1; }
[ "${1:-}" != --if-there ] || fail "none fetched yet (ci/machine/newer-fabric.sh)"

echo "newer-fabric: fetching PyPI's mpich wheel ..." >&2
work=$(mktemp -d "$target/newer-fabric.XXXXXX")
trap 'rm -rf "$work"' EXIT
timeout 180 python3 -m pip download -q --disable-pip-version-check --no-deps \
  --only-binary=:all: -d "$work" 'mpich~=5.0' >"$work/log" 2>&1 ||
  { tail -n 3 "$work/log" >&2; fail "pip could not download mpich"; }
python3 -m zipfile -e "$work"/mpich-*.whl "$work/wheel" || fail "the wheel does not unpack"
found=$(find "$work/wheel" -name libfabric.so.1 -print -quit)
[ -n "$found" ] || fail "the wheel holds no libfabric.so.1"
mv "$(dirname "$found")" "$place"
echo "$library"
