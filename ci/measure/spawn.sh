#!/usr/bin/env bash
# Half a round trip between a process and one that it spawned, a put and its flush, and a get, of
# 8 bytes and of 1 MiB each: over our queues of the node, over the network alone, and by Open MPI's
# own components.
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
    read -ra times <<<"${said#speed}"
    printf '%-42s %s\n' "$what" "$(printf ' %9s' "${times[@]}")"
  else
    printf '%-42s %s\n' "$what" "failed: $(tail -n 1 "$work/errors")"
  fi
}

printf '%-42s %20s%20s%20s\n' us 'half a round trip' 'put and flush' 'get and flush'
printf '%-42s %s\n' '' "$(printf ' %9s' '8 bytes' '1 MiB' '8 bytes' '1 MiB' '8 bytes' '1 MiB')"
if [ -x "$mpich/bin/mpicc" ]; then
  "$mpich/bin/mpicc" -O2 -o "$work/mpich" plugins/openmpi/bench/spawn.c
  run=(mpiexec.hydra -n 1 "$work/mpich")
  row 'MPICH, ours' "${run[@]}"
  row 'MPICH, ours, RANKWAY_NODE_QUEUES=0' env RANKWAY_NODE_QUEUES=0 "${run[@]}"
fi
if [ -e "$components/mca_mtl_rankway.so" ]; then
  mpicc.openmpi -O2 -o "$work/openmpi" plugins/openmpi/bench/spawn.c
  run=(mpirun.openmpi --oversubscribe -n 1)
  ours=(--mca mca_base_component_path "$components:SYS_DEFAULT" --mca pml cm --mca mtl rankway --mca osc rankway)
  row 'Open MPI, ours' "${run[@]}" "${ours[@]}" "$work/openmpi"
  row 'Open MPI, ours, RANKWAY_NODE_QUEUES=0' "${run[@]}" "${ours[@]}" -x RANKWAY_NODE_QUEUES=0 "$work/openmpi"
  # (Its other components refuse windows of two jobs.)
  row 'Open MPI, ob1 and osc pt2pt' "${run[@]}" --mca pml ob1 --mca osc pt2pt "$work/openmpi"
fi
