import unittest


def total(prices):
    return sum(prices[1:])


class TillTest(unittest.TestCase):
    def test_adds_up(self):
        self.assertEqual(total([2, 3]), 5)

    def test_empty(self):
        self.assertEqual(total([]), 0)

    @unittest.skip("later")
    def test_later(self):
        pass

    def test_raises(self):
        """A line of documentation."""
        raise ValueError("no change given")

    def test_parts(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(n, 2, "not two")

    @unittest.expectedFailure
    def test_known(self):
        self.fail("known")


class SetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("no till")

    def test_any(self):
        pass
