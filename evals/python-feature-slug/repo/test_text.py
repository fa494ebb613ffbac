import unittest

import text


class Text(unittest.TestCase):
    def test_shout(self):
        self.assertEqual(text.shout("hey"), "HEY!")

    def test_slug(self):
        self.assertEqual(text.slugify("Hello World"), "hello-world")
        self.assertEqual(text.slugify("a b c"), "a-b-c")
