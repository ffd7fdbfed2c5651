#!/usr/bin/env bash
# MPI_Pack, MPI_Unpack and messages with librankway_pack.so preloaded beside each
# MPI's own and memcpy, in one process (plugins/pack/bench/bench.c): `make
# bench-preload`. Options: seconds for each pattern (0.3). An MPI whose compiler or
# launcher is missing is said and left out.
set -euo pipefail
cd "$(dirname "$0")/../.."
library=$PWD/target/release/librankway_pack.so
[ -z "${CARGO_TARGET_DIR:-}" ] || library=$(cd "$CARGO_TARGET_DIR" && pwd)/release/librankway_pack.so
[ -e "$library" ] || { echo "preload: $library is not there: make preload" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # name soname launcher...
  local name=$1 soname=$2
  shift 2
  if ! mpicc."$name" -O2 -DLIBMPI="\"$soname\"" -o "$work/bench" plugins/pack/bench/bench.c -ldl ||
    ! command -v "$1" >/dev/null; then
    echo "preload: skipped $name: its compiler builds nothing, or there is no $1 (ci/deps --preload)"
    return
  fi
  for ranks in 1 2; do
    printf '\n%s, %s\n' "$name" "$([ $ranks = 1 ] && echo packing || echo 'messages, there and back')"
    TMPDIR=$work "$@" -n $ranks env LD_PRELOAD="$library" "$work/bench" "${seconds:-0.3}"
  done
}
seconds=${1:-}
measure openmpi libmpi.so.40 mpirun.openmpi --allow-run-as-root --oversubscribe
measure mpich libmpich.so.12 mpiexec.hydra
