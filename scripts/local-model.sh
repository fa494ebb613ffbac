#!/bin/sh
# What is tested with a real model on this machine: our wire formats against llama.cpp's server, small tasks from the prompt to
# the branch, and the small tasks of the suite beside other harnesses. Where the model cannot be had, this says so and ends well.
set -eu
cd "$(dirname "$0")/.."

scripts/model.py get || {
    code=$?
    [ "$code" -eq 3 ] || exit "$code"
    printf 'skipped: nothing is tested with a real model\n'
    exit 0
}
# One after the other: the model answers one call at a time.
scripts/model.py with cargo nextest run --locked --package llm --all-features --profile slow --run-ignored only \
    --test-threads 1 -E 'test(/^local_model::/)'
cargo build --release --locked --package cli
scripts/model.py with scripts/small-tasks.py --least 3 --slipway "${CARGO_TARGET_DIR:-target}/release/slipway"
# What a small model solves differs from run to run, so this fails only when a trial cannot be run at all.
scripts/model.py with evals/compare.py --only small --repeat 2 --slipway "${CARGO_TARGET_DIR:-target}/release/slipway"
