#!/usr/bin/env bash
# The job of `make test-verbs`, run in a guest: every scenario of the data path
# over verbs, then the issue rate of put beside the provider's own loops. Prints
# a table of what passed. SUITE is the test program, RANKWAY the command.
#
# Another netmod's scenarios go into `parts` below: guest.sh has set what UCX
# needs for rc and ud (UCX_TLS, UCX_NET_DEVICES, UCX_UD_VERBS_ETH_DGID_CHECK).
set -uo pipefail
kept=/run/share
status=0
rows=()
started=$SECONDS

note() { # what, how many passed, how many failed, seconds
  rows+=("$(printf '%-28s %7s %7s %7s' "$1" "$2" "$3" "$4")")
}

# One process at a time makes progress here: one job at a time.
scenarios() { # title, log, arguments of the test program...
  local title=$1 log=$kept/$2 start=$SECONDS passed failed
  shift 2
  "$SUITE" --test-threads 1 "$@" 2>&1 | tee "$log" || status=1
  passed=$(grep -c '^test .* ok$' "$log")
  failed=$(grep -c '^test .* FAILED$' "$log")
  # A suite that says nothing has not passed.
  if [ "$passed" = 0 ] || ! grep -q '^test result: ok' "$log"; then status=1; fi
  note "$title" "$passed" "$failed" $((SECONDS - start))
}

rate() {
  local start=$SECONDS log=$kept/rate.txt
  if timeout -k 5 60 "$RANKWAY" rate --network verbs --iterations 1024 --rounds 5 --no-pin \
    --models direct,lut 2>&1 | grep -v '^# instructions' | tee "$log" && grep -q '^direct' "$log"; then
    note "put rate, verbs;ofi_rxm" 1 0 $((SECONDS - start))
  else
    status=1
    note "put rate, verbs;ofi_rxm" 0 1 $((SECONDS - start))
  fi
}

cut -d' ' -f1-3 /proc/version
fi_info -p 'verbs;ofi_rxm' 2>/dev/null | sed -n '1,4p'
parts=${PARTS:-ofi rate}
for part in $parts; do
  case $part in
    ofi) scenarios "scenarios, verbs;ofi_rxm" ofi.log ;;
    rate) rate ;;
    *) echo "suite: there is no part $part"; status=1 ;;
  esac
done

printf '\n%-28s %7s %7s %7s\n' "over a soft RDMA device" passed failed seconds
printf '%s\n' "${rows[@]}"
printf '%-28s %23s\n' "all, without booting" $((SECONDS - started))
exit $status
