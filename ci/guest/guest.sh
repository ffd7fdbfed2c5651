#!/bin/bash
# Runs in the guest (bash) behind init: a soft RDMA device over a network
# card, then the job. `host` and `hosts` come from the kernel's command line:
# which guest this is, of how many.
#
# Directory /run/share, shared with the machine that started the guest:
#   environment   sourced here: RANKWAY_* and what else the job wants
#   job           run by host 0 with bash; its output goes to the second serial
#                 port, which is the starter's terminal, and to `output`
#   status        the job's exit status, written last
share=/run/share
: "${host:?which guest this is}" "${hosts:?of how many}"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run/tmp
box=/run/busybox

end() { # status, reason
  [ -z "$2" ] || echo "guest: $2" | $box tee -a "$share/output" >/dev/ttyS1
  echo "$1" >"$share/status.part"
  $box mv "$share/status.part" "$share/status"
  $box sync
  echo o >/proc/sysrq-trigger
  $box sleep 60
}

$box stty -F /dev/ttyS1 raw 2>/dev/null
ulimit -l unlimited
$box hostname "guest$host"
ip link set lo up

# A wire of its own for a guest alone; rxe does not work over `lo`. The maximum
# makes space for a 4096-byte MTU of InfiniBand's and its headers.
if [ "$hosts" = 1 ]; then
  ip link add roce0 mtu 4200 type dummy || end 3 "no dummy network card"
  nic=roce0
else
  nic=eth0
  ip link set $nic mtu 4200 || echo "guest: $nic keeps its MTU"
fi
ip addr add "10.7.0.$((host + 1))/24" dev $nic
ip link set $nic up
rdma link add rxe0 type rxe netdev $nic || end 3 "rdma link add failed"

# The device's address: gid 1 is the IPv4 one.
tries=0
until $box grep -q 'ffff:0a07' /sys/class/infiniband/rxe0/ports/1/gids/1 2>/dev/null; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || end 3 "rxe0 has no IPv4 address"
  $box sleep 0.1
done

# Its completion queues hold 32767 entries, fewer than libfabric's ofi_rxm asks
# for 256 peers: fi_enable would answer EINVAL.
export FI_UNIVERSE_SIZE=16
# UCX: ud, which rc needs beside it, checks the addresses of packets in a way that
# rxe does not pass.
export UCX_NET_DEVICES=rxe0:1
export UCX_UD_VERBS_ETH_DGID_CHECK=n
export UCX_TLS=rc_v,self
set -a
# shellcheck source=/dev/null
. "$share/environment"
set +a

if [ "$host" != 0 ]; then
  # Serves the launcher of host 0: each connection gets a shell.
  $box nc -ll -p 5555 -e /run/busybox sh
  end 3 "the agent ended"
fi

# What the job leaves behind may hold its output open: not waited for long.
mkfifo /run/words
tee "$share/output" </run/words >/dev/ttyS1 &
tee=$!
timeout -k 5 "${GUEST_SECONDS:-200}" bash "$share/job" </dev/null >/run/words 2>&1
status=$?
for ((tries = 0; tries < 30; tries++)); do
  kill -0 $tee 2>/dev/null || break
  sleep 0.1
done
case $status in
  124 | 137) end 124 "the job was still running after ${GUEST_SECONDS:-200} s" ;;
esac
end "$status"
