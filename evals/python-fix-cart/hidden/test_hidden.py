import unittest

from cart import total


class Total(unittest.TestCase):
    def test_one_price(self):
        self.assertEqual(total([7]), 7)

    def test_two_prices(self):
        self.assertEqual(total([7, 1]), 8)

    def test_many_prices(self):
        self.assertEqual(total(list(range(100))), 4950)

    def test_nothing(self):
        self.assertEqual(total([]), 0)
