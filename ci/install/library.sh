#!/usr/bin/env bash
# Installs the C interface and the library to be preloaded under any MPI, or takes
# them away again: `make install`, `make uninstall`. PREFIX (/usr/local), LIBDIR,
# INCLUDEDIR, and DESTDIR, in front of all of them, for packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh

prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
root=${DESTDIR:-}
release=$TARGET/release
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
soname=librankway.so.$(sed -n 's/.*librankway\.so\.\([0-9]*\).*/\1/p' capi/build.rs)
real=librankway.so.$version

case "${1:-}" in
  install)
    for file in librankway.so librankway.a librankway_pack.so librankway_track.so; do
      [ -e "$release/$file" ] || { echo "install: $release/$file is not there: make build" >&2; exit 1; }
    done
    install -d "$root$libdir/pkgconfig" "$root$includedir"
    install -m 755 "$release/librankway.so" "$root$libdir/$real"
    ln -sf "$real" "$root$libdir/$soname"
    ln -sf "$soname" "$root$libdir/librankway.so"
    install -m 644 "$release/librankway.a" "$root$libdir/librankway.a"
    for file in librankway_pack.so librankway_track.so; do
      install -m 755 "$release/$file" "$root$libdir/$file"
    done
    install -m 644 include/rankway.h "$root$includedir/rankway.h"
    # Programs find the library where the loader does not look by itself.
    # shellcheck disable=SC2016 # pkg-config's
    case $libdir in
      /lib | /lib/* | /usr/lib | /usr/lib/*) rpath= ;;
      *) rpath='-Wl,-rpath,${libdir} ' ;;
    esac
    sed -e "s|@RPATH@|$rpath|; s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|; s|@INCLUDEDIR@|$includedir|; s|@VERSION@|$version|" \
      capi/rankway.pc.in >"$root$libdir/pkgconfig/rankway.pc"
    echo "install: $root$libdir/$real, librankway.a, librankway_pack.so, librankway_track.so, pkgconfig/rankway.pc, $root$includedir/rankway.h"
    # A prefix of its own, or one that the loader knows only after this.
    if [ -z "$root" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
    ;;
  uninstall)
    rm -f "$root$libdir/$real" "$root$libdir/$soname" "$root$libdir/librankway.so" \
      "$root$libdir/librankway.a" "$root$libdir/librankway_pack.so" "$root$libdir/librankway_track.so" \
      "$root$libdir/pkgconfig/rankway.pc" "$root$includedir/rankway.h"
    echo "uninstall: nothing of Rankway is left in $root$libdir and $root$includedir"
    ;;
  *)
    echo "usage: ci/install/library.sh install|uninstall" >&2
    exit 2
    ;;
esac
