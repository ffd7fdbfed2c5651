#!/usr/bin/env bash
# Runs MPICH's test suite under the distribution's Open MPI with our components,
# and prints what passed and failed for each directory.
#
#   ci/mpi-suite.sh [options] [directory...]     pt2pt comm coll by default
#     -s NAME=FLAGS   also run over these flags of mpirun (may be repeated;
#                     `ours` alone by default, `-s ours` names it)
#     -t SECONDS      limit of a program (30), where its test list says no more
#     -p PATTERN      only programs whose name matches (a shell pattern)
#     -l LIMIT        only the first LIMIT programs of a directory
#     -v              show the output of what failed
#
# The suite is that of the distribution's source package of mpich, fetched with
# apt-get (no source entry in the system's lists is needed, nothing is
# installed) and built with Open MPI's compiler into $RANKWAY_SUITE (by default
# target/mpich-suite). Results: one line a program in results/NAME/DIRECTORY, slashes as dashes.
#   OPENMPI_DIR      where our components are installed (make openmpi)
# Status 1 when a program failed.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=$(mkdir -p "${RANKWAY_SUITE:-${CARGO_TARGET_DIR:-target}/mpich-suite}" &&
  cd "${RANKWAY_SUITE:-${CARGO_TARGET_DIR:-target}/mpich-suite}" && pwd)
components=${OPENMPI_DIR:-$PWD/target/openmpi}
ours="--mca mca_base_component_path $components:SYS_DEFAULT --mca pml cm --mca mtl rankway"
if [ -n "${RANKWAY_OSC:-}" ]; then ours+=" --mca osc $RANKWAY_OSC"; else ours+=" --mca osc rankway,sm,pt2pt"; fi

say() { echo "mpi-suite: $*" >&2; }
die() { echo "mpi-suite: $*" >&2; exit 2; }

stacks=()
limit=30
pattern='*'
most=100000
verbose=0
while getopts s:t:p:l:v option; do
  case $option in
    s) stacks+=("$OPTARG") ;;
    t) limit=$OPTARG ;;
    p) pattern=$OPTARG ;;
    l) most=$OPTARG ;;
    v) verbose=1 ;;
    *) die "see the head of this script" ;;
  esac
done
shift $((OPTIND - 1))
directories=("$@")
[ $# -gt 0 ] || directories=(pt2pt comm coll)
[ ${#stacks[@]} -gt 0 ] || stacks=(ours)

# Fetches the source package with lists of our own, made of where the system's
# own packages come from.
fetch() {
  mkdir -p "$suite/apt/lists/partial" "$suite/apt/cache/archives/partial"
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)' \
    'Created-By: Packages' 2>/dev/null | sort -u |
    while read -r uri release component signed; do
      case $component in main | universe) ;; *) continue ;; esac
      echo "deb-src ${signed:+[signed-by=$signed] }$uri $release $component"
    done >"$suite/apt/sources.list"
  [ -s "$suite/apt/sources.list" ] || die "apt-get names no package lists; run apt-get update"
  local apt=(-qq -o "Dir::Etc::sourcelist=$suite/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$suite/apt/lists" -o "Dir::Cache=$suite/apt/cache"
    -o APT::Sandbox::User=)
  say "fetching the source of mpich"
  (cd "$suite" && timeout 300 apt-get "${apt[@]}" update &&
    timeout 300 apt-get "${apt[@]}" source --download-only mpich) >"$suite/fetch.log" 2>&1 ||
    { tail -n 5 "$suite/fetch.log" >&2; die "the source package of mpich cannot be had"; }
}

source_of() { # the directory of the suite's source, unpacked now if need be
  local tar
  if ! compgen -G "$suite/mpich-*/test/mpi/configure" >/dev/null; then
    compgen -G "$suite/mpich_*.orig.tar.*" >/dev/null || fetch
    tar=$(compgen -G "$suite/mpich_*.orig.tar.*" | head -n 1)
    tar -x -C "$suite" -f "$tar" --wildcards 'mpich-*/test/mpi'
  fi
  compgen -G "$suite/mpich-*/test/mpi" | head -n 1
}

build() { # configures, then builds the directories asked for; what does not build is left out
  local source
  source=$(source_of)
  mkdir -p "$suite/build"
  # Debian's mpi.h hides what MPI 3 removed and its library still has.
  if [ ! -e "$suite/build/config.status" ]; then
    say "configuring"
    (cd "$suite/build" && timeout 540 "$source/configure" --with-mpi=/usr CC=mpicc.openmpi \
      MPICC=mpicc.openmpi CPPFLAGS=-DOMPI_OMIT_MPI1_COMPAT_DECLS=0 --disable-fortran \
      --disable-cxx --disable-romio --enable-strictmpi --disable-ft-tests) >"$suite/configure.log" 2>&1 ||
      { tail -n 5 "$suite/configure.log" >&2; die "configure failed ($suite/configure.log)"; }
  fi
  local dir
  for dir in dtpools util "${directories[@]}"; do
    [ -d "$suite/build/$dir" ] || die "the suite has no directory $dir"
    [ -e "$suite/build/$dir/.built" ] && continue
    say "building $dir"
    # Programs that need more of MPI than this Open MPI has do not build.
    timeout 1800 make -C "$suite/build/$dir" -k -j"$(nproc)" all >"$suite/build/$dir/make.log" 2>&1 || true
    touch "$suite/build/$dir/.built"
  done
}

list_of() { # the test list of a directory
  local dir=$1 source
  source=$(source_of)
  if [ -e "$suite/build/$dir/testlist" ]; then cat "$suite/build/$dir/testlist"; else
    cat "$source/$dir/testlist"
  fi
}

# Slots: programs that spawn others only do so where the universe has room.
# Runs one program: name, ranks, then words of its line. Prints pass, FAIL, slow
# or skip, a tab, seconds.
run() { # stack-flags dir name ranks words...
  local flags=$1 dir=$2 name=$3 ranks=$4 seconds=$limit wants=text word
  shift 4
  local arguments=() environment=()
  for word in "$@"; do
    case $word in
      arg=*) arguments+=("${word#arg=}") ;;
      env=*) environment+=(-x "${word#env=}") ;;
      timeLimit=*) [ "${word#*=}" -le $seconds ] || seconds=${word#*=} ;;
      resultTest=TestStatus | resultTest=TestErrFatal) wants=failure ;;
      # More memory than a test machine has.
      mem=*) printf 'skip\t0\n'; return ;;
    esac
  done
  if [ ! -x "$suite/build/$dir/$name" ]; then printf 'not built\t0\n'; return; fi
  local start=$SECONDS status=0
  # shellcheck disable=SC2086
  (cd "$suite/build/$dir" && exec timeout --kill-after=5 "$seconds" mpirun.openmpi --allow-run-as-root \
    --oversubscribe --host localhost:32 -n "$ranks" $flags "${environment[@]}" "./$name" "${arguments[@]}") \
    >"$out" 2>&1 </dev/null || status=$?
  local took=$((SECONDS - start))
  if [ $status = 124 ] || [ $status = 137 ]; then printf 'SLOW\t%s\n' $took
  elif [ $wants = failure ]; then
    if [ $status != 0 ]; then printf 'pass\t%s\n' $took; else printf 'FAIL\t%s\n' $took; fi
  elif [ $status = 0 ] && grep -qi '^ *no errors *$' "$out"; then printf 'pass\t%s\n' $took
  else printf 'FAIL\t%s\n' $took; fi
}

build
failed=0
table=$(mktemp)
out=$(mktemp)
trap 'rm -f "$table" "$out"' EXIT
for stack in "${stacks[@]}"; do
  name=${stack%%=*}
  flags=${stack#*=}
  [ "$stack" = ours ] && flags=$ours
  for dir in "${directories[@]}"; do
    results=$suite/results/$name/${dir//\//-}
    mkdir -p "${results%/*}"
    : >"$results"
    seen=" "
    count=0
    while read -r program ranks rest; do
      case $program in '' | \#*) continue ;; esac
      # shellcheck disable=SC2254
      case $program in $pattern) ;; *) continue ;; esac
      # Variables of MPICH say nothing to Open MPI: such lines repeat others.
      words=()
      for word in $rest; do case $word in env=MPIR_* | xfail=*) ;; *) words+=("$word") ;; esac; done
      key="$program/${ranks:-1}/${words[*]}"
      case $seen in *" ${key// /,} "*) continue ;; esac
      seen+="${key// /,} "
      count=$((count + 1))
      [ $count -le "$most" ] || break
      said=$(run "$flags" "$dir" "$program" "${ranks:-1}" "${words[@]}")
      printf '%s\t%s %s %s\n' "$said" "$program" "${ranks:-1}" "${words[*]}" >>"$results"
      case $said in
        FAIL* | SLOW*)
          failed=1
          printf '%-6s %s/%s %s %s (%s)\n' "${said%%$'\t'*}" "$dir" "$program" "${ranks:-1}" "${words[*]}" "$name"
          if [ $verbose = 1 ]; then tail -n 20 "$out" | sed 's/^/    /'; fi
          ;;
      esac
    done < <(list_of "$dir")
    awk -F '\t' -v dir="$dir" -v stack="$name" '
      { n[$1]++; t += $2 }
      END { printf "%-10s %-12s %6d %6d %6d %10d %8d %6d s\n", dir, stack, n["pass"], n["FAIL"], n["SLOW"],
        n["not built"], n["skip"], t }' "$results" >>"$table"
  done
done
printf '%-10s %-12s %6s %6s %6s %10s %8s %8s\n' directory stack passed failed slow 'not built' skipped took
cat "$table"
exit $failed
