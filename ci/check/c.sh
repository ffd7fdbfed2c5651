#!/usr/bin/env bash
# The C interface as C programs have it: its tests and examples, built against
# the header and run by every launcher that is here, over several providers;
# linked statically; installed, used through pkg-config, and taken away; and as the
# README says.
# PROFILE (release) says which library; without CC, gcc or cc.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

profile=${PROFILE:-release}
dir=$TARGET/$profile
# The whole workspace, as `make build` does: one package alone has other features.
case $profile in
  debug) cargo build -q -p rankway-capi ;;
  *) cargo build -q --profile "$profile" --workspace ;;
esac
soname=librankway.so.$(sed -n 's/.*librankway\.so\.\([0-9]*\).*/\1/p' capi/build.rs)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Launchers keep their sessions in a directory of ours, not beside others'.
mkdir "$work/lib" "$work/tmp"
export TMPDIR=$work/tmp
cp "$dir/librankway.so" "$work/lib/$soname"
ln -s "$soname" "$work/lib/librankway.so"
dir=$(cd "$dir" && pwd)

cc=${CC:-$(command -v gcc || command -v cc)}
strict=(-Wall -Wextra -pedantic -Werror)
build() { # program source flags...
  local program=$1 source=$2
  shift 2
  "$cc" -O2 -g "${strict[@]}" -Iinclude "$source" "$@" -o "$work/$program"
}
shared=(-L"$work/lib" "-Wl,-rpath,$work/lib" -lrankway -lpthread)
tests=()
for source in capi/tests/c/*.c; do
  name=$(basename "$source" .c)
  build "$name" "$source" -std=c11 -D_GNU_SOURCE "${shared[@]}"
  tests+=("$name")
done
examples=()
for source in examples/c/*.c; do
  name=$(basename "$source" .c)
  build "$name" "$source" -std=c99 -D_POSIX_C_SOURCE=200809L "${shared[@]}"
  examples+=("$name")
done

ran=0
run() { # what command...
  local what=$1 status=0
  shift
  timeout --kill-after=10 120 "$@" >"$work/log" 2>&1 </dev/null || status=$?
  if [ $status != 0 ]; then
    cat "$work/log" >&2
    echo "c: $what: FAILED with status $status" >&2
    exit 1
  fi
  ran=$((ran + 1))
  echo "c: $what: ok $(tail -n1 "$work/log")"
}

for name in "${tests[@]}" "${examples[@]}"; do run "$name" "$work/$name"; done
for words in "halo nonsense" "halo 0" "halo -1" "halo 4294967295" "halo 2 3" "pingpong 2"; do
  read -ra wrong <<<"$words"
  # shellcheck disable=SC2016 # the inner shell's
  run "$words is refused" sh -c '"$@" 2>"$0"; test $? = 2 && cat "$0"' "$work/refusal" \
    "$work/${wrong[0]}" "${wrong[@]:1}"
done
for name in rma messages am cq groups jobs; do
  run "$name over tcp" env TEST_PROVIDER=tcp "$work/$name"
  if ldconfig -p 2>/dev/null | grep 'libucp\.so\.0 ' >/dev/null; then
    run "$name over UCX" env TEST_NETMOD=ucx "$work/$name"
  fi
done

run "jobs over tcp alone" env TEST_PROVIDER=tcp RANKWAY_NODE_QUEUES=0 "$work/jobs"

# What a C program calls, as `rankway trace` reads it, event by event; and that a device layer
# (which brings its own boot) is not recorded.
for over in shm tcp; do
  run "recorded over $over" env TEST_PROVIDER=$over RANKWAY_TRACE="$work/traces-$over" "$work/recorded"
  "$dir/rankway" trace export --csv "$work/csv-$over" "$work/traces-$over" >"$work/log"
  if ! tr -d '\r' <"$work/csv-$over/events.csv" | cut -d, -f2,4,8,11,13,14 | LC_ALL=C sort -s -t, -k1,1 |
    diff -u capi/tests/recorded.csv -; then
    echo "c: recorded over $over: other events than capi/tests/recorded.csv" >&2
    exit 1
  fi
  # Each constructor has the place that called it.
  if grep -E '(MPI_Comm_(dup|split)|MPI_Win_[a-z]+),' "$work/csv-$over/definitions.csv" |
    grep -vE '/recorded\+0x[0-9a-f]+|recorded\.c:[0-9]+' >&2; then
    echo "c: recorded over $over: objects without the place that made them" >&2
    exit 1
  fi
done
run "a device layer" env RANKWAY_TRACE="$work/traces-none" "$work/boot"
if [ -e "$work/traces-none" ]; then
  echo "c: a device layer was recorded" >&2
  exit 1
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
open_mpi=$(command -v mpirun.openmpi || true)
hydra=$(command -v mpiexec.hydra || true)
for name in "${examples[@]}" wrong rma messages am; do
  ranks=3
  case $name in wrong | am) ranks=2 ;; esac
  if [ -n "$open_mpi" ]; then
    run "$name under mpirun" "$open_mpi" --oversubscribe -n $ranks "$work/$name"
  fi
  if [ -n "$hydra" ]; then run "$name under Hydra" "$hydra" -n $ranks "$work/$name"; fi
done
[ -n "$open_mpi" ] || echo "c: skipped: Open MPI's mpirun is not here"
[ -n "$hydra" ] || echo "c: skipped: MPICH's mpiexec.hydra is not here"

# One file that needs no librankway.so.
static=$(sed -n 's/^Libs.private: //p' capi/rankway.pc.in)
# shellcheck disable=SC2086 # a list of flags
build static examples/c/halo.c -std=c99 -D_POSIX_C_SOURCE=200809L "$dir/librankway.a" $static
run "halo, linked statically" "$work/static"

if [ "$profile" = release ]; then
  export PREFIX=/opt/rankway DESTDIR=$work/root
  ci/install/library.sh install >"$work/log"
  export PKG_CONFIG_PATH=$DESTDIR$PREFIX/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$DESTDIR
  read -ra flags <<<"$(pkg-config --cflags --libs rankway)"
  "$cc" -O2 "${strict[@]}" -std=c99 -D_POSIX_C_SOURCE=200809L examples/c/pingpong.c "${flags[@]}" \
    -o "$work/installed"
  run "pingpong, installed" env LD_LIBRARY_PATH="$DESTDIR$PREFIX/lib" "$work/installed"
  for one in pack track; do
    run "librankway_$one.so, installed" env LD_PRELOAD="$DESTDIR$PREFIX/lib/librankway_$one.so" \
      grep -c "librankway_$one" /proc/self/maps
  done
  ci/install/library.sh uninstall >"$work/log"
  left=$(find "$DESTDIR" ! -type d)
  [ -z "$left" ] || { echo "c: uninstall left $left" >&2; exit 1; }
fi
if [ "$profile" = release ]; then run "the README's lines" ci/check/readme-c.sh; fi
echo "c: $ran runs"
