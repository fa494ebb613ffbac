#!/usr/bin/env python3
"""The same tasks and the same model through other harnesses, side by side.

  scripts/model.py with evals/compare.py [--slipway PROGRAM] [--only PATTERN] [--repeat NUMBER] [--harness NAME]
                                         [--seconds NUMBER] [--keep DIRECTORY] [--save FILE]

The harnesses are slipway, mini-swe-agent (a Python package) and opencode (an npm package). What is missing is installed below
${XDG_CACHE_HOME:-~/.cache}/slipway/peers, or left out with a word where it cannot be had. Each trial begins with the task's
repository and prompt; the others are also told the command that must pass, which slipway has as its check. Slipway works in its
own sandbox. The others have none, so each runs under bubblewrap: nothing of this machine can be changed, and of its files
there are only the system's, the toolchains and the harness. Whether a task is solved is decided by `slipway bench grade`, for all
of them in the same way, in a sandbox. Tokens are counted by a proxy between a harness and the model, from what the model says.
"""

import argparse
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "slipway", "peers")
MINI = "mini-swe-agent==2.4.6"
OPENCODE = "opencode-ai@1.18.33"
STEPS = 16


class Cannot(Exception):
    """A harness cannot be had here, and why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- tokens


class Counter:
    """What went through the proxy."""

    def __init__(self):
        self.lock = threading.Lock()
        self.calls = self.prompt = self.answer = 0

    def add(self, prompt, answer):
        with self.lock:
            self.calls += 1
            self.prompt += prompt
            self.answer += answer

    def now(self):
        with self.lock:
            return self.calls, self.prompt, self.answer


def used(body):
    """The tokens of one answer: its usage where that is told, else what llama.cpp says of its timings."""
    prompt = answer = 0
    for line in body.decode("utf-8", "replace").splitlines() or [""]:
        text = line.removeprefix("data:").strip()
        if not text.startswith("{"):
            continue
        try:
            value = json.loads(text)
        except ValueError:
            continue
        usage, timings = value.get("usage") or {}, value.get("timings") or {}
        if usage:
            prompt, answer = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        elif timings and not prompt:
            prompt, answer = timings.get("prompt_n", 0) + timings.get("cache_n", 0), timings.get("predicted_n", 0)
    return prompt, answer


def proxy(target, counter):
    """Serves on loopback what a model serves, and counts."""
    there = urllib.parse.urlsplit(target)

    class Handler(http.server.BaseHTTPRequestHandler):
        def forward(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            upstream = http.client.HTTPConnection(there.hostname, there.port, timeout=1800)
            headers = {k: v for k, v in self.headers.items() if k.lower() in ("content-type", "accept", "authorization")}
            try:
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                whole = bytearray()
                while piece := answer.read1(65536):
                    whole += piece
                    self.wfile.write(piece)
                    self.wfile.flush()
                if self.command == "POST":
                    counter.add(*used(bytes(whole)))
            except OSError:
                # Whoever asked went away: the model is told so by our going away too.
                if self.command == "POST":
                    counter.add(0, 0)
            finally:
                upstream.close()
                self.close_connection = True

        do_GET = do_POST = forward

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}{there.path}"


# ---- tasks


def read_tasks(pattern):
    tasks = []
    for name in sorted(os.listdir(HERE)):
        path = os.path.join(HERE, name, "task.toml")
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            about = tomllib.load(file)
        if not pattern or set(pattern) & {name, about["language"], about["kind"], about["size"]}:
            tasks.append((name, about))
    return tasks


def git(directory, *arguments):
    command = ["git", "-C", directory, "-c", "user.name=tasks", "-c", "user.email=tasks@localhost", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def make_workspace(directory, name, about):
    """The repository as the harness gets it."""
    work = os.path.join(directory, "workspace")
    shutil.copytree(os.path.join(HERE, name, "repo"), work)
    for shared in about.get("shared", []):
        shutil.copytree(os.path.normpath(os.path.join(HERE, name, shared)), work, dirs_exist_ok=True)
    git(work, "init", "--quiet", "--initial-branch=main", ".")
    git(work, "add", "--all", "--force")
    git(work, "commit", "--quiet", "--message", "A small program")
    return work


# ---- harnesses


def run(command, seconds, **more):
    """Runs a program for so long at most; gives its output."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more) as child:
        try:
            return child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            return child.communicate()[0]
        except BaseException:
            child.kill()
            raise


def walled(work, home, readable, variables):
    """The beginning of a command that runs in bubblewrap."""
    command = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--new-session"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv"]
    own = os.path.expanduser("~")
    toolchains = [os.path.join(own, name) for name in (".cargo", ".rustup", ".pyenv", ".nvm")]
    for path in ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", *toolchains, *readable]:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    command += ["--bind", home, "/home/harness", "--bind", work, "/workspace", "--chdir", "/workspace"]
    known = {
        "HOME": "/home/harness",
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or os.path.join(own, ".rustup"),
        "CARGO_HOME": "/home/harness/.cargo",
    }
    for name, value in {**known, **variables}.items():
        command += ["--setenv", name, value]
    return command


class Peer:
    """A harness that has no sandbox of its own."""

    def __init__(self, url, model):
        self.url, self.model = url, model
        if not shutil.which("bwrap"):
            raise Cannot("it has no sandbox, so it needs bubblewrap (bwrap), which is not installed")
        self.install()

    def trial(self, arguments, directory, name, about):
        work, home = make_workspace(directory, name, about), os.path.join(directory, "home")
        os.mkdir(home)
        prompt = about["prompt"].strip() + f"\n\nThis command must pass in the end: {about['visible']['run']}"
        seconds = arguments.seconds or about.get("limits", {}).get("seconds", 1200)
        began = time.monotonic()
        output = run(self.command(work, home, prompt), seconds)
        took = time.monotonic() - began
        shutil.rmtree(os.path.join(work, "target"), ignore_errors=True)
        self.tidy(work)
        git(work, "add", "--all")
        git(work, "commit", "--quiet", "--allow-empty", "--message", "What came of it")
        tasks = ["--tasks", HERE, name, work]
        command = [arguments.slipway, "--data-dir", os.path.join(directory, "data"), "--json", "bench", "grade", *tasks]
        graded = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if graded.returncode not in (0, 1):
            sys.exit(f"{name} cannot be graded: {graded.stderr.strip()}")
        return {"solved": json.loads(graded.stdout)["solved"], "seconds": took, "output": output.decode("utf-8", "replace")}

    def tidy(self, work):
        """Removes what the harness itself put there."""


class MiniSweAgent(Peer):
    def install(self):
        self.home = os.path.join(PEERS, "mini-swe-agent")
        if os.path.exists(os.path.join(self.home, "whole")):
            return
        say(f"installing {MINI}")
        shutil.rmtree(self.home, ignore_errors=True)
        python, program = os.path.join(self.home, "bin", "python"), [sys.executable, "-m", "venv", self.home]
        for command in (program, [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", MINI]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Cannot((done.stderr.strip() or "it cannot be installed").splitlines()[-1])
        with open(os.path.join(self.home, "whole"), "w", encoding="utf-8"):
            pass

    def command(self, work, home, prompt):
        variables = {
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": self.url,
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        program = os.path.join(self.home, "bin", "mini")
        options = ["--model", f"openai/{self.model}", "--model-class", "litellm_textbased", "--task", prompt, "--yolo"]
        options += ["--exit-immediately", "--cost-limit", "0", "-c", "mini_textbased.yaml", "-c", f"agent.step_limit={STEPS}"]
        return walled(work, home, [self.home], variables) + [program, *options]


class OpenCode(Peer):
    def install(self):
        self.home = os.path.join(PEERS, "node_modules")
        self.program = os.path.join(self.home, ".bin", "opencode")
        if os.path.exists(self.program):
            return
        if not shutil.which("npm"):
            raise Cannot("npm is not installed")
        say(f"installing {OPENCODE}")
        done = subprocess.run(["npm", "install", "--silent", "--prefix", PEERS, OPENCODE], capture_output=True, text=True)
        if done.returncode or not os.path.exists(self.program):
            raise Cannot((done.stderr.strip() or "it cannot be installed").splitlines()[-1])

    def command(self, work, home, prompt):
        models = {self.model: {"tool_call": True, "limit": {"context": 16384, "output": 4096}}}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": self.url, "apiKey": "none"}, "models": models}
        config = {
            "model": f"local/{self.model}",
            "small_model": f"local/{self.model}",
            "enabled_providers": ["local"],
            "provider": {"local": provider},
            "share": "disabled",
            "autoupdate": False,
        }
        with open(os.path.join(work, "opencode.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        off = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
        return walled(work, home, [self.home], dict.fromkeys(off, "1")) + [self.program, "run", "--format", "json", prompt]

    def tidy(self, work):
        os.remove(os.path.join(work, "opencode.json"))


class Slipway:
    def __init__(self, url, model):
        self.url, self.model = url, model

    def trial(self, arguments, directory, name, about):
        config = os.path.join(directory, "slipway.toml")
        with open(config, "w", encoding="utf-8") as file:
            table = f'[models.local]\nprovider = "openai-compatible"\nmodel = "{self.model}"\nbase_url = "{self.url}"\n'
            file.write(table)
        command = [arguments.slipway, "--config", config, "--data-dir", os.path.join(directory, "data"), "--json"]
        command += ["bench", "tasks", "--tasks", HERE, "--only", name, "--model", "local"]
        # As Ctrl-C does: the turn stops, and the sandbox goes.
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            try:
                output, complaint = child.communicate()
            except BaseException:
                child.terminate()
                raise
        if child.returncode not in (0, 1):
            sys.exit(f"{name} cannot be run: {complaint.decode().strip()}")
        [trial] = json.loads(output)["results"]["tasks"][0]["trials"]
        return {"solved": trial["solved"], "seconds": trial["wall_ms"] / 1000, "output": json.dumps(trial)}


HARNESSES = {"slipway": Slipway, "mini-swe-agent": MiniSweAgent, "opencode": OpenCode}


# ---- results


def table(results):
    """Markdown: a row for each task, a group of columns for each harness."""
    names = list(results)
    lines = ["| task | " + " | ".join(f"{name}: solved | tokens in, out | time" for name in names) + " |"]
    lines.append("|---|" + "---|" * (3 * len(names)))
    tasks = sorted({task for trials in results.values() for task in trials})
    for task in [*tasks, None]:
        cells = []
        for name in names:
            trials = [t for key, found in results[name].items() if task in (None, key) for t in found]
            count = max(len(trials), 1)
            mean = {key: sum(t[key] for t in trials) / count for key in ("prompt", "answer", "seconds")}
            cells.append(f"{sum(t['solved'] for t in trials)} of {len(trials)}")
            cells.append(f"{mean['prompt']:.0f}, {mean['answer']:.0f}")
            cells.append(f"{mean['seconds']:.0f} s")
        lines.append(f"| {task or '**all**'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="The same tasks and model through other harnesses.")
    parser.add_argument("--slipway", default="target/release/slipway")
    parser.add_argument("--only", action="append", help="a task, a language, a kind or a size [default: small]")
    parser.add_argument("--repeat", type=int, default=1, metavar="NUMBER")
    parser.add_argument("--harness", action="append", choices=list(HARNESSES), help="[default: all]")
    parser.add_argument("--seconds", type=int, metavar="NUMBER", help="for each trial of the others [default: the task's]")
    parser.add_argument("--keep", metavar="DIRECTORY", help="write what each harness printed to a file there")
    parser.add_argument("--save", metavar="FILE", help="write the trials as JSON")
    arguments = parser.parse_args()
    if "SLIPWAY_LOCAL_MODEL" not in os.environ:
        sys.exit("there is no model: run this with scripts/model.py with evals/compare.py")
    arguments.slipway = os.path.abspath(arguments.slipway)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    tasks = read_tasks(arguments.only or ["small"])
    if not tasks:
        sys.exit("no task is chosen")
    counter = Counter()
    url, model = proxy(os.environ["SLIPWAY_LOCAL_MODEL"], counter), os.environ["SLIPWAY_LOCAL_MODEL_NAME"]
    results = {}
    for harness in arguments.harness or list(HARNESSES):
        try:
            peer = HARNESSES[harness](url, model)
        except Cannot as error:
            say(f"{harness} is left out: {error}")
            continue
        results[harness] = {}
        for name, about in tasks:
            for number in range(1, arguments.repeat + 1):
                before = counter.now()
                with tempfile.TemporaryDirectory(prefix="slipway-compare-", ignore_cleanup_errors=True) as directory:
                    trial = peer.trial(arguments, directory, name, about)
                calls, prompt, answer = (now - then for now, then in zip(counter.now(), before))
                output = trial.pop("output")
                trial |= {"calls": calls, "prompt": prompt, "answer": answer}
                results[harness].setdefault(name, []).append(trial)
                if arguments.keep:
                    os.makedirs(arguments.keep, exist_ok=True)
                    with open(os.path.join(arguments.keep, f"{harness}.{name}.{number}.log"), "w", encoding="utf-8") as file:
                        file.write(output)
                word = "solved" if trial["solved"] else "not solved"
                say(f"{harness} {name} [{number}]: {word}, {calls} calls, {prompt} + {answer} tokens, {trial['seconds']:.0f} s")
                if arguments.save:
                    with open(arguments.save, "w", encoding="utf-8") as file:
                        json.dump(results, file, indent=1)
    print(table(results))


if __name__ == "__main__":
    main()
