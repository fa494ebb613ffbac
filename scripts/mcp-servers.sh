#!/bin/sh
# MCP servers that others wrote, from npm, and the tests that speak with them: as programs on this machine, in a sandbox, and
# behind an address. Where npm or the packages cannot be had, this says so and ends well.
set -eu
cd "$(dirname "$0")/.."

version=2026.8.31
cache=${SLIPWAY_CACHE:-$PWD/.cache}/mcp-servers-$version
skip() {
    printf 'skipped: no MCP server of others is tested, because %s\n' "$1"
    exit 0
}
command -v npm >/dev/null 2>&1 || skip 'there is no npm'
if [ ! -e "$cache/whole" ]; then
    mkdir -p "$cache"
    (cd "$cache" && npm install --silent --no-audit --no-fund --ignore-scripts --prefix . \
        "@modelcontextprotocol/server-everything@$version" \
        "@modelcontextprotocol/server-filesystem@$version" \
        "@modelcontextprotocol/server-memory@$version") || skip 'its packages could not be fetched'
    tar -C "$cache" -czf "$cache/servers.tgz" node_modules
    touch "$cache/whole"
fi
export SLIPWAY_MCP_SERVERS="$cache"
exec cargo nextest run --locked --package mcp --package session --all-features --profile slow --run-ignored only \
    -E 'test(/^others::/)'
