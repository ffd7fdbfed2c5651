#!/usr/bin/env bash
# Miri, which interprets the library's tests and finds undefined behaviour: on
# what is unsafe or shared (ring, slab, address vectors), and what reads bytes of
# others (packed maps, business cards, heads, frames). Fewer cases than `make test` has:
# it is some hundred times slower.
#
#   ci/proof/miri.sh           the tests below
#   ci/proof/miri.sh WORD...   those whose name contains one of the words
#
# MIRI_SEEDS (8): schedules that the tests between threads are tried under.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
. ci/proof/tools.sh

has_miri || bring
has_miri || skip miri "no nightly Rust with Miri: $nightly_by_hand"

words=("$@")
[ ${#words[@]} != 0 ] || words=(
  av::entry av::table datatype rankmap::tests rankmap::group rankmap::compact::cpu rankmap::compact::image
  rankmap::compact::refused shm::ring device::business_card device::packet
  device::completions device::failures
  msg::credit msg::recent msg::tagged msg::pool matching::tests::takes boot::control::protocol boot::contact_info netmod::in_process rma::keys rma::node_ rma::typed
  track::definition track::event track::file track::ring
)
# Without isolation: proptest looks for its files.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" PROPTEST_CASES="${PROPTEST_CASES:-3}"
export CARGO_TARGET_DIR="$TARGET/proof" RUSTFLAGS=
miri=(cargo +nightly miri test -q --no-default-features --features device --lib --)
# (A word that names nothing would pass.)
tests=$("${miri[@]}" --list)
for word in "${words[@]}"; do
  grep -q "$word.*: test$" <<<"$tests" || { echo "miri: no test is named $word" >&2 && exit 1; }
done
"${miri[@]}" "${words[@]}"
if [ $# = 0 ]; then
  MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..${MIRI_SEEDS:-8}" "${miri[@]}" nothing_is_lost_between_threads
fi
echo "miri: nothing undefined"
