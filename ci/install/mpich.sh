#!/usr/bin/env bash
# Builds MPICH with Rankway as its netmod, and installs it into directory $1. What has
# not changed since is not done again.
#
#   MPICH_SRC     its source, a directory or a tarball; else the distribution's package
#                 is fetched (ci/mpi/source.sh)
#   MPICH_NETMOD  rankway, or to compare with it one of MPICH's own: ofi
#   MPICH_CHECKS  whether MPI's calls look at their arguments: yes, or no
#   MPICH_WITH    which of MPICH's parts are built, too: words of fortran, cxx and romio
#                 (MPI-IO). CC, FC, F77, CXX and their flags are MPICH's configure's
#   PROFILE       which build of the Rust half (release)
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
netmod=${MPICH_NETMOD:-rankway} checks=${MPICH_CHECKS:-yes}
parts=() with=''
for word in ${MPICH_WITH:-}; do
  case $word in
    fortran | cxx | romio) ;;
    *) die "MPICH_WITH=${MPICH_WITH}: there is no $word; words of fortran, cxx (mpicxx) and romio (MPI-IO)" ;;
  esac
done
for part in fortran cxx romio; do
  if [[ " ${MPICH_WITH:-} " == *" $part "* ]]; then
    parts+=("--enable-$part") with+=-$part
  else
    parts+=("--disable-$part")
  fi
done
# What the build depends on beside MPICH's own sources. (CH4's functions are inlined into
# MPI's, as they are meant to be: a put is 40 instructions less.)
options=(--prefix="$prefix" --with-ch4-shmmods=none --with-datatype-engine=dataloop --with-hwloc=no
  --with-pm=no "${parts[@]}" --disable-static "--enable-fast=O2,alwaysinline")
# The functions that ours are called in the place of.
wrapped() { grep -oh '__wrap_[A-Za-z_]*' plugins/mpich/netmod/rkw_wrapped*.h | sort -u | sed 's/^__wrap_//'; }
case $netmod in
  rankway)
    library=$(realpath "$target/${PROFILE:-release}/librankway_mpich.a")
    linked=(LIBS="$library -lpthread -lrt -lm -ldl"
      LDFLAGS="-Wl,--exclude-libs,librankway_mpich.a $(wrapped | sed 's/^/-Wl,--wrap=/' | tr '\n' ' ')")
    options+=(--with-device=ch4:stubnm --with-custom-version-string=rankway)
    ;;
  ofi)
    # (Its pkg-config names what a static one would need, too.)
    library='' linked=(external_libs="-lfabric -lpthread -lrt -lm -ldl")
    options+=(--with-device=ch4:ofi --with-libfabric=/usr)
    ;;
  *) die "MPICH_NETMOD=$netmod: rankway, or ofi" ;;
esac
case $checks in
  yes) ;;
  no) options+=(--enable-error-checking=no) ;;
  *) die "MPICH_CHECKS=$checks: yes, or no" ;;
esac
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
  rm -rf "$build/from" "$source" "$build"/objects*
  mv "$build/new" "$source"
  echo "$from" >"$build/from"
fi

# ---- ours, laid in ----
slot=$source/src/mpid/ch4/netmod/stubnm
laid=(plugins/mpich/netmod/* include/rankway.h)
for file in "${laid[@]}"; do
  cmp -s "$file" "$slot/${file##*/}" || cp "$file" "$slot/"
done

# Takes out the parts that were installed by a build with them and that this one has not.
without() { # part
  (
    cd "$prefix"
    case $1 in
      fortran) rm -f bin/mpif{77,90,ort} include/{mpif.h,mpi.mod,mpi_*.mod,pmpi_f08.mod} lib/lib{mpifort,fmpich,mpichf90}.* ;;
      cxx) rm -f bin/mpi{cxx,c++} include/mpicxx.h lib/lib{mpicxx,mpichcxx}.* ;;
      romio) rm -f include/mpi{o,of}.h ;;
    esac
  )
}

# MPICH's Fortran calls a routine with arguments of several types, which gfortran refuses from 10 on.
mismatch=-fallow-argument-mismatch
if [[ $with == *-fortran* ]] && echo end | "${FC:-gfortran}" $mismatch -fsyntax-only -x f95 - 2>/dev/null; then
  export FCFLAGS="${FCFLAGS:+$FCFLAGS }$mismatch" FFLAGS="${FFLAGS:+$FFLAGS }$mismatch"
fi
configured="${options[*]} ${CFLAGS:-}"
for name in CC CXX CXXFLAGS FC FCFLAGS F77 FFLAGS; do
  [ -z "${!name:-}" ] || configured+=" $name=${!name}"
done
state=$(cat ${library:+"${laid[@]}" "$library"} </dev/null | cksum; echo "$configured")
if [ "$(cat "$prefix/.rankway" 2>/dev/null)" != "$state" ] || [ ! -e "$prefix/bin/mpicc" ]; then
  for part in fortran cxx romio; do
    if [[ $with- != *-$part-* ]] && grep -qs -e "--enable-$part" "$prefix/.rankway"; then without $part; fi
  done
  rm -f "$prefix/.rankway"
  objects=$build/objects
  [ "$netmod$checks" = rankwayyes ] || objects+=-$netmod-checks-$checks
  objects+=$with
  mkdir -p "$objects"
  cd "$objects"
  if [ "$(cat .options 2>/dev/null)" != "$configured" ]; then
    start=$SECONDS
    say "configuring (a minute or two; $build/configure.log)"
    nice "$source/configure" "${options[@]}" >"$build/configure.log" 2>&1 ||
      { tail -n 5 "$build/configure.log" >&2; die "configure failed"; }
    echo "$configured" >.options
    say "configured in $((SECONDS - start)) s"
  fi
  start=$SECONDS
  say "building (some minutes the first time; $build/make.log)"
  # (libtool does not know that it is made of the library, too.)
  [ -z "$library" ] || [ ! "$library" -nt lib/libmpi.la ] || rm -f lib/libmpi.la lib/libpmpi.la
  jobs=$(nproc)
  nice make -j$((jobs < 2 ? jobs : 2)) V=0 "${linked[@]}" >"$build/make.log" 2>&1 ||
    { grep -E '(error|undefined|Error)' "$build/make.log" | head -n 20 >&2; die "the build failed ($build/make.log)"; }
  make install "${linked[@]}" >"$build/install.log" 2>&1 ||
    { tail -n 5 "$build/install.log" >&2; die "the installation failed"; }
  # Hydra of the distribution starts them as its own.
  # (It looks for its proxy beside the name that it is called by, so a link will not do.)
  rm -f "$prefix/bin/mpiexec"
  if launcher=$(command -v mpiexec.hydra); then
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$launcher" >"$prefix/bin/mpiexec"
    chmod +x "$prefix/bin/mpiexec"
  fi
  echo "$state" >"$prefix/.rankway"
  say "built and installed in $((SECONDS - start)) s"
fi
echo "use: $prefix/bin/mpicc program.c -o program && mpiexec.hydra -n 4 ./program"
