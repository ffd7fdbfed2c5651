#!/usr/bin/env bash
# The scripts of ci/ parse, and shellcheck has nothing against them
# where it is installed. What ci/deps says of its options, what it takes and what
# is tried on a fresh machine is the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts=(ci/deps ci/*/*.sh ci/mpi/suite/*.sh ci/guest/{fetch,mpi,run,test} hwtests/*.sh plugins/openmpi/tests/run plugins/mpich/tests/run .ci/run)
# Of busybox's shell, in the guest.
sh -n ci/guest/init
for script in "${scripts[@]}"; do bash -n "$script"; done
listed() { tr '|' ' ' | xargs -n1 | sort | xargs; }
described=$(sed -n 's|^#   ci/deps \(--[a-z0-9]*\).*|\1|p' ci/deps | listed)
taken=$(sed -n 's|^ *\(--[a-z0-9]*\)) [a-z].*|\1|p; s|^if .* = \(--proof\) \].*|\1|p' ci/deps | listed)
usage=$(sed -n 's|.*"usage: ci/deps \[\(.*\)\]".*|\1|p' ci/deps | listed)
# (What the proof tools are is fetched from elsewhere.)
fresh=$(sed -n 's|^ *for option in "" \(.*\); do .*|\1 --proof|p' ci/machine/fresh.sh | listed)
for options in "$taken" "$usage" "$fresh"; do
  [ "$described" = "$options" ] || { echo "scripts: ci/deps describes $described, and not $options" >&2; exit 1; }
done
if command -v shellcheck >/dev/null 2>&1; then
  shellcheck -x "${scripts[@]}"
else
  echo "scripts: shellcheck is not installed; only parsed"
fi
