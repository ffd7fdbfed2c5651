# shellcheck shell=bash disable=SC2154 # suite, work and limit come from there
# Sourced by ci/mpi/suite.sh: runs programs, each in a session of its own, so
# that whatever it leaves behind can be found and ended.

# Processes of a session.
session() { # id
  awk -v id="$1" '{ pid = $1; sub(/.*\) /, ""); split($0, f, " "); if (f[4] == id) print pid }' \
    /proc/[0-9]*/stat 2>/dev/null || true
}

end_session() { # id
  local pids tries
  for tries in 1 2 3; do
    pids=$(session "$1")
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086 # several
    kill -KILL $pids 2>/dev/null || true
    sleep "0.$tries"
  done
}

# Ends what is under way; for a run that is interrupted.
end_all() {
  local file
  for file in "$work"/*.session; do
    [ ! -e "$file" ] || end_session "$(cat "$file")"
  done
}

# Runs line $1 of the list of jobs, after which $work/$1 holds the verdict (pass,
# FAIL, SLOW, not built, skip), a tab, and seconds; $work/$1.out the output.
one() { # number
  local number=$1 stack dir key seconds wants program ranks word verdict status=0 start=$SECONDS id
  local arguments=() environment=() words=() launcher tree
  IFS=$'\t' read -r stack dir seconds wants key <<<"${list[number]}"
  read -r program ranks word <<<"$key"
  read -ra words <<<"$word"
  if [ "$wants" = skip ]; then printf 'skip\t0\n' >"$work/$number"; return; fi
  tree=$(tree "$stack")
  if [ ! -x "$tree/$dir/$program" ]; then printf 'not built\t0\n' >"$work/$number"; return; fi
  for word in "${words[@]}"; do
    case $word in
      arg=*) arguments+=("${word#arg=}") ;;
      env=*)
        word=${word#env=}
        case $stack in
          mpich* | netmod*) environment+=(-genv "${word%%=*}" "${word#*=}") ;;
          *) environment+=(-x "$word") ;;
        esac
        ;;
    esac
  done
  case $stack in
    mpich* | netmod*) launcher=(mpiexec.hydra -n "$ranks") ;;
    *)
      # Where mpirun keeps its session: one that ends removes what it shares.
      mkdir -p "$work/s$number"
      # Slots: programs that spawn others only do so where the universe has space.
      # Then mpirun takes the machine for its own, and has to be told to yield.
      launcher=(mpirun.openmpi --allow-run-as-root --oversubscribe --host localhost:80 -n "$ranks"
        --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$work/s$number")
      ;;
  esac
  # shellcheck disable=SC2086 # flags are several
  (cd "$tree/$dir" && exec setsid timeout --kill-after=5 "$seconds" "${launcher[@]}" ${flags_of[$stack]} \
    "${environment[@]}" "./$program" "${arguments[@]}") >"$work/$number.out" 2>&1 </dev/null 9>&- &
  id=$!
  echo $id >"$work/$number.session"
  # (bash would say that it was killed.)
  wait $id 2>/dev/null || status=$?
  end_session $id
  rm -f "$work/$number.session"
  case $status/$wants in
    124/* | 137/*) verdict=SLOW ;;
    0/failure) verdict=FAIL ;;
    */failure) verdict=pass ;;
    0/text) if grep -qi '^ *no errors *$' "$work/$number.out"; then verdict=pass; else verdict=FAIL; fi ;;
    *) verdict=FAIL ;;
  esac
  printf '%s\t%s\n' "$verdict" $((SECONDS - start)) >"$work/$number"
}

# One line that shows how far it is, on a terminal.
progress() { # text
  [ ! -t 2 ] || printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$1" >&2
}

# Runs the numbers given, at most so many at a time.
pool() { # at-a-time what numbers...
  local most=$1 what=$2 number running=0 begun=0 stack dir key
  shift 2
  for number in "$@"; do
    if [ $running -ge "$most" ]; then
      wait -n || true
      running=$((running - 1))
    fi
    IFS=$'\t' read -r stack dir _ _ key <<<"${list[number]}"
    begun=$((begun + 1))
    progress "$what $begun of $#: $stack $dir/$key"
    one "$number" &
    running=$((running + 1))
  done
  wait
  progress ""
}

# Programs that were killed leave memory files, which nothing frees.
sweep() {
  local file left=0
  for file in /dev/shm/*; do
    if [ ! -f "$file" ] || [ ! -O "$file" ] || [ ! "$file" -nt "$work/started" ]; then continue; fi
    # Of others that live.
    if grep -qsF "$file" /proc/[0-9]*/maps; then continue; fi
    if [ -n "$(find /proc/[0-9]*/fd -lname "$file" -print -quit 2>/dev/null)" ]; then continue; fi
    rm -f "$file"
    left=$((left + 1))
  done
  [ $left = 0 ] || say "removed $left memory files that programs had left in /dev/shm"
}
