#!/usr/bin/env bash
# The job of `make test-verbs-mpi`, run in a guest: programs of MPICH's test suite
# under Open MPI's mpirun, over our components and verbs;ofi_rxm, also between
# processes of one node. Prints what passed.
#
# SUITE is where the suite was built, COMPONENTS where ours are, PROGRAMS which
# ones run (directory/program/ranks).
set -uo pipefail
status=0
rows=()
# What the processes would otherwise do through memory of the node.
export RANKWAY_NODE_QUEUES=0
printf '%s\n' "$PROGRAMS"
for each in $PROGRAMS; do
  ranks=${each##*/} program=${each%/*} start=$SECONDS verdict=pass
  timeout -k 5 "${PROGRAM_SECONDS:-90}" mpirun.openmpi --allow-run-as-root --oversubscribe \
    --host localhost:16 -n "$ranks" --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base /run/tmp \
    --mca mca_base_component_path "$COMPONENTS:SYS_DEFAULT" --mca pml cm --mca mtl rankway \
    --mca osc rankway --mca mtl_rankway_provider 'verbs;ofi_rxm' --mca mtl_rankway_verbose 10 \
    --mca btl self -wdir /run "$SUITE/build/$program" >/run/out 2>&1
  ended=$?
  if [ $ended != 0 ] || ! grep -qi '^ *no errors *$' /run/out; then verdict=FAIL; fi
  # It says what it runs over; nothing else would be the network.
  grep -q 'verbs' /run/out || verdict=FAIL
  if [ $verdict = FAIL ]; then
    status=1
    echo "-- $program $ranks: status $ended"
    tail -n 20 /run/out
  fi
  rows+=("$(printf '%-40s %7s %7s %7s' "$program" "$ranks" $verdict $((SECONDS - start)))")
done
printf '\n%-40s %7s %7s %7s\n' "MPICH's suite over verbs;ofi_rxm" ranks "" seconds
printf '%s\n' "${rows[@]}"
exit $status
