#!/usr/bin/env bash
# Instruction and cache-line counts: instructions never above their limits, and with the compilers that the
# golden file was made with exactly what it says. BLESS=1 writes the file anew.
#
#   ci/measure/golden.sh                 of translations and puts in Rust (ci/measure/golden.json)
#   ci/measure/golden.sh c               of what include/rankway.h has inline (ci/measure/golden-c.json)
#   ci/measure/golden.sh c --show ARGS   the table instead
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
command=$TARGET/release/rankway
golden=ci/measure/golden.json
what=()

cargo build -q --release --workspace
ci/install/provider.sh
if [ "${1:-}" = c ]; then
  shift
  golden=ci/measure/golden-c.json
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "${CC:-$(command -v gcc || command -v cc)}" -O2 -shared -fPIC -Wall -Wextra -Werror -Iinclude \
    capi/count/count.c -o "$work/count.so"
  what=(--c "$work/count.so")
fi
if [ "${1:-}" = --show ]; then
  shift
  "$command" count "${what[@]}" "$@"
  exit
fi

counted=$("$command" count --check --json "${what[@]}")
if [ -n "${BLESS:-}" ]; then
  printf '%s\n' "$counted" >"$golden"
  echo "golden: $golden written"
  exit
fi
compilers() { grep 'compiler"' | tr -d ' ,'; }
if [ "$(printf '%s\n' "$counted" | compilers)" != "$(compilers <"$golden")" ]; then
  echo "golden: $golden was made with other compilers; the limits hold, the exact counts are not compared"
  exit
fi
if ! printf '%s\n' "$counted" | diff -u "$golden" -; then
  echo "golden: counts differ from $golden; if that is meant, the same with BLESS=1" >&2
  exit 1
fi
echo "golden: as in $golden"
