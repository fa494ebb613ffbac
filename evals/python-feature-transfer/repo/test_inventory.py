import unittest

from inventory import Inventory, OutOfStock


class Stock(unittest.TestCase):
    def setUp(self):
        self.shop, self.depot = Inventory(), Inventory()
        self.depot.add("rope", 5)
        self.depot.add("sail", 1)

    def test_add_and_remove(self):
        self.depot.remove("rope", 2)
        self.assertEqual(self.depot.count("rope"), 3)

    def test_more_than_there_is_is_refused(self):
        with self.assertRaises(OutOfStock):
            self.depot.remove("sail", 2)

    def test_transfer(self):
        self.depot.transfer(self.shop, {"rope": 2})
        self.assertEqual((self.depot.count("rope"), self.shop.count("rope")), (3, 2))
        with self.assertRaises(OutOfStock):
            self.depot.transfer(self.shop, {"rope": 4})
