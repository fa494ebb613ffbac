# The commands of this repository; `make` alone lists them. What they need is looked for, and installed where it can be.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo model build web screenshots test test-slow bench fmt clean

# A fresh rustup is often not on PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## See it work on a small bundled repository; with MODEL=local a real model works, on this machine
	@scripts/need.sh build
	@scripts/web.sh try
	cargo build --release --locked --package cli
ifeq ($(MODEL),local)
	@exec scripts/model.py with sh -c 'exec "$$1" --config "$$SLIPWAY_LOCAL_CONFIG" demo' sh $(TARGET)/release/slipway
else
	@exec $(TARGET)/release/slipway demo
endif

model: ## Serve a small real model on this machine (fetches 1.2 GB, once)
	@exec scripts/model.py serve

build: ## Build slipway as target/release/slipway, with the web app inside where Node is there
	@scripts/need.sh build
	@scripts/web.sh try
	cargo build --release --locked --package cli

web: ## Build the web app into web/dist, which the program then has inside
	@scripts/web.sh build

screenshots: ## Make pictures of every page of the web app, light and dark and as on a phone
	@scripts/need.sh build
	@scripts/web.sh build
	cargo build --release --locked --package cli
	@scripts/web.sh screenshots

test: ## Check format, lints and rules, and run every test
	@scripts/test.sh

test-slow: ## Run every test, those that take minutes too
	@scripts/need.sh test
	scripts/check-tools.py
	PROPTEST_CASES=4096 cargo nextest run --locked --workspace --all-features --profile slow --run-ignored all \
		-E 'not (test(/^local_model::/) or test(/^others::/) or binary(real))'
	cargo nextest run --locked --workspace --all-features --profile slow --run-ignored all --success-output final \
		-E 'binary(real)'
	scripts/mcp-servers.sh
	scripts/websocket-conformance.sh
	scripts/web.sh slow
	scripts/local-model.sh

bench: ## Measure, and print a table
	@scripts/need.sh build
	cargo build --release --locked --package cli
	cargo run --release --locked --package bench -- --install

fmt: ## Format the code
	cargo fmt --all

clean: ## Remove what was built
	cargo clean
