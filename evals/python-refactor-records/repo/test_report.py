import unittest

from report import notes, totals

LINES = ["# name; amount; note", "Ana; 3; rope", "", "ben; 2", "ANA; 4; a sail"]


class Report(unittest.TestCase):
    def test_totals(self):
        self.assertEqual(totals(LINES), {"ana": 7, "ben": 2})

    def test_notes(self):
        self.assertEqual(notes(LINES), [("ana", "rope"), ("ana", "a sail")])

    def test_the_amount_is_needed(self):
        with self.assertRaises(ValueError):
            totals(["Ana"])


class Records(unittest.TestCase):
    def test_parse(self):
        import records

        self.assertEqual(records.parse(" Ana ; 3 ; rope "), ("ana", "3", "rope"))
        self.assertIsNone(records.parse("# nothing"))
