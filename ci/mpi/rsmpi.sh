#!/usr/bin/env bash
# Runs the examples of rsmpi, the Rust bindings of MPI, under the distribution's
# Open MPI, with our components and with Open MPI's own beside them. They check
# their results themselves.
#
#   ci/mpi/rsmpi.sh [options] [example...]
#     -n RANKS    numbers of ranks ("1 2 3 4")
#     -s STACK    only `ours` or only `stock`
#     -t SECONDS  limit of an example (20)
#     -q          the short form: 2 ranks, ours alone
#
# The examples are those of the package `mpi`, built in
# $RANKWAY_RSMPI (by default target/rsmpi) as its own lock file has it.
#   OPENMPI_DIR   where our components are installed (make openmpi)
#
# Status 1 when an example fails with ours and passes with stock, or fails with
# ours where only ours was run. One that fails with both is named.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

version=0.8.2
place=${RANKWAY_RSMPI:-$TARGET/rsmpi}
mkdir -p "$place"
place=$(cd "$place" && pwd)
components=${OPENMPI_DIR:-$PWD/target/openmpi}
source=$place/mpi-$version

say() { echo "rsmpi: $*" >&2; }
die() { say "$*"; exit 2; }

ranks=(1 2 3 4)
stacks=(stock ours)
limit=20
while getopts n:s:t:q option; do
  case $option in
    n) read -ra ranks <<<"$OPTARG" ;;
    s) stacks=("$OPTARG") ;;
    t) limit=$OPTARG ;;
    q) ranks=(2) stacks=(ours) ;;
    *) die "see the head of this script" ;;
  esac
done
shift $((OPTIND - 1))

# shellcheck disable=SC2034  # by name, in run
ours=(--mca mca_base_component_path "$components:SYS_DEFAULT" --mca pml cm --mca mtl rankway
  --mca osc rankway)
# shellcheck disable=SC2034  # by name, in run
stock=(--mca pml ob1)

fetch() { # cargo knows no way to unpack a package but as a dependency
  say "fetching its source"
  mkdir -p "$place/fetch/src"
  : >"$place/fetch/src/lib.rs"
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nmpi = "=%s"\n[workspace]\n' \
    "$version" >"$place/fetch/Cargo.toml"
  local found
  found=$(timeout 180 cargo metadata -q --format-version 1 --manifest-path "$place/fetch/Cargo.toml" |
    grep -o "\"[^\"]*/mpi-$version/Cargo.toml\"" | head -n 1) || die "the package mpi $version cannot be had"
  found=${found//\"/}
  rm -rf "$source.new"
  cp -R "${found%/*}" "$source.new"
  chmod -R u+w "$source.new"
  printf '\n[workspace]\n' >>"$source.new/Cargo.toml"
  mv "$source.new" "$source"
}

[ -d "$source/examples" ] || fetch
say "building its examples"
MPICC=mpicc.openmpi CARGO_TARGET_DIR=$place/target timeout 500 cargo build -q --locked --examples --features derive,complex \
  --manifest-path "$source/Cargo.toml" >"$place/log" 2>&1 ||
  { tail -n 15 "$place/log" >&2; die "the examples do not build ($place/log)"; }

examples=("$@")
if [ $# = 0 ]; then
  for file in "$source"/examples/*.rs; do
    file=${file##*/}
    examples+=("${file%.rs}")
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out
run() { # stack ranks example: its status; what it said in $out
  local n=$2 example=$3 status=0
  local -n flags=$1
  # Room for those that spawn; the panics of some are what they show.
  TMPDIR=$work timeout --kill-after=5 "$limit" mpirun.openmpi --allow-run-as-root --oversubscribe \
    --host localhost:32 --mca mpi_yield_when_idle 1 -n "$n" "${flags[@]}" \
    "$place/target/debug/examples/$example" >"$out" 2>&1 </dev/null || status=$?
  return $status
}

failed=0
for n in "${ranks[@]}"; do
  declare -A said=()
  for stack in "${stacks[@]}"; do
    start=$SECONDS passed=0
    for example in "${examples[@]}"; do
      status=0
      run "$stack" "$n" "$example" || status=$?
      said[$stack/$example]=$status
      if [ $status = 0 ]; then passed=$((passed + 1)); continue; fi
      if [ "$stack" = ours ]; then
        if [ "${said[stock/$example]:-0}" != 0 ]; then
          echo "both fail: $example, $n ranks (status $status, stock ${said[stock/$example]})"
        else
          failed=1
          echo "FAILED     $example, $n ranks (status $status)"
          tail -n 12 "$out" | sed 's/^/    /'
        fi
      fi
    done
    printf '%-6s %d ranks: %d of %d passed, %d s\n' "$stack" "$n" $passed ${#examples[@]} $((SECONDS - start))
  done
  unset said
done
exit $failed
