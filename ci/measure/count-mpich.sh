#!/usr/bin/env bash
# Counts the instructions of MPI_Put and MPI_Isend of 8 bytes, and of 4 and 64 where they
# are said, between two ranks of one node, in a lock_all epoch, from the call on. A put into memory of MPI_Win_allocate and a
# send by the node's queues: to the return. A put into memory of MPI_Win_create and a send
# over tcp: to the provider's entry, as with MPICH's own ch4:ofi; of the distribution's
# MPICH (ch4:ucx) both to where its library calls UCX. Single-stepped by gdb. Without MPI's
# checks of arguments, and ch4:ofi, where they have been built (make mpich-peers).
#   MPICH_DIR  where MPICH with our netmod is (make mpich), and behind whose name the others'
# Option: --functions  the instructions of each function, in the order of their first.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${MPICH_DIR:?where is it? make count-mpich says}
case ${1:-} in
  '') ;;
  --functions) export FUNCTIONS=1 ;;
  *) echo "count-mpich: $1 is no option of it; there is --functions" >&2; exit 2 ;;
esac
for program in gdb mpiexec.hydra; do
  command -v $program >/dev/null || { echo "count-mpich: there is no $program (ci/deps --gdb, ci/deps)" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/calls.c" <<'C'
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank;
    long value = 7, *base;
    MPI_Win win;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    static long memory[512];
    base = memory;
    if (argc > 1)
        MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(4096, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0)
        for (int i = 0; i < 64; i++)
            MPI_Put(&value, 1, MPI_LONG, 1, i % 8, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    const struct { int count; MPI_Datatype type; } sent[] = {{1, MPI_LONG}, {1, MPI_INT}, {8, MPI_LONG}};
    for (int i = 0; i < 3 * 64; i++)
        if (rank == 0) {
            MPI_Isend(memory, sent[i / 64].count, sent[i / 64].type, 1, 3, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(memory, 64, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
C
cat >"$work/step.py" <<'P'
import os
import gdb
gdb.execute("set pagination off")
gdb.execute("set breakpoint pending on")
gdb.execute("set env PMI_NO_FORK 1")
gdb.execute("break main")
ARGUMENTS, OURS = os.environ.get("ARGUMENTS", ""), "OURS" in os.environ
FUNCTIONS = "FUNCTIONS" in os.environ
gdb.execute("run " + ARGUMENTS)
def pc():
    return int(gdb.parse_and_eval("$pc"))
def name():
    return gdb.execute("info symbol $pc", to_string=True)
def count(call, length="", behind=0):
    place = gdb.Breakpoint(call)
    place.ignore_count = 40 + behind  # everything is warm then
    gdb.execute("continue", to_string=True)
    library, steps, rust, by_function = gdb.solib_name(pc()), 0, 0, {}
    # (A copy by the C library is a part of it.)
    while gdb.solib_name(pc()) == library or "libc.so" in (gdb.solib_name(pc()) or ""):
        # What a put calls in Rust is the provider's entry, or our own in its place.
        if OURS and call == "MPI_Put" and not name().startswith(("MPI", "PMPI", "rkw_")):
            rust = 1
            break
        steps += 1
        if FUNCTIONS:
            function = name().split(" ")[0]
            by_function[function] = by_function.get(function, 0) + 1
        gdb.execute("stepi", to_string=True)
    left = "the provider's entry" if rust else (gdb.solib_name(pc()) or "the program").split("/")[-1]
    place.delete()
    print("counted %-13s %5d instructions, then %s" % (call + length, steps, left))
    for function, instructions in by_function.items():
        print("counted   %-60s %5d" % (function, instructions))
count("MPI_Put")
count("MPI_Isend")
# (Of 64 each, 41 are behind each time.)
count("MPI_Isend", ", 4", 23)
count("MPI_Isend", ", 64", 23)
gdb.execute("kill")
P
measure() { # what program environment...
  local what=$1 program=$2
  shift 2
  cat >"$work/rank" <<S
#!/bin/sh
if [ "\$PMI_RANK" = 0 ]; then exec gdb -q -batch -x "$work/step.py" "$program" </dev/null; fi
exec "$program" \$ARGUMENTS
S
  chmod +x "$work/rank"
  timeout --kill-after=5 120 env "$@" mpiexec.hydra -n 2 "$work/rank" >"$work/out" 2>&1 || true
  grep '^counted' "$work/out" | while read -r _ line; do printf '%-26s %s\n' "$what" "$line"; done ||
    { tail -n 5 "$work/out" >&2; echo "$what could not be counted" >&2; return 1; }
}
over_tcp=("RANKWAY_PROVIDER=tcp;ofi_rxm" RANKWAY_NODE_QUEUES=0)
for checks in '' -unchecked; do
  if [ -x "$dir$checks/bin/mpicc" ]; then
    "$dir$checks/bin/mpicc" -O2 -o "$work/ours$checks" "$work/calls.c"
    measure "rankway$checks, node" "$work/ours$checks" OURS=1 ARGUMENTS=
    measure "rankway$checks, tcp" "$work/ours$checks" OURS=1 ARGUMENTS=create "${over_tcp[@]}"
  fi
  if [ -x "$dir-ofi$checks/bin/mpicc" ]; then
    "$dir-ofi$checks/bin/mpicc" -O2 -o "$work/ofi$checks" "$work/calls.c"
    measure "ch4:ofi$checks, tcp" "$work/ofi$checks" ARGUMENTS=create "FI_PROVIDER=tcp;ofi_rxm"
  else
    echo "skipped ch4:ofi$checks: it is not built (make mpich-peers)"
  fi
done
if mpicc.mpich -O2 -o "$work/theirs" "$work/calls.c" 2>/dev/null; then
  measure "the distribution's ch4:ucx" "$work/theirs" ARGUMENTS=
else
  echo "skipped the distribution's MPICH: its mpicc.mpich builds no program (ci/deps --preload)"
fi
