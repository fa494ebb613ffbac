import unittest


def setUpModule():
    raise RuntimeError("no power")


class Till(unittest.TestCase):
    def test_never(self):
        pass
