# shellcheck shell=bash disable=SC2034 # what is set here is used there
# Sourced (bash) by the scripts here, from the root of the repository: where
# things are kept, and the programs that were fetched rather than installed.

mkdir -p "${CARGO_TARGET_DIR:-target}/softroce"
PLACE=$(cd "${CARGO_TARGET_DIR:-target}/softroce" && pwd)
TOOLS=$PLACE/tools

# Whether a program is on PATH or was fetched.
tool() {
  command -v "$1" >/dev/null 2>&1 || [ -x "$TOOLS/usr/bin/$1" ]
}

# TOOL: the words that start a program, a fetched one with the libraries that
# were fetched beside it.
find_tool() {
  local libraries
  if command -v "$1" >/dev/null 2>&1; then
    TOOL=("$1")
    return
  fi
  libraries=$(find "$TOOLS/usr/lib" "$TOOLS/lib" -name '*.so.*' -printf '%h\n' 2>/dev/null |
    sort -u | tr '\n' ':')
  TOOL=(env "LD_LIBRARY_PATH=$libraries" "$TOOLS/usr/bin/$1")
}

# Finds a busybox that runs without libraries: BUSYBOX.
static_busybox() {
  local candidate
  for candidate in "$TOOLS/bin/busybox" "$TOOLS/usr/bin/busybox" "$(command -v busybox || true)"; do
    [ -x "$candidate" ] || continue
    if ! ldd "$candidate" >/dev/null 2>&1; then
      BUSYBOX=$candidate
      return 0
    fi
  done
  return 1
}
