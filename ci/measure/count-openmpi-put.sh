#!/usr/bin/env bash
# Counts the instructions of MPI_Put in our OSC component, from its entry to its
# return, the store or the provider's call included: 8 bytes between two ranks of
# one node, in a lock_all epoch on memory of MPI_Win_allocate. Needs gdb.
#   OPENMPI_DIR  where the components are installed (make openmpi)
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${OPENMPI_DIR:?where are the components? make openmpi says}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/put.c" <<'C'
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank;
    long value = 7, *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(4096, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0)
        for (int i = 0; i < 64; i++)
            MPI_Put(&value, 1, MPI_LONG, 1, i % 8, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
C
mpicc.openmpi -O2 -o "$work/put" "$work/put.c"
cat >"$work/step.py" <<'P'
import gdb
gdb.execute("set pagination off")
gdb.execute("set breakpoint pending on")
gdb.execute("break MPI_Put")
gdb.execute("run")
gdb.execute("ignore 1 40")  # everything is warm then
gdb.execute("continue")
def pc():
    return gdb.parse_and_eval("$pc")
def ours():
    return "rankway" in (gdb.solib_name(int(pc())) or "")
while not ours():
    gdb.execute("stepi", to_string=True)
count = 0
while ours():
    count += 1
    gdb.execute("stepi", to_string=True)
print("instructions of a put in the component: %d" % count)
gdb.execute("kill")
P
cat >"$work/rank" <<S
#!/bin/sh
# Rank 0 under gdb, the others as they are.
if [ "\$OMPI_COMM_WORLD_RANK" = 0 ]; then
  exec gdb -q -batch -x "$work/step.py" "$work/put" </dev/null
fi
exec "$work/put"
S
chmod +x "$work/rank"
TMPDIR=$work timeout 120 mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 \
  --mca mca_base_component_path "$dir:SYS_DEFAULT" --mca osc rankway "$work/rank" 2>/dev/null |
  grep '^instructions'
