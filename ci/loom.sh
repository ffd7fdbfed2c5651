#!/usr/bin/env bash
# Models of what threads and processes share, under every interleaving and every
# order of memory that loom knows (proofs/): sleep and wake of the node's queues,
# the mailbox, lock words with deaths. LOOM_MAX_PREEMPTIONS (3) bounds them.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/env.sh
cd proofs
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
CARGO_TARGET_DIR=../$TARGET/proof RUSTFLAGS="--cfg loom" cargo test -q --release -- "$@"
