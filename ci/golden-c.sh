#!/usr/bin/env bash
# Instructions of what include/rankway.h has inline: never above their limits,
# and with the compiler that the golden file was made with exactly what it says.
# BLESS=1 writes the file anew. --show prints the table instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/env.sh
golden=ci/golden-c.json
release=$TARGET/release
cc=${CC:-$(command -v gcc || command -v cc)}

cargo build -q --release --workspace
ci/place-provider.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cc" -O2 -shared -fPIC -Wall -Wextra -Werror -Iinclude capi/count/count.c -o "$work/count.so"
if [ "${1:-}" = --show ]; then
  shift
  "$release/rankway" count --c "$work/count.so" "$@"
  exit
fi
counted=$("$release/rankway" count --check --json --c "$work/count.so")
if [ -n "${BLESS:-}" ]; then
  printf '%s\n' "$counted" >"$golden"
  echo "golden: $golden written"
  exit
fi
compilers() { grep 'compiler' | tr -d ' ,'; }
if [ "$(printf '%s\n' "$counted" | compilers)" != "$(compilers <"$golden")" ]; then
  echo "golden: made with other compilers; the limits hold, the exact counts are not compared"
  exit
fi
if ! printf '%s\n' "$counted" | diff -u "$golden" -; then
  echo "golden: counts have changed; if that is meant: BLESS=1 ci/golden-c.sh" >&2
  exit 1
fi
echo "golden: as they were in C"
