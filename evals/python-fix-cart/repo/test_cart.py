import unittest

from cart import total


class Total(unittest.TestCase):
    def test_every_price_counts(self):
        self.assertEqual(total([3, 4, 5]), 12)

    def test_nothing_costs_nothing(self):
        self.assertEqual(total([]), 0)
