# shellcheck shell=bash disable=SC2034 # what is set here is used there
# Sourced by the scripts of the proof tools and by ci/deps --proof, behind
# ci/machine/env.sh: finds the tools, brings what is missing, says so where that fails.

# A tool that cannot be had is no reason to fail where RANKWAY_PROOF_OPTIONAL is
# 1, but it is never passed over in silence: .ci/run repeats these lines.
skip() { # what why
  echo "$1: skipped: $2"
  [ "${RANKWAY_PROOF_OPTIONAL:-0}" = 1 ] && exit 0
  echo "$1: set RANKWAY_PROOF_OPTIONAL=1 to go on without" >&2
  exit 1
}

has_cxx() { command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1; }
# (A compiler that is not rustup's takes +nightly for a file, and --version before it.)
has_nightly() { rustc +nightly --print sysroot >/dev/null 2>&1; }
has_miri() { has_nightly && cargo +nightly miri --version >/dev/null 2>&1; }
has_source() {
  has_nightly && [ -e "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]
}

nightly_by_hand="rustup toolchain install nightly --profile minimal -c miri -c rust-src (https://rustup.rs)"
cxx_by_hand="apt-get install g++"
# What of it is not there, and how to get it; fails if there is something.
lacking() {
  local status=0
  if ! has_miri || ! has_source; then
    echo "deps: no nightly Rust with Miri and its source: $nightly_by_hand" && status=1
  fi
  has_cxx || { echo "deps: no C++ compiler: $cxx_by_hand" && status=1; }
  return $status
}

# Installs what is missing, where it can: a nightly Rust with Miri and the
# standard library's source by rustup, a C++ compiler by apt.
bring() {
  if { ! has_miri || ! has_source; } && command -v rustup >/dev/null 2>&1; then
    echo "deps: a nightly Rust with Miri ..."
    timeout 600 rustup -q toolchain install nightly --profile minimal -c miri -c rust-src ||
      echo "deps: rustup could not; by hand: $nightly_by_hand"
  fi
  if ! has_cxx && command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "deps: a C++ compiler ..."
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends g++ \
      >/dev/null || echo "deps: apt-get could not; by hand: $cxx_by_hand"
  fi
}
