#!/usr/bin/env bash
# Heap of a process of MPICH with our netmod, beside MPICH's own ch4:ofi of the same source
# (make mpich-peers) and the distribution's (ch4:ucx): what each further rank costs every
# process, of a job and of a communicator. Heap is what was asked of malloc and not freed, MPICH's
# and all libraries' (plugins/mpich/bench/memory.c); of a job the process that has most counts.
# Then one process of jobs whose others are not there, each on a node of its own
# (plugins/mpich/bench/absent.h) over the null provider.
#
#   ci/measure/memory-mpich.sh [ranks...]     4 8 16 32 64 by default; of the others up to 16,
#                                             which take ten times as long
#
#   MPICH_DIR  where MPICH with our netmod is (make mpich), and behind whose name ch4:ofi's
# Status 1 where ours costs more than nothing a peer and a rank of a regular communicator, or of
# an irregular one, whose order is a random one, more than 2.6 bytes a rank. (Those of absent jobs
# are exact; real ones, which are so small that they have CH4's tables, 4 bytes a rank and 4 a rank of
# the node, are held to half of what the tables took.)
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${MPICH_DIR:?where is it? make memory-mpich says}
ranks=("$@")
[ $# -gt 0 ] || ranks=(4 8 16 32 64)
command -v mpiexec.hydra >/dev/null || { echo "memory-mpich: there is no mpiexec.hydra (ci/deps)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
providers=$(realpath "${CARGO_TARGET_DIR:-target}/release/providers")
over_nothing=("FI_PROVIDER_PATH=$providers" RANKWAY_PROVIDER=rankway_null FI_PROVIDER=rankway_null)
measure() { # who compiler simulated-sizes...
  local who=$1 compiler=$2 n
  shift 2
  "$compiler" -std=gnu11 -O2 -Wall -Wextra -o "$work/$who" plugins/mpich/bench/memory.c 2>"$work/why" ||
    { echo "skipped $who: its mpicc builds no program (make mpich-peers, ci/deps --preload)" && return 0; }
  for n in "${ranks[@]}"; do
    [ "$who" = ours ] || [ "$n" -le 16 ] || continue
    [ ! -t 2 ] || printf '\r%s, %s ranks \033[K' "$who" "$n" >&2
    timeout --kill-after=5 300 mpiexec.hydra -n "$n" "$work/$who" >"$work/said" 2>"$work/why" ||
      { tail -n 5 "$work/why" >&2; echo "memory-mpich: $n ranks of $who did not run" >&2; exit 2; }
    sed "s/^/$who $n /" "$work/said" >>"$work/all"
  done
  for n in "$@"; do
    [ ! -t 2 ] || printf '\r%s, one of %s ranks \033[K' "$who" "$n" >&2
    env "${over_nothing[@]}" timeout --kill-after=5 120 "$work/$who" simulate "$n" >"$work/said" 2>"$work/why" ||
      { tail -n 5 "$work/why" >&2; echo "memory-mpich: one process of $n of $who did not run" >&2; exit 2; }
    sed "s/^/$who $n simulated-/" "$work/said" >>"$work/all"
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
measure ours "$dir/bin/mpicc" 1024 16384 131072 1048576
# (Both take the cards of all at the start, and the process manager answers for each.)
measure ch4:ofi "$dir-ofi/bin/mpicc" 1024 4096 16384
measure ch4:ucx mpicc.mpich 1024 4096 16384
awk '
  # who job what bytes ranks
  {
    if (!($1 in known)) { known[$1] = 1; whos[++count] = $1 }
    key = $1 " " $3
    n[key]++; x = $5; y = $4
    sx[key] += x; sy[key] += y; sxx[key] += x * x; sxy[key] += x * y
    if (!(key in highest) || x >= highest[key]) { highest[key] = x; at[key] = y }
  }
  function slope(key,   below) {
    below = n[key] * sxx[key] - sx[key] * sx[key]
    return below > 0 ? (n[key] * sxy[key] - sx[key] * sy[key]) / below : 0
  }
  END {
    kinds = split("start spoken duplicate odd/even irregular simulated-start simulated-duplicate " \
      "simulated-odd/even simulated-irregular", kind, " ")
    says["start"] = says["simulated-start"] = "a peer, after the start"
    says["spoken"] = "a peer, all spoken to"
    says["duplicate"] = says["simulated-duplicate"] = "a rank of a duplicate of the world"
    says["odd/even"] = says["simulated-odd/even"] = "a rank of a split in odd and even"
    says["irregular"] = says["simulated-irregular"] = "a rank of an irregular one"
    # (Of real jobs the heap differs by some hundred bytes from job to job.)
    for (k = 1; k <= kinds; k++) if (kind[k] ~ /duplicate|odd/) most[kind[k]] = kind[k] ~ /simulated/ ? 0.5 : 4
    most["start"] = 64
    most["simulated-start"] = 0.5
    most["irregular"] = 12
    most["simulated-irregular"] = 2.6
    printf "%-44s", "heap: bytes each, KiB of one (ranks)"
    for (w = 1; w <= count; w++) printf "%28s", whos[w]
    print ""
    for (k = 1; k <= kinds; k++) {
      if (kind[k] == "start") print "real jobs"
      if (kind[k] == "simulated-start") print "jobs of which one process is there"
      printf "  %-42s", says[kind[k]]
      for (w = 1; w <= count; w++) {
        key = whos[w] " " kind[k]
        printf "%28s", key in n ? sprintf("%.1f, %.1f (%d)", slope(key), at[key] / 1024, highest[key]) : "-"
      }
      print ""
    }
    for (k = 1; k <= kinds; k++) {
      key = "ours " kind[k]
      if (kind[k] in most && slope(key) > most[kind[k]]) {
        printf "NOT met: %.1f bytes %s, at most %.1f\n", slope(key), says[kind[k]], most[kind[k]]
        status = 1
      }
    }
    exit status
  }' "$work/all"
