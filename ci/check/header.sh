#!/usr/bin/env bash
# include/rankway.h is what the sources give, and every compiler takes it
# without a word, as C and as C++. BLESS=1 writes it anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

# (The workspace and profile of `make test`, or all would be built once more.)
cargo test -q --profile checked --workspace --test header
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <rankway.h>\nint main(void) { return rankway_launched() > 1; }\n' >"$work/c.c"
cp "$work/c.c" "$work/c.cpp"
strict=(-fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Wundef -pedantic -Werror -Iinclude)
tried=0
for standard in c99 c11 c17 c++11 c++17 c++20; do
  case $standard in
    c++*) compilers=(g++ clang++) file=$work/c.cpp only=() ;;
    *) compilers=(gcc clang) file=$work/c.c only=(-Wstrict-prototypes -Wmissing-prototypes) ;;
  esac
  for compiler in "${compilers[@]}"; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    for optimised in -O0 -O2; do
      "$compiler" -std="$standard" "$optimised" "${strict[@]}" "${only[@]}" "$file"
    done
    tried=$((tried + 1))
  done
done
[ $tried -gt 0 ] || { echo "header: no C compiler is here" >&2; exit 1; }
echo "header: as the sources give it; $tried compilers and standards take it"
