# The two commands are `make rate` and `make test`; `make help` lists the rest.
# Options go in ARGS: make rate ARGS="--netmod ofi --json".

SHELL := /bin/sh
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# Puts a new enough cargo on PATH, whoever installed it.
ENV := . ci/env.sh &&
ARGS ?=

.PHONY: help deps build rate count memory info test test-verbs test-verbs-two check bench fuzz ci bindings clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

deps: ## install what is missing (Debian 12, Ubuntu 22.04 and later)
	@ci/deps

build: deps ## build the command and the null provider, optimised
	@$(ENV) cargo build --release --workspace
	@ci/place-provider.sh

rate: build ## issue rate of put, for every rank map, beside the raw provider
	@$(CARGO_TARGET_DIR)/release/rankway rate $(ARGS)

count: build ## instructions of a translation and of a put
	@$(CARGO_TARGET_DIR)/release/rankway count $(ARGS)

memory: build ## bytes of address vectors and communicators
	@$(CARGO_TARGET_DIR)/release/rankway memory $(ARGS)

info: build ## netmods and providers of this machine
	@$(CARGO_TARGET_DIR)/release/rankway info $(ARGS)

test: build ## every test (a newer libfabric too, where ci/newer-fabric.sh has fetched one)
	@$(ENV) newer=$$(ci/newer-fabric.sh --if-there 2>/dev/null); \
		RANKWAY_NEWER_LIBFABRIC=$$newer \
		RANKWAY_NEWER_UCX=$$(ls $${newer%/*}/libucp.so.0 2>/dev/null) \
		cargo test --release --workspace $(ARGS)

test-verbs: build ## over verbs and over UCX's rc and ud, in a guest with a soft RDMA device (QEMU)
	@ci/softroce/test

test-verbs-two: build ## the same between two guests on a virtual wire
	@ci/softroce/test --hosts 2

check: ## formatting, lints, documentation, bindings, other targets
	@ci/deps --ci
	@ci/fmt.sh
	@ci/clippy.sh
	@ci/doc.sh
	@ci/bindings.sh
	@ci/portable.sh
	@ci/scripts.sh

bench: build ## all benchmarks
	@$(ENV) cargo bench $(ARGS)

fuzz: deps ## a minute of fuzzing for each target (needs cargo-fuzz and a nightly Rust)
	@$(ENV) cd fuzz && for target in $$(cargo fuzz list); do \
		echo "fuzz: $$target" && cargo fuzz run "$$target" -- -max_total_time=60 || exit 1; done

bindings: ## make the bindings again from the installed headers, and keep them
	@ci/deps --ci
	@$(ENV) BLESS=1 ci/bindings.sh

ci: ## everything that is checked before a change is taken
	@.ci/run

clean: ## remove what was built
	@$(ENV) cargo clean
