import unittest


def tearDownModule():
    raise RuntimeError("the lights stay on")


class Lights(unittest.TestCase):
    def test_on(self):
        pass
