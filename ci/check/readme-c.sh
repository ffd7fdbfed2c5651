#!/usr/bin/env bash
# What the README says under "From C" works as copied: its commands, with a home
# of their own, from `make install` to the program's run; and its lines of C
# compile between the declarations they need.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

work=$(mktemp -d)
# The README's commands leave their program here.
trap 'rm -rf "$work" pingpong' EXIT
block() { # language, of the first such block under the title
  sed -n '/^### From C/,/^### U/p' README.md |
    awk -v fence="^\`\`\`$1\$" '$0 ~ fence { on = 1; next } /^```/ { if (on) exit } on'
}

block sh >"$work/commands"
grep -q pkg-config "$work/commands" || { echo "readme-c: the README has no such commands" >&2; exit 1; }
mkdir "$work/home"
# (Without what another test or a user has set for finding the library.)
env -u PREFIX -u DESTDIR -u LIBDIR -u INCLUDEDIR -u PKG_CONFIG_PATH -u PKG_CONFIG_SYSROOT_DIR \
  -u LD_LIBRARY_PATH -u MAKEFLAGS -u MAKELEVEL \
  HOME="$work/home" CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
  bash -euo pipefail "$work/commands" >"$work/log" 2>&1 </dev/null || {
  cat "$work/log" >&2
  echo "readme-c: the README's commands failed" >&2
  exit 1
}
grep -q '[0-9]' "$work/log"

{
  cat <<'C'
#include <rankway.h>
int issue(rankway_context_t context, int size, const int *lpids, uint64_t context_id, size_t bytes,
          uint64_t word, uint32_t rank, size_t disp);
int issue(rankway_context_t context, int size, const int *lpids, uint64_t context_id, size_t bytes,
          uint64_t word, uint32_t rank, size_t disp)
{
    rankway_rankmap_t map;
    rankway_comm_t comm;
    rankway_win_t win;
    const rankway_access_t *access;
    void *memory;
    int code = 0;
C
  block c
  echo '    return code != 0; }'
} >"$work/lines.c"
"${CC:-cc}" -std=c99 -O2 -Wall -Wextra -Werror -Iinclude -c "$work/lines.c" -o "$work/lines.o"
echo "readme-c: as copied: $(tail -n 1 "$work/log")"
