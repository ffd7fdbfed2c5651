#!/usr/bin/env bash
# The papers' figures beside ours (docs/papers.md), with the census of programs that were recorded:
#
#   ci/measure/papers.sh           writes docs/papers.md, in some minutes: `make papers`
#   ci/measure/papers.sh --check   compares it with what would be written, without times and the census
#
# Programs are run on 4 ranks of the distribution's Open MPI: NWChem (a water molecule), HPCC and LAMMPS
# (a melting crystal). Their packages are unpacked into target/census, not installed. What cannot be
# had is said and left out.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/machine/env.sh
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
rankway=$target/release/rankway
if [ "${1:-}" = --check ]; then
  cargo build -q --release --workspace
  ci/install/provider.sh
  exec "$rankway" paper --quick --check docs/papers.md
fi
place=$PWD/target/census
root=$place/root
mkdir -p "$place"
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
export TMPDIR=$run

packages=(nwchem-openmpi nwchem-data hpcc libscalapack-openmpi2.2 libblas3 liblapack3
  lammps liblammps0 libkim-api2 libvoro++1 libfftw3-double3)
if [ ! -e "$place/whole" ]; then
  mkdir -p "$run/packages"
  if (cd "$run/packages" && timeout 300 apt-get -qq download "${packages[@]}") >"$run/log" 2>&1; then
    for package in "$run"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    touch "$place/whole"
  else
    tail -n 2 "$run/log" >&2
    echo "papers: no packages of programs; is a package mirror reachable?" >&2
  fi
fi
library=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library:$library/lapack:$library/blas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export NWCHEM_BASIS_LIBRARY=$root/usr/share/nwchem/libraries/ OMP_NUM_THREADS=1

traces=()
record() { # name program arguments...
  local name=$1
  shift
  mkdir -p "$run/$name"
  if (cd "$run/$name" && timeout 300 "$rankway" trace record --no-events -o "$run/$name.traces" -- \
    mpirun.openmpi --allow-run-as-root --oversubscribe -n 4 "$@") </dev/null >"$run/log" 2>&1; then
    traces+=("$run/$name.traces")
  else
    tail -n 3 "$run/log" >&2
    echo "papers: $name did not run; it is left out of the census" >&2
  fi
}
if [ -e "$place/whole" ]; then
  mkdir -p "$run"/{nwchem,hpcc,lammps}
  cat >"$run/nwchem/water.nw" <<'END'
start water
geometry noautosym
 O 0.0 0.0 0.0
 H 0.0 0.757 0.586
 H 0.0 -0.757 0.586
end
basis
 * library 6-31g
end
task scf gradient
END
  cat >"$run/lammps/melt.in" <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 50
END
  cp "$root/usr/share/doc/hpcc/examples/_hpccinf.txt" "$run/hpcc/hpccinf.txt"
  sed -i 's/^1000 /200 /' "$run/hpcc/hpccinf.txt"
  record nwchem "$root/usr/bin/nwchem.openmpi" water.nw
  record hpcc "$root/usr/bin/hpcc"
  record lammps "$root/usr/bin/lmp" -in melt.in
fi
options=()
[ ${#traces[@]} = 0 ] || options=(--traces "$(IFS=,; echo "${traces[*]}")")

"$rankway" paper "${options[@]}" --markdown >"$run/page"
mv "$run/page" docs/papers.md
echo "docs/papers.md: $(wc -c <docs/papers.md) bytes"
