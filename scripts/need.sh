#!/bin/sh
# Makes sure that what is needed to build (or to test) is there, and says nothing when it is.
# usage: scripts/need.sh build|test|web|browser
#
# As root on a system with apt-get the missing packages are installed; elsewhere the command to do so is printed.
set -eu

NEXTEST=0.9.143

purpose=${1:-build}
missing=
say() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
lack() { missing="$missing $1"; }

# The launcher that builds sandboxes is a static program, so the C library is needed in its static form too.
links_statically() {
    scratch=$(mktemp -d)
    printf 'int main(void) { return 0; }\n' >"$scratch/a.c"
    if cc -static -o "$scratch/a" "$scratch/a.c" >/dev/null 2>&1; then linked=0; else linked=1; fi
    rm -r "$scratch"
    return "$linked"
}

# The names of the missing things as a distribution calls them.
packages() {
    for thing in $missing; do
        case "$1:$thing" in
        debian:compiler | debian:static-libc) printf '%s\n' gcc libc6-dev ;;
        fedora:compiler) printf '%s\n' gcc glibc-static ;;
        fedora:static-libc) printf '%s\n' glibc-static ;;
        arch:compiler | arch:static-libc) printf '%s\n' gcc glibc ;;
        arch:python3) printf '%s\n' python ;;
        *) printf '%s\n' "$thing" ;;
        esac
    done | sort -u | tr '\n' ' '
}

advise() {
    say "These are missing:$missing"
    # shellcheck source=/dev/null
    family=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID:-}" "${ID_LIKE:-}") || family=
    case " $family " in
    *" debian "* | *" ubuntu "*) say "Install them with: sudo apt-get install $(packages debian)" ;;
    *" fedora "* | *" rhel "*) say "Install them with: sudo dnf install $(packages fedora)" ;;
    *" arch "*) say "Install them with: sudo pacman -S $(packages arch)" ;;
    *)
        say "Install them:"
        say "  Debian, Ubuntu:  sudo apt-get install $(packages debian)"
        say "  Fedora:          sudo dnf install $(packages fedora)"
        say "  Arch:            sudo pacman -S $(packages arch)"
        ;;
    esac
    exit 1
}

# The web app is built by Node 20.19 or later; only building needs it.
new_node() {
    have node && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

find_missing() {
    missing=
    case $purpose in
    web | browser)
        have npm || lack npm
        if [ "$purpose" = browser ]; then
            { have chromium || have chromium-browser || have google-chrome; } || lack chromium
        fi
        return
        ;;
    esac
    have git || lack git
    if ! have cc; then
        lack compiler
    elif ! links_statically; then
        lack static-libc
    fi
    if [ "$purpose" = test ]; then
        have python3 || lack python3
        have git-lfs || lack git-lfs
    fi
}

case $purpose in
build | test | web | browser) ;;
*)
    say "usage: scripts/need.sh build|test|web|browser"
    exit 2
    ;;
esac

if [ "$(uname -s)" != Linux ]; then
    say "Slipway builds its sandboxes from parts of Linux, and this is $(uname -s): use a Linux machine."
    exit 1
fi

find_missing
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    say "Installing:$missing"
    # The list is one of package names, to be split.
    # shellcheck disable=SC2046
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(packages debian); } >&2 || advise
    find_missing
fi
[ -z "$missing" ] || advise

case $purpose in
web | browser)
    new_node || {
        say "Node 20.19 or later is needed to build the web app, and here is $(node --version 2>/dev/null || echo none)."
        say "See https://nodejs.org; any way of installing it will do."
        exit 1
    }
    exit 0
    ;;
esac

if ! have cargo; then
    say "Rust is missing. Install it with rustup (see https://rustup.rs), which any user can do:"
    say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
    say "It then fetches the version that rust-toolchain.toml names by itself."
    exit 1
fi

if [ "$purpose" = test ] && ! cargo nextest --version >/dev/null 2>&1; then
    say "Installing cargo-nextest $NEXTEST, which runs the tests (once, a few minutes)."
    cargo install --locked --version "$NEXTEST" cargo-nextest >&2 || {
        say "cargo-nextest could not be installed; see above. By hand: cargo install --locked cargo-nextest@$NEXTEST"
        exit 1
    }
fi
