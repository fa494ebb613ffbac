#!/bin/sh
# Runs the WebSocket conformance suite `kosoku` against the server's own settings and pump, as an echo. No case may fail.
# The suite is a Python package; where pip cannot install it, this says so and ends well.
set -eu
cd "$(dirname "$0")/.."

SUITE=kosoku==0.1.0

scratch=$(mktemp -d)
server=
finish() {
    status=$?
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

if ! python3 -m venv "$scratch/venv" >"$scratch/pip.log" 2>&1 ||
    ! "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "$SUITE" >>"$scratch/pip.log" 2>&1; then
    printf 'skipped: %s cannot be installed here:\n' "$SUITE"
    tail -n 3 "$scratch/pip.log"
    exit 0
fi

cargo build --locked --package server --features echo --example echo
"${CARGO_TARGET_DIR:-target}/debug/examples/echo" >"$scratch/address" &
server=$!
tries=0
while [ ! -s "$scratch/address" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
        printf 'the echo server did not start\n'
        exit 1
    fi
    sleep 0.1
done
address=$(sed 's|^ws://||; s|/$||' "$scratch/address")
# It also ends with an error for what is not implemented, which is compression; the report tells the two apart.
"$scratch/venv/bin/kosoku" --parallelism 4 --outdir "$scratch/report" "$address" >"$scratch/suite.log" 2>&1 || true

"$scratch/venv/bin/python" - "$scratch/report" <<'PYTHON' || { tail -n 20 "$scratch/suite.log"; exit 1; }
import collections
import glob
import json
import sys

cases = [json.load(open(path)) for path in glob.glob(sys.argv[1] + "/*_case_*.json")]
count = collections.Counter(case["behavior"] for case in cases)
bad = [case for case in cases if "FAILED" in (case["behavior"], case["behaviorClose"])]
print(f"{len(cases)} cases: " + ", ".join(f"{number} {name}" for name, number in count.most_common()))
for case in bad:
    print("failed:", case["id"], case["behavior"], case["behaviorClose"])
if len(cases) < 500 or bad:
    sys.exit(f"{len(bad)} of {len(cases)} cases failed; the suite has 517")
PYTHON
