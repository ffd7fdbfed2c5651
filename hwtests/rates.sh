#!/usr/bin/env bash
# The rates of puts over a site's network, by message size, puts a flush and number of
# ranks, beside the network library's own loops of the same run: what a site with
# InfiniBand runs to have figures that nobody here could take.
#
#   hwtests/rates.sh [LAUNCHER WORDS...]     such as: srun -N 2, or: mpirun --map-by node
#
# to which -n RANKS PROGRAM is added; without words the ranks are forked on this machine.
#   NETWORK  which provider (verbs)
#   RANKS    how many, one after the other (2 4 8)
#   SIZES, WINDOWS  bytes of a put; puts a flush
#   OUT      where rates.csv and a chart for each number of ranks go (target/hw-rates)
set -euo pipefail
cd "$(dirname "$0")/.."
launcher=("$@")
network=${NETWORK:-verbs} out=${OUT:-target/hw-rates}
read -ra ranks <<<"${RANKS:-2 4 8}"
sizes=${SIZES:-8,64,512,4096,65536,1048576} windows=${WINDOWS:-1,16,256,1024}

devices=$(find /sys/class/infiniband -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
if [ "$network" = verbs ] && [ "$devices" = 0 ]; then
  echo "rates: skipped, no RDMA device in /sys/class/infiniband (NETWORK=tcp for a trial without one)"
  exit 0
fi
make --no-print-directory build
program=${CARGO_TARGET_DIR:-target}/release/rankway
mkdir -p "$out"
rows=$out/rates.csv
rm -f "$rows"
for n in "${ranks[@]}"; do
  if [ ${#launcher[@]} = 0 ]; then
    run=("$program" rate --processes "$n")
  else
    run=("${launcher[@]}" -n "$n" "$program" rate)
  fi
  echo "$n ranks over $network" >&2
  "${run[@]}" --network "$network" --size "$sizes" --window "$windows" --models direct,lut \
    --csv --svg "$out/rates-$n.svg" >"$out/run.csv"
  [ -e "$rows" ] || sed -n '1s/^/ranks,/p' "$out/run.csv" >"$rows"
  sed "1d; s/^/$n,/" "$out/run.csv" >>"$rows"
done
rm -f "$out/run.csv"
awk -F , '{ for (i = 1; i <= NF; i++) printf "%-16s", $i; print "" }' "$rows"
cat <<END

M puts a second (unchecked, checked), and ratios to the library's own loop of the same run;
$rows and a chart for each number of ranks are for the README's table. Rankway's authors had
software devices alone (make test-verbs): no rate, latency or bandwidth over InfiniBand, no
several nodes but processes of one machine, and no hardware counters of caches (rankway
count --cache prints them where perf has them) stand in its documents.
END
