#!/usr/bin/env bash
# Makes a minimal Debian 12 and runs in it, from nothing, what a newcomer runs:
# the README's commands as they stand there, then `make openmpi`, `make test-c`
# and `make check`. Shows what works only because it was installed by hand here.
#
#   ci/machine/fresh.sh              all of these, some 25 minutes on 2 processors
#   ci/machine/fresh.sh --short      only that each option of ci/deps installs all it says,
#                            and that our Open MPI components compile: minutes
#   ci/machine/fresh.sh COMMAND...   these commands instead, each a word, after ci/deps
#
# The sources are those of the last commit with what was changed since in files
# that git knows. The root is made anew each time and removed at the end, however
# it ends; what it mounts is mounted in a namespace of its own. It has this
# machine's network, package mirrors, proxies and certificates, nothing else of it.
# Needs root. Logs and the table of the last run are in target/fresh.
# shellcheck disable=SC2317 # a trap's, and what another shell is handed
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "fresh: $*"; }
# Not a fault of what is tried: status 3, as of other steps that need a machine.
cannot() { echo "fresh: $*" >&2; exit 3; }

# In a root, with process and mount namespaces of our own: runs $2... in it.
if [ "${1:-}" = --inside ]; then
  root=$2
  shift 2
  mount --bind "$root" "$root" # or / of a program would be a part of a mount
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o mode=755 dev "$root/dev"
  mkdir "$root/dev/pts" "$root/dev/shm"
  for node in null zero full random urandom tty; do
    touch "$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
  done
  mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  exec chroot "$root" "$@"
fi

target=${CARGO_TARGET_DIR:-target}/fresh
mkdir -p "$target"
logs=$(cd "$target" && pwd)
release=bookworm

# The commands under "Two commands" in the README, as they are copied.
readme() {
  sed -n '/^## Two commands/,/^## What/p' README.md | awk '/^```sh/ { on = 1; next } /^```/ { exit } on' |
    sed 's/ *#.*//' | grep .
}
commands=()
case "${1:-}" in
  "") mapfile -t commands < <(readme); commands+=("make openmpi" "make test-c" "make check") ;;
  --short)
    for option in "" --ci --verbs --openmpi --mpich --valgrind --otf2 --browser --perf --gdb --preload --python --fresh; do commands+=("ci/deps${option:+ $option}"); done
    commands+=(". ci/machine/env.sh && cargo check -q --manifest-path plugins/openmpi/Cargo.toml")
    ;;
  -*) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  *) commands=(ci/deps "$@") ;;
esac

[ "$(id -u)" = 0 ] || cannot "needs root to make a root file system; run it as root"
ci/deps --fresh || cannot "debootstrap cannot be installed"
unshare --mount --pid --ipc --fork true 2>/dev/null || cannot "namespaces cannot be made here (unshare --mount)"

root=$(mktemp -d "${TMPDIR:-/tmp}/rankway-fresh.XXXXXX")
chmod 755 "$root" # other users' / too
inside=
finish() {
  # With its first process a namespace ends, and with it its mounts.
  # (`timeout` leads a group of its own.)
  if [ -n "$inside" ]; then
    kill -KILL -- "-$inside" 2>/dev/null || true
    wait "$inside" 2>/dev/null || true
    sleep 1
  fi
  rm -rf --one-file-system "$root"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

rows=()
status=0
# Runs a command with its words in a log; a row of the table.
timed() { # what, seconds, log, command...
  local what=$1 limit=$2 log=$logs/$3 start=$SECONDS verdict=ok
  shift 3
  say "$what ..."
  # In the background, or the shell would hear of a signal only at its end.
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 </dev/null &
  inside=$!
  wait "$inside" || verdict="FAILED, status $?"
  inside=
  if [ "$verdict" != ok ]; then
    status=1
    tail -n 40 "$log" >&2
    say "$what: $verdict (all of it: $log)" >&2
  fi
  rows+=("$(printf '%7s  %-20s %s' $((SECONDS - start)) "$verdict" "$what")")
}
table() {
  printf '%7s  %-20s %s\n' seconds result "in a fresh Debian 12 ($release)"
  printf '%s\n' "${rows[@]}"
}
ended() { # table, kept, and its status
  { date -u '+%F %H:%M UTC'; git describe --always --dirty; table; } >"$logs/last"
  echo
  table
  exit $status
}

# This machine's mirrors of that Debian, if it has any; the tools know others.
# (apt's own placeholders.)
# shellcheck disable=SC2016
sources=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
  awk -v r="$release" '$2 == r || $2 == r "-updates" || $2 == r "-security"' | sort -u || true)
mirror=$(awk -v r="$release" '$2 == r && $3 == "main" { print $1; exit }' <<<"$sources")
make_root() {
  local proxy
  proxy=$(apt-config dump --format '%v' Acquire::http::Proxy 2>/dev/null || true)
  [ -z "$proxy" ] || export http_proxy=$proxy
  local include=()
  [[ $mirror != https:* ]] || include=(--include=ca-certificates)
  if command -v debootstrap; then
    debootstrap --variant=minbase "${include[@]}" "$release" "$root" ${mirror:+"$mirror"}
  elif command -v mmdebstrap; then
    mmdebstrap --variant=minbase "${include[@]}" "$release" "$root" ${mirror:+"$mirror"}
  else
    container=$(podman create "debian:$release-slim")
    podman export "$container" | tar -x -C "$root"
    podman rm "$container"
  fi
}
timed "a minimal root" 600 root.log bash -c "$(declare -f make_root); $(declare -p root release mirror)
  set -e; make_root"
[ $status = 0 ] || cannot "a minimal Debian 12 cannot be made; is a mirror reachable? (see above)"

# What this machine knows of the way to packages: mirrors, proxies, certificates.
if [ -z "$sources" ]; then
  site=$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list" 2>/dev/null || true)
  [ -z "$site" ] || sources="$site $release main
$site $release-updates main
${site%/debian*}/debian-security $release-security main"
fi
[ -z "$sources" ] || awk '{ print "deb", $1, $2, $3 }' <<<"$sources" >"$root/etc/apt/sources.list"
apt-config dump Acquire 2>/dev/null | grep -v '^Acquire::\(IndexTargets\|Changelogs\)' \
  >"$root/etc/apt/apt.conf.d/50this-machine" || true
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/this-machine.crt"
fi
for file in /etc/resolv.conf /etc/hosts /etc/hostname /etc/pip.conf; do
  if [ -e $file ]; then cp --remove-destination "$file" "$root$file"; fi
done
cargo_home=${CARGO_HOME:-$HOME/.cargo}
for file in config.toml config; do
  if [ -e "$cargo_home/$file" ]; then install -D -m 644 "$cargo_home/$file" "$root/root/.cargo/$file"; fi
done
for file in .config/pip/pip.conf .pip/pip.conf; do
  if [ -e "$HOME/$file" ]; then install -D -m 644 "$HOME/$file" "$root/root/$file"; fi
done
mapfile -t carried < <(env | grep -iE '^((https?|ftp|all|no)_proxy|PIP_(INDEX|EXTRA|TRUSTED|PROXY|DEFAULT)[A-Z_]*|CARGO_(HTTP|NET|REGISTRIES|REGISTRY|SOURCE)_[A-Z_]*)=' || true)

changed=$(git stash create)
mkdir "$root/rankway"
git archive "${changed:-HEAD}" | tar -x -C "$root/rankway"

count=0
for command in "${commands[@]}"; do
  count=$((count + 1))
  # `--kill-child`: when this script is gone, so is all in there.
  timed "$command" 2400 "$count.log" unshare --mount --pid --ipc --fork --kill-child --propagation private \
    "$0" --inside "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${carried[@]}" nice -n "${RANKWAY_FRESH_NICE:-0}" bash -c "cd /rankway && $command"
  [ $status = 0 ] || break
done
ended
