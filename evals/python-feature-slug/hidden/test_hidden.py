import unittest

import text


class Slug(unittest.TestCase):
    def test_words(self):
        self.assertEqual(text.slugify("Ships in the Harbour"), "ships-in-the-harbour")

    def test_runs_become_one(self):
        self.assertEqual(text.slugify("Hello,   World"), "hello-world")

    def test_nothing_at_the_ends(self):
        self.assertEqual(text.slugify("  Hello World!  "), "hello-world")

    def test_digits_stay(self):
        self.assertEqual(text.slugify("C++ in 21 days"), "c-in-21-days")

    def test_nothing_and_the_rest_of_the_module(self):
        self.assertEqual((text.slugify(""), text.slugify("?!"), text.shout("a")), ("", "", "A!"))
