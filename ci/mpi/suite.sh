#!/usr/bin/env bash
# Runs MPICH's test suite under the distribution's Open MPI: over our components
# and over Open MPI's own beside them. Prints where they differ, and what passed
# and failed for each directory.
#
#   ci/mpi/suite.sh [options] [directory...]     all those below by default
#     -s STACK    run over this stack (may be repeated; ours and stock by default):
#                   ours, ours-tcp, ours-ucx    our components, over the node's
#                       queues and shared memory, tcp;ofi_rxm alone, or UCX
#                   stock         Open MPI's ob1 and vader, osc sm and pt2pt, which
#                       pass more than its other components do
#                   stock-rdma    the same with the osc Open MPI takes by itself
#                   preload       stock with librankway_pack.so before it, and stock
#                       (make preload); what fails fails without it too
#                   mpich-preload the same with the distribution's MPICH
#                   track, mpich-track   the same with librankway_track.so
#                   netmod, netmod-tcp, netmod-ucx  MPICH with our netmod, as ours above
#                   netmod-track  netmod with librankway_track.so before it, and netmod
#                   NAME=FLAGS    flags of mpirun; no failures of it are known
#     -t SECONDS  limit of a program (30), up to four times where its list says so
#     -p PATTERN  only programs whose name matches (a shell pattern)
#     -l LIMIT    only the first LIMIT programs of a directory
#     -j JOBS     programs at a time (one more than processors)
#     -v          show the output of what failed
#     --build     only build, and print where
#     --short     only what ci/mpi/suite/short names, over ours: minutes
#     --help      this text
#
# What failed is run once more alone before it counts, with the limit that
# MPICH's own runtests has (180 seconds). Failures that are known
# are in ci/mpi/suite/known with reasons: one that is not, and a known one that
# passes, make the status 1. Where the suite cannot be had the status is 3, or 0
# with RANKWAY_MPI_OPTIONAL=1.
#
# The suite is that of the distribution's source package of mpich, fetched with
# apt-get (no source entry in the system's lists is needed, nothing is
# installed) and built with the MPI's compiler into $RANKWAY_SUITE (by default
# target/mpich-suite), which holds one run at a time. For machines: in
# results/STACK/DIRECTORY (slashes as dashes) a line a program, with tabs:
# verdict, seconds, program, ranks and arguments; results/table has the verdicts
# of all stacks of the last run side by side; output/ what failed programs said.
#   OPENMPI_DIR      where our components are installed (make openmpi)
#   MPICH_DIR        where MPICH with our netmod is (make mpich)
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/ci/mpi/suite
# shellcheck source=ci/mpi/source.sh
. ci/mpi/source.sh
# shellcheck source=ci/mpi/suite/build.sh
. "$here/build.sh"
# shellcheck source=ci/mpi/suite/run.sh
. "$here/run.sh"

say() { echo "mpi-suite: $*" >&2; }
die() { echo "mpi-suite: $*" >&2; exit 2; }
usage() { sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; }
wrong() { echo "mpi-suite: $*" >&2; usage >&2; exit 2; }

all=(pt2pt comm group rma datatype coll topo spawn threads/coll threads/comm threads/init
  threads/mpi_t threads/part threads/perf threads/pt2pt threads/rma threads/spawn)
components=${OPENMPI_DIR:-$PWD/target/openmpi}
ours="--mca mca_base_component_path $components:SYS_DEFAULT --mca pml cm --mca mtl rankway --mca osc rankway"
# Whatever their lengths and blocks, all calls that can be are taken.
library=$(realpath -m "${CARGO_TARGET_DIR:-target}/release/librankway_pack.so")
recorder=$(dirname "$library")/librankway_track.so
traces=$(mktemp -d -u)
declare -A flags_of=(
  [ours]="$ours"
  [ours-tcp]="$ours --mca mtl_rankway_provider tcp;ofi_rxm -x RANKWAY_NODE_QUEUES=0"
  [ours-ucx]="$ours --mca mtl_rankway_netmod ucx"
  [stock]="--mca pml ob1 --mca osc sm,pt2pt"
  [stock-rdma]="--mca pml ob1"
  [mpich]=""
  [netmod]=""
  [netmod-tcp]="-genv RANKWAY_PROVIDER tcp;ofi_rxm -genv RANKWAY_NODE_QUEUES 0"
  [netmod-ucx]="-genv RANKWAY_NETMOD ucx"
  [mpich-preload]="-genv LD_PRELOAD $library -genv RANKWAY_PACK all"
  [mpich-track]="-genv LD_PRELOAD $recorder -genv RANKWAY_TRACE $traces"
)
flags_of[netmod-track]=${flags_of[mpich-track]}
flags_of[preload]="${flags_of[stock]} -x LD_PRELOAD=$library -x RANKWAY_PACK=all"
flags_of[track]="${flags_of[stock]} -x LD_PRELOAD=$recorder -x RANKWAY_TRACE=$traces"
# What fails there too is no failure of these; what fails over mpich alone, of none.
declare -A without=([preload]=stock [mpich-preload]=mpich [track]=stock [mpich-track]=mpich [netmod-track]=netmod) fails=()

stacks=() directories=() known=() whole=1 short=0 verbose=0 only_build=0
limit=30 patience=180 pattern='*' most=100000 at_a_time=$(($(nproc) + 1))
number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || wrong "$1 takes a number, not '$2'"; }
while [ $# -gt 0 ]; do
  case $1 in
    -s | -t | -p | -l | -j) [ $# -gt 1 ] || wrong "$1 takes an argument" ;;
  esac
  case $1 in
    -s)
      if [[ $2 == *=* ]]; then
        flags_of[${2%%=*}]=${2#*=}
      else
        [ -n "${flags_of[$2]+is}" ] || wrong "no stack is called '$2'"
        known+=("${without[$2]:-$2}")
      fi
      for stack in ${without[${2%%=*}]:-} "${2%%=*}"; do
        [[ " ${stacks[*]} " == *" $stack "* ]] || stacks+=("$stack")
      done
      shift
      ;;
    -t) number "$1" "$2"; limit=$2; shift ;;
    -p) pattern=$2 whole=0; shift ;;
    -l) number "$1" "$2"; most=$2 whole=0; shift ;;
    -j) number "$1" "$2"; at_a_time=$2; shift ;;
    -v) verbose=1 ;;
    --build) only_build=1 ;;
    --short) short=1 whole=0 ;;
    --help | -h) usage; exit 0 ;;
    -*) wrong "there is no option $1" ;;
    threads | threads/) directories+=("${all[@]:8}") ;;
    *) directories+=("${1%/}") ;;
  esac
  shift
done
[ ${#directories[@]} -gt 0 ] || directories=("${all[@]}")
if [ ${#stacks[@]} = 0 ]; then
  stacks=(ours)
  [ $short = 1 ] || stacks+=(stock)
  known=("${stacks[@]}")
fi
netmod=$(realpath -m "${MPICH_DIR:-target/mpich}")
for stack in "${stacks[@]}"; do
  case $stack in
    *preload) [ -e "$library" ] || die "there is no $library; make preload" ;;
    *track) [ -e "$recorder" ] || die "there is no $recorder; make preload" ;;
  esac
  case $stack in
    netmod* | mpich*) ;;
    *) command -v mpirun.openmpi >/dev/null 2>&1 || die "there is no mpirun.openmpi; make openmpi" ;;
  esac
  case $stack in
    netmod*) [ -x "$netmod/bin/mpicc" ] || die "there is no MPICH in $netmod; make mpich" ;;
    ours*) [ -e "$components/mca_mtl_rankway.so" ] || die "no components in $components; make openmpi" ;;
    mpich) command -v mpiexec.hydra >/dev/null 2>&1 || die "there is no mpiexec.hydra; ci/deps --preload" ;;
  esac
done

suite=${RANKWAY_SUITE:-${CARGO_TARGET_DIR:-target}/mpich-suite}
mkdir -p "$suite"
suite=$(cd "$suite" && pwd)
exec 9>"$suite/lock"
flock -n 9 || die "another run is under way in $suite"
status=0
build || status=$?
if [ $status != 0 ]; then
  [ "${RANKWAY_MPI_OPTIONAL:-}" != 1 ] || { say "SKIPPED (RANKWAY_MPI_OPTIONAL=1)"; exit 0; }
  exit $status
fi

if [ $only_build = 1 ]; then echo "$suite"; exit 0; fi

work=$(mktemp -d)
touch "$work/started"
# shellcheck disable=SC2317 # the trap's
finish() {
  end_all
  sweep
  rm -rf "$work" "$traces"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The list of jobs: stack, directory, seconds, how it says that it passed, and
# program, ranks and arguments.
list=()
jobs_of() { # stack dir
  local program ranks rest word seconds wants key seen=$'\n' count=0
  while read -r program ranks rest; do
    case $program in '' | \#*) continue ;; esac
    # shellcheck disable=SC2053 # it is a pattern
    [[ $program == $pattern ]] || continue
    key="$program ${ranks:-1}" seconds=$limit wants=text
    for word in $rest; do
      case $word in
        timeLimit=*)
          seconds=${word#*=}
          [ "$seconds" -ge "$limit" ] || seconds=$limit
          [ "$seconds" -le $((4 * limit)) ] || seconds=$((4 * limit))
          ;;
        resultTest=TestStatus | resultTest=TestErrFatal) wants=failure ;;
        # More memory than a test machine has.
        mem=*) wants=skip ;;
        # Variables of MPICH say nothing to Open MPI: such lines repeat others.
        env=MPIR_*) case $1 in netmod* | mpich*) key+=" $word" ;; esac ;;
        arg=* | env=*) key+=" $word" ;;
      esac
    done
    case $seen in *$'\n'"$key"$'\n'*) continue ;; esac
    seen+="$key"$'\n'
    if [ $short = 1 ] && ! grep -qxF "$2/$key" "$here/short"; then continue; fi
    count=$((count + 1))
    [ $count -le "$most" ] || break
    list+=("$1"$'\t'"$2"$'\t'"$seconds"$'\t'"$wants"$'\t'"$key")
  done < <(list_of "$1" "$2")
}
for stack in "${stacks[@]}"; do
  for dir in "${directories[@]}"; do jobs_of "$stack" "$dir"; done
done
[ ${#list[@]} -gt 0 ] || die "no program matches"

# Known failures: a pattern of directory/program ranks arguments, the stacks, and
# why. `sometimes` among the stacks: it may pass too.
entries=() matched=()
while IFS= read -r line; do
  case $line in '' | \#*) continue ;; esac
  entries+=("$line")
  matched+=(0)
done <"$here/known"
known_as() { # stack directory/key: entry, its number, where one says that this fails
  local i pattern those stack=${without[$1]:-$1}
  entry=
  [ -z "${fails[$stack $2]:-}" ] || return 0
  [[ " ${known[*]} " == *" $stack "* ]] && [[ $stack != mpich* ]] || return 1
  for i in "${!entries[@]}"; do
    IFS='|' read -r pattern those _ <<<"${entries[i]// | /|}"
    # shellcheck disable=SC2053 # it is a pattern
    [[ $2 == $pattern ]] || continue
    matched[i]=1
    case "/$stack $those " in
      *" $stack "* | *" both "*) ;;
      /netmod*) continue ;;
      *" others "*) ;;
      *) continue ;;
    esac
    entry=$i
    return 0
  done
  return 1
}

start=$SECONDS
pool "$at_a_time" running "${!list[@]}"
# Crowding may be the cause: alone once more, but for those that are known.
again=()
for i in "${!list[@]}"; do
  IFS=$'\t' read -r stack dir seconds wants key <<<"${list[i]}"
  case $(cat "$work/$i") in FAIL* | SLOW*) ;; *) continue ;; esac
  if known_as "$stack" "$dir/$key"; then continue; fi
  [ "$seconds" -ge "$patience" ] || seconds=$patience
  list[i]=$stack$'\t'$dir$'\t'$seconds$'\t'$wants$'\t'$key
  again+=("$i")
done
[ ${#again[@]} = 0 ] || pool 1 "once more, alone," "${again[@]}"

# Verdicts, against what is known.
failed=0
rm -rf "$suite/output"
mkdir -p "$suite/output"
for stack in "${stacks[@]}"; do
  mkdir -p "$suite/results/$stack"
  for dir in "${directories[@]}"; do : >"$suite/results/$stack/${dir//\//-}"; done
done
for i in "${!list[@]}"; do
  IFS=$'\t' read -r stack dir _ _ key <<<"${list[i]}"
  IFS=$'\t' read -r verdict seconds <"$work/$i"
  printf '%s\t%s\t%s\n' "$verdict" "$seconds" "$key" >>"$suite/results/$stack/${dir//\//-}"
  printf '%s\t%s\t%s\n' "$dir/$key" "$stack" "$verdict" >>"$work/verdicts"
  text=
  case $verdict in
    FAIL | SLOW)
      cp "$work/$i.out" "$suite/output/$stack-${dir//\//-}-${key//[ \/]/-}"
      [ "$stack" != mpich ] || fails[$stack $dir/$key]=1
      known_as "$stack" "$dir/$key" || text="$verdict  $stack: $dir/$key"
      fails[$stack $dir/$key]=1
      ;;
    pass)
      if known_as "$stack" "$dir/$key" && [[ -n $entry && ${entries[entry]} != *sometimes*\|* ]]; then
        text="PASS  $stack: $dir/$key, a known failure (ci/mpi/suite/known)"
      fi
      ;;
    'not built') [ $short = 0 ] || text="NOT BUILT  $stack: $dir/$key" ;;
  esac
  [ -n "$text" ] || continue
  failed=1
  echo "$text"
  if [ $verbose = 1 ] && [ -e "$work/$i.out" ]; then tail -n 20 "$work/$i.out" | sed 's/^/    /'; fi
done
if [ $whole = 1 ]; then
  for i in "${!entries[@]}"; do
    dir=${entries[i]%%|*}
    dir=${dir%/*}
    if [[ " ${directories[*]} " != *" $dir "* ]] || [ "${matched[i]}" = 1 ]; then continue; fi
    # Of stacks that were not run, or of no program.
    grep -q . <(for key in "${list[@]}"; do
      # shellcheck disable=SC2053 # it is a pattern
      [[ "$dir/${key##*$'\t'}" != ${entries[i]%% |*} ]] || echo yes
    done) && continue
    failed=1
    echo "ci/mpi/suite/known names no program: ${entries[i]%%|*}"
  done
fi

awk -F '\t' -v stacks="${stacks[*]}" -v differ="$([ ${#stacks[@]} -gt 1 ] && echo 1 || echo 0)" \
  -v file="$suite/results/table" '
  BEGIN { n = split(stacks, name, " ") }
  !($1 in row) { row[$1] = ++rows; text[rows] = $1 }
  { said[row[$1], $2] = $3 }
  END {
    line = "program"
    for (s = 1; s <= n; s++) line = line "\t" name[s]
    print line >file
    for (i = 1; i <= rows; i++) {
      line = text[i]
      other = 0
      for (s = 1; s <= n; s++) {
        line = line "\t" said[i, name[s]]
        if (said[i, name[s]] != said[i, name[1]]) other = 1
      }
      print line >file
      if (differ && other) {
        if (!begun++) print "Where they differ:"
        gsub(/\t/, "  ", line)
        print "  " line
      }
    }
  }' "$work/verdicts"

awk -F '\t' -v stacks="${stacks[*]}" -v took=$((SECONDS - start)) '
  function show(dir, s, key) {
    printf "%-16s %-12s %7d %7d %7d %10d %8d\n", dir, s, n[key, "pass"], n[key, "FAIL"],
      n[key, "SLOW"], n[key, "not built"], n[key, "skip"]
  }
  BEGIN {
    k = split(stacks, name, " ")
    printf "\n%-16s %-12s %7s %7s %7s %10s %8s\n", "directory", "stack", "passed", "failed", "too slow",
      "not built", "skipped"
  }
  {
    dir = $1
    sub(/ .*/, "", dir)
    sub(/\/[^\/]*$/, "", dir)
    if (!(dir in seen)) { seen[dir] = 1; order[++dirs] = dir }
    n[dir SUBSEP $2, $3]++
    n[$2, $3]++
  }
  END {
    for (d = 1; d <= dirs; d++) for (s = 1; s <= k; s++) show(order[d], name[s], order[d] SUBSEP name[s])
    for (s = 1; s <= k; s++) show("all", name[s], name[s])
    printf "%d s; all verdicts in results/table\n", took
  }' "$work/verdicts"
exit $failed
