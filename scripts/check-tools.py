#!/usr/bin/env python3
"""Installs the compilers, linters and test runners whose output the golden files of crates/checks are, in those versions.

  scripts/check-tools.py

All of it lies below ${XDG_CACHE_HOME:-~/.cache}/slipway/tools, but for what comes from Debian's packages, which needs root and
apt-get. What is there already is left as it is. A tool that cannot be had here, or is here in another version, is named with
the reason, and that is no failure. `tools.json` in that folder tells the test (crates/checks/tests/real.rs) what there is.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "slipway" / "tools"

PYTHON = "3.11"
PIP = {"pytest": "9.2.0", "mypy": "2.4.1", "ruff": "0.17.5"}

# Each folder has its own modules, because two versions of one tool do not go together. A tool is named after its package, or
# as it says here.
NPM = {
    "npm": {
        "typescript": "7.0.2",
        "eslint": "10.15.0",
        "@microsoft/eslint-formatter-sarif": "3.1.0",
        "jest": "30.5.2",
        "jest-junit": "17.0.0",
        "vitest": "3.2.7",
        "pyright": "1.1.414",
    },
    "vitest4": {"vitest": "4.1.12"},
    "typescript5": {"typescript": "5.9.3"},
}
NAMES = {
    ("npm", "@microsoft/eslint-formatter-sarif"): "eslint-sarif",
    ("vitest4", "vitest"): "vitest-4",
    ("typescript5", "typescript"): "typescript-5",
}

# A tool of the system: the packages that have it, how it tells its version, and how that begins where the goldens are from.
SYSTEM = {
    "gcc": (["gcc"], ["gcc", "-dumpfullversion"], "12."),
    "g++": (["g++"], ["g++", "-dumpfullversion"], "12."),
    "clang": (["clang"], ["clang", "--version"], "14."),
    "clang-19": (["clang-19"], ["clang-19", "--version"], "19."),
    "go": (["golang-go"], ["go", "version"], "1.19"),
    "javac": (["default-jdk-headless"], ["javac", "--version"], "17."),
    "perl": (["perl"], ["perl", "-MTest::More", "-e", "print substr($^V, 1)"], "5."),
    "node": (["nodejs", "npm"], ["node", "--version"], "20."),
    "gradle": (["gradle", "junit4"], ["gradle", "--version"], "4.4.1"),
    "maven": (
        ["maven", "junit4", "libsurefire-java", "libmaven-compiler-plugin-java", "libmaven-resources-plugin-java"],
        ["mvn", "--version"],
        "3.8.",
    ),
}
# What these need besides the program itself.
FILES = {
    "gradle": ["/usr/share/java/junit4.jar"],
    "maven": [
        "/usr/share/maven-repo/junit/junit/4.x",
        "/usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin",
        "/usr/share/maven-repo/org/apache/maven/plugins/maven-compiler-plugin",
        "/usr/share/maven-repo/org/apache/maven/plugins/maven-resources-plugin",
    ],
}
# Cargo's own come with the toolchain that this repository names, and nextest with scripts/need.sh.
RUST = {
    "cargo": ["cargo", "--version"],
    "clippy": ["cargo", "clippy", "--version"],
    "nextest": ["cargo", "nextest", "--version"],
}
# gcc speaks these, with a package of translations and a compiled locale.
LOCALES = ["de_DE", "fr_FR", "ja_JP"]

have = {}
lack = {}


class Missing(Exception):
    """Why a tool cannot be had."""


def run(command, **options):
    """What a command prints; Missing with its last line where it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    except OSError as error:
        raise Missing(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise Missing(f"{command[0]}: " + (said[-1] if said else f"ended with {done.returncode}"))
    return done.stdout


def version(command):
    said = run(command)
    # Gradle speaks of Java first.
    found = re.search(r"^Gradle (\d[\d.]+)", said, re.MULTILINE) or re.search(r"(\d+(?:\.\d+)+)", said)
    if not found:
        raise Missing(f"{command[0]} does not tell its version")
    return found.group(1)


class Apt:
    """Debian's packages, whose list is fetched once, when the first is wanted."""

    updated = False

    @classmethod
    def install(cls, packages):
        if not shutil.which("apt-get"):
            raise Missing("not installed, and there is no apt-get here")
        if os.geteuid() != 0:
            raise Missing(f"not installed; root can: apt-get install {' '.join(packages)}")
        if not cls.updated:
            run(["apt-get", "update", "-qq"])
            cls.updated = True
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        print("installing", *packages, flush=True)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], env=quiet)


def system(name):
    packages, command, wanted = SYSTEM[name]
    needed = FILES.get(name, [])
    if not shutil.which(command[0]) or not all(map(os.path.exists, needed)):
        Apt.install(packages)
    absent = [path for path in needed if not os.path.exists(path)]
    if absent:
        raise Missing(f"{absent[0]} is not there")
    found = version(command)
    if not found.startswith(wanted):
        raise Missing(f"{found} is here, and the goldens are of {wanted.rstrip('.')}")
    return {"version": found}


def locales():
    if "gcc" not in have:
        raise Missing("needs gcc: " + lack["gcc"])
    if not os.path.exists("/usr/share/locale/de/LC_MESSAGES/gcc-12.mo") or not shutil.which("localedef"):
        Apt.install(["gcc-12-locales", "locales"])
    folder = HOME / "locale"
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOCALES:
        if not (folder / f"{name}.UTF-8").exists():
            run(["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")])
    return {"version": have["gcc"]["version"], "locales": str(folder)}


def pinned(folder, pins, install):
    """Fills a folder anew, unless it was filled with these versions before. What fails half way is not taken for done."""
    stamp, wanted = folder / "pins.json", json.dumps(pins, sort_keys=True)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("installing", *(f"{name} {version}" for name, version in pins.items()), flush=True)
    install()
    stamp.write_text(wanted)


def python():
    names = [f"python{PYTHON}", "python3"]
    program = next((name for name in names if shutil.which(name) and version([name, "--version"]).startswith(PYTHON + ".")), None)
    if not program:
        raise Missing(f"there is no Python {PYTHON} here, and the goldens are of that")
    folder = HOME / "venv"

    def install():
        try:
            run([program, "-m", "venv", str(folder)])
        except Missing:
            Apt.install(["python3-venv"])
            run([program, "-m", "venv", "--clear", str(folder)])
        packages = [f"{name}=={number}" for name, number in PIP.items()]
        run([str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *packages])

    pinned(folder, {"python": PYTHON, **PIP}, install)
    binaries = folder / "bin"
    have["unittest"] = {"version": version([str(binaries / "python"), "--version"]), "bin": str(binaries)}
    for name in PIP:
        have[name] = {"version": version([str(binaries / name), "--version"]), "bin": str(binaries)}
    library = run([str(binaries / "python"), "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]).strip()
    return {library: f"/usr/lib/python{PYTHON}"}


def npm(name):
    if "node" not in have:
        raise Missing("needs node: " + lack["node"])
    folder, pins = HOME / name, NPM[name]

    def install():
        (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": pins}))
        run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder)

    pinned(folder, pins, install)
    for package, number in pins.items():
        tool = {"version": number, "bin": str(folder / "node_modules/.bin"), "near": str(folder)}
        have[NAMES.get((name, package), package)] = tool


def attempt(names, step, *arguments):
    """Does a step; where that cannot be, the tools that it was for are left out with the reason."""
    try:
        return step(*arguments)
    except Missing as reason:
        for name in names:
            have.pop(name, None)
            lack[name] = str(reason)
        return None


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    HOME.mkdir(parents=True, exist_ok=True)
    for name, command in RUST.items():
        found = attempt([name], version, command)
        if found:
            have[name] = {"version": found}
    for name in SYSTEM:
        found = attempt([name], system, name)
        if found:
            have[name] = found
    found = attempt(["gcc-locales"], locales)
    if found:
        have["gcc-locales"] = found
    paths = attempt(["unittest", *PIP], python) or {}
    for name, pins in NPM.items():
        attempt([NAMES.get((name, package), package) for package in pins], npm, name)
    (HOME / "tools.json").write_text(json.dumps({"have": have, "lack": lack, "paths": paths}, indent=2, sort_keys=True))
    print("here:", ", ".join(f"{name} {tool['version']}" for name, tool in have.items()))
    for name, reason in lack.items():
        print(f"left out: {name}: {reason}")


if __name__ == "__main__":
    main()
