import ast
import unittest

import records
import report


class Behaviour(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(records.parse("Ben;2"), ("ben", "2", ""))
        self.assertEqual(records.parse("Ben; 2; a; b"), ("ben", "2", "a"))
        self.assertIsNone(records.parse("   "))

    def test_no_amount(self):
        for function in (records.parse, lambda line: report.totals([line]), lambda line: report.notes([line])):
            with self.assertRaises(ValueError):
                function("Ana")

    def test_notes_do_not_need_a_number(self):
        self.assertEqual(report.notes(["Ana; many; rope"]), [("ana", "rope")])

    def test_totals_need_one(self):
        with self.assertRaises(ValueError):
            report.totals(["Ana; many"])

    def test_the_rest(self):
        lines = ["#", "", " Ana; -3; ", "ana; 5; x"]
        self.assertEqual((report.totals(lines), report.notes(lines)), ({"ana": 2}, [("ana", "x")]))


class Structure(unittest.TestCase):
    def setUp(self):
        with open(report.__file__, encoding="utf-8") as file:
            self.tree = ast.parse(file.read())

    def test_lines_are_read_in_one_place(self):
        called = {node.func.attr for node in ast.walk(self.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        self.assertFalse(called & {"split", "strip", "partition", "startswith"}, called)

    def test_it_is_used(self):
        imported = {name.name for node in ast.walk(self.tree) if isinstance(node, ast.Import) for name in node.names}
        imported |= {node.module for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)}
        self.assertIn("records", imported)
