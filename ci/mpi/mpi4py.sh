#!/usr/bin/env bash
# Runs mpi4py's own test suite under the distribution's Open MPI, with our
# components and with Open MPI's own beside them, and prints what became of the
# tests.
#
#   ci/mpi/mpi4py.sh [options] [module...]  modules without `test_`: p2p_buf rma ...
#     -n RANKS    numbers of ranks ("1 2 3")
#     -s STACK    only `ours` or only `stock`
#     -t SECONDS  limit of a group of modules (180)
#     -q          the short form: messages and one-sided, 2 ranks, ours alone
#
# The suite is that of mpi4py's source package on PyPI; a virtual environment
# with mpi4py built for this Open MPI is kept in $RANKWAY_MPI4PY (by default
# target/mpi4py). Nothing is installed elsewhere.
#   OPENMPI_DIR   where our components are installed (make openmpi)
# Results: one line a test in results/STACK-RANKS.
#
# Status 1 when a test fails with ours that ci/mpi/mpi4py.known does not name, or
# passes that it names; a test that ours skips and stock passes has failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=4.1.2
place=${RANKWAY_MPI4PY:-${CARGO_TARGET_DIR:-target}/mpi4py}
mkdir -p "$place"
place=$(cd "$place" && pwd)
components=${OPENMPI_DIR:-$PWD/target/openmpi}
tests=$place/mpi4py-$version/test
python=$place/venv/bin/python

say() { echo "mpi4py: $*" >&2; }
die() { say "$*"; exit 2; }

ranks=(1 2 3)
stacks=(stock ours)
limit=180
while getopts n:s:t:q option; do
  case $option in
    n) read -ra ranks <<<"$OPTARG" ;;
    s) stacks=("$OPTARG") ;;
    t) limit=$OPTARG ;;
    q) ranks=(2) stacks=(ours) quick=1 ;;
    *) die "see the head of this script" ;;
  esac
done
shift $((OPTIND - 1))

# shellcheck disable=SC2034  # by name, in run
ours=(--mca mca_base_component_path "$components:SYS_DEFAULT" --mca pml cm --mca mtl rankway
  --mca osc rankway)
# What they take by themselves, and windows on memory of the program's own.
# shellcheck disable=SC2034  # by name, in run
stock=(--mca pml ob1 --mca osc "sm,pt2pt,rdma")

build() {
  if [ ! -x "$python" ]; then
    # Debian's own first: Open MPI's libraries are Debian's as well.
    local base=/usr/bin/python3
    [ -x $base ] || base=python3
    $base -m venv "$place/venv" >"$place/log" 2>&1 ||
      { rm -rf "$place/venv"; tail -n 3 "$place/log" >&2; die "no virtual environment can be made (Debian: python3-venv)"; }
  fi
  local pip=("$place/venv/bin/pip" --disable-pip-version-check -q)
  # Not with what would build its own dependencies from source.
  export MPICC=mpicc.openmpi MPI4PY_BUILD_BACKEND=setuptools
  if [ ! -d "$tests" ]; then
    say "fetching its source"
    timeout 180 "${pip[@]}" download --no-deps --no-binary mpi4py -d "$place" "mpi4py==$version" \
      >"$place/log" 2>&1 || { tail -n 3 "$place/log" >&2; die "pip could not download mpi4py $version"; }
    tar -x -C "$place" -f "$place/mpi4py-$version.tar.gz"
  fi
  if ! "$python" -c 'import mpi4py.MPI' 2>/dev/null; then
    say "building it"
    CFLAGS=-O0 timeout 500 "${pip[@]}" install --no-deps --no-cache-dir "$place/mpi4py-$version.tar.gz" \
      >"$place/log" 2>&1 ||
      { tail -n 12 "$place/log" >&2; die "it does not build (Debian: python3-dev, libopenmpi-dev)"; }
  fi
}

# Groups of modules: what hangs or dies takes its group with it. A test that
# spawns processes may hang in their PMIx_Init with any component (PMIx 4.2 of
# Debian 12): its classes are groups of their own, and tried again.
groups() {
  local name modules=() others=() module
  if [ $# -gt 0 ]; then
    for module in "$@"; do modules+=("$module"); done
  elif [ -n "${quick:-}" ]; then
    modules=(p2p_buf p2p_obj p2p_buf_matched rma rma_nb win)
  else
    for module in "$tests"/test_*.py; do
      name=${module##*/test_}
      modules+=("${name%.py}")
    done
  fi
  for module in "${modules[@]}"; do
    [ -e "$tests/test_$module.py" ] || die "the suite has no module test_$module"
    case $module in
      spawn) sed -n 's/^class \(Test[A-Za-z]*\).*/test_spawn.\1/p' "$tests/test_spawn.py" ;;
      io | util_pool | util_pkl5) echo "test_$module" ;;
      *) others+=("test_$module") ;;
    esac
  done
  # The rest by the sort of call they are about.
  local group
  for group in 'test_p2p*' 'test_cco*' 'test_rma* test_win'; do
    local here=() rest=()
    for module in "${others[@]}"; do
      local match=0 pattern
      for pattern in $group; do
        # shellcheck disable=SC2254
        case $module in $pattern) match=1 ;; esac
      done
      if [ $match = 1 ]; then here+=("$module"); else rest+=("$module"); fi
    done
    others=("${rest[@]}")
    [ ${#here[@]} = 0 ] || echo "${here[*]}"
  done
  [ ${#others[@]} = 0 ] || echo "${others[*]}"
}

work=$(mktemp -d "$place/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Runs one group: what became of each test, the worst of its ranks.
run() { # stack ranks modules...
  local stack=$1 n=$2 try status
  local -n flags=$1
  shift 2
  local seconds=$limit
  # A class of spawning tests takes 5 seconds, and 60 on a busy machine.
  case $1 in *spawn* | *util_pool*) [ "$seconds" -le 120 ] || seconds=120 ;; esac
  for try in 1 2 3; do
    rm -rf "$work/records"
    mkdir "$work/records"
    status=0
    # Processes that wait leave the processor to others; room for spawned ones.
    TMPDIR=$work timeout --kill-after=5 "$seconds" mpirun.openmpi --allow-run-as-root --oversubscribe \
      --host localhost:32 --mca mpi_yield_when_idle 1 -n "$n" "${flags[@]}" \
      "$python" ci/mpi/mpi4py-record.py "$tests" "$work/records" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ $status = 0 ] || cp "$work/out" "$place/results/$stack-$n.${1#test_}.out"
    case "$status/$1" in
      124/*spawn* | 137/*spawn*) say "$1 hangs with $stack, $n ranks ($(tail -qn 1 "$work"/records/*.txt 2>/dev/null | head -n 1)): try $try" ;;
      *) break ;;
    esac
  done
  awk '$1 == "start" { open[$2] = 1; order[++n] = $2; next }
    { delete open[$2]; if (!($2 in worst) || weight($1) > weight(worst[$2])) worst[$2] = $1; order[++n] = $2 }
    function weight(what) { return what == "FAIL" ? 3 : what == "ok" ? 2 : 1 }
    END { for (i = 1; i <= n; i++) { t = order[i]; if (t in done) continue; done[t] = 1
      print (t in open ? "HANG" : worst[t]), t } }' "$work"/records/*.txt 2>/dev/null || true
  # Died, or did not come as far as its tests.
  if [ $status != 0 ] && ! grep -qs FAIL "$work"/records/*.txt; then echo "DIED ${1%%.*}"; fi
}

build
mkdir -p "$place/results"
failed=0
printf '%-6s %5s %8s %8s %8s %8s\n' stack ranks passed failed skipped took
for n in "${ranks[@]}"; do
  for stack in "${stacks[@]}"; do
    start=$SECONDS
    : >"$place/results/$stack-$n"
    while read -ra group; do
      run "$stack" "$n" "${group[@]}" >>"$place/results/$stack-$n"
    done < <(groups "$@")
    awk -v stack="$stack" -v n="$n" -v took=$((SECONDS - start)) '
      $1 == "ok" { ok++; next } $1 == "skip" { skip++; next } { bad++ }
      END { printf "%-6s %5d %8d %8d %8d %6d s\n", stack, n, ok, bad, skip, took }' "$place/results/$stack-$n"
  done
  # Both ways: what is not known and fails, what is known and passes.
  stock_results=$place/results/stock-$n
  [ "${stacks[*]}" = "stock ours" ] || stock_results=/dev/null
  if [[ " ${stacks[*]} " == *" ours "* ]]; then
    awk -v n="$n" '
      FILENAME ~ /known$/ { if ($0 ~ /^#/ || NF < 3) next
        if ($2 == "any" || $2 == n) known[$1] = $3; next }
      FILENAME ~ /stock-/ { stock[$2] = $1; next }
      { bad = $1 != "ok" && $1 != "skip"
        if ($1 == "skip" && stock[$2] == "ok") { bad = 1; $1 = "skipped, unlike stock:" }
        like = stock[$2] == "FAIL" || stock[$2] == "HANG" || stock[$2] == "DIED"
        if (bad && !($2 in known)) { print "FAILED " $1 " " $2 ", " n " ranks" (like ? " (with stock too)" : ""); worse = 1 }
        if ($1 == "ok" && known[$2] == "always") { print "PASSES, and is named in ci/mpi/mpi4py.known: " $2 ", " n " ranks"; worse = 1 }
        if ($1 == "ok" && (stock[$2] == "FAIL" || stock[$2] == "HANG")) print "passes with ours alone: " $2 ", " n " ranks" }
      END { exit worse }' ci/mpi/mpi4py.known "$stock_results" "$place/results/ours-$n" || failed=1
  fi
done
exit $failed
