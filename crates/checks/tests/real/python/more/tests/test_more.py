import unittest
import warnings

SETTINGS = "a.toml"


def load(path):
    try:
        return {}["key"]
    except KeyError as error:
        raise LookupError(f"no setting in {path}") from error


def test_chained():
    load("a.toml")


def test_warns():
    warnings.warn("old way", DeprecationWarning)


class TestUnit(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1 + 1, 3)


def test_eq_in_text():
    assert "a == b" == "a == c"


def test_library():
    import json
    json.loads("{")


def test_subtests(subtests):
    for i in range(3):
        with subtests.test(msg="custom", i=i):
            assert i != 1


class Thing:
    def __repr__(self):
        return "Thing(\n  a=1\n)"


def test_repr():
    assert Thing() == 1
