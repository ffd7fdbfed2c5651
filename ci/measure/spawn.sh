#!/usr/bin/env bash
# Half a round trip between a process and one that it spawned, of 8 bytes and of 1 MiB: over our
# queues of the node, over the network alone, and by Open MPI's own components.
#   MPICH_DIR, OPENMPI_DIR  where ours are (make mpich, make openmpi); what is not there is left out
set -euo pipefail
cd "$(dirname "$0")/../.."
mpich=$(realpath -m "${MPICH_DIR:-target/mpich}") components=$(realpath -m "${OPENMPI_DIR:-target/openmpi}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

row() { # what command...
  local what=$1 said
  shift
  if said=$(timeout --kill-after=5 100 "$@" speed 2>"$work/errors" </dev/null | grep '^speed'); then
    printf '%-42s %10s %10s\n' "$what" "$(cut -f2 <<<"$said")" "$(cut -f3 <<<"$said")"
  else
    printf '%-42s %s\n' "$what" "failed: $(tail -n 1 "$work/errors")"
  fi
}

printf '%-42s %10s %10s\n' 'us' '8 bytes' '1 MiB'
if [ -x "$mpich/bin/mpicc" ]; then
  "$mpich/bin/mpicc" -O2 -o "$work/mpich" plugins/openmpi/bench/spawn.c
  run=(mpiexec.hydra -n 1 "$work/mpich")
  row 'MPICH, ours' "${run[@]}"
  row 'MPICH, ours, RANKWAY_NODE_QUEUES=0' env RANKWAY_NODE_QUEUES=0 "${run[@]}"
fi
if [ -e "$components/mca_mtl_rankway.so" ]; then
  mpicc.openmpi -O2 -o "$work/openmpi" plugins/openmpi/bench/spawn.c
  run=(mpirun.openmpi --oversubscribe -n 1)
  ours=(--mca mca_base_component_path "$components:SYS_DEFAULT" --mca pml cm --mca mtl rankway)
  row 'Open MPI, ours' "${run[@]}" "${ours[@]}" "$work/openmpi"
  row 'Open MPI, ours, RANKWAY_NODE_QUEUES=0' "${run[@]}" "${ours[@]}" -x RANKWAY_NODE_QUEUES=0 "$work/openmpi"
  row 'Open MPI, ob1' "${run[@]}" --mca pml ob1 "$work/openmpi"
fi
