# The two commands are `ci/deps && make rate` and `make test`; `make help` lists the rest.
# Options go in ARGS: make rate ARGS="--netmod ofi --json".

SHELL := /bin/sh
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# Puts a new enough cargo on PATH, whoever installed it.
ENV := . ci/machine/env.sh &&
ARGS ?=

# Where `make openmpi` installs the components.
OPENMPI_DIR ?= $(if $(PREFIX),$(PREFIX)/lib/openmpi,$(CURDIR)/target/openmpi)
# The profile they are built with: release, or checked, which is sooner done.
OPENMPI_PROFILE ?= release

# Where `make mpich` installs MPICH with our netmod in it.
MPICH_DIR ?= $(if $(PREFIX),$(PREFIX),$(CURDIR)/target/mpich)
# The profile of its Rust half, as above.
MPICH_PROFILE ?= release

.PHONY: help deps build mpich mpich-peers test-mpich test-mpich-fortran count-mpich memory-mpich rate-mpich bench-spawn rate count profile count-c count-mpi memory maps pack papers info openmpi preload bench-preload bench-track test programs test-c test-matrix test-random test-openmpi test-mpi \
	test-mpi-short test-mpi-preload test-mpi-track test-mpi4py test-rsmpi test-verbs test-verbs-two test-verbs-mpi test-fresh bench-mpi bench-mpich heap-mpi \
	test-kills check fmt clippy doc structure public package bench rivals miri loom sanitize fuzz ci bindings \
	install uninstall clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

deps: ## install what is missing (Debian 12, Ubuntu 22.04 and later)
	@ci/deps

build: deps ## build the command and the null provider, optimised
	@$(ENV) cargo build --release --workspace
	@ci/install/provider.sh

rate: build ## issue rate of put, for every rank map, beside the raw provider
	@$(CARGO_TARGET_DIR)/release/rankway rate $(ARGS)

count: build ## instructions of a translation and of a put (ARGS: --cache for cache lines and misses, --help)
	@$(CARGO_TARGET_DIR)/release/rankway count $(ARGS)

profile: build ## where the issue-rate loop spends its time, instruction by instruction, by perf (ARGS: models)
	@ci/deps --perf || true
	@ci/measure/profile.sh $(ARGS)

count-c: build ## instructions of what include/rankway.h has inline, as C compiles it
	@ci/measure/golden.sh c --show $(ARGS)

count-mpi: openmpi build ## instructions of MPI calls on our components and Open MPI's own, by library (ARGS: --stack, --functions, --listing CALL, --created)
	@mpicc.openmpi -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o "$(OPENMPI_DIR)/rankway-count.so" plugins/openmpi/bench/count.c
	@$(CARGO_TARGET_DIR)/release/rankway count-mpi --program "$(OPENMPI_DIR)/rankway-count.so" \
		--components "$(OPENMPI_DIR)" $(ARGS)

memory: build ## bytes of address vectors and communicators
	@$(CARGO_TARGET_DIR)/release/rankway memory $(ARGS)

maps: build ## bytes and times of rank maps, beside what they must take at least
	@$(CARGO_TARGET_DIR)/release/rankway maps $(ARGS)

pack: build ## noncontiguous data packed beside memcpy, loops, Open MPI, MPICH (ARGS: names, --applications, --help)
	@$(CARGO_TARGET_DIR)/release/rankway pack $(ARGS)

papers: build preload ## write docs/papers.md: the papers' tables and figures beside ours, and a census of programs
	@ci/deps --preload
	@ci/measure/papers.sh

info: build ## netmods and providers of this machine
	@$(CARGO_TARGET_DIR)/release/rankway info $(ARGS)

openmpi: ## build the Open MPI components, install them into OPENMPI_DIR or PREFIX/lib/openmpi
	@ci/deps --openmpi
	@$(ENV) cargo build --profile $(OPENMPI_PROFILE) --manifest-path plugins/openmpi/Cargo.toml
	@PROFILE="$(OPENMPI_PROFILE)" ci/install/openmpi.sh "$(OPENMPI_DIR)"

mpich: ## build MPICH 4.0.2 with Rankway as its netmod into MPICH_DIR or PREFIX (MPICH_SRC: its source, a directory or tarball; MPICH_WITH="fortran cxx romio": these parts, too; MPICH_CHECKS=no)
	@MPICH_WITH="$(MPICH_WITH)" ci/deps --mpich
	@$(ENV) cargo build --profile $(MPICH_PROFILE) --manifest-path plugins/mpich/Cargo.toml
	@PROFILE="$(MPICH_PROFILE)" MPICH_SRC="$(MPICH_SRC)" MPICH_CHECKS="$(MPICH_CHECKS)" MPICH_WITH="$(MPICH_WITH)" ci/install/mpich.sh "$(MPICH_DIR)"

mpich-peers: mpich ## the same without checks, and MPICH's own ch4:ofi with and without: what count-mpich has beside it then
	@ci/deps --ci
	@$(MAKE) --no-print-directory mpich MPICH_DIR="$(MPICH_DIR)-unchecked" MPICH_CHECKS=no
	@MPICH_NETMOD=ofi MPICH_CHECKS=yes ci/install/mpich.sh "$(MPICH_DIR)-ofi"
	@MPICH_NETMOD=ofi MPICH_CHECKS=no ci/install/mpich.sh "$(MPICH_DIR)-ofi-unchecked"

test-mpich: mpich ## our MPI programs on it, then some of MPICH's test suite, over the node and tcp (ARGS: names of our programs)
	@MPICH_DIR="$(MPICH_DIR)" plugins/mpich/tests/run $(ARGS)
	@$(if $(ARGS),true,MPICH_DIR="$(MPICH_DIR)" ci/mpi/suite.sh --short -s netmod -s netmod-tcp pt2pt coll comm rma)

test-mpich-fortran: ## build it with MPICH_WITH="fortran romio" in MPICH_DIR-fortran, then our programs of Fortran and MPI-IO on that
	@$(MAKE) --no-print-directory mpich MPICH_DIR="$(MPICH_DIR)-fortran" MPICH_WITH="$(or $(MPICH_WITH),fortran romio)"
	@MPICH_DIR="$(MPICH_DIR)-fortran" plugins/mpich/tests/run $(or $(ARGS),io fortran_mpif fortran_mpi fortran_f08)

count-mpich: mpich ## instructions of MPI_Put and MPI_Isend on it, beside the distribution's MPICH (ARGS: --functions)
	@ci/deps --gdb
	@MPICH_DIR="$(MPICH_DIR)" ci/measure/count-mpich.sh $(ARGS)

rate-mpich: build mpich ## rate of MPI_Put by map over the null provider, beside MPICH's own ch4:ofi (ARGS: rounds)
	@MPICH_DIR="$(MPICH_DIR)" ci/measure/rate-mpich.sh $(ARGS)

memory-mpich: build mpich ## heap a peer and a rank of a communicator, beside ch4:ofi and the distribution's MPICH (ARGS: ranks)
	@ci/deps --preload
	@MPICH_DIR="$(MPICH_DIR)" ci/measure/memory-mpich.sh $(ARGS)

bench-spawn: mpich ## messages and windows with a spawned process, under MPICH and, where make openmpi was run, Open MPI
	@ci/deps --preload
	@MPICH_DIR="$(MPICH_DIR)" OPENMPI_DIR="$(OPENMPI_DIR)" ci/measure/spawn.sh

preload: ## build librankway_pack.so and librankway_track.so, to be preloaded under any MPI program
	@ci/deps
	@$(ENV) cargo build -q --release -p rankway-pack -p rankway-track
	@echo "use: mpirun ... env LD_PRELOAD=$(abspath $(CARGO_TARGET_DIR))/release/librankway_pack.so ./program"
	@echo "use: mpirun ... env LD_PRELOAD=$(abspath $(CARGO_TARGET_DIR))/release/librankway_track.so ./program"

bench-preload: preload ## packing and messages with it beside each MPI's own and memcpy, in one process (ARGS: seconds each)
	@ci/deps --preload
	@CARGO_TARGET_DIR="$(abspath $(CARGO_TARGET_DIR))" ci/measure/preload.sh $(ARGS)

bench-track: preload ## MPI_Send and a ping-pong with librankway_track.so beside MPI's own, in one process
	@ci/deps --preload
	@CARGO_TARGET_DIR="$(abspath $(CARGO_TARGET_DIR))" ci/measure/track.sh

test: build ## every test (a newer libfabric too, where ci/machine/newer-fabric.sh has fetched one)
	@ci/deps --otf2 || true
	@$(ENV) newer=$$(ci/machine/newer-fabric.sh --if-there 2>/dev/null); \
		RANKWAY_NEWER_LIBFABRIC=$$newer \
		RANKWAY_NEWER_UCX=$$(ls $${newer%/*}/libucp.so.0 2>/dev/null) \
		cargo test --profile checked --workspace $(ARGS)

programs: ## the programs of make test, built alone
	@$(ENV) cargo test --profile checked --workspace --no-run

test-kills: build ## a rank killed amidst every operation (ARGS: --row --network --trials --seed --jobs --seconds)
	@$(ENV) cargo test --profile checked --workspace --test kills -- matrix $(ARGS)

test-c: build ## the C interface: its tests and examples, under every launcher here
	@ci/check/c.sh

# `whole` and `random` of tests/matrix; over Open MPI with ARGS="--mpi".
MATRIX = $(ENV) OPENMPI_DIR="$(OPENMPI_DIR)" cargo test -q --profile checked --workspace --test matrix --

test-matrix: ## every combination of windows, epochs, operations, lengths (ARGS: --network NAME, --mpi, --seconds N, --from N, --case N, --help)
	@$(MATRIX) whole $(ARGS)

test-random: ## random programs of them, 10 minutes a network (ARGS: --seconds N, --network NAME, --mpi, --seed N)
	@$(MATRIX) random --seconds 600 $(ARGS)

test-openmpi: openmpi ## our own MPI programs under mpirun with our components
	@ci/deps --valgrind || true
	@OPENMPI_DIR="$(OPENMPI_DIR)" plugins/openmpi/tests/run $(ARGS)

bench-mpi: openmpi build ## MPI programs on our components beside Open MPI's own, in one run
	@mpicc.openmpi -std=gnu11 -O2 -Wall -Wextra -o "$(OPENMPI_DIR)/rankway-bench" plugins/openmpi/bench/bench.c
	@$(CARGO_TARGET_DIR)/release/rankway mpi --program "$(OPENMPI_DIR)/rankway-bench" \
		--components "$(OPENMPI_DIR)" $(ARGS)

bench-mpich: mpich build ## the same programs on MPICH with our netmod beside the distribution's MPICH
	@ci/deps --preload
	@"$(MPICH_DIR)/bin/mpicc" -std=gnu11 -O2 -Wall -Wextra -Wno-stringop-overflow -o "$(MPICH_DIR)/rankway-bench" plugins/openmpi/bench/bench.c
	@mpicc.mpich -std=gnu11 -O2 -Wall -Wextra -Wno-stringop-overflow -o "$(MPICH_DIR)/rankway-bench-beside" plugins/openmpi/bench/bench.c
	@$(CARGO_TARGET_DIR)/release/rankway mpi --netmod "$(MPICH_DIR)/rankway-bench" \
		--program "$(MPICH_DIR)/rankway-bench-beside" $(ARGS)

test-mpi: openmpi ## MPICH's test suite over our components and Open MPI's own (ARGS: directories, -s STACK)
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/mpi/suite.sh $(ARGS)

test-mpi-short: openmpi ## some 200 programs of it over our components, in minutes
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/mpi/suite.sh --short $(ARGS)

test-mpi-preload: preload ## MPICH's test suite with librankway_pack.so before Open MPI and MPICH, and without (ARGS: directories)
	@ci/deps --preload
	@ci/mpi/suite.sh -s preload -s mpich-preload $(ARGS)

test-mpi-track: preload ## MPICH's test suite with librankway_track.so before Open MPI and MPICH, and without (ARGS: directories)
	@ci/deps --preload
	@ci/mpi/suite.sh -s track -s mpich-track $(or $(ARGS),comm topo spawn)

test-mpi4py: openmpi ## mpi4py's test suite, with our components and with Open MPI's own
	@ci/deps --python
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/mpi/mpi4py.sh $(ARGS)

test-rsmpi: openmpi ## rsmpi's examples, with our components and with Open MPI's own
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/mpi/rsmpi.sh $(ARGS)

heap-mpi: openmpi ## heap of one process under Open MPI, by the size of the job
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/measure/heap-openmpi.sh $(ARGS)

test-verbs: build ## over verbs and over UCX's rc and ud, in a guest with a soft RDMA device (QEMU)
	@ci/guest/test

test-verbs-two: build ## the same between two guests on a virtual wire
	@ci/guest/test --hosts 2

test-verbs-mpi: openmpi ## programs of MPICH's suite over verbs, in such a guest
	@OPENMPI_DIR="$(OPENMPI_DIR)" ci/guest/mpi $(ARGS)

test-fresh: ## all a newcomer runs, in a minimal Debian made for it (root; ARGS: --short, or commands)
	@ci/machine/fresh.sh $(ARGS)

check: ## formatting, lints, documentation, structure, bindings, other targets
	@ci/deps --ci
	@ci/check/locks.sh
	@$(MAKE) --no-print-directory fmt clippy doc structure package
	@ci/check/bindings.sh
	@ci/check/header.sh
	@ci/check/portable.sh
	@ci/check/scripts.sh

# Of the Open MPI components too, where its headers are or can be installed.
WITH_OPENMPI = ! { ci/deps --openmpi || { echo "openmpi: SKIPPED, its headers cannot be installed" && false; }; } ||
OPENMPI_CRATE = --manifest-path plugins/openmpi/Cargo.toml
MPICH_CRATE = --manifest-path plugins/mpich/Cargo.toml
# (The profile of `make test`: what it has built is not built again.)
CHECKED = -q --profile checked

fmt: ## the code is formatted as rustfmt.toml says (the bindings are left alone)
	@$(ENV) cargo fmt --all --check && cargo fmt $(OPENMPI_CRATE) --check && cargo fmt $(MPICH_CRATE) --check

clippy: ## no lint is let through, with every feature and with none
	@$(ENV) cargo clippy $(CHECKED) --workspace --all-targets -- -D warnings
	@$(ENV) cargo clippy $(CHECKED) --no-default-features --lib -- -D warnings
	@$(ENV) cargo clippy $(CHECKED) $(MPICH_CRATE) --all-targets -- -D warnings
	@$(ENV) $(WITH_OPENMPI) cargo clippy $(CHECKED) $(OPENMPI_CRATE) --all-targets -- -D warnings

structure: ## names, lengths and imports are those that docs/architecture/structure.md promises
	@$(ENV) cargo test $(CHECKED) --workspace --test structure
	@crates=$$($(ENV) cargo tree -p rankway -e normal --prefix none | sort -u | wc -l); \
		[ "$$crates" -le 7 ] || { echo "the library needs $$((crates - 1)) crates, more than 6"; exit 1; }

public: ## list the public items anew (ci/check/public.txt), where they are meant to change
	@$(ENV) BLESS=1 cargo test $(CHECKED) --workspace --test structure public_interface

# (Nothing of the components is public but their entries.)
doc: ## the documentation builds, and no link in it is broken
	@$(ENV) RUSTDOCFLAGS=-Dwarnings cargo doc $(CHECKED) --no-deps --workspace
	@$(ENV) RUSTDOCFLAGS=-Dwarnings cargo doc $(CHECKED) --no-deps --no-default-features --lib
	@$(ENV) RUSTDOCFLAGS="-Dwarnings -Arustdoc::private_intra_doc_links" \
		cargo doc $(CHECKED) --no-deps --document-private-items $(MPICH_CRATE)
	@$(ENV) $(WITH_OPENMPI) RUSTDOCFLAGS="-Dwarnings -Arustdoc::private_intra_doc_links" \
		cargo doc $(CHECKED) --no-deps --document-private-items $(OPENMPI_CRATE)

# (With what is fetched already; files that tests and benches name are left out.)
PACKAGE = cargo package -q --allow-dirty --offline
package: ## what would be published is whole: the library builds from what is packed alone
	@$(ENV) $(PACKAGE) -p rankway
	@$(ENV) $(PACKAGE) -p rankway-cli --list >/dev/null

bench: build ## all benchmarks
	@$(ENV) cargo bench -p rankway -p rankway-cli $(ARGS)

rivals: deps ## rank maps beside other crates' structures: answers compared, then bytes and times
	@$(ENV) cd benches/rivals && cargo test -q --release && cargo run -q --release -- $(ARGS)

miri: ## the unsafe and the parsing parts of the library under Miri (nightly Rust)
	@ci/proof/miri.sh $(ARGS)

# Sleep and wake of the node's queues, the mailbox, lock words with deaths
# (proofs/). LOOM_MAX_PREEMPTIONS bounds the interleavings.
loom: ## models of what threads and processes share, under every interleaving
	@$(ENV) cd proofs && LOOM_MAX_PREEMPTIONS=$${LOOM_MAX_PREEMPTIONS:-3} RUSTFLAGS="--cfg loom" \
		CARGO_TARGET_DIR="$(abspath $(CARGO_TARGET_DIR))/proof" cargo test -q --release -- $(ARGS)

sanitize: ## the tests under AddressSanitizer and ThreadSanitizer (nightly Rust; ARGS: address, thread or jobs)
	@ci/proof/sanitize.sh $(ARGS)

fuzz: ## fuzzes what peers, launchers and files say, FUZZ_SECONDS (60) a target (ARGS: targets)
	@ci/proof/fuzz.sh $(ARGS)

bindings: ## make the bindings again from the installed headers, and keep them
	@ci/deps --ci
	@$(ENV) BLESS=1 ci/check/bindings.sh

ci: ## everything that is checked before a change is taken
	@.ci/run

install: build ## the C library, header, pkg-config file, preloaded libraries (PREFIX=/usr/local, DESTDIR)
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" DESTDIR="$(DESTDIR)" ci/install/library.sh install

uninstall: ## take them away again
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" DESTDIR="$(DESTDIR)" ci/install/library.sh uninstall

clean: ## remove what was built
	@$(ENV) cargo clean
