#!/bin/sh
# The web app: builds it, checks it, tests it in a browser. Installs what is missing, or says how.
# usage: scripts/web.sh build|try|check|browser|slow|screenshots
#   try: builds it if Node is there and it is not built yet, and says clearly what is missing if not; never fails
set -eu
cd "$(dirname "$0")/.."

purpose=${1:-build}
say() { printf '%s\n' "$*" >&2; }

# Whether what was built is younger than everything that it was built from.
is_built() {
    [ -f web/dist/index.html ] || return 1
    [ -z "$(find web/src web/public web/scripts web/index.html web/vite.config.ts web/package-lock.json \
        -newer web/dist/index.html -print 2>/dev/null | head -n 1)" ]
}

case $purpose in
try)
    if is_built; then exit 0; fi
    if ! command -v npm >/dev/null 2>&1; then
        say "Node is not here, so the program gets a plain page in place of the web app. Everything else works."
        say "With Node 20.19 or later (see https://nodejs.org), run this again to have the web app inside."
        exit 0
    fi
    say "Building the web app (a minute, the first time)."
    "$0" build >&2 || {
        say "The web app could not be built, see above; the program gets a plain page in its place. Everything else works."
    }
    exit 0
    ;;
build | check) scripts/need.sh web ;;
browser | slow | screenshots) scripts/need.sh browser ;;
*)
    say "usage: scripts/web.sh build|try|check|browser|slow|screenshots"
    exit 2
    ;;
esac

cd web
# What is installed is what the lock file says, and is installed again only when that changed.
if ! cmp -s package-lock.json node_modules/.installed 2>/dev/null; then
    npm ci --no-fund --no-audit --loglevel=error >&2
    cp package-lock.json node_modules/.installed
fi

case $purpose in
build) npm run --silent build ;;
check) npm run --silent check ;;
browser) npm run --silent browser ;;
slow)
    npm run --silent build
    npm run --silent slow
    ;;
screenshots) npm run --silent screenshots ;;
esac
