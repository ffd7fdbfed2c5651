#!/usr/bin/env bash
# Instruction counts: never above their limits, and with the compiler that the
# golden file was made with exactly what it says. BLESS=1 writes the file anew.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/env.sh
golden=ci/golden.json
command=${CARGO_TARGET_DIR:-target}/release/rankway

cargo build -q --release --workspace
ci/place-provider.sh
counted=$("$command" count --check --json)
if [ -n "${BLESS:-}" ]; then
  printf '%s\n' "$counted" >"$golden"
  echo "golden: $golden written"
  exit
fi
compiler() { grep '"compiler"' | tr -d ' ,'; }
if [ "$(printf '%s\n' "$counted" | compiler)" != "$(compiler <"$golden")" ]; then
  echo "golden: made with another compiler; the limits hold, the exact counts are not compared"
  exit
fi
if ! printf '%s\n' "$counted" | diff -u "$golden" -; then
  echo "golden: counts have changed; if that is meant: BLESS=1 ci/golden.sh" >&2
  exit 1
fi
echo "golden: as they were"
