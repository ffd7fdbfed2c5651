# shellcheck shell=bash disable=SC2154 # suite, short, stacks and directories come from there
# Sourced by ci/mpi/suite.sh: where the suite comes from and how it is built.
# Status 3 of `build` where the source cannot be had.

# Unpacks the source now if need be: source, its directory.
find_source() {
  local tar
  if ! compgen -G "$suite/mpich-*/test/mpi/configure" >/dev/null; then
    compgen -G "$suite/mpich_*.orig.tar.*" >/dev/null || fetch_mpich "$suite" || return
    tar=$(compgen -G "$suite/mpich_*.orig.tar.*" | head -n 1)
    tar -x -C "$suite" -f "$tar" --wildcards 'mpich-*/test/mpi'
  fi
  source=$(compgen -G "$suite/mpich-*/test/mpi" | head -n 1)
}

# Where the programs for a stack's MPI are.
tree() { # stack
  case $1 in
    mpich*) echo "$suite/build-mpich" ;;
    netmod*) echo "$suite/build-netmod" ;;
    *) echo "$suite/build" ;;
  esac
}

configure() { # tree
  local mpi=mpicc.openmpi where=/usr
  mkdir -p "$1"
  [ ! -e "$1/config.status" ] || return 0
  case $1 in
    *-mpich) mpi=mpicc.mpich ;;
    *-netmod) mpi=$netmod/bin/mpicc where=$netmod ;;
  esac
  say "configuring for $mpi"
  # Debian's mpi.h of Open MPI hides what MPI 3 removed and its library still has.
  (cd "$1" && timeout 540 "$source/configure" --with-mpi="$where" CC="$mpi" \
    MPICC="$mpi" CPPFLAGS=-DOMPI_OMIT_MPI1_COMPAT_DECLS=0 --disable-fortran \
    --disable-cxx --disable-romio --enable-strictmpi --disable-ft-tests) >"$suite/configure.log" 2>&1 ||
    {
      rm -f "$1/config.status"
      tail -n 5 "$suite/configure.log" >&2
      die "configure failed ($suite/configure.log)"
    }
}

# Programs that need more of MPI than this one has do not build.
build_in() { # tree/directory targets...
  local dir=$1 stamp
  shift
  stamp=$dir/.built-$(cksum <<<"$*" | cut -d' ' -f1)
  [ ! -e "$dir/.built-all" ] || return 0
  [ ! -e "$stamp" ] || return 0
  say "building ${dir#"$suite/"}"
  timeout 1800 make -C "$dir" -k -j"$(nproc)" "$@" >"$dir/make.log" 2>&1 || true
  touch "$stamp"
  if [ "$*" = all ]; then touch "$dir/.built-all"; fi
}

# Configures, then builds the directories asked for, or of them what the short
# list names.
build() {
  local dir programs stack tree
  find_source || return
  for stack in "${stacks[@]}"; do
    tree=$(tree "$stack")
    configure "$tree"
    for dir in dtpools util "${directories[@]}"; do
      [ -d "$tree/$dir" ] || die "the suite has no directory $dir"
      case $short/$dir in
        0/* | */dtpools | */util) build_in "$tree/$dir" all ;;
        *)
          mapfile -t programs < <(sed -n "s|^$dir/\([^/ ]*\) .*|\1|p" "$here/short" | sort -u)
          [ ${#programs[@]} = 0 ] || build_in "$tree/$dir" "${programs[@]}"
          ;;
      esac
    done
  done
}

list_of() { # the test list of a directory for a stack
  local made
  made=$(tree "$1")/$2/testlist
  if [ -e "$made" ]; then cat "$made"; else cat "$source/$2/testlist"; fi
}
