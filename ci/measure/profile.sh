#!/usr/bin/env bash
# Where the issue-rate loop spends its time (`make profile`): perf samples puts of 8 bytes
# over the null provider, then the functions are printed by their share, and the loop of
# unchecked puts and the provider's function with the share of each instruction.
#
#   ci/measure/profile.sh [MODEL...]    direct where none is named
#
# By cycles where the machine counts them, else by the clock, whose samples may fall some
# instructions late. Skipped, with what helps, where perf is not there or not allowed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
command=$TARGET/release/rankway
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "profile: SKIPPED, $*"; exit 0; }
perf --version >"$work/said" 2>&1 || skip "perf is not installed for this kernel (ci/deps --perf)"
objdump --version >"$work/said" 2>&1 || skip "objdump, which perf disassembles with, is not installed (ci/deps --perf)"
event=
for one in cycles:u cpu-clock:u; do
  if perf record -q -o "$work/tried" -e "$one" -- true >"$work/said" 2>&1; then event=$one && break; fi
done
if [ -z "$event" ]; then
  sed 's/^/  /' "$work/said" | head -n 20
  skip "perf may not count here; sysctl kernel.perf_event_paranoid=2, in a container --cap-add=PERFMON"
fi

for model in "${@:-direct}"; do
  # (The first measurement finds out how many puts to issue; 40 rounds are some seconds.)
  perf record -q -F 5000 -o "$work/data" -e "$event" -- \
    "$command" rate --network null --models "$model" --rounds 40 >"$work/rates"
  # (Where the machine counts no cycles, perf may take the clock without a word.)
  echo "# $model, sampled by $(perf evlist -i "$work/data" | head -n 1)"
  cat "$work/rates"
  printf '\n# functions, at least 1 %% of the samples: the other loops of the same run among them\n'
  perf report -i "$work/data" --stdio --percent-limit 1 2>"$work/said" | grep -v '^#' | grep .
  # (What puts through an indexed map call is compiled from a closure, and named so.)
  for symbol in rankway::rate::loops::unchecked core::ops::function::FnOnce::call_once \
    rankwaynull_fi::data::rma::inject_write; do
    perf annotate -i "$work/data" --stdio --no-source -s "$symbol" 2>"$work/said" |
      grep -E '^ +[0-9.]+ +:' >"$work/shares" || continue
    printf '\n# %s: percent of its samples, from the first sampled instruction to the last\n' "$symbol"
    awk '{ line[NR] = $0; if ($1 > 0) { if (!first) first = NR; last = NR } }
      END { for (i = first; first && i <= last; i++) print line[i] }' "$work/shares"
  done
done
