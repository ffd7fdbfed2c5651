#!/usr/bin/env bash
# The scripts of ci/ parse, and shellcheck has nothing against them
# where it is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts=(ci/deps ci/*/*.sh ci/mpi/suite/*.sh ci/guest/{fetch,mpi,run,test} plugins/openmpi/tests/run .ci/run)
# Of busybox's shell, in the guest.
sh -n ci/guest/init
for script in "${scripts[@]}"; do bash -n "$script"; done
if command -v shellcheck >/dev/null 2>&1; then
  shellcheck -x "${scripts[@]}"
else
  echo "scripts: shellcheck is not installed; only parsed"
fi
