#!/bin/sh
# Everything that must hold before a change is good: format, web app, lints, tidy, tests, a browser. Stops at the first stage that fails.
set -eu
cd "$(dirname "$0")/.."

begun=$(date +%s)
timings=

# stage NAME COMMAND...: runs it and notes how long it took.
stage() {
    name=$1
    shift
    printf '== %s: %s\n' "$name" "$*"
    from=$(date +%s)
    "$@" || {
        printf '== %s failed after %s s: %s\n' "$name" "$(($(date +%s) - from))" "$*"
        exit 1
    }
    took=$(($(date +%s) - from))
    printf '== %s: %s s\n' "$name" "$took"
    timings="$timings, $name $took s"
}

stage need scripts/need.sh test
stage format cargo fmt --all --check
# Before everything that compiles: the program under test has the web app inside.
stage web scripts/web.sh check
stage lints cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
stage tidy cargo xtask tidy
stage tests cargo nextest run --locked --workspace --all-features
# nextest does not run the examples in the documentation.
stage doctests cargo test --locked --doc --workspace --quiet
# The program that the tests were run with, as people see it in a browser.
stage browser env SLIPWAY_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/slipway" scripts/web.sh browser

printf '== all passed in %s s (%s)\n' "$(($(date +%s) - begun))" "${timings#, }"
