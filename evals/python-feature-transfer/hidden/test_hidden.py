import unittest

from inventory import Inventory, OutOfStock


class Hidden(unittest.TestCase):
    def setUp(self):
        self.shop, self.depot = Inventory(), Inventory()
        self.depot.add("rope", 5)
        self.depot.add("sail", 1)
        self.shop.add("rope", 1)

    def state(self):
        return [(store.count("rope"), store.count("sail")) for store in (self.depot, self.shop)]

    def test_several_items(self):
        self.depot.transfer(self.shop, {"rope": 5, "sail": 1})
        self.assertEqual(self.state(), [(0, 0), (6, 1)])

    def test_nothing_moves_when_the_last_one_lacks(self):
        with self.assertRaises(OutOfStock):
            self.depot.transfer(self.shop, {"rope": 2, "sail": 2})
        self.assertEqual(self.state(), [(5, 1), (1, 0)])

    def test_nothing_moves_when_a_count_is_wrong(self):
        for count in (0, -1):
            with self.assertRaises(ValueError):
                self.depot.transfer(self.shop, {"rope": 1, "sail": count})
        self.assertEqual(self.state(), [(5, 1), (1, 0)])

    def test_an_unknown_item(self):
        with self.assertRaises(OutOfStock):
            self.depot.transfer(self.shop, {"rope": 1, "mast": 1})
        self.assertEqual(self.state(), [(5, 1), (1, 0)])

    def test_to_itself(self):
        self.depot.transfer(self.depot, {"rope": 5})
        self.assertEqual(self.state(), [(5, 1), (1, 0)])
        self.assertEqual(self.depot.items(), ["rope", "sail"])
        with self.assertRaises(OutOfStock):
            self.depot.transfer(self.depot, {"rope": 6})

    def test_what_is_gone_is_not_listed(self):
        self.depot.transfer(self.shop, {"sail": 1})
        self.assertEqual((self.depot.items(), self.shop.items()), (["rope"], ["rope", "sail"]))

    def test_what_is_removed_is_not_listed(self):
        self.depot.remove("sail", 1)
        self.assertEqual(self.depot.items(), ["rope"])

    def test_the_orders_are_left_alone(self):
        orders = {"rope": 1}
        self.depot.transfer(self.shop, orders)
        self.depot.transfer(self.shop, {})
        self.assertEqual((orders, self.state()), ({"rope": 1}, [(4, 1), (2, 0)]))
