#!/usr/bin/env bash
# The library's tests under AddressSanitizer, which sees memory used out of
# bounds or after it was freed, and under ThreadSanitizer, which sees races.
#
#   ci/proof/sanitize.sh            both
#   ci/proof/sanitize.sh address    a minute or two from nothing
#   ci/proof/sanitize.sh thread     builds the standard library too
#   ci/proof/sanitize.sh jobs       both, of jobs whose ranks share a process: messages, windows,
#                                   elements, the matrix; a quarter of an hour
#
# AddressSanitizer also sees some of the jobs of tests/msg over libfabric. Both
# go without the other features that open libraries at run time: those are not
# instrumented, and the tests die where UCX is opened under AddressSanitizer.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
. ci/proof/tools.sh

which=${1:-both}
case $which in
  both | address | thread | jobs) ;;
  *) echo "usage: ci/proof/sanitize.sh [address|thread|jobs]" >&2 && exit 2 ;;
esac
has_source || bring
has_source || skip sanitize "no nightly Rust with its source: $nightly_by_hand"
host=$(rustc +nightly --print host-tuple)
# (A directory each: neither waits for the other's lock.)
target=$TARGET/proof
export PROPTEST_CASES="${PROPTEST_CASES:-16}"
checked=(cargo +nightly test -q --profile checked --target "$host" --no-default-features)
library=("${checked[@]}" --features device --lib)

address() {
  CARGO_TARGET_DIR=$target/address RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_leaks=0" "$@"
}
thread() {
  CARGO_TARGET_DIR=$target/thread RUSTFLAGS="-Zsanitizer=thread" \
    TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/ci/proof/sanitize.supp" "$@"
}
if [ "$which" = jobs ]; then
  # (UCX is not opened. Of "flushed" a file tells the other rank, which no sanitizer sees;
  # "long layouts" take minutes.)
  export RANKWAY_UCX=/nowhere
  jobs=("${checked[@]}" --features "ofi ucx pmix" --test msg --test rma --test ops --test matrix)
  these=("in process" --skip "long layouts")
  address "${jobs[@]}" -- "${these[@]}"
  thread "${jobs[@]}" -Zbuild-std -- "${these[@]}" --skip flushed
  echo "sanitize: neither has anything to say of ranks that share a process"
  exit
fi
if [ "$which" != thread ]; then
  address "${library[@]}"
  for scenario in sizes/shm sizes/auto "completion queue" "crossing in pieces"; do
    address "${checked[@]}" --features ofi --test msg -- "$scenario"
  done
  echo "sanitize: AddressSanitizer has nothing to say"
fi
if [ "$which" != address ]; then
  thread "${library[@]}" -Zbuild-std -- --skip a_forked_process # its child has no threads to follow
  echo "sanitize: ThreadSanitizer has nothing to say"
fi
