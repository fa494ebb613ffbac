"""What each assertion of unittest says."""

import unittest
import warnings
import logging


class Line(Exception):
    pass


class Says(unittest.TestCase):
    maxDiff = 200

    def test_equal(self):
        self.assertEqual(1, 2)

    def test_equal_strings_with_an_operator(self):
        self.assertEqual("a != b", "a != c")

    def test_equal_message(self):
        self.assertEqual(1 + 1, 3, "the till: is short")

    def test_equal_lists(self):
        self.assertEqual([1, 2, 3], [1, 2, 4])

    def test_equal_lists_long(self):
        self.assertEqual(list(range(40)), list(range(1, 41)))

    def test_equal_tuples(self):
        self.assertEqual((1, "a, b"), (1, "a"))

    def test_equal_sets(self):
        self.assertEqual({1, 2}, {2, 3})

    def test_equal_dicts(self):
        self.assertEqual({"a": 1}, {"a": 2})

    def test_equal_strings(self):
        self.assertEqual("one\ntwo", "one\nthree")

    def test_equal_sequences(self):
        self.assertSequenceEqual([1, 2], (1, 3))

    def test_equal_counts(self):
        self.assertCountEqual([1, 2, 2], [1, 2, 3])

    def test_not_equal(self):
        self.assertNotEqual(3, 3)

    def test_almost(self):
        self.assertAlmostEqual(1.0, 1.5)

    def test_almost_delta(self):
        self.assertAlmostEqual(1.0, 1.5, delta=0.1)

    def test_not_almost(self):
        self.assertNotAlmostEqual(1.0, 1.0)

    def test_not_almost_delta(self):
        self.assertNotAlmostEqual(1.0, 1.5, delta=1)

    def test_true(self):
        self.assertTrue([])

    def test_false(self):
        self.assertFalse("a is not b")

    def test_true_message(self):
        self.assertTrue(0, "nothing: is there")

    def test_is(self):
        self.assertIs(True, False)

    def test_is_not(self):
        self.assertIsNot(None, None)

    def test_none(self):
        self.assertIsNone("x")

    def test_not_none(self):
        self.assertIsNotNone(None)

    def test_in(self):
        self.assertIn("x", ["a", "b"])

    def test_not_in(self):
        self.assertNotIn("a", "a not in b")

    def test_instance(self):
        self.assertIsInstance(3, str)

    def test_not_instance(self):
        self.assertNotIsInstance(3, int)

    def test_greater(self):
        self.assertGreater(3, 5)

    def test_greater_equal(self):
        self.assertGreaterEqual(3, 5)

    def test_less(self):
        self.assertLess(5, 3)

    def test_less_equal(self):
        self.assertLessEqual(5, 3)

    def test_regex(self):
        self.assertRegex("a b", "c != d")

    def test_not_regex(self):
        self.assertNotRegex("abc", "b")

    def test_raises(self):
        with self.assertRaises(ValueError):
            pass

    def test_raises_by(self):
        self.assertRaises(ValueError, int, "3")

    def test_raises_regex(self):
        with self.assertRaisesRegex(ValueError, "no change"):
            raise ValueError("the till is closed")

    def test_warns(self):
        with self.assertWarns(DeprecationWarning):
            pass

    def test_warns_regex(self):
        with self.assertWarnsRegex(UserWarning, "old"):
            warnings.warn("new", UserWarning)

    def test_logs(self):
        with self.assertLogs("till", level="ERROR"):
            pass

    def test_no_logs(self):
        with self.assertNoLogs("till", level="INFO"):
            logging.getLogger("till").info("open")

    def test_fail(self):
        self.fail("3 != 5 said somebody")

    def test_bare_assert(self):
        assert 3 == 5

    def test_assert_message(self):
        assert 3 == 5, "3 is not 5"

    def test_error(self):
        raise Line("the till is closed\nand locked")

    def test_cause(self):
        try:
            {}["price"]
        except KeyError as error:
            raise Line("no price") from error

    def test_exit(self):
        raise SystemExit(3)

    def test_sub(self):
        for price in (1, 2, 3):
            with self.subTest("each price", price=price):
                self.assertEqual(price, 2)

    def test_sub_bare(self):
        with self.subTest(price=1):
            self.assertEqual(1, 2)
        with self.subTest("only words"):
            self.assertEqual(1, 2)

    @unittest.expectedFailure
    def test_better_than_expected(self):
        self.assertEqual(1, 1)

    @unittest.expectedFailure
    def test_as_expected(self):
        self.assertEqual(1, 2)

    @unittest.skip("later")
    def test_skipped(self):
        pass


class SetUpFails(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no till")

    def test_never(self):
        pass


class TearDownFails(unittest.TestCase):
    def tearDown(self):
        raise RuntimeError("the till does not close")

    @classmethod
    def tearDownClass(cls):
        raise RuntimeError("the shop does not close")

    def test_documented(self):
        """Says what it does."""
        self.assertEqual(1, 2)
