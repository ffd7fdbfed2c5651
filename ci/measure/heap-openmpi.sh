#!/usr/bin/env bash
# Heap and mappings of one process of ours under Open MPI by the size of the job
# on this node, and the slopes: bytes that each further rank costs every process.
# The components are those that are installed, as they are
# (plugins/openmpi/bench/heap.c counts from outside).
#
#   ci/measure/heap-openmpi.sh [ranks...]     2 4 8 16 32 by default
#
# Of a job the process that has most counts. Heap is what was asked of malloc and
# not freed; address space may be more than memory, which is given page by page.
#   OPENMPI_DIR   where our components are installed (make openmpi)
# Then the private memory of a process that has spoken to nobody, as the system
# counts it, beside that of one on Open MPI's own components.
# Status 1 when the heap before any communication grows by more than 64 bytes a
# rank, or that memory is more than 256 KiB above Open MPI's own.
set -euo pipefail
cd "$(dirname "$0")/../.."
components=${OPENMPI_DIR:-$PWD/target/openmpi}
ranks=("$@")
[ $# -gt 0 ] || ranks=(2 4 8 16 32)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc.openmpi -std=gnu11 -O2 -Wall -Wextra -rdynamic -o "$work/heap" plugins/openmpi/bench/heap.c -ldl
ours=(--mca mca_base_component_path "$components:SYS_DEFAULT" --mca pml cm --mca mtl rankway --mca osc rankway)
launch() { # ranks flags... program
  TMPDIR=$work timeout --kill-after=5 120 mpirun.openmpi --allow-run-as-root --oversubscribe -n "$@" 2>"$work/why" </dev/null ||
    { tail -n 5 "$work/why" >&2; echo "heap-openmpi: these ranks did not run: $*" >&2; exit 2; }
}
for n in "${ranks[@]}"; do
  launch "$n" "${ours[@]}" --mca mpi_yield_when_idle 1 "$work/heap" >"$work/said"
  sed "s/^\(init\|ring\) /\1 $n /" "$work/said" >>"$work/all"
done
mpicc.openmpi -std=gnu11 -O2 -Wall -Wextra -o "$work/private" plugins/openmpi/bench/private.c
private() { # flags... : the least of three jobs, whose sizes of pages read differ a little
  for _ in 1 2 3; do launch 4 "$@" "$work/private"; done | sort -n | head -n 1
}
here=$(private "${ours[@]}")
shm=$(private "${ours[@]}" --mca mtl_rankway_provider shm)
stock=$(private)
status=0
awk '
  # when n rank ours B calls private B P shared B P libfabric B rest B
  function most(key, value) { if (!(key in max) || value > max[key]) max[key] = value }
  ($1 == "init" || $1 == "ring") && NF == 16 {
    if (!($2 in seen)) { seen[$2] = 1; sizes[++count] = $2 }
    split("5 8 9 11 12 14 16", columns, " ")
    for (c = 1; c <= 7; c++) most($1 " " $2 " " c, $columns[c])
  }
  function slope(when, c,   i, x, y, sx, sy, sxx, sxy, n) {
    for (i = 1; i <= count; i++) { x = sizes[i]; y = max[when " " x " " c]
      n++; sx += x; sy += y; sxx += x * x; sxy += x * y }
    return n < 2 ? 0 : (n * sxy - sx * sy) / (n * sxx - sx * sx)
  }
  END {
    split("init ring", whens, " ")
    what["init"] = "after MPI_Init, before any communication"
    what["ring"] = "after a message from each rank to its right neighbour"
    for (w = 1; w <= 2; w++) {
      when = whens[w]
      printf "%s%s\n%10s %12s %12s %12s %12s %12s %12s %12s\n", (w == 2 ? "\n" : ""), what[when], "ranks", "our heap",
        "private", "in memory", "shared", "in memory", "libfabric", "all others"
      for (i = 1; i <= count; i++) { printf "%10d", sizes[i]
        for (c = 1; c <= 7; c++) printf " %12d", max[when " " sizes[i] " " c]
        print "" }
      printf "%10s", "slope"
      for (c = 1; c <= 7; c++) printf " %12.1f", slope(when, c)
      print ""
    }
    if (count == 0) { print "nothing was counted"; exit 2 }
    s = slope("init", 1)
    printf "\nour heap: %.1f bytes a rank, at most 64: %s\n", s, s <= 64 ? "met" : "NOT met"
    exit s > 64
  }' "$work/all" || status=$?
printf '\nprivate memory of a silent process, KiB: ours %d, over libfabric shm %d, Open MPI alone %d\n' "$here" "$shm" "$stock"
met=met
[ $((here - stock)) -le 256 ] || { met="NOT met" && status=1; }
printf 'ours beyond Open MPI alone: %d KiB, at most 256: %s\n' $((here - stock)) "$met"
exit $status
