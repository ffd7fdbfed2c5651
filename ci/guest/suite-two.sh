#!/usr/bin/env bash
# The job of `make test-verbs-two`, run in the first of two guests: the suite,
# its ranks dealt to both by Hydra's mpiexec (package mpich). The other guest
# gives a shell to whoever connects (guest.sh), which serves as its ssh.
set -uo pipefail
nc="/run/busybox nc"

cat >/run/agent <<'AGENT'
#!/bin/bash
# agent [options] HOST COMMAND...: what Hydra calls in place of ssh.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
if [ "$host" = 10.7.0.1 ]; then exec bash -c "$*"; fi
printf 'exec %s\n' "$*" | /run/busybox nc "$host" 5555
AGENT
chmod +x /run/agent

for ((tries = 0; ; tries++)); do
  answer=$(echo 'echo here; exit' | $nc -w 1 10.7.0.2 5555 2>/dev/null)
  [ "$answer" != here ] || break
  [ $tries -lt 100 ] || { echo "suite: the other guest does not answer"; exit 3; }
  sleep 0.5
done

export RANKWAY_TEST_LAUNCHER="mpiexec.hydra -launcher rsh -launcher-exec /run/agent \
-localhost 10.7.0.1 -hosts 10.7.0.1,10.7.0.2"
# Forks its processes on one host; nothing to measure between two.
export PARTS=${PARTS:-ofi}
exec bash "$ROOT/ci/guest/suite.sh"
