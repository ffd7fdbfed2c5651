#!/usr/bin/env bash
# The job of `make test-verbs`, run in a guest: over verbs;ofi_rxm and over UCX's
# rc and ud every scenario of the data path and the issue rate of put beside the
# library's own loop; over verbs;ofi_rxm also messages, operations on elements,
# and peers that are killed and stopped. Prints a table of what passed.
#
# VERBS, MSG, OPS and FAULTS are the test programs, RANKWAY the command; PARTS
# chooses some of the parts below. An emulated machine may be too busy for all in
# time: after LATE seconds no other part is begun, and all end when GUEST_SECONDS
# do, which is a failure of the first part only. The table says what was not run.
set -uo pipefail
kept=/run/share
status=0
rows=()
started=$SECONDS

note() { # what, how many passed, how many failed, seconds
  rows+=("$(printf '%-40s %7s %7s %7s' "$1" "$2" "$3" "$4")")
}

# One process at a time makes progress here: one job at a time.
scenarios() { # title, log, program, arguments...
  local title=$1 log=$kept/$2 program=$3 start=$SECONDS passed failed ended
  shift 3
  timeout -k 5 "$(left)" "$program" --test-threads 1 "$@" 2>&1 | tee "$log"
  ended=${PIPESTATUS[0]}
  passed=$(grep -c '^test .* ok$' "$log")
  failed=$(grep -c '^test .* FAILED$' "$log")
  # A suite that says nothing has not passed.
  if [ "$ended" = 124 ] && [ "$failed" = 0 ] && [ ${#rows[@]} != 0 ]; then
    title="$title (cut short)"
  elif [ "$ended" != 0 ] || [ "$passed" = 0 ] || ! grep -q '^test result: ok' "$log"; then
    status=1
  fi
  note "$title" "$passed" "$failed" $((SECONDS - start))
}

# Seconds that are left, with some for the end.
left() {
  local left=$((${GUEST_SECONDS:-330} - (SECONDS - started) - 10))
  echo $((left > 5 ? left : 5))
}

rate() { # title, log, arguments of `rankway rate`...
  local title=$1 log=$kept/$2 start=$SECONDS
  shift 2
  if timeout -k 5 60 "$RANKWAY" rate --no-pin "$@" 2>&1 | grep -v '^# instructions' | tee "$log" &&
    grep -q '^direct' "$log"; then
    note "$title" 1 0 $((SECONDS - start))
  else
    status=1
    note "$title" 0 1 $((SECONDS - start))
  fi
}

# What is left out here is what shows nothing of the network, or the longest of
# what has a shorter one beside it.
part() {
  export RANKWAY_TEST_OVER=verbs
  case $1 in
    ofi) scenarios "data path, verbs;ofi_rxm" ofi.log "$VERBS" verbs ;;
    rate)
      rate "put rate, verbs;ofi_rxm" rate.txt --network verbs --iterations 1024 --rounds 5 \
        --models direct,lut
      ;;
    faults)
      scenarios "deaths, verbs;ofi_rxm" faults.log "$FAULTS" verbs --skip mapped --skip idle \
        --skip allocation
      ;;
    messages)
      scenarios "messages, verbs;ofi_rxm" msg.log "$MSG" verbs --skip eight --skip little \
        --skip pieces --skip nested --skip unexpected --skip "long wait" --skip shared
      ;;
    elements)
      scenarios "elements, verbs;ofi_rxm" ops.log "$OPS" verbs --skip allocated --skip long \
        --skip "programs/verbs/8" --skip atomicity --skip misuse --skip dead --skip shared
      ;;
    rc)
      scenarios "data path, ucx rc" rc.log "$VERBS" "ucx rc" --skip direct --skip provided/b \
        --skip provided/e --skip provided/u --skip provided/l --skip provided/m --skip threads \
        --skip "of two" --skip epochs --skip rc/1
      ;;
    rc-rate)
      rate "put rate, ucx rc" rc-rate.txt --netmod ucx --network created --iterations 512 \
        --rounds 5 --models direct
      ;;
    ud)
      scenarios "data path, ucx ud" ud.log "$VERBS" "ucx ud" --skip direct --skip provided \
        --skip "bulk of all" --skip "of two" --skip created/u --skip created/b --skip created/e \
        --skip created/l
      ;;
    ud-rate)
      rate "put rate, ucx ud" ud-rate.txt --netmod ucx --network created --iterations 128 \
        --rounds 3 --models direct
      ;;
    *) echo "suite: there is no part $1"; status=1 ;;
  esac
}

cut -d' ' -f1-3 /proc/version
fi_info -p 'verbs;ofi_rxm' 2>/dev/null | sed -n '1,4p'
parts=${PARTS:-ofi rate rc rc-rate messages elements faults ud ud-rate}
for part in $parts; do
  if [ $((SECONDS - started)) -gt "${LATE:-300}" ]; then
    echo "suite: $part: not begun after $((SECONDS - started)) s; PARTS=$part runs it alone"
    note "$part: late, not run" - - -
    continue
  fi
  case $part in
    rc*) UCX_TLS=rc_v,self part "$part" ;;
    ud*) UCX_TLS=ud_v,self part "$part" ;;
    *) part "$part" ;;
  esac
done

printf '\n%-40s %7s %7s %7s\n' "over a soft RDMA device" passed failed seconds
printf '%s\n' "${rows[@]}"
printf '%-40s %23s\n' "all, without booting" $((SECONDS - started))
exit $status
