#!/usr/bin/env bash
# Fuzzes what peers, launchers and files say (fuzz/): every target for so many
# seconds, from the seeds in fuzz/seeds. A fault is a panic, arithmetic that
# wraps, a read or write out of bounds (AddressSanitizer), or ten seconds without
# an end; the case that made it stays in fuzz/artifacts.
#
#   ci/proof/fuzz.sh                  all targets, FUZZ_SECONDS (60) each
#   ci/proof/fuzz.sh packets ring     these
#   ci/proof/fuzz.sh --merge          keeps in fuzz/seeds what fuzz/corpus found
#
# Needs no cargo-fuzz: the fuzzer is the crate libfuzzer-sys, and the compiler's
# own instrumentation is asked for by name, also of a stable Rust.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
. ci/proof/tools.sh

has_cxx || bring
has_cxx || skip fuzz "no C++ compiler for libFuzzer: $cxx_by_hand"
merge=
if [ "${1:-}" = --merge ]; then merge=1; shift; fi
targets=("$@")
[ ${#targets[@]} != 0 ] || mapfile -t targets < <(sed -n '/^\[\[bin/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml)

target=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares"
if compgen -G "$(rustc --print sysroot)/lib/rustlib/$target/lib/librustc*_rt.asan.*" >/dev/null; then
  flags="$flags -Zsanitizer=address"
else
  echo "fuzz: without AddressSanitizer, whose runtime this Rust does not bring (rustup's does)"
fi
echo "fuzz: building"
# (--target: build scripts run without the instrumentation.)
CARGO_TARGET_DIR=fuzz/target RUSTC_BOOTSTRAP=1 RUSTFLAGS=$(tr '\n' ' ' <<<"$flags") \
  cargo build -q --release --manifest-path fuzz/Cargo.toml --target "$target" "${targets[@]/#/--bin=}"

# Leaks are looked for elsewhere; a handler that keeps its context is one.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
export RANKWAY_EAGER_CREDIT=4096 RANKWAY_EAGER_MESSAGES=16
for name in "${targets[@]}"; do
  program=fuzz/target/$target/release/$name
  mkdir -p "fuzz/corpus/$name" "fuzz/seeds/$name" "fuzz/artifacts/$name"
  if [ -n "$merge" ]; then
    small=$(mktemp -d)
    "$program" -merge=1 -max_len=400 "$small" "fuzz/corpus/$name" "fuzz/seeds/$name" 2>&1 | tail -n 1
    rm -rf "fuzz/seeds/$name" && mkdir -p "fuzz/seeds/$name"
    # The shortest of them, no more than a few dozen.
    find "$small" -type f -printf '%s %p\n' | sort -n | head -n 48 | cut -d' ' -f2- |
      xargs -r cp -t "fuzz/seeds/$name"
    rm -rf "$small"
    continue
  fi
  echo "fuzz: $name"
  "$program" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="fuzz/artifacts/$name/" "fuzz/corpus/$name" "fuzz/seeds/$name" >fuzz/target/log 2>&1 || {
    tail -n 60 fuzz/target/log >&2
    echo "fuzz: $name: FAILED; the case is in fuzz/artifacts/$name" >&2
    exit 1
  }
  grep -E '^stat::number_of_executed_units' fuzz/target/log | sed "s/.*units:/fuzz: $name: no fault in/;s/$/ cases/"
done
