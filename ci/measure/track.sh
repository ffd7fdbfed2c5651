#!/usr/bin/env bash
# MPI_Send and a ping-pong of 8 bytes with librankway_track.so preloaded beside MPI's own
# functions, in one process (plugins/track/bench/bench.c): `make bench-track`. First with
# communicators tracked alone, then with everything recorded.
set -euo pipefail
cd "$(dirname "$0")/../.."
library=$PWD/target/release/librankway_track.so
[ -z "${CARGO_TARGET_DIR:-}" ] || library=$(cd "$CARGO_TARGET_DIR" && pwd)/release/librankway_track.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one() { # name soname launcher...
  local name=$1 soname=$2 events
  shift 2
  if ! mpicc."$name" -O2 -DLIBMPI="\"$soname\"" -o "$work/bench" plugins/track/bench/bench.c -ldl; then
    echo "track: $name SKIPPED, it builds nothing"
    return
  fi
  for events in off on; do
    echo "$name, RANKWAY_TRACE_EVENTS=$events"
    "$@" -n 2 env LD_PRELOAD="$library" RANKWAY_TRACE="$work/trace" RANKWAY_TRACE_EVENTS=$events "$work/bench"
  done
}
export TMPDIR=$work
one openmpi libmpi.so.40 mpirun.openmpi --allow-run-as-root --oversubscribe
one mpich libmpich.so.12 mpiexec.hydra
