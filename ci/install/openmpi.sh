#!/bin/sh
# Installs the Open MPI components into directory $1: one library, and a name
# for each component. Replaces it in one step, since a running program may have
# the old one mapped. Says how it is used. PROFILE (release) says which build.
set -eu
cd "$(dirname "$0")/../.."
dir=$1
if ! mkdir -p "$dir" 2>/dev/null || ! [ -d "$dir" ] || ! [ -w "$dir" ]; then
  echo "openmpi: cannot install into $dir; name a directory that you may write to: make openmpi OPENMPI_DIR=..." >&2
  exit 1
fi
# Programs run elsewhere.
dir=$(cd "$dir" && pwd)
cp "${CARGO_TARGET_DIR:-target}/${PROFILE:-release}/librankway_openmpi.so" "$dir/.new"
mv -f "$dir/.new" "$dir/librankway_openmpi.so"
for component in mtl osc; do
  ln -sf librankway_openmpi.so "$dir/mca_${component}_rankway.so"
done
echo "installed; use: mpirun.openmpi --mca mca_base_component_path $dir:SYS_DEFAULT \\
    --mca pml cm --mca mtl rankway --mca osc rankway,pt2pt ./program"
