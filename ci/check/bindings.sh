#!/usr/bin/env bash
# Makes the bindings again from the headers of this machine and compares them
# with the checked-in copies. BLESS=1 replaces the copies instead.
# The copies come from Debian 12 (libfabric 1.17, UCX 1.13); with
# other headers, or without headers or libclang, there is nothing to compare.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

skip() { echo "bindings: skipped: $*"; exit 0; }

version_of() { # file macro...
  local file=$1 macro value=
  shift
  for macro in "$@"; do
    value+=.$(sed -n "s/^#define[[:space:]]\+${macro}[[:space:]]\+\([0-9]\+\).*/\1/p" "$file" | head -n1)
  done
  echo "${value#.}"
}

fabric=/usr/include/rdma/fabric.h
ucx=/usr/include/ucp/api/ucp_version.h
for header in "$fabric" "$ucx"; do
  [ -e "$header" ] || skip "$header is not there (ci/deps --ci installs it)"
done
have="$(version_of "$fabric" FI_MAJOR_VERSION FI_MINOR_VERSION) \
$(version_of "$ucx" UCP_API_MAJOR UCP_API_MINOR)"
[ "$have" = "1.17 1.13" ] || skip "headers are $have, the copies come from 1.17 1.13"

messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
# A failure to find libclang is a missing tool, any other is a fault.
if ! cargo check -q --profile checked --no-default-features --features bindgen --lib \
  --message-format=json >"$messages" 2>"$messages.err"; then
  if grep -q 'Unable to find libclang' "$messages.err"; then
    rm -f "$messages.err"
    skip "libclang is not there (ci/deps --ci installs it)"
  fi
  cat "$messages.err" >&2
  exit 1
fi
rm -f "$messages.err"
out=$(grep '"build-script-executed"' "$messages" | grep -o '"out_dir":"[^"]*/rankway-[^"]*"' |
  tail -n1 | cut -d'"' -f4)

status=0
for pair in ofi.rs:src/netmod/ofi/bindings.rs ucx.rs:src/netmod/ucx/bindings.rs; do
  made=$out/${pair%%:*} kept=${pair#*:}
  if [ "${BLESS:-0}" = 1 ]; then
    cp "$made" "$kept"
    echo "bindings: wrote $kept"
  elif ! diff -u "$kept" "$made"; then
    echo "bindings: $kept differs from what the headers give (BLESS=1 ci/check/bindings.sh)" >&2
    status=1
  else
    echo "bindings: $kept is what the headers give"
  fi
done
exit $status
