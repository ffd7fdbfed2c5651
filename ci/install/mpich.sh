#!/usr/bin/env bash
# Builds MPICH with Rankway as its netmod, and installs it into directory $1. What has
# not changed since is not done again.
#
#   MPICH_SRC  its source, a directory or a tarball; else the distribution's package
#              is fetched (ci/mpi/source.sh)
#   PROFILE    which build of the Rust half (release)
#
# The source is unpacked, or copied, and built in $CARGO_TARGET_DIR/mpich-build: the
# files of plugins/mpich/netmod take the place of those of `stubnm`, the netmod without
# a body that MPICH's tarball has for such a purpose. Nothing else of it is changed.
# Status 3 where the source cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=ci/mpi/source.sh
. ci/mpi/source.sh

version=4.0.2
say() { echo "mpich: $*" >&2; }
die() { say "$*"; exit 1; }
prefix=${1:?where to?}
if ! mkdir -p "$prefix" 2>/dev/null || ! [ -w "$prefix" ]; then
  die "cannot install into $prefix; name a directory that you may write to: make mpich PREFIX=..."
fi
prefix=$(cd "$prefix" && pwd)
target=${CARGO_TARGET_DIR:-target}
library=$(realpath "$target/${PROFILE:-release}/librankway_mpich.a")
build=$target/mpich-build
mkdir -p "$build"
build=$(cd "$build" && pwd)
exec 9>"$build/lock"
flock -n 9 || die "another build is under way in $build"

by_hand="get mpich-$version.tar.gz from MPICH's own site and name it: make mpich MPICH_SRC=mpich-$version.tar.gz"
version_of() { # directory
  sed -n 's/^m4_define(\[MPICH_VERSION_m4\],\[\(.*\)\]).*/\1/p' "$1/maint/version.m4" 2>/dev/null
}
right() { # directory what
  local found
  found=$(version_of "$1")
  [ -n "$found" ] || die "$2 is no source of MPICH (it has no maint/version.m4)"
  [ "$found" = "$version" ] || die "$2 is MPICH $found; the netmod is for $version: $by_hand"
}

# ---- the source: unpacked once; without MPICH_SRC what is there stays ----
if [ -n "${MPICH_SRC:-}" ]; then
  from=$(realpath -e "$MPICH_SRC" 2>/dev/null) || die "there is no $MPICH_SRC (MPICH_SRC)"
else
  from=$(cat "$build/from" 2>/dev/null) || from=package
fi
source=$build/source
if [ "$(cat "$build/from" 2>/dev/null)" != "$from" ] || [ ! -e "$source/configure" ]; then
  rm -rf "$build/new"
  if [ -d "$from" ]; then
    right "$from" "$from"
    cp -a "$from" "$build/new"
  else
    tar=$from
    if [ "$from" = package ]; then
      find_tar() { compgen -G "$build/mpich_*.orig.tar.*" | head -n 1; }
      tar=$(find_tar) || { fetch_mpich "$build" || { say "$by_hand"; exit 3; }; tar=$(find_tar); }
    fi
    mkdir "$build/new"
    tar -x -C "$build/new" --strip-components=1 -f "$tar" || die "$tar cannot be unpacked"
    right "$build/new" "$tar"
  fi
  [ -e "$build/new/configure" ] || die "$from has no configure: take the release's tarball, $by_hand"
  rm -rf "$build/from" "$source" "$build/objects"
  mv "$build/new" "$source"
  echo "$from" >"$build/from"
fi

# ---- ours, laid in ----
slot=$source/src/mpid/ch4/netmod/stubnm
laid=(plugins/mpich/netmod/* include/rankway.h)
for file in "${laid[@]}"; do
  cmp -s "$file" "$slot/${file##*/}" || cp "$file" "$slot/"
done

# What the build depends on beside MPICH's own sources.
options=(--prefix="$prefix" --with-device=ch4:stubnm --with-ch4-shmmods=none
  --with-datatype-engine=dataloop --with-hwloc=no --with-pm=no --disable-fortran
  --disable-cxx --disable-romio --disable-static --with-custom-version-string=rankway)
state=$(cat "${laid[@]}" "$library" | cksum; echo "${options[*]} ${CFLAGS:-}")
if [ "$(cat "$prefix/.rankway" 2>/dev/null)" != "$state" ] || [ ! -e "$prefix/bin/mpicc" ]; then
  rm -f "$prefix/.rankway"
  mkdir -p "$build/objects"
  cd "$build/objects"
  if [ "$(cat .options 2>/dev/null)" != "${options[*]} ${CFLAGS:-}" ]; then
    start=$SECONDS
    say "configuring (a minute or two; $build/configure.log)"
    nice "$source/configure" "${options[@]}" >"$build/configure.log" 2>&1 ||
      { tail -n 5 "$build/configure.log" >&2; die "configure failed"; }
    echo "${options[*]} ${CFLAGS:-}" >.options
    say "configured in $((SECONDS - start)) s"
  fi
  start=$SECONDS
  say "building (some minutes the first time; $build/make.log)"
  # (libtool does not know that it is made of the library, too.)
  [ ! "$library" -nt lib/libmpi.la ] || rm -f lib/libmpi.la lib/libpmpi.la
  jobs=$(nproc)
  libraries="$library -lpthread -lrt -lm -ldl"
  nice make -j$((jobs < 2 ? jobs : 2)) V=0 \
    LIBS="$libraries" LDFLAGS="-Wl,--exclude-libs,librankway_mpich.a" >"$build/make.log" 2>&1 ||
    { grep -E '(error|undefined|Error)' "$build/make.log" | head -n 20 >&2; die "the build failed ($build/make.log)"; }
  make install LIBS="$libraries" LDFLAGS="-Wl,--exclude-libs,librankway_mpich.a" >"$build/install.log" 2>&1 ||
    { tail -n 5 "$build/install.log" >&2; die "the installation failed"; }
  # Hydra of the distribution starts them as its own.
  if launcher=$(command -v mpiexec.hydra); then ln -sf "$launcher" "$prefix/bin/mpiexec"; fi
  echo "$state" >"$prefix/.rankway"
  say "built and installed in $((SECONDS - start)) s"
fi
echo "use: $prefix/bin/mpicc program.c -o program && mpiexec.hydra -n 4 ./program"
