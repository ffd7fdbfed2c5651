# shellcheck shell=sh disable=SC2034,SC2012 # what is set here is used there
# Sourced (POSIX sh) by the Makefile and the scripts here, from the root of the
# repository: puts a cargo that is new enough on PATH, wherever it was installed.
# Sets CARGO_OK to 1 when there is one, and CARGO_HAVE to the version found.

RUST_NEEDED=1.89

# Whether version $1 (1.NN...) is at least RUST_NEEDED.
rust_at_least() {
  _minor=${1#*.}
  _minor=${_minor%%.*}
  [ "${1%%.*}" -gt 1 ] 2>/dev/null || [ "$_minor" -ge "${RUST_NEEDED#*.}" ] 2>/dev/null
}

CARGO_OK=0
CARGO_HAVE=
# In order: what the user has, rustup's place, Ubuntu's rustc-1.NN packages
# (the highest first).
for _dir in "" "${HOME:-/root}/.cargo/bin" $(ls -d /usr/lib/rust-1.*/bin 2>/dev/null | sort -t. -k2 -n -r); do
  _cargo=${_dir:+$_dir/}cargo
  command -v "$_cargo" >/dev/null 2>&1 || continue
  # "cargo 1.95.0 (...)"; a rustup proxy without a toolchain prints nothing.
  _version=$("$_cargo" --version 2>/dev/null | cut -d' ' -f2) || true
  [ -n "$_version" ] || continue
  CARGO_HAVE=$_version
  # The compiler beside it, which may be another package's.
  _compiler=$("${_dir:+$_dir/}rustc" --version 2>/dev/null | cut -d' ' -f2) || true
  [ -n "$_compiler" ] || { CARGO_HAVE="$_version without a rustc"; continue; }
  if ! rust_at_least "$_compiler"; then
    CARGO_HAVE="$_version with rustc $_compiler"
  elif rust_at_least "$_version"; then
    CARGO_OK=1
    [ -n "$_dir" ] && PATH=$_dir:$PATH && export PATH
    break
  fi
done
unset _dir _cargo _version _compiler _minor

# Where cargo puts what it builds.
TARGET=${CARGO_TARGET_DIR:-target}
