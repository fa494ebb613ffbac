#!/usr/bin/env python3
"""Six tiny tasks for a small model, from the prompt to the branch; counts those that are solved.

  scripts/model.py with scripts/small-tasks.py [--slipway PROGRAM] [--tool-mode MODE] [--least NUMBER]
                                               [--keep DIRECTORY] [TASK...]

A task is solved when its turn is done, which needs a change and checks that pass in the sandbox, and the branch has the
tests as they were. Nothing that the model wrote runs outside of its sandbox. One run of a small model is an anecdote, so this
fails only when a turn cannot be run at all, or when fewer are solved than --least says.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

# A turn that takes longer is stopped.
PATIENCE_S = 1200
STEPS = 16
CHECK = "python3 -m unittest -q"

TASKS = {
    "off-by-one": {
        "prompt": "The tests in test_cart.py fail. Find the mistake in cart.py and fix it.",
        "cart.py": '''\
def total(prices):
    """The sum of all prices."""
    result = 0
    for place in range(1, len(prices)):
        result += prices[place]
    return result
''',
        "test_cart.py": '''\
import unittest

from cart import total


class Total(unittest.TestCase):
    def test_every_price_counts(self):
        self.assertEqual(total([3, 4, 5]), 12)

    def test_nothing_costs_nothing(self):
        self.assertEqual(total([]), 0)
''',
    },
    "stub": {
        "prompt": "Write the body of the function is_palindrome in words.py, so that the tests in test_words.py pass.",
        "words.py": '''\
def is_palindrome(text):
    """Whether the text reads the same backwards. Upper and lower case are the same; blanks do not count."""
    raise NotImplementedError
''',
        "test_words.py": '''\
import unittest

from words import is_palindrome


class Palindromes(unittest.TestCase):
    def test_a_word(self):
        self.assertTrue(is_palindrome("level"))
        self.assertFalse(is_palindrome("levels"))

    def test_case_and_blanks_do_not_count(self):
        self.assertTrue(is_palindrome("Never odd or even"))
''',
    },
    "empty-input": {
        "prompt": "average() in stats.py fails for an empty list. It should return 0.0 then. The tests are in test_stats.py.",
        "stats.py": '''\
def average(numbers):
    """The mean of the numbers."""
    return sum(numbers) / len(numbers)


def largest(numbers):
    """The largest of the numbers."""
    return max(numbers)
''',
        "test_stats.py": '''\
import unittest

from stats import average, largest


class Stats(unittest.TestCase):
    def test_average(self):
        self.assertEqual(average([1, 2, 3]), 2.0)

    def test_average_of_nothing(self):
        self.assertEqual(average([]), 0.0)

    def test_largest(self):
        self.assertEqual(largest([1, 3, 2]), 3)
''',
    },
    "missing-case": {
        "prompt": "fizzbuzz() in fizz.py is wrong for numbers that both 3 and 5 divide. Fix it; test_fizz.py has the tests.",
        "fizz.py": '''\
def fizzbuzz(number):
    """"Fizz" for multiples of 3, "Buzz" for multiples of 5, "FizzBuzz" for both, else the number as text."""
    if number % 3 == 0:
        return "Fizz"
    if number % 5 == 0:
        return "Buzz"
    return str(number)
''',
        "test_fizz.py": '''\
import unittest

from fizz import fizzbuzz


class FizzBuzz(unittest.TestCase):
    def test_each(self):
        self.assertEqual([fizzbuzz(n) for n in (1, 3, 5, 15)], ["1", "Fizz", "Buzz", "FizzBuzz"])
''',
    },
    "rename": {
        "prompt": "Rename the function calc in area.py to rectangle_area, also where room.py uses it. The tests want the new name.",
        "area.py": '''\
def calc(width, height):
    """The area of a rectangle."""
    return width * height
''',
        "room.py": '''\
from area import calc


def tiles(width, height, tile):
    """How many square tiles cover the floor, with none cut."""
    return calc(width, height) // calc(tile, tile)
''',
        "test_room.py": '''\
import unittest

import area
from room import tiles


class Room(unittest.TestCase):
    def test_tiles(self):
        self.assertEqual(tiles(4, 3, 1), 12)

    def test_the_old_name_is_gone(self):
        self.assertEqual(area.rectangle_area(2, 3), 6)
        self.assertFalse(hasattr(area, "calc"))
''',
    },
    "new-feature": {
        "prompt": "Add a function count_vowels(text) to text.py: how many of the letters are a, e, i, o or u, in upper or lower "
        "case. test_text.py has the tests.",
        "text.py": '''\
def shout(text):
    """The text in upper case, with an exclamation mark."""
    return text.upper() + "!"
''',
        "test_text.py": '''\
import unittest

from text import count_vowels, shout


class Text(unittest.TestCase):
    def test_shout(self):
        self.assertEqual(shout("hey"), "HEY!")

    def test_vowels(self):
        self.assertEqual(count_vowels("Under the harbour bridge"), 8)
        self.assertEqual(count_vowels("xyz"), 0)
''',
    },
}


def git(directory, *arguments):
    command = ["git", "-C", directory, "-c", "user.name=tasks", "-c", "user.email=tasks@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_repository(directory, task):
    """A bare repository with the task's files on `main`."""
    work, bare = os.path.join(directory, "work"), os.path.join(directory, "task.git")
    os.mkdir(work)
    for name, content in {**task, ".gitignore": "__pycache__/\n"}.items():
        if name != "prompt":
            with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                file.write(content)
    git(work, "init", "--quiet", "--initial-branch=main", ".")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "A small program")
    git(work, "clone", "--quiet", "--bare", ".", bare)
    return bare


def run(slipway, directory, bare, task, tool_mode):
    """Runs the turn; gives its events."""
    with open(os.environ["SLIPWAY_LOCAL_CONFIG"], encoding="utf-8") as file:
        config = file.read()
    if tool_mode:
        config += f'tool_mode = "{tool_mode}"\n'
    config += f"[budget.turn]\nsteps = {STEPS}\n"
    config += f'[environments.task]\nrepos = [{{ url = "{bare}" }}]\nchecks = [{{ name = "test", run = "{CHECK}" }}]\n'
    path = os.path.join(directory, "slipway.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(config)
    command = [slipway, "--config", path, "--data-dir", os.path.join(directory, "data")]
    command += ["run", "--json", "--env", "task", task["prompt"]]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            output, complaint = child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            # As Ctrl-C does: the turn stops, and the sandbox goes.
            child.terminate()
            output, complaint = child.communicate()
        except BaseException:
            child.terminate()
            raise
    events = [json.loads(line) for line in output.splitlines()]
    if not any(event["type"] == "turn.finished" for event in events):
        sys.exit(f"the turn was not run: {complaint.decode().strip()}")
    return events


def is_solved(bare, task, outcome):
    """Whether a branch came of it that changes the program and leaves its tests alone."""
    branches = git(bare, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    changed = {name for branch in branches for name in git(bare, "diff", "--name-only", "main", branch).split()}
    tests = {name for name in task if name.startswith("test_")}
    return outcome == "done" and bool(changed) and not changed & tests


def keep(directory, name, events):
    """Writes down what happened, beside what is there from earlier runs."""
    os.makedirs(directory, exist_ok=True)
    number = 1 + sum(other.startswith(name + ".") for other in os.listdir(directory))
    with open(os.path.join(directory, f"{name}.{number}.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def main():
    parser = argparse.ArgumentParser(description="Six tiny tasks for a small model.")
    parser.add_argument("--slipway", default="target/release/slipway")
    parser.add_argument("--tool-mode", help="native, json_step or fenced [default: what fits the model]")
    parser.add_argument("--least", type=int, default=0, metavar="NUMBER", help="fail when fewer are solved")
    parser.add_argument("--keep", metavar="DIRECTORY", help="write the events of each turn to a file there")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)} [default: all]")
    arguments = parser.parse_args()
    if "SLIPWAY_LOCAL_CONFIG" not in os.environ:
        sys.exit("there is no model: run this with scripts/model.py with scripts/small-tasks.py")
    if unknown := set(arguments.tasks) - set(TASKS):
        sys.exit(f"there is no task {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    wanted = arguments.tasks or list(TASKS)
    solved = 0
    for number, name in enumerate(wanted, 1):
        print(f"[{number}/{len(wanted)}] {name}: ", end="", flush=True)
        task, began = TASKS[name], time.monotonic()
        with tempfile.TemporaryDirectory(prefix="slipway-task-") as directory:
            bare = make_repository(directory, task)
            events = run(os.path.abspath(arguments.slipway), directory, bare, task, arguments.tool_mode)
            outcome = next(e["data"]["outcome"] for e in reversed(events) if e["type"] == "turn.finished")
            good = is_solved(bare, task, outcome)
        solved += good
        if arguments.keep:
            keep(arguments.keep, name, events)
        calls = [event["data"]["usage"] for event in events if event["type"] == "usage.recorded"]
        tokens = sum(call.get("output", 0) for call in calls)
        verdict = "solved" if good else "not solved"
        took = time.monotonic() - began
        print(f"{verdict} ({outcome}, {len(calls)} model calls, {tokens} tokens written, {took:.0f} s)", flush=True)
    print(f"{solved} of {len(wanted)} solved")
    if solved < arguments.least:
        sys.exit(f"that is fewer than the {arguments.least} that this model has solved in every run so far")


if __name__ == "__main__":
    main()
