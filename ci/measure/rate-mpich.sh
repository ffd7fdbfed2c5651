#!/usr/bin/env bash
# Puts of 8 bytes that MPI_Put issues in a second over a network that takes no time (the null
# provider), by the map of the window's communicator: MPICH with our netmod beside MPICH's own
# ch4:ofi of the same source over the same provider, in turn, the fastest of all rounds of three
# runs each. The paper's Tables V and VI with MPI itself (plugins/mpich/bench/rate.c). Without
# MPI's checks of arguments, too, where those have been built; ch4:ofi by make mpich-peers.
#   MPICH_DIR  where MPICH with our netmod is (make mpich), and behind whose name the others'
# Option: a number of rounds a run (99).
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${MPICH_DIR:?where is it? make rate-mpich says}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
providers=$(realpath "${CARGO_TARGET_DIR:-target}/release/providers")
export FI_PROVIDER_PATH=$providers FI_PROVIDER=rankway_null RANKWAY_PROVIDER=rankway_null
builds=()
for build in "" -ofi -unchecked -ofi-unchecked; do
  if [ -x "$dir$build/bin/mpicc" ]; then
    "$dir$build/bin/mpicc" -std=gnu11 -O2 -Wall -Wextra -o "$work/rate$build" plugins/mpich/bench/rate.c
    builds+=("$build")
  else
    echo "skipped: there is no $dir$build (make mpich-peers)"
  fi
done
for run in 1 2 3; do
  for build in "${builds[@]}"; do
    [ ! -t 2 ] || printf '\rrun %s of 3, %s \033[K' "$run" "$(basename "$dir$build")" >&2
    timeout --kill-after=5 300 "$work/rate$build" "$@" >"$work/said" 2>"$work/why" </dev/null ||
      { tail -n 5 "$work/why" >&2; echo "rate-mpich: $dir$build did not run" >&2; exit 2; }
    sed "s/^/checks$build /" "$work/said" >>"$work/all"
  done
done
[ ! -t 2 ] || printf '\r\033[K' >&2
awk '
  # build map ranks rate
  {
    if (!(($2, "ranks") in of)) { of[$2, "ranks"] = $3; maps[++count] = $2 }
    if ($4 > of[$2, $1]) of[$2, $1] = $4
  }
  function ratio(map, ours, theirs) {
    return of[map, theirs] ? sprintf("%.2f", of[map, ours] / of[map, theirs]) : "-"
  }
  function rate(map, build) { return of[map, build] ? sprintf("%.1f", of[map, build]) : "-" }
  END {
    print "million puts a second        with checks               without"
    printf "%-13s %6s %10s %8s %6s %9s %8s %6s\n", "map", "ranks", "rankway", "ch4:ofi", "ratio", "rankway", "ch4:ofi", "ratio"
    for (i = 1; i <= count; i++) {
      map = maps[i]
      printf "%-13s %6d %10s %8s %6s %9s %8s %6s\n", map, of[map, "ranks"], rate(map, "checks"), rate(map, "checks-ofi"),
        ratio(map, "checks", "checks-ofi"), rate(map, "checks-unchecked"), rate(map, "checks-ofi-unchecked"),
        ratio(map, "checks-unchecked", "checks-ofi-unchecked")
    }
  }' "$work/all"
